//! Summary of a host's snapshot as one JSON object, for `--json`, the table and the page.

use perforate_schemes::perforated::Perforated;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use perforate_os::{
    Defrag, EarlyCompaction, FrameState, FreeMemory, HostSnapshot, KernelConfig, Policy, Thp,
};
use perforate_records::{
    FREE_ORDERS, HostRecord, MemoryMap, SnapshotOrder, SnapshotRequest, SnapshotZone,
};

use crate::Request;
use crate::memory_history::picture_of;

/// Largest number of runs of equal cells (one or more 2MB blocks) in the memory map.
const MOST_RUNS: usize = 4096;

/// Cases of the experiment in P §III.C, as tuples: description; true with background compaction
/// before the request; true with perforated pages; compaction in page faults; shares in the paper.
const CASES: [(&str, bool, bool, Defrag, &str); 6] = [
    ("at once", false, false, Defrag::Never, "2.5 %"),
    ("at once, nothing moved", false, true, Defrag::Never, ""),
    ("after background compaction", true, false, Defrag::Never, "22 %"),
    ("after background compaction", true, true, Defrag::Never, "22 % + 18 %"),
    ("the same, and compaction in faults", true, false, Defrag::Always, ""),
    ("the same, and compaction in faults", true, true, Defrag::Always, ""),
];

