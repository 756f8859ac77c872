//! Validation of cron schedules, as the parser of the CronJob controller (`robfig/cron`) reads them.
//!
//! Only the syntax is checked: five fields, names of months and days, ranges, steps and the `@` descriptors; no time is
//! computed here. Messages are the parser's, because they appear in field errors. `TZ=` and `CRON_TZ=` prefixes parse,
//! but validation of CronJobs refuses them elsewhere.

/// The error of a schedule that `robfig/cron` would not parse. The texts are that parser's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There are five fields: minute, hour, day of month, month, day of week.
    #[error("expected exactly 5 fields, found {found}: [{fields}]")]
    FieldCount {
        /// The number of fields.
        found: usize,
        /// The fields, in order.
        fields: String,
    },
    /// A field is neither a number, a name, a range nor a step.
    #[error("failed to parse int from {0}: strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotANumber(String),
    /// A number is outside of its field.
    #[error("value ({value}) outside of range ({low}..{high}): {field}")]
    OutOfRange {
        /// The number.
        value: u32,
        /// The smallest allowed.
        low: u32,
        /// The largest allowed.
        high: u32,
        /// The field as written.
        field: String,
    },
    /// A range that ends before it begins.
    #[error("beginning of range ({start}) beyond end of range ({end}): {field}")]
    Backwards {
        /// The first value of the range.
        start: u32,
        /// The last value of the range, which is below the first.
        end: u32,
        /// The field as written.
        field: String,
    },
    /// A step of zero never gets anywhere.
    #[error("step of range should be a positive number: {0}")]
    ZeroStep(String),
    /// The text after `@every` is not a duration.
    #[error("failed to parse duration {0}: time: {1} {2:?}")]
    Duration(String, String, String),
    /// A word after `@` that is not known.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Checks the syntax of a schedule; a day that no month has, such as 31 February, is accepted.
///
/// Linear in the text.
///
/// ```
/// use listwatch_kinds::cron::check;
///
/// assert!(check("*/5 8-18 * * mon-fri").is_ok());
/// assert!(check("@hourly").is_ok());
/// assert_eq!(check("* * *").unwrap_err().to_string(), "expected exactly 5 fields, found 3: [* * *]");
/// ```
///
/// # Errors
/// The problem with the expression.
pub fn check(schedule: &str) -> Result<(), ScheduleError> {
    let schedule = schedule
        .strip_prefix("TZ=")
        .or_else(|| schedule.strip_prefix("CRON_TZ="))
        .map_or(schedule, |rest| rest.split_once(' ').map_or("", |(_, fields)| fields.trim_start()));
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let fields: Vec<_> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(ScheduleError::FieldCount { found: fields.len(), fields: fields.join(" ") });
    };
    field(minute, 0, 59, &[])?;
    field(hour, 0, 23, &[])?;
    field(day, 1, 31, &[])?;
    field(month, 1, 12, &MONTHS)?;
    field(weekday, 0, 6, &DAYS)
}

/// `@every` takes a duration.
fn descriptor(word: &str) -> Result<(), ScheduleError> {
    match word {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        other => match other.strip_prefix("@every ") {
            Some(every) => duration(every)
                .map_err(|why| ScheduleError::Duration(other.to_owned(), why, every.to_owned())),
            None => Err(ScheduleError::Descriptor(other.to_owned())),
        },
    }
}

/// Checks a duration as Go's `time.ParseDuration` does: decimals, each with a unit, behind an optional sign. The error is the
/// text in front of the duration in Go's message.
fn duration(text: &str) -> Result<(), String> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    let invalid = || Err("invalid duration".to_owned());
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let number = rest.strip_suffix(after).unwrap_or_default();
        if number.matches('.').count() > 1 || !number.contains(|letter: char| letter.is_ascii_digit()) {
            return invalid();
        }
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        match unit {
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = next,
            "" => return Err("missing unit in duration".to_owned()),
            other => return Err(format!("unknown unit {other:?} in duration")),
        }
    }
    Ok(())
}

/// Lists of ranges with steps. Empty parts of a list are passed over, as the parser does.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Result<(), ScheduleError> {
    text.split(',').filter(|range| !range.is_empty()).try_for_each(|range| {
        let (span, step) = range.split_once('/').map_or((range, None), |(span, step)| (span, Some(step)));
        if let Some(step) = step
            && number(step, &[], 0)? == 0
        {
            return Err(ScheduleError::ZeroStep(range.to_owned()));
        }
        if matches!(span, "*" | "?") {
            return Ok(());
        }
        let mut before = None;
        span.splitn(2, '-').try_for_each(|end| {
            let value = number(end, names, low)?;
            if !(low..=high).contains(&value) {
                return Err(ScheduleError::OutOfRange { value, low, high, field: range.to_owned() });
            }
            match before.replace(value) {
                Some(start) if start > value => {
                    Err(ScheduleError::Backwards { start, end: value, field: range.to_owned() })
                }
                _ => Ok(()),
            }
        })
    })
}

/// A number, or the name of a month or day.
fn number(text: &str, names: &[&str], first: u32) -> Result<u32, ScheduleError> {
    let lower = text.to_ascii_lowercase();
    match names.iter().position(|name| *name == lower) {
        Some(index) => Ok(u32::try_from(index).unwrap_or(0) + first),
        None => text.parse().map_err(|_| ScheduleError::NotANumber(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in [
            "* * * * *",
            "*/5 0-3 1,15 jan-mar MON",
            "1,2, , * * *",
            "@daily",
            "@every 5m",
            "TZ=UTC 0 0 * * *",
            "0 12 ? * 6",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "* * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "x * * * *",
            "*/0 * * * *",
            "@never",
            "@every ",
            "@every 5",
            "@every m",
            "@every 1.2.3s",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(check("@every 1h30m0.5s"), Ok(()));
        let message = "failed to parse duration @every 1x: time: unknown unit \"x\" in duration \"1x\"";
        assert_eq!(check("@every 1x").unwrap_err().to_string(), message);
    }
}
