//! The native half of the Python package `perforate`: its module `perforate._native`.
//!
//! Options are pairs of texts; results are JSON, byte for byte as in results files. Objects with attributes,
//! tables and pictures are made in Python (`python/perforate`). Long work runs on a thread of its own,
//! without the interpreter's lock ([`work`]). Panics become exceptions.

mod column;
mod command;
mod errors;
mod experiments;
mod lists;
mod measurements;
mod points;
mod reports;
mod runs;
mod trace_reader;
mod trace_rows;
mod trace_writer;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    /// Version of Perforate, such as `1.2.0`.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    /// Workload of a comparison by default.
    #[pymodule_export]
    const DEFAULT_WORKLOAD: &str = perforate_trace::bundled::DEFAULT;

    #[pymodule_export]
    use crate::command::{main, set_program};
    #[pymodule_export]
    use crate::experiments::{PlannedExperiment, measure};
    #[pymodule_export]
    use crate::lists::{counters, keywords, machines, schemes, unknown, workloads};
    #[pymodule_export]
    use crate::measurements::{advise, calibrate, curves, record, snapshot, validate};
    #[pymodule_export]
    use crate::points::{PointStore, point};
    #[pymodule_export]
    use crate::reports::{
        merged_notes, notes, report_html, speed_over, summaries, summary_html, table, write_texts,
    };
    #[pymodule_export]
    use crate::runs::{compare, explain, run};
    #[pymodule_export]
    use crate::trace_reader::{TraceBatches, trace_events, trace_metadata};
    #[pymodule_export]
    use crate::trace_writer::TraceWriter;
}
