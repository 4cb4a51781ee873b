use std::fs::File;
use std::io::Write;

use super::*;

const PRESENT: u64 = 1 << 63;

/// Makes a folder that looks like `/proc` with process 7, which has a mapping of six pages at
/// 0x10000.
fn made_up(entries: &[u64], pages: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let process = folder.path().join("7");
    fs::create_dir(&process).unwrap();
    let resident = entries.iter().filter(|&entry| entry & PRESENT != 0).count() * 4;
    let smaps = format!("10000-16000 rw-p 00000000 00:00 0   [heap]\nRss: {resident} kB\n");
    fs::write(process.join("smaps"), smaps).unwrap();
    fs::write(process.join("comm"), "made-up\n").unwrap();
    let mut pagemap = vec![0; 16 * 8];
    pagemap.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
    fs::write(process.join("pagemap"), pagemap).unwrap();
    let mut memory = File::create(process.join("mem")).unwrap();
    memory.write_all(&vec![9; 0x10000]).unwrap();
    for &byte in pages {
        memory.write_all(&[byte; 4096]).unwrap();
    }
    folder
}

fn read(folder: &Path, contents: bool) -> (ProcessRecord, PageContents) {
    let options = ProcessOptions { pid: 7, proc: folder.to_owned(), contents };
    read_process(&options, &mut |_, _| {}).unwrap()
}

/// Reads pages 16–21, whose frames are 32, 33, 34 (one run: the pair 16–17 is aligned, 18 is
/// alone), none, 100 and 40.
#[test]
fn runs_are_cut_where_frames_or_alignment_end() {
    let entries =
        [32, 33, 34, 0, 100, 40].map(|frame| if frame == 0 { 0 } else { PRESENT | frame });
    let folder = made_up(&entries, &[0, 1, 2, 3, 1, 1]);
    // Frame 33 belongs to a large folio; KSM has merged frame 100.
    let mut flags = vec![0_u64; 128];
    (flags[33], flags[100]) = (1 << 22, 1 << 21);
    let flags: Vec<u8> = flags.into_iter().flat_map(u64::to_le_bytes).collect();
    fs::write(folder.path().join("kpageflags"), flags).unwrap();
    let (snapshot, contents) = read(folder.path(), true);
    let totals = &snapshot.totals;
    assert_eq!((totals.mapped_bytes, totals.resident_bytes), (6 * 4096, 5 * 4096));
    let sizes = totals.sizes.clone().unwrap();
    assert_eq!(
        sizes.into_iter().collect::<Vec<_>>(),
        [("4K".into(), 3 * 4096), ("8K".into(), 8192)]
    );
    assert_eq!((totals.folio_bytes, totals.merged_bytes), (Some(4096), Some(4096)));
    // Page 19 is not resident and is not read. The rest contain zeros, 1, 2, 1, 1.
    let found = snapshot.contents.unwrap();
    assert_eq!((found.pages_read, found.zero_pages, found.pages_unreadable), (5, 1, 0));
    assert_eq!((found.duplicate_pages, found.distinct_duplicates, found.savable_pages), (3, 1, 2));
    assert_eq!(found.spec, "zero=20%,duplicate=60%,distinct=1");
    assert_eq!(contents.by_hash().len(), 2);
    assert_eq!(snapshot.program, "made-up");
}

#[test]
fn hidden_frames_and_missing_files_are_reported() {
    // The memory file ends after the first page, so the second page cannot be read.
    let folder = made_up(&[PRESENT, PRESENT, 0, 0, 0, 0], &[5]);
    let (snapshot, _) = read(folder.path(), true);
    assert_eq!(snapshot.totals.sizes, None);
    assert!(snapshot.missing.iter().any(|line| line.contains("frames are hidden")));
    assert!(snapshot.missing.iter().any(|line| line.starts_with("kpageflags: ")));
    let found = snapshot.contents.unwrap();
    assert_eq!((found.pages_read, found.pages_unreadable), (1, 1));
    let options = ProcessOptions { pid: 8, proc: folder.path().into(), contents: false };
    let error = read_process(&options, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("there is no such process"), "{error}");
}

#[test]
fn damaged_files_are_read_or_refused() {
    let folder = made_up(&[u64::MAX; 6], &[1; 3]);
    fs::write(folder.path().join("kpageflags"), [1; 100]).unwrap();
    fs::write(folder.path().join("7/pagemap"), vec![0xff; 16 * 8 + 13]).unwrap();
    assert_eq!(read(folder.path(), true).0.contents.unwrap().pages_read, 1);
    fs::write(folder.path().join("7/smaps"), [0xff, 0, 10, 13, 200]).unwrap();
    let options = ProcessOptions { pid: 7, proc: folder.path().into(), contents: true };
    let error = read_process(&options, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("no areas") && !error.contains('\n'), "{error}");
}

/// Makes a snapshot of this process, with memory that it has just written.
#[test]
fn this_process_can_be_read() {
    let pages = 64;
    let mut memory = vec![0xa5_u8; (pages + 1) * 4096];
    for (number, page) in memory.chunks_mut(4096).enumerate() {
        page[0] = (number % 2) as u8;
    }
    let pid = std::process::id();
    let options = ProcessOptions { pid, proc: "/proc".into(), contents: true };
    let (snapshot, _) = read_process(&options, &mut |_, _| {}).unwrap();
    assert!(snapshot.totals.resident_bytes >= memory.len() as u64);
    let found = snapshot.contents.unwrap();
    assert!(found.duplicate_pages >= pages as u64 - 2, "{found:?}");
    assert!(found.pages_read > pages as u64 && found.savable_pages >= pages as u64 - 4);
    if snapshot.totals.sizes.is_none() {
        println!("skipped: frames are hidden: {:?}", snapshot.missing);
    }
    drop(memory);
}
