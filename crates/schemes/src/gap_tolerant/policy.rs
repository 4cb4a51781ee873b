//! Policy: gap-tolerant superpages where a slice is available (G §3.8), 4KB pages elsewhere.

use std::any::Any;
use std::ops::Range;

use perforate_config::{ConfigError, Share};
use perforate_os::mechanism::{Backer, FreeIndex, PhysicalMemory};
use perforate_os::{OsError, Policy, TableFormat, described};
use perforate_types::{ControlError, GapTolerance, SUPERPAGE_BLOCKS};

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

    /// Slices of 1,024 frames. A range without an end reaches to the end of memory.
    #[test]
    fn a_range_of_memory_has_a_slice() {
        let mode = GapTolerance::SINGLE_2M;
        let checked =
            |within, end| SuperpageRule { within, ..SuperpageRule::default() }.check(mode, end);
        const END: u64 = u64::MAX;
        assert_eq!(checked(None, 1), Ok(()));
        for (start, to, end, is_possible) in [
            (0, 1024, 4096, true),
            (0, 1023, 4096, false),
            (1, 1024, 4096, false),
            (1, 2048, 4096, true),
            (1024, 2047, 4096, false),
            (0, 4096, 4096, true),
            (0, 4097, 4096, false),
            (3072, END, 4096, true),
            (3073, END, 4096, false),
            (3073, END, 5119, false),
            (3073, END, 5120, true),
            (8192, END, 4096, false),
        ] {
            let refused = SuperpageError::SliceOutsideMemory {
                start_bytes: start * 4096,
                end_bytes: if to == END { end.max(start) } else { to } * 4096,
                memory_bytes: end * 4096,
                slice_bytes: 4 << 20,
            };
            let expected = if is_possible { Ok(()) } else { Err(refused) };
            assert_eq!(checked(Some(start..to), end), expected, "{start}..{to} of {end}");
        }
        let texts = [(0, 8192), (1, 1024)]
            .map(|(start, to)| checked(Some(start..to), 4096).unwrap_err().to_string());
        let rest = "the memory ends at 16M; slices are aligned pieces of 4M inside it";
        assert_eq!(
            texts,
            [format!("slices from 0 to 32M: {rest}"), format!("slices from 4K to 4M: {rest}")]
        );
        assert_eq!(
            SuperpageError::NoTables.to_string(),
            "gap-tolerant superpages need page tables with GT-PDEs (a mode of G Table 3)"
        );
    }

    /// The rule that options become, and what it says of modes.
    #[test]
    fn options_become_a_rule() {
        let rule = |text: &str| read::<SuperpageOptions>(text).unwrap().rule().unwrap();
        let default = SuperpageRule {
            least_blocks: None,
            within: None,
            block_order: None,
            paired: None,
            enough: None,
        };
        assert_eq!((rule("default"), SuperpageRule::default()), (default.clone(), default.clone()));
        for (text, within) in [
            ("from=4K", Some(1..u64::MAX)),
            ("from=1M,to=8M", Some(256..2048)),
            ("to=4K", Some(0..1)),
            ("from=0K", None),
        ] {
            assert_eq!(rule(text), SuperpageRule { within, ..default.clone() }, "{text}");
        }
        assert_eq!(rule("per-process=yes").enough, Some(Share::percent(90)));
        assert_eq!(rule("per-process=yes,enough=50%").enough, Some(Share::percent(50)));
        assert_eq!(rule("enough=50%").enough, None);
        let least = |text| {
            [GapTolerance::SINGLE_4M, GapTolerance::PAIRED_4M]
                .map(|mode| rule(text).least_blocks_of(mode))
        };
        assert_eq!([least("default"), least("least-blocks=40")], [[33, 32], [40, 40]]);
        for (text, mode, expected) in [
            ("default", GapTolerance::SINGLE_4M, Some(GapTolerance::SINGLE_4M)),
            ("default", GapTolerance::PAIRED_2M, Some(GapTolerance::PAIRED_2M)),
            ("bs=4", GapTolerance::SINGLE_4M, Some(GapTolerance::SINGLE_2M)),
            ("bs=3", GapTolerance::PAIRED_4M, Some(GapTolerance::PAIRED_2M)),
            ("paired=yes", GapTolerance::SINGLE_2M, Some(GapTolerance::PAIRED_4M)),
            ("paired=no", GapTolerance::PAIRED_4M, Some(GapTolerance::SINGLE_2M)),
            ("bs=5,paired=no", GapTolerance::PAIRED_2M, Some(GapTolerance::SINGLE_4M)),
            ("bs=5", GapTolerance::PAIRED_4M, None),
        ] {
            assert_eq!(rule(text).mode(mode).ok(), expected, "{text}");
        }
    }
}
