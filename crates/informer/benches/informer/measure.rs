//! Processor time and memory of this process, and running a part of the benchmark in another.

use std::fs;
use std::process::Command;

/// Microseconds of processor time of all threads so far. The kernel counts in hundredths of a second.
pub(crate) fn cpu_micros() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) * 10_000.0
}

fn status_kb(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(crate) fn resident_mb() -> f64 {
    status_kb("VmRSS:") / 1024.0
}

pub(crate) fn peak_mb() -> f64 {
    status_kb("VmHWM:") / 1024.0
}

pub(crate) fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Runs this benchmark with other arguments in a new process; returns the numbers it prints.
pub(crate) fn elsewhere(arguments: &[&str]) -> Vec<f64> {
    let output = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    numbers
}
