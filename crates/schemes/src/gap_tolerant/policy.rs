//! Policy: gap-tolerant superpages where a slice is available (G §3.8), 4KB pages elsewhere.

use std::any::Any;
use std::ops::Range;

use perforate_config::{ConfigError, Share};
use perforate_os::mechanism::{Backer, FreeIndex, PhysicalMemory};
use perforate_os::{BlockUse, OsError, Policy, TableFormat, described};
use perforate_types::{ControlError, GapTolerance, HoleSet, SUPERPAGE_BLOCKS};

use super::kernel::{Granularities, Superpages, free_index};
use super::{SuperpageError, SuperpageOptions};

/// Conditions on the slices of superpages, from [`SuperpageOptions`].
#[derive(Clone, Debug, PartialEq)]
pub struct SuperpageRule {
    /// Number of usable B-blocks required of a slice that has faulty or used pages; `None` for the
    /// default of [`Self::least_blocks_of`].
    pub least_blocks: Option<u32>,
    /// Range of frames in which slices must lie; `None` for the whole memory.
    pub within: Option<Range<u64>>,
    /// Field BS of GTPTCR (size of B-blocks); `None` for that of the scheme's page tables.
    pub block_order: Option<u64>,
    /// Field P of GTPTCR (paired entries); `None` for that of the scheme's page tables.
    pub paired: Option<bool>,
    /// If set, each process gets the largest B-blocks for which the allocatable superpages reach
    /// this share of what the smallest B-blocks allow. If `None`, all processes have the same
    /// B-blocks.
    pub enough: Option<Share>,
}

/// Modes to choose from for each process, largest B-blocks first.
const BY_PROCESS: [GapTolerance; 3] =
    [GapTolerance::SINGLE_4M, GapTolerance::SINGLE_2M, GapTolerance::SINGLE_1M];

/// Selects the mode with the largest B-blocks in which superpages can be allocated for the share
/// `enough` of the bytes that the smallest B-blocks allow. `bytes` returns the number of bytes of
/// superpages that can be allocated in a mode.
fn largest_sufficient(enough: Share, bytes: impl Fn(GapTolerance) -> u64) -> GapTolerance {
    let smallest = BY_PROCESS[BY_PROCESS.len() - 1];
    let wanted = enough.value() * bytes(smallest) as f64;
    let does = |mode: &GapTolerance| bytes(*mode) as f64 >= wanted;
    BY_PROCESS.into_iter().find(does).unwrap_or(smallest)
}

impl SuperpageRule {
    /// Number of usable B-blocks required of a slice that has faulty or used pages: more than half
    /// (G §3.8), or 32 common B-blocks in a paired mode (Algorithm 1, G §3.6).
    pub fn least_blocks_of(&self, mode: GapTolerance) -> u32 {
        let least = if mode.is_paired() { SUPERPAGE_BLOCKS } else { SUPERPAGE_BLOCKS + 1 };
        self.least_blocks.unwrap_or(least)
    }

    /// Mode that results from the scheme's `mode` with the fields that the rule overrides.
    ///
    /// # Errors
    /// If G Table 3 does not list this combination of fields.
    pub fn mode(&self, mode: GapTolerance) -> Result<GapTolerance, ControlError> {
        let order = self.block_order.unwrap_or(mode.block_order().into());
        GapTolerance::new(order, self.paired.unwrap_or(mode.is_paired()))
    }
}

impl SuperpageRule {
    /// Checks that the rule's range of frames contains a slice, in a memory of `end` frames.
    ///
    /// # Errors
    /// [`SuperpageError::SliceOutsideMemory`].
    pub fn check(&self, mode: GapTolerance, end: u64) -> Result<(), SuperpageError> {
        let Some(frames) = &self.within else { return Ok(()) };
        let to = if frames.end == u64::MAX { end } else { frames.end };
        let size = mode.slice_frames();
        let has_slice = frames.start.div_ceil(size) < to.min(end) / size;
        if to <= end && has_slice {
            return Ok(());
        }
        Err(SuperpageError::SliceOutsideMemory {
            start_bytes: frames.start << 12,
            end_bytes: to.max(frames.start) << 12,
            memory_bytes: end << 12,
            slice_bytes: size << 12,
        })
    }
}

impl Default for SuperpageRule {
    fn default() -> Self {
        SuperpageOptions::DEFAULT.rule().expect("the default is sound")
    }
}

/// Policy that maps gap-tolerant superpages, and 4KB pages where no slice is available. The page
/// tables determine the mode ([`TableFormat::gap_tolerance`]).
#[derive(Clone, Debug, PartialEq)]
pub struct GapTolerant {
    options: SuperpageOptions,
    rule: SuperpageRule,
}

