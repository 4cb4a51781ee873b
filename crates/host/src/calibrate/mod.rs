//! Calibration: measures this machine and writes a machine file for predictions.
//!
//! Pointer chases through increasing amounts of memory, in 4KB and in 2MB pages, show the latency
//! and effective size of each cache, of memory and of the TLBs. The values are valid at the time of
//! the calibration, and include the effect of other programs on the computer. Parallel chases show
//! how many misses and walks can be outstanding. Page faults, fork and calls that change mappings
//! show the costs of the kernel ([`kernel`]). Two values cannot be read off a curve: the latency of
//! the memory controller and the work of the walker for each entry. These are fitted until the
//! simulated chases take as long as the measured ones. Only these chases are measured, and nothing
//! is fitted to a program whose time is to be predicted.

mod check;
mod curve;
mod derive;
mod kernel;
mod machine_file;
mod measure;
mod nearest;
mod points;
mod quantity;
mod region;
mod simulate;

use perforate_config::Size;
use perforate_sim::{Machine, Progress};
use std::path::Path;

use crate::machine::nearest_machine;
use crate::machine::{Headroom, Processor, bounded};
use crate::proc::kernel_release;
use crate::process_settings::last_allowed_processor;
use crate::validate::{Assumption, assumption_of};
use crate::{HostError, Reporter};

pub use check::Check;
pub use nearest::{Difference, NearestMachine};
pub use quantity::Quantity;

use check::{Instrument, checks};
use derive::Expected;
use machine_file::MachineFile;
pub(crate) use machine_file::tlb_geometry;
use measure::{Measured, Plan};
use quantity::{Before, expected, is_splintered, quantities};

/// Smallest memory of a calibration's pointer chases, in bytes.
const MIN_BYTES: u64 = 64 << 20;
/// Share of the memory with MADV_HUGEPAGE that is in 2MB pages, below which the calibration adds a note.
const MOSTLY: f64 = 0.95;

/// Options of a calibration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of the processor to measure on.
    pub processor: usize,
    /// Size in bytes of the memory of the largest pointer chase. Two such memories are allocated, one for
    /// each page size.
    pub bytes: u64,
    /// Number of times that all measurements are repeated.
    pub rounds: u32,
    /// Duration of one measured run in nanoseconds.
    pub run_nanoseconds: u64,
    /// Minimum number of timed accesses in each simulated pointer chase.
    pub accesses: u64,
    /// Base machine (name or file) for values that are not measured. By default, the bundled machine
    /// that describes this processor, or the nearest one of its maker.
    pub base: Option<String>,
    /// Name of the machine in the written file.
    pub name: String,
}

impl Options {
    /// Default options of a calibration; `is_quick` trades precision for time.
    pub fn new(is_quick: bool) -> Self {
        Self {
            processor: last_allowed_processor(),
            bytes: if is_quick { 512 << 20 } else { 1 << 30 },
            rounds: if is_quick { 3 } else { 7 },
            run_nanoseconds: if is_quick { 4_000_000 } else { 10_000_000 },
            accesses: 200_000,
            base: None,
            name: "calibrated".into(),
        }
    }
}

/// Result of a calibration: the measurements and the machine file.
pub struct Calibration {
    /// Processor that was measured.
    pub processor: Processor,
    /// Name of the base machine, which supplies the values that were not measured.
    pub base: String,
    /// Measured quantities, in the order of the report.
    pub quantities: Vec<Quantity>,
    /// Pointer chases, each measured and simulated with the written machine file.
    pub checks: Vec<Check>,
    /// Known machine whose values are closest to the measured ones; absent if nothing was measured.
    pub nearest: Option<NearestMachine>,
    /// Name of the assumption for simulating the chases: no virtual machine, or a host with 4KB or 2MB pages.
    pub assumption: &'static str,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Text of the machine file to write.
    pub file: String,
}

impl Calibration {
    /// True if more than a third of the quantities are noisy, so that the file should not be used.
    pub fn is_too_noisy(&self) -> bool {
        let noisy = self.quantities.iter().filter(|quantity| quantity.is_noisy()).count();
        noisy * 3 > self.quantities.len()
    }
}

