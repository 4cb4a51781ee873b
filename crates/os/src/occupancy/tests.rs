use perforate_records::SnapshotZone;

use super::*;
use crate::{FrameClass, OtherUse};

/// Builds an occupancy from runs of frames.
fn occupancy(runs: &[(FrameState, u64)]) -> Occupancy {
    let mut builder = OccupancyBuilder::default();
    runs.iter().for_each(|&(state, frames)| builder.push_run(state, frames).unwrap());
    builder.finish().unwrap()
}

fn bytes(snapshot: &HostSnapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.write_to(&mut bytes).unwrap();
    bytes
}

use FrameState::{Absent, Free, Large, Movable, Reserved, Retired, Unmovable};

#[test]
fn frames_are_kept_in_order() {
    let made = occupancy(&[(Reserved, 1), (Free, 700), (Movable, 3000), (Absent, 2048), (Free, 5)]);
    // 1 + 700 + 3000 + 2048 + 5 = 5754 frames: 12 blocks, the last with 390 frames missing.
    assert_eq!(made.blocks(), 12);
    assert_eq!((made.frames(Free), made.frames(Absent)), (705, 2048 + 390));
    assert_eq!(made.memory_frames(), 1 + 700 + 3000 + 5);
    let states = [0, 1, 700, 701, 3700, 3701, 5748, 5749, 5753, 5754, 1 << 40];
    let expected =
        [Reserved, Free, Free, Movable, Movable, Absent, Absent, Free, Free, Absent, Absent];
    assert_eq!(states.map(|frame| made.state(frame)), expected);
    assert_eq!(made.present(), [0..3701, 5749..5754]);
    assert_eq!(made.memory_map().blocks(), 12);
}

/// Frame 0 is reserved, 1–1535 are free. Blocks of 1, 2, 4, … 256 frames in the first 2MB, then two
/// blocks of 512: they cannot merge, as block 0 is not free and frame 1536 is not.
#[test]
fn free_frames_merge_into_aligned_blocks() {
    let made = occupancy(&[(Reserved, 1), (Free, 1535), (Unmovable, 512), (Free, 2048)]);
    let free = made.free_memory(&[0]);
    assert_eq!(free.blocks, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2]);
    assert_eq!(free.frames(), 1535 + 2048);
    // A zone that starts at frame 3072 does not split an aligned block; a zone that starts at 2560
    // does.
    assert_eq!(made.free_memory(&[0, 3072]).blocks, free.blocks);
    assert_eq!(made.free_memory(&[0, 2560]).blocks[9..], [4, 1]);
}

#[test]
fn states_are_replaced_in_some_blocks() {
    let made = occupancy(&[(FrameState::PerCpu, 1536), (Free, 500), (FrameState::PerCpu, 12)]);
    let replaced = made
        .replaced(FrameState::PerCpu, &[(1..2, Unmovable), (3..4, Large), (9..10, Movable)])
        .unwrap();
    // The last 12 frames of the fourth block, whose first 500 frames are free.
    let expected = [
        (FrameState::PerCpu, 512),
        (Unmovable, 512),
        (FrameState::PerCpu, 512),
        (Free, 500),
        (Large, 12),
    ];
    assert_eq!(replaced, occupancy(&expected));
}

fn snapshot() -> HostSnapshot {
    let mut runs = vec![(Reserved, 3), (Free, 1021), (Absent, 512 * 4096), (Retired, 512)];
    // 5000 blocks that all differ, in several chunks.
    for index in 0..5000 {
        let odd = 1 + index * index / 7 % 511;
        runs.extend([(Free, odd), (Unmovable, 512 - odd)]);
    }
    let mut snapshot = HostSnapshot::of(occupancy(&runs));
    let zone = |name: &str, start_frame| SnapshotZone {
        name: name.into(),
        start_frame,
        present_frames: 1,
        free_blocks: [7; 11],
        ..SnapshotZone::default()
    };
    snapshot.about.zones = vec![zone("DMA", 1), zone("Movable", 2_000_000), zone("Normal", 1024)];
    snapshot.about.missing.push("iomem".into());
    snapshot
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let snapshot = snapshot();
    let bytes = bytes(&snapshot);
    assert_eq!(HostSnapshot::read_from(&mut bytes.as_slice()).unwrap(), snapshot);
    assert!(bytes.len() < 200_000, "{} bytes for 5000 blocks that differ", bytes.len());
    let nothing = HostSnapshot::default();
    assert_eq!(HostSnapshot::read_from(&mut self::bytes(&nothing).as_slice()).unwrap(), nothing);
    assert!(nothing.frames().unwrap_err().to_string().contains("as root"));
}

