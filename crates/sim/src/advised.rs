//! Programs that request large pages for ranges of their addresses, as a user advises.
//!
//! Following such advice means to call `madvise(MADV_HUGEPAGE)` as soon as memory is mapped, before its
//! first touch. So the request follows each event that maps memory in one of the ranges. Which pages it
//! leads to is up to the scheme, for example `thp-madvise`. A range may want pages of another size, which take
//! settings of the machine besides, or a reserve: `START-END=64K`.
//!
//! The heap grows in steps of 132KB, and a first touch gets a 2MB page only if all of its block is mapped. So
//! glibc rounds the end of an advised heap up to 2MB (`sysmalloc` in malloc/malloc.c, where
//! `mp_.thp_pagesize` is not 0: with `glibc.malloc.hugetlb=1`), and so do programs here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use perforate_config::{Address, ConfigError, Size};
use perforate_os::FolioSizes;
use perforate_trace::{Source, SourceMetadata, TraceError, Truncation};
use perforate_types::{Advice, Chunk, ProcessId, ProgramEvent, VirtualAddress};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Step in which an advised heap grows, in bytes.
const HEAP_STEP: u64 = 2 << 20;
/// Order of the pages of MADV_HUGEPAGE, 2MB, and of 1GB pages.
const LARGE: u8 = 9;
const HUGE: u8 = 18;
/// Form of a range, for messages.
const EXPECTED: &str = "expected START-END, such as 0x7f0000000000-0x7f0000200000";

/// Sizes of pages, for messages.
const SIZES: &str = "expected a size of pages: 16K to 1M in powers of two, 2M or 1G";

/// Ranges of addresses for which a program requests large pages (MADV_HUGEPAGE), in order of process and
/// address and without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdvisedRanges(Vec<AdvisedRange>);

/// Range of addresses of one process for which large pages are requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvisedRange {
    /// Process that requests large pages.
    pub process: ProcessId,
    /// Addresses in bytes, multiples of 4096.
    pub bytes: Range<u64>,
    /// Size of the pages as an order: 2ⁿ × 4KB.
    pub order: u8,
}

impl AdvisedRanges {
    /// Makes a list from ranges in any order. Ranges with pages of one size that overlap or touch become one; where
    /// sizes differ, the range that begins first has the common part.
    pub fn new(mut ranges: Vec<AdvisedRange>) -> Self {
        ranges.retain(|range| !range.bytes.is_empty());
        ranges.sort_by_key(|range| (range.process, range.bytes.start));
        let mut merged: Vec<AdvisedRange> = Vec::new();
        for mut range in ranges {
            match merged.last_mut() {
                Some(last)
                    if (last.process, last.order) == (range.process, range.order)
                        && range.bytes.start <= last.bytes.end =>
                {
                    last.bytes.end = last.bytes.end.max(range.bytes.end);
                }
                Some(last) if last.process == range.process => {
                    range.bytes.start = range.bytes.start.max(last.bytes.end);
                    if !range.bytes.is_empty() {
                        merged.push(range);
                    }
                }
                _ => merged.push(range),
            }
        }
        Self(merged)
    }

    /// Returns the ranges in order of process and address.
    pub fn ranges(&self) -> &[AdvisedRange] {
        &self.0
    }

    /// True if there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sum of the lengths of all ranges in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.bytes.end - range.bytes.start).sum()
    }

    /// Returns the parts of `bytes` of one process that lie in the ranges, each with the order of its pages.
    fn parts(
        &self,
        process: ProcessId,
        bytes: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, u8)> {
        let first = self
            .0
            .partition_point(|range| (range.process, range.bytes.end) <= (process, bytes.start));
        let is_within =
            move |range: &&AdvisedRange| range.process == process && range.bytes.start < bytes.end;
        let Range { start, end } = bytes;
        self.0[first..]
            .iter()
            .take_while(is_within)
            .map(move |range| (range.bytes.start.max(start)..range.bytes.end.min(end), range.order))
            .filter(|(part, _)| !part.is_empty())
    }

    /// Reads ranges from lines of a file, one `START-END` a line; `#` starts a comment.
    fn from_lines(text: &str) -> Result<Self, ConfigError> {
        let mut ranges = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default().trim();
            if !content.is_empty() {
                let range = content.parse();
                let problem = |error| ConfigError::new(format!("line {line}: {error}"));
                ranges.push(range.map_err(problem)?);
            }
        }
        Ok(Self::new(ranges))
    }
}

