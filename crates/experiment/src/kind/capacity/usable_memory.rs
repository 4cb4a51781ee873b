//! Share of memory that large mappings can use (G §5.3, Fig. 14).
//!
//! Half of a slice with enough usable B-blocks is a superpage. A slice without retired frames is
//! used completely, as two superpages. So Fig. 14 starts at 100 % and settles at 50 % (G §5.3). For
//! perforated pages, the share is the memory that is translated in place.

use perforate_config::{Count, Share};
use perforate_os::{BlockUse, Policy};
use perforate_schemes::gap_tolerant::ChunkPairing;
use perforate_schemes::perforated::Perforated;
use perforate_types::{
    CHUNK_FRAMES, GapTolerance, HoleSet, Random, SLICE_BLOCKS, SUPERPAGE_BLOCKS,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::contiguity::Block;
use super::{Bernoulli, Binomial, Design, Estimate, SAMPLES, Samples, Sampling, figures};
use crate::kind::{Measurement, Settings, Study};

/// Share of memory in the large mappings of a design. Subjects are names of designs, such as `gt-pde-2m`.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UsableMemory {
    /// Share of retired frames.
    retired: Share,
    /// Usable B-blocks that a slice with retired frames must have for a single entry; the two slices of a
    /// paired entry need 32 in common.
    threshold: Count<32, 64>,
    /// Random draws for each point.
    samples: Samples,
}

impl Default for UsableMemory {
    fn default() -> Self {
        Self { retired: Share::NONE, threshold: Count::new(33), samples: SAMPLES }
    }
}

impl Study for UsableMemory {
    const NAME: &'static str = "usable-memory";
    type Settings = Self;

    fn read(settings: &Settings) -> Result<Self, String> {
        settings.read()
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        Design::parse(subject).map(|_| ())
    }

    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        let (retired, threshold) = (self.retired.value(), self.threshold.get() as u32);
        let design = Design::parse(subject)?;
        let sampling = Sampling::for_point(self.samples, seed, subject, retired);
        let drawn = design.estimate(retired, threshold, sampling);
        Ok(figures(design.closed_form(retired, threshold), drawn))
    }
}

/// Number of 4KB frames in a region, to which one filter bit applies.
const REGION_FRAMES: u32 = 64;
/// Number of regions in a 2MB block.
const REGIONS: u32 = 8;

impl Design {
    /// Returns the expected share of memory in large mappings if the share `retired` of frames is retired.
    /// `None` for paired entries, because pairs are found by a search.
    ///
    /// `threshold` is the number of usable B-blocks that a slice with retired frames needs.
    pub fn closed_form(&self, retired: f64, threshold: u32) -> Option<f64> {
        match self {
            Self::Conventional => Some(Block::LARGE_PAGE.closed_form(retired)),
            Self::GapTolerant(mode) if mode.is_paired() => None,
            Self::GapTolerant(mode) => {
                let slices = Binomial::new(SLICE_BLOCKS, usable_share(*mode, retired));
                Some((slices.at_least(threshold) + slices.exactly(SLICE_BLOCKS)) / 2.0)
            }
            Self::Perforated(policy) => Some(in_place(policy, retired)),
        }
    }

    /// Estimates the share of memory in large mappings from random memory: 2MB blocks, slices, or chunks of
    /// slices for paired entries.
    pub fn estimate(&self, retired: f64, threshold: u32, sampling: Sampling) -> Estimate {
        match self {
            Self::Conventional => Block::LARGE_PAGE.estimate(retired, sampling),
            Self::GapTolerant(mode) => {
                let blocks = Bernoulli::new(usable_share(*mode, retired));
                if mode.is_paired() {
                    let slices = (CHUNK_FRAMES / mode.slice_frames()) as usize;
                    paired(blocks, slices, sampling)
                } else {
                    single(blocks, threshold, sampling)
                }
            }
            Self::Perforated(policy) => perforated(policy, retired, sampling),
        }
    }
}

/// Returns the share of B-blocks that contain no retired frame.
fn usable_share(mode: GapTolerance, retired: f64) -> f64 {
    (1.0 - retired).powi(mode.block_frames() as i32)
}

fn single(blocks: Bernoulli, threshold: u32, sampling: Sampling) -> Estimate {
    let superpages = |random: &mut Random| match blocks.word(random).count_ones() {
        SLICE_BLOCKS => 2,
        usable => u64::from(usable >= threshold),
    };
    sampling.average(sampling.samples, 2, || superpages)
}