#[test]
fn zones_begin_at_multiples_of_4mb_and_have_no_gaps() {
    let ranges = snapshot().zone_ranges();
    let found: Vec<_> = ranges.iter().map(|zone| (zone.name, zone.frames.clone())).collect();
    let end = (2 + 4096 + 1 + 5000) * 512;
    let moved = 2_000_000 / 1024 * 1024;
    assert_eq!(found, [("DMA", 0..1024), ("Normal", 1024..moved), ("Movable", moved..end)]);
}

#[test]
fn damaged_files_are_refused_with_the_place() {
    let good = bytes(&snapshot());
    let error = |bytes: &[u8]| HostSnapshot::read_from(&mut &*bytes).unwrap_err().to_string();
    for length in (0..good.len()).step_by(97) {
        assert!(error(&good[..length]).contains("byte "), "cut at {length}");
    }
    for place in (0..good.len()).step_by(53) {
        let mut bad = good.clone();
        bad[place] ^= 0x41;
        let message = error(&bad);
        assert!(message.starts_with("snapshot: byte ") && !message.contains('\n'), "{message}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(error(&longer).contains("goes on behind its end"));
    assert!(error(b"\x89PTRACE\n\x01\0\0\0").contains("not a snapshot of a host"));
}

/// Bytes of a snapshot's file with these chunks: kind, payload and length of the content.
fn file(chunks: &[(u32, &[u8], usize)]) -> Vec<u8> {
    let mut file = b"\x89PSNAP\r\n\x01\0\0\0".to_vec();
    for &(kind, payload, content_bytes) in chunks {
        let checksum = crc32fast::hash(payload);
        for word in [kind, payload.len() as u32, content_bytes as u32, checksum] {
            file.extend(word.to_le_bytes());
        }
        file.extend(payload);
    }
    file
}

/// Chunks with the right checksum that are no snapshot; `2` is the number of a state.
#[test]
fn chunks_and_records_that_contradict_the_format_are_refused() {
    let about: (u32, &[u8], usize) = (1, b"{}", 2);
    let end = |blocks: u64| blocks.to_le_bytes();
    let read = |chunks: &[(u32, &[u8], usize)]| HostSnapshot::read_from(&mut &*file(chunks));
    let three: (u32, &[u8], usize) = (2, &[Movable as u8, 3], 2);
    let good = read(&[about, three, (3, &end(3), 8)]).unwrap();
    assert_eq!(good.frames().unwrap(), &occupancy(&[(Movable, 3 * 512)]));
    let error = |chunks: &[_]| read(chunks).unwrap_err().to_string();
    for (chunks, expected) in [
        (&[three, about][..], "byte 12: the first chunk is not the description"),
        (&[(1, b"[", 1)], "byte 12: the description is not what it should be"),
        (&[about, about], "byte 30: a chunk of unknown kind 1"),
        (&[about, (4, b"", 0)], "byte 30: a chunk of unknown kind 4"),
        (&[about, three, (3, &end(2), 8)], "byte 48: the number of blocks is another"),
        (&[about, three, (3, &end(3)[..7], 7)], "byte 48: the number of blocks is another"),
        (&[about, (2, b"12", 1)], "byte 30: a chunk of impossible length"),
        (&[about, (2, b"12", 513)], "byte 30: a chunk of impossible length"),
        (&[about, (2, &[0; 8192], (1 << 20) + 1)], "byte 30: a chunk of impossible length"),
        (&[about, (2, b"12", 512)], "byte 30: a chunk that cannot be unpacked"),
    ] {
        let found = error(chunks);
        assert!(found.contains(expected), "{found}");
    }
    let mut mixed = vec![0x80, 1];
    mixed.extend([0x21; 256]);
    let with =
        |records: &[u8], blocks| read(&[about, (2, records, records.len()), (3, &end(blocks), 8)]);
    assert_eq!(with(&mixed, 1).unwrap().frames().unwrap().blocks(), 1);
    mixed.extend([Free as u8, 0x80, 1]);
    assert_eq!(with(&mixed, 129).unwrap().frames().unwrap().blocks(), 129);
    let unknown = FrameState::COUNT as u8;
    let mut high = mixed.clone();
    high[257] = unknown << 4;
    let mut low = mixed.clone();
    low[2] = unknown;
    for (records, expected) in [
        (&[unknown, 1][..], "a record of unknown kind"),
        (&[0, 0], "a record of no blocks"),
        (&[0], "a number of blocks that is cut off"),
        (&[0, 0x80], "a number of blocks that is cut off"),
        (&mixed[..257], "a block that is cut off"),
        (&high, "a state of a frame that there is not"),
        (&low, "a state of a frame that there is not"),
    ] {
        let found = with(records, 1).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    }
}

/// A file of a few bytes that claims 64TB in one record is read without filling memory. A file that
/// claims more is refused.
#[test]
fn claims_do_not_fill_memory() {
    let with = |blocks: u64| HostSnapshot {
        occupancy: Some(Occupancy {
            runs: vec![Run { first: 0, blocks, states: States::Uniform(Free) }],
            blocks,
            ..Occupancy::default()
        }),
        ..HostSnapshot::default()
    };
    let read = |blocks| HostSnapshot::read_from(&mut bytes(&with(blocks)).as_slice());
    assert_eq!(read(1 << 25).unwrap().frames().unwrap().blocks(), 1 << 25);
    assert!(read((1 << 25) + 1).unwrap_err().to_string().contains("64 TB"));
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = HostSnapshot::read_from(&mut bytes.as_slice());
        }

        /// Chunks with a correct checksum around arbitrary content.
        #[test]
        fn any_records_are_answered(
            content in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..3, Just(0x80)], 0..700),
        ) {
            let file = file(&[(1, b"{}", 2), (2, &content, content.len()), (3, &[0; 8], 8)]);
            if let Ok(read) = HostSnapshot::read_from(&mut file.as_slice()) {
                prop_assert_eq!(read.occupancy, None, "the end says that there are no blocks");
            }
        }
    }
}

