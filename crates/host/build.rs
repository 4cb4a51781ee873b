//! Compiles the preload library that gives a program's memory a layout. The library is embedded in the
//! binary, because `cargo install` would not install a separate file.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=preload");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let output = PathBuf::from(variable("OUT_DIR")).join("libperforate_layout.so");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "perforate_layout"]);
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"]);
    rustc.args(["-C", "codegen-units=1"]);
    if variable("TARGET") != variable("HOST") {
        rustc.args(["--target", &variable("TARGET")]);
    }
    let linker = variable("RUSTC_LINKER");
    if !linker.is_empty() {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    rustc.arg("preload/library.rs").arg("-o").arg(&output);
    let status = rustc.status().expect("the compiler that cargo uses can be started");
    assert!(status.success(), "the library for layouts does not compile: {rustc:?}");
}
