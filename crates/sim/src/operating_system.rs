//! Costs of the operating system's work in nanoseconds, and the resulting cycles.
//!
//! The kernel counts its actions, and the machine file states the time of each. Their product is
//! reported in addition to the cycles of the steady state, and never included in them. The reason
//! is that the program waits during this work, and caches keep their contents.

use std::ops::RangeInclusive;

use perforate_os::Work;
use perforate_types::{Counter, Counters, figures, registered};

use crate::costs::costs;
use crate::exits::{Exits, HostWork};

/// Longest permitted duration of one action, in ns: twenty minutes.
const LONGEST_NS: f64 = 1.2e12;
/// Permitted numbers of other processors that a shootdown interrupts.
const PROCESSORS: RangeInclusive<u32> = 0..=65_536;

costs! {
    /// Duration of each action of the operating system, in nanoseconds. The machine files name the
    /// sources.
    pub struct OperatingSystemCosts {
        /// Duration in ns of a page fault that maps or copies 4KB, or that need not change anything:
        /// entry, look-up, allocation and return. Clearing or copying the page and writing its entry
        /// are separate costs.
        pub fault_4k_ns: f64 = 2_625.0,
        /// Duration in ns of a page fault that maps 2MB, ordinary or perforated, gap-tolerant superpages or a
        /// direct segment. It includes the same actions as `fault_4k_ns`.
        pub fault_2m_ns: f64 = 12_975.0,
        /// Duration in ns of a page fault that maps 1GB. It includes the same actions as `fault_4k_ns`.
        pub fault_1g_ns: f64 = 12_975.0,
        /// Duration of clearing a 4KB frame, of a program or of a page table, in ns.
        pub zero_4k_ns: f64 = 850.0,
        /// Duration of clearing a 2MB block, in ns.
        pub zero_2m_ns: f64 = 452_000.0,
        /// Duration of clearing a 1GB page, in ns.
        pub zero_1g_ns: f64 = 231_424_000.0,
        /// Duration of copying a 4KB frame, in ns.
        pub copy_4k_ns: f64 = 850.0,
        /// Duration of adding a translation of any page size to the page tables, in ns.
        pub map_ns: f64 = 25.0,
        /// Duration of removing a translation from the page tables, without its shootdown, in ns.
        pub unmap_ns: f64 = 25.0,
        /// Duration of changing the permissions of a translation, without its shootdown, in ns.
        pub protect_ns: f64 = 25.0,
        /// Duration of splitting a 2MB or 1GB page, without removing and adding page-table entries, in
        /// ns.
        pub split_ns: f64 = 2_625.0,
        /// Duration of making a hole in a 2MB page: writing filter and bitmap, without shootdowns, in
        /// ns.
        pub punch_ns: f64 = 100.0,
        /// Duration of removing a hole of a 2MB page: writing filter and bitmap, without shootdowns, in
        /// ns.
        pub patch_ns: f64 = 100.0,
        /// Duration of examining one frame during a scan, in ns.
        pub scan_frame_ns: f64 = 10.0,
        /// Duration of migrating one frame, without the copy, the page-table entries and the shootdown,
        /// in ns.
        pub migrate_frame_ns: f64 = 2_625.0,
        /// Duration of reading one page from swap, without the page fault and the page-table entry, in
        /// ns.
        pub swap_in_ns: f64 = 90_000.0,
        /// Duration of writing one page to swap, without the page-table entry and the shootdown, in ns.
        pub swap_out_ns: f64 = 4_000.0,
        /// Duration in ns of entering and leaving a system call (mmap, munmap, mprotect, madvise,
        /// mremap or brk), without the work on its pages and its shootdown.
        #[serde(default)]
        pub call_ns: f64 = 0.0,
        /// Duration of a fork, without the work on its pages, in ns.
        #[serde(default)]
        pub fork_ns: f64 = 0.0,
        /// Duration of a switch to another process, in ns.
        pub context_switch_ns: f64 = 1_500.0,
        /// Duration in ns of saving and loading BASE, LIMIT, OFFSET and the escape filter of a direct
        /// segment. For the program's segment, this happens when the running process changes; for the
        /// host's segment, when the virtual machine exits.
        #[serde(default = "segment_registers_ns")]
        pub segment_registers_ns: f64 = segment_registers_ns(),
        /// Duration of leaving and re-entering a virtual machine, without the work in between, in ns.
        #[serde(default = "vm_exit_ns")]
        pub vm_exit_ns: f64 = vm_exit_ns(),
        /// Duration of invalidating one TLB entry, in ns.
        pub invalidate_entry_ns: f64 = 158.0,
        /// Duration of flushing an address space from the TLB, in ns.
        pub flush_space_ns: f64 = 158.0,
        /// Duration in ns of interrupting other processors and waiting for the last answer. Counted
        /// once for all shootdowns of an operation, unless there is no processor to interrupt.
        pub synchronize_ns: f64 = 2_100.0,
        /// Additional wait for each interrupted processor, in ns.
        pub interrupt_ns: f64 = 37.5,
        /// Duration in ns of entering and leaving the handler of the shootdown interrupt on another
        /// processor, which is part of `synchronize_ns`. Used only if several hardware threads are
        /// simulated.
        #[serde(default = "interrupt_handler_ns")]
        pub interrupt_handler_ns: f64 = interrupt_handler_ns(),
        ;
        /// Number of other processors that have run the program and must be interrupted for shootdowns.
        pub interrupted_processors: u32 = 1,
        /// Machine on which `perforate calibrate` measured faults, clearing, fork and system calls;
        /// `None` if these durations are published values.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub measured_on: Option<String> = None,
    }
}

