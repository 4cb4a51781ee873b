//! Comparison of the hardware's translations with the intended mapping.

use std::fmt;

use perforate_types::{
    AccessKind, Frame, PageSize, Permissions, PhysicalAddress, SpaceId, VirtualAddress, VirtualPage,
};
use thiserror::Error;

use crate::Oracle;

/// Translation by the simulated hardware that differs from the intended mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct Disagreement {
    /// Address space of the access.
    pub space: SpaceId,
    /// Virtual address that was accessed.
    pub address: VirtualAddress,
    /// Kind of the access: load, store or fetch.
    pub kind: AccessKind,
    /// Physical address by the intended mapping; `None` if the access should fault.
    pub expected: Option<PhysicalAddress>,
    /// Physical address that the hardware returned; `None` if the hardware faulted.
    pub got: Option<PhysicalAddress>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = |answer: Option<PhysicalAddress>| match answer {
            Some(address) => format!("{address:#x}"),
            None => "a fault".to_string(),
        };
        let kind = match self.kind {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Fetch => "fetch",
        };
        let (expected, got) = (answer(self.expected), answer(self.got));
        let (address, space) = (self.address, self.space.0);
        write!(f, "{kind} of {address:#x} in address space {space}: expected {expected}, got {got}")
    }
}

impl Oracle {
    /// Compares a translation of the hardware with the intended mapping. `got` is the physical
    /// address of the access, or `None` for a fault (not mapped or not allowed).
    ///
    /// # Errors
    /// [`Disagreement`] if the translation differs from the intended mapping.
    pub fn check(
        &mut self,
        space: SpaceId,
        address: VirtualAddress,
        kind: AccessKind,
        got: Option<PhysicalAddress>,
    ) -> Result<(), Disagreement> {
        let expected = self
            .expected(space, address.page())
            .filter(|(_, permissions)| permissions.allow(kind))
            .map(|(frame, _)| frame.address().add(address.offset(PageSize::Size4K)));
        if expected == got {
            Ok(())
        } else {
            Err(Disagreement { space, address, kind, expected, got })
        }
    }

    /// Intended frame and permissions of `page`, like [`Oracle::translate`], from a cache of recent results.
    /// `None` if the page is not mapped.
    pub fn expected(&mut self, space: SpaceId, page: VirtualPage) -> Option<(Frame, Permissions)> {
        if let Some(answer) = self.recent.find(space, page) {
            return answer;
        }
        let answer = self.translate(space, page);
        self.recent.fill(space, page, answer);
        answer
    }
}
