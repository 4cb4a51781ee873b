//! Forgetting: shootdowns, context switches, flushes.

use std::ops::Range;

use perforate_types::{Shootdown, SpaceId, Update, VirtualPage};

use super::Mmu;
use crate::{RegisteredRun, Sabotage};

impl Mmu {
    /// Applies what the operating system did.
    pub fn apply(&mut self, update: &Update) {
        match update {
            Update::Truth(_) => {}
            Update::Table(operation) => self.dimension.apply(operation),
            Update::Format(operation) => self.dimension.apply(&**operation),
            Update::Shootdown(shootdown) => self.invalidate(*shootdown),
        }
    }

    /// Applies what the host's operating system did to the virtual machine. The hardware does not
    /// know which combined entries came of a guest-physical page, so that a shootdown ends them all
    /// (INVEPT).
    ///
    /// # Panics
    /// In a native unit.
    pub fn apply_host(&mut self, update: &Update) {
        let host = self.dimension.host_mut().expect("the unit is virtualized");
        match update {
            Update::Truth(truth) => host.hear(truth),
            Update::Table(operation) => host.apply(operation),
            Update::Format(operation) => host.apply(&**operation),
            // Of another virtual machine, whose entries have another tag.
            Update::Shootdown(shootdown) if shootdown.space() != host.space() => {}
            Update::Shootdown(shootdown) => {
                host.invalidate(*shootdown);
                if self.sabotage != Some(Sabotage::KeepCombinedEntries) {
                    self.data.flush();
                    self.instruction.flush();
                    self.l2.flush();
                    self.caches.flush();
                }
            }
        }
    }

    /// Sets the register that says where a run of the guest's memory lies.
    ///
    /// # Panics
    /// In a native unit.
    pub fn set_register(&mut self, run: RegisteredRun) {
        self.dimension.host_mut().expect("the unit is virtualized").set_register(run);
    }

    /// Applies what the hypervisor did to the shadow tables. Their entries are cached under the
    /// guest's address spaces.
    ///
    /// # Panics
    /// In a unit without shadow tables, or if they cannot hold it.
    pub fn apply_shadow(&mut self, update: &Update) {
        match update {
            Update::Table(operation) => {
                let shadow = self.dimension.shadow_mut();
                shadow.expect("the unit has shadow tables").apply_shadow(operation);
            }
            Update::Shootdown(shootdown) => self.invalidate(*shootdown),
            Update::Truth(_) | Update::Format(_) => panic!("shadow tables cannot hold {update:?}"),
        }
    }

    fn invalidate(&mut self, shootdown: Shootdown) {
        match shootdown {
            Shootdown::Page { space, page } => {
                if self.sabotage != Some(Sabotage::SkipL1Invalidation) {
                    self.data.invalidate_page(space, page);
                    self.instruction.invalidate_page(space, page);
                }
                self.l2.invalidate_page(space, page);
                if self.sabotage != Some(Sabotage::KeepStaleRun) {
                    self.l2.invalidate_run(space, page);
                }
                self.caches.invalidate(space, page);
            }
            Shootdown::Large { space, page, size } => {
                if self.sabotage == Some(Sabotage::KeepStaleFilter)
                    && self.l2.holds_perforated(space, page)
                {
                    return;
                }
                let first = page.align_down(size).number();
                self.invalidate_tlbs(space, &(first..first + size.pages()));
                self.caches.invalidate(space, page);
            }
            Shootdown::Bitmap { space, page } => {
                if self.sabotage != Some(Sabotage::SkipBitmapInvalidation) {
                    self.l2.invalidate_bitmap(space, page);
                }
            }
            Shootdown::Superpage { space, page, mode } => {
                self.invalidate_tlbs(space, &(page.number()..page.number() + mode.entry_pages()));
                if self.sabotage != Some(Sabotage::StaleGapTolerantEntry) {
                    self.caches.invalidate_superpage(space, page, mode);
                }
            }
            Shootdown::Space { space } => {
                self.data.invalidate_space(space);
                self.instruction.invalidate_space(space);
                self.l2.invalidate_space(space);
                self.caches.invalidate_space(space);
            }
        }
    }

    /// Forgets what the TLBs have of these 4KB pages.
    fn invalidate_tlbs(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.data.invalidate_range(space, pages);
        self.instruction.invalidate_range(space, pages);
        self.l2.invalidate_range(space, pages);
    }

    /// Runs another address space from now on. Without tags that ends what is cached of virtual
    /// addresses; guest-physical ones are the virtual machine's and stay, as on x86-64.
    pub fn switch(&mut self, space: SpaceId) {
        if !self.tagged && space != self.space {
            self.data.flush();
            self.instruction.flush();
            self.l2.flush_virtual();
            self.caches.flush();
        }
        self.space = space;
    }

    /// Forgets every cached translation.
    pub fn flush(&mut self) {
        self.data.flush();
        self.instruction.flush();
        self.l2.flush();
        self.caches.flush();
        if let Some(host) = self.dimension.host_mut() {
            host.flush();
        }
    }

    /// Forgets the first-level translations; for explaining what lies behind them.
    pub fn flush_first_level(&mut self) {
        self.data.flush();
        self.instruction.flush();
    }

    /// Forgets the 4KB translation of `page` in the second level; the walk caches keep theirs.
    pub fn evict_page(&mut self, page: VirtualPage) {
        self.l2.invalidate_page(self.space, page);
        self.l2.invalidate_run(self.space, page);
    }

    /// Forgets the bitmap entry that covers `page`.
    pub fn evict_bitmap(&mut self, page: VirtualPage) {
        self.l2.invalidate_bitmap(self.space, page);
    }
}
