//! Removal of windows from a recording with adaptive sampling.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use perforate_trace::{Source, TraceReader, TraceWriter};
use perforate_types::{
    Chunk, ChunkItem, Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId,
};

use crate::RecordError;
use crate::process_memory::PAGE_BYTES;
use crate::replay::address_space::populate_event;
use crate::windows::{contiguous, is_kept, level};

/// Windows that a recording with adaptive sampling has recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedWindows {
    window: u64,
    kept: u64,
    /// For each window after the initial windows, which follow each other without a gap: number in the trace
    /// of the window's first instruction.
    starts: Vec<u64>,
    last_phase: u64,
    /// Number of the newest window that [`Self::is_kept`] has considered. The program may have ended in this
    /// window, with none of its instructions recorded.
    last_known: u64,
}

impl RecordedWindows {
    /// Tracks windows of `window` instructions, of which at least `kept` stay in the trace.
    pub fn new(window: u64, kept: u64) -> Self {
        Self { window, kept, starts: Vec::new(), last_phase: 1, last_known: 0 }
    }

    /// Notes that part `phase` of the run (odd: recorded, even: skipped) starts at this instruction of the
    /// trace. Returns true if it is a new window, false if another process reported its start already.
    pub fn start(&mut self, phase: u64, instruction: u64) -> bool {
        // All processes report a phase, and a process may have missed some phases.
        let is_new = phase > self.last_phase;
        while self.last_phase < phase {
            self.last_phase += 2;
            self.starts.push(instruction);
        }
        is_new
    }

    /// True if the window of part `phase` stays in the final trace, decided by the length of the run so far:
    /// the run has reached part `now`.
    pub fn is_kept(&mut self, phase: u64, now: u64) -> bool {
        let number = |phase: u64| contiguous(self.kept) - 1 + phase.saturating_sub(1) / 2;
        // Even phases are gaps: the window before counts.
        self.last_known = self.last_known.max(number(phase)).max(number(now));
        is_kept(number(phase), self.last_known, self.kept)
    }

    /// Length of a window of adaptive sampling in instructions.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Number of instructions in the initial windows, which follow each other without a gap, in a trace of
    /// `instructions` instructions.
    fn contiguous_end(&self, instructions: u64) -> u64 {
        self.starts.first().copied().unwrap_or(instructions)
    }

    /// Number of the last window of a trace of `instructions` instructions that has all recorded windows.
    fn last(&self, instructions: u64) -> u64 {
        let contiguous = contiguous(self.kept) - 1;
        let recorded = match self.starts.len() {
            0 => (instructions.saturating_sub(1) / self.window).min(contiguous),
            later => contiguous + later as u64,
        };
        recorded.max(self.last_known)
    }

    /// Distance between two windows that thinning leaves in a trace of `instructions` instructions, as a
    /// number of windows; 1 if all stay.
    pub fn distance(&self, instructions: u64) -> u64 {
        1 << level(self.last(instructions), self.kept)
    }

    /// Distance between the starts of two windows that thinning leaves in the trace, in instructions.
    pub fn period(&self, instructions: u64) -> u64 {
        self.window.saturating_mul(self.distance(instructions))
    }

    /// Ranges of instructions, as numbered in the trace of all recorded windows, of the windows that stay in
    /// the final trace, in order.
    fn spans(&self, instructions: u64) -> Vec<Range<u64>> {
        let (last, contiguous) = (self.last(instructions), contiguous(self.kept));
        let end = self.contiguous_end(instructions);
        let at_first = (0..contiguous).map(|number| {
            let start = number * self.window;
            let is_last = number + 1 == contiguous;
            start.min(end)..if is_last { end } else { end.min(start + self.window) }
        });
        let ends = self.starts.iter().skip(1).copied().chain([instructions]);
        let later = self.starts.iter().zip(ends).map(|(start, end)| *start..end);
        let all = (0..).zip(at_first.chain(later));
        let kept = all.filter(|(number, _)| is_kept(*number, last, self.kept));
        kept.map(|(_, span)| span).filter(|span| !span.is_empty()).collect()
    }
}

