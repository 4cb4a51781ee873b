//! A snapshot of a machine: what each frame of memory holds.
//!
//! The tables of flags and counts are read as streams, a section of memory (128MB) at a time: a
//! terabyte of memory has 2GB of flags.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use perforate_os::{FrameState, HostSnapshot, Occupancy, OccupancyBuilder, OsError, SnapshotAbout};

use crate::CaptureError;
use crate::proc::{Entries, PageFlags, Zones, kernel_release, memory_ranges, text, wrong};

/// Frames of a section, the unit in which Linux describes memory on x86-64.
const SECTION_FRAMES: usize = 1 << 15;
const BLOCK_FRAMES: usize = 512;

/// What of `/proc` a snapshot is made from; what is `None` could not be read.
#[derive(Default)]
pub struct HostFiles {
    /// Where the files lie, for messages.
    pub folder: PathBuf,
    /// `kpageflags`.
    pub flags: Option<Box<dyn Read>>,
    /// `kpagecount`.
    pub counts: Option<Box<dyn Read>>,
    /// `buddyinfo`.
    pub buddyinfo: Option<String>,
    /// `zoneinfo`.
    pub zoneinfo: Option<String>,
    /// `pagetypeinfo`.
    pub pagetypeinfo: Option<String>,
    /// `iomem`.
    pub iomem: Option<String>,
    /// `sys/kernel/osrelease`.
    pub release: String,
    /// Length of `kpageflags` in frames, if it is an ordinary file.
    pub frames: Option<u64>,
    /// When the files were read, if they are this machine's.
    pub taken_unix_seconds: u64,
    /// Why something could not be read; a line each.
    pub missing: Vec<String>,
}

/// What cannot be known without a file.
const WITHOUT: [(&str, &str); 6] = [
    (
        "kpageflags",
        "which frames are free and what the others hold is unknown: no picture, nothing about \
         perforated pages, and no use as --memory-from",
    ),
    ("kpagecount", "how many frames are shared is unknown"),
    ("buddyinfo", "the kernel's own count of free blocks is unknown"),
    ("zoneinfo", "zones are unknown: the simulated memory has one"),
    ("pagetypeinfo", "how many pageblocks are of which migrate type is unknown"),
    ("iomem", "where there is no memory is taken from runs of 128MB without a flag"),
];

impl HostFiles {
    /// Opens what can be read in a folder that is `/proc` or a copy of parts of it.
    pub fn open(folder: &Path) -> Self {
        let mut files = Self { folder: folder.to_owned(), ..Self::default() };
        let note = |missing: &mut Vec<String>, name: &str, error: &io::Error| {
            let without = WITHOUT.iter().find(|known| known.0 == name).map_or("", |known| known.1);
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => " (root may read it)",
                _ => "",
            };
            missing.push(format!("{name} cannot be read: {error}{hint}; {without}"));
        };
        let stream = |missing: &mut Vec<String>, name: &str| {
            // Opening it may succeed and reading it fail, if privileges were given up in between.
            let opened = File::open(folder.join(name)).and_then(|file| {
                let length = file.metadata()?;
                Ok((file, length.is_file().then_some(length.len() / 8)))
            });
            match opened {
                Ok((file, frames)) => Some((Box::new(file) as Box<dyn Read>, frames)),
                Err(error) => {
                    note(missing, name, &error);
                    None
                }
            }
        };
        if let Some((input, frames)) = stream(&mut files.missing, "kpageflags") {
            files.flags = Some(input);
            files.frames = frames.filter(|&frames| frames > 0);
        }
        files.counts = stream(&mut files.missing, "kpagecount").map(|(input, _)| input);
        let whole = |missing: &mut Vec<String>, name: &str| {
            text(folder.join(name)).map_err(|error| note(missing, name, &error)).ok()
        };
        files.buddyinfo = whole(&mut files.missing, "buddyinfo");
        files.zoneinfo = whole(&mut files.missing, "zoneinfo");
        files.pagetypeinfo = whole(&mut files.missing, "pagetypeinfo");
        files.iomem = whole(&mut files.missing, "iomem");
        files.release = kernel_release(folder);
        if folder == Path::new("/proc") {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            files.taken_unix_seconds = now.map_or(0, |since| since.as_secs());
        }
        files
    }
}

