//! Records that commands write, with a struct for each. The crate that measures fills in a record;
//! the record is written as JSON, read from files, and shown by reports.
//!
//! A [`RunResult`] and a [`JointRecord`] are one line of a results file, an [`ExperimentRecord`] several
//! lines, and a [`Snapshot`] a whole file. Reading is lenient: missing and null fields get their defaults,
//! unknown fields are ignored, and unexpected values in maps are dropped. A line that is not a
//! record is an error, which gives the line number. The written bytes depend only on the
//! measurement.
//!
//! A [`Vocabulary`] describes the counters and schemes that the reading program knows. Results may
//! contain others, for example from another version.

mod advice;
mod batches;
mod contents;
mod curves;
mod experiment;
mod interval;
mod joint;
mod json;
mod lenient;
mod memory;
mod read;
mod region;
mod run;
mod sampled;
mod snapshot;
mod student;
mod verification;
mod vocabulary;

pub use advice::{
    AdviceArea, AdviceError, AdviceEvidence, AdvicePiece, AdvicePoint, AdviceRange, AdviceRecord,
    AdviceRisk, AdviceRun, AdviceSize, AdviceStep, AdviceVerdict, EvidenceKind, LEAST_ACCESSES,
    RankedMemory, SpeedRecord, WORTH_EFFORT,
};
pub use batches::Batches;
pub use contents::{ContentsPoint, EntryCounts};
pub use curves::{MissPoint, MissRatioRecord, PageSizeCurve};
pub use experiment::{
    AxisForm, ChartForm, ChartRecord, ClaimKind, ClaimRecord, CurveRecord, DrawnRecord,
    ExperimentRecord, ExperimentResults, PartRange, PointRecord, Reading, Show, UnstatedRange,
    Verdict, config_of, paper_of, read_experiments,
};
pub use interval::Interval;
pub use joint::{ChoiceEffect, ExcludingPair, JointChoice, JointClaim, JointRecord, ValueEffect};
pub use json::{clean, harmless, harmless_json, json_line, read_json, word};
pub use memory::{CellRun, MemoryMap, MemoryPoint};
pub use read::{RecordsError, read_results};
pub use region::Region;
pub use run::{HardwareThread, RunResult, Series, TOO_LITTLE_WORK, Warmup};
pub use sampled::Sampled;
pub use snapshot::{
    BlockReach, FREE_ORDERS, FreeBlocksByType, HostRecord, PageblockCount, ProcessArea,
    ProcessContents, ProcessRecord, ProcessTotals, RequestShares, Snapshot, SnapshotOrder,
    SnapshotRequest, SnapshotZone, Survey, read_snapshot,
};
pub use verification::{
    AreaPages, Clock, GainRatio, Judgement, LEAST_GAIN, Verification, VerifiedArea, VerifiedRun,
    Worth,
};
pub use vocabulary::{Roles, Vocabulary};