/// Estimates the share of memory in large mappings for paired entries. Each entry maps as much memory as one
/// slice has. Two slices are paired if they have 32 usable B-blocks in common (Algorithm 1).
fn paired(blocks: Bernoulli, slices: usize, sampling: Sampling) -> Estimate {
    let whole = slices as u64;
    let make = || {
        let mut vectors = vec![0; slices];
        move |random: &mut Random| {
            vectors.fill_with(|| blocks.word(random));
            u64::from(ChunkPairing::of(&vectors, SUPERPAGE_BLOCKS).entries())
        }
    };
    sampling.average(sampling.samples.div_ceil(whole), whole, make)
}

/// Estimates the share of memory in perforated pages: generates holes at random, and applies the policy to
/// each block.
fn perforated(policy: &Perforated, retired: f64, sampling: Sampling) -> Estimate {
    let frames = Bernoulli::new(retired);
    let in_place = |random: &mut Random| {
        let holes = HoleSet::from_words(std::array::from_fn(|_| frames.word(random)));
        match policy.use_block(&holes) {
            BlockUse::Large | BlockUse::WithHoles(_) => (HoleSet::SUBPAGES - holes.count()) as u64,
            BlockUse::Pages => 0,
        }
    };
    sampling.average(sampling.samples, HoleSet::SUBPAGES as u64, || in_place)
}

/// Returns the expected share of frames that a perforated page translates in place. The expectation is over
/// the number of regions with holes, and the number of holes in them.
fn in_place(policy: &Perforated, retired: f64) -> f64 {
    let total = HoleSet::SUBPAGES;
    let most = policy.options().max_hole_share.value();
    let most_regions = policy.options().max_filter_bits.get() as u32;
    let few = |holes: usize| most >= 1.0 || (holes as f64) < most * total as f64;
    let region: Vec<f64> = (0..=REGION_FRAMES)
        .map(|holes| match holes {
            0 => 0.0,
            _ => Binomial::new(REGION_FRAMES, retired).exactly(holes),
        })
        .collect();
    let mut holes_in_all = vec![1.0]; // of no region: certainly no hole
    let mut expected = 0.0;
    for with_holes in 0..=most_regions.min(REGIONS) {
        let without = (1.0 - retired).powi((REGION_FRAMES * (REGIONS - with_holes)) as i32);
        let ways = choose(REGIONS, with_holes);
        for (holes, probability) in holes_in_all.iter().enumerate() {
            if holes == 0 || few(holes) {
                expected += ways * without * probability * (total - holes) as f64 / total as f64;
            }
        }
        holes_in_all = convolve(&holes_in_all, &region);
    }
    expected
}

/// Returns the number of ways to choose `some` out of `all` regions.
fn choose(all: u32, some: u32) -> f64 {
    (0..some).fold(1.0, |ways, index| ways * f64::from(all - index) / f64::from(index + 1))
}

