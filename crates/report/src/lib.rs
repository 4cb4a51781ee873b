//! Self-contained HTML report of results files.
