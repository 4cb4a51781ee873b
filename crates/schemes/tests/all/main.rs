//! The hardware halves of mechanisms behind a memory-management unit, with hand-made tables: nothing
//! here has an operating system.

mod gap_tolerant;
mod nested;
mod perforated;
