//! Blocks of memory without a retired frame (G §2.3, Fig. 3).

use perforate_config::{Key, Share, Size, keys};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{SAMPLES, Samples, figures, sampling};
use crate::capacity;
use crate::kind::{Kind, Measurement, Settings};

/// Probability that a block of memory has no retired frame.
pub struct Contiguity;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ContiguitySettings {
    /// Share of retired frames.
    retired: Share,
    /// Random draws for each point.
    samples: Samples,
}

impl Default for ContiguitySettings {
    fn default() -> Self {
        Self { retired: Share::NONE, samples: SAMPLES }
    }
}

fn block(subject: &str) -> Result<capacity::Contiguity, String> {
    let wrong = |problem: String| format!("block {subject:?}: {problem}");
    let bytes = subject.parse::<Size>().map_err(|error| wrong(error.to_string()))?.bytes();
    let frames = if bytes % 4096 == 0 { bytes / 4096 } else { 0 };
    capacity::Contiguity::new(frames).map_err(|problem| wrong(problem.to_string()))
}

impl Kind for Contiguity {
    fn name(&self) -> &'static str {
        "contiguity"
    }

    fn summary(&self) -> &'static str {
        "share of memory blocks without a retired frame: share, closed_form_share, drawn_share"
    }

    fn subjects(&self) -> &'static str {
        "sizes of blocks, 4K to 2M"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<ContiguitySettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        settings.read::<ContiguitySettings>()?;
        block(subject).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let ContiguitySettings { retired, samples } = settings.read()?;
        let retired = retired.value();
        let measure = |subject: &String| {
            let block = block(subject)?;
            let drawn = block.estimate(retired, sampling(samples, subject, retired, seed));
            Ok(figures(Some(block.closed_form(retired)), drawn))
        };
        subjects.iter().map(measure).collect()
    }
}
