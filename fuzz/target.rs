//! The target of `crates/testing` that has the name of this binary, for libFuzzer.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use perforate_testing::hostile::{Target, find};

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| find(env!("CARGO_BIN_NAME")).expect("a target"));
    (target.run)(bytes);
});