/// Makes a snapshot; `progress` hears of the frames done and how many there are, if that is known.
///
/// # Errors
/// If neither flags nor counts of free blocks can be read, or a file is not what it should be.
pub fn read_host(
    files: HostFiles,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<HostSnapshot, CaptureError> {
    let HostFiles { folder, missing, .. } = files;
    let mut about = SnapshotAbout {
        kernel: files.release,
        taken_unix_seconds: files.taken_unix_seconds,
        missing,
        ..SnapshotAbout::default()
    };
    let mut zones = Zones::default();
    let mut sources = Vec::new();
    let mut note = |name: &str, known: bool| {
        if known {
            sources.push(name.to_owned());
        }
    };
    note("zoneinfo", files.zoneinfo.as_deref().map(|text| zones.add_zoneinfo(text)).is_some());
    let has_counts = files.buddyinfo.as_deref().is_some_and(|text| zones.add_buddyinfo(text));
    note("buddyinfo", has_counts);
    let types = files.pagetypeinfo.as_deref().map(|text| zones.add_pagetypeinfo(text));
    note("pagetypeinfo", types.is_some());
    let memory = files.iomem.as_deref().and_then(memory_ranges);
    note("iomem", memory.is_some());
    if files.iomem.is_some() && memory.is_none() {
        let (_, without) = WITHOUT[5];
        about.missing.push(format!("iomem hides addresses (from all but root); {without}"));
    }
    zones.0.sort_by_key(|zone| (zone.start_frame, zone.node));
    about.zones = zones.0;
    let end = files.frames.or_else(|| {
        let ends = about.zones.iter().map(|zone| zone.start_frame + zone.spanned_frames);
        ends.max().filter(|&end| end > 0)
    });
    let mut occupancy = None;
    if let Some(flags) = files.flags {
        let mut tables = Tables {
            flags: Entries::new(flags, &folder.join("kpageflags"), SECTION_FRAMES),
            counts: files
                .counts
                .map(|input| Entries::new(input, &folder.join("kpagecount"), SECTION_FRAMES)),
            memory,
            builder: OccupancyBuilder::default(),
            mapped: 0,
            shared: 0,
        };
        tables.read(&folder, &mut |done| progress(done, end))?;
        note("kpageflags", true);
        if tables.counts.is_some() {
            note("kpagecount", true);
            about.mapped_frames = Some(tables.mapped);
            about.shared_frames = Some(tables.shared);
        }
        let made = tables.builder.finish().map_err(|error| too_large(&folder, &error))?;
        let made = tell_flagless(&made, &mut about).map_err(|error| too_large(&folder, &error))?;
        occupancy = (made.memory_frames() > 0).then_some(made);
    }
    if occupancy.is_none() && !has_counts {
        let problem = "neither kpageflags nor buddyinfo tells anything; expected /proc of a Linux \
                       machine, or copies of its files";
        return Err(wrong(&folder, problem));
    }
    about.sources = sources;
    let mut snapshot = HostSnapshot { about, occupancy };
    note_assumptions(&mut snapshot);
    Ok(snapshot)
}

/// Decides what frames without a flag are, zone by zone: both the free frames in lists of
/// processors and plain memory of the kernel have none, and the kernel counts the former only.
fn tell_flagless(occupancy: &Occupancy, about: &mut SnapshotAbout) -> Result<Occupancy, OsError> {
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
        let (state, what) = if 2 * per_cpu >= flagless {
            (FrameState::PerCpu, "all count as free in such lists, as most are")
        } else {
            (FrameState::Unmovable, "all count as unmovable, as most are the kernel's")
        };
        about.assumptions.push(format!(
            "zone {name} of node {}: {flagless} frames have no flag and {per_cpu} free frames wait \
             in lists of processors, which have none; {what}",
            zone.node
        ));
        decided.push((first..end, state));
    }
    let outside = [(0..occupancy.blocks(), FrameState::Unmovable)];
    occupancy.replaced(FrameState::PerCpu, if decided.is_empty() { &outside } else { &decided })
}