/// Cycles of the operating system's work by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatingSystemCycles {
    /// Cycles for entering, serving and leaving page faults.
    pub faults: u64,
    /// Cycles for clearing frames, including page-table nodes.
    pub zeroing: u64,
    /// Cycles for copying frames, for copy-on-write and for sub-pages that move.
    pub copying: u64,
    /// Cycles for writing page-table entries, splitting pages, making and removing holes, and
    /// entering the system calls that cause this work.
    pub mapping: u64,
    /// Cycles for invalidating TLB entries, and for interrupting other processors and waiting for
    /// their answers.
    pub shootdowns: u64,
    /// Cycles for examining frames during scans.
    pub scanning: u64,
    /// Cycles for migrating frames, including the copies.
    pub migration: u64,
    /// Cycles for writing pages to swap, and for waiting for pages read from swap.
    pub swapping: u64,
    /// Cycles for switching to another process, including the registers of a direct segment.
    pub context_switches: u64,
}

/// Returns the default duration for machine files without the key: seven 64-bit moves, about a
/// cycle each.
fn segment_registers_ns() -> f64 {
    5.0
}

/// Returns the default duration for machine files without the key: about a thousand cycles.
fn interrupt_handler_ns() -> f64 {
    500.0
}

/// Returns the default duration of an exit of a virtual machine, for machine files without the key.
fn vm_exit_ns() -> f64 {
    1_300.0
}

/// Work of the operating systems of program and host in an interval, and the interrupts for
/// shootdowns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramWork {
    /// Work of the program's operating system, the guest's when virtualized.
    pub(crate) work: Work,
    /// Part of `work` done by kernel threads on other processors.
    pub(crate) background: Work,
    /// Work of the host, and exits of the virtual machine; `None` for native runs.
    pub(crate) host: Option<HostWork>,
    /// Number of interrupts of other hardware threads for shootdowns, if the run simulates them.
    /// The run's cycles then include their time. Otherwise `None`.
    pub(crate) interrupts: Option<u64>,
}

