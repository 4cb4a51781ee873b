//! Machines of storms whose TLBs hold contiguous 4KB pages as one entry.

use perforate_config::read;
use perforate_mmu::{Coalescing, CoalescingForm};
use perforate_sim::{Machine, MemoryState};

/// Hardware for contiguous pages.
#[derive(Clone, Copy, Debug)]
pub struct Coalesced {
    pub form: CoalescingForm,
    pub pages: u64,
    /// True if the first level holds such entries, too.
    pub in_l1: bool,
}

impl Coalesced {
    /// The kinds of hardware: Arm's, RISC-V's and AMD's, the latter with two sizes.
    pub const ALL: [Self; 6] = [
        Self::new(CoalescingForm::ContiguousBit, 16, true),
        Self::new(CoalescingForm::ContiguousBit, 16, false),
        Self::new(CoalescingForm::Napot, 16, true),
        Self::new(CoalescingForm::AlignedGroups, 4, true),
        Self::new(CoalescingForm::AlignedGroups, 4, false),
        Self::new(CoalescingForm::Groups, 8, true),
    ];

    const fn new(form: CoalescingForm, pages: u64, in_l1: bool) -> Self {
        Self { form, pages, in_l1 }
    }

    /// Gives a storm this hardware and, with every second seed, folios of several sizes (with every fourth also
    /// tables of five levels). With every
    /// third seed, the host has them.
    pub fn configure(self, machine: &mut Machine, memory: &mut MemoryState, seed: u64) {
        machine.tlb.l2_coalescing = Some(Coalescing { pages: self.pages, form: self.form });
        machine.tlb.l1_coalescing = self.in_l1;
        machine.page_table_levels = if seed % 4 == 1 { 5 } else { 4 };
        let sizes = || Some(read("16K,64K=inherit,128K=madvise").expect("valid"));
        if seed % 2 == 1 {
            memory.kernel.mthp = sizes();
        }
        if let Some(host) = memory.host.as_mut().filter(|_| seed.is_multiple_of(3)) {
            host.kernel.mthp = sizes();
        }
    }
}