/// Calibrates: measures this machine and derives a machine file.
///
/// # Errors
/// If the machine cannot be measured, or the base machine is invalid.
pub fn calibrate(options: &Options, reporter: &mut dyn Reporter) -> Result<Calibration, HostError> {
    let processor = Processor::own();
    let mut notes = Vec::new();
    let base = base(options.base.as_deref(), &processor, &mut notes)?;
    let mut file = MachineFile::load(&base)?;
    file.complete_costs()?;
    let bytes = size(options.bytes, &mut notes)?;
    let Options { processor: number, rounds, run_nanoseconds, .. } = *options;
    // Runs before the chases' memory is allocated, because fork would copy its page tables.
    reporter.stage("measuring the kernel", "rounds");
    let kernel = kernel::measure(number, rounds, &mut |done| {
        reporter.progress(Progress { done, total: Some(u64::from(rounds)) });
    })?;
    let plan = Plan { processor: number, bytes, rounds, run_nanoseconds };
    let Measured { rounds, large_share } = measure::measure(plan, reporter)?;
    if large_share < MOSTLY {
        notes.push(format!(
            "only {:.0} % of the memory came in 2MB pages where they were asked for: caches look \
             slower than they are, and walks quicker",
            100.0 * large_share
        ));
    }
    let before = file.clone();
    let number = |key: &str| before.number(key);
    let mut expected = expected(&processor, &number, bytes);
    expected.is_splintered = is_splintered(&rounds, &expected);
    let mut found = quantities(&rounds, &expected, &number);
    found.extend(kernel::quantities(&kernel, &number));
    for quantity in &found {
        if let (Some(key), Some(value)) = (quantity.key, quantity.value) {
            file.set_measured(key, value, &reason(quantity, file.base()))?;
        }
    }
    follow(&mut file, &found, &number)?;
    file.costs_measured_on(&kernel_name(&processor))?;
    let assumption = assumption_of(processor.is_virtual(), expected.is_splintered);
    let summary = format!("{}, measured by perforate calibrate", display_name(&processor));
    file.rename(&options.name, &summary, &processor)?;
    let mut instrument = Instrument {
        rounds: &rounds,
        expected: &expected,
        assumption,
        accesses: options.accesses,
        reporter,
    };
    found.extend(instrument.adjust(&mut file, &options.name)?);
    let text = file.text(&preface(&processor, file.base(), rounds.len()), &found);
    let machine = Machine::from_text(&options.name, &text)?;
    let checks = checks(&mut instrument, &machine)?;
    add_notes(&mut notes, &processor, &found, &expected, assumption);
    let base = file.base().to_owned();
    let assumption = assumption.name;
    let nearest = nearest::nearest(&found)?;
    Ok(Calibration {
        processor,
        base,
        quantities: found,
        checks,
        nearest,
        assumption,
        notes,
        file: text,
    })
}

/// Sets the machine file's unmeasured keys that are equal to a measured key in the base machine
/// ([`kernel::FOLLOWING`]).
fn follow(
    file: &mut MachineFile,
    found: &[Quantity],
    before: &Before<'_>,
) -> Result<(), HostError> {
    for (key, leader, times) in kernel::FOLLOWING {
        let measured = found.iter().find(|quantity| quantity.key == Some(leader));
        let Some(measured) = measured.filter(|quantity| quantity.remark.is_none()) else {
            continue;
        };
        let is_equal = before(key) == before(leader).map(|value| value * times);
        if let (true, Some(value)) = (is_equal, measured.value) {
            let times_in_words = if times == 1.0 { "as".into() } else { format!("{times} ×") };
            let reason = format!("{times_in_words} {leader}, which was measured");
            file.set(key, value * times, &reason)?;
        }
    }
    Ok(())
}

/// Name of the processor and release of the kernel, for the machine file.
fn kernel_name(processor: &Processor) -> String {
    let release = kernel_release(Path::new("/proc"));
    let kernel = if release.is_empty() { String::new() } else { format!(", Linux {release}") };
    format!("{}{kernel}", display_name(processor)).replace(char::is_control, " ")
}

/// Chooses the base machine: the one called `named`, or the nearest bundled machine with a note.
fn base(
    named: Option<&str>,
    processor: &Processor,
    notes: &mut Vec<String>,
) -> Result<String, HostError> {
    if let Some(name) = named {
        return Ok(name.into());
    }
    let (machine, describes) = nearest_machine(processor)?;
    let name = machine.name;
    if describes {
        return Ok(name);
    }
    notes.push(format!(
        "no machine file describes this processor: what is not measured (the core's width and \
         queues, the branch predictor, banks of memory, walk caches) is {name}'s; --base chooses \
         another"
    ));
    Ok(name)
}

