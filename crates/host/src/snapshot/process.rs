//! A snapshot of a process: its areas, what is resident, in which sizes, with what contents.
//!
//! Nothing is attached and nothing stopped: `smaps`, `pagemap` and `mem` are read while it runs.
//! Pages that are gone by then, or that may not be read, are passed over. Only resident pages are
//! read, so that nothing is brought in from swap.

mod reader;
mod record;
mod summary;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::contents::PageContents;
use crate::CaptureError;
use crate::proc::{Area, areas, text, wrong};
use reader::Reader;
pub use record::{ProcessArea, ProcessContents, ProcessSnapshot, ProcessTotals};
use summary::{add_up, guest_note, of_contents};

/// What to look at.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// The process.
    pub pid: u32,
    /// `/proc`, or a folder like it.
    pub proc: PathBuf,
    /// Whether pages are read and compared.
    pub contents: bool,
}

/// Looks at a process; `progress` hears of the bytes done and how many there are. The contents of
/// its pages come besides, if they were read.
///
/// # Errors
/// If there is no such process, or its areas may not be read.
pub fn read_process(
    options: &ProcessOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(ProcessSnapshot, PageContents), CaptureError> {
    let folder = options.proc.join(options.pid.to_string());
    if !folder.is_dir() {
        return Err(wrong(&folder, "there is no such process"));
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
        made.push(reader.look_into(area, has_sizes, &mut sinks));
        done = area.resident_bytes.saturating_add(done);
        progress(done, total);
    }
    let has_frames = reader.has_frames;
    if reader.knows_pages() && !has_frames {
        missing.push("frames are hidden (from all but root): real page sizes are unknown".into());
    }
    let totals = add_up(&mut made, has_frames, reader.knows_flags() && has_frames);
    let mut notes = Vec::new();
    if reader.too_large > 0 {
        let number = reader.too_large;
        notes.push(format!("{number} areas of more than 1TB were not looked into"));
    }
    let unreadable = reader.unreadable;
    let contents = reader.reads_memory().then(|| of_contents(&all, unreadable));
    let guest_contents = of_guest.filter(|_| contents.is_some()).map(|of| of_contents(&of, 0));
    notes.extend(guest.map(|place| guest_note(&made[place], guest_contents.as_ref())));
    let snapshot = ProcessSnapshot {
        snapshot: "process",
        pid: options.pid,
        program: text(folder.join("comm")).unwrap_or_default().trim().chars().take(64).collect(),
        missing,
        notes,
        areas: made,
        totals,
        contents,
        guest_contents,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok((snapshot, all))
}

fn read_areas(folder: &Path) -> Result<(Vec<Area>, bool), CaptureError> {
    let smaps = folder.join("smaps");
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "; root or the process's user may read it",
            _ => "",
        };
        wrong(&smaps, format!("{error}{hint}"))
    };
    let content = text(&smaps).or_else(|_| text(folder.join("maps"))).map_err(failed)?;
    let (areas, has_sizes) = areas(&content);
    if areas.is_empty() {
        let problem = "no areas: expected the maps of a process (kernel threads have none)";
        return Err(wrong(&smaps, problem));
    }
    Ok((areas, has_sizes))
}

/// Whether the process has a virtual machine open (KVM).
fn runs_virtual_machine(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder.join("fd")) else { return false };
    let mut links =
        entries.take(1 << 16).flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link.to_string_lossy().starts_with("anon_inode:kvm-vm"))
}

/// The area with most resident memory: in a virtual machine's process, the guest's memory.
fn largest(areas: &[Area]) -> Option<usize> {
    let memory = areas.iter().enumerate().filter(|(_, area)| area.is_memory());
    memory
        .max_by_key(|(_, area)| area.resident_bytes.saturating_add(area.hugetlb_bytes))
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests;