fn too_large(folder: &Path, error: &OsError) -> CaptureError {
    wrong(&folder.join("kpageflags"), error.to_string())
}

/// What is taken to be so because Linux does not tell.
fn note_assumptions(snapshot: &mut HostSnapshot) {
    let Some(occupancy) = &snapshot.occupancy else { return };
    let mut notes = Vec::new();
    if occupancy.frames(FrameState::Reclaimable) > 0 {
        notes.push(
            "slab is slab that can be shrunk under pressure, after the page cache: which of it \
             can be is not told; whatever is moved, it stays"
                .to_owned(),
        );
    }
    notes.push(
        "pages that are pinned for I/O cannot be told from others of their kind and count as \
         movable"
            .to_owned(),
    );
    snapshot.about.assumptions.extend(notes);
}

/// The tables with an entry for each frame.
struct Tables {
    flags: Entries<Box<dyn Read>>,
    counts: Option<Entries<Box<dyn Read>>>,
    memory: Option<Vec<Range<u64>>>,
    builder: OccupancyBuilder,
    mapped: u64,
    shared: u64,
}

impl Tables {
    fn read(&mut self, folder: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), CaptureError> {
        let mut section: Vec<PageFlags> = Vec::with_capacity(SECTION_FRAMES);
        let mut is_counted = true;
        loop {
            let start = self.builder.frames();
            section.clear();
            let entries = self.flags.next(start)?;
            section.extend(entries.iter().map(|entry| PageFlags(u64::from_le_bytes(*entry))));
            if section.is_empty() {
                return Ok(());
            }
            self.add(start, &section).map_err(|error| too_large(folder, &error))?;
            if is_counted && let Some(counts) = &mut self.counts {
                let counts = counts.next(start)?;
                // On other kernels and in copies it may be shorter than the other table.
                is_counted = !counts.is_empty();
                for count in counts {
                    let count = u64::from_le_bytes(*count);
                    self.mapped += u64::from(count > 0);
                    self.shared += u64::from(count > 1);
                }
            }
            progress(self.builder.frames());
        }
    }

    /// Adds the frames of a section, which begins at frame `start`.
    fn add(&mut self, start: u64, section: &[PageFlags]) -> Result<(), OsError> {
        // Kernels up to 6.13 say NOPAGE where there is no memory, later ones nothing at all.
        let is_empty = section.iter().all(|flags| flags.0 == 0);
        let is_absent = is_empty
            && match &self.memory {
                Some(ranges) => !overlaps(ranges, start..start + section.len() as u64),
                None => true,
            };
        if is_absent {
            return self.builder.push_run(FrameState::Absent, section.len() as u64);
        }
        for (number, block) in (0..).zip(section.chunks(BLOCK_FRAMES)) {
            let first = start + number * BLOCK_FRAMES as u64;
            let frames = first..first + block.len() as u64;
            if PageFlags::is_large_page(block) {
                self.builder.push_run(FrameState::Large, block.len() as u64)?;
            } else if self.memory.as_ref().is_none_or(|ranges| covers(ranges, &frames)) {
                block.iter().try_for_each(|flags| self.builder.push(flags.state()))?;
            } else {
                self.add_at_edge(first, block)?;
            }
        }
        Ok(())
    }

    /// Adds a block of which a part has no memory.
    fn add_at_edge(&mut self, first: u64, block: &[PageFlags]) -> Result<(), OsError> {
        for (frame, flags) in (first..).zip(block) {
            let is_memory =
                self.memory.as_ref().is_none_or(|ranges| overlaps(ranges, frame..frame + 1));
            let is_absent = !is_memory && flags.says_nothing();
            self.builder.push(if is_absent { FrameState::Absent } else { flags.state() })?;
        }
        Ok(())
    }
}

/// The last range that begins before `frame`.
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
