//! How often a virtual machine was left, and why.

use perforate_os::{Work, fieldwise};
use perforate_schemes::segment::SEGMENT_REGISTERS;

fieldwise! {
    /// Exits of a virtual machine by cause.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Exits {
        /// Violations of the nested page table.
        pub nested_fault: u64,
        /// Page faults under shadow paging: the shadow tables have no entry that allows the access. Those
        /// of pages that the guest has not mapped are among them: the hypervisor hands them on.
        pub shadow_fault: u64,
        /// Writes to tables of the guest that are shadowed.
        pub table_update: u64,
        /// Writes to registers of a mechanism of the guest under shadow paging, which the hypervisor
        /// emulates: those of a direct segment, the place of a range table, the format of page directories.
        pub register_write: u64,
        /// Changes of the guest's root table (writes to CR3) under shadow paging.
        pub context_switch: u64,
        /// Invalidations and flushes of the TLB by the guest (INVLPG, CR3) under shadow paging.
        pub invalidation: u64,
    }
}

impl Exits {
    /// With those that the guest's own work takes under shadow paging: `work` is the guest's. Registers
    /// that lead to tables are loaded with the root table, those of segments one by one.
    pub(crate) fn with_guest_work(self, work: &Work) -> Self {
        let context_switch = work.context_switches;
        let invalidation = work.entries_invalidated + work.spaces_flushed;
        let loaded = work.segment_registers_loaded * SEGMENT_REGISTERS;
        let register_write = self.register_write + loaded;
        Self { context_switch, invalidation, register_write, ..self }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        let Self { nested_fault, shadow_fault, table_update, register_write, .. } = *self;
        let Self { context_switch, invalidation, .. } = *self;
        nested_fault + shadow_fault + table_update + register_write + context_switch + invalidation
    }
}

fieldwise! {
    /// Work of a host in an interval.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct HostWork {
        /// Work of the host's kernel.
        pub work: Work,
        /// Part of `work` that other processors did.
        pub background: Work,
        /// Exits of the virtual machine.
        pub exits: Exits,
        /// Part of `exits` that kernel threads of the guest took on other processors.
        pub background_exits: Exits,
        /// Exits after which a direct segment of the host was set: its registers are saved when the
        /// virtual machine is left and loaded when it goes on (D §III.A).
        pub segment_exits: u64,
        /// Part of `work` that backed the guest's memory for the first time. A virtual machine does this once,
        /// whatever programs it runs then.
        pub backing: Work,
        /// Exits of the virtual machine for `backing`.
        pub backing_exits: u64,
        /// Part of `backing_exits` after which a direct segment of the host was set.
        pub backing_segment_exits: u64,
    }
}

fieldwise! {
    /// Work of operating systems from one moment to another.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(crate) struct Account {
        /// The program's own operating system, the guest's when virtualized.
        pub(crate) work: Work,
        /// Part of `work` that other processors did.
        pub(crate) background: Work,
        /// The host; nothing natively.
        pub(crate) host: HostWork,
    }
}
