//! `skip_scalars!`: visitor methods that ignore every scalar.
//!
//! A walk that looks only for keys, such as one for the order of fields or for duplicates in YAML, implements
//! `visit_map` and `visit_seq` and would otherwise repeat a dozen empty methods. It is a macro because serde has no
//! default for them other than an error.
//!
//! Used for the order of fields in type errors (`listwatch-kinds`) and for duplicates in YAML bodies (the server).

/// The methods of a `serde::de::Visitor` that pass over everything but maps and sequences.
#[macro_export]
macro_rules! skip_scalars {
    () => {
        $crate::skip_scalars!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_i128(i128), visit_u128(u128));
        $crate::skip_scalars!(visit_f64(f64), visit_str(&str), visit_bytes(&[u8]), visit_none(), visit_unit());

        /// Numbers and raw values that a format wraps in a type of its own.
        fn visit_newtype_struct<D: ::serde::Deserializer<'de>>(self, inner: D) -> Result<(), D::Error> {
            <::serde::de::IgnoredAny as ::serde::Deserialize>::deserialize(inner).map(drop)
        }
    };
    ($($method:ident($($scalar:ty)?)),+) => {
        $(fn $method<E>(self $(, _: $scalar)?) -> Result<(), E> {
            Ok(())
        })+
    };
}
