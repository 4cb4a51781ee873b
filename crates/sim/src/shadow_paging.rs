//! Shadow paging by the hypervisor: it fills missing shadow entries, and updates them after changes
//! by guest and host.

use perforate_mmu::{Dimension, HostFault, PageFault, Reach, allow};
use perforate_os::{Hypervisor, ShadowLeaf};
use perforate_schemes::shadow::Shadow;
use perforate_types::{
    AccessKind, GuestFrame, Permissions, SpaceId, Update, VirtualAddress, VirtualPage, Written,
};

use crate::{Side, SimError, System};

impl System {
    /// Serves a page fault under shadow paging. Returns true if the access may be retried. If the
    /// guest's tables and registers do not allow the access, the fault is passed to the guest.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_shadow_fault(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
    ) -> Result<bool, SimError> {
        self.host.exits.shadow_fault += 1;
        let (space, page) = (self.kernel.current(), address.page());
        let guest = self.shadow().and_then(|shadow| shadow.guest_leaf(space, page));
        let Some(guest) = guest.filter(|leaf| allow::permits(leaf.allows, kind)) else {
            self.check(kind, address, &Err(PageFault::NotMapped))?;
            return self.serve_fault(kind, address);
        };
        self.change_host(|host| {
            host.make_room();
            Ok(())
        })?;
        for table in self.tables_read(space, page) {
            if !self.back(table, AccessKind::Write)? {
                return Ok(false);
            }
        }
        let frame = guest.frame_of(page);
        let guest_frame = GuestFrame::new(frame.number());
        if !self.back(guest_frame, kind)? {
            return Ok(false);
        }
        self.fill_shadow(kind, page, guest_frame)?;
        Ok(true)
    }

    /// Returns the shadow tables, with the guest's and host's tables that they combine. `None`
    /// without shadow paging.
    fn shadow(&self) -> Option<&Shadow> {
        self.mmu.dimension().part()
    }

    /// Returns the tables and registers that the program's operating system writes. Under shadow
    /// paging, no hardware walks them.
    pub(crate) fn own_tables(&self) -> &dyn Dimension {
        self.shadow().map_or(self.mmu.dimension(), Shadow::guest)
    }

    /// Returns the frames of the guest's tables that the hypervisor reads for a page, and whose
    /// writes it does not intercept yet.
    fn tables_read(&self, space: SpaceId, page: VirtualPage) -> Vec<GuestFrame> {
        if self.shadow().is_none_or(|shadow| !shadow.is_in_guest_tables(space, page)) {
            return Vec::new();
        }
        let tables = self.hypervisor().and_then(|host| host.shadow_tables());
        tables.map(|tables| tables.unshadowed(space, page)).unwrap_or_default()
    }

    fn host_leaf(&self, page: GuestFrame, kind: AccessKind) -> Option<Reach> {
        let leaf = self.shadow().and_then(|shadow| shadow.host_leaf(page));
        leaf.filter(|leaf| allow::permits(leaf.allows, kind))
    }

    /// Lets the host's kernel back a page of the guest's memory, within the same exit. Returns true
    /// if the host allows the access.
    fn back(&mut self, page: GuestFrame, kind: AccessKind) -> Result<bool, SimError> {
        match self.host_leaf(page, kind) {
            Some(_) => Ok(true),
            None => Ok(self.back_in_host(HostFault { page, kind })?.is_allowed),
        }
    }

    /// Fills the shadow entry that combines the guest's mapping of `page` with the host's mapping of
    /// `guest_frame`, at the smaller page size. If the host has no mapping, the access faults again.
    fn fill_shadow(
        &mut self,
        kind: AccessKind,
        page: VirtualPage,
        guest_frame: GuestFrame,
    ) -> Result<(), SimError> {
        let space = self.kernel.current();
        let Some(host) = self.host_leaf(guest_frame, kind) else { return Ok(()) };
        let shadow: Option<&mut Shadow> = self.mmu.dimension_mut().part_mut();
        let Some(shadow) = shadow else { return Ok(()) };
        shadow.mark_guest(space, page, kind == AccessKind::Write);
        let Some(guest) = shadow.guest_leaf(space, page) else { return Ok(()) };
        let is_in_tables = shadow.is_in_guest_tables(space, page);
        let leaf = compose((space, page, guest_frame), is_in_tables, &guest, &host);
        if leaf.permissions.write {
            shadow.mark_host(guest_frame);
        }
        let Some(hypervisor) = &mut self.hypervisor else { return Ok(()) };
        let made = hypervisor.shadow(&leaf);
        self.publish_shadow();
        made.map_err(|source| self.host_failure(source))
    }

    /// Updates the shadow tables after the guest wrote its tables or registers. `index` is the
    /// index of this write in `self.updates`.
    pub(crate) fn follow_guest(&mut self, index: usize) {
        let (Some(host), Some(operation)) = (&mut self.hypervisor, self.updates[index].operation())
        else {
            return;
        };
        if !self.connections.is_followed(operation) {
            return;
        }
        let exits = &mut self.host.exits;
        match host.guest_changed(operation) {
            Some(Written::Entry(_)) => exits.table_update += 1,
            Some(Written::Registers(registers)) => exits.register_write += registers,
            Some(Written::Copy) | None => {}
        }
        self.publish_shadow();
    }

    /// Updates the shadow tables after the host wrote its tables. `index` is the index of this
    /// write in `self.updates`.
    pub(crate) fn follow_host(&mut self, index: usize) {
        if let (Some(host), Update::Table(operation)) = (&mut self.hypervisor, &self.updates[index])
        {
            host.host_changed(operation);
            self.publish_shadow();
        }
    }

    fn publish_shadow(&mut self) {
        let updates = self.hypervisor.as_mut().and_then(Hypervisor::shadow_updates);
        for update in updates.into_iter().flat_map(|updates| updates.drain(..)) {
            self.connections.deliver(Side::Shadow, &update, &mut self.mmu);
        }
    }
}

