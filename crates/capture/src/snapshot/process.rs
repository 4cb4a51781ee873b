//! A snapshot of a process: its areas, what is resident, in which sizes, with what contents.
//!
//! Nothing is attached and nothing stopped: `smaps`, `pagemap` and `mem` are read while it runs. Pages
//! that are gone by then, or that may not be read, are passed over. Only resident pages are read, so
//! that nothing is brought in from swap.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::areas::{Area, areas};
use super::contents::PageContents;
use super::input::{text, wrong};
use crate::CaptureError;

const PAGE_BYTES: u64 = 4096;
/// Entries of pagemap, or pages of memory, that are read at a time.
const BATCH_PAGES: u64 = 1 << 14;
const READ_PAGES: u64 = 256;
/// Areas with more pages than this are not looked into (1TB).
const MOST_AREA_PAGES: u64 = 1 << 28;
/// Largest aligned run that is told apart: 2^9 pages are 2MB.
const MOST_ORDER: u32 = 9;
/// Bits of an entry of pagemap (Linux: Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// Bits of kpageflags: a part of a large folio, merged.
const THP: u64 = 1 << 22;
const KSM: u64 = 1 << 21;

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

/// One area; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessArea {
    /// First address.
    pub start: String,
    /// Address after the last.
    pub end: String,
    /// As in maps.
    pub permissions: String,
    /// The file, `[heap]`, or nothing.
    pub name: String,
    /// Sizes.
    #[serde(flatten)]
    pub totals: ProcessTotals,
}

/// Sizes of an area or of all, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessTotals {
    /// Address space.
    pub mapped_bytes: u64,
    /// In memory.
    pub resident_bytes: u64,
    /// Of these, anonymous.
    pub anonymous_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// Mapped by entries of 2MB or more, as the kernel counts.
    pub large_bytes: u64,
    /// Resident memory by the largest aligned run of consecutive frames it lies in; absent where
    /// frames are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<BTreeMap<String, u64>>,
    /// In large folios, if flags of frames may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio_bytes: Option<u64>,
    /// Merged by KSM, if flags of frames may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_bytes: Option<u64>,
}

/// What is on the pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessContents {
    /// Pages read.
    pub pages_read: u64,
    /// Resident pages that could not be.
    pub pages_unreadable: u64,
    /// Pages of zeros.
    pub zero_pages: u64,
    /// Other pages whose content another page has too.
    pub duplicate_pages: u64,
    /// Contents of these.
    pub distinct_duplicates: u64,
    /// Copies of the most frequent of them.
    pub most_copies: u64,
    /// Pages that need no frame if every content has one.
    pub savable_pages: u64,
    /// One content in so many was kept; figures are estimates above 1.
    pub sampled_one_in: u64,
    /// The same as an option of simulations: `--contents`.
    pub spec: String,
}

/// A process's memory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessSnapshot {
    /// `process`.
    pub snapshot: &'static str,
    /// The process.
    pub pid: u32,
    /// Its name.
    pub program: String,
    /// What could not be read, and what that means.
    pub missing: Vec<String>,
    /// What else must be known.
    pub notes: Vec<String>,
    /// All areas, lowest first.
    pub areas: Vec<ProcessArea>,
    /// All areas together.
    pub totals: ProcessTotals,
    /// What is on the pages, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<ProcessContents>,
    /// The same of the memory of the virtual machine that the process runs, if it runs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_contents: Option<ProcessContents>,
    /// Version of the program.
    pub version: &'static str,
}

/// Looks at a process; `progress` hears of the bytes done and how many there are. The contents of its
/// pages come besides, if they were read.
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
    let mut reader = Reader {
        pagemap: open(&folder.join("pagemap"), "which pages are resident is unknown", &mut missing),
        flags: open(
            &options.proc.join("kpageflags"),
            "folios and merged pages cannot be told",
            &mut missing,
        ),
        memory: options
            .contents
            .then(|| open(&folder.join("mem"), "contents are unknown", &mut missing))
            .flatten(),
        has_frames: false,
        batch: Vec::new(),
        unreadable: 0,
        too_large: 0,
    };
    let guest = runs_virtual_machine(&folder).then(|| largest(&areas)).flatten();
    let total = areas.iter().map(|area| area.resident_bytes).fold(0, u64::saturating_add);
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
    if reader.pagemap.is_some() && !has_frames {
        missing.push("frames are hidden (from all but root): real page sizes are unknown".into());
    }
    let totals = sum(&mut made, has_frames, reader.flags.is_some() && has_frames);
    let mut notes = Vec::new();
    if reader.too_large > 0 {
        notes.push(format!("{} areas of more than 1TB were not looked into", reader.too_large));
    }
    let unreadable = reader.unreadable;
    let contents = reader.memory.is_some().then(|| summary(&all, unreadable));
    let guest_contents = of_guest.filter(|_| contents.is_some()).map(|of| summary(&of, 0));
    notes.extend(guest.map(|place| guest_note(&made[place], guest_contents.as_ref())));
    let snapshot = ProcessSnapshot {
        snapshot: "process",
        pid: options.pid,
        program: text(&folder.join("comm")).unwrap_or_default().trim().chars().take(64).collect(),
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
    let content = text(&smaps).or_else(|_| text(&folder.join("maps"))).map_err(failed)?;
    let (areas, has_sizes) = areas(&content);
    if areas.is_empty() {
        let problem = "no areas: expected the maps of a process (kernel threads have none)";
        return Err(wrong(&smaps, problem));
    }
    Ok((areas, has_sizes))
}

