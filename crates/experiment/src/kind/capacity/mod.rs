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

use perforate_config::Count;

use super::Measurement;
use crate::capacity::{Estimate, Sampling};

/// Random draws for each point; G drew 16PB, which are 4300M slices.
type Samples = Count<1, 1_000_000_000_000>;

/// Draws where nothing is said.
const SAMPLES: Samples = Count::new(1_000_000);

/// Draws of a point; every subject and place has a stream of its own.
fn sampling(samples: Samples, subject: &str, x: f64, seed: u64) -> Sampling {
    let stream = xxhash_rust::xxh3::xxh3_64(subject.as_bytes());
    Sampling { samples: samples.get(), seed }.of(stream, x)
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
