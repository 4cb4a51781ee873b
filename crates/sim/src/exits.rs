//! How often a virtual machine was left, and why.

use std::ops::{AddAssign, Sub};

use perforate_os::Work;
use perforate_schemes::segment::SEGMENT_REGISTERS;

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

impl Sub for Exits {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            nested_fault: self.nested_fault - before.nested_fault,
            shadow_fault: self.shadow_fault - before.shadow_fault,
            table_update: self.table_update - before.table_update,
            register_write: self.register_write - before.register_write,
            context_switch: self.context_switch - before.context_switch,
            invalidation: self.invalidation - before.invalidation,
        }
    }
}

impl AddAssign for Exits {
    fn add_assign(&mut self, more: Self) {
        self.nested_fault += more.nested_fault;
        self.shadow_fault += more.shadow_fault;
        self.table_update += more.table_update;
        self.register_write += more.register_write;
        self.context_switch += more.context_switch;
        self.invalidation += more.invalidation;
    }
}

/// What a host did in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostWork {
    /// Its kernel's work.
    pub work: Work,
    /// What of it other processors did.
    pub background: Work,
    /// Exits of the virtual machine.
    pub exits: Exits,
    /// Those of them that kernel threads of the guest took on other processors.
    pub background_exits: Exits,
    /// Exits after which a direct segment of the host was set: its registers are saved when the
    /// virtual machine is left and loaded when it goes on (D §III.A).
    pub segment_exits: u64,
    /// Of its kernel's work, first backing of the guest's memory. A virtual machine has it once, whatever
    /// programs it runs then.
    pub backing: Work,
    /// Exits of the virtual machine for that.
    pub backing_exits: u64,
    /// Those of them after which a direct segment of the host was set.
    pub backing_segment_exits: u64,
}

impl Sub for HostWork {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            work: self.work - before.work,
            background: self.background - before.background,
            exits: self.exits - before.exits,
            background_exits: self.background_exits - before.background_exits,
            segment_exits: self.segment_exits - before.segment_exits,
            backing: self.backing - before.backing,
            backing_exits: self.backing_exits - before.backing_exits,
            backing_segment_exits: self.backing_segment_exits - before.backing_segment_exits,
        }
    }
}

/// Work of operating systems from one moment to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Account {
    /// The program's own operating system, the guest's when virtualized.
    pub(crate) work: Work,
    /// Its work on other processors.
    pub(crate) background: Work,
    /// The host; nothing natively.
    pub(crate) host: HostWork,
}

impl Sub for Account {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            work: self.work - before.work,
            background: self.background - before.background,
            host: self.host - before.host,
        }
    }
}
