//! Memory with a random occupancy, as in a snapshot of a real machine.

use perforate_os::{FrameState, HostSnapshot, OccupancyBuilder};
use perforate_records::SnapshotZone;
use perforate_sim::MemorySnapshot;

use crate::storms::Random;

/// Number of frames of a 2MB block.
const BLOCK_FRAMES: u64 = 512;
/// States of runs of frames in mixed blocks. A state that occurs twice is twice as likely.
const SMALL: [FrameState; 9] = [
    FrameState::Free,
    FrameState::Free,
    FrameState::Movable,
    FrameState::PageCache,
    FrameState::Reclaimable,
    FrameState::Unmovable,
    FrameState::PerCpu,
    FrameState::Retired,
    FrameState::Unknown,
];
/// States of whole blocks.
const WHOLE: [FrameState; 8] = [
    FrameState::Free,
    FrameState::Free,
    FrameState::Movable,
    FrameState::PageCache,
    FrameState::Large,
    FrameState::Huge,
    FrameState::Reserved,
    FrameState::Absent,
];

/// Returns a random memory of 48 to 174MB in one or two zones, written to a file and loaded again.
pub fn occupied(seed: u64) -> MemorySnapshot {
    let mut random = Random::new(!seed);
    let blocks = 16 + random.below(64);
    let mut made = OccupancyBuilder::default();
    // Ranges from memory with few mixed blocks to memory of mixed blocks only.
    let mixed_of_8 = 1 + random.below(8);
    let longest = [8, 64, 400][random.below(3) as usize];
    for _ in 0..blocks {
        if random.below(8) >= mixed_of_8 {
            let state = WHOLE[random.below(WHOLE.len() as u64) as usize];
            made.push_run(state, BLOCK_FRAMES).expect("it is small");
            continue;
        }
        let mut left = BLOCK_FRAMES;
        while left > 0 {
            let frames = (1 + random.below(longest)).min(left);
            let state = SMALL[random.below(SMALL.len() as u64) as usize];
            made.push_run(state, frames).expect("it is small");
            left -= frames;
        }
    }
    // Leaves enough free memory to start a program.
    made.push_run(FrameState::Free, 8 * BLOCK_FRAMES).expect("it is small");
    let mut snapshot = HostSnapshot::of(made.finish().expect("it is small"));
    if random.one_in(2) {
        let boundary = 1024 * (1 + random.below(blocks / 2));
        let zone = |name: &str, start_frame| SnapshotZone {
            name: name.into(),
            start_frame,
            present_frames: 1,
            ..SnapshotZone::default()
        };
        snapshot.about.zones = vec![zone("DMA32", 0), zone("Normal", boundary)];
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    snapshot.write_to(&mut file).expect("it can be written");
    MemorySnapshot::load(&file.path().to_string_lossy()).expect("it was just written")
}