fn open(path: &Path, without: &str, missing: &mut Vec<String>) -> Option<File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    File::open(path).map_err(|error| missing.push(format!("{name}: {error}; {without}"))).ok()
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

fn guest_note(area: &ProcessArea, contents: Option<&ProcessContents>) -> String {
    let start = format!(
        "the process runs a virtual machine; its memory is taken to be the area at {}",
        area.start
    );
    match contents {
        Some(found) if found.pages_read > 0 => {
            let share = |pages: u64| 100.0 * pages as f64 / found.pages_read as f64;
            format!(
                "{start}: of {} pages read there {:.1} % are zero, {:.1} % have the content of \
                 another, and merging would save {:.1} %",
                found.pages_read,
                share(found.zero_pages),
                share(found.duplicate_pages),
                share(found.savable_pages)
            )
        }
        _ => start,
    }
}

fn summary(contents: &PageContents, unreadable: u64) -> ProcessContents {
    let (duplicates, distinct, most) = contents.duplicates();
    let (pages, zero) = (contents.pages(), contents.zero_pages());
    let percent = |part: u64| (1000.0 * part as f64 / pages.max(1) as f64).floor() / 10.0;
    ProcessContents {
        pages_read: pages,
        pages_unreadable: unreadable,
        zero_pages: zero,
        duplicate_pages: duplicates,
        distinct_duplicates: distinct,
        most_copies: most,
        savable_pages: zero.saturating_sub(1) + duplicates.saturating_sub(distinct),
        sampled_one_in: contents.sampled_one_in(),
        spec: match distinct {
            0 => format!("zero={}%", percent(zero)),
            _ => format!(
                "zero={}%,duplicate={}%,distinct={distinct}",
                percent(zero),
                percent(duplicates.min(pages - zero))
            ),
        },
    }
}

/// Adds up all areas; drops figures that could not be had.
fn sum(areas: &mut [ProcessArea], has_frames: bool, has_flags: bool) -> ProcessTotals {
    let mut all = ProcessTotals::default();
    for totals in areas.iter_mut().map(|area| &mut area.totals) {
        // Whatever the file claims: areas may overlap in a file that Linux has not written.
        for (sum, bytes) in [
            (&mut all.mapped_bytes, totals.mapped_bytes),
            (&mut all.resident_bytes, totals.resident_bytes),
            (&mut all.anonymous_bytes, totals.anonymous_bytes),
            (&mut all.swapped_bytes, totals.swapped_bytes),
            (&mut all.large_bytes, totals.large_bytes),
        ] {
            *sum = sum.saturating_add(bytes);
        }
        totals.sizes = totals.sizes.take().filter(|_| has_frames);
        totals.folio_bytes = totals.folio_bytes.filter(|_| has_flags);
        totals.merged_bytes = totals.merged_bytes.filter(|_| has_flags);
        for (label, bytes) in totals.sizes.iter().flatten() {
            *all.sizes.get_or_insert_default().entry(label.clone()).or_default() += bytes;
        }
        let add =
            |sum: Option<u64>, more: Option<u64>| more.map(|more| sum.unwrap_or(0) + more).or(sum);
        all.folio_bytes = add(all.folio_bytes, totals.folio_bytes);
        all.merged_bytes = add(all.merged_bytes, totals.merged_bytes);
    }
    all
}

/// The files with an entry for each page or frame.
struct Reader {
    pagemap: Option<File>,
    flags: Option<File>,
    memory: Option<File>,
    /// Whether any entry named its frame.
    has_frames: bool,
    batch: Vec<u8>,
    unreadable: u64,
    too_large: u64,
}

/// Resident pages in a row.
struct RunOfPages {
    page: u64,
    frame: u64,
    pages: u64,
}

