//! Energy of address translation (D §IX.B): dynamic energy of each access to a structure, and
//! static energy over the time of the run.
//!
//! The structures are TLBs, walk caches, segment registers and escape filters, and the caches and
//! memory that page walkers read. The energy of the program's accesses to caches and memory is left
//! out, because it is the same under every scheme, except for prefetches and evictions.

use perforate_timing::{TranslationAccesses, WalkerAttachment};
use perforate_types::{Counter, Counters, Unit, figures, registered};

use crate::Machine;
use crate::costs::costs;

/// Upper limit of the energy of an access in pJ, and of a core's static power in mW.
const MOST: f64 = 1e6;

costs! {
    /// Energy of one access to each structure: the `[energy]` section of a machine file, which names
    /// the sources. A fill costs as much as a look-up. A structure that the machine lacks costs
    /// nothing.
    pub struct EnergyCosts {
        /// Energy of a look-up of the first-level TLB array for 4KB pages, data or instructions, in pJ.
        pub l1_tlb_4k_pj: f64 = 5.9,
        /// Energy of a look-up of the first-level TLB array for 2MB pages, in pJ. This array is looked
        /// up together with the other arrays.
        pub l1_tlb_2m_pj: f64 = 4.8,
        /// Energy of a look-up of the first-level TLB array for 1GB pages, in pJ. This array is looked
        /// up together with the other arrays.
        pub l1_tlb_1g_pj: f64 = 0.7,
        /// Energy of a look-up of the second-level TLB, in pJ: for all page sizes at once, for a bitmap
        /// entry, or for a nested entry that shares this TLB.
        pub l2_tlb_pj: f64 = 14.0,
        /// Energy of a look-up of the page-walk caches of guest or host, all levels at once, in pJ.
        pub walk_cache_pj: f64 = 3.1,
        /// Energy of a look-up of a nested TLB that is separate from the second-level TLB, in pJ.
        pub nested_tlb_pj: f64 = 5.9,
        /// Energy of a comparison with BASE and LIMIT of a direct segment and the addition of OFFSET,
        /// in pJ.
        pub segment_check_pj: f64 = 0.4,
        /// Energy of selecting a B-block (64th of a slice) from a 64-bit selection bitmap by prefix
        /// sums, in pJ.
        pub selection_pj: f64 = 0.4,
        /// Energy of a look-up of the escape filter, which accompanies each comparison with a segment,
        /// in pJ.
        pub escape_filter_pj: f64 = 0.5,
        /// Energy of a page walker's read of the first-level data cache, in pJ.
        pub l1d_read_pj: f64 = 174.0,
        /// Energy of a page walker's read of the second-level cache, in pJ.
        pub l2_read_pj: f64 = 1_392.0,
        /// Energy of a page walker's read of the last-level cache, in pJ.
        pub llc_read_pj: f64 = 0.0,
        /// Energy of a page walker's read of one line of main memory, in pJ.
        pub memory_read_pj: f64 = 16_000.0,
        /// Static power of the core, including its share of the rest of the chip, in mW.
        pub static_mw: f64 = 1_000.0,
    }
}

impl EnergyCosts {
    /// Checks each value against its range.
    ///
    /// # Errors
    /// A description of the first wrong value in one line, with the key and the range.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (key, value) in self.costs() {
            if !(0.0..=MOST).contains(&value) {
                return Err(format!("energy.{key} is {value}; expected 0 to {MOST}"));
            }
        }
        Ok(())
    }
}

/// Counts from which the energy of a run is computed.
pub(crate) struct Activity {
    /// Number of look-ups of the first-level data TLB.
    pub(crate) data_translations: u64,
    /// Number of look-ups of the first-level instruction TLB.
    pub(crate) fetch_translations: u64,
    /// Numbers of all other accesses to translation structures.
    pub(crate) accesses: TranslationAccesses,
    /// Duration of the run in cycles.
    pub(crate) cycles: u64,
}

/// Records the dynamic energy of translation in total and by structure, and the static energy.
pub(crate) fn record(machine: &Machine, activity: &Activity, out: &mut Counters) {
    let spent = EnergyUse::of(machine, activity);
    out.record(ENERGY, &spent);
    if spent.beside_l2_tlb > 0.0 {
        out.record(BESIDE, &spent);
    }
}

