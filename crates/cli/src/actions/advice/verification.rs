//! Verification of advice: the program is measured as it is and with the recommended pages.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use perforate_host::verify::{AdvisedArea, AreaNumbers, Options, verify};
use perforate_host::{HostError, Reporter};
use perforate_records::{AdviceRecord, AdviceRun, GainRatio, Verification};
use perforate_sim::open_trace;
use perforate_types::Chunk;

use super::runs::{BEST_PARTS, PARTS_IN_2MB};
use crate::actions::Failure;

/// Size of the pages that are measured, in bytes.
const LARGE_BYTES: u64 = 2 << 20;

/// Measures a program as it is and with the recommended pages, or with large pages for all memory if none are
/// recommended, and judges the predicted speed by the measured one. `trace` is the recording that the
/// advice is from: it tells which area of another run an address belongs to.
///
/// # Errors
/// The trace cannot be read, the kernel follows no advice, the program fails, or `stop` was set before the end of
/// the first round.
pub fn verify_advice(
    record: &AdviceRecord,
    trace: &Path,
    program: &[OsString],
    rounds: u32,
    stop: &AtomicBool,
    reporter: &mut dyn Reporter,
) -> Result<Verification, Failure> {
    let addresses: Vec<Range<u64>> = record.ranges.iter().filter_map(address_range).collect();
    let (advice, unnamed) = match addresses.is_empty() {
        true => (AdvisedArea::everything(), 0),
        false => numbers(trace)?.advice(&addresses),
    };
    if advice.is_empty() {
        let problem = "none of the recommended ranges lies in a mapping of 2MB or more of the program itself. \
            `perforate verify --inherit` measures programs that it executes";
        return Err(HostError::Verify(problem.into()).into());
    }
    let other_sizes = record.ranges.iter().any(|range| range.page_bytes != LARGE_BYTES);
    let run = predicted_run(record, addresses.is_empty(), other_sizes);
    let options = Options { rounds, ..Options::default() };
    let mut found = verify(program, &advice, predicted(record, run), &options, stop, reporter)?;
    if unnamed > 0 {
        found.notes.push(format!(
            "{} KB of the recommended ranges lie in mappings of less than 2MB, which are not advised",
            unnamed >> 10
        ));
    }
    if addresses.is_empty() {
        found.notes.push("nothing is recommended: measured with large pages for all memory".into());
    }
    if other_sizes {
        found.notes.push(format!(
            "pages of other sizes than 2MB are recommended: measured with 2MB pages, and compared with the run {run:?}"
        ));
    }
    Ok(found)
}

/// Name of the simulated run with the pages that are measured: 2MB, also where others are recommended. Large pages
/// for all memory are measured if nothing is recommended, and have their own name if they are recommended.
fn predicted_run(record: &AdviceRecord, is_all: bool, other_sizes: bool) -> &'static str {
    let has = |name: &&str| record.runs.iter().any(|run| run.name == *name);
    let names: &[&str] = match (is_all, other_sizes) {
        (true, _) => &[],
        (_, true) => &[PARTS_IN_2MB, BEST_PARTS, AdviceRecord::RECOMMENDED],
        _ => &[AdviceRecord::RECOMMENDED],
    };
    names.iter().copied().find(has).unwrap_or(AdviceRecord::ALL_LARGE)
}

fn address_range(range: &perforate_records::AdviceRange) -> Option<Range<u64>> {
    let start = u64::from_str_radix(range.start.trim_start_matches("0x"), 16).ok()?;
    Some(start..start + range.bytes)
}

/// Numbers the areas of a trace.
fn numbers(trace: &Path) -> Result<AreaNumbers, Failure> {
    let (_, mut source) = open_trace(&trace.to_string_lossy())?;
    let (mut numbers, mut chunk) = (AreaNumbers::default(), Chunk::default());
    while source.next_chunk(&mut chunk)? {
        chunk.events.iter().for_each(|(_, event)| numbers.on_event(event));
    }
    Ok(numbers)
}

/// Predicted ratio of processor times: the speed of a simulated run with the kernel's work. The range of the
/// prediction, which is that of the program's own time, is moved with it.
fn predicted(record: &AdviceRecord, run: &str) -> Option<GainRatio> {
    let AdviceRun { speed, speed_with_kernel, .. } =
        record.runs.iter().find(|found| found.name == run)?;
    let speed = (*speed)?;
    let kernel = speed_with_kernel.map_or(0.0, |with_kernel| with_kernel - speed.speed);
    Some(GainRatio {
        ratio: speed.speed + kernel,
        low: speed.low + kernel,
        high: speed.high + kernel,
    })
}

#[cfg(test)]
mod tests {
    use perforate_records::SpeedRecord;

    use super::*;

    #[test]
    fn the_range_moves_with_the_kernels_work() {
        let run = AdviceRun {
            name: AdviceRecord::RECOMMENDED.into(),
            speed: Some(SpeedRecord { speed: 1.25, sampling_half_width: 0.0, low: 1.0, high: 1.5 }),
            speed_with_kernel: Some(1.125),
            ..AdviceRun::default()
        };
        let mut record = AdviceRecord { runs: vec![run], ..AdviceRecord::default() };
        let expected = GainRatio { ratio: 1.125, low: 0.875, high: 1.375 };
        assert_eq!(predicted(&record, AdviceRecord::RECOMMENDED), Some(expected));
        assert_eq!(predicted(&record, AdviceRecord::ALL_LARGE), None);
        record.runs[0].speed_with_kernel = None;
        assert_eq!(predicted(&record, AdviceRecord::RECOMMENDED).unwrap().ratio, 1.25);
    }

    #[test]
    fn the_prediction_is_that_of_the_measured_pages() {
        let run = |name: &str| AdviceRun { name: name.into(), ..AdviceRun::default() };
        let name = |names: &[&str], is_all, other_sizes| {
            let runs = names.iter().map(|name| run(name)).collect();
            predicted_run(&AdviceRecord { runs, ..AdviceRecord::default() }, is_all, other_sizes)
        };
        let parts = [AdviceRecord::RECOMMENDED, PARTS_IN_2MB, AdviceRecord::ALL_LARGE];
        assert_eq!(name(&parts, false, false), AdviceRecord::RECOMMENDED);
        assert_eq!(name(&parts, false, true), PARTS_IN_2MB);
        assert_eq!(name(&parts, true, false), AdviceRecord::ALL_LARGE);
        assert_eq!(
            name(&[AdviceRecord::ALL_LARGE], false, false),
            AdviceRecord::ALL_LARGE,
            "they are recommended"
        );
    }

    #[test]
    fn ranges_of_addresses_are_read_from_records() {
        let range = |start: &str| {
            address_range(&perforate_records::AdviceRange {
                start: start.into(),
                bytes: 3 << 21,
                ..perforate_records::AdviceRange::default()
            })
        };
        assert_eq!(range("0x7f0000200000"), Some(0x7f00_0020_0000..0x7f00_0080_0000));
        assert_eq!(range("heap"), None);
    }
}
