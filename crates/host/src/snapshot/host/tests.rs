use std::io::Cursor;

use super::*;

const FREE: u64 = 1 << 10;
const CACHE: u64 = 1 << 3 | 1 << 5;
const PROGRAM: u64 = 1 << 5 | 1 << 12 | 1 << 14;

/// Makes a table of 64-bit entries from runs of equal entries (entry, count).
fn table(runs: &[(u64, usize)]) -> Box<dyn Read> {
    let entries = runs.iter().flat_map(|&(entry, count)| std::iter::repeat_n(entry, count));
    Box::new(Cursor::new(entries.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()))
}

fn read(files: HostFiles) -> Result<HostSnapshot, String> {
    let files = HostFiles { folder: "proc".into(), ..files };
    read_host(files, &mut |_, _| {}).map_err(|error| error.to_string())
}

fn states(snapshot: &HostSnapshot, frames: &[u64]) -> Vec<FrameState> {
    let occupancy = snapshot.frames().unwrap();
    frames.iter().map(|&frame| occupancy.state(frame)).collect()
}

#[test]
fn flags_become_states_and_counts_are_counted() {
    let runs = [(1 << 32, 16), (FREE, 1000), (CACHE, 8), (PROGRAM, 300), (0, 212)];
    let snapshot = read(HostFiles {
        flags: Some(table(&runs)),
        counts: Some(table(&[(0, 1016), (1, 300), (2, 8)])),
        ..HostFiles::default()
    })
    .unwrap();
    let occupancy = snapshot.frames().unwrap();
    assert_eq!(occupancy.blocks(), 3);
    let count = |state| occupancy.frames(state);
    assert_eq!(count(FrameState::Reserved), 16);
    assert_eq!(count(FrameState::Free), 1000);
    assert_eq!(count(FrameState::PageCache), 8);
    assert_eq!(count(FrameState::Movable), 300);
    assert_eq!(count(FrameState::Unmovable), 212);
    assert_eq!(snapshot.about.mapped_frames, Some(308));
    assert_eq!(snapshot.about.shared_frames, Some(8));
    assert_eq!(snapshot.about.sources, ["kpageflags", "kpagecount"]);
}

/// Reads 128MB of memory, 128MB without flags, then memory again. Frames without flags are absent
/// unless iomem lists them: newer kernels have no flag for missing memory.
#[test]
fn sections_without_flags_have_no_memory() {
    let section = 1 << 15;
    let runs = [(FREE, section), (0, section), (FREE, 100), (0, 412)];
    let files = || HostFiles { flags: Some(table(&runs)), ..HostFiles::default() };
    let places = [0, 32_767, 32_768, 65_535, 65_536, 65_640];
    use FrameState::{Absent, Free, Unmovable};
    let guessed = read(files()).unwrap();
    assert_eq!(states(&guessed, &places), [Free, Free, Absent, Absent, Free, Unmovable]);
    // Memory up to frame 32868 and from 65536 to 65635: the first 100 frames of the second section are
    // in use, and the frames at the end do not exist.
    let iomem = "00000000-08063fff : System RAM\n10000000-10063fff : System RAM\n";
    let told = read(HostFiles { iomem: Some(iomem.into()), ..files() }).unwrap();
    assert_eq!(states(&told, &places), [Free, Free, Unmovable, Absent, Free, Absent]);
    assert_eq!(told.frames().unwrap().frames(Unmovable), 100);
}

/// Frames without flags count as free if the zone's per-CPU lists can hold most of these frames:
/// zone DMA has 12 such frames and 10 in its lists, Normal has 1000 and 499.
#[test]
fn counts_of_a_zone_decide_frames_without_a_flag() {
    let runs = [(FREE, 500), (0, 12), (FREE, 512), (0, 1000), (FREE, 24)];
    let zone = |name: &str, start: u64, count: u64| {
        format!(
            "Node 0, zone {name}\n spanned 1024\n present 1024\n count: {count}\n start_pfn: {start}\n"
        )
    };
    let with = |count: u64| HostFiles {
        flags: Some(table(&runs)),
        zoneinfo: Some(zone("DMA", 0, 10) + zone("Normal", 1024, count).as_str()),
        ..HostFiles::default()
    };
    use FrameState::{PerCpu, Unmovable};
    let places = [500, 511, 1024, 2023];
    let few = read(with(499)).unwrap();
    assert_eq!(states(&few, &places), [PerCpu, PerCpu, Unmovable, Unmovable]);
    assert_eq!(few.about.assumptions.len(), 3, "{:?}", few.about.assumptions);
    assert_eq!(states(&read(with(500)).unwrap(), &places), [PerCpu; 4]);
}