/// Each state: class in a map of memory, usage by the rest of the system, and true if it can be moved, and if
/// it can be moved or dropped.
#[test]
fn every_state_has_its_class_and_usage() {
    use FrameState::{Huge, PageCache, PerCpu, Reclaimable, Unknown};
    use OtherUse::{Anonymous, Kernel, Slab};
    for (state, class, usage, is_movable, has_record) in [
        (Free, FrameClass::Free, None, false, false),
        (Movable, FrameClass::Movable, Some(Anonymous), true, true),
        (PageCache, FrameClass::PageCache, Some(OtherUse::PageCache), true, true),
        (PerCpu, FrameClass::PageCache, Some(OtherUse::PageCache), true, true),
        (Reclaimable, FrameClass::Reclaimable, Some(Slab), false, true),
        (Unmovable, FrameClass::Unmovable, Some(Kernel), false, false),
        (Reserved, FrameClass::Unmovable, Some(Kernel), false, false),
        (Unknown, FrameClass::Unmovable, Some(Kernel), false, false),
        (Large, FrameClass::Large, Some(Anonymous), false, false),
        (Huge, FrameClass::Huge, Some(Anonymous), false, false),
        (Retired, FrameClass::Retired, None, false, false),
        (Absent, FrameClass::Absent, None, false, false),
    ] {
        assert_eq!((state.class(), state.usage()), (class, usage), "{state:?}");
        assert_eq!((state.is_movable(), state.is_free()), (is_movable, state == Free), "{state:?}");
        assert_eq!(state.removable_usage(), usage.filter(|_| has_record), "{state:?}");
    }
}

#[test]
fn numbers_and_names_of_states_are_those_of_files() {
    let numbers: Vec<_> = (0..=12).map(FrameState::of_number).collect();
    let known = FrameState::ALL[..12].iter().map(|&state| Some(state));
    assert!(numbers.into_iter().eq(known.chain([None])));
    let names: Vec<_> = FrameState::ALL[..12].iter().map(|state| state.name()).collect();
    let expected = "free movable page_cache reclaimable unmovable large huge reserved retired absent \
                    unknown per_cpu";
    assert_eq!(names.join(" "), expected);
    assert!(FrameState::ALL[12..].iter().all(|&state| state == FrameState::Unknown));
}

