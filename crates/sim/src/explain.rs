//! Step-by-step explanation of one address translation, for each relevant state of TLBs and walk
//! caches.

mod gap_tolerance;
mod shadowed;

use std::collections::BTreeMap;

use perforate_mmu::{Case, Dimension, Host, SidebandTlb};
use perforate_schemes::gap_tolerant::{GapTolerantEntry, GapTolerantRadix, Superpage};
use perforate_schemes::perforated::PerforatedRadix;
use perforate_schemes::shadow::Shadow;
use perforate_timing::Core;
use perforate_types::{
    AccessKind, Action, CONTIGUOUS_PAGES, Chunk, Counters, Frame, GuestFrame, Instruction,
    Operation, PageSize, PageTableEntry, PhysicalAddress, Purpose, Step, Steps, Unit,
    VirtualAddress,
};

use crate::simulation::{RunOptions, Simulation};
use crate::system::SystemOptions;
use crate::{Composition, Machine, MemoryState, SimError, System, Workload, open_workload};

/// State of TLBs and walk caches before the explained translation. From `FirstLevelLost` to
/// `BitmapLost`, each state lacks more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlbState {
    /// TLBs and walk caches are empty.
    Cold,
    /// The first-level TLB is empty; the second level and the walk caches still hold their entries.
    FirstLevelLost,
    /// The entry of the page is evicted from both TLB levels; the walk caches still hold the page's
    /// gap-tolerant entry.
    PageLost,
    /// The 4KB entry of the hole is evicted from both TLB levels.
    HoleLost,
    /// The entry of the page is evicted from both TLB levels, and the bitmap entry from the second
    /// level.
    BitmapLost,
}

/// One hardware step of a translation as text, with its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The step's action and its result.
    pub text: String,
    /// Duration of the step with empty data caches, in cycles.
    pub cold_cycles: u64,
    /// Duration of the step if every line hits in the first cache that the walker looks up, in
    /// cycles.
    pub warm_cycles: u64,
}

/// Explanation of a translation that starts in one state of TLBs and walk caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// State of TLBs and walk caches before the translation.
    pub situation: TlbState,
    /// Way in which TLBs, filter and bitmap complete the translation (the cases of P §IV.D).
    pub case: Case,
    /// True if the page missed in the second-level TLB, so a page walk had to find it.
    pub walked: bool,
    /// Physical address that results from the translation.
    pub physical: PhysicalAddress,
    /// Steps of the hardware in their order, without fills.
    pub steps: Vec<Explained>,
}

impl Explanation {
    /// Returns the total cycles with empty data caches, and with warm data caches.
    pub fn cycles(&self) -> (u64, u64) {
        let sum = |cycles: fn(&Explained) -> u64| self.steps.iter().map(cycles).sum();
        (sum(|step| step.cold_cycles), sum(|step| step.warm_cycles))
    }
}

/// Number of the program's accesses from which example addresses are chosen.
const ACCESSES_REMEMBERED: usize = 1 << 16;

/// Final state of a program's run under one scheme, in which translations are explained.
struct Subject {
    system: System,
    machine: Machine,
    /// Guest frame of each physical frame in which the walker found a table of the guest.
    guest_tables: BTreeMap<Frame, GuestFrame>,
}

/// Runs the workload, then explains the translation of a load from each of `addresses`. Without
/// addresses, chooses examples. Returns each address with its explanations; there are none if an
/// access to the address would fault.
///
/// # Errors
/// As for a run of the workload.
pub fn explain(
    machine: &Machine,
    scheme: impl Into<Composition>,
    memory: &MemoryState,
    workload: &Workload,
    seed: u64,
    addresses: &[VirtualAddress],
) -> Result<Vec<(VirtualAddress, Vec<Explanation>)>, SimError> {
    let composition = scheme.into();
    machine.check_memory(&composition, memory)?;
    composition.host.map_or(Ok(()), |_| memory.check_host())?;
    let mut source = open_workload(workload, memory, seed)?;
    let implicit_maps = !source.metadata().has_events;
    let system = SystemOptions { check: true, implicit_maps, counts_only: false };
    let options = RunOptions { functional: true, system, warmup: 0 };
    let simulation = Simulation::new(machine, composition, memory, seed, options)?;
    let mut simulation = simulation.with_skipped(workload.skip);
    let (mut chunk, mut accessed) = (Chunk::default(), Vec::new());
    while source.next_chunk(&mut chunk)? {
        simulation.run(&chunk)?;
        accessed.extend(chunk.accesses.iter().map(|access| access.address));
        accessed.truncate(ACCESSES_REMEMBERED);
    }
    let mut subject = Subject {
        system: simulation.into_system(),
        machine: machine.clone(),
        guest_tables: BTreeMap::new(),
    };
    let chosen;
    let addresses = if addresses.is_empty() {
        chosen = subject.example_addresses(&accessed);
        &chosen
    } else {
        addresses
    };
    addresses.iter().map(|&address| Ok((address, subject.explain(address)?))).collect()
}

