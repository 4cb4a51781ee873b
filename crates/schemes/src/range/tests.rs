//! Worked by hand.