/// Numbers of items in a trace from which windows were removed.
#[derive(Default)]
pub struct Thinned {
    /// Number of windows that stay in the trace.
    pub windows: u64,
    /// Number of instructions removed from the trace.
    pub dropped: u64,
    /// Number of instructions of each process that stay in the trace.
    pub processes: Vec<u64>,
}

/// Copies the windows that stay in the final trace from the file of all windows to `writer`. After an error,
/// `thinned` has the counts up to it.
pub fn thin(
    from: &Path,
    windows: &RecordedWindows,
    writer: &mut TraceWriter,
    thinned: &mut Thinned,
) -> Result<(), RecordError> {
    let mut reader = TraceReader::open(from)?;
    let instructions = reader.instructions();
    let spans = windows.spans(instructions);
    let end = windows.contiguous_end(instructions);
    thinned.windows = spans.len() as u64;
    let mut copy = Copy {
        writer,
        thinned,
        gap: 0,
        place: (ProcessId(0), ThreadId(0)),
        written_place: (ProcessId(0), ThreadId(0)),
        touched: BTreeSet::new(),
        recent: vec![(u16::MAX, 0); RECENT_PAGES],
    };
    let mut spans = spans.into_iter().peekable();
    let mut chunk = Chunk::default();
    let mut position = 0;
    loop {
        while spans.next_if(|span| span.end <= position).is_some() {}
        let next = spans.peek().map_or(instructions, |span| span.start);
        // The next window begins with all existing pages, so the pages of this one need not be known.
        if position >= end && next > position {
            let passed = reader.skip(next - position)?;
            copy.drop_instructions(passed);
            position += passed;
        }
        if !reader.next_chunk(&mut chunk)? {
            break;
        }
        for item in chunk.in_order() {
            let (instruction, accesses) = match item {
                ChunkItem::Event(event) => {
                    copy.event(event)?;
                    continue;
                }
                ChunkItem::Instruction(instruction, accesses) => (instruction, accesses),
            };
            while spans.next_if(|span| span.end <= position).is_some() {}
            match spans.peek().is_some_and(|span| span.contains(&position)) {
                true => copy.keep(instruction, accesses)?,
                false => copy.drop_one(instruction, accesses),
            }
            position += 1;
        }
    }
    copy.close_gap()
}

/// Number of entries in the cache of recently touched pages.
const RECENT_PAGES: usize = 1 << 12;

/// State of a copy of a trace that leaves out windows.
struct Copy<'a> {
    writer: &'a mut TraceWriter,
    thinned: &'a mut Thinned,
    /// Number of instructions left out since the last copied one, by this copy or by the recorder.
    gap: u64,
    /// Process and thread that run at this point of the trace.
    place: (ProcessId, ThreadId),
    written_place: (ProcessId, ThreadId),
    /// Pages touched by instructions that were left out, as process and page number. The new trace must
    /// populate them.
    touched: BTreeSet<(u16, u64)>,
    recent: Vec<(u16, u64)>,
}

