//! The version, commit and build date of this program. The build script finds the last two.

/// The version of the package.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit in hexadecimal, or `unknown`.
pub(crate) const COMMIT: &str = env!("LISTWATCH_COMMIT");
/// The date of the commit in RFC 3339, or `unknown`.
pub(crate) const DATE: &str = env!("LISTWATCH_BUILD_DATE");
/// All three, as `listwatch --version` prints them.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("LISTWATCH_COMMIT"),
    ", ",
    env!("LISTWATCH_BUILD_DATE"),
    ")"
);
