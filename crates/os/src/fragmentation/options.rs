//! Options of generated (injected) fragmentation.

use perforate_config::Share;
use perforate_types::HoleSet;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Distribution, Fragmentation};

/// Options of [`Fragmentation`]: `portion=50%,holes=25%,clustered`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FragmentationOptions {
    /// Share of the 2MB regions that are fragmented.
    portion: Share,
    /// Share of the 4KB pages in a fragmented region whose frames belong to other programs or the
    /// kernel: the holes of a 2MB page there.
    holes: Option<Share>,
    /// Places of the holes in a region: in one run (clustered), or each at random (dispersed).
    #[serde(alias = "clustered", alias = "dispersed")]
    distribution: Option<Distribution>,
    /// Clustered holes start at a multiple of this many 4KB pages: a power of two up to 512.
    #[serde(default = "anywhere")]
    align: u16,
    /// Share of the 2MB regions whose memory has no frame left for a 2MB page, with or without
    /// holes.
    #[serde(default)]
    unusable: Share,
    /// allocated: the program has data at the holes, in other frames; unallocated: it never touches
    /// them.
    #[serde(default, alias = "allocated", alias = "unallocated")]
    allocation: Allocation,
}

/// Default of the option `align`: a clustered run of holes starts at any sub-page.
fn anywhere() -> u16 {
    1
}

#[derive(Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Allocation {
    #[default]
    Allocated,
    Unallocated,
}

impl TryFrom<FragmentationOptions> for Fragmentation {
    type Error = &'static str;

    fn try_from(options: FragmentationOptions) -> Result<Self, &'static str> {
        let FragmentationOptions { portion, holes, distribution, align, unusable, allocation } =
            options;
        let allocated = allocation == Allocation::Allocated;
        if portion.value() + unusable.value() > 1.0 {
            return Err("portion and unusable are more than 100% together");
        }
        if unusable > Share::NONE && !allocated {
            return Err("regions that are unusable cannot have unallocated holes");
        }
        if !align.is_power_of_two() || usize::from(align) > HoleSet::SUBPAGES {
            return Err("align is no power of two from 1 to 512");
        }
        let (hole_share, distribution) = match (holes, distribution) {
            (None, _) if portion > Share::NONE => return Err("holes is missing"),
            (_, None) if portion > Share::NONE => {
                return Err("clustered or dispersed is missing");
            }
            (holes, distribution) => {
                (holes.unwrap_or_default(), distribution.unwrap_or(Distribution::Clustered))
            }
        };
        Ok(Self { portion, unusable, hole_share, distribution, align, allocated })
    }
}
