//! Why an address was not translated.

use perforate_types::{AccessKind, GuestFrame};

/// The host cannot translate a guest-physical address, or does not allow the access: a violation of
/// the nested page table, which its hypervisor serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFault {
    /// Page of the guest's memory.
    pub page: GuestFrame,
    /// The access that was tried.
    pub kind: AccessKind,
}

/// Why a walk found no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFault {
    /// Nothing is mapped there.
    NotMapped,
    /// An address on the way is not translated by the dimension beneath.
    Host(HostFault),
    /// The tables are filled from others when they are needed and have no entry, which may or may not
    /// mean that the others have none.
    Incomplete,
}

impl From<HostFault> for WalkFault {
    fn from(fault: HostFault) -> Self {
        Self::Host(fault)
    }
}

/// The access cannot be done with the tables as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// Nothing is mapped there.
    NotMapped,
    /// The mapping does not allow the access.
    Protection,
    /// The host does not back the guest's page, or does not allow the access to it.
    Host(HostFault),
    /// The tables are filled from others when they are needed, and do not map the page or do not
    /// allow the access: whoever fills them is to find out whether the others do.
    Incomplete,
}

impl From<WalkFault> for PageFault {
    fn from(fault: WalkFault) -> Self {
        match fault {
            WalkFault::NotMapped => Self::NotMapped,
            WalkFault::Host(fault) => Self::Host(fault),
            WalkFault::Incomplete => Self::Incomplete,
        }
    }
}
