//! Work and outcome of Algorithm 1, which finds pairs of slices that can share an entry, for all slices of a
//! memory (G §3.6).
//!
//! Wall-clock times depend on the computer and are measured separately: `cargo bench -p
//! perforate-os --bench pairing`.

use perforate_config::{Share, Size};
use perforate_schemes::gap_tolerant::ChunkPairing;
use perforate_types::{CHUNK_FRAMES, GapTolerance, Random, SUPERPAGE_BLOCKS};
use schemars::JsonSchema;
use serde::Deserialize;

use super::capacity::Bernoulli;
use super::case_study::named;
use super::{Design, Measurement, Settings, Study};

/// Work of Algorithm 1 over a whole memory: availability vectors compared, and paired entries found. Subjects
/// are paired modes of gap-tolerant superpages.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pairing {
    /// Memory whose slices are paired, 128M to 16T.
    memory: Size,
    /// Share of retired frames.
    retired: Share,
}

impl Default for Pairing {
    fn default() -> Self {
        Self { memory: Size(128 << 30), retired: Share::percent(3) }
    }
}

fn mode(subject: &str) -> Result<GapTolerance, String> {
    let paired = Design::mode(subject).filter(|_| subject.starts_with("p-"));
    paired.ok_or_else(|| format!("{subject:?}: expected p-gt-pde-2m or p-gt-pde-4m"))
}

impl Study for Pairing {
    const NAME: &'static str = "pairing";
    type Settings = Self;

    fn read(settings: &Settings) -> Result<Self, String> {
        let own: Self = settings.read()?;
        match own.memory.bytes() {
            0x800_0000..=0x1000_0000_0000 => Ok(own),
            _ => Err(format!("setting memory: {} is not 128M to 16T", own.memory)),
        }
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        mode(subject).map(|_| ())
    }

    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        let (mode, retired) = (mode(subject)?, self.retired.value());
        let usable = Bernoulli::new((1.0 - retired).powi(mode.block_frames() as i32));
        let mut random = Random::keyed(seed, 0, 0);
        let slices = self.memory.bytes() / 4096 / mode.slice_frames();
        let vectors: Vec<u64> = (0..slices).map(|_| usable.word(&mut random)).collect();
        let of_chunk = (CHUNK_FRAMES / mode.slice_frames()) as usize;
        let (mut comparisons, mut entries) = (0, 0);
        for chunk in vectors.chunks(of_chunk) {
            let pairing = ChunkPairing::of(chunk, SUPERPAGE_BLOCKS);
            comparisons += u64::from(pairing.comparisons());
            entries += u64::from(pairing.entries());
        }
        Ok(named([("comparisons", comparisons as f64), ("entries", entries as f64)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{check, measure, settings};

    /// 1GB has 256 slices of 4MB. With 1 % of frames retired, 85 % of the B-blocks of 64KB are usable. Two
    /// slices have 72 % of 64 B-blocks usable in common, so all slices find a partner. With 10 % retired it
    /// is 18 %, and no slice finds a partner.
    #[test]
    fn pairs_of_slices() {
        let figures = |retired: &str| {
            let texts = [("memory", "1G"), ("retired", retired)];
            let measured = measure::<Pairing>(&settings(&texts), "p-gt-pde-4m", 1);
            (measured["entries"], measured["comparisons"])
        };
        // With 1 %, the first candidate fits. Without a fit, each of the 32 slices of a chunk is compared
        // with all others (8 chunks), except those that have too few blocks themselves.
        assert_eq!(figures("0.01"), (128.0, 128.0));
        let (entries, comparisons) = figures("0.1");
        assert!(entries == 0.0 && comparisons <= 8.0 * 496.0, "{comparisons}");
        // Between the two, a few slices find a partner, and the others were compared with most of their chunk.
        let (entries, comparisons) = figures("0.03");
        let range = 1000.0..=8.0 * 496.0;
        assert!(entries > 0.0 && entries < 128.0 && range.contains(&comparisons), "{comparisons}");
        assert!(check::<Pairing>(&[], "gt-pde-4m").unwrap_err().contains("p-gt-pde-2m"));
    }
}
