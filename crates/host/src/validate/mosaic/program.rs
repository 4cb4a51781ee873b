//! Programs with layouts: sizes of their pools, the pages that they obtain, and their times.

use std::ffi::OsString;
use std::ops::Range;

use perforate_record::process_memory::{PageMap, read_text};
use perforate_sim::Progress;

use super::order::{Rounds, order};
use super::{Measured, Mosaics, Pages, all_layouts};
use crate::layout::{Intervals, LARGE_BYTES, Layout, LayoutChoice, Pools, Preload};
use crate::machine::Headroom;
use crate::proc::parse_areas;
use crate::program::Start;
use crate::validate::Options;
use crate::validate::program::{remark_on_codes, remark_on_length};
use crate::validate::spread::Spread;
use crate::{HostError, Reporter};

/// Size in bytes of each memory pool in a program's first run, if the available memory is unknown.
const FIRST_POOL_BYTES: u64 = 1 << 30;
/// Free space in a pool beyond what the program was seen to use, in bytes.
const MORE_BYTES: u64 = 16 << 20;
/// Share of a program's anonymous memory that must be in its pools; below it, a note is added.
const MOSTLY_POOLED: f64 = 0.9;

/// Program to measure with several layouts, and its pools.
pub(super) struct Program<'a> {
    words: &'a [OsString],
    pub preload: Preload,
    pub pools: Pools,
    /// The layout of only 4KB pages, followed by the chosen layouts.
    pub layouts: Vec<Layout>,
    /// Largest resident memory of the program in its first run, in bytes, as sampled.
    pub resident_bytes: u64,
    notes: Vec<String>,
}

/// Memory that a program used in a trial run with large pools, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PoolUse {
    heap_bytes: u64,
    mapped_bytes: u64,
    resident_bytes: u64,
    /// Largest anonymous memory of the program. The next field is the part that lay in the pools at the same
    /// moment.
    anonymous_bytes: u64,
    pooled_bytes: u64,
}

impl<'a> Program<'a> {
    /// Runs the program once to see how much of its pools it uses, and makes the layouts.
    pub fn prepare(
        words: &'a [OsString],
        mosaics: &Mosaics,
        options: &Options,
        reporter: &mut dyn Reporter,
    ) -> Result<Self, HostError> {
        let preload = Preload::new(words)?;
        reporter.stage("looking at the program's memory", "runs");
        let found = measure_pool_use(words, &preload, options.processor)?;
        let pools = pools_for(&found, &mosaics.layouts);
        let layouts = all_layouts(&mosaics.layouts, found.heap_bytes, found.mapped_bytes);
        let notes = remark_on_pools(&found).into_iter().collect();
        let resident_bytes = found.resident_bytes;
        Ok(Self { words, preload, pools, layouts, resident_bytes, notes })
    }

    /// Parameters for starting the program with a layout.
    fn start(
        &self,
        layout: &Layout,
        options: &Options,
        reports: bool,
    ) -> Result<Start<'a>, HostError> {
        Ok(Start {
            program: self.words,
            processor: Some(options.processor),
            environment: self.preload.environment(self.pools, layout, reports)?,
            ..Start::default()
        })
    }

    /// Runs the program with all layouts and measures its times.
    pub fn measure(
        &self,
        options: &Options,
        reporter: &mut dyn Reporter,
    ) -> Result<Measured, HostError> {
        let effort = options.effort;
        let layouts = &self.layouts;
        reporter.stage("measuring the program", "runs");
        let rounds = effort.rounds * effort.blocks;
        let total = Some((u64::from(rounds) * 2 + 1) * layouts.len() as u64);
        let mut done = 0;
        let mut report_progress = || {
            done += 1;
            reporter.progress(Progress { done, total });
        };
        let mut pages = Vec::new();
        for layout in layouts {
            pages.push(self.pages(layout, options)?);
            report_progress();
        }
        let (mut times, mut codes) = (Rounds::default(), Vec::new());
        for round in 0..rounds {
            times.begin(layouts.len());
            for layout in order(round, layouts.len()) {
                let run = self.start(&layouts[layout], options, false)?.time()?;
                codes.push(run.exit_code.ok_or(HostError::ProgramKilled)?);
                times.add(layout, run.user.as_secs_f64());
                report_progress();
            }
        }
        let seconds = Spread::of(&times.seconds(0)).map_or(0.0, |spread| spread.median);
        let mut notes = self.notes.clone();
        notes.extend(remark_on_codes(&codes));
        notes.extend(remark_on_length(seconds));
        notes.push(format!(
            "{seconds:.2} s in user mode with 4KB pages, {} MB resident; pools of {} MB (brk) and {} \
             MB (mmap)",
            self.resident_bytes >> 20,
            self.pools.heap_bytes >> 20,
            self.pools.mapped_bytes >> 20
        ));
        Ok(Measured { layouts: layouts.clone(), rounds: times, pages, notes })
    }

    /// Runs the program once with a layout, and samples its page sizes meanwhile. Returns the
    /// sample with the most memory in the layout's intervals.
    fn pages(&self, layout: &Layout, options: &Options) -> Result<Pages, HostError> {
        self.preload.clear_report()?;
        let mut most = Pages::default();
        let start = self.start(layout, options, true)?;
        start.watch(|process| {
            let Ok(report) = self.preload.report() else { return };
            let pools = report.addresses(self.pools);
            let text = read_text(format!("/proc/{process}/smaps")).unwrap_or_default();
            let now = pages_in(&text, &pools, [&layout.heap, &layout.mapped]);
            if report.has_begun && now.wanted_bytes > most.wanted_bytes {
                most = now;
            }
        })?;
        let report = self.preload.report()?;
        let is_missing = self.pools.heap_bytes > 0 && report.heap_start.is_none()
            || self.pools.mapped_bytes > 0 && report.mapped_start.is_none();
        if is_missing {
            return Err(HostError::Layout(format!(
                "{}: there is no room for pools of {} MB (brk) and {} MB (mmap); expected smaller \
                 pools in the layout's file",
                self.words[0].to_string_lossy(),
                self.pools.heap_bytes >> 20,
                self.pools.mapped_bytes >> 20
            )));
        }
        Ok(most)
    }
}