impl OperatingSystemCosts {
    /// Checks each value against its range.
    ///
    /// # Errors
    /// A description of the first wrong value in one line, with the key and the range.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (key, value_ns) in self.costs() {
            if !(0.0..=LONGEST_NS).contains(&value_ns) {
                let expected = format!("0 to {LONGEST_NS} nanoseconds");
                return Err(format!("operating_system.{key} is {value_ns}; expected {expected}"));
            }
        }
        let processors = self.interrupted_processors;
        if !PROCESSORS.contains(&processors) {
            let expected = format!("{} to {}", PROCESSORS.start(), PROCESSORS.end());
            return Err(format!(
                "operating_system.interrupted_processors is {processors}; expected {expected}"
            ));
        }
        Ok(())
    }

    /// Returns the cycles that `work` takes at `frequency_ghz`, by cause. Each cause is rounded to
    /// a whole cycle.
    pub fn cycles(&self, work: &Work, frequency_ghz: f64) -> OperatingSystemCycles {
        let cycles = |parts: &[(u64, f64)]| {
            let ns: f64 = parts.iter().map(|&(count, each_ns)| count as f64 * each_ns).sum();
            (ns * frequency_ghz).round() as u64
        };
        let small_faults = work.faults_4k
            + work.faults_folio
            + work.faults_hole
            + work.faults_copy_on_write
            + work.faults_swap
            + work.faults_other;
        let large_faults =
            work.faults_2m + work.faults_perforated + work.faults_superpage + work.faults_segment;
        OperatingSystemCycles {
            faults: cycles(&[
                (small_faults, self.fault_4k_ns),
                (large_faults, self.fault_2m_ns),
                (work.faults_1g, self.fault_1g_ns),
            ]),
            zeroing: cycles(&[
                (work.frames_zeroed_4k + work.frames_zeroed_tables, self.zero_4k_ns),
                (work.blocks_zeroed_2m, self.zero_2m_ns),
                (work.blocks_zeroed_1g, self.zero_1g_ns),
            ]),
            copying: cycles(&[(work.frames_copied, self.copy_4k_ns)]),
            mapping: cycles(&[
                (work.pages_mapped, self.map_ns),
                (work.pages_unmapped, self.unmap_ns),
                (work.pages_protected + work.entries_joined, self.protect_ns),
                (work.large_pages_split + work.huge_pages_split, self.split_ns),
                (work.subpages_punched + work.pages_escaped, self.punch_ns),
                (work.subpages_patched, self.patch_ns),
                (work.memory_calls, self.call_ns),
                (work.forks, self.fork_ns),
            ]),
            shootdowns: cycles(&[
                (work.entries_invalidated, self.invalidate_entry_ns),
                (work.spaces_flushed, self.flush_space_ns),
                (work.shootdown_batches, self.synchronization_ns()),
            ]),
            scanning: cycles(&[(work.frames_scanned, self.scan_frame_ns)]),
            migration: cycles(&[(work.frames_migrated, self.copy_4k_ns + self.migrate_frame_ns)]),
            swapping: cycles(&[
                (work.pages_swapped_in, self.swap_in_ns),
                (work.pages_swapped_out, self.swap_out_ns),
            ]),
            context_switches: cycles(&[
                (work.context_switches, self.context_switch_ns),
                (work.segment_registers_loaded, self.segment_registers_ns),
            ]),
        }
    }

    /// Describes in words where these costs come from, for notes.
    pub(crate) fn origin(&self) -> String {
        let microseconds = (self.fault_4k_ns + self.zero_4k_ns + self.map_ns) / 1_000.0;
        match &self.measured_on {
            Some(machine) => {
                let machine = machine.replace(char::is_control, " ");
                format!(
                    "as calibrate measured them on {machine} (a 4KB fault takes {microseconds:.1} µs)"
                )
            }
            None => format!(
                "which are published ones of other machines (a 4KB fault takes {microseconds:.1} µs); \
                 `perforate calibrate` measures this one's"
            ),
        }
    }

    /// Returns the time in nanoseconds that interrupting other processors adds to one batch of
    /// shootdowns.
    fn synchronization_ns(&self) -> f64 {
        match self.interrupted_processors {
            0 => 0.0,
            processors => self.synchronize_ns + f64::from(processors) * self.interrupt_ns,
        }
    }

    /// Returns the costs that the run's cycles do not include. Interrupts cost nothing if the run
    /// simulates them.
    fn without_simulated_interrupts(&self, interrupts: Option<u64>) -> Self {
        let interrupted_processors =
            if interrupts.is_some() { 0 } else { self.interrupted_processors };
        Self { interrupted_processors, ..self.clone() }
    }

    /// Records the work of the measured part. If the run has a timing model (`is_timed`), also
    /// records the cycles of this work by cause, and returns their total. Background work of kernel
    /// threads takes none of the program's time.
    pub(crate) fn record(
        &self,
        program: &ProgramWork,
        frequency_ghz: f64,
        is_timed: bool,
        out: &mut Counters,
    ) -> Option<WorkCycles> {
        let ProgramWork { work, background, host, interrupts } = *program;
        let costs = self.without_simulated_interrupts(interrupts);
        work.record(out);
        let stated = work.shootdown_batches * u64::from(self.interrupted_processors);
        out.record(INTERRUPTS, &interrupts.unwrap_or(stated));
        if let Some(host) = &host {
            out.record(EXITS, &host.exits);
            out.record(HOST, host);
        }
        if !is_timed {
            return None;
        }
        let cycles = costs.cycles(&(work - background), frequency_ghz);
        let mut background_cycles = costs.cycles(&background, frequency_ghz).total();
        out.record(CAUSES, &cycles);
        let mut total = cycles.total();
        if let Some(host) = &host {
            let cycles = costs.host_cycles(host, frequency_ghz);
            out.record(HOST_CAUSES, &cycles);
            background_cycles += cycles.background;
            total += cycles.kernel + cycles.exits;
        }
        out.record(BACKGROUND, &background_cycles);
        Some(WorkCycles(total))
    }

    /// Returns the cycles of work for which the program waits. Excludes the first backing of a
    /// virtual machine's memory, which happens only once, however many programs run.
    pub(crate) fn program_cycles(&self, program: &ProgramWork, frequency_ghz: f64) -> WorkCycles {
        let ProgramWork { work, background, host, interrupts } = *program;
        let costs = self.without_simulated_interrupts(interrupts);
        let own = costs.cycles(&(work - background), frequency_ghz).total();
        let of_host = host.map_or(0, |host| {
            let HostCycles { exits, kernel, backing, .. } = costs.host_cycles(&host, frequency_ghz);
            (exits + kernel).saturating_sub(backing)
        });
        WorkCycles(own + of_host)
    }

    fn host_cycles(&self, host: &HostWork, frequency_ghz: f64) -> HostCycles {
        let to_cycles = |ns: f64| (ns * frequency_ghz).round() as u64;
        let kernel = |work: &Work| self.cycles(work, frequency_ghz).total();
        let exits_ns = |exits: u64, with_segment: u64| {
            exits as f64 * self.vm_exit_ns + with_segment as f64 * self.segment_registers_ns
        };
        let foreground = host.exits - host.background_exits;
        HostCycles {
            exits: to_cycles(exits_ns(foreground.total(), host.segment_exits)),
            kernel: kernel(&(host.work - host.background)),
            background: kernel(&host.background)
                + to_cycles(exits_ns(host.background_exits.total(), 0)),
            backing: kernel(&host.backing)
                + to_cycles(exits_ns(host.backing_exits, host.backing_segment_exits)),
        }
    }
}

