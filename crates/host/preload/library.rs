//! Preload library (LD_PRELOAD) that gives a program's memory a layout of 4KB and 2MB pages, as
//! Mosalloc does (I. Yaniv and others, MICRO 2020). The build script compiles the library and embeds it
//! in the binary.
//!
//! The library is `no_std`, and allocates nothing but malloc's pool. Only the started process has a
//! layout: the library removes its variables from the environment before `main`, so programs that the
//! process executes have none. Forked children have copies of its memory.

#![no_std]

#[path = "parts.rs"]
mod parts;

/// Symbol that the core library refers to for unwinding. The library never unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { parts::system::abort() }
}
