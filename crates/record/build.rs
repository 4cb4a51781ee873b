//! Compiles the emulator plugin. The recorder embeds the plugin in its binary, because `cargo install`
//! would not install a separate library.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=plugin");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let output = PathBuf::from(variable("OUT_DIR")).join("libperforate_plugin.so");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "perforate_plugin"]);
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"]);
    rustc.args(["-C", "codegen-units=1"]);
    if variable("TARGET") != variable("HOST") {
        rustc.args(["--target", &variable("TARGET")]);
    }
    let linker = variable("RUSTC_LINKER");
    if !linker.is_empty() {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    rustc.arg("plugin/plugin.rs").arg("-o").arg(&output);
    let status = rustc.status().expect("the compiler that cargo uses can be started");
    assert!(status.success(), "the emulator plugin does not compile: {rustc:?}");
}
