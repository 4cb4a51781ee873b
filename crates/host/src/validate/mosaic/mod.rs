//! Validation by mosaics: programs run with several layouts of 4KB and 2MB pages, and the same layouts
//! are simulated. The method is from Mosalloc and Mosmodel (M. Agbarya, I. Yaniv and others, MICRO
//! 2020), with transparent huge pages in place of reserved huge pages.
//!
//! All ratios are the time with only 4KB pages ÷ the time with a layout. Layouts run in turn within
//! every round. A program is recorded once, and the recording is simulated with each layout under
//! `thp-madvise`, which makes 2MB pages only where the program asks for them.

mod benchmark;
#[cfg(test)]
mod end_to_end;
mod errors;
mod order;
mod outcome;
mod predict;
mod program;
mod row;

use std::path::PathBuf;

use perforate_config::Size;
use perforate_sim::RunResult;

use super::{Options, ProgramSample, benchmark_size, plan, predict::Predictor};
use crate::benchmark::WorkerCommand;
use crate::layout::{LARGE_BYTES, Layout, LayoutChoice, LayoutFile, Pools, Shape};
use crate::machine::{Headroom, Processor, clock_ghz_of};
use crate::{HostError, Reporter};

pub use errors::Errors;
pub use outcome::{MosaicOutcome, MosaicScore};
pub use row::{MosaicPrediction, MosaicRow};

use order::Rounds;

/// Maximum number of characters in the file name of a layout.
const MOST_NAME: usize = 120;
/// Smallest memory of a benchmark that is run with layouts, in 2MB pages.
const LEAST_PAGES: u64 = 8;

/// Layouts and programs of a validation by mosaics, in which programs run with several layouts of 4KB and 2MB
/// pages.
#[derive(Clone, Debug)]
pub struct Mosaics {
    /// Layouts in addition to the base layout, which has only 4KB pages.
    pub layouts: Vec<LayoutChoice>,
    /// Programs to measure and simulate.
    pub programs: Vec<ProgramSample>,
    /// Folder to which the layouts are written as files; `None` to write no files.
    pub written_to: Option<PathBuf>,
}

impl Mosaics {
    /// Writes the layouts of a program's pools as files, if a folder is given.
    fn write(
        &self,
        program: &str,
        layouts: &[Layout],
        pool_bytes: [u64; 2],
    ) -> Result<(), HostError> {
        let Some(folder) = &self.written_to else { return Ok(()) };
        let failed = |error: std::io::Error| HostError::file(folder, error.to_string());
        std::fs::create_dir_all(folder).map_err(failed)?;
        for layout in layouts {
            let file = LayoutFile { layout: layout.clone(), pool_bytes };
            file.write(&folder.join(file_name(program, &layout.name)))?;
        }
        Ok(())
    }
}

/// File name of a program's layout; characters unsuitable for file names become dashes.
fn file_name(program: &str, layout: &str) -> String {
    let name = format!("{program} {layout}");
    let words = name.split(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)));
    let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    // A long command line keeps its end, which contains the layout's name.
    name[name.len().saturating_sub(MOST_NAME)..].trim_start_matches('-').to_owned() + ".csv"
}

/// Native measurements of one program with all layouts. The first layout has only 4KB pages.
struct Measured {
    layouts: Vec<Layout>,
    rounds: Rounds,
    pages: Vec<Pages>,
    notes: Vec<String>,
}

/// Amount of memory for which a layout asked for 2MB pages, and the part that obtained them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pages {
    /// Resident bytes in the intervals for which the layout asks for 2MB pages.
    wanted_bytes: u64,
    /// Part of `wanted_bytes` that is in 2MB pages.
    large_bytes: u64,
}

impl Pages {
    /// Share of the requested 2MB pages that was obtained; `None` if no 2MB pages were requested.
    fn obtained(&self) -> Option<f64> {
        let wanted = self.wanted_bytes as f64;
        (self.wanted_bytes > 0).then(|| self.large_bytes as f64 / wanted)
    }
}

/// Simulated cycles of a program with one layout, one value per assumption about the host's page size.
type Cycles = Vec<f64>;

