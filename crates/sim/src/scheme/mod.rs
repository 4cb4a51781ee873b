//! The registry of schemes. A scheme is an operating-system policy with a dimension behind the
//! one TLB pipeline; to add one, write a file beside this one and a line in [`ALL`]. The command
//! line, `perforate list`, the oracle tests and the reports take it from there.

mod base_pages;
mod coalescing;
mod composition;
mod gap_tolerant;
mod ideal;
mod large_pages;
mod perforated;
mod segment;
mod shadow;

pub use composition::Composition;
use perforate_config::{Changes, ConfigError, Options};
use perforate_mmu::{Coalescing, Dimension, PerforatedVariant, Radix, VirtualizationConfig};
use perforate_os::{Kernel, KernelConfig, OsError, Policy, SuperpageRule, TableFormat};
use perforate_types::{ControlError, GapTolerance, PageSize};

use crate::memory::Past;
use crate::snapshot::MemorySnapshot;
use crate::{Background, Machine, MemoryState, SimError};

/// Every scheme there is, in the order reports show them.
pub const ALL: &[&Scheme] = &[
    &base_pages::BASE_PAGES,
    &coalescing::COALESCED_4,
    &coalescing::COALESCED_8,
    &coalescing::COALESCED_32,
    &large_pages::TRANSPARENT_LARGE_PAGES,
    &large_pages::ADVISED_LARGE_PAGES,
    &large_pages::HUGE_PAGES,
    &perforated::NAIVE,
    &perforated::ON_DEMAND,
    &perforated::SELECTIVE,
    &perforated::LAZY,
    &perforated::RESERVE,
    &perforated::PERFORATED,
    &gap_tolerant::SINGLE_4M,
    &gap_tolerant::SINGLE_2M,
    &gap_tolerant::SINGLE_1M,
    &gap_tolerant::PAIRED_4M,
    &gap_tolerant::PAIRED_2M,
    &segment::SEGMENT,
    &segment::SEGMENT_LARGE,
    &ideal::IDEAL,
];

/// Schemes that only a host can have, under a guest with one of [`ALL`].
pub const HOSTS_ONLY: &[&Scheme] = &[&shadow::SHADOW_BASE_PAGES, &shadow::SHADOW_LARGE_PAGES];

/// The schemes compared where none are named.
pub const DEFAULT: &str = "4k,thp,perforated,ideal";

/// Makes page tables for a kernel, as the second-level TLB and the machine have them.
pub type MakeDimension =
    fn(&Kernel, PerforatedVariant, &VirtualizationConfig) -> Box<dyn Dimension>;

/// Makes a policy of the operating system: a scheme's options, with those of the memory over them.
pub type MakePolicy = fn(&MemoryState) -> Result<Box<dyn Policy>, ConfigError>;

/// One scheme: what the operating system maps, and what the hardware translates with.
pub struct Scheme {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// One line that says what it is.
    pub summary: &'static str,
    /// Paper and section it comes from, or the system it models.
    pub source: &'static str,
    /// Whether it runs on unfragmented memory whatever is asked for.
    pub ideal_memory: bool,
    /// Whether it is a hypervisor's that keeps shadow tables (D §II.A) instead of having the
    /// hardware walk two dimensions.
    pub shadow_paging: bool,
    /// Whether page directories are order-1 pairs with shadow entries (P §IV.B).
    pub shadow_directories: bool,
    /// Mode of gap-tolerant entries in page directories, if there are any (G §3.7).
    pub gap_tolerance: Option<GapTolerance>,
    /// How the second-level TLB treats perforated pages.
    pub variant: PerforatedVariant,
    /// How the second-level TLB coalesces 4KB pages; none: as the machine file says.
    pub coalescing: Option<Coalescing>,
    /// Whether its hardware has direct segments.
    pub segments: bool,
    /// The operating system's policy.
    pub policy: MakePolicy,
    /// The page tables.
    pub dimension: MakeDimension,
}

