//! The list of workloads.

use perforate_config::{ConfigError, Key, Options, keys};

use super::spec::WorkloadSpec;
use super::{loops, programs};
use crate::Source;

/// A synthetic workload, as lists have it.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does, one line.
    pub summary: &'static str,
    /// Text that names it, with options of interest.
    pub example: &'static str,
    keys: fn() -> Vec<Key>,
    /// Reads the list of options behind the name.
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

    /// Its options.
    pub fn options(&self) -> Vec<Key> {
        (self.keys)()
    }
}

/// A workload that can be in the list.
pub(crate) trait Registered: Sized + 'static {
    /// Name on the command line.
    const NAME: &'static str;
    /// What it does, one line.
    const SUMMARY: &'static str;
    /// Text that names it, with options of interest.
    const EXAMPLE: &'static str;
    /// What can be chosen.
    type Options: Options + Clone + Default + Send + Sync;

    /// Checks what the options' types do not.
    fn check(_options: &Self::Options) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Bytes of its own that it needs beside the simulated memory: contents of its data.
    fn host_bytes(_options: &Self::Options) -> u64 {
        0
    }

    /// Its instructions, without end or until it is done. Every choice it makes follows from `seed`.
    fn source(options: &Self::Options, seed: u64) -> Box<dyn Source>;
}

/// All workloads.
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