impl Subject {
    /// Chooses example addresses, as far as they exist. In a perforated page: a sub-page in a
    /// region without holes, one in a region with holes, and a hole with a frame. Elsewhere: an
    /// address in a gap-tolerant superpage, and an address in an ordinary page.
    fn example_addresses(&self, accessed: &[VirtualAddress]) -> Vec<VirtualAddress> {
        let own = self.system.own_tables();
        let perforated: Option<&PerforatedRadix> = own.part();
        let pages = perforated.map(PerforatedRadix::perforated_pages).unwrap_or_default();
        let mut addresses = Vec::new();
        if let Some(page) = pages.iter().find(|page| page.filter != 0xff).or(pages.first()) {
            let region = |set: bool| {
                (0..512).find(|index| {
                    (page.filter >> (index / 64) & 1 != 0) == set && !page.holes.contains(*index)
                })
            };
            let hole = page.allocated.iter().next();
            for index in [region(false), region(true), hole].into_iter().flatten() {
                addresses.push(page.page.add(index as u64).address());
            }
        }
        let perforated = |address: VirtualAddress| {
            let first = address.page().align_down(PageSize::Size2M);
            pages.iter().any(|page| page.page == first)
        };
        let space = self.system.kernel().current();
        let superpages: Option<&GapTolerantRadix> = own.part();
        let in_superpage = |address: VirtualAddress| {
            superpages
                .is_some_and(|tables| tables.look_at_superpage(space, address.page()).is_some())
        };
        let other = |address: VirtualAddress| !perforated(address) && !in_superpage(address);
        addresses.extend(accessed.iter().copied().find(|address| in_superpage(*address)));
        addresses.extend(accessed.iter().copied().find(|address| other(*address)));
        addresses
    }

    /// Returns the gap-tolerant superpage around an address, in the guest's (or native) tables.
    /// `None` if there is none.
    fn superpage(&self, address: VirtualAddress) -> Option<Superpage> {
        let space = self.system.kernel().current();
        let tables: &GapTolerantRadix = self.system.mmu().dimension().part()?;
        tables.look_at_superpage(space, address.page())
    }

    /// Explains an address in every relevant state, without changing the program's memory. Returns
    /// no explanation if an access would fault. Accesses the address once before, because hosts and
    /// shadow tables fill their entries on the first access.
    fn explain(&mut self, address: VirtualAddress) -> Result<Vec<Explanation>, SimError> {
        let space = self.system.kernel().current();
        let is_mapped = self.system.own_tables().look_at(space, address.page()).is_some();
        if !is_mapped || self.system.translate(AccessKind::Read, address)?.is_none() {
            return Ok(Vec::new());
        }
        let cold = self.explain_in(TlbState::Cold, address)?;
        let others: &[TlbState] = match cold.case {
            Case::Regular if self.superpage(address).is_some() => {
                &[TlbState::FirstLevelLost, TlbState::PageLost]
            }
            Case::BesideFirstLevel => &[],
            Case::FirstLevel
            | Case::Beside
            | Case::Intermediate
            | Case::Regular
            | Case::Filtered => &[TlbState::FirstLevelLost],
            Case::BitmapInPlace
            | Case::ReadInPlace
            | Case::IntermediateBitmap
            | Case::IntermediateRead => &[TlbState::FirstLevelLost, TlbState::BitmapLost],
            Case::BitmapHole | Case::ReadHole => {
                &[TlbState::FirstLevelLost, TlbState::HoleLost, TlbState::BitmapLost]
            }
        };
        let mut explanations = vec![cold];
        for &situation in others {
            explanations.push(self.explain_in(situation, address)?);
        }
        Ok(explanations)
    }

    /// Evicts the entries for `address` from TLBs and walk caches, so that they are in the given
    /// state. For [`TlbState::Cold`], empties them.
    fn forget(&mut self, situation: TlbState, address: VirtualAddress) {
        let (space, page) = (self.system.kernel().current(), address.page());
        let mmu = self.system.mmu_mut();
        if situation == TlbState::Cold {
            return mmu.flush();
        }
        mmu.flush_first_level();
        if situation != TlbState::FirstLevelLost {
            mmu.evict_page(space, page);
        }
        if situation == TlbState::BitmapLost {
            mmu.evict_bitmap(space, page);
        }
    }