/// Number of cycles for which the program waits for the operating systems of program and host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkCycles(u64);

impl WorkCycles {
    /// Records the cycles of work in the measured part, and the speed including them.
    /// `instructions` and `steady_cycles` are those of the program.
    pub(crate) fn record(self, (instructions, steady_cycles): (u64, u64), out: &mut Counters) {
        out.record(SUMS, &Sums { instructions, steady_cycles, total: self.0 });
    }

    /// Records the cycles of work in the whole run, and the speed including them. Assumes that the
    /// warm-up takes as many cycles per instruction as the measured part.
    pub(crate) fn record_whole(
        self,
        instructions: u64,
        (measured_instructions, cycles): (u64, u64),
        out: &mut Counters,
    ) {
        let steady_cycles = cycles as f64 / measured_instructions as f64 * instructions as f64;
        let steady_cycles = steady_cycles.round() as u64;
        out.record(WHOLE_RUN, &Sums { instructions, steady_cycles, total: self.0 });
    }
}

/// Cycles of a host's work for its guest.
struct HostCycles {
    exits: u64,
    kernel: u64,
    /// Cycles of kernel threads on other processors.
    background: u64,
    /// Cycles in `exits` and `kernel` that the first backing of the guest's memory takes.
    backing: u64,
}

/// Cycles and instructions of an interval, from which the speed including operating systems is
/// computed.
struct Sums {
    instructions: u64,
    steady_cycles: u64,
    /// Cycles of the operating system's work.
    total: u64,
}

/// Returns the descriptions of the counters of operating systems' work, in the order of reports.
pub(crate) fn counters() -> Vec<Counter> {
    [
        registered(SUMS),
        registered(WHOLE_RUN),
        registered(CAUSES),
        registered(HOST_CAUSES),
        registered(BACKGROUND),
        registered(EXITS),
        registered(HOST),
    ]
    .concat()
}

/// Returns the descriptions of counters that reports show with the kernel's counts of its work.
pub(crate) fn work_counters() -> Vec<Counter> {
    registered(INTERRUPTS)
}

