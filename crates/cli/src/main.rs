//! The `perforate` command.

fn main() {}
