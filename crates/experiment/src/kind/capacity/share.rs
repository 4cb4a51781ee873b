//! Share of memory in large mappings (G §5.3, Fig. 14).

use perforate_config::{Count, Key, keys};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{SAMPLES, Samples, figures, sampling};
use crate::capacity::Design;
use crate::kind::{Kind, Measurement, Settings};

/// Share of memory that large mappings of a design can use.
pub struct Share;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ShareSettings {
    /// Share of retired frames.
    retired: perforate_config::Share,
    /// Usable B-blocks that a slice with retired frames must have for a single entry; the two slices of a
    /// paired entry need 32 in common.
    threshold: Count<32, 64>,
    /// Random draws for each point.
    samples: Samples,
}

impl Default for ShareSettings {
    fn default() -> Self {
        let (retired, threshold) = (perforate_config::Share::NONE, Count::new(33));
        Self { retired, threshold, samples: SAMPLES }
    }
}

impl Kind for Share {
    fn name(&self) -> &'static str {
        "usable-memory"
    }

    fn summary(&self) -> &'static str {
        "share of memory in large mappings: share, closed_form_share (not paired), drawn_share"
    }

    fn subjects(&self) -> &'static str {
        "designs: 2m, gt-pde-…, p-gt-pde-…, perforated or perforated:max-hole-share=…"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<ShareSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        settings.read::<ShareSettings>()?;
        Design::parse(subject).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let ShareSettings { retired, threshold, samples } = settings.read()?;
        let (retired, threshold) = (retired.value(), threshold.get() as u32);
        let measure = |subject: &String| {
            let design = Design::parse(subject)?;
            let sampling = sampling(samples, subject, retired, seed);
            let drawn = design.estimate(retired, threshold, sampling);
            Ok(figures(design.closed_form(retired, threshold), drawn))
        };
        subjects.iter().map(measure).collect()
    }
}
