//! How long pairing slices takes on this computer (G §3.6, Algorithm 1).
//!
//! The only measurement with a clock: the figure is of the machine that Perforate runs on and is not
//! the same twice. The number of entries found is.

use std::time::Instant;

use perforate_config::{Key, Share, Size, keys};
use perforate_os::{ChunkPairing, Random};
use perforate_types::{CHUNK_FRAMES, GapTolerance};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Kind, Measurement, Settings};
use crate::capacity::{Bernoulli, Design};

/// Algorithm 1 over all of memory, on one core.
pub struct Pairing;

/// Passes over memory; the fastest counts, as the others were disturbed.
const PASSES: usize = 3;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PairingSettings {
    /// Memory whose slices are paired, 128M to 16T.
    memory: Size,
    /// Share of retired frames.
    retired: Share,
}

impl Default for PairingSettings {
    fn default() -> Self {
        Self { memory: Size(128 << 30), retired: Share::percent(3) }
    }
}

impl PairingSettings {
    fn frames(&self) -> Result<u64, String> {
        match self.memory.bytes() {
            bytes @ 0x800_0000..=0x1000_0000_0000 => Ok(bytes / 4096),
            _ => Err(format!("setting memory: {} is not 128M to 16T", self.memory)),
        }
    }
}

fn mode(subject: &str) -> Result<GapTolerance, String> {
    let paired = Design::mode(subject).filter(|_| subject.starts_with("p-"));
    paired.ok_or_else(|| format!("{subject:?}: expected p-gt-pde-2m or p-gt-pde-4m"))
}

impl Kind for Pairing {
    fn name(&self) -> &'static str {
        "pairing-time"
    }

    fn summary(&self) -> &'static str {
        "time of Algorithm 1 on this computer: seconds (fastest of 3 passes), entries"
    }

    fn subjects(&self) -> &'static str {
        "p-gt-pde-2m, p-gt-pde-4m"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<PairingSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        settings.read::<PairingSettings>()?.frames()?;
        mode(subject).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let settings: PairingSettings = settings.read()?;
        let (frames, retired) = (settings.frames()?, settings.retired.value());
        subjects.iter().map(|subject| Ok(time(mode(subject)?, frames, retired, seed))).collect()
    }
}

fn time(mode: GapTolerance, frames: u64, retired: f64, seed: u64) -> Measurement {
    let usable = Bernoulli::new((1.0 - retired).powi(mode.block_frames() as i32));
    let mut random = Random::new(seed, 0, 0);
    let slices = frames / mode.slice_frames();
    let vectors: Vec<u64> = (0..slices).map(|_| usable.word(&mut random)).collect();
    let of_chunk = (CHUNK_FRAMES / mode.slice_frames()) as usize;
    let mut seconds = f64::INFINITY;
    let mut entries = 0;
    for _ in 0..PASSES {
        let start = Instant::now();
        let found = vectors.chunks(of_chunk).map(|chunk| ChunkPairing::of(chunk, 32).entries());
        entries = found.map(u64::from).sum::<u64>();
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    Measurement::from([("seconds".into(), seconds), ("entries".into(), entries as f64)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1GB are 256 slices of 4MB. With 1 % of frames retired 85 % of B-blocks of 64KB are usable, and of
    /// two slices 72 % of 64 together, so that all find a partner; with 10 % 18 %, and none does.
    #[test]
    fn pairs_of_slices() {
        let entries = |retired: &str| {
            let texts = [("memory", "1G"), ("retired", retired)];
            let settings = Settings(texts.map(|(key, text)| (key.into(), text.into())).into());
            let measured = Pairing.measure(&settings, &["p-gt-pde-4m".into()], 1, &mut |_| {});
            measured.unwrap()[0]["entries"]
        };
        assert_eq!((entries("0.01"), entries("0.1")), (128.0, 0.0));
        let settings = Settings::default();
        assert!(Pairing.check(&settings, "gt-pde-4m").unwrap_err().contains("p-gt-pde-2m"));
    }
}