impl Scheme {
    /// The scheme of this name.
    ///
    /// # Errors
    /// [`SimError::UnknownScheme`] with the names there are.
    pub fn find(name: &str) -> Result<&'static Self, SimError> {
        ALL.iter().copied().find(|scheme| scheme.name == name).ok_or_else(|| {
            let known = ALL.iter().map(|scheme| scheme.name).collect::<Vec<_>>().join(", ");
            SimError::UnknownScheme { name: name.into(), known }
        })
    }

    /// Checks that the machine's TLBs can hold what this scheme puts into them.
    ///
    /// # Errors
    /// [`SimError::NoLargeEntries`]: holes are looked up behind a 2MB-grained entry of the second
    /// level (P §IV.C), so without such entries every access to a perforated page would walk.
    pub fn check_machine(&self, machine: &Machine) -> Result<(), SimError> {
        if self.shadow_directories && !machine.tlb.l2_2m {
            let (scheme, machine) = (self.name.into(), machine.name.clone());
            return Err(SimError::NoLargeEntries { scheme, machine });
        }
        Ok(())
    }

    /// Checks that its superpages can be had in this memory: their mode and where slices may lie.
    ///
    /// # Errors
    /// What would be right.
    pub(crate) fn check_superpages(&self, memory: &MemoryState) -> Result<(), ConfigError> {
        let Some(mode) = self.mode(memory)? else { return Ok(()) };
        let policy = (self.policy)(memory)?;
        let frames = memory.address_bytes() / PageSize::Size4K.bytes();
        let checked =
            policy.rule::<SuperpageRule>().map_or(Ok(()), |rule| rule.check(mode, frames));
        checked.map_err(|error| ConfigError::new(error.to_string()).under("superpages"))
    }

    /// The scheme of this name, which may be one for hosts only.
    ///
    /// # Errors
    /// [`SimError::UnknownScheme`] with the names there are.
    pub fn find_for_host(name: &str) -> Result<&'static Self, SimError> {
        let host_only = HOSTS_ONLY.iter().copied().find(|scheme| scheme.name == name);
        host_only.map_or_else(|| Self::find(name), Ok).map_err(|error| match error {
            SimError::UnknownScheme { name, known } => {
                let hosts = HOSTS_ONLY.iter().map(|scheme| scheme.name).collect::<Vec<_>>();
                SimError::UnknownScheme { name, known: format!("{known}, {}", hosts.join(", ")) }
            }
            error => error,
        })
    }

    /// An operating system with its own memory, as this scheme needs it. With `implicit_maps`,
    /// touching what was never mapped maps it, for traces without map events.
    pub(crate) fn kernel(
        &self,
        memory: &MemoryState,
        seed: u64,
        implicit_maps: bool,
    ) -> Result<Kernel, OsError> {
        let fragmentation = if self.ideal_memory { None } else { memory.fragmentation };
        let past = if self.ideal_memory { Past::default() } else { memory.past.clone() };
        let policy = (self.policy)(memory)?;
        let config = KernelConfig {
            memory_bytes: memory.memory_bytes,
            fragmentation,
            seed,
            tables: TableFormat {
                shadow_directories: self.shadow_directories,
                gap_tolerance: self.mode(memory)?,
            },
            implicit_maps,
            zones: past.zones,
            faulty: past.faulty,
            ageing: past.ageing,
            defrag: past.defrag,
            swap_bytes: memory.past.swap_bytes,
            compacted: past.compacted,
            io_gap: memory.past.io_gap,
            hot_add_bytes: memory.past.hot_add_bytes,
            snapshot: memory
                .snapshot
                .as_ref()
                .filter(|_| !self.ideal_memory)
                .map(MemorySnapshot::shared),
        };
        let mut kernel = Kernel::new(config, policy)?;
        self.background(memory).set_up(&mut kernel)?;
        Ok(kernel)
    }

    /// The mode of gap-tolerant entries, with the comparison's own options.
    pub(crate) fn mode(&self, memory: &MemoryState) -> Result<Option<GapTolerance>, ConfigError> {
        let Some(mode) = self.gap_tolerance else { return Ok(None) };
        let policy = (self.policy)(memory)?;
        let wanted = policy.rule::<SuperpageRule>().map_or(Ok(mode), |rule| rule.mode(mode));
        let wrong = |error: ControlError| ConfigError::new(error.to_string()).under("superpages");
        wanted.map(Some).map_err(wrong)
    }

    /// The kernel threads it runs with. An ideal scheme must not lose its large pages to merging.
    pub(crate) fn background(&self, memory: &MemoryState) -> Background {
        let background = memory.background.clone();
        if self.ideal_memory {
            return Background { ksm: None, contents: None, ..background };
        }
        background
    }

    /// Name and options of the policy, as results keep them.
    pub(crate) fn describe_policy(&self, memory: &MemoryState) -> String {
        let policy = (self.policy)(memory);
        policy.map_or_else(|error| error.to_string(), |policy| policy.describe())
    }
}