/// Summarises a snapshot. Shows which of its blocks `policy` would perforate, and how requests of
/// `request_bytes` are served; 0 bytes mean no requests.
pub fn host_record(
    snapshot: &Arc<HostSnapshot>,
    policy: Perforated,
    request_bytes: u64,
    seed: u64,
) -> HostRecord {
    let (about, occupancy) = (&snapshot.about, snapshot.occupancy.as_ref());
    let present = about.zones.iter().map(|zone| zone.present_frames);
    let present = present.fold(0, u64::saturating_add);
    let frames = occupancy.map(|known| {
        let states = FrameState::ALL[..FrameState::COUNT].iter();
        let counts = states.map(|&state| (state.name().to_owned(), known.frames(state)));
        counts.filter(|&(_, frames)| frames > 0).collect()
    });
    let request_bytes = request_bytes >> 21 << 21;
    let requests = match occupancy {
        Some(_) if request_bytes > 0 => serve_all(snapshot, policy, request_bytes, seed),
        _ => Vec::new(),
    };
    HostRecord {
        kernel: about.kernel.clone(),
        taken_unix_seconds: about.taken_unix_seconds,
        sources: about.sources.clone(),
        missing: about.missing.clone(),
        assumptions: about.assumptions.clone(),
        zones: about.zones.iter().filter(|zone| has_memory(zone)).cloned().collect(),
        memory_bytes: occupancy.map_or(present, |known| known.memory_frames()).saturating_mul(4096),
        frames,
        mapped_frames: about.mapped_frames,
        shared_frames: about.shared_frames,
        orders: orders(snapshot),
        policy: policy.describe(),
        blocks: occupancy.map(|known| known.survey(&policy)),
        request_bytes,
        requests,
        memory_map: occupancy.map(|known| MemoryMap {
            instructions: Vec::new(),
            ..picture_of(0, &known.memory_map(), MOST_RUNS)
        }),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}
fn has_memory(zone: &SnapshotZone) -> bool {
    zone.present_frames > 0 || zone.free_blocks.iter().any(|&blocks| blocks > 0)
}

/// Returns the free memory by order. The fragmentation indices are computed from the frames if
/// their states are known, else from the zones' counts of free blocks.
fn orders(snapshot: &HostSnapshot) -> Vec<SnapshotOrder> {
    let (counted, placed) = (snapshot.counted_free(), snapshot.placed_free());
    let free: FreeMemory = placed.unwrap_or(counted);
    let share = |thousandths: i64| thousandths as f64 / 1000.0;
    let one = |order: u32| SnapshotOrder {
        order,
        counted: counted.blocks[order as usize],
        placed: placed.map(|placed| placed.blocks[order as usize]),
        unusable_index: share(free.unusable_thousandths(order).into()),
        fragmentation_index: free.fragmentation_thousandths(order).map(share),
    };
    (0..FREE_ORDERS as u32).map(one).collect()
}

/// Serves the request in every case, two cases at a time. Each case has a separate memory.
fn serve_all(
    snapshot: &Arc<HostSnapshot>,
    policy: Perforated,
    bytes: u64,
    seed: u64,
) -> Vec<SnapshotRequest> {
    let serve = |case: &(&'static str, bool, bool, Defrag, &'static str)| {
        let (text, compacted, perforates, defrag, paper) = *case;
        let policy: Box<dyn Policy> =
            if perforates { Box::new(policy) } else { Box::new(Thp::new("thp")) };
        let compaction = compacted.then_some(EarlyCompaction::Background);
        let request = Request { bytes, policy, compaction, defrag };
        let memory =
            KernelConfig { seed, snapshot: Some(Arc::clone(snapshot)), ..KernelConfig::default() };
        SnapshotRequest {
            case: text.into(),
            perforates,
            paper: paper.into(),
            shares: request.serve(memory).ok(),
        }
    };
    let pairs = CASES.chunks(2).flat_map(|pair| {
        thread::scope(|scope| {
            let start =
                |case| (case, thread::Builder::new().spawn_scoped(scope, move || serve(case)));
            let started: Vec<_> = pair.iter().map(start).collect();
            let joined = started.into_iter().map(|(case, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // Without a second thread, this thread serves the case.
                Err(_) => serve(case),
            });
            joined.collect::<Vec<_>>()
        })
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use perforate_os::SnapshotAbout;

    use super::*;

    /// Free memory of 8 frames and a block of 8 frames, of which nothing but the counts of two zones
    /// is known.
    #[test]
    fn free_memory_by_order_is_in_shares() {
        let zone = |order: usize, blocks| {
            let mut free_blocks = [0; FREE_ORDERS];
            free_blocks[order] = blocks;
            SnapshotZone { present_frames: 100, free_blocks, ..SnapshotZone::default() }
        };
        let about = SnapshotAbout { zones: vec![zone(0, 8), zone(3, 1)], ..Default::default() };
        let orders = orders(&HostSnapshot { about, occupancy: None });
        assert_eq!(orders.len(), FREE_ORDERS);
        for (order, counted, unusable, fragmentation) in [
            (0, 8, 0.0, None),
            // The 8 single frames are too small: a half.
            (1, 0, 0.5, None),
            (3, 1, 0.5, None),
            // 1000 − (1000 + 16 × 1000 ÷ 16) ÷ 9 blocks.
            (4, 0, 1.0, Some(0.778)),
            // 1000 − (1000 + 16 × 1000 ÷ 512) ÷ 9 blocks.
            (9, 0, 1.0, Some(0.886)),
        ] {
            let found = &orders[order];
            assert_eq!((found.counted, found.placed), (counted, None), "order {order}");
            assert_eq!(found.unusable_index, unusable, "order {order}");
            assert_eq!(found.fragmentation_index, fragmentation, "order {order}");
        }
    }

    /// 64MB, of which the first half is free and of the other half every second frame. Whatever moves away
    /// makes room for large pages.
    #[test]
    fn a_record_has_what_the_snapshot_knows() {
        use perforate_schemes::perforated::PerforationOptions;
        let mut made = perforate_os::OccupancyBuilder::default();
        made.push_run(FrameState::Free, 8 << 10).unwrap();
        for _ in 0..4 << 10 {
            made.push_run(FrameState::Movable, 1).unwrap();
            made.push_run(FrameState::Free, 1).unwrap();
        }
        let mut snapshot = HostSnapshot::of(made.finish().unwrap());
        let zone = |name: &str, present_frames, free| SnapshotZone {
            name: name.into(),
            present_frames,
            free_blocks: [free; FREE_ORDERS],
            ..SnapshotZone::default()
        };
        snapshot.about = SnapshotAbout {
            kernel: "6.1".into(),
            taken_unix_seconds: 5,
            sources: vec!["a".into()],
            missing: vec!["b".into()],
            assumptions: vec!["c".into()],
            zones: vec![zone("DMA", 7, 0), zone("Movable", 0, 0), zone("Device", 0, 1)],
            mapped_frames: Some(11),
            shared_frames: Some(13),
            ..SnapshotAbout::default()
        };
        let policy = Perforated::new(PerforationOptions::default()).unwrap();
        let record =
            |snapshot: HostSnapshot, bytes| host_record(&Arc::new(snapshot), policy, bytes, 1);
        let whole = record(snapshot.clone(), (40 << 20) + 4096);
        assert_eq!((&*whole.kernel, whole.taken_unix_seconds), ("6.1", 5));
        let lists = [whole.sources, whole.missing, whole.assumptions];
        assert_eq!(lists.map(|list| list.concat()), ["a", "b", "c"]);
        let zones: Vec<&str> = whole.zones.iter().map(|zone| &*zone.name).collect();
        assert_eq!(zones, ["DMA", "Device"], "those with memory, present or free");
        assert_eq!((whole.mapped_frames, whole.shared_frames), (Some(11), Some(13)));
        assert_eq!((whole.memory_bytes, whole.request_bytes), (64 << 20, 40 << 20));
        let frames: Vec<(String, u64)> = whole.frames.unwrap().into_iter().collect();
        let state = |state: FrameState, frames| (state.name().to_owned(), frames);
        let mut expected =
            vec![state(FrameState::Free, 12 << 10), state(FrameState::Movable, 4 << 10)];
        expected.sort();
        assert_eq!(frames, expected);
        let map = whole.memory_map.unwrap();
        assert_eq!((map.instructions.len(), map.blocks), (0, 32));
        assert_eq!(whole.blocks.unwrap().memory_blocks, 32);
        assert_eq!(whole.policy, "perforated");
        let cases: Vec<(&str, bool, &str)> =
            whole.requests.iter().map(|it| (&*it.case, it.perforates, &*it.paper)).collect();
        let in_faults = "the same, and compaction in faults";
        let expected = [
            ("at once", false, "2.5 %"),
            ("at once, nothing moved", true, ""),
            ("after background compaction", false, "22 %"),
            ("after background compaction", true, "22 % + 18 %"),
            (in_faults, false, ""),
            (in_faults, true, ""),
        ];
        assert_eq!(cases, expected);
        let shares: Vec<_> = whole.requests.iter().map(|it| it.shares.unwrap()).collect();
        let large: Vec<f64> = shares.iter().map(|shares| shares.large).collect();
        assert_eq!(large[0], 15.0 / 20.0, "the free half, but for a block with page tables");
        assert!(large[0] < large[2] && large[1] < large[3], "compaction helps: {large:?}");
        let perforated = shares.iter().map(|shares| shares.perforated > 0.0);
        assert_eq!(perforated.take(2).collect::<Vec<_>>(), [false, true]);
        // Less than a block is no request, and without the frames there is none.
        assert!(record(snapshot.clone(), (2 << 20) - 1).requests.is_empty());
        snapshot.occupancy = None;
        let unknown = record(snapshot, 40 << 20);
        assert_eq!((unknown.memory_bytes, unknown.frames), (7 * 4096, None));
        assert_eq!((unknown.requests.len(), unknown.request_bytes), (0, 40 << 20));
        assert!(unknown.blocks.is_none() && unknown.memory_map.is_none());
    }
}
