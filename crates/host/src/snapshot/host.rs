//! Snapshot of a machine: the state of each frame of memory.
//!
//! The tables of flags and counts are read as streams, one section of memory (128MB) at a time, because
//! 1TB of memory has 2GB of flags.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use perforate_os::{FrameState, HostSnapshot, Occupancy, OccupancyBuilder, OsError, SnapshotAbout};
use perforate_record::process_memory::read_text;

use crate::HostError;
use crate::proc::{
    Entries, PageFlags, Zones, has_no_use, is_large_page, kernel_release, memory_ranges, state_of,
};

/// Number of frames in a section, the unit in which Linux describes memory on x86-64.
const SECTION_FRAMES: usize = 1 << 15;
const BLOCK_FRAMES: usize = 512;

/// Input files of a machine's snapshot, from `/proc`. Unreadable files are `None`.
#[derive(Default)]
pub struct HostFiles {
    /// Folder of the input files, for messages.
    pub folder: PathBuf,
    /// Table with the flags of each frame (`kpageflags`).
    pub flags: Option<Box<dyn Read>>,
    /// Table with the number of mappings of each frame (`kpagecount`).
    pub counts: Option<Box<dyn Read>>,
    /// Numbers of free blocks by order (`buddyinfo`).
    pub buddyinfo: Option<String>,
    /// Frame ranges and per-CPU lists of memory zones (`zoneinfo`).
    pub zoneinfo: Option<String>,
    /// Numbers of free blocks by migrate type (`pagetypeinfo`).
    pub pagetypeinfo: Option<String>,
    /// Map of physical addresses (`iomem`).
    pub iomem: Option<String>,
    /// Swap areas (`swaps`); a machine without swap may lack the file.
    pub swaps: Option<String>,
    /// State of KSM (`/sys/kernel/mm/ksm/run`); `None` for copies of another machine's files.
    pub ksm: Option<String>,
    /// Release of the kernel (`sys/kernel/osrelease`); empty if unknown.
    pub release: String,
    /// Length of `kpageflags` in frames, if it is a regular file (a copy).
    pub frames: Option<u64>,
    /// Unix time at which the files were read; 0 for copies.
    pub taken_unix_seconds: u64,
    /// Notes on unreadable files: one line per file, with the reason and the consequence.
    pub missing: Vec<String>,
}

/// Path of the file that contains 1 while KSM merges identical pages.
const KSM: &str = "/sys/kernel/mm/ksm/run";

/// Total swap space in bytes from `/proc/swaps`: a heading, then lines of file, type, size in KB, ….
fn swap_bytes(text: &str) -> u64 {
    let sizes =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)?.parse().ok());
    sizes.fold(0_u64, u64::saturating_add).saturating_mul(1 << 10)
}

/// Consequence for the snapshot if the file `name` cannot be read, for users.
fn consequence(name: &str) -> &'static str {
    match name {
        "kpageflags" => {
            "which frames are free and what the others hold is unknown: no picture, nothing about \
             perforated pages, and no use as --memory-from"
        }
        "kpagecount" => "how many frames are shared is unknown",
        "buddyinfo" => "the kernel's own count of free blocks is unknown",
        "zoneinfo" => "zones are unknown: the simulated memory has one",
        "pagetypeinfo" => "how many pageblocks are of which migrate type is unknown",
        _ => "where there is no memory is taken from runs of 128MB without a flag",
    }
}

impl HostFiles {
    /// Opens the readable input files in `folder`: `/proc`, or a folder with copies of its files.
    pub fn open(folder: &Path) -> Self {
        let mut files = Self { folder: folder.to_owned(), ..Self::default() };
        if let Some(file) = files.open_table("kpageflags") {
            let length = file.metadata().ok().filter(|metadata| metadata.is_file());
            files.frames = length.map(|metadata| metadata.len() / 8).filter(|frames| *frames > 0);
            files.flags = Some(Box::new(file));
        }
        files.counts = files.open_table("kpagecount").map(|file| Box::new(file) as Box<dyn Read>);
        files.buddyinfo = files.read("buddyinfo");
        files.zoneinfo = files.read("zoneinfo");
        files.pagetypeinfo = files.read("pagetypeinfo");
        files.iomem = files.read("iomem");
        files.swaps = read_text(folder.join("swaps")).ok();
        files.release = kernel_release(folder);
        if folder == Path::new("/proc") {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            files.ksm = read_text(KSM).ok();
            files.taken_unix_seconds = now.map_or(0, |since| since.as_secs());
        }
        files
    }

    fn open_table(&mut self, name: &str) -> Option<File> {
        let opened = File::open(self.folder.join(name));
        self.note_missing(name, opened)
    }

    fn read(&mut self, name: &str) -> Option<String> {
        let text = read_text(self.folder.join(name));
        self.note_missing(name, text)
    }

    fn note_missing<T>(&mut self, name: &str, read: io::Result<T>) -> Option<T> {
        let note = |error: io::Error| {
            let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
            let hint = if is_denied { " (root may read it)" } else { "" };
            format!("{name} cannot be read: {error}{hint}; {}", consequence(name))
        };
        read.map_err(|error| self.missing.push(note(error))).ok()
    }

