//! Preload library (LD_PRELOAD) that gives advice on large pages in a program that is not changed: the
//! heap, mappings by number, named mappings, static data, all anonymous memory, code. The build script
//! compiles the library and embeds it in the binary.
//!
//! The C library's own calls of mmap and brk, such as those of malloc, do not go through symbols that a
//! preloaded library could replace. So this library overwrites the first instructions of the C library's
//! `mmap`, `mremap`, `brk` and `prctl` with jumps to its own versions of these functions. Advice is given
//! right after a mapping is made, before its first touch. The library starts no thread and traces nothing.

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
