//! A library that is loaded before a program's own ones (LD_PRELOAD) and gives its memory a layout
//! of 4KB and 2MB pages, as Mosalloc does (I. Yaniv and others, MICRO 2020). Compiled by the build
//! script and embedded in the binary.
//!
//! It allocates nothing but the heap that it prepares, and has no part of Rust's standard library.
//! Only the process that is started has a layout: the variables are gone when its `main` begins, so
//! that programs which it executes have none. Children that it forks have copies of its memory.

#![no_std]

#[path = "parts.rs"]
mod parts;

/// What the core library names for unwinding, which nothing here does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { parts::system::abort() }
}
