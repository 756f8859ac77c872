//! Process metrics: memory, CPU time, file descriptors, start time, under the names that every Prometheus client
//! library uses.
//!
//! Read from `/proc` at each scrape and not sampled in between. Systems without it have the families but no samples.

use std::fmt::Write as _;
use std::fs;

use super::metrics::family;

/// Linux reports processor time to user space in hundredths of a second on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// One sample: name, type, help, value.
type ProcessSample = (&'static str, &'static str, &'static str, Option<f64>);

/// Writes memory, processor time, open files and the time of the start.
pub(crate) fn write(out: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    let samples: [ProcessSample; 7] = [
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            cpu(&stat),
        ),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", kib(&status, "VmRSS:")),
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", kib(&status, "VmSize:")),
        ("process_open_fds", "gauge", "Number of open file descriptors.", open_files()),
        ("process_max_fds", "gauge", "Maximum number of open file descriptors.", max_files()),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            started(&stat, &boot),
        ),
        ("process_threads", "gauge", "Number of threads.", number(&status, "Threads:")),
    ];
    for (name, kind, help, value) in samples {
        family(out, name, kind, help);
        if let Some(value) = value {
            let _ = writeln!(out, "{name} {value}");
        }
    }
}

/// The start of the process in seconds since 1970; `None` on systems without `/proc`.
pub(crate) fn started_at() -> Option<f64> {
    started(&fs::read_to_string("/proc/self/stat").ok()?, &fs::read_to_string("/proc/stat").ok()?)
}

/// The fields of `/proc/self/stat` after the name of the program, which may contain anything: the first is the state.
fn field(stat: &str, at: usize) -> Option<f64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(at)?.parse().ok()
}

/// User and system time, fields 14 and 15 of the manual, counted after the name.
fn cpu(stat: &str) -> Option<f64> {
    Some((field(stat, 11)? + field(stat, 12)?) / TICKS_PER_SECOND)
}

/// Boot time and ticks since then, so it moves if the clock is set.
fn started(stat: &str, boot: &str) -> Option<f64> {
    Some(number(boot, "btime")? + field(stat, 19)? / TICKS_PER_SECOND)
}

/// The number behind a name in a file of `/proc`.
fn number(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Memory is given in KiB there and in bytes in metrics.
fn kib(status: &str, name: &str) -> Option<f64> {
    number(status, name).map(|kib| kib * 1024.0)
}

fn open_files() -> Option<f64> {
    // The directory that is being read is one of them.
    fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1) as f64)
}

/// The soft limit on open files.
fn max_files() -> Option<f64> {
    number(&fs::read_to_string("/proc/self/limits").ok()?, "Max open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_may_contain_anything() {
        let stat = "7 (a ) b 1) S 1 7 7 0 -1 4194304 1 0 0 0 250 50 0 0 20 0 9 0 1000 1 1";
        assert_eq!(cpu(stat), Some(3.0));
        assert_eq!(started(stat, "cpu 1\nbtime 1700000000\n"), Some(1_700_000_010.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_files_and_a_start() {
        let mut text = String::new();
        write(&mut text);
        for name in ["process_resident_memory_bytes ", "process_open_fds ", "process_start_time_seconds "] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            let value: f64 = line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or_default();
            assert!(value > 0.0, "{text}");
        }
    }
}
