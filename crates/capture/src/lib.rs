//! Recording real programs.