figures! {
    static SUMS: Sums, "Speed, including OS work" {
        /// Cycles of the operating system's work during the measured instructions, at the costs in
        /// the machine file's `[operating_system]`. Sum over all causes of such work.
        operating_system_cycles, "cycles of OS work", Cycles, Table: |it| it.total;
        /// Cycles of the steady state plus `operating_system_cycles`. For a sampled trace, cycles
        /// extrapolated from its windows to the whole program, plus the operating system's work in
        /// the windows and between them.
        cycles_with_operating_system, Cycles, Listed: |it| it.steady_cycles + it.total;
        /// Instructions per cycle, including the operating system's work. For a sampled trace, the
        /// IPC of the whole program.
        ipc_with_operating_system, "IPC, including OS work", Ratio, Listed:
            |it| (it.instructions, it.steady_cycles + it.total);
    }

    static WHOLE_RUN: Sums, "Whole run, including OS work" {
        /// Cycles of the operating system's work in the whole run, warm-up and measured part. Not
        /// included: the program's set-up, memory mapped before the recording began, and a host's
        /// first backing of the guest's memory. Whole runs are fair to schemes that do the same
        /// work at different times. Absent if the trace has no events that change mappings.
        whole_run_operating_system_cycles, "cycles of OS work, whole run", Cycles, Table:
            |it| it.total;
        /// Cycles of the whole run: `whole_run_operating_system_cycles` plus the program's cycles,
        /// if the warm-up takes as many cycles per instruction as the measured part.
        whole_run_cycles, Cycles, Listed: |it| it.steady_cycles + it.total;
        /// Instructions per cycle of the whole run, including the operating system's work.
        whole_run_ipc, "IPC, whole run with OS work", Ratio, Listed:
            |it| (it.instructions, it.steady_cycles + it.total);
    }

    static BACKGROUND: u64, "Speed, including OS work" {
        /// Cycles of kernel threads (khugepaged, KSM, kcompactd) on another processor. Sums do not
        /// include them, except for the cycles of their shootdowns.
        operating_system_background_cycles, Cycles, Listed: |it| *it;
    }

    static CAUSES: OperatingSystemCycles, "Speed, including OS work" {
        /// Operating-system cycles for entering, serving and leaving page faults.
        operating_system_cycles_faults, Cycles, Listed,
            part("operating_system_cycles", "faults", "level1"): |it| it.faults;
        /// Operating-system cycles for clearing frames, including page-table nodes.
        operating_system_cycles_zeroing, Cycles, Listed,
            part("operating_system_cycles", "clearing", "level2"): |it| it.zeroing;
        /// Operating-system cycles for copying frames, without migration.
        operating_system_cycles_copying, Cycles, Listed,
            part("operating_system_cycles", "copying", "level3"): |it| it.copying;
        /// Operating-system cycles for writing page-table entries, splitting pages, making and
        /// removing holes, and entering the system calls for this work.
        operating_system_cycles_mapping, Cycles, Listed,
            part("operating_system_cycles", "page tables", "level4"): |it| it.mapping;
        /// Operating-system cycles for invalidating TLB entries, interrupting other processors, and
        /// waiting for their answers.
        operating_system_cycles_shootdowns, Cycles, Listed,
            part("operating_system_cycles", "shootdowns", "hole"): |it| it.shootdowns;
        /// Operating-system cycles for examining frames during scans.
        operating_system_cycles_scanning, Cycles, Listed,
            part("operating_system_cycles", "scanning", "queue"): |it| it.scanning;
        /// Operating-system cycles for migrating frames, including the copies.
        operating_system_cycles_migration, Cycles, Listed,
            part("operating_system_cycles", "migration", "wait"): |it| it.migration;
        /// Operating-system cycles for writing pages to swap, and waiting for pages read from swap.
        operating_system_cycles_swapping, Cycles, Listed,
            part("operating_system_cycles", "swapping", "bitmap"): |it| it.swapping;
        /// Operating-system cycles for switching between processes.
        operating_system_cycles_context_switches, Cycles, Listed,
            part("operating_system_cycles", "context switches", "tlb"): |it| it.context_switches;
    }

    static HOST_CAUSES: HostCycles, "Speed, including OS work" {
        /// Cycles for leaving and re-entering the virtual machine, including the registers of a
        /// host's direct segment.
        operating_system_cycles_vm_exits, Cycles, Listed,
            part("operating_system_cycles", "exits of the VM", "host-level1"): |it| it.exits;
        /// Cycles of the host kernel's work for the guest.
        operating_system_cycles_host, Cycles, Listed,
            part("operating_system_cycles", "the host's kernel", "host-level2"): |it| it.kernel;
    }

    static EXITS: Exits, "Exits of the virtual machine" {
        /// Exits of the virtual machine, for all causes.
        virtual_machine_exits, Count, Listed: |it| it.total();
        /// Exits for faults in the host's page tables (EPT violations).
        virtual_machine_exits_nested_fault, Count, Listed: |it| it.nested_fault;
        /// Exits for page faults under shadow paging, including faults on pages that the guest has
        /// not mapped.
        virtual_machine_exits_shadow_fault, Count, Listed: |it| it.shadow_fault;
        /// Exits for the guest's writes to page tables that are shadowed.
        virtual_machine_exits_table_update, Count, Listed: |it| it.table_update;
        /// Exits for writes to registers of the guest's mechanism, which the hypervisor emulates
        /// under shadow paging: the registers of a direct segment, the address of a range table,
        /// and the format of page directories.
        virtual_machine_exits_register_write, Count, Listed: |it| it.register_write;
        /// Exits for changes of the guest's root page table under shadow paging.
        virtual_machine_exits_context_switch, Count, Listed: |it| it.context_switch;
        /// Exits for the guest's TLB invalidations and flushes under shadow paging.
        virtual_machine_exits_invalidation, Count, Listed: |it| it.invalidation;
    }

    static HOST: HostWork, "Exits of the virtual machine" {
        /// Exits of any cause while the registers of the host's direct segment are set.
        virtual_machine_exits_with_segment, Count, Listed: |it| it.segment_exits;
        /// Operations of the host's kernel that ended with a TLB shootdown.
        host_shootdown_batches, Count, Listed: |it| it.work.shootdown_batches;
    }

    static INTERRUPTS: u64, "Operating system's work" {
        /// Processors interrupted for shootdowns: number of batches times the other processors in
        /// the machine file. With several hardware threads, the interrupts that were simulated.
        work_processors_interrupted, Count, Listed: |interrupts| *interrupts;
    }
}

