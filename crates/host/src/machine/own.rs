//! The machine `host`: a bundled machine of the same maker, or the one that `calibrate` measured.
//! Its TLBs and caches are replaced by those that the processor reports.

use std::path::{Path, PathBuf};

use perforate_sim::{Machine, MachineFile, SimError};

use super::Processor;
use super::stated::Stated;
use crate::HostError;
use crate::calibrate::tlb_geometry;

/// Path at which `calibrate` stores its last machine file; `None` if there is no cache folder.
pub fn kept_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("perforate").join("calibrated.toml"))
}

/// Builds the machine file for the processor that runs this process.
///
/// # Errors
/// If there is no bundled machine by the processor's maker, or the processor does not identify itself.
pub fn own_machine() -> Result<MachineFile, HostError> {
    machine_of(&Processor::own(), kept_file().as_deref())
}

fn machine_of(processor: &Processor, kept: Option<&Path>) -> Result<MachineFile, HostError> {
    let Base { mut file, name, is_measured, mut remarks } = base(processor, kept)?;
    remarks.extend(state(&mut file, processor, is_measured, &name)?);
    let source = if processor.is_arm() { "/proc/cpuinfo" } else { "CPUID leaves 0 and 1" };
    file.state("processors", &processor.listed(), source)?;
    let Processor { name: own, vendor, .. } = processor;
    let own_name = if own.is_empty() { vendor } else { own };
    file.rename("host", &format!("{own_name}, by its own account; the rest is {name}"));
    for remark in remarks {
        file.remark(format!("machine: {remark}"));
    }
    Ok(file)
}

/// Machine file that is completed with the TLBs and caches that the processor reports.
struct Base {
    file: MachineFile,
    /// Name of the machine in remarks.
    name: String,
    is_measured: bool,
    remarks: Vec<String>,
}

/// Returns the calibrated machine file `kept` if it was measured on this processor, otherwise that
/// of the nearest bundled machine.
fn base(processor: &Processor, kept: Option<&Path>) -> Result<Base, HostError> {
    let mut remarks = Vec::new();
    match kept.filter(|path| path.exists()).map(|path| measured(path, processor)) {
        Some(Ok(file)) => {
            let name = "what calibrate measured".into();
            return Ok(Base { file, name, is_measured: true, remarks });
        }
        Some(Err(problem)) => remarks.push(problem),
        None => {}
    }
    let (nearest, describes) = nearest_machine(processor)?;
    let name = nearest.name;
    remarks.push(format!(
        "clock and latencies are {name}'s; `perforate calibrate` measures this machine's"
    ));
    if !describes {
        remarks.push(format!(
            "no machine file describes this processor; what it does not state is {name}'s"
        ));
    }
    Ok(Base { file: MachineFile::load(&name)?, name, is_measured: false, remarks })
}

/// Loads the calibrated machine file at `path`, if it was measured on a processor of this model
/// and stepping.
fn measured(path: &Path, processor: &Processor) -> Result<MachineFile, String> {
    let name = path.to_string_lossy();
    let file = MachineFile::load(&name).map_err(|error| error.to_string())?;
    let machine = file.machine().map_err(|error| error.to_string())?;
    let Processor { vendor, family, model, stepping, .. } = processor;
    match machine.is_of(vendor, *family, *model, *stepping) {
        true => Ok(file),
        false => Err(format!("{name} was measured on another processor")),
    }
}

