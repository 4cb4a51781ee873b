//! Targets for snapshots of machines and processes: the files of Linux, and stored snapshots.

use perforate_schemes::perforated::{Perforated, PerforationOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use perforate_advice::{Samples, rank_samples};
use perforate_host::snapshot::{HostFiles, ProcessOptions, read_host, read_process};
use perforate_os::HostSnapshot;
use perforate_records::read_snapshot;
use perforate_report::{snapshot_html, snapshot_table};
use perforate_sim::{MemoryOptions, MemorySnapshot, host_record};

use super::reports::options;
use super::{Target, target, told, with_file};
use crate::hostile::target::Seeds;

/// Memory limit of a target in bytes. Readers process the frames one section of memory at a time.
const SNAPSHOT_BYTES: usize = 64 << 20;

/// Contents of `/proc/zoneinfo` for memory of 1GB in two zones.
const ZONEINFO: &str = "Node 0, zone      DMA
  pages free     3840
        spanned  4095
        present  3998
        managed  3840
  start_pfn:           1
Node 0, zone    DMA32
  pages free     60000
        spanned  258048
        present  258048
        managed  250000
  start_pfn:           4096
";

pub const TARGETS: &[Target] = &[
    of_host("snapshot-kpageflags", |bytes| {
        host(HostFiles {
            flags: Some(Box::new(std::io::Cursor::new(bytes.to_vec()))),
            counts: Some(Box::new(std::io::Cursor::new(bytes.to_vec()))),
            ..HostFiles::default()
        });
    }),
    of_host("snapshot-zoneinfo", |bytes| {
        host(HostFiles { zoneinfo: text(bytes), ..known() });
    }),
    of_host("snapshot-buddyinfo", |bytes| {
        host(HostFiles { buddyinfo: text(bytes), ..known() });
    }),
    of_host("snapshot-pagetypeinfo", |bytes| {
        host(HostFiles { pagetypeinfo: text(bytes), ..known() });
    }),
    of_host("snapshot-iomem", |bytes| {
        host(HostFiles { iomem: text(bytes), ..known() });
    }),
    target("snapshot-smaps", |bytes| process("smaps", bytes)).with_memory(SNAPSHOT_BYTES),
    target("snapshot-pagemap", |bytes| process("pagemap", bytes)).with_memory(SNAPSHOT_BYTES),
    target("perf-samples", |bytes| {
        if let Some(samples) = told(Samples::parse(Path::new("samples.txt"), bytes)) {
            let ranked = rank_samples(&samples);
            let sum: u64 = ranked.areas.iter().map(|area| area.samples).sum();
            assert_eq!(sum, samples.count, "each sample is in one area");
        }
    })
    .with_seeds(Seeds::Folder("crates/advice/tests/samples"))
    .with_memory(SNAPSHOT_BYTES),
    target("snapshot-file", |bytes| {
        let sealed = sealed(bytes);
        if let Some(snapshot) = told(HostSnapshot::read_from(&mut &*sealed)) {
            look_into(snapshot);
        }
        with_file(&sealed, |path| {
            if let Some(snapshot) = told(MemorySnapshot::load(&path.to_string_lossy())) {
                let given = [("memory-from", "the snapshot")].into_iter().collect();
                let options = MemoryOptions::read(given).expect("an option of ours");
                if let Some(memory) = told(options.resolve(&|_| Ok(snapshot.clone()))) {
                    memory.describe();
                }
            }
        });
    })
    .with_memory(SNAPSHOT_BYTES),
    target("snapshot-record", |bytes| {
        if let Some(snapshot) = told(read_snapshot(&String::from_utf8_lossy(bytes))) {
            snapshot_table(&snapshot, 100);
            let options = options();
            super::reports::check_page(&snapshot_html(&snapshot, &options));
        }
    })
    .with_memory(SNAPSHOT_BYTES),
];

const fn of_host(name: &'static str, run: fn(&[u8])) -> Target {
    target(name, run).with_memory(SNAPSHOT_BYTES)
}

fn text(bytes: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns valid `/proc` files for one block of free frames; each target replaces one of the files.
fn known() -> HostFiles {
    let flags: Vec<u8> = [1_u64 << 10; 512].into_iter().flat_map(u64::to_le_bytes).collect();
    HostFiles {
        flags: Some(Box::new(std::io::Cursor::new(flags))),
        zoneinfo: Some(ZONEINFO.into()),
        ..HostFiles::default()
    }
}

fn host(files: HostFiles) {
    if let Some(snapshot) = told(read_host(files, &mut |_, _| ())) {
        let mut file = Vec::new();
        snapshot.write_to(&mut file).expect("memory can be written");
        let again = HostSnapshot::read_from(&mut file.as_slice());
        assert_eq!(again.as_ref(), Ok(&snapshot), "what is written is read again");
        look_into(snapshot);
    }
}

/// Summarises a snapshot, as the program does for users.
fn look_into(snapshot: HostSnapshot) {
    let policy = Perforated::new(PerforationOptions::SELECTIVE).expect("the default is sound");
    host_record(&Arc::new(snapshot), policy, 0, 1);
}

/// Makes a snapshot of a process whose `/proc` file `name` has these contents.
fn process(name: &str, bytes: &[u8]) {
    let folder = folder(name);
    // Makes a new file, because a file system writes a truncated file to the disk at once.
    let path = folder.join("7").join(name);
    let _ = fs::remove_file(&path);
    fs::write(path, bytes).expect("temporary files can be written");
    for contents in [false, true] {
        told(read_process(
            &ProcessOptions { pid: 7, proc: folder.clone(), contents },
            &mut |_, _| (),
        ));
    }
}

/// Returns a folder like `/proc` with one process, which has a mapping of 1MB. Creates the folder
/// if it does not exist.
fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("perforate-hostile-{}-{name}", std::process::id()));
    if !folder.exists() {
        let process = folder.join("7");
        fs::create_dir_all(&process).expect("temporary folders can be made");
        let area = "10000-110000 rw-p 00000000 00:00 0 [heap]\nRss: 1024 kB\n";
        for (file, content) in [("smaps", area), ("comm", "sample\n"), ("mem", "")] {
            fs::write(process.join(file), content).expect("temporary files can be written");
        }
    }
    folder
}

/// Returns the file of a stored snapshot with the checksums of its chunks corrected.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    let mut at = 12;
    while let Some(header) = sealed.get(at..at + 16) {
        let stored = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let Some(payload) = sealed.get(at + 16..at + 16 + stored) else { break };
        let checksum = crc32fast::hash(payload).to_le_bytes();
        sealed[at + 12..at + 16].copy_from_slice(&checksum);
        at += 16 + stored;
    }
    sealed
}