impl FromStr for AdvisedRange {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = |problem: &str| ConfigError::new(format!("{text:?}: {problem}"));
        let (process, addresses) = match text.split_once(':') {
            None => (ProcessId(0), text),
            Some((process, addresses)) => {
                let number = process.trim().parse();
                let problem = "expected PROCESS:START-END with the number of a process";
                (ProcessId(number.map_err(|_| wrong(problem))?), addresses)
            }
        };
        let (addresses, order) = match addresses.split_once('=') {
            None => (addresses, LARGE),
            Some((addresses, size)) => (addresses, order_of(size).ok_or_else(|| wrong(SIZES))?),
        };
        let (start, end) = addresses.split_once('-').ok_or_else(|| wrong(EXPECTED))?;
        let address = |text: &str| match text.parse() {
            Ok(Address(address)) if address % 4096 == 0 => Ok(address),
            Ok(_) => Err(wrong("expected multiples of 4096, as madvise does")),
            Err(_) => Err(wrong(EXPECTED)),
        };
        let bytes = address(start)?..address(end)?;
        if bytes.is_empty() {
            return Err(wrong("the end is not after the start"));
        }
        Ok(Self { process, bytes, order })
    }
}

/// Order of the pages of a size that a program can have in parts of its memory: a folio's, 2MB, or 1GB.
fn order_of(size: &str) -> Option<u8> {
    let bytes = perforate_config::read::<Size>(size.trim()).ok()?.bytes();
    let folios = FolioSizes::ORDERS.map(|order| order as u8);
    folios.chain([LARGE, HUGE]).find(|order| 4096 << order == bytes)
}

impl FromStr for AdvisedRanges {
    type Err = ConfigError;

    /// Reads ranges with commas between them, or the path of a file with one range a line.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if std::path::Path::new(text).exists() {
            let lines = perforate_config::read_text(text);
            let lines = lines.map_err(|error| ConfigError::new(format!("{text}: {error}")))?;
            let ranges = Self::from_lines(&lines);
            return ranges.map_err(|error| ConfigError::new(format!("{text}: {error}")));
        }
        let ranges: Result<Vec<AdvisedRange>, _> =
            text.split(',').map(|range| range.trim().parse()).collect();
        let or_file = |error| ConfigError::new(format!("{error}; or a file with one range a line"));
        ranges.map(Self::new).map_err(or_file)
    }
}

impl fmt::Display for AdvisedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, bytes, order } = self;
        if process.0 > 0 {
            write!(f, "{}:", process.0)?;
        }
        write!(f, "{:#x}-{:#x}", bytes.start, bytes.end)?;
        if *order == LARGE { Ok(()) } else { write!(f, "={}", Size(4096 << order)) }
    }
}

impl fmt::Display for AdvisedRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.0.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}{range}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for AdvisedRanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for AdvisedRanges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Source whose program requests large pages for ranges of its memory as soon as it is mapped.
pub(crate) struct Advised<S> {
    source: S,
    metadata: SourceMetadata,
    ranges: AdvisedRanges,
    /// Process to which the next events belong.
    running: ProcessId,
    /// Starts of the mappings that each process has made, in bytes.
    mapped: BTreeMap<ProcessId, BTreeSet<u64>>,
    /// Address after the heap of each process.
    heap_ends: BTreeMap<ProcessId, u64>,
    /// Events of the chunk that is being filled, each with its position in the chunk.
    events: Vec<(u32, ProgramEvent)>,
}

