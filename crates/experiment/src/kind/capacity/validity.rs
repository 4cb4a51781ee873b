//! Slices that can hold a superpage (G §3.3, Fig. 7).

use super::{SAMPLES_SETTING, figures, sampling, share};
use crate::capacity;
use crate::kind::{Kind, Measurement, Setting, Settings};

/// Probability that a slice of 64 B-blocks has enough usable ones.
pub struct Validity;

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

    fn settings(&self) -> &'static [Setting] {
        const USABLE: Setting =
            Setting { key: "usable", meaning: "share of usable B-blocks, 0 to 1", default: None };
        &[USABLE, SAMPLES_SETTING]
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        share(settings, "usable")?;
        sampling(settings, subject, 0.0, 0)?;
        slices(subject).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let usable = share(settings, "usable")?;
        let measure = |subject: &String| {
            let slices = slices(subject)?;
            let drawn = slices.estimate(usable, sampling(settings, subject, usable, seed)?);
            Ok(figures(Some(slices.closed_form(usable)), drawn))
        };
        subjects.iter().map(measure).collect()
    }
}
