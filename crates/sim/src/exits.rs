//! Exits of virtual machines, by cause.

use perforate_os::{Work, fieldwise};
use perforate_schemes::segment::SEGMENT_REGISTERS;

fieldwise! {
    /// Exits of a virtual machine by cause.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Exits {
        /// Number of exits for faults in the host's page tables (EPT violations).
        pub nested_fault: u64,
        /// Number of exits for page faults under shadow paging, because the shadow tables have no
        /// entry that allows the access. Faults on pages that the guest has not mapped are
        /// included; the hypervisor passes them on to the guest.
        pub shadow_fault: u64,
        /// Number of exits for writes to tables of the guest for which shadow tables exist.
        pub table_update: u64,
        /// Number of exits for writes to registers of a guest's mechanism under shadow paging,
        /// which the hypervisor emulates: registers of a direct segment, base of a range table,
        /// format of page directories.
        pub register_write: u64,
        /// Number of exits for changes of the guest's root table (writes to CR3) under shadow
        /// paging.
        pub context_switch: u64,
        /// Number of exits for invalidations and flushes of the TLB by the guest (INVLPG, CR3)
        /// under shadow paging.
        pub invalidation: u64,
    }
}

impl Exits {
    /// Adds the exits that the guest's `work` causes under shadow paging. A switch of processes
    /// causes one exit, which also loads the registers that point to tables. Each loaded register
    /// of a segment causes another exit.
    pub(crate) fn with_guest_work(self, work: &Work) -> Self {
        let context_switch = work.context_switches;
        let invalidation = work.entries_invalidated + work.spaces_flushed;
        let loaded = work.segment_registers_loaded * SEGMENT_REGISTERS;
        let register_write = self.register_write + loaded;
        Self { context_switch, invalidation, register_write, ..self }
    }

    /// Returns the number of exits for all causes.
    pub fn total(&self) -> u64 {
        let Self { nested_fault, shadow_fault, table_update, register_write, .. } = *self;
        let Self { context_switch, invalidation, .. } = *self;
        nested_fault + shadow_fault + table_update + register_write + context_switch + invalidation
    }
}

fieldwise! {
    /// Work of a host and exits to it in an interval.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct HostWork {
        /// Work of the host's kernel.
        pub work: Work,
        /// Part of `work` done by kernel threads on other processors.
        pub background: Work,
        /// Exits of the virtual machine, by cause.
        pub exits: Exits,
        /// Part of `exits` taken by kernel threads of the guest on other processors.
        pub background_exits: Exits,
        /// Number of exits with an active direct segment of the host, whose registers are saved on
        /// exit and loaded on re-entry (D §III.A).
        pub segment_exits: u64,
        /// Part of `work` for the first backing of the guest's memory with frames. A virtual
        /// machine needs it once, however many programs it runs.
        pub backing: Work,
        /// Number of `exits` for the first backing of the guest's memory.
        pub backing_exits: u64,
        /// Number of `backing_exits` with an active direct segment of the host.
        pub backing_segment_exits: u64,
    }
}

fieldwise! {
    /// Work of the operating systems of program and host between two moments.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(crate) struct Account {
        /// Work of the program's operating system, the guest's when virtualized.
        pub(crate) work: Work,
        /// Part of `work` done by kernel threads on other processors.
        pub(crate) background: Work,
        /// Work of the host; zero for native runs.
        pub(crate) host: HostWork,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_guest_exits_once_for_each_switch_register_and_invalidation() {
        let exits = Exits {
            nested_fault: 1,
            shadow_fault: 20,
            table_update: 300,
            register_write: 4_000,
            context_switch: 0,
            invalidation: 0,
        };
        assert_eq!(exits.total(), 4_321);
        let work = Work {
            context_switches: 50_000,
            entries_invalidated: 600_000,
            spaces_flushed: 100_000,
            segment_registers_loaded: 2,
            ..Work::default()
        };
        let more = exits.with_guest_work(&work);
        let register_write = 4_000 + 2 * SEGMENT_REGISTERS;
        let expected =
            Exits { register_write, context_switch: 50_000, invalidation: 700_000, ..exits };
        assert_eq!(more, expected);
        assert_eq!(more.total(), 754_321 + 2 * SEGMENT_REGISTERS);
    }
}
