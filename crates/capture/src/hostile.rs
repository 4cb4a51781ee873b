//! Readers that nobody else may call, for tests with hostile bytes.

use std::ops::Range;
use std::path::Path;

use perforate_types::{Instruction, MemoryAccess, ProgramEvent};

use crate::blocks::Dictionary;
use crate::output::{Output, Sink};
use crate::proc::{self, MemoryAmounts, Residency};
use crate::replay::{Replay, Step};
use crate::spool::Batch;
use crate::{CaptureError, Region, elf, native, process, region};

/// Rings that a made-up recording has.
const RINGS: usize = 4;
/// Instructions after which it ends.
const MOST_INSTRUCTIONS: u64 = 1 << 14;

/// Counts and forgets.
#[derive(Default)]
struct Counted {
    instructions: u64,
    events: u64,
}

impl Sink for Counted {
    fn push(&mut self, _: &Instruction, accesses: &[MemoryAccess]) -> Result<(), CaptureError> {
        assert!(accesses.len() <= usize::from(u8::MAX), "more accesses than a trace can hold");
        self.instructions += 1;
        Ok(())
    }

    fn event(&mut self, _: ProgramEvent) -> Result<(), CaptureError> {
        self.events += 1;
        Ok(())
    }
}

/// A dictionary of as many entries as there are.
struct Entries(Vec<Vec<u8>>);

impl Dictionary for Entries {
    fn entry(&self, number: u32) -> Option<&[u8]> {
        self.0.get(number as usize).map(Vec::as_slice)
    }
}

/// Replays records that nobody wrote. The bytes are the dictionary (number of entries, each with
/// its length before it), then batches (ring, number of records, records of 8 bytes).
pub fn replay(mut bytes: &[u8]) {
    let mut dictionary = Entries(Vec::new());
    for _ in 0..take(&mut bytes, 1).first().copied().unwrap_or(0) {
        let length = take(&mut bytes, 1).first().copied().unwrap_or(0);
        dictionary.0.push(take(&mut bytes, length.into()).to_vec());
    }
    let mut replay = Replay::new();
    replay.output = Some(Output::new(Counted::default(), MOST_INSTRUCTIONS));
    while let [ring, records, ..] = *bytes {
        take(&mut bytes, 2);
        let records = take(&mut bytes, usize::from(records) * 8);
        let records = records.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let ring = usize::from(ring) % RINGS;
        replay.add(Batch { ring, records: records.collect(), answer: None });
        if advance(&mut replay, &dictionary).is_err() {
            return;
        }
        replay.is_thread_over(ring);
    }
    while replay.skip_lost_ticket() && advance(&mut replay, &dictionary).is_ok() {}
}

/// Replays what waits, with answers to its questions.
fn advance(replay: &mut Replay<Counted>, dictionary: &Entries) -> Result<(), CaptureError> {
    loop {
        match replay.advance(dictionary)? {
            Step::Starved | Step::Full => return Ok(()),
            Step::Image { ring, .. } => drop(replay.answer(ring)),
            Step::Start { ring, .. } => {
                replay.start_image(ring, |range: Range<u64>| vec![range])?;
            }
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length.min(bytes.len()));
    *bytes = rest;
    taken
}

/// Reads `/proc/PID/maps` of the emulator.
pub fn process_maps(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    process::snapshot_of(&text, Path::new("/usr/bin/qemu-x86_64"), Path::new("/usr/bin/program"));
}

/// Reads `/proc/PID/smaps` and its like.
pub fn smaps(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for addresses in [0..u64::MAX, 0x7f00_0000_0000..0x7f00_0040_0000, 5..5] {
        Residency::of(&text, addresses);
    }
}

/// Reads `/proc/meminfo`.
pub fn meminfo(bytes: &[u8]) {
    MemoryAmounts::parse(&String::from_utf8_lossy(bytes));
}

/// Reads `/proc/buddyinfo`.
pub fn buddyinfo(bytes: &[u8]) {
    proc::free_memory(&String::from_utf8_lossy(bytes));
}

/// Reads a program's file.
pub fn program_file(path: &Path) {
    let _ = elf::code_ranges(path);
    let addresses = Region::Addresses { start: 0x1000, end: 0x2000 };
    for wanted in [Region::Markers, addresses, Region::Function("main".into())] {
        region::find(&wanted, path);
    }
}

/// Reads `/proc/self/status`.
pub fn allowed_processors(bytes: &[u8]) {
    assert!(native::parse_allowed(bytes).is_sorted());
}

/// Reads what a process of a benchmark answers.
pub fn worker_answer(line: &str) {
    native::parse_ready(line);
    native::parse_done(line);
}