impl<S: Source> Advised<S> {
    /// Adds requests for large pages in `ranges` to the requests of `source`.
    ///
    /// # Errors
    /// If the source has no mapping events, after which they would come.
    pub(crate) fn new(source: S, ranges: AdvisedRanges) -> Result<Self, ConfigError> {
        let mut metadata = source.metadata().clone();
        if !metadata.has_events {
            let problem = format!(
                "{} does not say what memory the program maps; expected a trace by perforate record",
                metadata.name
            );
            return Err(ConfigError::new(problem).under("madvise"));
        }
        let number = match ranges.ranges() {
            [range] => range.to_string(),
            all => format!("{} ranges", all.len()),
        };
        metadata.assumptions.push(format!(
            "the program is changed: it requests large pages (MADV_HUGEPAGE) for {number} of addresses \
             as soon as memory is mapped there (--madvise)"
        ));
        let (running, events) = (ProcessId::default(), Vec::new());
        let (mapped, heap_ends) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { source, metadata, ranges, running, mapped, heap_ends, events })
    }

    /// Ends a heap whose end is advised at a multiple of 2MB, but not inside another mapping. Returns the
    /// addresses by which the heap grows.
    fn grow_heap(&mut self, start: u64, end: &mut VirtualAddress) -> Range<u64> {
        let asked = end.value();
        let last = self.ranges.parts(self.running, start..asked).last();
        if last.is_some_and(|(part, _)| part.end == asked) {
            let starts = self.mapped.get(&self.running);
            let above = starts.and_then(|starts| starts.range(asked..).next());
            let limit = above.copied().unwrap_or(u64::MAX);
            *end = VirtualAddress::new(asked.next_multiple_of(HEAP_STEP).min(limit));
        }
        let before = self.heap_ends.insert(self.running, end.value()).unwrap_or(start);
        before.clamp(start, end.value().max(start))..end.value()
    }

    /// Passes an event on, and the requests that follow it.
    fn push(&mut self, at: u32, mut event: ProgramEvent) {
        let asked = match &event {
            ProgramEvent::Brk { end, .. } => Some(end.value()),
            _ => None,
        };
        let starts = self.mapped.entry(self.running).or_default();
        let mapped = match &mut event {
            ProgramEvent::Map { start, length, .. } => {
                starts.insert(start.value());
                pages(start.value(), *length)
            }
            ProgramEvent::Brk { start, end } => self.grow_heap(start.value(), end),
            ProgramEvent::Remap { to, to_length, .. } => {
                starts.insert(to.value());
                pages(to.value(), *to_length)
            }
            ProgramEvent::Fork { child } => {
                let inherited = starts.clone();
                self.mapped.insert(*child, inherited);
                if let Some(&end) = self.heap_ends.get(&self.running) {
                    self.heap_ends.insert(*child, end);
                }
                0..0
            }
            ProgramEvent::Exec => {
                self.heap_ends.remove(&self.running);
                0..0
            }
            ProgramEvent::Switch { process, .. } => {
                self.running = *process;
                0..0
            }
            _ => 0..0,
        };
        let mut advised: Vec<_> = self.ranges.parts(self.running, mapped.clone()).collect();
        if let Some((last, _)) =
            advised.last_mut().filter(|(last, _)| asked.is_some_and(|asked| last.end >= asked))
        {
            // An advised heap is advised up to the end to which it was rounded up.
            last.end = mapped.end;
        }
        // Memory that mmap populates has its pages before a request can come.
        let populated = if advised.is_empty() { None } else { without_populating(&mut event) };
        self.events.push((at, event));
        let advise = |Range { start, end }, advice| ProgramEvent::Advise {
            start: VirtualAddress::new(start),
            length: end - start,
            advice,
        };
        let requests = advised.into_iter().map(|(part, order)| match order {
            LARGE => advise(part, Advice::HugePage),
            order => advise(part, Advice::PageSize(order)),
        });
        let requests = requests.chain(populated.map(|advice| advise(mapped, advice)));
        self.events.extend(requests.map(|request| (at, request)));
    }
}

/// Changes a mapping that the kernel populates to one that it does not populate. Returns the advice that
/// populates it later; `None` for other events, and for memory that cannot be accessed.
fn without_populating(event: &mut ProgramEvent) -> Option<Advice> {
    let ProgramEvent::Map { populate: populate @ true, permissions, accessible: true, .. } = event
    else {
        return None;
    };
    *populate = false;
    Some(if permissions.write { Advice::POPULATE_WRITE } else { Advice::POPULATE_READ })
}