#[test]
fn without_flags_free_blocks_are_still_counted() {
    let buddyinfo = "Node 0, zone   Normal      5      0      0      0      0      0      0      0      0      2      1\n";
    let files = HostFiles { buddyinfo: Some(buddyinfo.into()), ..HostFiles::default() };
    let snapshot = read(files).unwrap();
    assert_eq!(snapshot.occupancy, None);
    assert_eq!(snapshot.counted_free().frames(), 5 + 1024 + 1024);
    assert!(snapshot.frames().unwrap_err().to_string().contains("as root"));
    let nothing = read(HostFiles::default()).unwrap_err();
    assert!(nothing.contains("neither kpageflags nor buddyinfo"), "{nothing}");
    let nothing =
        read(HostFiles { buddyinfo: Some("nonsense".into()), ..HostFiles::default() }).unwrap_err();
    assert!(nothing.contains("expected /proc of a Linux machine"), "{nothing}");
}

#[test]
fn tables_that_are_cut_off_are_refused() {
    let flags = Box::new(Cursor::new(vec![0; 4099]));
    let error = read(HostFiles { flags: Some(flags), ..HostFiles::default() }).unwrap_err();
    assert!(error.contains("kpageflags: 4099 bytes; expected 8 for each frame"), "{error}");
}

/// A 2MB page is distinguished from smaller folios.
#[test]
fn large_pages_are_found() {
    let folio = PROGRAM | 1 << 22;
    let (head, tail) = (folio | 1 << 15, folio | 1 << 16);
    let runs = [(head, 1), (tail, 511), (head, 1), (tail, 255), (head, 1), (tail, 255)];
    let snapshot = read(HostFiles { flags: Some(table(&runs)), ..HostFiles::default() }).unwrap();
    let occupancy = snapshot.frames().unwrap();
    assert_eq!(occupancy.frames(FrameState::Large), 512);
    assert_eq!(occupancy.frames(FrameState::Movable), 512);
}

/// Makes a snapshot of the machine that runs the test, as far as its files can be read.
#[test]
fn this_machine_can_be_read() {
    let files = HostFiles::open(Path::new("/proc"));
    let is_privileged = files.flags.is_some();
    let snapshot = match read_host(files, &mut |_, _| {}) {
        Ok(snapshot) => snapshot,
        Err(error) => return println!("skipped: {error}"),
    };
    let counted = snapshot.counted_free().frames();
    assert!(counted > 0);
    let Some(placed) = snapshot.placed_free() else {
        assert!(!is_privileged || snapshot.about.missing.is_empty());
        return println!("skipped: kpageflags cannot be read");
    };
    // Other programs run at the same time; they allocate less than an eighth of the free memory.
    let difference = placed.frames().abs_diff(counted);
    assert!(difference < counted / 8 + 50_000, "{} by frame, {counted} by count", placed.frames());
    let memory: u64 = snapshot.about.zones.iter().map(|zone| zone.present_frames).sum();
    let found = snapshot.frames().unwrap().memory_frames();
    assert!(found.abs_diff(memory) < memory / 50, "{found} frames found, {memory} present");
}

#[test]
fn swap_is_summed_and_merging_seen() {
    let swaps =
        "Filename Type Size Used Priority\n/dev/dm-1 partition 2097148 0 -2\n/swap file 4 0 -3\n";
    assert_eq!(swap_bytes(swaps), 2_097_152 << 10);
    assert_eq!(swap_bytes("Filename Type Size Used Priority\n"), 0);
    assert_eq!(swap_bytes("nonsense\nx y z\n"), 0);
}
