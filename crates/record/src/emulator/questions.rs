//! Questions of the plugins: while its program is stopped, a plugin asks the recorder for the program's
//! mappings or existing pages. The recorder reads these from `/proc` immediately, and queues them with the
//! plugin's records for the replay.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::loaded::{LoadedProgram, existing_pages, loaded_program, program_of};
use super::shared::SharedMemory;
use crate::layout::{QUESTION_IMAGE, QUESTION_PAGES};
use crate::region::{self, Region};

/// Recorder's reply to a question that the emulator's plugin asks about its process for the replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The program that runs in the plugin's process, and its mappings.
    Image {
        /// Path of the file of the program that runs in the plugin's process.
        program: PathBuf,
        /// Mappings of the program before its first instruction.
        loaded: LoadedProgram,
    },
    /// Pages of the plugin's process that are in memory or swapped out, as address ranges in ascending order.
    Pages(Vec<Range<u64>>),
}

/// Part of the recorder that answers the questions of plugins.
pub struct Answerer {
    /// Path of the emulator, by which its processes are recognized.
    pub emulator: PathBuf,
    /// Part of the program to record; `None` for the whole program.
    pub region: Option<Region>,
}

impl Answerer {
    /// Answers the unanswered question (about mappings or pages) of the virtual CPU that uses this ring, so
    /// that the CPU continues. `None` if the CPU has asked no question, or its process has ended.
    pub fn answer(&self, shared: &SharedMemory, ring: usize) -> Option<Answer> {
        let question = shared.question(ring)?;
        let process = shared.user(ring)?;
        let answer = match question {
            QUESTION_IMAGE => self.image(shared, process),
            QUESTION_PAGES => existing_pages(process, &self.emulator).ok().map(Answer::Pages),
            _ => None,
        };
        let stack_end = match &answer {
            Some(Answer::Image { loaded, .. }) => loaded.layout.stack.as_ref().map(|it| it.end),
            _ => None,
        };
        shared.answer(ring, stack_end.unwrap_or(0));
        answer
    }

    fn image(&self, shared: &SharedMemory, process: u32) -> Option<Answer> {
        let program = program_of(process).ok()?;
        let loaded = loaded_program(process, &self.emulator, &program).ok()?;
        self.find_region(shared, process, &program, loaded.program_start);
        Some(Answer::Image { program, loaded })
    }

    /// Passes the addresses of the region to record to the plugins, if this program contains the region and
    /// no earlier program did.
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

/// Returns the parts of `range` that are in the ranges `runs`, which are sorted.
pub fn parts(runs: &[Range<u64>], range: &Range<u64>) -> Vec<Range<u64>> {
    let first = runs.partition_point(|run| run.end <= range.start);
    let inside = runs[first..].iter().take_while(|run| run.start < range.end);
    inside.map(|run| run.start.max(range.start)..run.end.min(range.end)).collect()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One run of pages.
mod tests {
    use super::*;
    use crate::emulator::executable::tests::program_with_code_in_its_second_page;

    /// Of several programs with the region, the first one is recorded.
    #[test]
    fn the_first_program_with_the_region_has_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        program_with_code_in_its_second_page(file.path());
        let region = Region::Addresses { start: 0x40_1200, end: 0x40_1300 };
        let of = |region| Answerer { emulator: "/usr/bin/qemu".into(), region };
        let (answerer, shared) = (of(Some(region)), SharedMemory::new().unwrap());
        let found = |answerer: &Answerer, process, program: &Path, start| {
            answerer.find_region(&shared, process, program, start);
            let phases = &shared.header().phases;
            [&phases.region_process, &phases.region_start, &phases.region_end, &phases.region_bias]
                .map(|field| field.load(Ordering::Acquire))
        };
        let (program, nothing) = (file.path(), [0; 4]);
        assert_eq!(found(&of(None), 5, program, Some(0x50_0000)), nothing, "all is recorded");
        assert_eq!(found(&of(Some(Region::Markers)), 5, program, Some(0x50_0000)), nothing);
        assert_eq!(found(&answerer, 5, Path::new("/etc/passwd"), Some(0x50_0000)), nothing);
        assert_eq!(found(&answerer, 5, program, None), nothing, "not in memory");
        let first = [6, 0x40_1200, 0x40_1300, 0x10_0000];
        assert_eq!(found(&answerer, 6, program, Some(0x50_0000)), first);
        assert_eq!(found(&answerer, 7, program, Some(0x60_0000)), first, "a later program");
        let later = of(Some(Region::Addresses { start: 0x40_1400, end: 0x40_1500 }));
        assert_eq!(found(&later, 6, program, Some(0x60_0000)), first, "the same process again");
    }

    #[test]
    fn parts_of_runs() {
        let runs = [0x1000..0x3000, 0x3000..0x4000, 0x8000..0x9000];
        assert_eq!(parts(&runs, &(0x2000..0x8000)), [0x2000..0x3000, 0x3000..0x4000]);
        assert_eq!(parts(&runs, &(0x8000..0xa000)), [0x8000..0x9000]);
        assert_eq!(parts(&runs, &(0x4000..0x8000)), []);
        assert_eq!(parts(&[], &(0..0x8000)), []);
    }
}
