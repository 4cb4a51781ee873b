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
    /// Share of the sub-pages of these that are somebody else's.
    holes: Option<Share>,
    /// Place of the holes: one run, or anywhere.
    #[serde(alias = "clustered", alias = "dispersed")]
    distribution: Option<Distribution>,
    /// Clustered holes start at a multiple of this many sub-pages: a power of two up to 512. Dispersed
    /// ones lie anywhere.
    #[serde(default = "anywhere")]
    align: u16,
    /// Share of the 2MB regions without any frame for a 2MB page.
    #[serde(default)]
    unusable: Share,
    /// Data of the program at the holes (in other frames), or none.
    #[serde(default, alias = "allocated", alias = "unallocated")]
    allocation: Allocation,
}

/// Default of `align`: clusters start at any sub-page.
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
