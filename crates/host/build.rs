//! Compiles the preload libraries: for layouts of a program's memory, and for advice on its areas. They are
//! embedded in the binary, because `cargo install` would not install separate files.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    compile("preload", "perforate_layout");
    compile("preload_advice", "perforate_advice");
}

/// Compiles the library in `folder` to a shared object in the build's output folder.
fn compile(folder: &str, name: &str) {
    println!("cargo::rerun-if-changed={folder}");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let output = PathBuf::from(variable("OUT_DIR")).join(format!("lib{name}.so"));
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", name]);
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"]);
    rustc.args(["-C", "codegen-units=1"]);
    if variable("TARGET") != variable("HOST") {
        rustc.args(["--target", &variable("TARGET")]);
    }
    let linker = variable("RUSTC_LINKER");
    if !linker.is_empty() {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    rustc.arg(format!("{folder}/library.rs")).arg("-o").arg(&output);
    let status = rustc.status().expect("the compiler that cargo uses can be started");
    assert!(status.success(), "the preload library does not compile: {rustc:?}");
}