/// Energy of a run in pJ: dynamic energy by structure, and static energy.
#[derive(Clone, Copy, Debug)]
struct EnergyUse {
    l1_tlb: f64,
    l2_tlb: f64,
    walk_cache: f64,
    nested_tlb: f64,
    segment_check: f64,
    selection: f64,
    walker_l1d: f64,
    walker_l2: f64,
    walker_llc: f64,
    walker_memory: f64,
    /// Energy of a cache that a mechanism adds in parallel with the second-level TLB, in pJ. No
    /// paper publishes the energy of its look-up, so the energy of a second-level look-up is used,
    /// although that TLB has far more entries.
    beside_l2_tlb: f64,
    leaked: f64,
}

/// Number of picojoules in a nanojoule.
const PICOJOULES: f64 = 1000.0;

figures! {
    static ENERGY: EnergyUse, "Energy" {
        /// Dynamic energy of address translation: accesses to translation structures, including
        /// fills, times the energy per access in the machine file's `[energy]`.
        translation_energy_dynamic_nj, Nanojoules, Listed:
            |it| (it.structures().iter().sum::<f64>() + it.beside_l2_tlb, PICOJOULES);
        /// Dynamic translation energy of the first-level TLBs.
        translation_energy_dynamic_nj_l1_tlb, Nanojoules, Listed: |it| (it.l1_tlb, PICOJOULES);
        /// Dynamic translation energy of the second-level TLB.
        translation_energy_dynamic_nj_l2_tlb, Nanojoules, Listed: |it| (it.l2_tlb, PICOJOULES);
        /// Dynamic translation energy of the page-walk caches.
        translation_energy_dynamic_nj_walk_cache, Nanojoules, Listed:
            |it| (it.walk_cache, PICOJOULES);
        /// Dynamic translation energy of a nested TLB that is separate from the second-level TLB.
        translation_energy_dynamic_nj_nested_tlb, Nanojoules, Listed:
            |it| (it.nested_tlb, PICOJOULES);
        /// Dynamic translation energy of comparisons with direct segments, including their escape
        /// filters.
        translation_energy_dynamic_nj_segment_check, Nanojoules, Listed:
            |it| (it.segment_check, PICOJOULES);
        /// Dynamic translation energy of finding B-blocks in the selection bitmaps of gap-tolerant
        /// entries.
        translation_energy_dynamic_nj_selection, Nanojoules, Listed:
            |it| (it.selection, PICOJOULES);
        /// Dynamic translation energy of page walkers' reads of the first-level data cache.
        translation_energy_dynamic_nj_walker_l1d, Nanojoules, Listed:
            |it| (it.walker_l1d, PICOJOULES);
        /// Dynamic translation energy of page walkers' reads of the second-level cache.
        translation_energy_dynamic_nj_walker_l2, Nanojoules, Listed:
            |it| (it.walker_l2, PICOJOULES);
        /// Dynamic translation energy of page walkers' reads of the last-level cache.
        translation_energy_dynamic_nj_walker_llc, Nanojoules, Listed:
            |it| (it.walker_llc, PICOJOULES);
        /// Dynamic translation energy of page walkers' reads of main memory.
        translation_energy_dynamic_nj_walker_memory, Nanojoules, Listed:
            |it| (it.walker_memory, PICOJOULES);
        /// Static energy of the core: power in the machine file's `[energy]` times the time of the
        /// steady state.
        static_energy_nj, Nanojoules, Listed: |it| (it.leaked, PICOJOULES);
    }

    static BESIDE: EnergyUse, "Energy" {
        /// Dynamic translation energy of a cache that a mechanism adds in parallel with the
        /// second-level TLB, such as a range TLB.
        translation_energy_dynamic_nj_beside_l2_tlb, Nanojoules, Listed:
            |it| (it.beside_l2_tlb, PICOJOULES);
    }
}

/// Returns the descriptions of all energy counters. A run records the last one only if the scheme
/// has a cache in parallel with the second-level TLB.
pub(crate) fn counters() -> Vec<Counter> {
    [registered(ENERGY), registered(BESIDE)].concat()
}