/// Runs the program with pools that are certainly large enough, to see how much memory it uses.
fn measure_pool_use(
    words: &[OsString],
    preload: &Preload,
    processor: usize,
) -> Result<PoolUse, HostError> {
    let headroom = Headroom::now().map_or(FIRST_POOL_BYTES, |headroom| headroom.bytes);
    let bytes = headroom.max(MORE_BYTES) / LARGE_BYTES * LARGE_BYTES;
    let pools = Pools { heap_bytes: bytes, mapped_bytes: bytes };
    preload.clear_report()?;
    let environment = preload.environment(pools, &Layout::default(), true)?;
    let processor = Some(processor);
    let start = Start { program: words, processor, environment, ..Start::default() };
    let mut found = PoolUse::default();
    let mut samples = 0;
    start.watch(|process| {
        let Some(report) = preload.report().ok().filter(|report| report.has_begun) else { return };
        let ranges = report.addresses(pools);
        let text = read_text(format!("/proc/{process}/smaps")).unwrap_or_default();
        let (areas, _) = parse_areas(&text);
        let anonymous_bytes: u64 = areas.iter().map(|area| area.anonymous_bytes).sum();
        let pooled = areas.iter().filter(|area| {
            let range = &area.mapping.range;
            ranges.iter().flatten().any(|pool| range.start < pool.end && pool.start < range.end)
        });
        let pooled_bytes: u64 = pooled.map(|area| area.anonymous_bytes).sum();
        samples += u64::from(!areas.is_empty());
        if anonymous_bytes > found.anonymous_bytes {
            (found.anonymous_bytes, found.pooled_bytes) = (anonymous_bytes, pooled_bytes);
        }
        let resident_bytes = areas.iter().map(|area| area.resident_bytes).sum();
        found.resident_bytes = found.resident_bytes.max(resident_bytes);
        if let [Some(heap), _] = &ranges
            && let Ok(map) = PageMap::open(format!("/proc/{process}/pagemap"))
            && let Some(last) = map.existing_runs(heap).last()
        {
            found.heap_bytes = found.heap_bytes.max(last.end - heap.start);
        }
    })?;
    let report = preload.report()?;
    let name = words[0].to_string_lossy();
    if !report.has_begun {
        return Err(HostError::Layout(format!(
            "{name}: did not load the library for layouts; expected a program that the dynamic \
             linker starts, without privileges of its own (setuid)"
        )));
    }
    if report.refused > 0 {
        return Err(HostError::Layout(format!(
            "{name}: the kernel refused advice for or against 2MB pages; expected one with \
             transparent large pages (CONFIG_TRANSPARENT_HUGEPAGE)"
        )));
    }
    if samples == 0 {
        return Err(HostError::Layout(format!(
            "{name}: ended before its memory could be looked at; expected a program that runs for \
             some tenths of a second at least"
        )));
    }
    found.mapped_bytes = report.mapped_highest;
    Ok(found)
}

