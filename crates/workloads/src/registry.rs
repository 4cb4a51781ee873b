//! The list of workloads.

use perforate_config::{ConfigError, Key, Options, keys};

use crate::spec::WorkloadSpec;
use crate::{loops, programs};
use perforate_trace::Source;

/// Entry of a synthetic workload in the list.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Example specification, with the most useful options.
    pub example: &'static str,
    keys: fn() -> Vec<Key>,
    /// Parses the list of options after the name.
    pub(super) read: fn(Option<&str>) -> Result<WorkloadSpec, ConfigError>,
}

impl Workload {
    const fn of<W: Registered>() -> Self {
        Self {
            name: W::NAME,
            summary: W::SUMMARY,
            example: W::EXAMPLE,
            keys: keys::<W::Options>,
            read: WorkloadSpec::read::<W>,
        }
    }

    /// Option keys, with types and defaults.
    pub fn options(&self) -> Vec<Key> {
        (self.keys)()
    }
}

/// A workload that can be put in the list.
pub(crate) trait Registered: Sized + 'static {
    /// Name on the command line.
    const NAME: &'static str;
    /// Summary in one line.
    const SUMMARY: &'static str;
    /// Example specification, with the most useful options.
    const EXAMPLE: &'static str;
    /// Options of the workload.
    type Options: Options + Clone + Default + Send + Sync;

    /// Checks constraints that the options' types cannot express.
    fn check(_options: &Self::Options) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Host memory in bytes for the contents of the workload's data, in addition to the simulated
    /// memory.
    fn host_bytes(_options: &Self::Options) -> u64 {
        0
    }

    /// Instructions of the workload: endless, or until it ends. All random choices follow from `seed`.
    fn source(options: &Self::Options, seed: u64) -> Box<dyn Source>;
}

/// All workloads, in the order of lists and help.
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
    Workload::of::<programs::KeyValueStore>(),
    Workload::of::<programs::Fork>(),
    Workload::of::<programs::Readers>(),
];
