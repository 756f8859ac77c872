//! The version, commit and build date of this program.
//!
//! Commit and date come from the build script through environment variables, and are `unknown` in a build without git,
//! such as from a source archive. The date is that of the commit and not of the build, so that the same source makes
//! the same binary.

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
