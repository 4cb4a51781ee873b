//! What a trace file says about itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A limit or request that ended a recording before its program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// The limit of instructions.
    Instructions,
    /// The limit of the trace's size.
    Size,
    /// The limit of time.
    Time,
    /// The disk was full.
    Disk,
    /// The user: Ctrl-C or a signal.
    User,
    /// A reason that only a later version knows.
    #[serde(other)]
    Other,
}

impl fmt::Display for StoppedBy {
    /// Completes the sentence "the recording was ended by …".
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

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The first chunk of a trace file, stored as JSON; another before the index, which has what is known
/// only at the end, takes its place. Unknown keys of later versions are ignored;
/// keys that are absent have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceMetadata {
    /// Command line of the recorded program, or the workload with its parameters.
    pub program: Vec<String>,
    /// What recorded it (for example `qemu-user 7.2 plugin`).
    pub recorder: String,
    /// Instruction set (for example `x86_64`).
    pub architecture: String,
    /// Name and version of the tool that wrote the file.
    pub created_by: String,
    /// Instructions of the program that passed before the first one recorded.
    pub instructions_skipped: u64,
    /// Whether the program ran on after the last instruction: the recording was ended before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    /// The limit or request that ended the recording before the program; none if the program ended
    /// by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,
    /// Accesses to memory that the recorder did not see being mapped; a simulated kernel refuses them.
    #[serde(skip_serializing_if = "is_zero")]
    pub accesses_unmapped: u64,
    /// Whether the trace carries map events.
    pub has_events: bool,
    /// Whether instructions name the registers they read and write.
    pub has_dependencies: bool,
    /// Whether branches are marked as such.
    pub has_branches: bool,
    /// What the recorder did not know and what was assumed instead, one sentence each.
    pub assumptions: Vec<String>,
    /// Anything a reader should know.
    pub notes: Vec<String>,
    /// Anything else, by name.
    pub extra: BTreeMap<String, serde_json::Value>,
}