/// A policy with a scheme's own options, and those that `changes` of the option `key` say instead.
fn with_changes<T: Options, P: Policy + 'static>(
    key: &str,
    changes: Option<&Changes<T>>,
    own: T,
    make: fn(T) -> Result<P, ConfigError>,
) -> Result<Box<dyn Policy>, ConfigError> {
    let options = match changes {
        Some(changes) => changes.over(&own),
        None => Ok(own),
    };
    let policy = options.and_then(make).map_err(|error| error.under(key))?;
    Ok(Box::new(policy))
}

/// Ordinary page tables.
fn radix(_: &Kernel, _: PerforatedVariant, _: &VirtualizationConfig) -> Box<dyn Dimension> {
    Box::new(Radix::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_exist() {
        let all: Vec<_> = ALL.iter().chain(HOSTS_ONLY).collect();
        for (index, scheme) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other.name != scheme.name));
            assert!(!scheme.summary.is_empty() && !scheme.source.is_empty());
        }
        assert_eq!(Composition::list(DEFAULT).unwrap().len(), 4);
    }

    #[test]
    fn options_of_a_run_win_over_those_of_a_scheme() {
        let perforation = perforate_config::read("holes=lazy,max-hole-share=50%").unwrap();
        let segment = perforate_config::read("escapes=4").unwrap();
        let memory = MemoryState { perforation, segment, ..MemoryState::default() };
        for (name, plain, changed) in [
            ("thp", "thp", "thp"),
            (
                "perforated-selective",
                "perforated:max-hole-share=25%,max-filter-bits=4",
                "perforated:max-hole-share=50%,max-filter-bits=4,holes=lazy",
            ),
            ("perforated", "perforated", "perforated:max-hole-share=50%,holes=lazy"),
            (
                "perforated-lazy",
                "perforated:holes=lazy",
                "perforated:max-hole-share=50%,holes=lazy",
            ),
            ("segment-thp", "segment:pages=2m", "segment:pages=2m,escapes=4"),
            ("gt-pde-4m", "gap-tolerant", "gap-tolerant"),
        ] {
            let scheme = Scheme::find(name).unwrap();
            assert_eq!(scheme.describe_policy(&MemoryState::default()), plain);
            assert_eq!(scheme.describe_policy(&memory), changed);
        }
    }

    #[test]
    fn options_that_only_together_make_no_sense_are_refused() {
        let perforation = perforate_config::read("demote-above=10%").unwrap();
        let memory = MemoryState { perforation, ..MemoryState::default() };
        let error = (Scheme::find("perforated-selective").unwrap().policy)(&memory).err().unwrap();
        assert_eq!(
            error.to_string(),
            "perforation: demote-above=10% is less than max-hole-share=25%: pages could be made \
             that are to be demoted"
        );
    }
}
