//! Memory of the simulating computer that a configuration needs, computed before any allocation.

use crate::MmuConfig;
use crate::tlb::SetAssociative;

impl MmuConfig {
    /// Lists the arrays of one core that may be large: configuration key, its value (number of
    /// entries), and size in the simulating computer's memory in bytes.
    pub fn host_bytes(&self) -> Vec<(&'static str, u64, u64)> {
        let tlb = &self.tlb;
        let arrays = [
            ("tlb.l1_data_4k.entries", Some(tlb.l1_data_4k)),
            ("tlb.l1_data_2m.entries", tlb.l1_data_2m),
            ("tlb.l1_data_1g.entries", tlb.l1_data_1g),
            ("tlb.l1_instruction_4k.entries", Some(tlb.l1_instruction_4k)),
            ("tlb.l1_instruction_2m.entries", tlb.l1_instruction_2m),
            ("tlb.l2.entries", Some(tlb.l2)),
            ("tlb.l2_2m.entries", tlb.l2_2m.own()),
            ("tlb.l2_1g.entries", tlb.l2_1g.own()),
            ("tlb.gap_tolerant.entries", tlb.gap_tolerant),
            ("virtualization.nested_tlb.entries", self.virtualization.nested_tlb),
        ];
        let of_array = |(key, geometry): (&'static str, Option<crate::TlbGeometry>)| {
            let geometry = geometry?;
            Some((key, geometry.entries as u64, SetAssociative::<u64>::host_bytes(geometry)))
        };
        let beside = tlb.beside_entries as u64;
        let beside =
            ("tlb.beside_entries", beside, beside.saturating_mul(size_of::<[u64; 4]>() as u64));
        arrays.into_iter().filter_map(of_array).chain([beside]).collect()
    }
}
