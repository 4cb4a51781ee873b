//! Experiments, from outside.

mod bundled;
mod common;
mod engine;
mod joint;
