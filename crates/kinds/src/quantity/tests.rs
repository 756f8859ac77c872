//! Tests of parsing, canonical forms and sums of quantities.

use super::*;

#[test]
fn canonical_form_has_the_largest_suffix_that_loses_nothing() {
    for (given, wanted) in [
        ("1", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("100m", "100m"),
        ("2000m", "2"),
        (".5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1Ki", "1Ki"),
        ("1000Ki", "1000Ki"),
        ("0.1Ki", "102400m"),
        ("12e6", "12e6"),
        ("1E3", "1e3"),
        ("1200e3", "1200e3"),
        ("+5", "5"),
        ("-5Mi", "-5Mi"),
        ("0", "0"),
        ("0Gi", "0"),
        ("00012", "12"),
        ("1.0", "1"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("9223372036854775807", "9223372036854775807"),
        ("99999999999999999999", "9223372036854775807"),
        ("16Ei", "9223372036854775807"),
    ] {
        assert_eq!(canonical(given).as_deref(), Ok(wanted), "{given}");
    }
}

#[test]
fn malformed_quantities_are_refused() {
    for text in ["", "abc", "1.2.3", "1gi", "1 Gi", "Gi", "1e", "1e99999999999", ".", "-", "1Kii", "١"] {
        assert_eq!(canonical(text), Err(InvalidQuantity), "{text}");
    }
}

#[test]
fn amounts_compare_across_suffixes() {
    assert_eq!(compare("1Gi", "1G"), Ok(Ordering::Greater));
    assert_eq!(compare("1000m", "1"), Ok(Ordering::Equal));
    assert_eq!(compare("-1", "0"), Ok(Ordering::Less));
}

proptest::proptest! {
    #[test]
    fn the_canonical_form_is_canonical_and_the_same_amount(
        number in "[0-9]{1,12}(\\.[0-9]{1,6})?", suffix in "(n|u|m||k|M|G|Ki|Mi|Gi|e3|e-2)",
    ) {
        let given = format!("{number}{suffix}");
        let once = canonical(&given).unwrap().into_owned();
        proptest::prop_assert_eq!(canonical(&once).unwrap(), once.as_str());
        proptest::prop_assert_eq!(compare(&given, &once), Ok(Ordering::Equal));
        // The shortcut and the long way agree.
        proptest::prop_assert_eq!(parse(&given).unwrap().to_text(), once);
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,40}") {
        let _ = canonical(&text);
    }
}
