//! The oracle, from outside.

mod oracle;
mod segments;
mod superpages;
