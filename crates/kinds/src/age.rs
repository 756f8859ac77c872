//! Ages as `kubectl get` shows them: two digits of precision, never a fraction.
//!
//! The thresholds are those of apimachinery's `duration.HumanDuration`, including its gaps: 119 seconds are `119s`, 120
//! are `2m`. Time is passed in, so that a Table of many rows has one "now". The CRD columns of type `date` use the same
//! function.

use jiff::Timestamp;

/// The duration in seconds as `kubectl` shows ages: `5s`, `3m20s`, `4h`, `2d3h`, `1y40d`.
///
/// A second unit is shown only where the first is small. More than a second in the future is `<invalid>`.
///
/// ```
/// use listwatch_kinds::age::human_duration;
///
/// assert_eq!(human_duration(119), "119s");
/// assert_eq!(human_duration(3 * 3600 + 61), "3h1m");
/// assert_eq!(human_duration(400 * 86_400), "400d");
/// ```
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    let minutes = seconds / 60;
    let hours = minutes / 60;
    let days = hours / 24;
    match seconds {
        i64::MIN..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// Two units, or the first alone if there is none of the second.
fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

/// The age of a time written in RFC 3339; `<unknown>` if there is none, `<invalid>` for another text.
///
/// One second in the future is `0s`: clocks of client and server may differ a little.
///
/// ```
/// use listwatch_kinds::age::since;
///
/// let now = "2026-01-01T00:02:00Z".parse().unwrap();
/// assert_eq!(since("2026-01-01T00:00:00Z", now), "2m");
/// assert_eq!(since("", now), "<unknown>");
/// assert_eq!(since("yesterday", now), "<invalid>");
/// ```
#[must_use]
pub fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => human_duration(now.as_second() - then.as_second()),
        Err(_) if time.is_empty() => "<unknown>".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_as_kubectl_shows_them() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(seconds), expected);
        }
    }

    #[test]
    fn no_time_is_unknown() {
        assert_eq!(since("", Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since("1970-01-01T00:00:00Z", Timestamp::from_second(7).unwrap()), "7s");
    }
}