impl GapTolerant {
    /// Creates a policy with these options.
    ///
    /// # Errors
    /// If options contradict each other.
    pub fn new(options: SuperpageOptions) -> Result<Self, ConfigError> {
        Ok(Self { options, rule: options.rule()? })
    }
}

impl Policy for GapTolerant {
    fn name(&self) -> &'static str {
        "gap-tolerant"
    }

    fn describe(&self) -> String {
        described(self.name(), &self.options)
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.rule]
    }

    fn backers(&self) -> Vec<Box<dyn Backer>> {
        vec![Box::new(Superpages::default())]
    }

    fn free_index(
        &self,
        tables: TableFormat,
        end_frame: u64,
        is_fragmented: bool,
    ) -> Result<Option<Box<dyn FreeIndex>>, OsError> {
        let mode = tables.gap_tolerance.ok_or(SuperpageError::NoTables)?;
        self.rule.check(mode, end_frame)?;
        let modes = if self.rule.enough.is_some() { &BY_PROCESS[..] } else { &[mode] };
        Ok(Some(free_index(&self.rule, modes, end_frame, is_fragmented)))
    }

    fn table_format(&self, tables: TableFormat, memory: &PhysicalMemory) -> TableFormat {
        let granularities = memory.free_index::<Granularities>();
        let Some((enough, granularities)) = self.rule.enough.zip(granularities) else {
            return tables;
        };
        let mode = largest_sufficient(enough, |mode| granularities.superpage_bytes(mode));
        TableFormat { gap_tolerance: Some(mode), ..tables }
    }

    fn use_block(&self, _: &HoleSet) -> BlockUse {
        BlockUse::Pages
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;
    use crate::listed;

    #[test]
    fn describe_lists_only_changed_options() {
        let superpages = GapTolerant::new(read("least-blocks=32,to=8G").unwrap()).unwrap();
        assert_eq!(superpages.describe(), "gap-tolerant:least-blocks=32,to=8G");
    }

    #[test]
    fn all_options_are_listed_with_their_defaults() {
        assert_eq!(
            listed::<SuperpageOptions>(),
            [
                "least-blocks=32-64 [none]",
                "bs=3-5 [none]",
                "paired=yes|no [none]",
                "per-process=yes|no [no]",
                "enough=S% [90%]",
                "from=SIZE [0]",
                "to=SIZE [none]",
                "pages=4k|2m [4k]",
            ]
        );
    }

    /// With 90 % as `enough`, a mode that provides exactly 90 % of 100MB suffices.
    #[test]
    fn a_process_has_the_largest_sufficient_b_blocks() {
        let enough = Share::percent(90);
        let [large, middle, small] = BY_PROCESS;
        for (megabytes, expected) in [
            ([90, 95, 100], large),
            ([89, 90, 100], middle),
            ([0, 89, 100], small),
            ([0, 0, 0], large),
        ] {
            let bytes = |mode| {
                let place = BY_PROCESS.iter().position(|&known| known == mode).unwrap();
                megabytes[place] << 20
            };
            assert_eq!(largest_sufficient(enough, bytes), expected, "{megabytes:?}");
        }
    }

    /// With `per-process`, the mode of each process is chosen; otherwise the options choose one.
    #[test]
    fn a_mode_is_given_or_chosen() {
        for (options, is_possible) in [
            ("bs=4", true),
            ("paired=yes", true),
            ("paired=yes,bs=4,per-process=no", true),
            ("per-process=yes", true),
            ("per-process=yes,paired=no", true),
            ("per-process=yes,paired=yes", false),
            ("per-process=yes,bs=4", false),
        ] {
            assert_eq!(read(options).and_then(GapTolerant::new).is_ok(), is_possible, "{options}");
        }
    }

    #[test]
    fn wrong_options_are_explained() {
        let superpages = |text: &str| read(text).and_then(GapTolerant::new).map(|_| ());
        for (options, problem) in [
            ("pages=2m", "pages: an address space has either 2MB-page PDEs or GT-PDEs"),
            ("bs=6", "bs: is at most 5, not 6"),
            ("paired=maybe", "paired: expected yes or no, not \"maybe\""),
            ("least-blocks=31", "least-blocks: is at least 32, not 31"),
            ("from=1G,to=1G", "to: is more than from: no slice lies between them"),
            ("from=1K", "from: is a multiple of 4K"),
            ("per-process=yes,bs=4", "per-process: chooses single entries"),
        ] {
            let error = superpages(options).expect_err(problem).to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
