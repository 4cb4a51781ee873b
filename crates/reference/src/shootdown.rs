//! Model of shootdowns: which entries each invalidates ([`Shootdown`], P §IV.E).

use perforate_mmu::{BitmapUpdates, CachedContent, CachedEntry, EntryKind, Mmu};
use perforate_types::{Shootdown, Unit};

use crate::{Reference, Side, covers, overlaps};

/// TLBs and walk caches whose entries are tagged with virtual addresses.
const VIRTUAL: [Unit; 4] = [Unit::L1DataTlb, Unit::L1InstructionTlb, Unit::L2Tlb, Unit::WalkCache];

impl Reference {
    /// Removes the entries that a shootdown invalidates from the model's TLBs and walk caches of all cores. A
    /// shootdown by the host flushes all entries that may depend on the virtual machine, because no entry
    /// records its guest-physical page.
    pub(crate) fn shoot_down(&mut self, side: Side, shootdown: Shootdown, mmu: &Mmu) {
        let is_kept_in_place = self.setup.config.tlb.bitmap_updates == BitmapUpdates::InPlace;
        if side == Side::Host {
            let machine = mmu.dimension().host().map(|host| host.space());
            if machine != Some(shootdown.space()) {
                return;
            }
            for core in &mut self.cores {
                for unit in VIRTUAL.into_iter().chain([Unit::NestedTlb]) {
                    core.units[unit as usize].retain(|_| false);
                }
                core.units[Unit::HostWalkCache as usize].retain(|entry| !ends(shootdown, entry));
            }
            return;
        }
        let mut may_have_changed = false;
        for unit in self.cores.iter_mut().flat_map(|core| &mut core.units) {
            if let Shootdown::Bitmap { .. } = shootdown
                && is_kept_in_place
            {
                let is_selected =
                    |entry: &CachedEntry| !entry.is_guest_physical && ends(shootdown, entry);
                may_have_changed |= unit.expect_change(is_selected);
            } else {
                unit.retain(|entry| entry.is_guest_physical || !ends(shootdown, entry));
            }
        }
        if may_have_changed {
            self.inspect(mmu);
            self.compare(mmu);
            self.compare_others(mmu);
        }
    }
}

/// True if a shootdown invalidates this entry of a TLB or walk cache (of the shootdown's address space).
fn ends(shootdown: Shootdown, entry: &CachedEntry) -> bool {
    use CachedContent::{Bitmap, Leaf, Node, Page};
    if entry.space != shootdown.space() {
        return false;
    }
    match (shootdown, entry.content) {
        (Shootdown::Space { .. }, _) => true,
        (Shootdown::Page { page, .. }, Page { kind, .. }) => {
            (kind == EntryKind::Run || entry.pages == 1) && covers(entry, page.number())
        }
        (Shootdown::Page { page, .. } | Shootdown::Large { page, .. }, Node { .. } | Leaf) => {
            covers(entry, page.number())
        }
        (Shootdown::Large { page, size, .. }, Page { .. } | Bitmap(_)) => {
            overlaps(entry, page.align_down(size).number(), size.pages())
        }
        (Shootdown::Superpage { page, mode, .. }, _) => {
            overlaps(entry, page.number(), mode.entry_pages())
        }
        (Shootdown::Bitmap { page, .. }, Bitmap(_)) => covers(entry, page.number()),
        (Shootdown::Page { .. }, Bitmap(_)) | (Shootdown::Bitmap { .. }, _) => false,
    }
}