    fn explain_in(
        &mut self,
        situation: TlbState,
        address: VirtualAddress,
    ) -> Result<Explanation, SimError> {
        self.forget(situation, address);
        let found = self
            .system
            .translate(AccessKind::Read, address)?
            .expect("the address was translated before");
        let tables = self.system.located_tables().iter().map(|&(page, frame)| (frame, page));
        self.guest_tables.extend(tables);
        let steps = self.system.steps().clone();
        let mut explained = Vec::new();
        let (mut cold_before, mut warm_before) = (0, 0);
        for (index, step) in steps.as_slice().iter().enumerate() {
            let prefix = steps.prefix(index + 1);
            let cold = self.cost(&prefix, false)?;
            let warm = self.cost(&prefix, true)?;
            if let Some(text) = self.text(step, address) {
                explained.push(Explained {
                    text,
                    cold_cycles: cold - cold_before,
                    warm_cycles: warm - warm_before,
                });
            }
            (cold_before, warm_before) = (cold, warm);
        }
        if situation == TlbState::Cold
            && let Some(text) = shadowed::origin(&self.system, address)
        {
            explained.push(Explained { text, cold_cycles: 0, warm_cycles: 0 });
        }
        Ok(Explanation {
            situation,
            case: found.case,
            walked: found.walked,
            physical: found.physical,
            steps: explained,
        })
    }

    /// Returns the cycles that these steps take in the timing model on an idle machine, with warm
    /// data caches if `warm`, otherwise with empty ones.
    fn cost(&self, steps: &Steps, warm: bool) -> Result<u64, SimError> {
        let mut core = Core::new(&self.machine.timing(), self.system.mmu().slots())?;
        let load = Instruction { length: 4, accesses: 1, ..Instruction::default() };
        let drain = Instruction { operation: Operation::Serializing, length: 4, ..load };
        if warm {
            for step in steps.as_slice() {
                if let Action::Read { address } = step.action {
                    core.begin(&load);
                    core.load(address, 8, 0, &Steps::new());
                    core.finish(&load);
                }
            }
        }
        core.begin(&drain);
        core.finish(&drain);
        core.start_measuring();
        core.begin(&load);
        core.load(PhysicalAddress::new(0), 8, 0, steps);
        core.finish(&load);
        core.drain();
        let mut counters = Counters::default();
        core.counters(&mut counters);
        Ok(counters.get("translation_cycles").unwrap_or_default() as u64)
    }

    /// Describes a step in words; `None` for fills.
    fn text(&self, step: &Step, asked: VirtualAddress) -> Option<String> {
        let (guest, host) = match self.system.hypervisor() {
            Some(host) if host.shadow_tables().is_some() => ("shadow ", "host's "),
            Some(_) => ("guest's ", "host's "),
            None => ("", ""),
        };
        let whose = if step.purpose.is_host() { host } else { guest };
        Some(match (step.action, step.purpose) {
            (Action::Hit { unit, .. }, purpose) => self.look_up(unit, purpose, whose, true),
            (Action::Miss { unit }, purpose) => self.look_up(unit, purpose, whose, false),
            (Action::Check, _) => {
                format!("{whose}direct segment: BASE, LIMIT and escape filter checked")
            }
            (Action::Select, purpose) => {
                let own = (!purpose.is_host()).then(|| self.superpage(asked)).flatten();
                format!("{whose}{}", gap_tolerance::selected(own))
            }
            (Action::Fill { .. }, _) => return None,
            (Action::Read { address }, Purpose::Bitmap | Purpose::HostBitmap) => {
                format!("the {whose}block's bitmap line at {address:#x}")
            }
            (Action::Read { address }, purpose) => {
                let content = self.content(address, purpose);
                format!("{whose}{} at {address:#x}: {content}", purpose.label())
            }
        })
    }

    /// Describes a look-up of a TLB or walk cache in words.
    fn look_up(&self, unit: Unit, purpose: Purpose, whose: &str, is_found: bool) -> String {
        let found = if is_found { "entry found" } else { "nothing found" };
        match (unit, purpose) {
            (Unit::L2Tlb, Purpose::Bitmap) => {
                let found = if is_found { "bitmap entry found" } else { "no bitmap entry" };
                format!("L2 TLB, second look-up: {found}")
            }
            (Unit::L2Tlb | Unit::NestedTlb, Purpose::HostBitmap) => {
                let found =
                    if is_found { "nested bitmap entry found" } else { "no nested bitmap entry" };
                found.into()
            }
            (Unit::L2Tlb | Unit::NestedTlb, Purpose::HostPage) => format!("nested TLB: {found}"),
            (Unit::L2Tlb, _) => format!("L2 TLB: {found}"),
            (Unit::SidebandTlb | Unit::HostSidebandTlb, _) => {
                let dimension = self.system.mmu().dimension();
                let host = dimension.host().map(|host| host.dimension());
                let owner = if unit == Unit::HostSidebandTlb { host } else { Some(dimension) };
                let name =
                    owner.and_then(|owner| owner.sideband_tlb()).map_or("unit", SidebandTlb::name);
                format!("{whose}{name}: {found}")
            }
            _ => format!("{whose}walk cache: {found}"),
        }
    }

