//! Placement of cached gPA→hPA entries.

use perforate_types::Unit;

use crate::TlbGeometry;
use crate::tlb::L2Tlb;

/// Structure that caches gPA→hPA entries.
#[derive(Clone)]
pub(super) enum NestedTlb {
    /// The second-level TLB, which gPA→hPA entries share with other entries.
    Shared,
    /// A separate TLB, for gPA→hPA entries only.
    Apart(Box<L2Tlb>),
    /// None: gPA→hPA entries are not cached.
    None,
}

impl NestedTlb {
    pub(super) fn new(geometry: Option<TlbGeometry>) -> Self {
        match geometry {
            None => Self::Shared,
            Some(TlbGeometry { entries: 0, .. }) => Self::None,
            Some(geometry) => Self::Apart(Box::new(L2Tlb::nested(geometry))),
        }
    }

    /// Returns the TLB that caches gPA→hPA entries, if any; `l2` is the second-level TLB.
    #[inline]
    pub(super) fn get<'a>(&'a mut self, l2: &'a mut L2Tlb) -> Option<(&'a mut L2Tlb, Unit)> {
        match self {
            Self::Shared => Some((l2, Unit::L2Tlb)),
            Self::Apart(tlb) => Some((tlb, Unit::NestedTlb)),
            Self::None => None,
        }
    }

    pub(super) fn flush(&mut self) {
        if let Self::Apart(tlb) = self {
            tlb.flush();
        }
    }
}
