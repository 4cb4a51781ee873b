//! Share of memory in large mappings (G §5.3, Fig. 14).

use super::{RETIRED_SETTING, SAMPLES_SETTING, figures, sampling, share};
use crate::capacity::Design;
use crate::kind::{Kind, Measurement, Setting, Settings};

/// Share of memory that large mappings of a design can use.
pub struct Share;

fn threshold(settings: &Settings) -> Result<u32, String> {
    match settings.value("threshold", 32)? {
        threshold @ 32..=64 => Ok(threshold),
        other => Err(format!("setting \"threshold\" is {other}; a superpage takes 32 B-blocks")),
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

    fn settings(&self) -> &'static [Setting] {
        const THRESHOLD: Setting = Setting {
            key: "threshold",
            meaning: "usable B-blocks that a slice must have, 32 to 64",
            default: Some("32"),
        };
        &[RETIRED_SETTING, THRESHOLD, SAMPLES_SETTING]
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        share(settings, "retired")?;
        threshold(settings)?;
        sampling(settings, subject, 0.0, 0)?;
        Design::parse(subject).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let (retired, threshold) = (share(settings, "retired")?, threshold(settings)?);
        let measure = |subject: &String| {
            let design = Design::parse(subject)?;
            let sampling = sampling(settings, subject, retired, seed)?;
            let drawn = design.estimate(retired, threshold, sampling);
            Ok(figures(design.closed_form(retired, threshold), drawn))
        };
        subjects.iter().map(measure).collect()
    }
}
