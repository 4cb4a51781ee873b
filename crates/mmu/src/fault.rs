//! Reasons why a translation fails.

use perforate_types::{AccessKind, GuestFrame};

/// The host does not map a guest-physical address or does not allow the access: a nested page fault
/// (EPT violation), which the hypervisor handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFault {
    /// Page of the guest's memory that the host does not map, or to which it forbids the access.
    pub page: GuestFrame,
    /// Kind of the attempted access.
    pub kind: AccessKind,
}

/// Reason why a walk found no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFault {
    /// A page-table entry on the path to the leaf is not present.
    NotMapped,
    /// The host does not map the address of a table on the path.
    Host(HostFault),
    /// An entry is missing in shadow tables, which the hypervisor fills on demand from the tables
    /// of guest and host. Those may or may not map the page.
    Incomplete,
}

impl From<HostFault> for WalkFault {
    fn from(fault: HostFault) -> Self {
        Self::Host(fault)
    }
}

/// Reason why an access cannot complete before the operating system changes the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// The page is not mapped.
    NotMapped,
    /// The page's permissions forbid the access.
    Protection,
    /// The host does not map the guest's page, or does not allow the access.
    Host(HostFault),
    /// Shadow tables, which the hypervisor fills on demand from the tables of guest and host, do
    /// not map the page or do not allow the access. The hypervisor has to check the tables of guest
    /// and host.
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