#[test]
fn free_blocks_of_all_zones_are_counted_up_to_a_bound() {
    let zone = |free_blocks| SnapshotZone { free_blocks, ..SnapshotZone::default() };
    let most = 1 << 40;
    let mut snapshot = HostSnapshot::default();
    assert_eq!(snapshot.counted_free().blocks, [0; 11]);
    assert_eq!((snapshot.placed_free(), snapshot.zone_ranges()), (None, Vec::new()));
    let one = [3, 0, 1, 0, 0, 0, 0, 0, most, most + 1, u64::MAX];
    let two = [4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    snapshot.about.zones = vec![zone(one), zone(two)];
    assert_eq!(snapshot.counted_free().blocks, [7, 5, 1, 0, 0, 0, 0, 0, most, most, most]);
}

/// Zones of unknown names, without memory, or behind the end have no range; of two at one place, one has.
#[test]
fn ranges_of_zones_are_made_from_what_is_known() {
    let zone = |name: &str, start_frame, present_frames| SnapshotZone {
        name: name.into(),
        start_frame,
        present_frames,
        ..SnapshotZone::default()
    };
    let ranges = |zones: Vec<SnapshotZone>| -> Vec<_> {
        let mut snapshot = HostSnapshot::of(occupancy(&[(Free, 8192)]));
        snapshot.about.zones = zones;
        let ranges = snapshot.zone_ranges().into_iter();
        ranges.map(|zone| (zone.name, zone.frames)).collect()
    };
    assert_eq!(ranges(Vec::new()), [("Normal", 0..8192)]);
    assert_eq!(ranges(vec![zone("DMA", 5000, 1)]), [("DMA", 0..8192)], "the first begins at 0");
    let some = vec![
        zone("HighMem", 7168, 1),
        zone("Device", 8192, 1),
        zone("DMA32", 2047, 1),
        zone("Normal", 3072, 1),
        zone("Other", 4096, 1),
        zone("Movable", 4096, 0),
        zone("DMA32", 1025, 1),
        zone("DMA", 1, 1),
    ];
    let low = [("DMA", 0..1024), ("DMA32", 1024..3072)];
    let high = [("Normal", 3072..7168), ("HighMem", 7168..8192)];
    assert_eq!(ranges(some), [low, high].concat());
}

#[test]
fn versions_and_descriptions_are_told() {
    let mut bytes = bytes(&snapshot());
    bytes[8] = 2;
    let error = HostSnapshot::read_from(&mut bytes.as_slice()).unwrap_err().to_string();
    assert_eq!(error, "snapshot: byte 8: version 2; this program reads version 1");
    assert!(HostSnapshot::has_signature(b"\x89PSNAP\r\n and more"));
    assert!(!HostSnapshot::has_signature(b"\x89PSNAP\r"));
    let mut about = SnapshotAbout::default();
    let written = |about: &SnapshotAbout| serde_json::to_string(about).unwrap();
    assert!(!written(&about).contains("swap_bytes") && !written(&about).contains("merges_pages"));
    (about.swap_bytes, about.merges_pages) = (1, true);
    let text = written(&about);
    assert!(text.contains("\"swap_bytes\":1") && text.contains("\"merges_pages\":true"), "{text}");
    assert_eq!(serde_json::from_str::<SnapshotAbout>(&text).unwrap(), about);
}

#[test]
fn frames_of_a_block_are_found_by_state() {
    let made = occupancy(&[(Free, 1), (Movable, 510), (Unmovable, 1), (Free, 1024), (Large, 7)]);
    let of = |block, state| made.frames_of(block, |found| found == state);
    assert_eq!(of(0, Free), [0].into_iter().collect());
    assert_eq!(of(0, Unmovable), [511].into_iter().collect());
    assert_eq!(
        (of(0, Movable).count(), of(1, Free), of(2, Free)),
        (510, HoleSet::FULL, HoleSet::FULL)
    );
    assert_eq!((of(3, Large), of(3, Absent).count()), ((0..7).collect(), 505));
    assert_eq!((of(4, Free), of(4, Absent)), (HoleSet::EMPTY, HoleSet::FULL), "behind the end");
    let map = made.memory_map();
    let frames = [FrameClass::Free, FrameClass::Large, FrameClass::Absent].map(|it| map.frames(it));
    assert_eq!(frames, [1025, 7, 505]);
    // A run that crosses a break is two; one that ends there is one.
    let free = made.free_memory(&[0, 1024]).blocks;
    assert_eq!((free[0], free[9], free[10]), (1, 2, 0));
}