/// Composes the shadow entry of a guest's leaf over a host's. It is writable only if the guest's
/// leaf is dirty. Otherwise the hypervisor must see the first store, because the hardware does not
/// set the guest's dirty bit.
fn compose(
    (space, page, guest_frame): (SpaceId, VirtualPage, GuestFrame),
    is_in_tables: bool,
    guest: &Reach,
    host: &Reach,
) -> ShadowLeaf {
    let size = guest.size.min(host.size);
    let guest_frame = guest_frame.align_down(size);
    let frame = host.frame.add(guest_frame.index_in(host.size) as u64);
    let allows = guest.allows & host.allows;
    let permissions = Permissions {
        write: allow::permits(allows, AccessKind::Write) && guest.allows & allow::DIRTY != 0,
        execute: allow::permits(allows, AccessKind::Fetch),
        user: allow::permits(allows, AccessKind::Read),
    };
    let page = page.align_down(size);
    ShadowLeaf { space, page, size, guest_frame, frame, permissions, is_in_tables }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Frame, PageSize};

    use super::*;

    fn reach(size: PageSize, frame: u64, permissions: Permissions, dirty: bool) -> Reach {
        let allows = allow::of_leaf(permissions, dirty);
        Reach { size, frame: Frame::new(frame), allows, filter: 0 }
    }

    #[test]
    fn the_finer_size_and_both_permissions() {
        use PageSize::{Size1G, Size2M, Size4K};
        let place = (SpaceId(1), VirtualPage::new(512 + 7), GuestFrame::new(1024 + 7));
        let leaf = |guest: (PageSize, u64), host: (PageSize, u64), dirty| {
            let guest = reach(guest.0, guest.1, Permissions::ALL, dirty);
            let host = reach(host.0, host.1, Permissions::READ_WRITE, false);
            let leaf = compose(place, true, &guest, &host);
            assert!(leaf.permissions.user && !leaf.permissions.execute, "the host forbids it");
            (leaf.size, leaf.page.number(), leaf.guest_frame.number(), leaf.frame.number())
        };
        assert_eq!(leaf((Size4K, 1031), (Size2M, 4096), true), (Size4K, 519, 1031, 4103));
        assert_eq!(leaf((Size2M, 1024), (Size4K, 99), true), (Size4K, 519, 1031, 99));
        assert_eq!(leaf((Size2M, 1024), (Size2M, 4096), true), (Size2M, 512, 1024, 4096));
        assert_eq!(leaf((Size2M, 1024), (Size1G, 1 << 18), true), (Size2M, 512, 1024, 263_168));
    }

    #[test]
    fn a_clean_page_is_not_to_be_written() {
        let place = (SpaceId(1), VirtualPage::new(7), GuestFrame::new(7));
        let host = reach(PageSize::Size4K, 99, Permissions::ALL, true);
        for (guest, dirty, write) in [
            (Permissions::READ_WRITE, false, false),
            (Permissions::READ_WRITE, true, true),
            (Permissions::READ, true, false),
        ] {
            let guest = reach(PageSize::Size4K, 7, guest, dirty);
            assert_eq!(compose(place, true, &guest, &host).permissions.write, write);
        }
    }
}
