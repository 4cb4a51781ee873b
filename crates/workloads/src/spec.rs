//! Specifications of workloads as text: `random`, `random:size=4G,others=4,dependent`.

use std::fmt;
use std::sync::Arc;

use perforate_config::{ConfigError, read, write};

use crate::registry::{Registered, WORKLOADS};
use perforate_trace::{Limited, Source, TraceError};

/// A workload with a value for every option. Its text parses to the same specification again.
#[derive(Clone)]
pub struct WorkloadSpec(Arc<dyn Specified>);

/// Type-erased workload with its options.
trait Specified: Send + Sync {
    fn text(&self) -> String;
    fn source(&self, seed: u64) -> Box<dyn Source>;
    fn host_bytes(&self) -> u64;
}

struct TypedSpec<W: Registered>(W::Options);

impl<W: Registered> Specified for TypedSpec<W> {
    fn text(&self) -> String {
        text_of::<W>(&self.0)
    }

    fn source(&self, seed: u64) -> Box<dyn Source> {
        W::source(&self.0, seed)
    }

    fn host_bytes(&self) -> u64 {
        W::host_bytes(&self.0)
    }
}

/// Specification of a workload with these options, as text.
pub(crate) fn text_of<W: Registered>(options: &W::Options) -> String {
    let list = write(options);
    // A flag is its name alone if set, and omitted otherwise.
    let words = list.split(',').filter(|word| !word.ends_with("=no"));
    let words: Vec<&str> = words.map(|word| word.strip_suffix("=yes").unwrap_or(word)).collect();
    format!("{}:{}", W::NAME, words.join(","))
}

impl WorkloadSpec {
    /// True if `text` names a workload, with valid or invalid options, rather than a file.
    pub fn is_workload(text: &str) -> bool {
        let name = text.split(':').next().unwrap_or_default();
        WORKLOADS.iter().any(|workload| workload.name == name)
    }

    /// Parses `NAME[:KEY[=VALUE],…]`.
    ///
    /// # Errors
    /// If a name or key is unknown (the message suggests the nearest one), a value is out of range, or
    /// a key occurs twice.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let (name, list) = match text.split_once(':') {
            Some((name, list)) => (name, Some(list)),
            None => (text, None),
        };
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        let spec = match names.iter().position(|known| *known == name) {
            Some(place) => (WORKLOADS[place].read)(list),
            None => Err(ConfigError::unknown_key(name, &names)),
        };
        spec.map_err(|error| TraceError::Workload {
            spec: text.to_owned(),
            problem: error.to_string(),
        })
    }

    /// Makes a workload from a list of options; `None` for defaults only.
    pub(super) fn read<W: Registered>(list: Option<&str>) -> Result<Self, ConfigError> {
        let options = list.map_or_else(|| Ok(W::Options::default()), read)?;
        W::check(&options)?;
        Ok(Self::of::<W>(options))
    }

    /// Makes a workload with these options.
    pub(super) fn of<W: Registered>(options: W::Options) -> Self {
        Self(Arc::new(TypedSpec::<W>(options)))
    }

    /// Instructions of the workload: endless, or the first `instructions`. All random choices follow
    /// from `seed`.
    pub fn source(&self, seed: u64, instructions: Option<u64>) -> Box<dyn Source> {
        let source = self.0.source(seed);
        match instructions {
            Some(limit) => Box::new(Limited::new(source, limit)),
            None => source,
        }
    }

    /// Approximate host memory in bytes for the contents of the workload's data.
    pub fn host_bytes(&self) -> u64 {
        self.0.host_bytes()
    }
}

impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text())
    }
}

impl fmt::Debug for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
