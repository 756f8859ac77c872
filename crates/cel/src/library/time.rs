//! Timestamps and durations.
//!
//! A timestamp is a civil time in UTC between year 1 and 9999, the range of protobuf's Timestamp; jiff's own timestamps
//! end a little earlier. Getters take a zone by name or offset; months, days of the year and of the month count from
//! zero, as in CEL. Durations are nanoseconds in an `i64` and parse like Go's `time.ParseDuration`. Results outside the
//! range are errors.

use std::cmp::Ordering;
use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time, date};
use jiff::tz::{Offset, TimeZone};

use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

const SECOND: i64 = 1_000_000_000;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// A point in time between the beginning of year 1 and the end of year 9999.
///
/// It prints with the offset that it was read with, as in Go, and is compared and taken apart in UTC.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    at: DateTime,
    /// Seconds east of UTC.
    offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl Timestamp {
    /// The beginning of year 1, which Go's zero time is.
    pub(crate) const ZERO: Self = Self { at: date(1, 1, 1).at(0, 0, 0, 0), offset: 0 };

    /// Years 1 to 9999, as in Protobuf.
    fn new(at: DateTime) -> Option<Self> {
        (at >= Self::ZERO.at).then_some(Self { at, offset: 0 })
    }

    /// The whole seconds since 1970, rounded down: negative before.
    #[must_use]
    pub fn seconds(self) -> i64 {
        let since = self.at.duration_since(EPOCH);
        since.as_secs() - i64::from(since.subsec_nanos() < 0)
    }

    /// The time between two points.
    pub(super) fn since(self, other: Self) -> i128 {
        self.at.duration_since(other.at).as_nanos()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.at.checked_add(SignedDuration::from_secs(self.offset.into())).unwrap_or(self.at);
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs() / 60);
        match self.offset {
            0 => write!(f, "{local}Z"),
            _ => write!(f, "{local}{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        }
    }
}

/// cel-go's message.
fn overflow() -> EvalError {
    EvalError::new("timestamp overflow")
}

/// Returns the functions on times and durations. Months, days of the week and days of the year count from zero,
/// `getDate` from one: that is CEL's definition.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "getFullYear" => |_, args| part(args, "getFullYear", |at| at.year().into()),
        "getMonth" => |_, args| part(args, "getMonth", |at| i64::from(at.month()) - 1),
        "getDayOfYear" => |_, args| part(args, "getDayOfYear", |at| i64::from(at.day_of_year()) - 1),
        "getDayOfMonth" => |_, args| part(args, "getDayOfMonth", |at| i64::from(at.day()) - 1),
        "getDate" => |_, args| part(args, "getDate", |at| at.day().into()),
        "getDayOfWeek" => {
            |_, args| part(args, "getDayOfWeek", |at| at.weekday().to_sunday_zero_offset().into())
        }
        "getHours" => |_, args| match args {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / (3600 * SECOND))),
            _ => part(args, "getHours", |at| at.hour().into()),
        },
        "getMinutes" => |_, args| match args {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / (60 * SECOND))),
            _ => part(args, "getMinutes", |at| at.minute().into()),
        },
        "getSeconds" => |_, args| match args {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / SECOND)),
            _ => part(args, "getSeconds", |at| at.second().into()),
        },
        "getMilliseconds" => |_: &mut Meter, args| match args {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
            _ => part(args, "getMilliseconds", |at| at.millisecond().into()),
        },
        _ => return None,
    })
}

/// A part of a time in a zone, UTC unless one is given.
fn part<'a>(args: &[Value<'a>], name: &str, part: fn(&DateTime) -> i64) -> Evaluated<'a> {
    let local = match args {
        [Value::Timestamp(at)] => at.at,
        [Value::Timestamp(at), Value::String(zone)] => {
            let zone = time_zone(zone)?;
            // The last days of year 9999 are out of range for the conversion between zones.
            let instant = Offset::UTC.to_timestamp(at.at).unwrap_or(jiff::Timestamp::MAX);
            let offset = SignedDuration::from_secs(zone.to_offset(instant).seconds().into());
            at.at.saturating_add(offset)
        }
        _ => return Err(no_overload(name, args)),
    };
    Ok(Value::Int(part(&local)))
}

