//! How much of a request for memory gets 2MB pages on a machine that has been up for a while
//! (P §III.C): at once, after background compaction, and how much more as perforated pages.
//!
//! The workload that ages memory (`crates/os/src/ageing.rs`) is ours, as the paper names only
//! "compiling the Linux kernel until free memory was depleted"; nothing in it is fitted.

use perforate_os::KernelConfig;
use perforate_sim::{MemoryState, Past, PastOptions, Request, Scheme};

use super::case_study::files;
use super::{Kind, Measurement, Setting, Settings};

const MEMORY: &str = "12G";
const REQUEST: &str = "2G";
const AGE: &str = "kernel-build";
const REGION_BYTES: u64 = 2 << 20;

const fn setting(key: &'static str, meaning: &'static str, default: &'static str) -> Setting {
    Setting { key, meaning, default: Some(default) }
}

const SETTINGS: &[Setting] = &[
    setting("memory", "physical memory; the paper's machine has 12G", MEMORY),
    setting("request", "what the program asks for and touches, whole 2MB pages", REQUEST),
    setting("age", "what memory has seen: PRESET[,unusable=U%][,free=F%], or none", AGE),
    setting("compaction", "before the request: none or background", "none"),
    setting("defrag", "what a fault does when no block is free, as --defrag", "never"),
    setting("zones", "zones of memory, as --zones", "single"),
    Setting { key: "faulty", meaning: "faulty frames, as --faulty", default: None },
    Setting {
        key: "perforation",
        meaning: "options of the policy for perforated pages",
        default: None,
    },
];

/// The kind of this file.
pub struct LargePageRequest;

impl Kind for LargePageRequest {
    fn name(&self) -> &'static str {
        "large-page-request"
    }

    fn summary(&self) -> &'static str {
        "shares of a request for memory that get large and perforated pages in aged memory"
    }

    fn subjects(&self) -> &'static str {
        "schemes with 4KB, 2MB or perforated pages"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        scheme(subject)?;
        request_bytes(settings, &memory(settings)?).map(|_| ())
    }

    fn inputs(&self, settings: &Settings) -> Result<Vec<String>, String> {
        files(settings, &["faulty"])
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // Ageing allocates and frees memory several times over.
        memory(settings).map_or(0.0, |memory| memory.memory_bytes as f64 / 400.0)
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let memory = memory(settings)?;
        let bytes = request_bytes(settings, &memory)?;
        let mut measurements = Vec::with_capacity(subjects.len());
        for subject in subjects {
            let policy = scheme(subject)?.policy_text(&memory);
            let Past { compacted, defrag, .. } = memory.past;
            let request = Request { bytes, policy, compacted, defrag };
            let shares = request.serve(kernel_config(&memory, seed));
            let shares = shares.map_err(|error| format!("{subject}: {error}"))?;
            let figures = [
                ("large_page_share", shares.large),
                ("perforated_page_share", shares.perforated),
                ("base_page_share", 1.0 - shares.large - shares.perforated),
            ];
            measurements.push(figures.map(|(name, value)| (name.into(), value)).into());
            progress(measurements.len() as f64 / subjects.len() as f64);
        }
        Ok(measurements)
    }
}

fn scheme(subject: &str) -> Result<&'static Scheme, String> {
    let scheme = Scheme::find(subject).map_err(|error| error.to_string())?;
    if scheme.ideal_memory || scheme.segments || scheme.gap_tolerance.is_some() {
        return Err(format!(
            "{subject:?} maps by other means than 4KB, 2MB and perforated pages; \
             take 4k, thp, perforated or one of their kin"
        ));
    }
    Ok(scheme)
}

fn memory(settings: &Settings) -> Result<MemoryState, String> {
    let size = settings.text("memory").unwrap_or(MEMORY);
    let age = settings.text("age").unwrap_or(AGE);
    let past = PastOptions {
        age: Some(age).filter(|age| *age != "none"),
        faulty: settings.text("faulty"),
        compaction: settings.text("compaction"),
        defrag: settings.text("defrag"),
        zones: settings.text("zones"),
        ..PastOptions::default()
    };
    let memory = MemoryState::parse(Some(size), None, settings.text("perforation"));
    let memory = memory.and_then(|memory| memory.with_past(Past::parse(past)?));
    memory.map_err(|error| error.to_string())
}

fn request_bytes(settings: &Settings, memory: &MemoryState) -> Result<u64, String> {
    let bytes = settings.size("request", REQUEST)?;
    if bytes == 0 || !bytes.is_multiple_of(REGION_BYTES) || bytes > memory.memory_bytes {
        return Err(format!(
            "setting \"request\" is {bytes} bytes; expected whole 2MB pages, no more than memory"
        ));
    }
    Ok(bytes)
}

fn kernel_config(memory: &MemoryState, seed: u64) -> KernelConfig {
    let Past { zones, faulty, ageing, .. } = memory.past.clone();
    KernelConfig { seed, zones, faulty, ageing, ..KernelConfig::new(memory.memory_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(texts: &[(&str, &str)]) -> Settings {
        Settings(texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
    }

    fn shares(texts: &[(&str, &str)], subject: &str) -> [f64; 3] {
        let measured =
            LargePageRequest.measure(&settings(texts), &[subject.into()], 1, &mut |_| ());
        let measured = &measured.unwrap()[0];
        ["large_page_share", "perforated_page_share", "base_page_share"].map(|name| measured[name])
    }

    /// Memory has 128 blocks, and every second one has a faulty frame: of 96 regions asked for 64
    /// can be large pages, less what tables take; the others are 4KB pages or perforated.
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

    /// P §III.C: a machine that has just built a kernel has no large pages at once and some after
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
        let check =
            |texts: &[(&str, &str)], subject| LargePageRequest.check(&settings(texts), subject);
        assert_eq!(check(&[], "perforated-selective"), Ok(()));
        for (texts, subject, word) in [
            (vec![("request", "3M")], "thp", "whole 2MB pages"),
            (vec![("request", "13G")], "thp", "no more than memory"),
            (vec![("age", "yesterday")], "thp", "no preset"),
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