/// Reduces `wanted` to a size in bytes with which both memories of the calibration (4KB and 2MB pages) fit
/// into available memory. Adds a note if it reduces the size.
fn size(wanted: u64, notes: &mut Vec<String>) -> Result<u64, HostError> {
    if wanted < MIN_BYTES {
        return Err(HostError::Size(format!("expected at least 64M, not {}", Size(wanted))));
    }
    let Some(headroom) = Headroom::now() else { return Ok(wanted) };
    match bounded(wanted.saturating_mul(2), headroom, 2 * MIN_BYTES) {
        Some(allowed) if allowed >= wanted.saturating_mul(2) => Ok(wanted),
        Some(allowed) => {
            let bytes = (allowed / 2) & !((2 << 20) - 1);
            notes.push(format!(
                "half of the memory available is {} MB: chases take {} MB at most",
                headroom.bytes >> 20,
                bytes >> 20
            ));
            Ok(bytes)
        }
        None => Err(HostError::Size("there is no memory left to measure in".into())),
    }
}

fn display_name(processor: &Processor) -> &str {
    if processor.name.is_empty() { "this machine" } else { &processor.name }
}

fn reason(quantity: &Quantity, base: &str) -> String {
    let before = quantity.before.map_or(String::new(), |before| format!("; {before} in {base}"));
    let unit = quantity.unit;
    let measured = quantity.measured.map_or("nothing".into(), |spread| {
        let digits = if unit == "bytes" || spread.median >= 100.0 { 0 } else { 2 };
        format!(
            "{:.digits$} ({:.digits$} to {:.digits$}) {unit}",
            spread.median, spread.min, spread.max
        )
    });
    let measured = measured.trim_end();
    let remark = quantity.remark.as_ref().map_or(String::new(), |remark| format!(", {remark}"));
    format!("measured: {measured}{remark}{before}")
}

fn preface(processor: &Processor, base: &str, rounds: usize) -> String {
    format!(
        "# {}{}, as measured by `perforate calibrate` in {rounds} rounds: median (least to most).\n\
         # Lines that do not say \"measured\" are {base}'s, whose sources follow.\n#",
        display_name(processor),
        if processor.is_virtual() { ", a virtual machine" } else { "" },
    )
}

fn add_notes(
    notes: &mut Vec<String>,
    processor: &Processor,
    quantities: &[Quantity],
    expected: &Expected,
    assumption: Assumption,
) {
    let llc = quantities.iter().find(|quantity| quantity.key == Some("cache.llc.size_bytes"));
    if let (Some(spread), Some(stated)) =
        (llc.and_then(|quantity| quantity.measured), processor.size("cache.llc"))
        && spread.median < 0.5 * stated as f64
    {
        notes.push(format!(
            "half of the loads miss the last level at {} MB, where the processor states {} MB: it \
             is shared, and this is what is left now",
            spread.median as u64 >> 20,
            stated >> 20
        ));
    }
    if let Some(spread) = llc.and_then(|quantity| quantity.measured)
        && spread.median * 3.0 > expected.bytes as f64
    {
        notes.push(
            "the largest chase is not much larger than the last level: part of it still hits there, \
             and memory looks quicker than it is; try --size 4G"
                .into(),
        );
    }
    if processor.is_virtual() {
        notes.push(format!(
            "this is a virtual machine: walks go through its host's tables too; by the reach of 2MB \
             entries it is simulated as \"{}\", for which use schemes such as {} and {}",
            assumption.name, assumption.schemes[0], assumption.schemes[1]
        ));
    }
}

