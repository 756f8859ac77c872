//! Times as the API writes them: RFC 3339 in UTC, in seconds (`Time`) or microseconds (`MicroTime`).
//!
//! Objects are stored canonically, so every time is rewritten to one form on the way in, with fractions of `Time`
//! dropped as Go does. Times that are canonical already, nearly all, are recognised without parsing. Errors are those
//! of Go's `time.Parse`, with the layout and the rest of the text, since clients see them.

use std::borrow::Cow;

use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// A time in UTC. A [`Timestamp`] ends 26 hours before the year 9999 does, and clients write the last second of that year for
/// "never".
pub(crate) type UtcTime = DateTime;

/// The time from which protobuf counts seconds.
const EPOCH: UtcTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Writes a time as `2006-01-02T15:04:05Z`, dropping fractions.
///
/// ```
/// use listwatch_kinds::time::seconds;
///
/// assert_eq!(seconds("2026-01-01T02:00:00.7+02:00").unwrap(), "2026-01-01T00:00:00Z");
/// assert!(seconds("yesterday").is_err());
/// ```
///
/// # Errors
/// The message of Go's parser for what it cannot read.
pub fn seconds(text: &str) -> Result<Cow<'_, str>, String> {
    if is_plain(text.as_bytes()) {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(format_seconds(parse(text, SECONDS)?)))
}

/// Writes a time as `2006-01-02T15:04:05.000000Z`; exactly six digits of a second must be there.
///
/// ```
/// use listwatch_kinds::time::micros;
///
/// assert_eq!(micros("2026-01-01T02:00:00.123456+02:00").unwrap(), "2026-01-01T00:00:00.123456Z");
/// assert!(micros("2026-01-01T00:00:00Z").is_err());
/// ```
///
/// # Errors
/// The message of Go's parser for what it cannot read.
pub fn micros(text: &str) -> Result<String, String> {
    let time = parse(text, MICROS)?;
    let digits = text.get(20..).unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count();
    if text.as_bytes().get(19) == Some(&b'.') && digits == 6 {
        return Ok(format_micros(time));
    }
    let (at, wanted) = if digits > 6 { (26, "Z07:00") } else { (19, ".000000") };
    let rest = text.get(at..).unwrap_or_default();
    Err(format!("parsing time {text:?} as {MICROS:?}: cannot parse {rest:?} as {wanted:?}"))
}

/// A time of protobuf's seconds and nanoseconds; `None` if it is not in the years 0 to 9999.
pub(crate) fn from_parts(seconds: i64, nanos: i32) -> Option<UtcTime> {
    let since = SignedDuration::from_secs(seconds).checked_add(SignedDuration::from_nanos(nanos.into()))?;
    EPOCH.checked_add(since).ok()
}

/// Seconds since 1970 and nanoseconds, as protobuf writes a time.
pub(crate) fn parts(text: &str) -> Option<(i64, i32)> {
    let since = utc(text)?.duration_since(EPOCH);
    Some((since.as_secs(), since.subsec_nanos()))
}

/// The time that it is now, in the canonical form of `Time`.
pub(crate) fn now() -> String {
    format_seconds(Offset::UTC.to_datetime(Timestamp::now()))
}

/// The canonical form of `Time`.
pub(crate) fn format_seconds(time: UtcTime) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The canonical form of `MicroTime`.
pub(crate) fn format_micros(time: UtcTime) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads a time of RFC 3339.
fn utc(text: &str) -> Option<UtcTime> {
    if let Ok(time) = text.parse() {
        return Some(Offset::UTC.to_datetime(time));
    }
    if !text.starts_with("9999-12-3") {
        return None;
    }
    let pieces = Pieces::parse(text).ok()?;
    let ahead = SignedDuration::from_secs(pieces.to_numeric_offset()?.seconds().into());
    pieces.date().to_datetime(pieces.time()?).checked_sub(ahead).ok()
}

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Parses a time of RFC 3339. The error names the first part that does not fit the layout, as Go's does.
fn parse(text: &str, layout: &str) -> Result<UtcTime, String> {
    let shape = |(at, b): (usize, u8)| match at {
        4 | 7 => b == b'-',
        10 => b == b'T',
        13 | 16 => b == b':',
        _ => b.is_ascii_digit(),
    };
    let wrong = text.bytes().enumerate().take(19).position(|b| !shape(b));
    let short = if text.len() < 20 { Some(text.len()) } else { None };
    match (wrong.or(short), utc(text)) {
        (None, Some(time)) => Ok(time),
        (at, _) => Err(parse_error(text, layout, at.unwrap_or(0))),
    }
}

