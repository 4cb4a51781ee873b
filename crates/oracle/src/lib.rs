//! Reference translation that every scheme is checked against.
