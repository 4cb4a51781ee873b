//! The hardware halves of mechanisms behind an MMU, with hand-made tables and without an operating
//! system.

mod factories;
mod gap_tolerant;
mod list;
mod nested;
mod operations;
mod perforated;
