//! The reference of a whole system: one oracle, or that of the guest composed with the host's.

use perforate_mmu::{PageFault, Translated};
use perforate_oracle::{Disagreement, Oracle, OracleError};
use perforate_types::{
    AccessKind, Frame, GuestFrame, MappingChange, PageSize, Permissions, PhysicalAddress, SpaceId,
    VirtualAddress, VirtualPage,
};

/// What a dimension maps, by its own oracle.
pub(crate) struct Oracles {
    own: Oracle,
    host: Option<HostOracle>,
}

/// The oracle of the host, and the address space that the virtual machine is there.
struct HostOracle {
    oracle: Oracle,
    space: SpaceId,
}

impl HostOracle {
    fn expected(&mut self, page: GuestFrame) -> Option<(Frame, Permissions)> {
        self.oracle.expected(self.space, VirtualPage::new(page.number()))
    }
}

/// An access.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) space: SpaceId,
    pub(crate) address: VirtualAddress,
    pub(crate) kind: AccessKind,
}

impl Oracles {
    /// Nothing is mapped. `virtual_machine` is the host's address space for the guest, if there is
    /// one.
    pub(crate) fn new(virtual_machine: Option<SpaceId>) -> Self {
        let host = virtual_machine.map(|space| HostOracle { oracle: Oracle::new(), space });
        Self { own: Oracle::new(), host }
    }

    /// Takes over a change of the first dimension.
    pub(crate) fn apply(&mut self, change: &MappingChange) -> Result<(), OracleError> {
        self.own.apply(change)
    }

    /// Takes over a change of the second dimension.
    pub(crate) fn apply_host(&mut self, change: &MappingChange) -> Result<(), OracleError> {
        let host = self.host.as_mut().expect("there is a second dimension");
        host.oracle.apply(change)
    }

    /// Compares what the hardware said with what is mapped: an address must be that of both maps
    /// together, and a fault must be the fault of the dimension that is blamed for it.
    pub(crate) fn check(
        &mut self,
        access: Access,
        result: &Result<Translated, PageFault>,
    ) -> Result<(), Disagreement> {
        let Access { space, address, kind } = access;
        let Some(host) = &mut self.host else {
            let got = result.map(|translated| translated.physical).ok();
            return self.own.check(space, address, kind, got);
        };
        let allowed = |(_, permissions): &(Frame, Permissions)| permissions.allow(kind);
        let guest = self.own.expected(space, address.page()).filter(allowed);
        let composed = guest
            .and_then(|(frame, _)| host.expected(GuestFrame::new(frame.number())).filter(allowed));
        let composed = composed.map(|(frame, _)| physical(frame, address));
        let wrong = |expected, got| Disagreement { space, address, kind, expected, got };
        match *result {
            Ok(Translated { physical, .. }) if composed == Some(physical) => Ok(()),
            Ok(Translated { physical, .. }) => Err(wrong(composed, Some(physical))),
            Err(PageFault::Host(fault)) => {
                let mapped = host.expected(fault.page);
                let mapped = mapped.filter(|(_, permissions)| permissions.allow(fault.kind));
                let Some((frame, _)) = mapped else { return Ok(()) };
                let address = VirtualAddress::new(fault.page.address().value());
                let expected = Some(physical(frame, address));
                Err(Disagreement {
                    space: host.space,
                    address,
                    kind: fault.kind,
                    expected,
                    got: None,
                })
            }
            // The hypervisor may forget a shadow entry at any time; it is asked next.
            Err(PageFault::Shadow) => Ok(()),
            Err(_) => match guest {
                None => Ok(()),
                Some(_) => Err(wrong(composed, None)),
            },
        }
    }

    /// Compares where the walker found a guest's table with where the host has it.
    pub(crate) fn check_table(&mut self, page: GuestFrame, got: Frame) -> Result<(), Disagreement> {
        let host = self.host.as_mut().expect("there is a second dimension");
        let kind = AccessKind::Write;
        let expected = host.expected(page).filter(|(_, permissions)| permissions.allow(kind));
        let address = VirtualAddress::new(page.address().value());
        let expected = expected.map(|(frame, _)| physical(frame, address));
        let got = Some(physical(got, address));
        if expected == got {
            return Ok(());
        }
        Err(Disagreement { space: host.space, address, kind, expected, got })
    }
}

fn physical(frame: Frame, address: VirtualAddress) -> PhysicalAddress {
    frame.address().add(address.offset(PageSize::Size4K))
}
