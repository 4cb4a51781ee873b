//! Metadata of a trace file.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Limit or request that ended a recording before the end of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// Limit on the number of recorded instructions.
    Instructions,
    /// Limit on the size of the trace file.
    Size,
    /// Limit on the duration of the recording.
    Time,
    /// A disk or quota that became full.
    Disk,
    /// A request by the user, with Ctrl-C or a signal.
    User,
    /// A reason that only a later version of the format knows.
    #[serde(other)]
    Other,
}

impl fmt::Display for StoppedBy {
    /// Writes the words that complete "the recording was ended by …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instructions => "its limit of instructions",
            Self::Size => "its limit of size",
            Self::Time => "its limit of time",
            Self::Disk => "a full disk",
            Self::User => "its user",
            Self::Other => "something unknown to this version",
        })
    }
}

/// Metadata of a trace file, stored as JSON in its first chunk. A second metadata chunk before the
/// index replaces the first, with values known only at the end. Unknown keys of later versions are
/// ignored; absent keys have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceMetadata {
    /// Command line of the recorded program, or the workload with its parameters.
    pub program: Vec<String>,
    /// Name of the recording tool, for example `qemu-user 7.2 plugin`.
    pub recorder: String,
    /// Instruction set of the recorded program, for example `x86_64`.
    pub architecture: String,
    /// Name and version of the tool that wrote the file.
    pub created_by: String,
    /// Number of instructions of the program before the first recorded one.
    pub instructions_skipped: u64,
    /// True if the recording ended before its program did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    /// Limit or request that ended the recording before the program; `None` if the program ended by
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,
    /// Failure of the recorded program, as a clause, such as `the program was killed by signal 11`; `None` if it
    /// succeeded, or if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Number of accesses to memory whose mapping the recorder did not see. A simulated kernel refuses
    /// them.
    #[serde(skip_serializing_if = "crate::source::is_zero")]
    pub accesses_unmapped: u64,
    /// True if the trace contains events that map and unmap memory.
    pub has_events: bool,
    /// True if instructions name the registers that they read and write.
    pub has_dependencies: bool,
    /// True if branch instructions are marked with their kind.
    pub has_branches: bool,
    /// Assumptions of the recorder about missing information, one sentence each.
    pub assumptions: Vec<String>,
    /// Notes for people who read the trace.
    pub notes: Vec<String>,
    /// Further metadata by name, for values that have no field.
    pub extra: BTreeMap<String, serde_json::Value>,
}