/// Go names the rest of the text and the element of the layout where it stopped.
fn parse_error(text: &str, layout: &str, at: usize) -> String {
    const ELEMENTS: [(usize, &str); 12] = [
        (0, "2006"),
        (4, "-"),
        (5, "01"),
        (7, "-"),
        (8, "02"),
        (10, "T"),
        (11, "15"),
        (13, ":"),
        (14, "04"),
        (16, ":"),
        (17, "05"),
        (19, "Z07:00"),
    ];
    let &(start, element) = ELEMENTS.iter().rev().find(|(start, _)| *start <= at).unwrap_or(&(0, "2006"));
    let rest = text.get(start..).unwrap_or_default();
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
}

/// Already in the form of `Time`, with numbers in range: the usual case, recognised without parsing.
///
/// Days after the 28th take the slow path, which checks the month.
fn is_plain(b: &[u8]) -> bool {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', i1, i2, b':', s1, s2, b'Z'] = b
    else {
        return false;
    };
    let two = |a: u8, b: u8| (a.wrapping_sub(b'0')).wrapping_mul(10).wrapping_add(b.wrapping_sub(b'0'));
    [y1, y2, y3, y4, m1, m2, d1, d2, h1, h2, i1, i2, s1, s2].iter().all(u8::is_ascii_digit)
        && (1..=12).contains(&two(m1, m2))
        // Days after the 28th depend on the month and are left to the parser.
        && (1..=28).contains(&two(d1, d2))
        && two(h1, h2) < 24
        && two(i1, i2) < 60
        && two(s1, s2) < 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_and_whole_seconds() {
        assert_eq!(seconds("2026-01-02T03:04:05Z").unwrap(), "2026-01-02T03:04:05Z");
        assert_eq!(seconds("2026-01-02T03:04:05.987Z").unwrap(), "2026-01-02T03:04:05Z");
        assert_eq!(seconds("2026-01-31T03:04:05+02:00").unwrap(), "2026-01-31T01:04:05Z");
    }

    #[test]
    fn micro_times_have_six_digits() {
        assert_eq!(micros("2026-01-02T03:04:05.000006Z").unwrap(), "2026-01-02T03:04:05.000006Z");
        assert_eq!(micros("2026-01-02T04:04:05.000006+01:00").unwrap(), "2026-01-02T03:04:05.000006Z");
        assert_eq!(
            micros("2026-01-02T03:04:05Z").unwrap_err(),
            r#"parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
        assert!(micros("2026-01-02T03:04:05.1234567Z").is_err());
    }

    #[test]
    fn the_last_second_of_the_year_9999_is_a_time() {
        for (text, expected) in [
            ("9999-12-31T23:59:59Z", Some("9999-12-31T23:59:59Z")),
            ("9999-12-31T23:59:59.999+01:00", Some("9999-12-31T22:59:59Z")),
            ("9999-12-30T23:00:00-02:30", Some("9999-12-31T01:30:00Z")),
            ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59-01:00", None),
            ("9999-12-32T00:00:00Z", None),
            ("9999-12-31T23:59:59", None),
        ] {
            assert_eq!(seconds(text).ok().as_deref(), expected, "{text}");
        }
        assert_eq!(micros("9999-12-31T23:59:59.999999Z").unwrap(), "9999-12-31T23:59:59.999999Z");
        let (seconds, nanos) = parts("9999-12-31T23:59:59.5Z").unwrap();
        assert_eq!((seconds, nanos), (253_402_300_799, 500_000_000));
        assert_eq!(format_micros(from_parts(seconds, nanos).unwrap()), "9999-12-31T23:59:59.500000Z");
        assert_eq!((from_parts(seconds + 1, 0), from_parts(i64::MAX, i32::MAX)), (None, None));
        let before = from_parts(-1, 0).unwrap();
        assert_eq!(
            (format_seconds(before).as_str(), parts("1969-12-31T23:59:59Z")),
            ("1969-12-31T23:59:59Z", Some((-1, 0)))
        );
    }

    #[test]
    fn malformed_times_are_refused_with_the_messages_of_go() {
        assert_eq!(
            seconds("yesterday").unwrap_err(),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#
        );
        for text in ["", "2026-02-30T00:00:00Z", "2026-01-02", "2026-01-02T25:00:00Z", "2026-01-02 03:04:05Z"]
        {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}") {
            let _ = (seconds(&text), micros(&text));
        }
    }
}