impl EnergyUse {
    fn of(machine: &Machine, activity: &Activity) -> Self {
        let costs = &machine.energy;
        let accesses = &activity.accesses;
        let unit = |unit: Unit| accesses.units[unit as usize];
        let data = activity.data_translations + unit(Unit::L1DataTlb);
        let fetches = activity.fetch_translations + unit(Unit::L1InstructionTlb);
        let walk_cache = unit(Unit::WalkCache) + unit(Unit::HostWalkCache);
        let check_pj = costs.segment_check_pj + costs.escape_filter_pj;
        // A read looks up every cache from the walker's first cache down to the one that hits.
        let memory = accesses.reads_from_memory;
        let llc = if machine.cache.llc.is_some() { memory + accesses.reads_from_llc } else { 0 };
        let below_l2 = memory + accesses.reads_from_llc;
        let l2 = match machine.walker.attach {
            WalkerAttachment::Llc => 0,
            WalkerAttachment::L1d | WalkerAttachment::L2 => below_l2 + accesses.reads_from_l2,
        };
        let l1d = match machine.walker.attach {
            WalkerAttachment::L1d => l2 + accesses.reads_from_l1d,
            WalkerAttachment::L2 | WalkerAttachment::Llc => 0,
        };
        // A cache that only the walkers use is small, like a walk cache. Every read looks it up
        // first.
        let reads = match machine.walker.attach {
            WalkerAttachment::L1d => l1d,
            WalkerAttachment::L2 => l2,
            WalkerAttachment::Llc => llc,
        };
        let own = reads + accesses.reads_from_walker_cache;
        let walk_cache = walk_cache + if machine.cache.walker.is_some() { own } else { 0 };
        let beside = unit(Unit::SidebandTlb) + unit(Unit::HostSidebandTlb);
        // mW × ns = pJ
        let time_ns = activity.cycles as f64 / machine.core.frequency_ghz;
        Self {
            l1_tlb: data as f64 * data_tlb_pj(machine) + fetches as f64 * fetch_tlb_pj(machine),
            l2_tlb: unit(Unit::L2Tlb) as f64 * costs.l2_tlb_pj,
            walk_cache: walk_cache as f64 * costs.walk_cache_pj,
            nested_tlb: unit(Unit::NestedTlb) as f64 * costs.nested_tlb_pj,
            segment_check: accesses.segment_checks as f64 * check_pj,
            selection: accesses.selections as f64 * costs.selection_pj,
            walker_l1d: l1d as f64 * costs.l1d_read_pj,
            walker_l2: l2 as f64 * costs.l2_read_pj,
            walker_llc: llc as f64 * costs.llc_read_pj,
            walker_memory: memory as f64 * costs.memory_read_pj,
            beside_l2_tlb: beside as f64 * costs.l2_tlb_pj,
            leaked: costs.static_mw * time_ns,
        }
    }

    /// Returns the dynamic energy of the structures that any machine may have, in pJ.
    fn structures(&self) -> [f64; 10] {
        [
            self.l1_tlb,
            self.l2_tlb,
            self.walk_cache,
            self.nested_tlb,
            self.segment_check,
            self.selection,
            self.walker_l1d,
            self.walker_l2,
            self.walker_llc,
            self.walker_memory,
        ]
    }
}

/// Returns the energy of one look-up of all arrays of the first-level data TLB, in pJ.
fn data_tlb_pj(machine: &Machine) -> f64 {
    let (tlb, costs) = (&machine.tlb, &machine.energy);
    costs.l1_tlb_4k_pj
        + tlb.l1_data_2m.map_or(0.0, |_| costs.l1_tlb_2m_pj)
        + tlb.l1_data_1g.map_or(0.0, |_| costs.l1_tlb_1g_pj)
}

