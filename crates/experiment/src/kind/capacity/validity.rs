//! Slices that can hold a superpage (G §3.3, Fig. 7).

use perforate_config::{Key, Share, keys};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{SAMPLES, Samples, figures, sampling};
use crate::capacity;
use crate::kind::{Kind, Measurement, Settings};

/// Probability that a slice of 64 B-blocks has enough usable ones.
pub struct Validity;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ValiditySettings {
    /// Share of usable B-blocks.
    usable: Share,
    /// Random draws for each point.
    samples: Samples,
}

impl Default for ValiditySettings {
    fn default() -> Self {
        Self { usable: Share::NONE, samples: SAMPLES }
    }
}

fn slices(subject: &str) -> Result<capacity::Validity, String> {
    match subject.parse() {
        Ok(threshold @ 32..=64) => Ok(capacity::Validity { threshold }),
        _ => Err(format!("{subject:?}: expected 32 to 64, as a superpage takes 32 B-blocks")),
    }
}

impl Kind for Validity {
    fn name(&self) -> &'static str {
        "slice-validity"
    }

    fn summary(&self) -> &'static str {
        "share of slices with so many usable B-blocks of 64: share, closed_form_share, drawn_share"
    }

    fn subjects(&self) -> &'static str {
        "usable B-blocks that a slice must have, 32 to 64"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<ValiditySettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        settings.read::<ValiditySettings>()?;
        slices(subject).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let ValiditySettings { usable, samples } = settings.read()?;
        let usable = usable.value();
        let measure = |subject: &String| {
            let slices = slices(subject)?;
            let drawn = slices.estimate(usable, sampling(samples, subject, usable, seed));
            Ok(figures(Some(slices.closed_form(usable)), drawn))
        };
        subjects.iter().map(measure).collect()
    }
}