impl Copy<'_> {
    fn event(&mut self, event: &ProgramEvent) -> Result<(), RecordError> {
        match event {
            ProgramEvent::Gap { instructions } => self.gap += instructions,
            ProgramEvent::Switch { process, thread } => self.place = (*process, *thread),
            event => {
                self.populate()?;
                self.switch(self.place)?;
                self.writer.event(event.clone())?;
            }
        }
        Ok(())
    }

    fn switch(&mut self, place: (ProcessId, ThreadId)) -> Result<(), RecordError> {
        if self.written_place != place {
            self.written_place = place;
            let (process, thread) = place;
            self.writer.event(ProgramEvent::Switch { process, thread })?;
        }
        Ok(())
    }

    /// Writes events that populate the touched pages.
    fn populate(&mut self) -> Result<(), RecordError> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let mut pages = std::mem::take(&mut self.touched).into_iter().peekable();
        while let Some((process, first)) = pages.next() {
            let mut end = first + 1;
            while pages.next_if_eq(&(process, end)).is_some() {
                end += 1;
            }
            self.switch((ProcessId(process), self.place.1))?;
            let event = populate_event(first * PAGE_BYTES..end * PAGE_BYTES);
            self.writer.event(event)?;
        }
        self.recent.fill((u16::MAX, 0));
        Ok(())
    }

    /// Writes the event for the instructions that were left out before the next one.
    fn close_gap(&mut self) -> Result<(), RecordError> {
        if self.gap > 0 {
            let instructions = std::mem::take(&mut self.gap);
            self.writer.event(ProgramEvent::Gap { instructions })?;
        }
        Ok(())
    }

    fn keep(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), RecordError> {
        if self.gap > 0 {
            self.close_gap()?;
            self.populate()?;
        }
        self.switch(self.place)?;
        let process = usize::from(self.place.0.0);
        if self.thinned.processes.len() <= process {
            self.thinned.processes.resize(process + 1, 0);
        }
        self.thinned.processes[process] += 1;
        Ok(self.writer.push(instruction, accesses)?)
    }

    fn drop_instructions(&mut self, count: u64) {
        self.gap += count;
        self.thinned.dropped += count;
    }

    fn drop_one(&mut self, instruction: &Instruction, accesses: &[MemoryAccess]) {
        self.drop_instructions(1);
        self.touch(instruction.ip.value());
        for access in accesses {
            let first = access.address.value();
            self.touch(first);
            self.touch(first.saturating_add(u64::from(access.size.saturating_sub(1))));
        }
    }

    fn touch(&mut self, address: u64) {
        let page = (self.place.0.0, address / PAGE_BYTES);
        let recent = &mut self.recent[page.1 as usize % RECENT_PAGES];
        if *recent != page {
            *recent = page;
            self.touched.insert(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_trace::TraceMetadata;
    use perforate_types::{AccessKind, VirtualAddress};

    use super::*;

    /// Makes an instruction with this number, which is also the number of its page.
    fn instruction(number: u64) -> Instruction {
        let ip = VirtualAddress::new(number * PAGE_BYTES);
        Instruction { ip, length: 1, ..Instruction::default() }
    }

    /// Writes a recording of `end` instructions to `folder/all`, and notes its later windows in `windows`.
    /// Each of `starts` has the part of the run and the first instruction; a gap of 10 instructions precedes
    /// it.
    fn recorded(windows: &mut RecordedWindows, starts: &[(u64, u64)], folder: &Path, end: u64) {
        let path = folder.join("all");
        let mut writer = TraceWriter::create(path, &TraceMetadata::default()).unwrap();
        let mut starts = starts.iter().copied().peekable();
        for number in 0..end {
            if number == 15 {
                writer.event(ProgramEvent::Exec).unwrap();
            }
            if let Some((phase, at)) = starts.next_if(|(_, at)| *at == number) {
                assert!(windows.start(phase, at));
                assert!(!windows.start(phase, at), "another process");
                writer.event(ProgramEvent::Gap { instructions: 10 }).unwrap();
            }
            // One access crosses the border of two pages.
            let crossing = MemoryAccess {
                address: VirtualAddress::new(0x901 * PAGE_BYTES - 1),
                size: 2,
                kind: AccessKind::Read,
            };
            let accesses = &[crossing][..usize::from(number == 12)];
            let one = Instruction { accesses: accesses.len() as u8, ..instruction(number) };
            writer.push(&one, accesses).unwrap();
        }
        writer.finish().unwrap();
    }

    /// Pages of the instructions in the thinned trace, and the events before each.
    fn thinned(windows: &RecordedWindows, folder: &Path) -> (Vec<u64>, Vec<(u32, ProgramEvent)>) {
        let path = folder.join("thinned");
        let mut writer = TraceWriter::create(&path, &TraceMetadata::default()).unwrap();
        let mut thinned = Thinned::default();
        thin(&folder.join("all"), windows, &mut writer, &mut thinned).unwrap();
        writer.finish().unwrap();
        let (mut reader, mut chunk) = (TraceReader::open(&path).unwrap(), Chunk::default());
        reader.next_chunk(&mut chunk).unwrap();
        let pages = chunk.instructions.iter().map(|it| it.ip.value() / PAGE_BYTES);
        (pages.collect(), chunk.events)
    }

    #[test]
    fn a_short_program_is_kept_whole() {
        let windows = RecordedWindows::new(10, 2);
        for instructions in [0, 1, 39, 40] {
            assert_eq!(windows.distance(instructions), 1);
        }
        assert_eq!(windows.spans(12), [0..10, 10..12]);
        assert_eq!((windows.distance(41), windows.period(41)), (2, 20));
        assert_eq!(windows.spans(45), [0..10, 20..30, 40..45], "as many as before, and one");
    }

    #[test]
    fn a_window_is_dropped_at_once_when_later_ones_are_known() {
        let mut windows = RecordedWindows::new(10, 2);
        // Phases 3, 5, 7 and 9 are windows at positions 6, 8, 12 and 16.
        assert!(windows.is_kept(3, 3) && windows.is_kept(3, 4));
        assert!(!windows.is_kept(3, 5), "8 is of level 2");
        assert!(windows.is_kept(7, 8));
        assert_eq!(windows.distance(50), 4, "though window 12 is not in the trace");
        assert!(!windows.is_kept(7, 9));
    }

    #[test]
    fn windows_that_are_left_out_leave_their_events_pages_and_gaps() {
        let folder = tempfile::tempdir().unwrap();
        let mut windows = RecordedWindows::new(10, 2);
        recorded(&mut windows, &[(3, 52)], folder.path(), 59);
        assert_eq!(windows.spans(59), [0..10, 20..30, 40..52, 52..59]);
        let (pages, events) = thinned(&windows, folder.path());
        let expected = (0..10).chain(20..30).chain(40..59);
        assert!(pages.into_iter().eq(expected));
        let touched = |pages: Range<u64>| populate_event(pages.start << 12..pages.end << 12);
        let gap = |instructions| ProgramEvent::Gap { instructions };
        let expected = [
            (10, touched(10..15)),
            (10, touched(0x900..0x902)),
            (10, ProgramEvent::Exec),
            (10, gap(10)),
            (10, touched(15..20)),
            (20, gap(10)),
            (20, touched(30..40)),
            (32, gap(10)),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn later_windows_are_left_out_without_being_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut windows = RecordedWindows::new(10, 2);
        // Positions 6, 8 and 12: every fourth window is kept.
        recorded(&mut windows, &[(3, 50), (5, 60), (7, 70)], folder.path(), 80);
        assert_eq!(windows.spans(80), [0..10, 40..50, 60..70, 70..80]);
        let (pages, events) = thinned(&windows, folder.path());
        assert!(pages.into_iter().eq((0..10).chain(40..50).chain(60..80)));
        let gaps: u64 = events
            .iter()
            .filter_map(|(_, event)| match event {
                ProgramEvent::Gap { instructions } => Some(instructions),
                _ => None,
            })
            .sum();
        assert_eq!(gaps, 30 + 3 * 10 + 10);
        assert!(
            events
                .iter()
                .any(|(at, event)| *at == 20 && *event == ProgramEvent::Gap { instructions: 30 })
        );
    }

    /// Instructions of two processes: pages that follow each other are populated together only if they belong
    /// to one process. The number of instructions that were left out is exact.
    #[test]
    fn pages_of_each_process_are_populated_apart() {
        [false, true].into_iter().for_each(populated_apart);
    }

    /// If `has_event`, an event of the second process comes first.
    fn populated_apart(has_event: bool) {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("all");
        let mut writer = TraceWriter::create(&all, &TraceMetadata::default()).unwrap();
        let switch =
            |process| ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) };
        for number in 0..45 {
            if number == 14 {
                writer.event(switch(1)).unwrap();
                if has_event {
                    writer.event(ProgramEvent::Exec).unwrap();
                }
            }
            writer.push(&instruction(number), &[]).unwrap();
        }
        writer.finish().unwrap();
        let windows = RecordedWindows::new(10, 2);
        let path = folder.path().join("thinned");
        let mut writer = TraceWriter::create(&path, &TraceMetadata::default()).unwrap();
        let mut thinned = Thinned::default();
        thin(&all, &windows, &mut writer, &mut thinned).unwrap();
        writer.finish().unwrap();
        assert_eq!(windows.spans(45), [0..10, 20..30, 40..45]);
        assert_eq!((thinned.dropped, &thinned.processes[..]), (20, &[10, 15][..]));
        assert_eq!(thinned.windows, 3);
        let (mut reader, mut chunk) = (TraceReader::open(&path).unwrap(), Chunk::default());
        reader.next_chunk(&mut chunk).unwrap();
        let touched = |pages: Range<u64>| populate_event(pages.start << 12..pages.end << 12);
        let gap = ProgramEvent::Gap { instructions: 10 };
        let (before, other) = ((10, touched(10..14)), (10, switch(1)));
        let (left_out, own) = ((10, gap.clone()), (10, touched(14..20)));
        let first = match has_event {
            true => vec![before, other, (10, ProgramEvent::Exec), left_out, own],
            false => vec![left_out, before, other, own],
        };
        let expected = [first, vec![(20, gap), (20, touched(30..40))]].concat();
        assert_eq!(chunk.events, expected);
    }

    /// Windows of 10 instructions, of which at least three stay: seven without gaps, then others.
    #[test]
    fn spans_end_where_windows_or_the_program_end() {
        let of = |kept, starts: &[(u64, u64)], end| {
            let mut windows = RecordedWindows::new(10, kept);
            starts.iter().for_each(|(phase, at)| assert!(windows.start(*phase, *at)));
            windows.spans(end)
        };
        assert_eq!(of(3, &[], 0), []);
        assert_eq!(of(3, &[], 60), [0..10, 10..20, 20..30, 30..40, 40..50, 50..60]);
        // The seventh window is as long as it is until the next starts.
        assert_eq!(of(3, &[], 61), [0..10, 20..30, 40..50, 60..61]);
        assert_eq!(of(3, &[(3, 73)], 80), [0..10, 20..30, 40..50, 60..73, 73..80]);
        assert_eq!(of(3, &[(3, 70)], 70), [0..10, 20..30, 40..50, 60..70], "ended in its window");
        assert_eq!(of(3, &[(3, 70), (5, 80)], 90), [0..10, 20..30, 40..50, 60..70, 70..80, 80..90]);
        // The initial part may end early: threads lag behind.
        assert_eq!(of(3, &[(3, 55)], 65), [0..10, 20..30, 40..50, 55..65]);
        // A phase that nobody has reported has an empty window.
        assert_eq!(of(1, &[(5, 30)], 35), [0..10, 30..35]);
    }

    /// Pages of the last byte of an access, each process's pages, and pages that share a place in the cache.
    #[test]
    fn pages_of_left_out_accesses_are_those_of_their_first_and_last_byte() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("all");
        let mut writer = TraceWriter::create(&all, &TraceMetadata::default()).unwrap();
        let at = |address, size| MemoryAccess {
            address: VirtualAddress::new(address),
            size,
            kind: AccessKind::Write,
        };
        let far = (0x500 + RECENT_PAGES as u64) * PAGE_BYTES;
        for number in 0..45 {
            let accesses = match number {
                10 => vec![at(0x500 * PAGE_BYTES - 8, 8)],
                11 => vec![at(0x600 * PAGE_BYTES - 8, 9)],
                12 => vec![
                    at(0x700 * PAGE_BYTES - 1, 1),
                    at(0x500 * PAGE_BYTES, 1),
                    at(far, 1),
                    at(0x500 * PAGE_BYTES, 1),
                ],
                _ => Vec::new(),
            };
            let one = Instruction { accesses: accesses.len() as u8, ..instruction(number) };
            writer.push(&one, &accesses).unwrap();
        }
        writer.finish().unwrap();
        let (_, events) = thinned(&RecordedWindows::new(10, 2), folder.path());
        let touched = |pages: Range<u64>| (10, populate_event(pages.start << 12..pages.end << 12));
        let expected = [
            (10, ProgramEvent::Gap { instructions: 10 }),
            touched(10..20),
            // The access of 8 bytes ends with page 0x4ff, whose neighbour is touched by another.
            touched(0x4ff..0x501),
            touched(0x5ff..0x601),
            touched(0x6ff..0x700),
            touched(far >> 12..(far >> 12) + 1),
        ];
        assert_eq!(events[..6], expected);
    }
}
