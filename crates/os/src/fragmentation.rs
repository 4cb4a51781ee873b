//! Generated (injected) fragmentation, as paper P emulates it (P §VII.A). A given portion of the 2MB regions
//! is fragmented. In each of these regions, data of other owners occupy a given share of the frames.

mod options;

use std::fmt;

use perforate_config::Share;
use perforate_types::{HoleSet, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use options::FragmentationOptions;

/// Number of aligned 2MB regions in a group. Every group has exactly the given portion of fragmented
/// regions, up to rounding.
const GROUP: u64 = 64;
const SHUFFLE: u64 = 1;
const HOLES: u64 = 2;

/// Distribution of the holes in a fragmented 2MB block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// One contiguous run at a uniformly random start, without wrapping (see
    /// [`Fragmentation::align`]).
    Clustered,
    /// Uniformly over the block, without replacement.
    Dispersed,
}

/// Generated fragmentation of memory: shares of the 2MB regions that are affected, and their holes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "FragmentationOptions")]
pub struct Fragmentation {
    /// Share of the 2MB regions that are fragmented.
    pub portion: Share,
    /// Share of the 2MB regions whose block has no usable frame at all. Every policy maps 4KB pages there (P
    /// §III.C has such regions besides perforated ones).
    pub unusable: Share,
    /// Share of the sub-pages of a fragmented region that are holes.
    pub hole_share: Share,
    /// Distribution of the holes in a fragmented region.
    pub distribution: Distribution,
    /// Alignment of the start of clustered holes, in sub-pages. P §VII.A says "clustered" and not where
    /// clusters lie.
    pub align: u16,
    /// True if the program has data at the holes, which then lie in other frames. Otherwise the program is
    /// expected never to touch the holes.
    pub allocated: bool,
}

impl Fragmentation {
    /// True if no region is fragmented.
    pub fn is_none(&self) -> bool {
        self.portion == Share::NONE && self.unusable == Share::NONE
    }

    /// Holes of virtual 2MB region number `region` (address ÷ 2MB); `None` if the region is not fragmented.
    ///
    /// The result depends only on seed and region, so that all schemes of a comparison see the same
    /// fragmented regions and a workload can avoid unallocated holes. The choice is stratified: every
    /// aligned group of 64 regions has portion × 64 fragmented regions (a fractional rest is carried to the
    /// next group). Every fragmented region has round(share × 512) holes.
    pub fn holes(&self, seed: u64, region: u64) -> Option<HoleSet> {
        let count = self.holes_of_region();
        match self.state(seed, region) {
            State::Unusable => return Some(HoleSet::FULL),
            State::Fragmented if count > 0 => {}
            State::Fragmented | State::Whole => return None,
        }
        let mut random = Random::keyed(seed, HOLES, region);
        Some(match self.distribution {
            Distribution::Clustered => {
                let align = usize::from(self.align);
                let starts = (HoleSet::SUBPAGES - count) / align + 1;
                let start = random.below(starts as u64) as usize * align;
                HoleSet::of_range(start..start + count)
            }
            Distribution::Dispersed => sample(&mut random, count),
        })
    }

    /// True if a 2MB region has holes. Quicker than finding out which.
    pub fn has_holes(&self, seed: u64, region: u64) -> bool {
        match self.state(seed, region) {
            State::Unusable => true,
            State::Fragmented => self.holes_of_region() > 0,
            State::Whole => false,
        }
    }

    /// Number of holes of each fragmented 2MB region, 0–512.
    fn holes_of_region(&self) -> usize {
        (self.hole_share.value() * HoleSet::SUBPAGES as f64).round() as usize
    }

    fn state(&self, seed: u64, region: u64) -> State {
        let group = region / GROUP;
        let in_group = |share: f64| {
            let before = |group: u64| (share * GROUP as f64 * group as f64).round() as u64;
            before(group + 1) - before(group)
        };
        let fragmented = in_group(self.portion.value());
        let affected = in_group(self.portion.value() + self.unusable.value());
        let mut random = Random::keyed(seed, SHUFFLE, group);
        let mut order: [u8; GROUP as usize] = std::array::from_fn(|index| index as u8);
        // The first elements of a Fisher–Yates shuffle: first the fragmented regions, then the
        // unusable ones.
        for place in 0..affected {
            let other = place + random.below(GROUP - place);
            order.swap(place as usize, other as usize);
            if u64::from(order[place as usize]) == region % GROUP {
                return if place < fragmented { State::Fragmented } else { State::Unusable };
            }
        }
        State::Whole
    }
}

/// Fragmentation of one 2MB region: whole, with holes (fragmented), or without any usable frame.
enum State {
    Whole,
    Fragmented,
    Unusable,
}

