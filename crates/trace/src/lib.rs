//! The trace format, readers of foreign formats, and synthetic workloads.
