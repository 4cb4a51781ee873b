//! Replacement of layouts in recordings. A program is recorded once, with the preload library and pools
//! of 4KB pages only. Layouts differ only in the library's advice, which is replaced here. So all
//! layouts are predicted from the same instructions at the same addresses.

use std::ops::Range;
use std::path::Path;

use perforate_trace::{Source, TraceError, TraceReader, TraceWriter, write_chunk};
use perforate_types::{Advice, Chunk, ProgramEvent, VirtualAddress};

use super::Intervals;
use crate::HostError;

/// Memory pool of a recorded program. Its address is that of the first MADV_NOHUGEPAGE with the pool's
/// length.
struct Pool<'a> {
    /// Size of the pool in bytes. No other pool of the program has the same size.
    bytes: u64,
    /// Intervals of 2MB pages in the new layout of the pool, which replaces the recorded layout.
    intervals: &'a Intervals,
    /// Address of the pool, once it is found in the recording.
    start: Option<u64>,
}

/// Copies a recording of a program and replaces the layouts of its pools, which have these sizes in bytes and
/// intervals of 2MB pages.
///
/// # Errors
/// If the recording cannot be read, the copy cannot be written, or a pool is missing from the
/// recording.
pub fn replace_advice(from: &Path, to: &Path, pools: &[(u64, Intervals)]) -> Result<(), HostError> {
    let mut pools: Vec<_> = pools
        .iter()
        .map(|(bytes, intervals)| Pool { bytes: *bytes, intervals, start: None })
        .collect();
    copy(from, to, &mut pools)?;
    if let Some(missing) = pools.iter().find(|pool| pool.start.is_none()) {
        return Err(HostError::Layout(format!(
            "the recording has no pool of {} MB, so its layout cannot be predicted; expected a \
             program that begins with the library for layouts in the emulator too",
            missing.bytes >> 20
        )));
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, pools: &mut [Pool<'_>]) -> Result<(), TraceError> {
    let mut reader = TraceReader::open(from)?;
    let mut writer = TraceWriter::create(to, reader.trace_metadata())?;
    let mut chunk = Chunk::default();
    while reader.next_chunk(&mut chunk)? {
        let events = std::mem::take(&mut chunk.events);
        for (before, event) in events {
            replace(event, pools, |event| chunk.events.push((before, event)));
        }
        write_chunk(&mut writer, &chunk)?;
    }
    writer.finish()?;
    Ok(())
}

/// Passes a recorded event to `push`, with advice about a pool replaced by advice for the new
/// layout.
fn replace(event: ProgramEvent, pools: &mut [Pool<'_>], mut push: impl FnMut(ProgramEvent)) {
    let ProgramEvent::Advise { start, length, advice } = event else { return push(event) };
    if !matches!(advice, Advice::HugePage | Advice::NoHugePage) {
        return push(event);
    }
    let range = start.value()..start.value().saturating_add(length);
    if advice == Advice::NoHugePage
        && !pools.iter().any(|pool| pool.contains(&range))
        && let Some(new) =
            pools.iter_mut().find(|pool| pool.start.is_none() && pool.bytes == length)
    {
        new.start = Some(range.start);
    }
    let Some(Pool { intervals, start: Some(first), .. }) =
        pools.iter().find(|pool| pool.contains(&range))
    else {
        return push(event);
    };
    let advise = |part: Range<u64>, advice| ProgramEvent::Advise {
        start: VirtualAddress::new(part.start),
        length: part.end - part.start,
        advice,
    };
    push(advise(range.clone(), Advice::NoHugePage));
    for part in intervals.within(range.start - first..range.end - first) {
        push(advise(part.start + first..part.end + first, Advice::HugePage));
    }
}

impl Pool<'_> {
    fn contains(&self, range: &Range<u64>) -> bool {
        self.start.is_some_and(|start| {
            start <= range.start && range.end <= start.saturating_add(self.bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advise(start: u64, length: u64, advice: Advice) -> ProgramEvent {
        ProgramEvent::Advise { start: VirtualAddress::new(start), length, advice }
    }

    #[test]
    fn only_the_advice_of_pools_is_replaced() {
        use Advice::{DontNeed, HugePage, NoHugePage};
        const MB: u64 = 1 << 20;
        let layouts = [Intervals::of_pages([0, 2]), Intervals::of_pages([1])];
        let pool = |bytes, intervals| Pool { bytes, intervals, start: None };
        let mut pools = [pool(8 * MB, &layouts[0]), pool(4 * MB, &layouts[1])];
        let mut events = Vec::new();
        for event in [
            advise(0x1000, 0x1000, HugePage),
            advise(100 * MB, 8 * MB, NoHugePage),
            advise(200 * MB, 4 * MB, NoHugePage),
            advise(101 * MB, 5 * MB, NoHugePage),
            advise(100 * MB, 8 * MB, DontNeed),
            advise(300 * MB, 8 * MB, NoHugePage),
        ] {
            replace(event, &mut pools, |event| events.push(event));
        }
        let expected = [
            advise(0x1000, 0x1000, HugePage),
            advise(100 * MB, 8 * MB, NoHugePage),
            advise(100 * MB, 2 * MB, HugePage),
            advise(104 * MB, 2 * MB, HugePage),
            advise(200 * MB, 4 * MB, NoHugePage),
            advise(202 * MB, 2 * MB, HugePage),
            advise(101 * MB, 5 * MB, NoHugePage),
            advise(101 * MB, MB, HugePage),
            advise(104 * MB, 2 * MB, HugePage),
            advise(100 * MB, 8 * MB, DontNeed),
            advise(300 * MB, 8 * MB, NoHugePage),
        ];
        assert_eq!(events, expected);
        assert_eq!((pools[0].start, pools[1].start), (Some(100 * MB), Some(200 * MB)));
    }
}
