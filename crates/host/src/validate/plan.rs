//! Plan of a validation: rows to measure (benchmarks at sizes around the reach of the machine's TLBs),
//! and assumptions under which they are predicted.

use perforate_config::Size;
use perforate_sim::Machine;
use perforate_types::PageSize;
use serde::Serialize;

use crate::HostError;
use crate::benchmark::{Benchmark, Prepared};
use crate::machine::{Processor, nearest_machine};

/// Benchmark at one size of memory, a row of the validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Benchmark that is measured and predicted.
    pub benchmark: Benchmark,
    /// Size of the benchmark's memory in bytes.
    pub bytes: u64,
}

impl Row {
    /// Name of the benchmark and its size in tables.
    pub fn name(&self) -> String {
        format!("{} {}", self.benchmark, Size(self.bytes))
    }
}

/// Chooses the benchmarks for a machine. The pointer chase runs at half the L2 TLB's reach with 4KB pages, at
/// four times that reach, and at the full size. The other benchmarks run at the full size.
pub(super) fn rows(machine: &Machine, size_bytes: u64) -> Vec<Row> {
    let reach = machine.tlb.l2_entries(PageSize::Size4K) as u64 * 4096;
    let rounded = 1 << reach.ilog2(); // machine files have at least one entry
    let mut sizes: Vec<u64> = [rounded / 2, rounded * 4, size_bytes]
        .into_iter()
        .map(|bytes| bytes.clamp(Prepared::MIN_BYTES, size_bytes))
        .collect();
    sizes.dedup();
    let chases = sizes.into_iter().map(|bytes| Row { benchmark: Benchmark::Chase, bytes });
    let others = [Benchmark::Random, Benchmark::Updates, Benchmark::Sequential];
    chases.chain(others.map(|benchmark| Row { benchmark, bytes: size_bytes })).collect()
}

/// An assumption about the host's page tables, which cannot be checked from inside a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// Heading of the assumption's column in tables.
    #[serde(rename = "assumption")]
    pub name: &'static str,
    /// Schemes that are simulated under the assumption, for 4KB pages and for 2MB pages.
    pub schemes: [&'static str; 2],
}

impl Assumption {
    /// Scheme that is simulated for layouts: the scheme for 2MB pages, restricted to memory for
    /// which the program asks for 2MB pages.
    pub(super) fn layout_scheme(&self) -> String {
        let large = self.schemes[1];
        match large.strip_prefix("thp") {
            Some(host) => format!("thp-madvise{host}"),
            None => large.to_owned(),
        }
    }
}

/// Assumption that there is no hypervisor.
const NATIVE: Assumption = Assumption { name: "no VM", schemes: ["4k", "thp"] };
/// Assumptions for virtual machines, by the page size of the host.
const VIRTUAL: [Assumption; 2] = [
    Assumption { name: "VM, host 4KB", schemes: ["4k+4k", "thp+4k"] },
    Assumption { name: "VM, host 2MB", schemes: ["4k+thp", "thp+thp"] },
];

/// Assumptions about the host's page tables to simulate for a processor: no hypervisor and, in a virtual
/// machine, also a host with 4KB and one with 2MB pages.
pub(super) fn assumptions(processor: &Processor) -> Vec<Assumption> {
    let virtual_machines = if processor.is_virtual() { &VIRTUAL[..] } else { &[] };
    std::iter::once(NATIVE).chain(virtual_machines.iter().copied()).collect()
}

/// Assumption for a machine whose host has a known page size.
pub(crate) fn assumption_of(is_virtual: bool, has_small_pages_below: bool) -> Assumption {
    match (is_virtual, has_small_pages_below) {
        (false, _) => NATIVE,
        (true, true) => VIRTUAL[0],
        (true, false) => VIRTUAL[1],
    }
}