/// Chooses `count` of 512 sub-pages at random; every set is equally likely (Floyd's algorithm).
fn sample(random: &mut Random, count: usize) -> HoleSet {
    let mut holes = HoleSet::EMPTY;
    for last in HoleSet::SUBPAGES - count..HoleSet::SUBPAGES {
        if !holes.insert(random.below(last as u64 + 1) as usize) {
            holes.insert(last);
        }
    }
    holes
}

impl fmt::Display for Fragmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distribution = match self.distribution {
            Distribution::Clustered => "clustered",
            Distribution::Dispersed => "dispersed",
        };
        write!(f, "portion={},holes={},{distribution}", self.portion, self.hole_share)?;
        if self.align > 1 {
            write!(f, ",align={}", self.align)?;
        }
        if self.unusable > Share::NONE {
            write!(f, ",unusable={}", self.unusable)?;
        }
        if self.allocated { Ok(()) } else { f.write_str(",unallocated") }
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;

    fn fragmentation(text: &str) -> Fragmentation {
        read(text).expect("valid")
    }

    #[test]
    fn every_group_of_64_regions_has_exactly_its_portion() {
        // 25 % of 64 = 16. 10 % of 64 = 6.4: groups carry to 6, 7, 6, 7, 6 = 32 in five groups.
        for (portion, counts) in [(25, [16; 5]), (100, [64; 5]), (0, [0; 5]), (10, [6, 7, 6, 7, 6])]
        {
            let text = format!("portion={portion}%,holes=25%,clustered");
            let fragmentation = fragmentation(&text);
            for (group, expected) in (0..).zip(counts) {
                let count = (group * 64..group * 64 + 64)
                    .filter(|&region| fragmentation.holes(7, region).is_some())
                    .count();
                assert_eq!(count, expected, "portion {portion} %, group {group}");
            }
        }
    }

    #[test]
    fn unusable_regions_come_beside_fragmented_ones() {
        // 12.5 % of 64 = 8 fragmented, 50 % of 64 = 32 unusable, 24 whole.
        let text = "portion=12.5%,holes=25%,clustered,unusable=50%";
        assert_eq!(fragmentation(text).to_string(), text);
        let holes = |region| fragmentation(text).holes(7, region).map_or(0, |holes| holes.count());
        let count = |wanted| (0..64).filter(|&region| holes(region) == wanted).count();
        assert_eq!((count(128), count(512), count(0)), (8, 32, 24));
    }

    #[test]
    fn every_fragmented_region_has_exactly_its_holes() {
        for percent in [1, 10, 25, 50, 90, 100] {
            let expected = (percent as f64 * 5.12).round() as usize;
            for word in ["clustered", "dispersed"] {
                let fragmentation = fragmentation(&format!("portion=100%,holes={percent}%,{word}"));
                for region in 0..200 {
                    let holes = fragmentation.holes(3, region).expect("fragmented");
                    assert_eq!(holes.count(), expected);
                    if word == "clustered" {
                        let places: Vec<_> = holes.iter().collect();
                        assert_eq!(places[places.len() - 1] - places[0] + 1, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn regions_that_have_holes_are_those_with_a_set_of_holes() {
        for text in [
            "portion=40%,holes=25%,dispersed",
            "portion=40%,holes=0%,clustered",
            "portion=20%,holes=0%,clustered,unusable=30%",
        ] {
            let fragmentation = fragmentation(text);
            for region in 0..200 {
                let has_holes = fragmentation.has_holes(7, region);
                assert_eq!(has_holes, fragmentation.holes(7, region).is_some(), "{text}, {region}");
            }
        }
    }

    #[test]
    fn dispersed_holes_are_uniform_and_clusters_start_anywhere() {
        let dispersed = fragmentation("portion=100%,holes=25%,dispersed");
        let mut counts = [0u32; 512];
        for region in 0..4096 {
            for hole in dispersed.holes(1, region).expect("fragmented").iter() {
                counts[hole] += 1;
            }
        }
        // Binomial(4096, 1/4): mean 1024, standard deviation 27.7. The bounds are 5 deviations, for
        // 512 places.
        assert!(counts.iter().all(|count| (885..=1163).contains(count)), "{counts:?}");
        let clustered = fragmentation("portion=100%,holes=25%,clustered");
        let starts: std::collections::BTreeSet<_> = (0..8192)
            .map(|region| clustered.holes(1, region).unwrap().iter().next().unwrap())
            .collect();
        assert_eq!(starts.len(), 512 - 128 + 1, "every start occurs in 8192 draws");
        assert_eq!(starts.last(), Some(&384));
    }

    #[test]
    fn aligned_clusters_start_at_multiples() {
        let fragmentation = fragmentation("portion=100%,holes=25%,clustered,align=64");
        let starts: std::collections::BTreeSet<_> = (0..200)
            .map(|region| fragmentation.holes(1, region).unwrap().iter().next().unwrap())
            .collect();
        // 512 − 128 = 384 is the last start of a cluster of 128 sub-pages.
        assert_eq!(Vec::from_iter(starts), [0, 64, 128, 192, 256, 320, 384]);
    }

    #[test]
    fn seeds_differ_and_the_same_seed_repeats() {
        let fragmentation = fragmentation("portion=50%,holes=25%,dispersed");
        let draw = |seed| (0..256).map(|r| fragmentation.holes(seed, r)).collect::<Vec<_>>();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn text_round_trips_and_errors_say_what_is_wrong() {
        for text in
            ["portion=50%,holes=25%,clustered", "portion=100%,holes=90%,dispersed,unallocated"]
                .into_iter()
                .chain(["portion=50%,holes=25%,clustered,align=64,unusable=5%"])
        {
            assert_eq!(fragmentation(text).to_string(), text);
        }
        let half = fragmentation("holes=0.25,distribution=dispersed,portion=0.5");
        assert_eq!(half.portion, Share::percent(50));
        let unusable = fragmentation("portion=0%,unusable=60%");
        assert!(!unusable.is_none() && fragmentation("portion=0%").is_none());
        for (text, reason) in [
            ("portion=150%,holes=25%,clustered", "portion: expected a share from 0% to 100%"),
            ("portion=-1%,holes=25%,clustered", "portion: expected a share from 0% to 100%"),
            ("holes=25%,clustered", "portion is missing"),
            ("portion=50%,clustered", "holes is missing"),
            ("portion=50%,holes=25%", "clustered or dispersed is missing"),
            ("portion=50%,holes=25%,scattered", "there is no \"scattered\""),
            ("porton=50%", "there is no \"porton\"; did you mean portion?"),
            ("portion=50%,holes=25%,clustered,align=48", "align is no power of two"),
            ("portion=60%,holes=1%,clustered,unusable=50%", "more than 100% together"),
            ("portion=5%,holes=5%,clustered,unusable=5%,unallocated", "cannot have unallocated"),
            ("portion=5%,holes=5%,clustered,dispersed", "distribution is given twice"),
            ("portion=5%,holes=5%,clustered,portion=6%", "portion is given twice"),
            ("", "is empty"),
        ] {
            let error = read::<Fragmentation>(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn shares_may_fill_all_regions_and_round_to_whole_sub_pages() {
        let whole = fragmentation("portion=60%,holes=1%,clustered,unusable=40%");
        assert!((0..64).all(|region| whole.has_holes(1, region)));
        for (text, holes) in [("0.09%", 0), ("0.1%", 1), ("0.29%", 1), ("0.3%", 2), ("100%", 512)] {
            let all = fragmentation(&format!("portion=100%,holes={text},dispersed"));
            let found = all.holes(1, 5).map_or(0, |holes| holes.count());
            assert_eq!((found, all.has_holes(1, 5)), (holes, holes > 0), "{text}");
        }
        let default = fragmentation("portion=0%");
        assert_eq!(default.distribution, Distribution::Clustered);
        assert_eq!((default.align, default.allocated), (1, true));
        assert_eq!((default.hole_share, default.unusable), (Share::NONE, Share::NONE));
        let both = |text: &str| fragmentation(text).allocated;
        assert!(both("portion=5%,holes=5%,clustered,allocated"));
        assert!(!both("portion=5%,holes=5%,clustered,unallocated"));
        assert!(!fragmentation("portion=1%,holes=0%,clustered").is_none());
        let written = fragmentation("portion=1%,holes=2%,dispersed,align=2").to_string();
        assert_eq!(written, "portion=1%,holes=2%,dispersed,align=2");
    }

    /// Draws are those of earlier versions: stored results depend on them.
    #[test]
    fn regions_and_holes_are_drawn_as_before() {
        let text = "portion=25%,holes=1%,dispersed,unusable=10%";
        let drawn = fragmentation(text);
        let count = |region| drawn.holes(3, region).map_or(0, |holes| holes.count());
        let holed: Vec<u64> = (64..128).filter(|&region| count(region) == 5).collect();
        let unusable: Vec<u64> = (64..128).filter(|&region| count(region) == 512).collect();
        assert_eq!((holed.len(), unusable.len()), (16, 7));
        let places: Vec<usize> = drawn.holes(3, holed[0]).unwrap().iter().collect();
        assert_eq!(
            (&holed[..3], &unusable[..3], places),
            ([68, 72, 73].as_slice(), [87, 95, 103].as_slice(), vec![59, 67, 118, 422, 470])
        );
    }
}
