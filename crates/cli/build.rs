//! Options for the linker of a release build.
//!
//! Packed relocations spare a megabyte of tables that the loader would read at every start otherwise, and that would stay in
//! memory. Only in release builds, where it counts: old versions of mold, which developers use for speed, pack them without
//! the version that the loader insists on, and the program does not start.
//!
//! Rust's own linker, lld, also folds functions that are equal, and puts those that run at a start and in ordinary requests next
//! to each other: the kernel maps code in pieces of 64 KB, so that functions that are spread keep five times as much in memory as
//! they are long. Other linkers do not know these options. Which one is in use is a matter of the toolchain and its settings, so
//! the script tries them on an empty program.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if release && target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        arrange();
    }
}

/// Folds equal functions and groups those of `order.txt`, if the linker can.
fn arrange() {
    println!("cargo:rerun-if-changed=order.txt");
    let Some(script) = order_script() else { return };
    let options = ["-Wl,--icf=all".to_owned(), format!("-Wl,-T,{}", script.display())];
    if links(&options) {
        options.iter().for_each(|option| println!("cargo:rustc-link-arg-bins={option}"));
    }
}

/// Writes the linker script that puts the functions of `order.txt` before all others, those of a start first. A name stands there
/// as in the symbol table; a star takes the place of the hashes, which differ between compilers. The names of sections say, too, what
/// is hot or cold by the profile of requests, as most functions of a start are. Last comes what has no section of its own, the
/// assembler of the cryptographic library.
///
/// The names of a group are one pattern: the linker walks over all sections of the program once per pattern, and thousands of
/// patterns would take it forty seconds instead of five.
fn order_script() -> Option<PathBuf> {
    let names = std::fs::read_to_string("order.txt").ok()?;
    let groups: String = names.split("\n\n").map(pattern).collect();
    let path = Path::new(&std::env::var_os("OUT_DIR")?).join("order.ld");
    let script =
        format!("SECTIONS {{\n  .text.ordinary : {{\n{groups}    *(.text)\n  }}\n}}\nINSERT BEFORE .text;\n");
    std::fs::write(&path, script).ok()?;
    Some(path)
}

/// Returns the pattern of the linker for the functions of a group, whose order is that of the linker's input.
fn pattern(group: &str) -> String {
    let names = group.lines().filter(|line| !line.starts_with('#'));
    let section = |name| format!("\n      .text.{name} .text.hot.{name} .text.unlikely.{name}");
    let sections: String = names.map(section).collect();
    format!("    *({sections})\n")
}

/// Returns true if the linker of this build takes these options.
fn links(options: &[String]) -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let source = Path::new(&variable("OUT_DIR")).join("empty.rs");
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.arg(&source).args(["--target", &variable("TARGET"), "--out-dir", &variable("OUT_DIR")]);
    let linker = variable("RUSTC_LINKER");
    if !linker.is_empty() {
        compiler.arg(format!("-Clinker={linker}"));
    }
    compiler.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    compiler.args(options.iter().map(|option| format!("-Clink-arg={option}")));
    std::fs::write(&source, "fn main() {}").is_ok()
        && compiler.output().is_ok_and(|output| output.status.success())
}
