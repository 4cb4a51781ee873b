//! The list of workloads, and specifications as text: `random`, `random:size=4G,others=4,dependent`.

use std::fmt;
use std::sync::Arc;

use perforate_config::{ConfigError, Key, Options, keys, read, write};
use perforate_trace::{Limited, Source, TraceError};

use crate::{loops, programs};

/// Interface of a workload type: name and help for the list of workloads, and options.
pub(crate) trait Registered: Sized + 'static {
    /// Name of the workload on the command line.
    const NAME: &'static str;
    /// Summary of the workload in one line, for the list and help.
    const SUMMARY: &'static str;
    /// Example of the workload's specification, with the most useful options.
    const EXAMPLE: &'static str;
    /// Type of the workload's options.
    type Options: Options + Clone + Default + Send + Sync;

    /// Checks constraints between options that their types cannot express.
    fn check(_options: &Self::Options) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Memory of the simulator in bytes for the contents of the workload's data, in addition to what it needs
    /// for the simulated memory.
    fn host_bytes(_options: &Self::Options) -> u64 {
        0
    }
}

/// Interface of a workload type that makes instructions.
pub(crate) trait Sourced: Registered {
    /// Makes a source of the workload's instructions, endless or until its program ends. All random choices
    /// follow from `seed`.
    fn source(options: &Self::Options, seed: u64) -> Box<dyn Source>;
}

/// Entry of a synthetic workload in the list of workloads.
pub struct Workload {
    /// Name of the workload on the command line.
    pub name: &'static str,
    /// Summary of the workload in one line.
    pub summary: &'static str,
    /// Example of the workload's specification, with the most useful options.
    pub example: &'static str,
    keys: fn() -> Vec<Key>,
    /// Function that parses the list of options after the workload's name; `None` for defaults only.
    read: fn(Option<&str>) -> Result<WorkloadSpec, ConfigError>,
}

impl Workload {
    const fn of<W: Sourced>() -> Self {
        Self {
            name: W::NAME,
            summary: W::SUMMARY,
            example: W::EXAMPLE,
            keys: keys::<W::Options>,
            read: |list| {
                let options = list.map_or_else(|| Ok(W::Options::default()), read)?;
                W::check(&options)?;
                Ok(WorkloadSpec::of::<W>(options))
            },
        }
    }

    /// Keys of the workload's options, with types and defaults.
    pub fn options(&self) -> Vec<Key> {
        (self.keys)()
    }
}

/// All workloads, in the order in which lists and help show them.
pub static WORKLOADS: &[Workload] = &[
    Workload::of::<loops::Random>(),
    Workload::of::<loops::Sequential>(),
    Workload::of::<loops::Strided>(),
    Workload::of::<loops::Zipf>(),
    Workload::of::<loops::Chased>(),
    Workload::of::<loops::Churned>(),
    Workload::of::<programs::Gups>(),
    Workload::of::<programs::Canneal>(),
    Workload::of::<programs::Dictionary>(),
    Workload::of::<programs::BreadthFirst>(),
    Workload::of::<programs::SetCover>(),
    Workload::of::<programs::SpanningTree>(),
    Workload::of::<programs::SparseMatrix>(),
    Workload::of::<programs::Matching>(),
    Workload::of::<programs::IndependentSet>(),
    Workload::of::<programs::Tree>(),
    Workload::of::<programs::Join>(),
    Workload::of::<programs::CrossSections>(),
    Workload::of::<programs::PageRank>(),
    Workload::of::<programs::KeyValueStore>(),
    Workload::of::<programs::Fork>(),
    Workload::of::<programs::Readers>(),
];

/// Specification of a workload, with a value for every option. Its text parses to the same specification
/// again.
#[derive(Clone)]
pub struct WorkloadSpec {
    text: String,
    host_bytes: u64,
    source: Arc<dyn Fn(u64) -> Box<dyn Source> + Send + Sync>,
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
        let spec = match WORKLOADS.iter().find(|workload| workload.name == name) {
            Some(workload) => (workload.read)(list),
            None => {
                let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
                Err(ConfigError::unknown_key(name, &names))
            }
        };
        spec.map_err(|error| TraceError::Workload {
            spec: text.to_owned(),
            problem: error.to_string(),
        })
    }

    /// Makes a specification of the workload with these options.
    pub(crate) fn of<W: Sourced>(options: W::Options) -> Self {
        Self {
            text: text_of::<W>(&options),
            host_bytes: W::host_bytes(&options),
            source: Arc::new(move |seed| W::source(&options, seed)),
        }
    }

    /// Makes a source of the workload's instructions: all, or the first `instructions`. All random choices
    /// follow from `seed`.
    pub fn source(&self, seed: u64, instructions: Option<u64>) -> Box<dyn Source> {
        let source = (self.source)(seed);
        match instructions {
            Some(limit) => Box::new(Limited::new(source, limit)),
            None => source,
        }
    }

    /// Approximate memory of the simulator, in bytes, that the contents of the workload's data take.
    pub fn host_bytes(&self) -> u64 {
        self.host_bytes
    }
}

impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Text of a workload's specification with these options.
pub(crate) fn text_of<W: Registered>(options: &W::Options) -> String {
    let list = write(options);
    // A flag is its name alone if set, and omitted otherwise.
    let words = list.split(',').filter(|word| !word.ends_with("=no"));
    let words: Vec<&str> = words.map(|word| word.strip_suffix("=yes").unwrap_or(word)).collect();
    format!("{}:{}", W::NAME, words.join(","))
}