/// Returns the energy of one look-up of the first-level instruction TLB in pJ. It has no array for
/// 1GB pages.
fn fetch_tlb_pj(machine: &Machine) -> f64 {
    let (tlb, costs) = (&machine.tlb, &machine.energy);
    costs.l1_tlb_4k_pj + tlb.l1_instruction_2m.map_or(0.0, |_| costs.l1_tlb_2m_pj)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machine whose costs are powers of ten where possible, so that each structure changes another
    /// digit of the sum.
    fn machine(name: &str) -> Machine {
        let mut machine = Machine::load(name).unwrap();
        machine.energy = EnergyCosts {
            l1_tlb_4k_pj: 1.0,
            l1_tlb_2m_pj: 10.0,
            l1_tlb_1g_pj: 100.0,
            l2_tlb_pj: 1e3,
            walk_cache_pj: 1e4,
            nested_tlb_pj: 1e5,
            segment_check_pj: 3.0,
            selection_pj: 5.0,
            escape_filter_pj: 4.0,
            l1d_read_pj: 1.0,
            l2_read_pj: 10.0,
            llc_read_pj: 100.0,
            memory_read_pj: 1e3,
            static_mw: 500.0,
        };
        machine
    }

    fn activity() -> Activity {
        let mut units = [0; Unit::COUNT];
        units[Unit::L1DataTlb as usize] = 1;
        units[Unit::L2Tlb as usize] = 3;
        units[Unit::WalkCache as usize] = 2;
        units[Unit::HostWalkCache as usize] = 2;
        units[Unit::NestedTlb as usize] = 5;
        let accesses = TranslationAccesses {
            units,
            segment_checks: 2,
            selections: 3,
            reads_from_walker_cache: 0,
            reads_from_l1d: 1,
            reads_from_l2: 2,
            reads_from_llc: 3,
            reads_from_memory: 4,
        };
        Activity { data_translations: 6, fetch_translations: 2, accesses, cycles: 4_000 }
    }

    fn parts(machine: &Machine) -> [f64; 10] {
        EnergyUse::of(machine, &activity()).structures()
    }

    /// Data look-ups read three arrays, fetches two: 7 × 111 + 2 × 11 = 799. Reads: 1 + 2 + 3 + 4 in
    /// the L1D, 2 + 3 + 4 in the L2, 3 + 4 in the LLC, 4 in memory.
    #[test]
    fn each_structure_by_hand() {
        let machine = machine("sandy-bridge-table6");
        let expected = [799.0, 3e3, 4e4, 5e5, 14.0, 15.0, 10.0, 90.0, 700.0, 4e3];
        assert_eq!(parts(&machine), expected);
        let mut counters = Counters::default();
        record(&machine, &activity(), &mut counters);
        let sum = expected.iter().sum::<f64>() / 1000.0;
        assert_eq!(counters.get("translation_energy_dynamic_nj"), Some(sum));
        assert_eq!(counters.get("translation_energy_dynamic_nj_l2_tlb"), Some(3.0));
        // 4000 cycles at 2.2GHz at half a watt.
        let expected = 4_000.0 / 2.2 * 0.5;
        let found = counters.get("static_energy_nj").unwrap();
        assert!((found - expected).abs() < 1e-9, "{found}");
    }

    /// Walkers that read through the L2 never look into the L1D. Without arrays for 2MB and 1GB pages a
    /// first-level look-up costs less: 7 × 11 + 2 × 1.
    #[test]
    fn what_the_machine_does_not_have_takes_nothing() {
        let gtsm = machine("gtsm-table4");
        let found = parts(&gtsm);
        assert_eq!((found[0], found[6], found[7]), (79.0, 0.0, 90.0));
        // No last-level cache.
        assert_eq!(parts(&machine("perforated-table2"))[8], 0.0);
    }

    /// Each counter is its structure's energy in nanojoules. All but the static energy add up.
    #[test]
    fn each_counter_is_of_its_structure() {
        let spent = EnergyUse {
            l1_tlb: 1e3,
            l2_tlb: 2e3,
            walk_cache: 4e3,
            nested_tlb: 8e3,
            segment_check: 16e3,
            selection: 32e3,
            walker_l1d: 64e3,
            walker_l2: 128e3,
            walker_llc: 256e3,
            walker_memory: 512e3,
            beside_l2_tlb: 1024e3,
            leaked: 9e3,
        };
        let mut counters = Counters::default();
        counters.record(ENERGY, &spent);
        counters.record(BESIDE, &spent);
        let names = [
            "l1_tlb",
            "l2_tlb",
            "walk_cache",
            "nested_tlb",
            "segment_check",
            "selection",
            "walker_l1d",
            "walker_l2",
            "walker_llc",
            "walker_memory",
            "beside_l2_tlb",
        ];
        for (place, name) in names.into_iter().enumerate() {
            let found = counters.get(&format!("translation_energy_dynamic_nj_{name}"));
            assert_eq!(found, Some(f64::from(1 << place)), "{name}");
        }
        assert_eq!(counters.get("translation_energy_dynamic_nj"), Some(2047.0));
        assert_eq!(counters.get("static_energy_nj"), Some(9.0));
        assert_eq!(counters.iter().count(), names.len() + 2);
    }

    /// Fills of the instruction TLB cost a fetch's look-up, a cache beside the L2 TLB as much as that TLB; it
    /// is recorded where there is one. Walkers that read through the last-level cache look into no other.
    #[test]
    fn fills_caches_beside_and_walkers_at_the_last_level() {
        let activity = || {
            let mut activity = activity();
            activity.accesses.units = [0; Unit::COUNT];
            activity.accesses.reads_from_walker_cache = 6;
            activity
        };
        let spent = |machine: &Machine, unit: Option<Unit>| {
            let mut activity = activity();
            unit.into_iter().for_each(|unit| activity.accesses.units[unit as usize] = 3);
            EnergyUse::of(machine, &activity)
        };
        let mut table6 = machine("sandy-bridge-table6");
        let none = spent(&table6, None);
        // 6 × 111 + 2 × 11.
        assert_eq!((none.l1_tlb, none.walk_cache, none.beside_l2_tlb), (688.0, 0.0, 0.0));
        assert_eq!(spent(&table6, Some(Unit::L1InstructionTlb)).l1_tlb, 688.0 + 33.0);
        assert_eq!(spent(&table6, Some(Unit::L1DataTlb)).l1_tlb, 688.0 + 333.0);
        assert_eq!(spent(&table6, Some(Unit::SidebandTlb)).beside_l2_tlb, 3e3);
        assert_eq!(spent(&table6, Some(Unit::HostSidebandTlb)).beside_l2_tlb, 3e3);
        let recorded = |unit| {
            let (mut counters, mut activity) = (Counters::default(), activity());
            activity.accesses.units[unit as usize] = 3;
            record(&table6, &activity, &mut counters);
            let beside = counters.get("translation_energy_dynamic_nj_beside_l2_tlb");
            (beside, counters.get("translation_energy_dynamic_nj").unwrap())
        };
        let (absent, whole) = recorded(Unit::L2Tlb);
        assert_eq!((absent, recorded(Unit::SidebandTlb)), (None, (Some(3.0), whole)));
        // 1 + 2 + 3 + 4 reads of caches, and 6 that the walkers' own cache serves.
        let cache = Machine::load("perforated-table2").unwrap().cache.walker;
        assert!(cache.is_some());
        table6.cache.walker = cache;
        let reads = |attach, machine: &mut Machine| {
            machine.walker.attach = attach;
            let it = EnergyUse::of(machine, &activity());
            [it.walk_cache, it.walker_l1d, it.walker_l2, it.walker_llc, it.walker_memory]
        };
        let l1d = reads(WalkerAttachment::L1d, &mut table6);
        assert_eq!(l1d, [16e4, 10.0, 90.0, 700.0, 4e3]);
        assert_eq!(reads(WalkerAttachment::L2, &mut table6), [15e4, 0.0, 90.0, 700.0, 4e3]);
        assert_eq!(reads(WalkerAttachment::Llc, &mut table6), [13e4, 0.0, 0.0, 700.0, 4e3]);
    }

    #[test]
    fn energies_have_a_largest_value() {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let with = |value: f64| EnergyCosts { static_mw: value, ..machine.energy.clone() };
        assert_eq!(with(1e6).validate(), Ok(()));
        let error = with(1_000_001.0).validate().unwrap_err();
        assert_eq!(error, "energy.static_mw is 1000001; expected 0 to 1000000");
    }
}
