//! The oracle, from outside.

mod oracle;