/// Chooses sizes of a program's pools, with room for the memory that the program used and for the
/// layouts from files. The two sizes differ, because pools are recognized by size in a recording.
fn pools_for(found: &PoolUse, choices: &[LayoutChoice]) -> Pools {
    let of_files = |pool: usize| {
        let sizes = choices.iter().map(|choice| match choice {
            LayoutChoice::File(file) => file.pool_bytes[pool],
            LayoutChoice::Shape(_) => 0,
        });
        sizes.max().unwrap_or(0)
    };
    let room = |used: u64, file: u64| match used {
        0 => 0,
        _ => (used + used / 8 + MORE_BYTES).max(file).next_multiple_of(LARGE_BYTES),
    };
    let heap_bytes = room(found.heap_bytes, of_files(0));
    let mut mapped_bytes = room(found.mapped_bytes, of_files(1));
    if mapped_bytes == heap_bytes && mapped_bytes > 0 {
        mapped_bytes += LARGE_BYTES;
    }
    Pools { heap_bytes, mapped_bytes }
}

fn remark_on_pools(found: &PoolUse) -> Option<String> {
    let share = found.pooled_bytes as f64 / found.anonymous_bytes.max(1) as f64;
    (share < MOSTLY_POOLED).then(|| {
        format!(
            "{:.0} % of the program's anonymous memory lies in the pools; the rest (threads' stacks, \
             allocators and system calls of its own) has 4KB pages in all layouts",
            100.0 * share
        )
    })
}

/// Amount of memory in the layout's intervals of 2MB pages, and its part in 2MB pages, from the
/// text of `smaps`.
fn pages_in(text: &str, pools: &[Option<Range<u64>>; 2], intervals: [&Intervals; 2]) -> Pages {
    let (areas, _) = parse_areas(text);
    let mut pages = Pages::default();
    for (pool, intervals) in pools.iter().zip(intervals) {
        let Some(pool) = pool else { continue };
        // madvise splits areas, so each area lies either inside an interval or outside of all.
        let large: Vec<Range<u64>> = intervals.iter().collect();
        for area in areas.iter().filter(|area| pool.contains(&area.mapping.range.start)) {
            let offset = area.mapping.range.start - pool.start;
            let next = large.partition_point(|part| part.end <= offset);
            if large.get(next).is_some_and(|part| part.contains(&offset)) {
                pages.wanted_bytes += area.resident_bytes;
                pages.large_bytes += area.anonymous_large_bytes;
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{LayoutFile, Shape};

    #[test]
    fn pools_have_room_and_different_sizes() {
        let found = PoolUse { heap_bytes: 64 << 20, mapped_bytes: 64 << 20, ..PoolUse::default() };
        let pools = pools_for(&found, &[LayoutChoice::Shape(Shape::AllLarge)]);
        assert_eq!(pools, Pools { heap_bytes: 88 << 20, mapped_bytes: 90 << 20 });
        let file = LayoutFile { pool_bytes: [1 << 30, 1 << 20], ..LayoutFile::default() };
        let pools = pools_for(&found, &[LayoutChoice::File(file)]);
        assert_eq!(pools, Pools { heap_bytes: 1 << 30, mapped_bytes: 88 << 20 });
        let none = PoolUse { mapped_bytes: 0, ..found };
        assert_eq!(pools_for(&none, &[]).mapped_bytes, 0, "what is not used needs no pool");
    }

    #[test]
    fn pages_of_the_intervals_are_counted() {
        let text = "\
10000000-10400000 rw-p 0 00:00 0 [heap]\nRss: 4096 kB\nAnonHugePages: 2048 kB\n\
10400000-10800000 rw-p 0 00:00 0 [heap]\nRss: 4096 kB\nAnonHugePages: 0 kB\n\
7f0000000000-7f0000200000 rw-p 0 00:00 0\nRss: 2048 kB\nAnonHugePages: 2048 kB\n\
7f1000000000-7f1000200000 rw-p 0 00:00 0\nRss: 2048 kB\nAnonHugePages: 2048 kB\n";
        let pools = [Some(0x1000_0000..0x1080_0000), Some(0x7f00_0000_0000..0x7f00_0020_0000)];
        let (heap, mapped) = (Intervals::of_pages(0..2), Intervals::of_pages(0..1));
        let pages = pages_in(text, &pools, [&heap, &mapped]);
        assert_eq!(pages, Pages { wanted_bytes: 6 << 20, large_bytes: 4 << 20 });
        assert_eq!(pages_in(text, &pools, [&heap, &Intervals::NONE]).obtained(), Some(0.5));
        assert_eq!(pages_in(text, &[None, None], [&heap, &mapped]).obtained(), None);
    }

    #[test]
    fn a_small_pooled_share_is_noted() {
        let found = PoolUse { anonymous_bytes: 100, pooled_bytes: 30, ..PoolUse::default() };
        assert!(remark_on_pools(&found).unwrap().starts_with("30 % of the program's"));
        assert_eq!(remark_on_pools(&PoolUse { pooled_bytes: 95, ..found }), None);
    }
}