/// Returns the addresses of the whole pages from `start`.
fn pages(start: u64, length: u64) -> Range<u64> {
    start..start.saturating_add(length.saturating_add(4095) & !4095)
}

impl<S: Source> Source for Advised<S> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let more = self.source.next_chunk(chunk)?;
        for (at, event) in std::mem::take(&mut chunk.events) {
            self.push(at, event);
        }
        chunk.events.append(&mut self.events);
        Ok(more)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        self.source.skip(instructions)
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.source.truncated()
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Backing, Permissions, ThreadId};

    use super::*;

    /// Source of events only.
    struct Events(SourceMetadata, Vec<ProgramEvent>);

    impl Source for Events {
        fn metadata(&self) -> &SourceMetadata {
            &self.0
        }

        fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
            chunk.clear();
            chunk.events.extend(self.1.drain(..).map(|event| (0, event)));
            Ok(!chunk.events.is_empty())
        }

        fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
            Ok(0)
        }
    }

    /// Returns the events of a program that follows this advice.
    fn advised(ranges: &str, events: &[ProgramEvent]) -> Vec<ProgramEvent> {
        let metadata = SourceMetadata { has_events: true, ..SourceMetadata::default() };
        let source = Events(metadata, events.to_vec());
        let mut source = Advised::new(source, ranges.parse().unwrap()).unwrap();
        let mut chunk = Chunk::default();
        assert!(source.next_chunk(&mut chunk).unwrap());
        chunk.events.into_iter().map(|(_, event)| event).collect()
    }

    fn map(start: u64, length: u64, populate: bool) -> ProgramEvent {
        ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate,
        }
    }

    fn advise(start: u64, length: u64, advice: Advice) -> ProgramEvent {
        ProgramEvent::Advise { start: VirtualAddress::new(start), length, advice }
    }

    #[test]
    fn a_request_follows_what_maps_memory_in_a_range() {
        let unmap = ProgramEvent::Unmap { start: VirtualAddress::new(0x10000), length: 0x10000 };
        let remap = ProgramEvent::Remap {
            from: VirtualAddress::new(0x40000),
            from_length: 0x4000,
            to: VirtualAddress::new(0x1e000),
            to_length: 0x8000,
        };
        let heap = VirtualAddress::new(0x8000);
        let brk = ProgramEvent::Brk { start: heap, end: VirtualAddress::new(0x13000) };
        let (before, across) = (map(0x1000, 0xf000, false), map(0x1c000, 0x2001, false));
        let events = [before.clone(), across.clone(), unmap.clone(), remap.clone(), brk.clone()];
        let found = advised("0x10000-0x1d000,0x20000-0x30000", &events);
        let huge = |start, length| advise(start, length, Advice::HugePage);
        let expected = [
            before,
            across,
            huge(0x1c000, 0x1000),
            unmap,
            remap,
            huge(0x20000, 0x6000),
            // The heap grows to the next mapping.
            ProgramEvent::Brk { start: heap, end: VirtualAddress::new(0x1c000) },
            huge(0x10000, 0xc000),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_advised_heap_grows_in_steps_of_2mb() {
        const MB: u64 = 1 << 20;
        let brk = |end| ProgramEvent::Brk {
            start: VirtualAddress::new(MB),
            end: VirtualAddress::new(end),
        };
        let huge = |length| advise(MB, length, Advice::HugePage);
        let steps = [MB + 0x21000, 2 * MB, 2 * MB + 0x1000].map(brk);
        // The second step has room already; the last one leaves the advised range.
        let found =
            advised("0x100000-0x200000", &[&[map(16 * MB, MB, false)], &steps[..]].concat());
        let grown = brk(2 * MB);
        let expected = [grown.clone(), huge(MB), grown.clone(), brk(2 * MB + 0x1000)];
        assert_eq!(found[1..], expected);
        // A step that has room requests nothing inside a larger range, either.
        let found = advised("0x100000-0x800000", &steps[..2]);
        assert_eq!(found, [grown.clone(), huge(MB), grown]);
    }

    #[test]
    fn each_process_has_ranges_of_its_own() {
        let switch =
            |process| ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) };
        let (one, other) = (map(0x10000, 0x1000, false), map(0x20000, 0x1000, false));
        let events = [one.clone(), switch(1), one.clone(), other.clone()];
        let found = advised("0x10000-0x11000,1:0x20000-0x21000", &events);
        let huge = |start| advise(start, 0x1000, Advice::HugePage);
        assert_eq!(found, [one.clone(), huge(0x10000), switch(1), one, other, huge(0x20000)]);
    }

    #[test]
    fn memory_is_populated_after_the_request() {
        let populated = |start| map(start, 0x3000, true);
        let found = advised("0x10000-0x12000", &[populated(0x10000), populated(0x20000)]);
        let expected = [
            map(0x10000, 0x3000, false),
            advise(0x10000, 0x2000, Advice::HugePage),
            advise(0x10000, 0x3000, Advice::Other(23)),
            populated(0x20000),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn pages_of_other_sizes_are_requested_by_range() {
        let memory = map(0x10000, 0x40000, false);
        let found = advised(
            "0x10000-0x20000=64K,0x20000-0x30000,0x30000-0x40000=2M,0x40000-0x50000=1G",
            std::slice::from_ref(&memory),
        );
        let expected = [
            memory,
            advise(0x10000, 0x10000, Advice::PageSize(4)),
            advise(0x20000, 0x20000, Advice::HugePage),
            advise(0x40000, 0x10000, Advice::PageSize(18)),
        ];
        assert_eq!(found, expected);
        // The range that begins first has what both contain.
        let mixed: AdvisedRanges =
            "0x1000-0x5000,0x2000-0x4000=16K,0x4000-0x8000=16K".parse().unwrap();
        assert_eq!(mixed.to_string(), "0x1000-0x5000,0x5000-0x8000=16K");
        assert_eq!(mixed.to_string().parse::<AdvisedRanges>().unwrap(), mixed);
    }

    #[test]
    fn ranges_are_written_as_they_are_read() {
        let text = "0x1000-0x3000,1:0x1000-0x2000";
        let ranges: AdvisedRanges = text.parse().unwrap();
        assert_eq!((ranges.to_string().as_str(), ranges.bytes()), (text, 0x3000));
        let mixed: AdvisedRanges = "1:0x1000-0x2000,0x2000-0x3000, 4096-8192".parse().unwrap();
        assert_eq!(mixed, ranges);
        let lines = "# heap\n0x1000-0x3000 # all of it\n\n1:0x1000-0x2000\n";
        assert_eq!(AdvisedRanges::from_lines(lines).unwrap(), ranges);
    }

    #[test]
    fn wrong_ranges_say_what_would_be_right() {
        for (text, expected) in [
            ("0x1000", EXPECTED),
            ("0x1000-0x3000=8K", SIZES),
            ("0x1000-0x3000=often", SIZES),
            ("heap-0x2000", EXPECTED),
            ("0x1000-0x1001", "expected multiples of 4096, as madvise does"),
            ("0x2000-0x2000", "the end is not after the start"),
            ("a:0x1000-0x2000", "expected PROCESS:START-END with the number of a process"),
        ] {
            let error = text.parse::<AdvisedRanges>().unwrap_err().to_string();
            let expected = format!("{text:?}: {expected}; or a file with one range a line");
            assert_eq!(error, expected);
        }
        let error = AdvisedRanges::from_lines("0x1000-0x2000\nall").unwrap_err().to_string();
        assert_eq!(error, format!("line 2: \"all\": {EXPECTED}"));
    }

    #[test]
    fn a_trace_without_mappings_cannot_be_advised() {
        let source = Events(SourceMetadata { name: "x".into(), ..Default::default() }, Vec::new());
        let error = Advised::new(source, AdvisedRanges::default()).err().unwrap();
        assert!(error.to_string().contains("x does not say what memory"), "{error}");
    }

    fn brk(start: u64, end: u64) -> ProgramEvent {
        ProgramEvent::Brk { start: VirtualAddress::new(start), end: VirtualAddress::new(end) }
    }

    fn switch(process: u16) -> ProgramEvent {
        ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) }
    }

    /// A heap ends at the next mapping, or remapping, at or above its own end. What is requested is what it
    /// grew by: a child's heap begins with its parent's, a program's after exec with none.
    #[test]
    fn heaps_grow_by_what_is_new_in_each_process() {
        const MB: u64 = 1 << 20;
        let huge = |start, length| advise(start, length, Advice::HugePage);
        let all = "0x100000-0x40000000,1:0x100000-0x40000000";
        let (first, second) = (brk(MB, MB + 0x3000), brk(MB, 2 * MB + 0x1000));
        let (grown, more) = (brk(MB, 2 * MB), brk(MB, 4 * MB));
        // Shrunk to its beginning, the heap has nothing to request; it then grows anew.
        let shrunk = brk(MB, MB);
        let found = advised(all, &[first.clone(), shrunk.clone(), first.clone()]);
        let again = huge(MB, MB);
        assert_eq!(found, [grown.clone(), again.clone(), shrunk, grown.clone(), again.clone()]);
        // The child's second step is new from 2MB on, and so is the parent's; after exec, all is new.
        let fork = ProgramEvent::Fork { child: ProcessId(1) };
        let (child, parent) = (switch(1), switch(0));
        let events = [
            first.clone(),
            fork.clone(),
            child.clone(),
            second.clone(),
            parent.clone(),
            second.clone(),
            ProgramEvent::Exec,
            second,
        ];
        let step = huge(2 * MB, 2 * MB);
        let expected = [
            grown.clone(),
            again,
            fork,
            child,
            more.clone(),
            step.clone(),
            parent,
            more.clone(),
            step,
            ProgramEvent::Exec,
            more,
            huge(MB, 3 * MB),
        ];
        assert_eq!(advised(all, &events), expected);
        // A mapping at the very end of the heap leaves it no room, and one of another process all of it.
        let remap = ProgramEvent::Remap {
            from: VirtualAddress::new(1 << 40),
            from_length: 0x1000,
            to: VirtualAddress::new(MB + 0x8000),
            to_length: 0x1000,
        };
        let other = map(MB + 0x3000, 0x1000, false);
        for (before, end) in [
            (vec![other.clone()], MB + 0x3000),
            (vec![remap], MB + 0x8000),
            (vec![switch(2), other, switch(0)], 2 * MB),
        ] {
            let found = advised(all, &[before, vec![first.clone()]].concat());
            assert_eq!(found[found.len() - 2..], [brk(MB, end), huge(MB, end - MB)]);
        }
    }

    /// Read-only memory is populated by reads (22 instead of 23), inaccessible memory not at all. A mapping
    /// has whole pages.
    #[test]
    fn memory_is_populated_as_it_may_be_accessed() {
        let mapping = |permissions, accessible, populate| ProgramEvent::Map {
            start: VirtualAddress::new(0x10000),
            length: 0x1001,
            permissions,
            accessible,
            backing: Backing::Anonymous,
            shared: false,
            populate,
        };
        let huge = || advise(0x10000, 0x2000, Advice::HugePage);
        let read = mapping(Permissions::READ, true, true);
        let populate = advise(0x10000, 0x2000, Advice::Other(22));
        let expected = [mapping(Permissions::READ, true, false), huge(), populate];
        assert_eq!(advised("0x10000-0x20000", &[read]), expected);
        let none = mapping(Permissions::READ, false, true);
        assert_eq!(advised("0x10000-0x20000", std::slice::from_ref(&none)), [none, huge()]);
        // A range that ends where the mapping begins has no part of it.
        let after = map(0x20000, 0x1000, true);
        assert_eq!(advised("0x10000-0x20000", std::slice::from_ref(&after)), [after]);
    }

    /// Requests come at the instruction of the event before them, and only once.
    #[test]
    fn requests_keep_the_place_of_their_event() {
        struct Twice(Events, u32);
        impl Source for Twice {
            fn metadata(&self) -> &SourceMetadata {
                self.0.metadata()
            }
            fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
                chunk.clear();
                self.1 += 1;
                let start = 0x10000 * u64::from(self.1);
                chunk.events.extend([(2, map(start, 0x1000, false)), (7, ProgramEvent::Exec)]);
                Ok(self.1 < 2)
            }
            fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
                Ok(instructions + 1)
            }
        }
        let metadata = SourceMetadata { has_events: true, ..SourceMetadata::default() };
        let ranges: AdvisedRanges = "0x10000-0x21000,0x30000-0x31000".parse().unwrap();
        let mut source = Advised::new(Twice(Events(metadata, Vec::new()), 0), ranges).unwrap();
        assert_eq!(source.skip(5).unwrap(), 6);
        assert_eq!(
            source.metadata().assumptions,
            ["the program is changed: it requests large pages (MADV_HUGEPAGE) for 2 ranges of \
                 addresses as soon as memory is mapped there (--madvise)"]
        );
        let mut chunk = Chunk::default();
        for (number, more) in [(1, true), (2, false)] {
            assert_eq!(source.next_chunk(&mut chunk).unwrap(), more);
            let start = 0x10000 * number;
            let request = advise(start, 0x1000, Advice::HugePage);
            let expected = [(2, map(start, 0x1000, false)), (2, request), (7, ProgramEvent::Exec)];
            assert_eq!(chunk.events, expected);
        }
    }

    #[test]
    fn ranges_merge_and_their_limits_are_checked() {
        for (text, merged) in [
            ("0x1000-0x5000,0x2000-0x3000", "0x1000-0x5000"),
            ("0x1000-0x2000,0x2000-0x3000", "0x1000-0x3000"),
            ("0x1000-0x2000,0x3000-0x4000", "0x1000-0x2000,0x3000-0x4000"),
            ("0x1000-0x4000,0x2000-0x3000=16K", "0x1000-0x4000"),
            ("0x1000-0x2000,1:0x1000-0x2000", "0x1000-0x2000,1:0x1000-0x2000"),
            ("65535:0x0-0x1000=1M", "65535:0x0-0x1000=1M"),
            ("0x1000-0x2000=2M", "0x1000-0x2000"),
            ("0x1000-0x2000=1G,0x1000-0x3000=1G", "0x1000-0x3000=1G"),
        ] {
            let ranges: AdvisedRanges = text.parse().unwrap();
            assert_eq!(ranges.to_string(), merged, "{text}");
            assert!(!ranges.is_empty());
        }
        let orders = [("16K", 2), ("32K", 3), ("64K", 4), ("1M", 8), ("2M", 9), ("1G", 18)];
        for (size, order) in orders {
            let range: AdvisedRange = format!("0-4096={size}").parse().unwrap();
            assert_eq!(range.order, order, "{size}");
        }
        for (text, expected) in [
            ("0-4096=4K", SIZES),
            ("0-4096=8K", SIZES),
            ("0-4096=4M", SIZES),
            ("0-4096=48K", SIZES),
            ("0x3000-0x2000", "the end is not after the start"),
            ("0x1001-0x3000", "expected multiples of 4096, as madvise does"),
            ("65536:0-4096", "expected PROCESS:START-END with the number of a process"),
        ] {
            let error = text.parse::<AdvisedRange>().unwrap_err().to_string();
            assert_eq!(error, format!("{text:?}: {expected}"));
        }
        assert!(AdvisedRanges::new(Vec::new()).is_empty());
        // A file has lines of the same form; its name comes before the line's number.
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        std::fs::write(path, "0x1000-0x2000 # one\n0x2000-0x3000=8K\n").unwrap();
        let error = path.parse::<AdvisedRanges>().unwrap_err().to_string();
        assert_eq!(error, format!("{path}: line 2: \"0x2000-0x3000=8K\": {SIZES}"));
        std::fs::write(path, "#\n1:0x1000-0x2000 # one\n").unwrap();
        assert_eq!(path.parse::<AdvisedRanges>().unwrap().to_string(), "1:0x1000-0x2000");
    }
}