    /// Describes the page-table entry at a physical address of the machine.
    fn content(&self, address: PhysicalAddress, purpose: Purpose) -> String {
        let (dimension, place) = self.table(address, purpose);
        let memory = dimension.memory();
        match (purpose, dimension.part::<GapTolerantRadix>()) {
            (Purpose::Level2 | Purpose::HostLevel2, Some(tables)) => {
                let own = self.system.kernel().current();
                let host = self.system.mmu().dimension().host().map(Host::space);
                let space = host.filter(|_| purpose.is_host()).unwrap_or(own);
                gap_tolerance::content(GapTolerantEntry::read(memory, place), tables.mode(space))
            }
            _ => content(memory.entry(place), purpose),
        }
    }

    /// Returns the tables (of guest, host or hypervisor) that contain a physical address of the
    /// machine, and the address of the same byte in the address space of these tables.
    fn table(
        &self,
        address: PhysicalAddress,
        purpose: Purpose,
    ) -> (&dyn Dimension, PhysicalAddress) {
        let dimension = self.system.mmu().dimension();
        match dimension.host() {
            // Under shadow paging the hardware walks shadow tables, which belong to the host.
            Some(_) if dimension.part::<Shadow>().is_some() => (dimension, address),
            Some(host) if purpose.is_host() => (host.dimension(), address),
            Some(_) => {
                let page = self.guest_tables[&address.page()];
                let in_guest = Frame::new(page.number()).address();
                (dimension, in_guest.add(address.offset(PageSize::Size4K)))
            }
            None => (dimension, address),
        }
    }
}

fn content(entry: PageTableEntry, purpose: Purpose) -> String {
    let frame = entry.frame().address();
    match purpose {
        Purpose::Level2 | Purpose::HostLevel2 if entry.is_large() && entry.filter() != 0 => {
            let block = entry.leaf_frame(PageSize::Size2M).address();
            format!("perforated at {block:#x}, filter {:08b}", entry.filter())
        }
        // In a flat table, entries of 2MB pages are among the entries of 4KB pages.
        Purpose::Level2 | Purpose::HostLevel2 | Purpose::HostLevel1 if entry.is_large() => {
            format!("2MB page at {frame:#x}")
        }
        Purpose::Level3 | Purpose::HostLevel3 if entry.is_large() => {
            format!("1GB page at {frame:#x}")
        }
        Purpose::Level1 | Purpose::HostLevel1 if entry.is_contiguous() => {
            let first = entry.frame().number() / CONTIGUOUS_PAGES * CONTIGUOUS_PAGES;
            format!("4KB page of the contiguous 64KB at {:#x}", Frame::new(first).address())
        }
        Purpose::Level1 | Purpose::Hole | Purpose::HostLevel1 | Purpose::HostHole => {
            format!("4KB page at {frame:#x}")
        }
        _ => format!("table at {frame:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Contiguity, Permissions};

    use super::*;

    /// Each kind of entry at each place from which it may be read.
    #[test]
    fn entries_are_described_by_what_they_map() {
        use Purpose::*;
        let leaf = |size| PageTableEntry::leaf(Frame::new(0x40000), size, Permissions::READ);
        let (small, large, huge) =
            (leaf(PageSize::Size4K), leaf(PageSize::Size2M), leaf(PageSize::Size1G));
        let holes = PageTableEntry::perforated(Frame::new(0x40200), Permissions::READ, 0b1001);
        // The 64KB around it begin at 0x40000000 too, and its own frame is no multiple of 16.
        let contiguous =
            PageTableEntry::leaf(Frame::new(0x4000d), PageSize::Size4K, Permissions::READ)
                .with_contiguity(Contiguity::ContiguousBit);
        let table = PageTableEntry::table(Frame::new(0x77));
        for (entry, purposes, expected) in [
            (small, &[Level1, Hole, HostLevel1, HostHole][..], "4KB page at 0x40000000"),
            (contiguous, &[Level1, HostLevel1], "4KB page of the contiguous 64KB at 0x40000000"),
            (contiguous, &[Hole, HostHole], "4KB page at 0x4000d000"),
            (large, &[Level2, HostLevel2, HostLevel1], "2MB page at 0x40000000"),
            (huge, &[Level3, HostLevel3], "1GB page at 0x40000000"),
            (holes, &[Level2, HostLevel2], "perforated at 0x40200000, filter 00001001"),
            (table, &[Level4, Level3, Level2, HostLevel4, HostLevel2], "table at 0x77000"),
        ] {
            for &purpose in purposes {
                assert_eq!(content(entry, purpose), expected, "{purpose:?}");
            }
        }
    }
}