impl Reader {
    fn look_into(
        &mut self,
        area: &Area,
        has_sizes: bool,
        contents: &mut [&mut PageContents],
    ) -> ProcessArea {
        let mut totals = ProcessTotals {
            mapped_bytes: area.range.end - area.range.start,
            resident_bytes: area.resident_bytes.saturating_add(area.hugetlb_bytes),
            anonymous_bytes: area.anonymous_bytes,
            swapped_bytes: area.swapped_bytes,
            large_bytes: area.large_bytes,
            ..ProcessTotals::default()
        };
        let pages = area.range.start / PAGE_BYTES..area.range.end / PAGE_BYTES;
        if pages.end - pages.start > MOST_AREA_PAGES {
            self.too_large += 1;
        } else if !has_sizes || totals.resident_bytes > 0 {
            let mut sizes = BTreeMap::new();
            let mut resident = 0;
            let (mut folios, mut merged) = (0, 0);
            self.each_run(pages, &mut |reader, run| {
                resident += run.pages * PAGE_BYTES;
                if run.frame != 0 {
                    reader.has_frames = true;
                    add_aligned(run, &mut sizes);
                    let (of_folios, of_merged) = reader.flags_of(run);
                    folios += of_folios * PAGE_BYTES;
                    merged += of_merged * PAGE_BYTES;
                }
                if area.is_memory() {
                    reader.read_pages(run, contents);
                }
            });
            if !has_sizes {
                totals.resident_bytes = resident;
            }
            totals.sizes = Some(sizes);
            (totals.folio_bytes, totals.merged_bytes) = (Some(folios), Some(merged));
        }
        ProcessArea {
            start: format!("{:#x}", area.range.start),
            end: format!("{:#x}", area.range.end),
            permissions: area.permissions.clone(),
            name: area.name.clone(),
            totals,
        }
    }

    /// Calls `act` with every run of resident pages in consecutive frames.
    fn each_run(&mut self, pages: Range<u64>, act: &mut dyn FnMut(&mut Self, &RunOfPages)) {
        let mut open: Option<RunOfPages> = None;
        let mut page = pages.start;
        while page < pages.end {
            let count = BATCH_PAGES.min(pages.end - page);
            let mut entries = vec![0; 8 * count as usize];
            let Some(pagemap) = &self.pagemap else { return };
            let Ok(read) = pagemap.read_at(&mut entries, 8 * page) else { break };
            let (read, _) = entries[..read].as_chunks::<8>();
            for (page, entry) in (page..).zip(read) {
                let entry = u64::from_le_bytes(*entry);
                if entry & PRESENT == 0 {
                    continue;
                }
                let frame = entry & FRAME;
                match &mut open {
                    Some(run)
                        if run.page + run.pages == page
                            && (frame == 0) == (run.frame == 0)
                            && (frame == 0 || run.frame + run.pages == frame) =>
                    {
                        run.pages += 1;
                    }
                    _ => {
                        if let Some(run) = open.replace(RunOfPages { page, frame, pages: 1 }) {
                            act(self, &run);
                        }
                    }
                }
            }
            if read.is_empty() {
                break;
            }
            page += read.len() as u64;
        }
        if let Some(run) = open {
            act(self, &run);
        }
    }

    /// How many frames of a run are parts of large folios, and how many are merged.
    fn flags_of(&self, run: &RunOfPages) -> (u64, u64) {
        let Some(flags) = &self.flags else { return (0, 0) };
        let (mut folios, mut merged, mut done) = (0, 0, 0);
        while done < run.pages {
            let count = BATCH_PAGES.min(run.pages - done);
            let mut entries = vec![0; 8 * count as usize];
            let Ok(read) = flags.read_at(&mut entries, 8 * (run.frame + done)) else { break };
            let (read, _) = entries[..read].as_chunks::<8>();
            for flags in read.iter().map(|entry| u64::from_le_bytes(*entry)) {
                folios += u64::from(flags & THP != 0);
                merged += u64::from(flags & KSM != 0);
            }
            if read.is_empty() {
                break;
            }
            done += read.len() as u64;
        }
        (folios, merged)
    }

    /// Reads the pages of a run, as many as can be at a time, one by one where that fails.
    fn read_pages(&mut self, run: &RunOfPages, contents: &mut [&mut PageContents]) {
        let Some(memory) = &self.memory else { return };
        let mut next = run.page;
        let end = run.page + run.pages;
        let mut width = READ_PAGES;
        self.batch.resize((READ_PAGES * PAGE_BYTES) as usize, 0);
        while next < end {
            let wanted = (width.min(end - next) * PAGE_BYTES) as usize;
            let read = memory.read_at(&mut self.batch[..wanted], next * PAGE_BYTES).unwrap_or(0);
            let (pages, _) = self.batch[..read].as_chunks::<{ PAGE_BYTES as usize }>();
            for page in pages {
                contents.iter_mut().for_each(|contents| contents.add(page));
            }
            next += pages.len() as u64;
            if pages.is_empty() {
                if width == 1 {
                    self.unreadable += 1;
                    next += 1;
                }
                width = 1;
            }
        }
    }
}

/// Cuts a run into the largest pieces that are aligned in both addresses and frames, and counts the
/// bytes of each size.
fn add_aligned(run: &RunOfPages, sizes: &mut BTreeMap<String, u64>) {
    let mut done = 0;
    while done < run.pages {
        let (page, frame) = (run.page + done, run.frame + done);
        let aligned = page.trailing_zeros().min(frame.trailing_zeros());
        let order = aligned.min((run.pages - done).ilog2()).min(MOST_ORDER);
        *sizes.entry(label(order)).or_default() += PAGE_BYTES << order;
        done += 1 << order;
    }
}

fn label(order: u32) -> String {
    match 4_u64 << order {
        kilobytes @ ..1024 => format!("{kilobytes}K"),
        kilobytes => format!("{}M", kilobytes >> 10),
    }
}

#[cfg(test)]
mod tests;