/// Writes the TLBs and caches that the processor reports into the machine file. Returns remarks on
/// missing data.
fn state(
    file: &mut MachineFile,
    processor: &Processor,
    is_measured: bool,
    base: &str,
) -> Result<Vec<String>, SimError> {
    // The last level is shared, so the measured size (the part that neighbours leave) is kept.
    let is_stated = |one: &&Stated| !(is_measured && one.section == "cache.llc");
    for stated in processor.stated.iter().filter(is_stated) {
        let source = format!("CPUID leaf {}", stated.source);
        let (size, ways) = fitting(file, stated);
        file.state(
            stated.section,
            &format!("{{ {} = {size}, ways = {ways} }}", stated.size_name()),
            &source,
        )?;
    }
    for part in &processor.l2_parts {
        file.state(part.key, &part.value, &format!("CPUID leaf {}", part.source))?;
    }
    let mut remarks = Vec::new();
    let says = |what: &str| processor.stated.iter().any(|one| one.section.starts_with(what));
    let hides = match processor.is_virtual() {
        _ if processor.is_arm() => "the kernel does not state",
        true => "the hypervisor hides",
        false => "CPUID does not state",
    };
    for (what, name) in [("tlb.", "the TLBs"), ("cache.", "the caches")] {
        if !says(what) {
            remarks.push(format!("{hides} {name} of this processor; they are those of {base}"));
        }
    }
    if processor.has_1g_pages == Some(false) {
        for key in ["tlb.l1_data_1g", "tlb.l2_1g"] {
            if file.value(key).is_some() {
                file.state(key, Machine::ABSENT, "")?;
            }
        }
        remarks.push("the processor has no pages of 1GB".into());
    }
    Ok(remarks)
}

/// Size and ways of a TLB or cache, rounded to a geometry that machine files allow.
fn fitting(file: &MachineFile, stated: &Stated) -> (u64, u64) {
    let own = file.value(&format!("{}.ways", stated.section)).and_then(|ways| ways.parse().ok());
    let ways = stated.ways.or(own).unwrap_or(1).max(1);
    if !stated.section.starts_with("tlb.") {
        return (stated.size, ways);
    }
    if stated.size.is_multiple_of(ways) && (stated.size / ways).is_power_of_two() {
        return (stated.size, ways);
    }
    let (entries, ways) = tlb_geometry(stated.size as i64, ways as i64);
    (entries as u64, ways as u64)
}

