//! Invalidation of cached translations: shootdowns, context switches, flushes.

use std::ops::Range;

use perforate_types::{PageSize, Shootdown, SpaceId, TableOperation, Update, VirtualPage};

use super::Mmu;
use crate::nested::bitmap_bits;
use crate::{BitmapUpdates, Host, RegisteredRun};

impl Mmu {
    /// Applies an update from the operating system. A shootdown reaches all cores.
    pub fn apply(&mut self, update: &Update) {
        match update {
            Update::Shootdown(shootdown) => {
                self.on_all_cores(|mmu| mmu.invalidate(*shootdown));
            }
            _ => self.apply_here(update),
        }
    }

    /// Like [`Self::apply`], but a shootdown reaches only the running core. Tests use this to model
    /// an operating system that forgets the other cores.
    pub fn apply_here(&mut self, update: &Update) {
        match update {
            Update::Truth(_) => {}
            Update::Table(operation) => {
                if let TableOperation::SetControl { .. } = operation {
                    self.on_all_cores(|mmu| mmu.own.caches.on_table_operation(operation));
                }
                self.dimension.apply(operation);
            }
            Update::Format(operation) => self.dimension.apply(&**operation),
            Update::Shootdown(shootdown) => self.invalidate(*shootdown),
        }
    }

    /// Applies an update from the host's operating system, such as a change of the nested page
    /// tables. The hardware does not know which combined entries depend on a guest-physical page,
    /// so a shootdown flushes all of them (INVEPT).
    ///
    /// # Panics
    /// If the MMU is native.
    pub fn apply_host(&mut self, update: &Update) {
        let host = self.dimension.host_mut().expect("the unit is virtualized");
        match update {
            Update::Truth(truth) => host.on_truth(truth),
            Update::Table(operation) => {
                host.apply(operation);
                if let TableOperation::SetControl { .. } = operation {
                    self.on_all_cores(|mmu| {
                        if let Some(host) = mmu.dimension.host_mut() {
                            host.on_control_write(operation);
                        }
                    });
                }
            }
            Update::Format(operation) => host.apply(&**operation),
            // The shootdown is for another virtual machine, whose entries have another tag.
            Update::Shootdown(shootdown) if shootdown.space() != host.space() => {}
            Update::Shootdown(shootdown) => self.on_all_cores(|mmu| {
                if let Some(host) = mmu.dimension.host_mut() {
                    host.invalidate(*shootdown);
                }
                mmu.flush_own();
            }),
        }
    }

    /// Flushes the running core's TLBs and walk caches, and its unit in parallel with a TLB, such
    /// as a range TLB. A separate nested TLB and the walk caches for the host's tables keep their
    /// entries.
    fn flush_own(&mut self) {
        self.own.data.flush();
        self.own.instruction.flush();
        self.own.l2.flush();
        self.own.walked.invalidate_all();
        self.own.caches.flush();
        self.flush_unit();
    }

    /// Returns true if, since the last call, the host has moved or unmapped guest memory whose
    /// machine location was in the register ([`Self::set_register`]).
    pub fn take_moved_run(&mut self) -> bool {
        self.dimension.host_mut().is_some_and(Host::take_moved_run)
    }

    /// Writes the register that holds the machine location of a run of guest memory. The walker
    /// translates pages of the run without a nested walk (P §V: the guest's hole bitmaps).
    ///
    /// # Panics
    /// If the MMU is native.
    pub fn set_register(&mut self, run: RegisteredRun) {
        self.dimension.host_mut().expect("the unit is virtualized").set_register(run);
    }

