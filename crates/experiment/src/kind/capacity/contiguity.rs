//! Blocks of memory without a retired frame (G §2.3, Fig. 3).

use perforate_sim::parse_size;

use super::{RETIRED_SETTING, SAMPLES_SETTING, figures, sampling, share};
use crate::capacity;
use crate::kind::{Kind, Measurement, Setting, Settings};

/// Probability that a block of memory has no retired frame.
pub struct Contiguity;

fn block(subject: &str) -> Result<capacity::Contiguity, String> {
    let bytes = parse_size("block", subject).map_err(|error| error.to_string())?;
    let frames = if bytes % 4096 == 0 { bytes / 4096 } else { 0 };
    capacity::Contiguity::new(frames).map_err(|problem| format!("{subject:?}: {problem}"))
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

    fn settings(&self) -> &'static [Setting] {
        &[RETIRED_SETTING, SAMPLES_SETTING]
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        share(settings, "retired")?;
        sampling(settings, subject, 0.0, 0)?;
        block(subject).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let retired = share(settings, "retired")?;
        let measure = |subject: &String| {
            let block = block(subject)?;
            let drawn = block.estimate(retired, sampling(settings, subject, retired, seed)?);
            Ok(figures(Some(block.closed_form(retired)), drawn))
        };
        subjects.iter().map(measure).collect()
    }
}