impl OperatingSystemCycles {
    /// Returns the total cycles of all causes.
    pub fn total(&self) -> u64 {
        let cycles = CAUSES.iter().map(|cause| (cause.value)(self).as_f64() as u64);
        cycles.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every action happens once or a few times, at 2GHz: two cycles per nanosecond.
    #[test]
    fn cycles_by_hand() {
        let costs = OperatingSystemCosts::default();
        let work = Work {
            faults_4k: 3,
            faults_2m: 1,
            faults_perforated: 1,
            faults_hole: 1,
            faults_copy_on_write: 1,
            faults_other: 1,
            faults_swap: 2,
            frames_zeroed_4k: 3,
            frames_zeroed_tables: 4,
            blocks_zeroed_2m: 1,
            frames_copied: 2,
            pages_mapped: 10,
            pages_unmapped: 4,
            pages_protected: 2,
            large_pages_split: 1,
            subpages_punched: 3,
            subpages_patched: 1,
            frames_scanned: 100,
            frames_migrated: 2,
            pages_swapped_in: 2,
            pages_swapped_out: 512,
            context_switches: 5,
            memory_calls: 4,
            forks: 2,
            shootdown_batches: 3,
            entries_invalidated: 6,
            spaces_flushed: 1,
            ..Work::default()
        };
        let cycles = costs.cycles(&work, 2.0);
        // 8 small faults of 2625 ns, 2 large ones of 12,975 ns.
        assert_eq!(cycles.faults, 2 * (8 * 2_625 + 2 * 12_975));
        assert_eq!(cycles.zeroing, 2 * (7 * 850 + 452_000));
        assert_eq!(cycles.copying, 2 * 2 * 850);
        // 16 entries of 25 ns, one split, four sub-pages of 100 ns.
        assert_eq!(cycles.mapping, 2 * (16 * 25 + 2_625 + 4 * 100));
        // 7 invalidations of 158 ns; three times 2100 ns and one processor's 37.5 ns.
        assert_eq!(cycles.shootdowns, 2 * 7 * 158 + 3 * (2 * 2_100 + 75));
        assert_eq!(cycles.scanning, 2 * 100 * 10);
        assert_eq!(cycles.migration, 2 * 2 * (850 + 2_625));
        assert_eq!(cycles.swapping, 2 * (2 * 90_000 + 512 * 4_000));
        assert_eq!(cycles.context_switches, 2 * 5 * 1_500);
        assert_eq!(cycles.total(), 5_521_987);
        // Four calls and two forks, with costs for both.
        let called = OperatingSystemCosts { call_ns: 300.0, fork_ns: 60_000.0, ..costs.clone() };
        let mapping = called.cycles(&work, 2.0).mapping;
        assert_eq!(mapping - cycles.mapping, 2 * (4 * 300 + 2 * 60_000));
        // No other processor: no interrupts, no wait.
        let alone = OperatingSystemCosts { interrupted_processors: 0, ..costs };
        assert_eq!(alone.cycles(&work, 2.0).shootdowns, 2 * 7 * 158);
    }

    /// There are ten exits, three of them by background threads of the guest. The host's segment
    /// was set in four.
    #[test]
    fn exits_save_and_load_the_registers_of_the_hosts_segment() {
        let costs = OperatingSystemCosts {
            vm_exit_ns: 1_000.0,
            segment_registers_ns: 5.0,
            ..OperatingSystemCosts::default()
        };
        let exits = Exits { nested_fault: 10, ..Exits::default() };
        let background_exits = Exits { nested_fault: 3, ..Exits::default() };
        let host = HostWork { exits, background_exits, segment_exits: 4, ..HostWork::default() };
        let none = Work::default();
        let program =
            ProgramWork { work: none, background: none, host: Some(host), interrupts: None };
        let mut out = Counters::default();
        let cycles = costs.record(&program, 2.0, true, &mut out).unwrap();
        cycles.record((1_000, 50_000), &mut out);
        let get = |name: &str| out.get(name).unwrap();
        assert_eq!(get("virtual_machine_exits_with_segment"), 4.0);
        assert_eq!(get("operating_system_cycles_vm_exits"), 2.0 * (7.0 * 1_000.0 + 4.0 * 5.0));
        assert_eq!(get("operating_system_background_cycles"), 2.0 * 3.0 * 1_000.0);
        assert_eq!(get("operating_system_cycles"), 14_040.0);
        assert_eq!(get("cycles_with_operating_system"), 64_040.0);
    }

    #[test]
    fn costs_say_whose_they_are() {
        let costs = OperatingSystemCosts::default();
        let others = costs.origin();
        assert!(others.contains("of other machines (a 4KB fault takes 3.5 µs)"), "{others}");
        assert!(others.contains("`perforate calibrate`"), "{others}");
        let costs = OperatingSystemCosts {
            fault_4k_ns: 1_000.0,
            zero_4k_ns: 550.0,
            map_ns: 50.0,
            measured_on: Some("an EPYC".into()),
            ..costs
        };
        let own = "as calibrate measured them on an EPYC (a 4KB fault takes 1.6 µs)";
        assert_eq!(costs.origin(), own);
    }

    #[test]
    fn impossible_times_name_the_key() {
        let costs = OperatingSystemCosts { punch_ns: -1.0, ..Default::default() };
        assert!(costs.validate().unwrap_err().contains("operating_system.punch_ns is -1"));
        let costs = OperatingSystemCosts { zero_1g_ns: f64::NAN, ..Default::default() };
        assert!(costs.validate().unwrap_err().contains("zero_1g_ns"));
        let costs = OperatingSystemCosts { interrupted_processors: 70_000, ..Default::default() };
        assert!(costs.validate().unwrap_err().contains("interrupted_processors is 70000"));
    }

    /// Costs that are all different, so that a sum shows what it has of each.
    fn different() -> OperatingSystemCosts {
        OperatingSystemCosts {
            fault_4k_ns: 1.0,
            fault_2m_ns: 2.0,
            fault_1g_ns: 3.0,
            zero_4k_ns: 4.0,
            zero_2m_ns: 5.0,
            zero_1g_ns: 6.0,
            copy_4k_ns: 7.0,
            map_ns: 8.0,
            unmap_ns: 9.0,
            protect_ns: 10.0,
            split_ns: 11.0,
            punch_ns: 12.0,
            patch_ns: 13.0,
            scan_frame_ns: 14.0,
            migrate_frame_ns: 15.0,
            swap_in_ns: 16.0,
            swap_out_ns: 17.0,
            call_ns: 18.0,
            fork_ns: 19.0,
            context_switch_ns: 20.0,
            segment_registers_ns: 21.0,
            vm_exit_ns: 100.0,
            invalidate_entry_ns: 23.0,
            flush_space_ns: 24.0,
            synchronize_ns: 25.0,
            interrupt_ns: 26.0,
            interrupt_handler_ns: 27.0,
            interrupted_processors: 2,
            measured_on: None,
        }
    }

    /// Work with one thousand of what `set` names.
    fn one(set: impl Fn(&mut Work) -> &mut u64) -> Work {
        let mut work = Work::default();
        *set(&mut work) = 1000;
        work
    }

    /// Every action alone, in picoseconds at 1GHz: its cause and its cost.
    #[test]
    fn every_action_has_its_cost_under_its_cause() {
        use perforate_types::CounterValue;
        type Of = fn(&mut Work) -> &mut u64;
        let table: [(Of, &str, u64); 34] = [
            (|it| &mut it.faults_4k, "faults", 1),
            (|it| &mut it.faults_folio, "faults", 1),
            (|it| &mut it.faults_hole, "faults", 1),
            (|it| &mut it.faults_copy_on_write, "faults", 1),
            (|it| &mut it.faults_swap, "faults", 1),
            (|it| &mut it.faults_other, "faults", 1),
            (|it| &mut it.faults_2m, "faults", 2),
            (|it| &mut it.faults_perforated, "faults", 2),
            (|it| &mut it.faults_segment, "faults", 2),
            (|it| &mut it.faults_superpage, "faults", 2),
            (|it| &mut it.faults_1g, "faults", 3),
            (|it| &mut it.frames_zeroed_4k, "zeroing", 4),
            (|it| &mut it.frames_zeroed_tables, "zeroing", 4),
            (|it| &mut it.blocks_zeroed_2m, "zeroing", 5),
            (|it| &mut it.blocks_zeroed_1g, "zeroing", 6),
            (|it| &mut it.frames_copied, "copying", 7),
            (|it| &mut it.pages_mapped, "mapping", 8),
            (|it| &mut it.pages_unmapped, "mapping", 9),
            (|it| &mut it.pages_protected, "mapping", 10),
            (|it| &mut it.entries_joined, "mapping", 10),
            (|it| &mut it.large_pages_split, "mapping", 11),
            (|it| &mut it.huge_pages_split, "mapping", 11),
            (|it| &mut it.subpages_punched, "mapping", 12),
            (|it| &mut it.pages_escaped, "mapping", 12),
            (|it| &mut it.subpages_patched, "mapping", 13),
            (|it| &mut it.frames_scanned, "scanning", 14),
            (|it| &mut it.frames_migrated, "migration", 7 + 15),
            (|it| &mut it.pages_swapped_in, "swapping", 16),
            (|it| &mut it.pages_swapped_out, "swapping", 17),
            (|it| &mut it.memory_calls, "mapping", 18),
            (|it| &mut it.forks, "mapping", 19),
            (|it| &mut it.context_switches, "context_switches", 20),
            (|it| &mut it.segment_registers_loaded, "context_switches", 21),
            (|it| &mut it.entries_invalidated, "shootdowns", 23),
        ];
        let more: [(Of, &str, u64); 2] = [
            (|it| &mut it.spaces_flushed, "shootdowns", 24),
            // Two processors are interrupted.
            (|it| &mut it.shootdown_batches, "shootdowns", 25 + 2 * 26),
        ];
        for (of, cause, ns) in table.into_iter().chain(more) {
            let work = one(of);
            let cycles = different().cycles(&work, 1.0);
            assert_eq!(cycles.total(), 1000 * ns, "{work:?}");
            let mut out = Counters::default();
            out.record(CAUSES, &cycles);
            let name = format!("operating_system_cycles_{cause}");
            let others = out.iter().filter(|(id, _)| **id != name);
            assert!(others.map(|(_, value)| CounterValue::as_f64(value)).all(|it| it == 0.0));
            assert_eq!(out.get(&name), Some(1000.0 * ns as f64), "{work:?}");
        }
        // Half a cycle is rounded up.
        assert_eq!(different().cycles(&Work { faults_4k: 1, ..Work::default() }, 0.5).total(), 1);
        assert_eq!(different().cycles(&Work { faults_4k: 1, ..Work::default() }, 0.4).total(), 0);
    }

    /// The program's kernel served 10 page faults, 3 in the background. The host's served 40, 5 in the
    /// background and 20 for first backings. There were 9 exits, 2 in the background and 4 for first backings.
    #[test]
    fn the_program_waits_for_what_is_neither_in_the_background_nor_first_backing() {
        let faults = |faults_4k| Work { faults_4k, shootdown_batches: 1, ..Work::default() };
        let exits = |shadow_fault| Exits { shadow_fault, ..Exits::default() };
        let host = HostWork {
            work: faults(40),
            background: Work { faults_4k: 5, ..Work::default() },
            exits: exits(9),
            background_exits: exits(2),
            segment_exits: 3,
            backing: Work { faults_4k: 20, ..Work::default() },
            backing_exits: 4,
            backing_segment_exits: 1,
        };
        let background = Work { faults_4k: 3, ..Work::default() };
        let costs = different();
        // A batch takes 77 ns; at 2GHz, a nanosecond is two cycles.
        let batch = 77;
        let own = 2 * (7 + batch);
        let of_host = 2 * (35 + batch) + 2 * (7 * 100 + 3 * 21);
        for (of_machine, interrupts, host, expected_ns) in [
            (true, None, None, own),
            (true, None, Some(host), own + of_host),
            // Interrupts that are simulated take no time here.
            (true, Some(11), Some(host), own + of_host - 4 * batch),
            (false, None, None, own),
        ] {
            let program = ProgramWork { work: faults(10), background, host, interrupts };
            let mut out = Counters::default();
            let recorded = costs.record(&program, 2.0, of_machine, &mut out);
            assert_eq!(recorded.is_some(), of_machine);
            let get = |name: &str| out.get(name);
            assert_eq!(get("work_processors_interrupted"), Some(interrupts.unwrap_or(2) as f64));
            assert_eq!(get("work_faults_4k"), Some(10.0));
            assert_eq!(get("virtual_machine_exits"), host.map(|_| 9.0));
            assert_eq!(get("host_shootdown_batches"), host.map(|_| 1.0));
            let awaited = costs.program_cycles(&program, 2.0).0;
            let backing = 2 * (20 + 4 * 100 + 21);
            assert_eq!(awaited, expected_ns - if host.is_some() { backing } else { 0 });
            let Some(WorkCycles(total)) = recorded else {
                assert_eq!(get("operating_system_background_cycles"), None);
                continue;
            };
            assert_eq!(total, expected_ns);
            let in_background = 2 * 3 + if host.is_some() { 2 * (5 + 2 * 100) } else { 0 };
            let found = get("operating_system_background_cycles");
            assert_eq!(found, Some(f64::from(in_background)));
        }
    }

    /// The warm-up takes as many cycles per instruction as the measured part: 300 instructions of which 200
    /// took 1000 cycles take 1500.
    #[test]
    fn speeds_include_the_work() {
        let mut out = Counters::default();
        WorkCycles(500).record((200, 1_000), &mut out);
        WorkCycles(900).record_whole(300, (200, 1_000), &mut out);
        for (name, value) in [
            ("operating_system_cycles", 500.0),
            ("cycles_with_operating_system", 1_500.0),
            ("ipc_with_operating_system", 200.0 / 1_500.0),
            ("whole_run_operating_system_cycles", 900.0),
            ("whole_run_cycles", 2_400.0),
            ("whole_run_ipc", 300.0 / 2_400.0),
        ] {
            assert_eq!(out.get(name), Some(value), "{name}");
        }
    }

    /// Each counter of exits is of its own cause.
    #[test]
    fn exits_are_counted_by_cause() {
        let exits = Exits {
            nested_fault: 1,
            shadow_fault: 2,
            table_update: 4,
            register_write: 8,
            context_switch: 16,
            invalidation: 32,
        };
        let mut out = Counters::default();
        out.record(EXITS, &exits);
        let causes = [
            "_nested_fault",
            "_shadow_fault",
            "_table_update",
            "_register_write",
            "_context_switch",
            "_invalidation",
        ];
        for (place, cause) in causes.into_iter().enumerate() {
            let found = out.get(&format!("virtual_machine_exits{cause}"));
            assert_eq!(found, Some(f64::from(1 << place)), "{cause}");
        }
        assert_eq!(out.get("virtual_machine_exits"), Some(63.0));
    }

    #[test]
    fn times_and_processors_have_largest_values() {
        let costs = |ns, processors| OperatingSystemCosts {
            interrupt_handler_ns: ns,
            interrupted_processors: processors,
            ..OperatingSystemCosts::default()
        };
        assert_eq!(costs(1.2e12, 65_536).validate(), Ok(()));
        assert_eq!(costs(0.0, 0).validate(), Ok(()));
        assert_eq!(
            costs(1.3e12, 0).validate().unwrap_err(),
            "operating_system.interrupt_handler_ns is 1300000000000; expected 0 to 1200000000000 \
             nanoseconds"
        );
        assert_eq!(
            costs(0.0, 65_537).validate().unwrap_err(),
            "operating_system.interrupted_processors is 65537; expected 0 to 65536"
        );
        let costs = OperatingSystemCosts { measured_on: Some("a\nb".into()), ..costs(0.0, 0) };
        assert_eq!(costs.origin(), "as calibrate measured them on a b (a 4KB fault takes 3.5 µs)");
        let [segment_ns, handler_ns, exit_ns] =
            [segment_registers_ns(), interrupt_handler_ns(), vm_exit_ns()];
        assert_eq!((segment_ns, handler_ns, exit_ns), (5.0, 500.0, 1_300.0));
    }
}
