//! Names and seeds of storms, and checks at their end.

use perforate_os::{FrameClass, Kernel};

/// Returns the number in the environment variable `name`, or `otherwise`.
pub fn number(name: &str, otherwise: u64) -> u64 {
    let is_number = |text: String| text.parse().unwrap_or_else(|_| panic!("{name} is a number"));
    std::env::var(name).map_or(otherwise, is_number)
}

/// Returns the seeds to run: `STORM_SEED` if set, otherwise as many as `STORM_SEEDS` or `otherwise`
/// specifies.
pub fn seeds(otherwise: u64) -> Vec<u64> {
    match std::env::var("STORM_SEED") {
        Ok(seed) => vec![seed.parse().expect("STORM_SEED is a number")],
        Err(_) => (0..number("STORM_SEEDS", otherwise)).collect(),
    }
}

/// Prints the scheme and seed of the storm if a panic ends it.
pub struct Replay {
    pub scheme: String,
    pub seed: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} with STORM_SEED={}", self.scheme, self.seed);
        }
    }
}

/// Asserts that the map of memory contains every frame once: free, mapped, or otherwise accounted
/// for.
pub fn assert_map_adds_up(kernel: &Kernel, seed: u64) {
    let map = kernel.memory_map();
    let mut counters = perforate_types::Counters::default();
    kernel.counters(&mut counters);
    let counted = |name| counters.get(name).unwrap_or_else(|| panic!("{name}")) as u64;
    let bytes = |class| map.frames(class) * 4096;
    assert_eq!(bytes(FrameClass::Free), counted("free_bytes"), "seed {seed}");
    let kept = [
        "page_table_bytes",
        "hole_bitmap_bytes",
        "foreign_bytes",
        "kernel_data_bytes",
        "balloon_bytes",
    ];
    let kept: u64 = kept.into_iter().map(counted).sum();
    assert_eq!(bytes(FrameClass::Unmovable), kept, "seed {seed}");
    assert_eq!(bytes(FrameClass::Reserved), counted("reserved_bytes"), "seed {seed}");
    let all: u64 = FrameClass::ALL.into_iter().map(bytes).sum();
    assert_eq!(all - bytes(FrameClass::Absent), counted("memory_bytes"), "seed {seed}");
}
