//! Time zones of CronJobs.

use super::checks;
use crate::field::Errors;
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] = checks![time_zone_is_known];

/// A zone is named after its place; the one of the machine is none. A zone that was accepted may stay.
fn time_zone_is_known(at: &At<'_>, errors: &mut Errors) {
    let Some(zone) = at.value.as_str().filter(|_| at.old != Some(at.value)) else { return };
    if zone.is_empty() {
        errors.invalid(at.path, zone, "timeZone must be nil or non-empty string");
        return;
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(at.path, zone, detail);
    }
    // The word that a machine knows its own zone by is known, the same in other letters is not.
    if zone != "Local" && !is_zone(zone) {
        errors.invalid(at.path, zone, format!("unknown time zone {zone}"));
    }
}

/// Returns true if a name is in the form and from the areas of the IANA database. Places come and go with its releases, and a
/// server need not have one installed.
fn is_zone(name: &str) -> bool {
    const AREAS: [&str; 16] = [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Brazil",
        "Canada",
        "Chile",
        "Etc",
        "Europe",
        "Indian",
        "Mexico",
        "Pacific",
        "US",
    ];
    const ALONE: [&str; 43] = [
        "CET",
        "CST6CDT",
        "Cuba",
        "EET",
        "EST",
        "EST5EDT",
        "Egypt",
        "Eire",
        "Factory",
        "GB",
        "GB-Eire",
        "GMT",
        "GMT+0",
        "GMT-0",
        "GMT0",
        "Greenwich",
        "HST",
        "Hongkong",
        "Iceland",
        "Iran",
        "Israel",
        "Jamaica",
        "Japan",
        "Kwajalein",
        "Libya",
        "MET",
        "MST",
        "MST7MDT",
        "NZ",
        "NZ-CHAT",
        "Navajo",
        "PRC",
        "PST8PDT",
        "Poland",
        "Portugal",
        "ROC",
        "ROK",
        "Singapore",
        "Turkey",
        "UCT",
        "UTC",
        "Universal",
        "Zulu",
    ];
    let mut parts = name.split('/');
    let known = match name.contains('/') {
        true => parts.next().is_some_and(|area| AREAS.contains(&area)),
        false => ALONE.contains(&name) || matches!(name, "W-SU" | "WET"),
    };
    let is_place = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+'))
    };
    known && parts.all(is_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_places() {
        for (zone, known) in [
            ("Europe/Berlin", true),
            ("America/Argentina/Buenos_Aires", true),
            ("Etc/GMT+5", true),
            ("UTC", true),
            ("Foo/Bar", false),
            ("Europe/", false),
            ("Mars", false),
        ] {
            assert_eq!(is_zone(zone), known, "{zone}");
        }
    }
}