/// Measures programs with layouts, simulates them, and compares the ratios of the times with 4KB pages only
/// and with a layout. Also returns the results of the simulations. `worker` is the command that starts this
/// program as a worker.
///
/// # Errors
/// If a measurement, a recording or a simulation fails.
pub fn validate_mosaics(
    options: &Options,
    mosaics: &Mosaics,
    worker: &WorkerCommand,
    reporter: &mut dyn Reporter,
) -> Result<(MosaicOutcome, Vec<RunResult>), HostError> {
    let processor = Processor::own();
    let (machine, notes) = plan::machine(options.machine.as_ref(), &processor)?;
    let assumptions = plan::assumptions(&processor);
    let mut outcome = MosaicOutcome::new(&processor, &machine, &assumptions, notes);
    outcome.clock_ghz = clock_ghz_of(options.processor)?;
    let Options { operations, age, .. } = *options;
    let predictor =
        Predictor { machine: &machine, assumptions: &assumptions, age, operations, worker };
    let mut results = Vec::new();
    if let Some(wanted) = options.size_bytes {
        let count = mosaics.layouts.len() as u64 + 1;
        let bytes = benchmark_size(wanted, count, &mut outcome.notes)?;
        let mut rows = plan::rows(&machine, bytes);
        rows.retain(|row| row.bytes / LARGE_BYTES >= LEAST_PAGES);
        if rows.is_empty() {
            return Err(too_small(wanted, count, Headroom::now()));
        }
        for row in rows {
            let layouts = all_layouts(&mosaics.layouts, 0, row.bytes);
            mosaics.write(&row.name(), &layouts, [0, row.bytes])?;
            let measured = benchmark::measure(worker, &row, layouts, options, reporter)?;
            let (cycles, runs) =
                predict::predict_row(&predictor, &row, &measured.layouts, reporter)?;
            results.extend(runs);
            outcome.add(&row.name(), &measured, &cycles);
        }
    }
    for sample in &mosaics.programs {
        let program = program::Program::prepare(&sample.words, mosaics, options, reporter)?;
        let Pools { heap_bytes, mapped_bytes } = program.pools;
        mosaics.write(&sample.name(), &program.layouts, [heap_bytes, mapped_bytes])?;
        let measured = program.measure(options, reporter)?;
        let (cycles, runs) = predict::predict_program(&predictor, sample, &program, reporter)?;
        results.extend(runs);
        outcome.add(&sample.name(), &measured, &cycles);
    }
    outcome.add_notes();
    Ok((outcome, results))
}

/// Error for benchmarks without memory for layouts: each of `count` is of `wanted` bytes, or of less if they do not
/// fit.
fn too_small(wanted: u64, count: u64, headroom: Option<Headroom>) -> HostError {
    let least = LEAST_PAGES * LARGE_BYTES;
    if wanted < least {
        let [least, wanted] = [least, wanted].map(Size);
        return HostError::Size(format!("expected at least {least} for layouts, not {wanted}"));
    }
    // One benchmark has no layout.
    let most = (headroom.map_or(0, |headroom| headroom.bytes) / least).saturating_sub(1);
    HostError::Layouts(format!(
        "{count} benchmarks of {} each do not fit in half of the memory available; expected at most {most} \
         layouts",
        Size(least)
    ))
}

/// The layout of only 4KB pages, followed by the chosen layouts, for pools of which the program
/// uses these numbers of bytes.
fn all_layouts(choices: &[LayoutChoice], heap_bytes: u64, mapped_bytes: u64) -> Vec<Layout> {
    let base = LayoutChoice::Shape(Shape::AllSmall).over(heap_bytes, mapped_bytes);
    let chosen = choices.iter().map(|choice| choice.over(heap_bytes, mapped_bytes));
    std::iter::once(base).chain(chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Intervals;

    #[test]
    fn the_error_names_the_option_that_is_the_problem() {
        let headroom = |bytes| Some(Headroom { bytes });
        let error = too_small(8 << 20, 2, headroom(1 << 40));
        assert!(matches!(error, HostError::Size(_)));
        assert_eq!(error.to_string(), "expected at least 16M for layouts, not 8M");
        let error = too_small(256 << 20, 1001, headroom(11 << 30));
        let problem = "1001 benchmarks of 16M each do not fit in half of the memory available; \
                       expected at most 703 layouts";
        assert!(matches!(error, HostError::Layouts(_)));
        assert_eq!(error.to_string(), problem);
    }

    #[test]
    fn layouts_are_written_as_files() {
        let folder = tempfile::tempdir().unwrap();
        let written_to = Some(folder.path().join("layouts"));
        let layouts: Vec<LayoutChoice> =
            [Shape::AllLarge, Shape::Part(0, 4)].map(LayoutChoice::Shape).to_vec();
        let mosaics = Mosaics { layouts, programs: Vec::new(), written_to };
        // Pools of 8MB and 4MB that are used completely.
        let layouts = all_layouts(&mosaics.layouts, 8 << 20, 4 << 20);
        mosaics.write("xz -9k a/b", &layouts, [8 << 20, 4 << 20]).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join("layouts").join(name));
        let start = "type,pageSize,startOffset,endOffset\nbrk,-1,0,8388608\nmmap,-1,0,4194304\n";
        assert_eq!(read("xz-9k-a-b-all-4KB.csv").unwrap(), start);
        let all = "brk,2097152,0,8388608\nmmap,2097152,0,4194304\n";
        assert_eq!(read("xz-9k-a-b-all-2MB.csv").unwrap(), format!("{start}{all}"));
        let half = "brk,2097152,0,4194304\nmmap,2097152,0,2097152\n";
        assert_eq!(read("xz-9k-a-b-first-1-2.csv").unwrap(), format!("{start}{half}"));
        assert!(file_name(&"a".repeat(500), "all 2MB").len() <= MOST_NAME + 4);
        // The files can be read as layouts again. Without a folder, nothing is written.
        let path = folder.path().join("layouts/xz-9k-a-b-first-1-2.csv");
        assert_eq!(LayoutFile::read(&path).unwrap().layout.heap, Intervals::of_pages(0..2));
        let unwanted = Mosaics { written_to: None, ..mosaics };
        unwanted.write("other", &layouts, [8 << 20, 4 << 20]).unwrap();
        assert_eq!(folder.path().join("layouts").read_dir().unwrap().count(), 3);
    }
}
