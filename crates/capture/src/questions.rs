//! What a plugin asks of the recorder while the program stands still. The answers are read from
//! `/proc` at once, and wait with the records until the replay comes to them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::layout::{QUESTION_IMAGE, QUESTION_PAGES};
use crate::process::{self, Snapshot};
use crate::region::{self, Region};
use crate::shared::SharedMemory;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A program and where it lies.
    Image {
        /// The program's file.
        program: PathBuf,
        /// What is mapped.
        snapshot: Snapshot,
    },
    /// Runs of pages that exist, lowest first.
    Pages(Vec<Range<u64>>),
}

/// Finds the answers.
pub struct Answerer {
    /// The emulator's file.
    pub emulator: PathBuf,
    /// What is recorded, if not everything.
    pub region: Option<Region>,
}

impl Answerer {
    /// Answers the question that the virtual CPU of a ring waits with, if it does and its process
    /// still lives.
    pub fn answer(&self, shared: &SharedMemory, ring: usize) -> Option<Answer> {
        let question = shared.question(ring)?;
        let process = shared.user(ring)?;
        let answer = match question {
            QUESTION_IMAGE => self.image(shared, process),
            QUESTION_PAGES => {
                process::present_pages(process, &self.emulator).ok().map(Answer::Pages)
            }
            _ => None,
        };
        shared.answer(ring);
        answer
    }

    fn image(&self, shared: &SharedMemory, process: u32) -> Option<Answer> {
        let program = process::program_of(process).ok()?;
        let snapshot = process::snapshot(process, &self.emulator, &program).ok()?;
        self.find_region(shared, process, &program, snapshot.program_start);
        Some(Answer::Image { program, snapshot })
    }

    /// Tells the plugin of the first program that has the region where it lies.
    fn find_region(&self, shared: &SharedMemory, process: u32, program: &Path, start: Option<u64>) {
        let phases = &shared.header().phases;
        let Some(region) = &self.region else { return };
        if phases.region_process.load(Ordering::Relaxed) != 0 {
            return;
        }
        if let (Some(place), Some(start)) = (region::find(region, program), start) {
            phases.region_start.store(place.linked.start, Ordering::Relaxed);
            phases.region_end.store(place.linked.end, Ordering::Relaxed);
            phases.region_bias.store(start.wrapping_sub(place.first), Ordering::Relaxed);
            phases.region_process.store(process.into(), Ordering::Release);
        }
    }
}

/// The parts of `range` that lie in `runs`, which are in order.
pub fn parts(runs: &[Range<u64>], range: &Range<u64>) -> Vec<Range<u64>> {
    let first = runs.partition_point(|run| run.end <= range.start);
    let inside = runs[first..].iter().take_while(|run| run.start < range.end);
    inside.map(|run| run.start.max(range.start)..run.end.min(range.end)).collect()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One run of pages.
mod tests {
    use super::*;

    #[test]
    fn parts_of_runs() {
        let runs = [0x1000..0x3000, 0x3000..0x4000, 0x8000..0x9000];
        assert_eq!(parts(&runs, &(0x2000..0x8000)), [0x2000..0x3000, 0x3000..0x4000]);
        assert_eq!(parts(&runs, &(0x8000..0xa000)), [0x8000..0x9000]);
        assert_eq!(parts(&runs, &(0x4000..0x8000)), []);
        assert_eq!(parts(&[], &(0..0x8000)), []);
    }
}