/// Returns the chosen machine, or by default the one nearest to this processor, with notes on the
/// machine and on its differences from the processor.
pub(super) fn machine(
    chosen: Option<&Machine>,
    processor: &Processor,
) -> Result<(Machine, Vec<String>), HostError> {
    let mut remarks = Vec::new();
    let machine = match chosen {
        Some(machine) => machine.clone(),
        None => {
            let (machine, describes) = nearest_machine(processor)?;
            if !describes {
                remarks.push(format!(
                    "no machine file describes this processor; {} stands in for it. `perforate \
                     calibrate` measures one, and --machine chooses it",
                    machine.name
                ));
            }
            machine
        }
    };
    remarks.extend(machine.remarks.iter().cloned());
    remarks.extend(differences(&machine, processor));
    Ok((machine, remarks))
}

/// Describes the differences between the machine file and the sizes that the processor reports.
fn differences(machine: &Machine, processor: &Processor) -> Vec<String> {
    let (tlb, cache) = (&machine.tlb, &machine.cache);
    let llc_bytes = cache.llc.as_ref().map(|cache| cache.size_bytes);
    let compared = [
        (
            "L1 TLB entries for 4KB",
            processor.size("tlb.l1_data_4k"),
            Some(tlb.l1_data_4k.entries as u64),
        ),
        (
            "L2 TLB entries for 4KB",
            processor.size("tlb.l2"),
            Some(tlb.l2_entries(PageSize::Size4K) as u64),
        ),
        ("bytes of L1 data cache", processor.size("cache.l1d"), Some(cache.l1d.size_bytes)),
        ("bytes of L2 cache", processor.size("cache.l2"), Some(cache.l2.size_bytes)),
        ("bytes of L3 cache", processor.size("cache.llc"), llc_bytes),
    ];
    let name = &machine.name;
    let remark = |(quantity, here, file): (&str, Option<u64>, Option<u64>)| match (here?, file) {
        (here, Some(file)) if here == file => None,
        (here, Some(file)) => {
            Some(format!("{quantity}: {here} by the processor's own account, {file} in {name}"))
        }
        (here, None) => Some(format!("{quantity}: {here} here, none in {name}")),
    };
    compared.into_iter().filter_map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Hypervisor;
    use crate::machine::Stated;

    #[test]
    fn sizes_around_the_reach() {
        // 1536 entries of 4KB pages reach 6MB, rounded down to 4MB.
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
        let processor = Processor { hypervisor: Hypervisor::Present(None), ..Processor::default() };
        assert_eq!(assumptions(&processor).len(), 3);
        assert_eq!(assumptions(&Processor::default()), [NATIVE]);
        for assumption in assumptions(&processor) {
            let schemes = assumption.schemes.join(",");
            assert!(perforate_sim::Composition::list(&schemes).is_ok(), "{schemes}");
        }
        let of_layouts: Vec<String> =
            assumptions(&processor).iter().map(Assumption::layout_scheme).collect();
        assert_eq!(of_layouts, ["thp-madvise", "thp-madvise+4k", "thp-madvise+thp"]);
    }

    #[test]
    fn the_processor_chooses_the_machine() {
        let size = |section, size| Stated { section, size, ways: None, source: "" };
        let mut processor = Processor {
            vendor: "AuthenticAMD".into(),
            family: 25,
            model: 17,
            stated: vec![size("tlb.l2", 3072), size("cache.llc", 32 << 20)],
            ..Processor::default()
        };
        let (found, remarks) = machine(None, &processor).unwrap();
        assert_eq!((found.name.as_str(), remarks.len()), ("zen4-genoa", 0));
        processor.stated[0].size = 2048;
        let (_, remarks) = machine(None, &processor).unwrap();
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].starts_with("L2 TLB entries for 4KB: 2048 by"), "{remarks:?}");
        processor.model = 200;
        let (found, remarks) = machine(None, &processor).unwrap();
        assert_eq!(found.name, "zen4-genoa", "of the same vendor");
        assert!(remarks[0].contains("no machine file describes"), "{remarks:?}");
        processor.vendor = "Nobody".into();
        let error = machine(None, &processor).unwrap_err().to_string();
        assert!(error.contains("\"Nobody\" family 25 model 200"), "{error}");
        let chosen = Machine::load(Machine::DEFAULT).unwrap();
        let (_, remarks) = machine(Some(&chosen), &processor).unwrap();
        assert!(remarks[1].contains("none in perforated-table2"), "{remarks:?}");
    }
}
