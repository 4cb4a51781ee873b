//! Snapshot of a process: its mappings, their resident memory, real page sizes and contents.
//!
//! The process is not attached or stopped: `smaps`, `pagemap` and `mem` are read while it runs. Pages
//! that disappear meanwhile, or that cannot be read, are skipped. Only resident pages are read, so
//! nothing is swapped in.

mod reader;
mod summary;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use perforate_record::process_memory::read_text;
use perforate_records::ProcessRecord;

use super::contents::PageContents;
use crate::HostError;
use crate::proc::{MappedArea, parse_areas, program_name};
use reader::Reader;
use summary::{add_up, guest_note, of_contents};

/// Options for the snapshot of a process.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// ID of the process to read.
    pub pid: u32,
    /// The folder `/proc`, or a folder with copies of its files.
    pub proc: PathBuf,
    /// True to read and compare the contents of the process's pages.
    pub contents: bool,
}

/// Makes a snapshot of a process. `progress` receives the number of resident bytes examined so far and
/// in all. Also returns the contents of the pages, empty if they were not read.
///
/// # Errors
/// If there is no such process, or its mappings cannot be read.
pub fn read_process(
    options: &ProcessOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(ProcessRecord, PageContents), HostError> {
    let folder = options.proc.join(options.pid.to_string());
    if !folder.is_dir() {
        return Err(HostError::file(&folder, "there is no such process"));
    }
    let mut missing = Vec::new();
    let (areas, has_sizes) = read_areas(&folder)?;
    if !has_sizes {
        missing.push("smaps cannot be read: the kernel's figures of residency are unknown".into());
    }
    let mut reader = Reader::open(options, &folder, &mut missing);
    let guest = runs_virtual_machine(&folder).then(|| largest(&areas)).flatten();
    let resident = areas.iter().map(|area| area.resident_bytes);
    let total = resident.fold(0, u64::saturating_add);
    let (mut all, mut of_guest) = (PageContents::default(), None);
    let (mut made, mut done) = (Vec::new(), 0);
    for (place, area) in areas.iter().enumerate() {
        let mut sinks = vec![&mut all];
        if guest == Some(place) {
            sinks.push(of_guest.insert(PageContents::default()));
        }
        made.push(reader.examine(area, has_sizes, &mut sinks));
        done = area.resident_bytes.saturating_add(done);
        progress(done, total);
    }
    let has_frames = reader.has_frames;
    if reader.pagemap.is_some() && !has_frames {
        missing.push("frames are hidden (from all but root): real page sizes are unknown".into());
    }
    let totals = add_up(&mut made, has_frames, reader.flags.is_some() && has_frames);
    let mut notes = Vec::new();
    if reader.too_large > 0 {
        let number = reader.too_large;
        notes.push(format!("{number} areas of more than 1TB were not looked into"));
    }
    let unreadable = reader.unreadable;
    let contents = reader.memory.is_some().then(|| of_contents(&all, unreadable));
    let guest_contents = of_guest.filter(|_| contents.is_some()).map(|of| of_contents(&of, 0));
    notes.extend(guest.map(|place| guest_note(&made[place], guest_contents.as_ref())));
    let snapshot = ProcessRecord {
        pid: options.pid,
        program: program_name(&folder),
        missing,
        notes,
        areas: made,
        totals,
        contents,
        guest_contents,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    Ok((snapshot, all))
}

fn read_areas(folder: &Path) -> Result<(Vec<MappedArea>, bool), HostError> {
    let smaps = folder.join("smaps");
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "; root or the process's user may read it",
            _ => "",
        };
        HostError::file(&smaps, format!("{error}{hint}"))
    };
    let content = read_text(&smaps).or_else(|_| read_text(folder.join("maps"))).map_err(failed)?;
    let (areas, has_sizes) = parse_areas(&content);
    if areas.is_empty() {
        let problem = "no areas: expected the maps of a process (kernel threads have none)";
        return Err(HostError::file(&smaps, problem));
    }
    Ok((areas, has_sizes))
}

/// True if the process has an open file of a KVM virtual machine.
fn runs_virtual_machine(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder.join("fd")) else { return false };
    let mut links =
        entries.take(1 << 16).flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link.to_string_lossy().starts_with("anon_inode:kvm-vm"))
}

/// Index of the mapping with the most resident memory: for a virtual machine's process, the guest's
/// memory. `None` if there are no mappings.
fn largest(areas: &[MappedArea]) -> Option<usize> {
    let memory = areas.iter().enumerate().filter(|(_, area)| area.is_memory());
    memory
        .max_by_key(|(_, area)| area.resident_bytes.saturating_add(area.hugetlb_bytes))
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests;