/// A zone by its name, or by its offset such as `-08:00`.
///
/// Names are looked up in jiff's time zone database; an offset needs none.
fn time_zone(name: &str) -> Result<TimeZone, EvalError> {
    let Some((hours, minutes)) = name.split_once(':') else {
        let unknown = |_| EvalError::new(format!("unknown time zone {name}"));
        return match name {
            "" | "UTC" => Ok(TimeZone::UTC),
            _ => TimeZone::get(name).map_err(unknown),
        };
    };
    let number = |text: &str| {
        text.parse::<i32>()
            .map_err(|_| EvalError::new(format!("strconv.Atoi: parsing \"{text}\": invalid syntax")))
    };
    let (hour, minute) = (number(hours)?, number(minutes)?);
    let seconds = hour
        .saturating_mul(3600)
        .saturating_add(minute.saturating_mul(60) * if hours.starts_with('-') { -1 } else { 1 });
    Offset::from_seconds(seconds)
        .map(TimeZone::fixed)
        .map_err(|_| EvalError::new(format!("unknown time zone {name}")))
}

/// A time moved by a span.
///
/// # Errors
///
/// If the result is outside of the years 1 to 9999.
pub(super) fn shift(at: Timestamp, nanos: i64) -> Result<Timestamp, EvalError> {
    let moved = at.at.checked_add(SignedDuration::from_nanos(nanos)).ok();
    let moved = moved.and_then(Timestamp::new).ok_or_else(overflow)?;
    Ok(Timestamp { offset: at.offset, ..moved })
}

/// Seconds since 1970.
pub(super) fn from_seconds(seconds: i64) -> Result<Timestamp, EvalError> {
    let moved = EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok();
    moved.and_then(Timestamp::new).ok_or_else(overflow)
}

/// A time as RFC 3339 writes it.
///
/// Stricter than RFC 3339 in that `T` and `Z` are upper case, as in Go. Digits beyond nanoseconds are cut off.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let (day, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.strip_prefix('T')?.split_at_checked(8)?;
    let day: Date = day.parse().ok()?;
    let mut numbers =
        clock.split(':').map(|part| if part.len() == 2 { part.parse::<i8>().ok() } else { None });
    let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
            after.split_at_checked(end)?
        }
        None => ("", rest),
    };
    let nanos = i32::try_from(fraction_of(fraction, SECOND)).ok()?;
    let at = day.to_datetime(Time::new(hour, minute, second, nanos).ok()?);
    let offset = if zone == "Z" { 0 } else { offset(zone)? };
    let utc = Timestamp::new(at.checked_sub(SignedDuration::from_secs(offset)).ok()?)?;
    Some(Timestamp { offset: i32::try_from(offset).ok()?, ..utc })
}

/// An offset such as `+02:00` in seconds.
fn offset(zone: &str) -> Option<i64> {
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    let number = |text: &str, most: i64| {
        let number: i64 = if text.len() == 2 { text.parse().ok()? } else { return None };
        (0..=most).contains(&number).then_some(number)
    };
    Some(sign * (number(hours, 24)? * 3600 + number(minutes, 60)? * 60))
}

/// A day.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    let day: Date = if text.len() == 10 { text.parse().ok()? } else { return None };
    Timestamp::new(day.to_datetime(Time::midnight()))
}

/// Go's units of durations, in nanoseconds.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// A span as Go writes it, such as `1h30m` or `-1.5s`.
///
/// At most 200 bytes, more than any sensible duration; units may repeat and come in any order, as in Go.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() || rest.len() > 200 {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(end)?;
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(unit_end)?;
        total = total.checked_add(term_of(number, unit)?)?;
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A number with a unit, in nanoseconds.
fn term_of(number: &str, unit: &str) -> Option<i128> {
    let scale = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    whole.checked_mul(scale.into())?.checked_add(fraction_of(fraction, scale))
}

/// A decimal fraction of a unit, cut off at nanoseconds.
fn fraction_of(digits: &str, scale: i64) -> i128 {
    let digits = digits.get(..digits.len().min(18)).unwrap_or("");
    let number: i128 = digits.parse().unwrap_or(0);
    number * i128::from(scale) / 10_i128.pow(u32::try_from(digits.len()).unwrap_or(0))
}

/// A time with as many digits of the second as it has.
pub(crate) fn format_timestamp(at: Timestamp) -> String {
    at.to_string()
}

/// A span in seconds.
pub(crate) fn format_duration(nanos: i64) -> String {
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let (seconds, rest) = (nanos / SECOND.unsigned_abs(), nanos % SECOND.unsigned_abs());
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    format!("{sign}{seconds}.{}s", format!("{rest:09}").trim_end_matches('0'))
}