    /// Adds the memory zones to `about`. Returns false if no file has numbers of free blocks.
    fn read_zones(&self, about: &mut SnapshotAbout) -> bool {
        let mut zones = Zones::default();
        if let Some(text) = &self.zoneinfo {
            zones.add_zoneinfo(text);
            about.sources.push("zoneinfo".into());
        }
        let has_counts = self.buddyinfo.as_ref().is_some_and(|text| zones.add_buddyinfo(text));
        if has_counts {
            about.sources.push("buddyinfo".into());
        }
        if let Some(text) = &self.pagetypeinfo {
            zones.add_pagetypeinfo(text);
            about.sources.push("pagetypeinfo".into());
        }
        zones.0.sort_by_key(|zone| (zone.start_frame, zone.node));
        about.zones = zones.0;
        has_counts
    }

    /// Frame ranges with memory. `None` if the ranges are unknown, which is noted in `about`.
    fn memory_ranges(&self, about: &mut SnapshotAbout) -> Option<Vec<Range<u64>>> {
        let memory = memory_ranges(self.iomem.as_ref()?);
        if memory.is_some() {
            about.sources.push("iomem".into());
        } else {
            let without = consequence("iomem");
            about.missing.push(format!("iomem hides addresses (from all but root); {without}"));
        }
        memory
    }
}

