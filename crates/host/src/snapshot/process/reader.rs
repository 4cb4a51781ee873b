//! Reader of the pages of mappings, from `pagemap`, `kpageflags` and `mem`.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use perforate_config::Size;
use perforate_record::process_memory::{Mapping, PAGE_BYTES, PageEntry, PageMap, Table, frame};
use perforate_records::{ProcessArea, ProcessTotals};

use super::ProcessOptions;
use crate::proc::{MappedArea, PageFlags};
use crate::snapshot::PageContents;

/// Number of pages in one read from the file `mem`.
const READ_PAGES: u64 = 256;
/// Size in bytes above which a mapping is not examined.
const MAX_AREA_BYTES: u64 = 1 << 40;
/// Buddy order of the largest aligned runs that are counted: 2^9 pages are 2MB.
const MAX_ORDER: u32 = 9;

/// Reader of a process's pages: tables with one entry per page or frame, and the process's memory.
pub(super) struct Reader {
    /// Table of the process's pages with their frames, if readable.
    pub(super) pagemap: Option<PageMap>,
    /// Table of the flags of frames, if readable.
    pub(super) flags: Option<Table>,
    /// Memory of the process for reading contents, if requested and readable.
    pub(super) memory: Option<File>,
    /// True once an entry of `pagemap` showed a frame number, so that frame numbers are not hidden.
    pub(super) has_frames: bool,
    batch: Vec<u8>,
    /// Number of resident pages whose contents could not be read.
    pub(super) unreadable: u64,
    /// Number of mappings larger than [`MAX_AREA_BYTES`].
    pub(super) too_large: u64,
}

/// Run of consecutive resident pages in consecutive frames.
struct RunOfPages {
    page: u64,
    frame: u64,
    pages: u64,
}

impl RunOfPages {
    /// True if this page, in this frame, continues the run. Hidden frame numbers are all 0.
    fn continues_with(&self, page: u64, frame: u64) -> bool {
        let next = if self.frame == 0 { 0 } else { self.frame + self.pages };
        self.page + self.pages == page && frame == next
    }
}

impl Reader {
    /// Opens the process's readable files. Adds notes on unreadable files to `missing`, with the
    /// consequences.
    pub(super) fn open(options: &ProcessOptions, folder: &Path, missing: &mut Vec<String>) -> Self {
        let mut opened = |path: PathBuf, without: &str| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let failed = |error| missing.push(format!("{name}: {error}; {without}"));
            File::open(&path).map_err(failed).ok()
        };
        let pagemap = opened(folder.join("pagemap"), "which pages are resident is unknown");
        let flags =
            opened(options.proc.join("kpageflags"), "folios and merged pages cannot be told");
        let memory = options.contents.then(|| opened(folder.join("mem"), "contents are unknown"));
        Self {
            pagemap: pagemap.map(PageMap::new),
            flags: flags.map(Table::new),
            memory: memory.flatten(),
            has_frames: false,
            batch: Vec::new(),
            unreadable: 0,
            too_large: 0,
        }
    }

    /// Examines the pages of a mapping. Adds the contents of its pages to each of `contents`.
    pub(super) fn examine(
        &mut self,
        area: &MappedArea,
        has_sizes: bool,
        contents: &mut [&mut PageContents],
    ) -> ProcessArea {
        let Mapping { range: addresses, permissions, name, .. } = &area.mapping;
        let mut totals = ProcessTotals {
            mapped_bytes: addresses.end - addresses.start,
            resident_bytes: area.resident_bytes.saturating_add(area.hugetlb_bytes),
            anonymous_bytes: area.anonymous_bytes,
            swapped_bytes: area.swapped_bytes,
            large_bytes: area.large_bytes,
            ..ProcessTotals::default()
        };
        if totals.mapped_bytes > MAX_AREA_BYTES {
            self.too_large += 1;
        } else if !has_sizes || totals.resident_bytes > 0 {
            let mut sizes = BTreeMap::new();
            let mut resident = 0;
            let (mut folios, mut merged) = (0, 0);
            self.each_run(addresses, &mut |reader, run| {
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
            start: format!("{:#x}", addresses.start),
            end: format!("{:#x}", addresses.end),
            permissions: permissions.clone(),
            name: name.clone(),
            totals,
        }
    }

    /// Calls `act` with every run of resident pages in an address range.
    fn each_run(&mut self, addresses: &Range<u64>, act: &mut dyn FnMut(&mut Self, &RunOfPages)) {
        let Some(pagemap) = self.pagemap.take() else { return };
        let mut open: Option<RunOfPages> = None;
        // Errors are ignored: pages that disappear meanwhile are skipped.
        let _ = pagemap.for_each(addresses, |page, entry| {
            if !entry.contains(PageEntry::PRESENT) {
                return;
            }
            let frame = frame(entry);
            match &mut open {
                Some(run) if run.continues_with(page, frame) => run.pages += 1,
                _ => {
                    if let Some(run) = open.replace(RunOfPages { page, frame, pages: 1 }) {
                        act(self, &run);
                    }
                }
            }
        });
        if let Some(run) = open {
            act(self, &run);
        }
        self.pagemap = Some(pagemap);
    }

    /// Number of the run's frames in large folios, and number of its frames that KSM merged.
    fn flags_of(&self, run: &RunOfPages) -> (u64, u64) {
        let Some(flags) = &self.flags else { return (0, 0) };
        let (mut folios, mut merged) = (0, 0);
        // Errors are ignored: a copy of the table may be too short.
        let _ = flags.for_each(run.frame..run.frame + run.pages, |_, entry| {
            let flags = PageFlags::from_bits_retain(entry);
            folios += u64::from(flags.contains(PageFlags::THP));
            merged += u64::from(flags.contains(PageFlags::KSM));
        });
        (folios, merged)
    }

    /// Reads the contents of a run's pages in batches. A read ends before the first page that cannot be read.
    fn read_pages(&mut self, run: &RunOfPages, contents: &mut [&mut PageContents]) {
        let Some(memory) = &self.memory else { return };
        let mut next = run.page;
        let end = run.page + run.pages;
        self.batch.resize((READ_PAGES * PAGE_BYTES) as usize, 0);
        while next < end {
            let wanted = (READ_PAGES.min(end - next) * PAGE_BYTES) as usize;
            let read = memory.read_at(&mut self.batch[..wanted], next * PAGE_BYTES).unwrap_or(0);
            let (pages, _) = self.batch[..read].as_chunks::<{ PAGE_BYTES as usize }>();
            for page in pages {
                contents.iter_mut().for_each(|contents| contents.add(page));
            }
            next += pages.len() as u64;
            if pages.is_empty() {
                self.unreadable += 1;
                next += 1;
            }
        }
    }
}

/// Splits a run into the largest blocks that are aligned in both page and frame numbers. Adds the bytes of
/// each block to the entry of `sizes` for the block's size.
fn add_aligned(run: &RunOfPages, sizes: &mut BTreeMap<String, u64>) {
    let mut done = 0;
    while done < run.pages {
        let (page, frame) = (run.page + done, run.frame + done);
        let aligned = page.trailing_zeros().min(frame.trailing_zeros());
        let order = aligned.min((run.pages - done).ilog2()).min(MAX_ORDER);
        let bytes = PAGE_BYTES << order;
        *sizes.entry(Size(bytes).to_string()).or_default() += bytes;
        done += 1 << order;
    }
}