/// Forwards progress of simulations to `reporter`.
fn forward(reporter: &mut dyn Reporter) -> impl FnMut(Progress) {
    move |progress| reporter.progress(progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;
    impl Reporter for Silent {
        fn stage(&mut self, _: &str, _: &'static str) {}
        fn progress(&mut self, _: Progress) {}
    }

    /// The written machine file can be loaded whatever was measured, and each value has a comment
    /// on its origin.
    #[test]
    fn the_machine_that_is_written_can_be_used() {
        let options = Options {
            bytes: MIN_BYTES,
            rounds: 1,
            run_nanoseconds: 200_000,
            accesses: 2_000,
            name: "mine".into(),
            ..Options::new(true)
        };
        let found = calibrate(&options, &mut Silent).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, &found.file).unwrap();
        let machine = Machine::load(path.to_str().unwrap()).unwrap();
        assert_eq!(machine.name, "mine");
        let clock = found.quantities.iter().find(|one| one.unit == "GHz").unwrap();
        assert!((machine.core.frequency_ghz - clock.value.unwrap()).abs() < 1e-3);
        assert!(found.file.matches("# measured: ").count() > 10, "{}", found.file);
        assert!(!found.checks.is_empty());
        let nearest = found.nearest.as_ref().unwrap();
        assert!(nearest.values > 5 && nearest.mean_ratio >= 1.0, "{nearest:?}");
        let costs = &machine.operating_system;
        assert!(costs.measured_on.is_some(), "{}", found.file);
        let fault = found.quantities.iter().find(|one| one.name == "page fault, 4KB").unwrap();
        let written = costs.fault_4k_ns + costs.zero_4k_ns + costs.map_ns;
        let measured = fault.measured.unwrap().median;
        // The parts of a 4KB page fault add up to its duration, except for mapping time that fork
        // does not show.
        let surplus = written - measured;
        assert!((-1.0..=costs.map_ns + 60.0).contains(&surplus), "{written} of {measured}");
    }

    #[test]
    fn costs_that_were_equal_follow_what_was_measured() {
        let mut file = MachineFile::load("ice-lake-sp").unwrap();
        file.complete_costs().unwrap();
        let before = file.clone();
        let number = |key: &str| before.number(key);
        let measured = |key, value| {
            let quantity = Quantity::of("", "ns", &[Some(value)]);
            Quantity { key: Some(key), value: Some(value), ..quantity }
        };
        let found = [
            measured("operating_system.fault_4k_ns", 1_000.0),
            measured("operating_system.zero_2m_ns", 100_000.0),
        ];
        follow(&mut file, &found, &number).unwrap();
        let of = |key: &str| file.number(&format!("operating_system.{key}")).unwrap();
        assert_eq!((of("split_ns"), of("migrate_frame_ns")), (1_000.0, 1_000.0));
        assert_eq!(of("zero_1g_ns"), 51_200_000.0);
        assert_eq!(of("fault_1g_ns"), 12_975.0, "2MB faults were not measured");
        // A value that differs from that of the measured key is not changed.
        let mut own = before.clone();
        own.set("operating_system.split_ns", 5.0, "").unwrap();
        let before = own.clone();
        follow(&mut own, &found, &|key| before.number(key)).unwrap();
        assert_eq!(own.number("operating_system.split_ns"), Some(5.0));
    }

    #[test]
    fn too_little_memory_is_refused() {
        let options = Options { bytes: 1 << 20, ..Options::new(true) };
        let Err(error) = calibrate(&options, &mut Silent) else { panic!("1MB is enough") };
        assert!(error.to_string().contains("expected at least 64M"), "{error}");
    }

    #[test]
    fn the_base_machine_is_chosen() {
        let mut notes = Vec::new();
        let known = Processor {
            vendor: "AuthenticAMD".into(),
            family: 25,
            model: 17,
            ..Default::default()
        };
        let mut base = |named, processor: &Processor| {
            base(named, processor, &mut notes).map_err(|e| e.to_string())
        };
        assert_eq!(base(None, &known).as_deref(), Ok("zen4-genoa"));
        let unknown = Processor { model: 250, ..known.clone() };
        assert_eq!(base(None, &unknown).as_deref(), Ok("zen4-genoa"));
        assert_eq!(base(Some("mine.toml"), &unknown).as_deref(), Ok("mine.toml"));
        let nobody = Processor { vendor: "Nobody".into(), ..known };
        assert!(base(None, &nobody).unwrap_err().contains("calibrate --base"));
        assert_eq!(base(Some("gtsm-table4"), &nobody).as_deref(), Ok("gtsm-table4"));
        assert_eq!(notes.len(), 1, "that no file describes the unknown one");
    }
}
