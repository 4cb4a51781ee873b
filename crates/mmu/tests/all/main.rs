//! The memory-management unit, from outside.

mod coalescing;
mod gap_tolerant;
mod nested;
mod sharing;
mod small_entries;
mod translation_cases;