/// Returns the bundled machine that describes this processor, and true. If there is none, returns the
/// machine of the same maker with the nearest family, model and stepping, and false.
///
/// # Errors
/// [`HostError::UnknownProcessor`] if there is no bundled machine by the maker.
pub(crate) fn nearest_machine(processor: &Processor) -> Result<(Machine, bool), HostError> {
    let Processor { vendor, family, model, stepping, .. } = processor;
    if let Some(machine) = Machine::of_processor(vendor, *family, *model, *stepping) {
        return Ok((machine, true));
    }
    let distance = |machine: &Machine| {
        let of_maker = machine.processors.iter().filter(|known| known.vendor == *vendor);
        let distances = of_maker.flat_map(|known| {
            let steppings = known.steppings.iter().map(|one| one.abs_diff(*stepping));
            let of_stepping = steppings.min().unwrap_or(0);
            let of_family = known.family.abs_diff(*family);
            known.models.iter().map(move |one| (of_family, one.abs_diff(*model), of_stepping))
        });
        distances.min()
    };
    let machines = Machine::bundled().into_iter();
    let of_maker = machines.filter_map(|machine| Some((distance(&machine)?, machine)));
    match of_maker.min_by_key(|(distance, _)| *distance) {
        Some((_, machine)) => Ok((machine, false)),
        None => Err(HostError::UnknownProcessor { processor: processor.identity() }),
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::PageSize;

    use super::super::processor::tests::processor;
    use super::*;

    /// Creates an EPYC of family 25 and model 17, with TLBs other than those of the machine file.
    fn genoa() -> Processor {
        processor(
            b"AuthenticAMD",
            &[
                ((1, 0), [0x00a1_0f11, 0, 1 << 31, 0]),
                ((0x8000_0001, 0), [0, 0, 0, 1 << 26]),
                ((0x8000_0005, 0), [0xff48_ff40, 0xff48_ff40, 0x2008_0140, 0x2008_0140]),
                ((0x8000_0006, 0), [0x5c00_2200, 0x6800_4200, 0x0400_6140, 0x0a00_9140]),
            ],
        )
    }

    #[test]
    fn a_known_processor_has_its_own_tlbs_and_the_files_latencies() {
        let machine = machine_of(&genoa(), None).unwrap().machine().unwrap();
        let base = Machine::load("zen4-genoa").unwrap();
        assert_eq!(machine.name, "host");
        assert_eq!((machine.tlb.l2.entries, base.tlb.l2.entries), (2048, 3072));
        assert_eq!((machine.tlb.l1_data_4k.entries, machine.tlb.l1_data_4k.ways), (72, 72));
        assert_eq!((machine.cache.l2.size_bytes, machine.cache.l2.ways), (1 << 20, 8));
        assert_eq!(machine.cache.l2.latency_cycles, base.cache.l2.latency_cycles);
        let remarks = machine.remarks.join("\n");
        assert!(remarks.contains("latencies are zen4-genoa's"), "{remarks}");
        assert!(!remarks.contains("no machine file describes"), "{remarks}");
        let text = machine_of(&genoa(), None).unwrap().text();
        assert!(text.contains("# CPUID leaf 8000_0006"), "{text}");
        assert!(Machine::from_text("host.toml", &text).unwrap().is_of("AuthenticAMD", 25, 17, 1));
    }

    /// Completes the file of Ice Lake for another model with Skylake's descriptors, whose L2 TLB is
    /// not divided into halves.
    #[test]
    fn the_second_level_has_the_parts_that_the_processor_states() {
        let skylake = processor(
            b"GenuineIntel",
            &[
                ((1, 0), [0x0006_06c0, 0, 0, 0]),
                ((2, 0), [0x76_03_63_01, 0xc3_b6, 0, 0]),
                ((0x8000_0001, 0), [0, 0, 0, 1 << 26]),
            ],
        );
        let machine = machine_of(&skylake, None).unwrap().machine().unwrap();
        assert!(machine.summary.ends_with("the rest is ice-lake-sp"), "{}", machine.summary);
        let entries = PageSize::ALL.map(|size| machine.tlb.l2_entries(size));
        assert_eq!((entries, machine.tlb.l2.ways), ([1536, 1536, 16], 6));
        let base = Machine::load("ice-lake-sp").unwrap();
        assert_eq!(PageSize::ALL.map(|size| base.tlb.l2_entries(size)), [2048, 1024, 1024]);
    }

    #[test]
    fn an_arm_processor_has_the_files_tlbs() {
        let arm =
            |model| Processor { vendor: "0x41".into(), family: 8, model, ..Processor::default() };
        let machine = machine_of(&arm(0xd0c), None).unwrap().machine().unwrap();
        let base = Machine::load("neoverse-n1").unwrap();
        assert_eq!((machine.name.as_str(), machine.tlb), ("host", base.tlb));
        assert!(machine.is_of("0x41", 8, 0xd0c, 0));
        let remarks = machine.remarks.join("\n");
        assert!(remarks.contains("latencies are neoverse-n1's"), "{remarks}");
        assert!(remarks.contains("the kernel does not state the TLBs"), "{remarks}");
        assert!(!remarks.contains("no machine file describes"), "{remarks}");
        // Cortex-A78, the sister of Neoverse V1, and Neoverse N2.
        for (part, nearest) in [(0xd41, "neoverse-v1"), (0xd49, "neoverse-v2")] {
            let remarks =
                machine_of(&arm(part), None).unwrap().machine().unwrap().remarks.join("\n");
            let note = "no machine file describes this processor; what it does not state is ";
            assert!(remarks.contains(&format!("{note}{nearest}'s")), "{remarks}");
        }
        let apple = Processor { vendor: "0x61".into(), ..arm(0x32) };
        let error = machine_of(&apple, None).unwrap_err().to_string();
        assert!(error.contains("implementer 0x61, part 0x32"), "{error}");
    }

    #[test]
    fn hidden_tlbs_and_caches_are_noted() {
        let hidden = processor(b"GenuineIntel", &[((1, 0), [0x000c_06f2, 0, 1 << 31, 0])]);
        let machine = machine_of(&hidden, None).unwrap().machine().unwrap();
        let base = Machine::load("sapphire-rapids").unwrap();
        assert_eq!(machine.tlb.l2, base.tlb.l2);
        let remarks = machine.remarks.join("\n");
        assert!(remarks.contains("the hypervisor hides the TLBs"), "{remarks}");
        assert!(remarks.contains("the hypervisor hides the caches"), "{remarks}");
        assert!(remarks.contains("no machine file describes this processor"), "{remarks}");
        assert!(remarks.contains("no pages of 1GB"), "{remarks}");
        assert!(machine.tlb.l1_data_1g.is_none() && base.tlb.l1_data_1g.is_some());
    }

    #[test]
    fn what_was_measured_is_used_on_the_processor_it_was_measured_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calibrated.toml");
        let file = |model: u32| {
            let text = format!(
                "base = \"zen4-genoa\"\nname = \"calibrated\"\ncache.l2.latency_cycles = 17\n\
                 cache.llc.size_bytes = 8388608\n\
                 processors = [{{ vendor = \"AuthenticAMD\", family = 25, models = [{model}] }}]\n"
            );
            std::fs::write(&path, text).unwrap();
            machine_of(&genoa(), Some(&path)).unwrap().machine().unwrap()
        };
        assert_eq!(file(17).name, "host");
        let machine = file(17);
        assert_eq!(machine.cache.l2.latency_cycles, 17);
        assert_eq!(
            (machine.tlb.l2.entries, machine.cache.llc.unwrap().size_bytes),
            (2048, 8 << 20)
        );
        assert_eq!(machine.remarks, [""; 0]);
        let machine = file(1);
        assert_eq!(machine.cache.l2.latency_cycles, 10);
        assert!(machine.remarks[0].contains("measured on another processor"));
    }

    #[test]
    fn machines_of_other_makers_are_not_used() {
        for nobody in [processor(b"CentaurHauls", &[]), Processor::default()] {
            let error = machine_of(&nobody, None).unwrap_err().to_string();
            assert!(error.contains("no bundled machine is of the maker of"), "{error}");
        }
        // A calibrated machine is used, regardless of the base machine of its calibration.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calibrated.toml");
        let own = "processors = [{ vendor = \"CentaurHauls\", family = 0, models = [0] }]";
        std::fs::write(&path, format!("base = \"ice-lake-sp\"\n{own}\n")).unwrap();
        let centaur = processor(b"CentaurHauls", &[]);
        assert_eq!(machine_of(&centaur, Some(&path)).unwrap().machine().unwrap().name, "host");
    }

    #[test]
    fn a_processor_without_a_machine_file_has_the_nearest() {
        for (model, stepping, name, describes) in [
            (42, 7, "sandy-bridge-table6", false), // Sandy Bridge client
            (60, 3, "haswell-ex", false),          // Haswell client
            (63, 2, "haswell-ex", false),          // Haswell-EP
            (63, 4, "haswell-ex", true),
            (79, 1, "skylake-sp-4114", false), // Broadwell-EP
            (85, 4, "skylake-sp-4114", true),
            (85, 7, "cascade-lake-6252", true),
            (85, 11, "cascade-lake-6252", false), // Cooper Lake
            (106, 6, "ice-lake-sp", true),
            (126, 5, "tiger-lake", false), // Ice Lake client, the same TLBs
            (140, 1, "tiger-lake", true),
            (143, 8, "sapphire-rapids", true),
            (207, 2, "sapphire-rapids", false), // Emerald Rapids
        ] {
            let vendor = "GenuineIntel".into();
            let processor =
                Processor { vendor, family: 6, model, stepping, ..Processor::default() };
            let (machine, known) = nearest_machine(&processor).unwrap();
            assert_eq!((machine.name.as_str(), known), (name, describes), "{model} {stepping}");
            let remarks =
                machine_of(&processor, None).unwrap().machine().unwrap().remarks.join("\n");
            let says = format!(
                "no machine file describes this processor; what it does not state is {name}'s"
            );
            assert_eq!(remarks.contains(&says), !describes, "{remarks}");
        }
    }
}
