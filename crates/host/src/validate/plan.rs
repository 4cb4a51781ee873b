//! What is measured: benchmarks and sizes around the reach of the machine's TLBs; and the
//! assumptions under which it is predicted.

use perforate_capture::native::{Benchmark, Prepared, Processor};
use perforate_sim::Machine;

use crate::failure::Failure;

/// One benchmark of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub benchmark: Benchmark,
    pub bytes: u64,
}

impl Row {
    /// Name in tables.
    pub fn name(&self) -> String {
        let (shift, unit) = match self.bytes {
            bytes if bytes >= 1 << 30 => (30, "G"),
            bytes if bytes >= 1 << 20 => (20, "M"),
            _ => (10, "K"),
        };
        format!("{} {}{unit}", self.benchmark, self.bytes >> shift)
    }
}

/// The rows for a machine: the chase at half the second-level TLB's reach with 4KB pages, at four
/// times that reach, and at the full size; the others at the full size.
pub fn rows(machine: &Machine, size_bytes: u64) -> Vec<Row> {
    let reach = machine.tlb.l2.entries as u64 * 4096;
    let rounded = 1 << reach.ilog2(); // of what the machine has: at least a page
    let mut sizes: Vec<u64> = [rounded / 2, rounded * 4, size_bytes]
        .into_iter()
        .map(|bytes| bytes.clamp(Prepared::LEAST_BYTES, size_bytes))
        .collect();
    sizes.dedup();
    let chases = sizes.into_iter().map(|bytes| Row { benchmark: Benchmark::Chase, bytes });
    let others = [Benchmark::Random, Benchmark::Updates, Benchmark::Sequential];
    chases.chain(others.map(|benchmark| Row { benchmark, bytes: size_bytes })).collect()
}

/// What is assumed of the machine where it cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// Heading of its column.
    pub name: &'static str,
    /// Scheme that is simulated for 4KB pages.
    pub small: &'static str,
    /// Scheme that is simulated for large pages.
    pub large: &'static str,
}

/// No virtual machine.
const NATIVE: Assumption = Assumption { name: "no VM", small: "4k", large: "thp" };
/// Virtual machines, by the pages of the host.
const VIRTUAL: [Assumption; 2] = [
    Assumption { name: "VM, host 4KB", small: "4k+4k", large: "thp+4k" },
    Assumption { name: "VM, host 2MB", small: "4k+thp", large: "thp+thp" },
];

/// The assumptions to predict under: natively alone, or beside both for a virtual machine.
pub fn assumptions(processor: &Processor) -> Vec<Assumption> {
    let virtual_machines = if processor.is_virtual { &VIRTUAL[..] } else { &[] };
    std::iter::once(NATIVE).chain(virtual_machines.iter().copied()).collect()
}

/// The machine file asked for, or the one that describes this processor; and what differs.
pub fn machine(
    named: Option<&str>,
    processor: &Processor,
) -> Result<(Machine, Vec<String>), Failure> {
    let numbers = processor.vendor.as_deref().zip(processor.family).zip(processor.model);
    let own =
        numbers.and_then(|((vendor, family), model)| Machine::of_processor(vendor, family, model));
    let mut remarks = Vec::new();
    let machine = match (named, own) {
        (Some(name), _) => Machine::load(name)?,
        (None, Some(machine)) => machine,
        (None, None) => {
            remarks.push(format!(
                "no machine file describes this processor; {} stands in for it, and --machine \
                 chooses another",
                Machine::DEFAULT
            ));
            Machine::load(Machine::DEFAULT)?
        }
    };
    remarks.extend(differences(&machine, processor));
    Ok((machine, remarks))
}

/// Where the machine file says something else than the processor does.
fn differences(machine: &Machine, processor: &Processor) -> Vec<String> {
    let tlb = &machine.tlb;
    let entries = |level, page| processor.data_tlb_entries(level, page).map(u64::from);
    let bytes = |level| processor.data_cache_bytes(level);
    let compared = [
        ("L1 TLB entries for 4KB", entries(1, 4), Some(tlb.l1_data_4k.entries as u64)),
        ("L2 TLB entries for 4KB", entries(2, 4), Some(tlb.l2.entries as u64)),
        ("bytes of L1 data cache", bytes(1), Some(machine.cache.l1d.size_bytes)),
        ("bytes of L2 cache", bytes(2), Some(machine.cache.l2.size_bytes)),
        ("bytes of L3 cache", bytes(3), machine.cache.llc.as_ref().map(|cache| cache.size_bytes)),
    ];
    let differs = |(what, here, file): &(&str, Option<u64>, Option<u64>)| match (here, file) {
        (Some(here), Some(file)) if here != file => Some(format!(
            "{what}: {here} by the processor's own account, {file} in {}",
            machine.name
        )),
        (Some(here), None) => Some(format!("{what}: {here} here, none in {}", machine.name)),
        _ => None,
    };
    compared.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use perforate_capture::native::{CacheSize, TlbSize, TlbUse};

    use super::*;

    #[test]
    fn sizes_around_the_reach() {
        // 1536 entries reach 6MB, rounded down to 4MB.
        let machine = Machine::load("perforated-table2").unwrap();
        let names = |size| rows(&machine, size).iter().map(Row::name).collect::<Vec<_>>();
        assert_eq!(
            names(1 << 30),
            ["chase 2M", "chase 16M", "chase 1G", "random 1G", "updates 1G", "sequential 1G"]
        );
        assert_eq!(
            names(16 << 20),
            ["chase 2M", "chase 16M", "random 16M", "updates 16M", "sequential 16M"]
        );
        assert_eq!(names(1 << 16)[..2], ["chase 64K", "random 64K"]);
    }

    #[test]
    fn hosts_matter_in_virtual_machines_only() {
        let processor = Processor { is_virtual: true, ..Processor::default() };
        assert_eq!(assumptions(&processor).len(), 3);
        assert_eq!(assumptions(&Processor::default()), [NATIVE]);
        for assumption in assumptions(&processor) {
            let schemes = format!("{},{}", assumption.small, assumption.large);
            assert!(perforate_sim::Composition::list(&schemes).is_ok(), "{schemes}");
        }
    }

    #[test]
    fn the_processor_chooses_the_machine() {
        let tlb = |entries| TlbSize { level: 2, holds: TlbUse::Data, page_kilobytes: 4, entries };
        let cache = CacheSize { level: 3, is_for_instructions: false, size_bytes: 32 << 20 };
        let mut processor = Processor {
            vendor: Some("AuthenticAMD".into()),
            family: Some(25),
            model: Some(17),
            tlbs: vec![tlb(3072)],
            caches: vec![cache],
            ..Processor::default()
        };
        let (found, remarks) = machine(None, &processor).unwrap();
        assert_eq!((found.name.as_str(), remarks.len()), ("zen4-genoa", 0));
        processor.tlbs = vec![tlb(2048)];
        let (_, remarks) = machine(None, &processor).unwrap();
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].starts_with("L2 TLB entries for 4KB: 2048 by"), "{remarks:?}");
        processor.model = Some(200);
        let (found, remarks) = machine(None, &processor).unwrap();
        assert_eq!(found.name, Machine::DEFAULT);
        assert!(remarks[0].contains("no machine file describes"), "{remarks:?}");
        assert!(remarks[2].contains("none in perforated-table2"), "{remarks:?}");
        assert!(machine(Some("nowhere"), &processor).is_err());
    }
}