/// Returns the distribution of the sum of two independent integers with distributions `a` and `b`.
fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, p) in a.iter().enumerate() {
        for (j, q) in b.iter().enumerate() {
            sum[i + j] += p * q;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELECTIVE: &str = "perforated:max-hole-share=25%,max-filter-bits=4";

    fn design(name: &str) -> Design {
        Design::parse(name).unwrap_or_else(|problem| panic!("{problem}"))
    }

    fn closed_form(name: &str, retired: f64) -> f64 {
        design(name).closed_form(retired, 32).unwrap()
    }

    #[test]
    fn perfect_and_lost_memory() {
        for name in ["2m", "gt-pde-1m", "gt-pde-2m", "gt-pde-4m", "perforated", SELECTIVE] {
            assert_eq!(closed_form(name, 0.0), 1.0, "{name}");
            assert_eq!(closed_form(name, 1.0), 0.0, "{name}");
        }
        for name in ["p-gt-pde-2m", "p-gt-pde-4m"] {
            let sampling = Sampling { samples: 1000, seed: 1 };
            assert_eq!(design(name).closed_form(0.01, 32), None);
            assert_eq!(design(name).estimate(0.0, 32, sampling).mean, 1.0);
            assert_eq!(design(name).estimate(1.0, 32, sampling).mean, 0.0);
        }
    }

    /// Without thresholds, every frame that is not retired is translated in place.
    #[test]
    fn perforated_pages_keep_all_frames() {
        for retired in [0.001, 0.01, 0.055, 0.1, 0.5] {
            assert!((closed_form("perforated", retired) - (1.0 - retired)).abs() < 1e-12);
        }
        // If only one region may have holes, none of the other seven has any.
        let retired: f64 = 0.002;
        let clean = (1.0 - retired).powi(64);
        let one = 8.0 * clean.powi(7) * ((1.0 - clean) - (64.0 * retired) / 512.0);
        let expected = clean.powi(8) + one;
        let name = "perforated:max-filter-bits=1";
        assert!((closed_form(name, retired) - expected).abs() < 1e-12);
    }

    /// Estimates from random memory agree with the closed forms for fixed seeds.
    #[test]
    fn drawn_memory_agrees() {
        let names = ["2m", "gt-pde-1m", "gt-pde-2m", "gt-pde-4m", "perforated", SELECTIVE];
        for (number, name) in (0..).zip(names) {
            for retired in [0.0, 0.0005, 0.003, 0.014, 0.028, 0.055, 0.1] {
                for threshold in [32, 33] {
                    let sampling = Sampling { samples: 60_000, seed: 1 }.of(number, retired);
                    let drawn = design(name).estimate(retired, threshold, sampling);
                    let exact = design(name).closed_form(retired, threshold).unwrap();
                    assert!(drawn.agrees_with(exact), "{name} {retired}: {drawn:?} {exact}");
                    assert!(drawn.half_width_95 < 0.005);
                }
            }
        }
    }

    /// Availability vectors from random frames have the same distribution as random vectors.
    #[test]
    fn vectors_made_of_frames() {
        for retired in [0.001, 0.028] {
            let frames = Bernoulli::new(retired);
            let superpages = |random: &mut Random| {
                // A word contains four B-blocks of 16 frames.
                let usable: usize = (0..16)
                    .map(|_| frames.word(random))
                    .map(|word| (0..4).filter(|i| word >> (16 * i) & 0xffff == 0).count())
                    .sum();
                if usable == 64 { 2 } else { u64::from(usable >= 32) }
            };
            let sampling = Sampling { samples: 60_000, seed: 4 };
            let drawn = sampling.average(sampling.samples, 2, || superpages);
            assert!(drawn.agrees_with(closed_form("gt-pde-2m", retired)), "{drawn:?}");
        }
    }

    /// G §5.3: the share for P-GT-PDE-2MB is between those for GT-PDE-2MB and GT-PDE-1MB, and accordingly for
    /// P-GT-PDE-4MB.
    #[test]
    fn paired_entries_lie_between_two_single_ones() {
        for (name, below, above) in
            [("p-gt-pde-2m", "gt-pde-2m", "gt-pde-1m"), ("p-gt-pde-4m", "gt-pde-4m", "gt-pde-2m")]
        {
            for step in 0..=20 {
                let retired = f64::from(step) * 0.005;
                let sampling = Sampling { samples: 40_000, seed: 2 }.of(0, retired);
                let drawn = design(name).estimate(retired, 32, sampling);
                let room = 2.0 * drawn.half_width_95;
                let (low, high) = (closed_form(below, retired), closed_form(above, retired));
                assert!(drawn.mean >= low - room, "{name} {retired}: {drawn:?} < {low}");
                assert!(drawn.mean <= high + room, "{name} {retired}: {drawn:?} > {high}");
            }
            // In the middle of the range it is far above one of them and far below the other.
            let middle = if name == "p-gt-pde-2m" { 0.05 } else { 0.025 };
            let sampling = Sampling { samples: 40_000, seed: 2 };
            let drawn = design(name).estimate(middle, 32, sampling).mean;
            assert!(drawn > closed_form(below, middle) + 0.1);
            assert!(drawn < closed_form(above, middle) - 0.1);
        }
    }

    /// G-C4: at least half of memory is in superpages up to these shares of retired frames.
    #[test]
    fn figure_14() {
        for (name, retired) in [("gt-pde-4m", 0.014), ("gt-pde-2m", 0.028), ("gt-pde-1m", 0.055)] {
            let share = closed_form(name, retired);
            assert!((share - 0.5).abs() < 0.01, "{name}: {share}");
            assert!(closed_form(name, retired * 1.3) < 0.45, "{name}");
        }
    }
}
