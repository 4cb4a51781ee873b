//! What a trace file says about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
