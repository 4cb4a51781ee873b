//! How much memory large mappings can use where frames are retired: closed forms, and random draws
//! beside them.

mod contiguity;
mod share;
mod storage;
mod validity;

pub use contiguity::Contiguity;
pub use share::Share;
pub use storage::Storage;
pub use validity::Validity;

use super::{Measurement, Setting, Settings};
use crate::capacity::{Estimate, Sampling};

/// Random draws for each point, where nothing is said.
const SAMPLES: u64 = 1_000_000;

/// The setting of all kinds that draw.
const SAMPLES_SETTING: Setting = Setting {
    key: "samples",
    meaning: "random draws for each point; G drew 16PB, which are 4300M slices",
    default: Some("1M"),
};

const RETIRED_SETTING: Setting =
    Setting { key: "retired", meaning: "share of retired frames, 0 to 1", default: Some("0") };

/// Draws of a point; every subject and place has a stream of its own.
fn sampling(settings: &Settings, subject: &str, x: f64, seed: u64) -> Result<Sampling, String> {
    let samples = settings.count("samples", SAMPLES)?;
    if !(1..=1_000_000_000_000).contains(&samples) {
        return Err(format!("setting \"samples\" is {samples}, not 1 to 1T"));
    }
    let stream = xxhash_rust::xxh3::xxh3_64(subject.as_bytes());
    Ok(Sampling { samples, seed }.of(stream, x))
}

/// A share from the settings.
fn share(settings: &Settings, key: &str) -> Result<f64, String> {
    let value = settings.value(key, 0.0)?;
    match value {
        0.0..=1.0 => Ok(value),
        _ => Err(format!("setting {key:?} is {value}, not a share from 0 to 1")),
    }
}

/// The closed form, where there is one, and what was drawn. `share` is the first of both.
fn figures(closed_form: Option<f64>, drawn: Estimate) -> Measurement {
    let mut figures = Measurement::from([
        ("share".into(), closed_form.unwrap_or(drawn.mean)),
        ("drawn_share".into(), drawn.mean),
        ("drawn_half_width_95".into(), drawn.half_width_95),
        ("draws".into(), drawn.draws as f64),
    ]);
    if let Some(closed_form) = closed_form {
        figures.insert("closed_form_share".into(), closed_form);
    }
    figures
}