    fn invalidate(&mut self, shootdown: Shootdown) {
        if let Some(unit) = self.dimension.sideband_tlb_mut() {
            unit.invalidate(shootdown);
        }
        match shootdown {
            Shootdown::Page { space, page } => {
                self.own.data.invalidate_page(space, page);
                self.own.instruction.invalidate_page(space, page);
                self.own.l2.invalidate_page(space, page);
                self.own.l2.invalidate_run(space, page);
                self.own.walked.invalidate(space, &(page.number()..page.number() + 1));
                self.own.caches.invalidate(space, page);
            }
            Shootdown::Large { space, page, size } => {
                let first = page.align_down(size).number();
                self.invalidate_tlbs(space, &(first..first + size.pages()));
                self.own.caches.invalidate(space, page);
            }
            Shootdown::Bitmap { space, page } => {
                self.change_bitmap(space, page);
            }
            Shootdown::Superpage { space, page, mode } => {
                let pages = mode.entry_pages();
                self.invalidate_tlbs(space, &(page.number()..page.number() + pages));
                self.own.caches.invalidate_range(space, page, pages);
            }
            Shootdown::Space { space } => {
                self.own.data.invalidate_space(space);
                self.own.instruction.invalidate_space(space);
                self.own.l2.invalidate_space(space);
                self.own.walked.invalidate_space(space);
                self.own.caches.invalidate_space(space);
            }
        }
    }

    /// Invalidates or updates the cached bitmap entry of `page`, as `tlb.bitmap_updates` selects,
    /// after a bit of the bitmap in memory changed.
    fn change_bitmap(&mut self, space: SpaceId, page: VirtualPage) {
        let written = match self.bitmap_updates {
            BitmapUpdates::Invalidate => None,
            BitmapUpdates::InPlace => {
                self.dimension.holes().and_then(|holes| holes.written_bitmap(space, page))
            }
        };
        match written {
            Some(bitmap) => {
                let bits = bitmap_bits(&bitmap, page.index_in(PageSize::Size2M) as u64);
                let is_held = self.own.l2.update_bitmap(space, page, bits);
                self.counters.bitmap_updates += u64::from(is_held);
            }
            None => self.own.l2.invalidate_bitmap(space, page),
        }
    }

    fn flush_unit(&mut self) {
        if let Some(unit) = self.dimension.sideband_tlb_mut() {
            unit.flush();
        }
    }

    /// Invalidates the TLB entries that overlap these 4KB pages.
    fn invalidate_tlbs(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.own.data.invalidate_range(space, pages);
        self.own.instruction.invalidate_range(space, pages);
        self.own.l2.invalidate_range(space, pages);
        self.own.walked.invalidate(space, pages);
    }

    /// Switches to another address space. Without tags, this flushes the entries of virtual
    /// addresses; guest-physical entries belong to the virtual machine and stay, as on x86-64.
    pub fn switch(&mut self, space: SpaceId) {
        if !self.tagged && space != self.own.space {
            self.own.data.flush();
            self.own.instruction.flush();
            self.own.l2.flush_virtual();
            self.own.walked.invalidate_all();
            self.own.caches.flush();
            self.flush_unit();
        }
        self.own.space = space;
    }

    /// Flushes all cached translations of all cores.
    pub fn flush(&mut self) {
        self.on_all_cores(|mmu| {
            mmu.flush_own();
            if let Some(host) = mmu.dimension.host_mut() {
                host.flush();
            }
        });
    }

    /// Flushes the running core's first-level TLBs, so the next access shows the work of the second
    /// level. For explanations and tests.
    pub fn flush_first_level(&mut self) {
        self.own.data.flush();
        self.own.instruction.flush();
    }

    /// Invalidates the second-level TLB entry of the 4KB page `page`; walk caches keep their
    /// entries. For explanations and tests.
    pub fn evict_page(&mut self, space: SpaceId, page: VirtualPage) {
        self.own.l2.invalidate_page(space, page);
        self.own.l2.invalidate_run(space, page);
    }

    /// Invalidates the second-level TLB's bitmap entry that covers `page`. For explanations and
    /// tests.
    pub fn evict_bitmap(&mut self, space: SpaceId, page: VirtualPage) {
        self.own.l2.invalidate_bitmap(space, page);
    }
}
