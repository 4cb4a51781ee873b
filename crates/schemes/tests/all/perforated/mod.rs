//! Perforated pages, worked out by hand.

mod sharing;
mod translation_cases;