/// Makes a snapshot of a machine's memory. `progress` receives the number of frames read so far,
/// and the total if it is known.
///
/// # Errors
/// If neither flags nor counts of free blocks can be read, or a file is damaged.
pub fn read_host(
    mut files: HostFiles,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<HostSnapshot, HostError> {
    let mut about = SnapshotAbout {
        kernel: std::mem::take(&mut files.release),
        taken_unix_seconds: files.taken_unix_seconds,
        missing: std::mem::take(&mut files.missing),
        swap_bytes: files.swaps.as_deref().map_or(0, swap_bytes),
        merges_pages: files.ksm.as_deref().is_some_and(|text| text.trim() == "1"),
        ..SnapshotAbout::default()
    };
    let has_counts = files.read_zones(&mut about);
    let memory = files.memory_ranges(&mut about);
    let end = files.frames.or_else(|| {
        let ends = about.zones.iter().map(|zone| zone.start_frame + zone.spanned_frames);
        ends.max().filter(|&end| end > 0)
    });
    let occupancy = match files.flags.take() {
        Some(flags) => {
            let tables = Tables::new(flags, files.counts.take(), memory, &files.folder);
            tables.read(&mut about, &mut |done| progress(done, end))?
        }
        None => None,
    };
    if occupancy.is_none() && !has_counts {
        let problem = "neither kpageflags nor buddyinfo tells anything; expected /proc of a Linux \
                       machine, or copies of its files";
        return Err(HostError::file(&files.folder, problem));
    }
    if let Some(occupancy) = &occupancy {
        about.assumptions.extend(assumptions(occupancy));
    }
    Ok(HostSnapshot { about, occupancy })
}

/// Assumptions of the snapshot about frames whose flags leave their use open, for users.
fn assumptions(occupancy: &Occupancy) -> Vec<String> {
    let slab = "slab is slab that can be shrunk under pressure, after the page cache: which of it can \
                be is not told; whatever is moved, it stays";
    let pinned = "pages that are pinned for I/O cannot be told from others of their kind and count as \
                  movable";
    let has_slab = occupancy.frames(FrameState::Reclaimable) > 0;
    has_slab.then_some(slab).into_iter().chain([pinned]).map(str::to_owned).collect()
}

/// Decides the state of frames without flags, zone by zone. Such frames are either free in per-CPU
/// lists or plain allocations of the kernel; the zone's count of frames in per-CPU lists decides.
fn decide_flagless(occupancy: &Occupancy, about: &mut SnapshotAbout) -> Result<Occupancy, OsError> {
    let mut decided = Vec::new();
    let mut end = 0;
    let block = BLOCK_FRAMES as u64;
    for zone in about.zones.iter().filter(|zone| zone.present_frames > 0) {
        let first = (zone.start_frame / block).max(end);
        end = (zone.start_frame.saturating_add(zone.spanned_frames)).div_ceil(block);
        end = end.min(occupancy.blocks()).max(first);
        let is_flagless = |state| state == FrameState::PerCpu;
        let counts = (first..end).map(|number| occupancy.frames_of(number, is_flagless).count());
        let flagless = counts.sum::<usize>() as u64;
        if flagless == 0 {
            continue;
        }
        let (name, per_cpu) = (&zone.name, zone.per_cpu_frames);
        let (state, decision) = if 2 * per_cpu >= flagless {
            (FrameState::PerCpu, "all count as free in such lists, as most are")
        } else {
            (FrameState::Unmovable, "all count as unmovable, as most are the kernel's")
        };
        about.assumptions.push(format!(
            "zone {name} of node {}: {flagless} frames have no flag and {per_cpu} free frames wait \
             in lists of processors, which have none; {decision}",
            zone.node
        ));
        decided.push((first..end, state));
    }
    let outside = [(0..occupancy.blocks(), FrameState::Unmovable)];
    occupancy.replaced(FrameState::PerCpu, if decided.is_empty() { &outside } else { &decided })
}

/// Tables with one entry per frame, and the occupancy built from the entries read so far.
struct Tables {
    flags: Entries,
    counts: Option<Entries>,
    /// Path of the table of flags, for messages.
    path: PathBuf,
    memory: Option<Vec<Range<u64>>>,
    builder: OccupancyBuilder,
}

impl Tables {
    fn new(
        flags: Box<dyn Read>,
        counts: Option<Box<dyn Read>>,
        memory: Option<Vec<Range<u64>>>,
        folder: &Path,
    ) -> Self {
        let path = folder.join("kpageflags");
        let entries = |input, path: &Path| Entries::new(input, path, SECTION_FRAMES);
        Self {
            flags: entries(flags, &path),
            counts: counts.map(|input| entries(input, &folder.join("kpagecount"))),
            path,
            memory,
            builder: OccupancyBuilder::default(),
        }
    }

    /// Reads the tables of frames' flags and mapping counts to their end. `None` if they contain no memory.
    fn read(
        mut self,
        about: &mut SnapshotAbout,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<Occupancy>, HostError> {
        let (mut mapped, mut shared) = (0, 0);
        let (mut entries, mut section, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let start = self.builder.frames();
            self.flags.read_batch(&mut entries)?;
            if entries.is_empty() {
                break;
            }
            section.clear();
            section.extend(entries.iter().map(|entry| PageFlags::from_bits_retain(*entry)));
            self.add(start, &section).map_err(|error| too_large(&self.path, &error))?;
            // The table of counts may be shorter than the table of flags, in copies and on some
            // kernels.
            if let Some(table) = &mut self.counts {
                table.read_batch(&mut counts)?;
                mapped += counts.iter().filter(|count| **count > 0).count() as u64;
                shared += counts.iter().filter(|count| **count > 1).count() as u64;
            }
            progress(self.builder.frames());
        }
        about.sources.push("kpageflags".into());
        if self.counts.is_some() {
            about.sources.push("kpagecount".into());
            (about.mapped_frames, about.shared_frames) = (Some(mapped), Some(shared));
        }
        let too_large = |error: OsError| too_large(&self.path, &error);
        let occupancy = self.builder.finish().map_err(too_large)?;
        let occupancy = decide_flagless(&occupancy, about).map_err(too_large)?;
        Ok((occupancy.memory_frames() > 0).then_some(occupancy))
    }

    /// Adds the frames of one section of memory, which begins at frame `start`.
    fn add(&mut self, start: u64, section: &[PageFlags]) -> Result<(), OsError> {
        // Without memory, kernels up to 6.13 set NOPAGE and later kernels set no flag.
        let is_empty = section.iter().all(|flags| flags.is_empty());
        let is_memory = self
            .memory
            .as_ref()
            .is_some_and(|ranges| overlaps(ranges, start..start + section.len() as u64));
        if is_empty && !is_memory {
            return self.builder.push_run(FrameState::Absent, section.len() as u64);
        }
        for (number, block) in (0..).zip(section.chunks(BLOCK_FRAMES)) {
            let first = start + number * BLOCK_FRAMES as u64;
            let frames = first..first + block.len() as u64;
            if is_large_page(block) {
                self.builder.push_run(FrameState::Large, block.len() as u64)?;
            } else if self.memory.as_ref().is_none_or(|ranges| covers(ranges, &frames)) {
                block.iter().try_for_each(|flags| self.builder.push(state_of(*flags)))?;
            } else {
                self.add_at_edge(first, block)?;
            }
        }
        Ok(())
    }

    /// Adds the frames of a 2MB block at the edge of memory, frame by frame. Frames outside memory count as
    /// absent.
    fn add_at_edge(&mut self, first: u64, block: &[PageFlags]) -> Result<(), OsError> {
        for (frame, &flags) in (first..).zip(block) {
            let is_memory =
                self.memory.as_ref().is_none_or(|ranges| overlaps(ranges, frame..frame + 1));
            let is_absent = !is_memory && has_no_use(flags);
            self.builder.push(if is_absent { FrameState::Absent } else { state_of(flags) })?;
        }
        Ok(())
    }
}

fn too_large(path: &Path, error: &OsError) -> HostError {
    HostError::file(path, error.to_string())
}

/// Last range that begins before `frame`; `None` if no range does. `ranges` is sorted.
fn range_before(ranges: &[Range<u64>], frame: u64) -> Option<&Range<u64>> {
    ranges[..ranges.partition_point(|range| range.start < frame)].last()
}

fn overlaps(ranges: &[Range<u64>], frames: Range<u64>) -> bool {
    range_before(ranges, frames.end).is_some_and(|range| range.end > frames.start)
}

fn covers(ranges: &[Range<u64>], frames: &Range<u64>) -> bool {
    range_before(ranges, frames.start + 1).is_some_and(|range| range.end >= frames.end)
}

#[cfg(test)]
mod tests;
