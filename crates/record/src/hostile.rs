//! Entry points to private readers, for tests with hostile input.

use std::ops::Range;
use std::path::Path;

use perforate_types::{Instruction, MemoryAccess, ProgramEvent};

use crate::emulator::executable::code_ranges;
use crate::emulator::loaded::LoadedProgram;
use crate::emulator::spool::Batch;
use crate::file_kind::identify;
use crate::instructions::blocks::Dictionary;
use crate::process_memory::Mapping;
use crate::replay::output::{Limits, Output, Sink};
use crate::replay::{Replay, Step};
use crate::{RecordError, Region, region};

/// Number of rings of the recording that [`replay`] makes from arbitrary bytes.
const RINGS: usize = 4;
/// Maximum number of instructions of the recording that [`replay`] makes from arbitrary bytes.
const MAX_INSTRUCTIONS: u64 = 1 << 14;

/// Receiver of the replay's output, which only counts the instructions and events.
#[derive(Default)]
struct Counted {
    instructions: u64,
    events: u64,
}

impl Sink for Counted {
    fn push(&mut self, _: &Instruction, accesses: &[MemoryAccess]) -> Result<(), RecordError> {
        assert!(accesses.len() <= usize::from(u8::MAX), "more accesses than a trace can hold");
        self.instructions += 1;
        Ok(())
    }

    fn event(&mut self, _: ProgramEvent) -> Result<(), RecordError> {
        self.events += 1;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

/// Dictionary of translated blocks with these bytes as entries.
struct Entries(Vec<Vec<u8>>);

impl Dictionary for Entries {
    fn entry(&self, number: u32) -> Option<&[u8]> {
        self.0.get(number as usize).map(Vec::as_slice)
    }
}

/// Replays arbitrary records. The bytes contain the dictionary (number of entries, each preceded by its
/// length), then batches (ring, number of records, records of 8 bytes).
pub fn replay(mut bytes: &[u8]) {
    let mut dictionary = Entries(Vec::new());
    for _ in 0..take(&mut bytes, 1).first().copied().unwrap_or(0) {
        let length = take(&mut bytes, 1).first().copied().unwrap_or(0);
        dictionary.0.push(take(&mut bytes, length.into()).to_vec());
    }
    let mut replay = Replay::new();
    let limits = Limits { instructions: MAX_INSTRUCTIONS, ..Limits::NONE };
    replay.output = Some(Output::new(Counted::default(), limits));
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

/// Replays the records added so far, and answers the plugin's questions among them.
fn advance(replay: &mut Replay<Counted>, dictionary: &Entries) -> Result<(), RecordError> {
    loop {
        match replay.advance(dictionary)? {
            Step::Starved | Step::Full(_) => return Ok(()),
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

/// Parses arbitrary bytes as `/proc/PID/maps` of the emulator.
pub fn process_maps(bytes: &[u8]) {
    let mappings = Mapping::parse_all(&String::from_utf8_lossy(bytes));
    let (emulator, program) = (Path::new("/usr/bin/qemu-x86_64"), Path::new("/usr/bin/program"));
    LoadedProgram::new(&mappings, emulator, program);
}

/// Parses an arbitrary file as the file of a program to record.
pub fn program_file(path: &Path) {
    let start = std::fs::read(path).unwrap_or_default();
    let _ = identify(&start);
    let _ = code_ranges(path);
    let addresses = Region::Addresses { start: 0x1000, end: 0x2000 };
    for wanted in [Region::Markers, addresses, Region::Function("main".into())] {
        region::find(&wanted, path);
    }
}
