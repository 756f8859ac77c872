//! Asks the linker for packed relocations: a megabyte of tables that the loader would read at every start otherwise, and that
//! would stay in memory. Linkers that do not know the wish ignore it with a warning.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
