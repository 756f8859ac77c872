//! Asks the linker for packed relocations: a megabyte of tables that the loader would read at every start otherwise, and that
//! would stay in memory. Only in release builds, where it counts: old versions of mold, which developers use for speed, pack
//! them without the version that the loader insists on, and the program does not start.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if release && target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
