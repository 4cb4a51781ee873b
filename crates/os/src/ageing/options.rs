//! Options of the ageing of memory.

use std::fmt;

use perforate_config::{Share, write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ageing of memory before the run: a preset, and optionally a share of unusable memory at which ageing ends
/// earlier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ageing {
    /// Preset for the kind of use that memory has seen.
    #[serde(alias = "desktop-day", alias = "kernel-build", alias = "weeks")]
    pub preset: AgeingPreset,
    /// Stops once this share of the free memory is of no use for 2MB blocks (Linux's unusable free
    /// index at order 9) and memory was filled once.
    #[serde(default, rename(deserialize = "unusable"))]
    pub target_unusable: Option<Share>,
    /// Share of memory that slab grows to; the preset's where it is not given.
    #[serde(default, rename(deserialize = "slab"))]
    pub slab_share: Option<Share>,
    /// Share of the cached files whose pages cannot be moved, as P §III.C says of the page cache.
    #[serde(default, rename(deserialize = "pinned"))]
    pub pinned_share: Share,
    /// Share of memory that is free at the end: page cache is dropped for it, oldest first. Without
    /// it memory stays as full as it got.
    #[serde(default, rename(deserialize = "free"))]
    pub free_share: Option<Share>,
}

/// Preset background workloads that age memory before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgeingPreset {
    /// A day at a desk: memory was filled once with cached files, little kernel data.
    DesktopDay,
    /// A kernel was built: four times memory was allocated, free memory depleted (P §III.C).
    KernelBuild,
    /// Weeks of builds and backups: ten times memory was allocated, much slab.
    Weeks,
}

impl AgeingPreset {
    /// All presets, in ascending order of the amount of memory that they allocate.
    pub const ALL: [Self; 3] = [Self::DesktopDay, Self::KernelBuild, Self::Weeks];
}

impl fmt::Display for AgeingPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(self))
    }
}

impl From<AgeingPreset> for Ageing {
    fn from(preset: AgeingPreset) -> Self {
        Self {
            preset,
            target_unusable: None,
            slab_share: None,
            pinned_share: Share::NONE,
            free_share: None,
        }
    }
}

impl fmt::Display for Ageing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.preset.fmt(f)?;
        if let Some(share) = self.target_unusable {
            write!(f, ",unusable={share}")?;
        }
        if let Some(share) = self.slab_share {
            write!(f, ",slab={share}")?;
        }
        if self.pinned_share > Share::NONE {
            write!(f, ",pinned={}", self.pinned_share)?;
        }
        self.free_share.map_or(Ok(()), |share| write!(f, ",free={share}"))
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;

    #[test]
    fn ageing_is_a_preset_and_where_it_ends() {
        for preset in AgeingPreset::ALL {
            assert_eq!(read(&preset.to_string()), Ok(Ageing::from(preset)));
        }
        let text = "weeks,unusable=90%,slab=20%,pinned=0.5%,free=25%";
        assert_eq!(read::<Ageing>(text).unwrap().to_string(), text);
        for (text, problem) in [
            ("years", "there is no \"years\"; there are desktop-day, kernel-build, preset, weeks"),
            ("weeks,unusable=2", "unusable: expected a share from 0% to 100%, not \"2\""),
            ("weeks,unsable=2%", "there is no \"unsable\"; did you mean unusable?"),
            ("weeks,free=1%,free=2%", "free is given twice"),
            ("weeks,kernel-build", "preset is given twice"),
            ("free=1%", "preset is missing"),
        ] {
            let error = read::<Ageing>(text).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
