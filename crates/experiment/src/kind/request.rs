//! Share of a request for memory that gets 2MB pages on a machine with a long uptime (P §III.C):
//! immediately, after background compaction, and with perforated pages.
//!
//! The workload that ages memory (`crates/os/src/ageing.rs`) is our own and not fitted to results.
//! The paper only mentions "compiling the Linux kernel until free memory was depleted".

use perforate_config::{Changes, ConfigError, Size};
use perforate_os::{
    Ageing, AgeingPreset, Defrag, EarlyCompaction, FaultMap, KernelConfig, ZoneLayout,
};
use perforate_schemes::perforated::PerforationOptions;
use perforate_schemes::segment;
use perforate_sim::{
    MemoryOptions, MemorySnapshot, MemoryState, PolicyOptions, Request, Scheme, SizeOptions,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::named;
use super::settings::{problem_of, wrong};
use super::{Measurement, Settings, Study};

const REGION_BYTES: u64 = 2 << 20;

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestSettings {
    /// Physical memory; the paper's machine has 12G.
    memory: Size,
    /// Memory that the program asks for and touches, whole 2MB pages.
    request: Size,
    /// Past use of memory: PRESET[,unusable=U%][,slab=S%][,pinned=P%][,free=F%], or none.
    age: Option<Ageing>,
    /// Before the request: none or background.
    compaction: Option<EarlyCompaction>,
    /// Effort of a fault when no block is free.
    defrag: Option<Defrag>,
    /// Zones of memory.
    zones: Option<ZoneLayout>,
    /// Faulty frames.
    #[schemars(with = "Option<String>")]
    faulty: Option<FaultMap>,
    /// Options of the policy for perforated pages.
    perforation: Option<Changes<PerforationOptions>>,
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self {
            memory: Size(12 << 30),
            request: Size(2 << 30),
            age: Some(AgeingPreset::KernelBuild.into()),
            compaction: None,
            defrag: None,
            zones: None,
            faulty: None,
            perforation: None,
        }
    }
}

/// Shares of a request for memory that get large and perforated pages in aged memory. Subjects are schemes
/// with 4KB, 2MB or perforated pages.
pub struct LargePageRequest {
    request_bytes: u64,
    memory: MemoryState,
}

impl Study for LargePageRequest {
    const NAME: &'static str = "large-page-request";
    type Settings = RequestSettings;

    fn read(settings: &Settings) -> Result<Self, String> {
        let own: RequestSettings = settings.read()?;
        let request_bytes = own.request.bytes();
        let is_whole = request_bytes > 0 && request_bytes.is_multiple_of(REGION_BYTES);
        if !is_whole || own.request > own.memory {
            let problem = format!("is whole 2MB pages, no more than memory, not {}", own.request);
            return Err(wrong(ConfigError::new(problem).under("request")));
        }
        let options = MemoryOptions {
            size: SizeOptions { memory: Some(own.memory), ..SizeOptions::default() },
            kernel: KernelConfig {
                age: own.age,
                compaction: own.compaction,
                defrag: own.defrag.unwrap_or_default(),
                zones: own.zones.unwrap_or_default(),
                faulty: own.faulty,
                ..KernelConfig::default()
            },
            policies: PolicyOptions { perforation: own.perforation, ..PolicyOptions::default() },
            ..MemoryOptions::default()
        };
        let memory = options.resolve(&MemorySnapshot::load).map_err(problem_of)?;
        Ok(Self { request_bytes, memory })
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        scheme(subject).map(|_| ())
    }

    fn cost(&self) -> f64 {
        // Ageing allocates and frees the whole memory several times.
        self.memory.kernel.memory_bytes as f64 / 400.0
    }

    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        let KernelConfig { memory_bytes, zones, faulty, age, compaction, defrag, .. } =
            self.memory.kernel.clone();
        let policy = (scheme(subject)?.policy)(&self.memory.policy_options()).map_err(wrong)?;
        let kernel = KernelConfig { seed, zones, faulty, age, ..KernelConfig::new(memory_bytes) };
        let request = Request { bytes: self.request_bytes, policy, compaction, defrag };
        let shares = request.serve(kernel).map_err(|error| error.to_string())?;
        Ok(named([
            ("large_page_share", shares.large),
            ("perforated_page_share", shares.perforated),
            ("base_page_share", 1.0 - shares.large - shares.perforated),
        ]))
    }
}

fn scheme(subject: &str) -> Result<&'static Scheme, String> {
    let scheme = Scheme::find(subject).map_err(|error| error.to_string())?;
    if scheme.ideal_memory || segment::is_used_by(scheme) || scheme.gap_tolerance.is_some() {
        return Err(format!(
            "{subject:?} maps by other means than 4KB, 2MB and perforated pages; \
             take 4k, thp, perforated or one of their kin"
        ));
    }
    Ok(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{check, measure, settings};

    fn shares(texts: &[(&str, &str)], subject: &str) -> [f64; 3] {
        let measured = measure::<LargePageRequest>(&settings(texts), subject, 1);
        ["large_page_share", "perforated_page_share", "base_page_share"].map(|name| measured[name])
    }

    /// Memory has 128 blocks of 2MB, and every second one has a faulty frame. Of 96 requested regions, at
    /// most 64 (less the page tables) can be large pages. The others have 4KB pages or are perforated.
    #[test]
    fn faulty_frames_take_large_pages_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("faulty");
        let frames: String = (0..64).map(|block| format!("{}\n", block * 1024 + 5)).collect();
        std::fs::write(&path, frames).unwrap();
        let faulty = path.to_str().unwrap();
        let texts = [("memory", "256M"), ("request", "192M"), ("age", "none"), ("faulty", faulty)];
        let [large, perforated, base] = shares(&texts, "thp");
        assert!(large > 0.6 && large <= 64.0 / 96.0 && perforated == 0.0, "{large}");
        assert!((large + base - 1.0).abs() < 1e-12);
        let [large, perforated, base] = shares(&texts, "perforated");
        assert!(large <= 64.0 / 96.0 && perforated >= 32.0 / 96.0 && base < 0.01, "{perforated}");
        assert_eq!(shares(&texts, "4k"), [0.0, 0.0, 1.0]);
    }

    /// P §III.C: after building a kernel, a machine has no large pages immediately, and some after
    /// background compaction.
    #[test]
    fn compaction_brings_large_pages_back() {
        let small = |more| [("memory", "768M"), ("request", "128M"), ("compaction", more)];
        let [at_once, ..] = shares(&small("none"), "thp");
        let [compacted, ..] = shares(&small("background"), "thp");
        assert!(at_once < 0.05 && compacted > at_once + 0.05, "{at_once}, {compacted}");
    }

    #[test]
    fn settings_are_checked() {
        let check = check::<LargePageRequest>;
        assert_eq!(check(&[], "perforated-selective"), Ok(()));
        for (texts, subject, word) in [
            (vec![("request", "3M")], "thp", "whole 2MB pages"),
            (vec![("request", "13G")], "thp", "no more than memory"),
            (vec![("age", "yesterday")], "thp", "there is no \"yesterday\""),
            (vec![("defrag", "often")], "thp", "often"),
            (vec![("compaction", "some")], "thp", "some"),
            (vec![("perforation", "nonsense")], "thp", "nonsense"),
            (vec![], "segment", "other means"),
            (vec![], "ideal", "other means"),
            (vec![], "2m", "no scheme"),
        ] {
            let problem = check(&texts, subject).unwrap_err();
            assert!(problem.contains(word) && !problem.contains('\n'), "{problem}");
        }
    }
}
