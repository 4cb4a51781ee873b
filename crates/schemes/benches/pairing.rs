//! Runs Algorithm 1 over 128GB on one thread, and prints a JSON line for each fraction of retired
//! frames: `cargo bench -p perforate-schemes --bench pairing`. G §3.6 reports less than 0.1 s.

use std::time::Instant;

use perforate_schemes::gap_tolerant::ChunkPairing;
use perforate_types::{CHUNK_FRAMES, GapTolerance};

const MEMORY_FRAMES: u64 = (128 << 30) / 4096;
const REPEATS: usize = 7;

fn main() {
    for mode in [GapTolerance::PAIRED_2M, GapTolerance::PAIRED_4M] {
        let slices = (CHUNK_FRAMES / mode.slice_frames()) as usize;
        let mut worst = (0.0, 0.0);
        for thousandths in (0..=100).step_by(5) {
            let retired = f64::from(thousandths) / 1000.0;
            let vectors = vectors(mode, retired);
            let (seconds, entries) = fastest(&vectors, slices);
            worst = if seconds > worst.1 { (retired, seconds) } else { worst };
            println!(
                "{}",
                serde_json::json!({
                    "mode": mode.label(),
                    "retired_share": retired,
                    "entries": entries,
                    "seconds": seconds,
                })
            );
        }
        println!(
            "{}",
            serde_json::json!({
                "mode": mode.label(),
                "worst_retired_share": worst.0,
                "worst_seconds": worst.1,
            })
        );
    }
}

/// Seconds of the fastest of several passes over all chunks, and the entries found.
fn fastest(vectors: &[u64], slices: usize) -> (f64, u64) {
    let mut best = (f64::INFINITY, 0);
    for _ in 0..REPEATS {
        let start = Instant::now();
        let chunks = vectors.chunks(slices);
        let entries = chunks.map(|chunk| u64::from(ChunkPairing::of(chunk, 32).entries())).sum();
        best = (best.0.min(start.elapsed().as_secs_f64()), entries);
    }
    best
}

/// Availability vectors of 128GB of memory whose frames are retired independently.
fn vectors(mode: GapTolerance, retired: f64) -> Vec<u64> {
    let limit = ((1.0 - retired).powi(mode.block_frames() as i32) * 2_f64.powi(64)) as u64;
    let mut state = 1_u64;
    let mut is_usable = || {
        // xorshift64* (Vigna 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) <= limit
    };
    (0..MEMORY_FRAMES / mode.slice_frames())
        .map(|_| (0..64).fold(0, |vector, _| vector << 1 | u64::from(is_usable())))
        .collect()
}
