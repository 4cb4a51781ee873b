//! Comparing an answer of the hardware with what is mapped.

use std::fmt;

use perforate_types::{
    AccessKind, Frame, PageSize, Permissions, PhysicalAddress, SpaceId, VirtualAddress, VirtualPage,
};
use thiserror::Error;

use crate::Oracle;

/// A translation that is not what is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct Disagreement {
    /// Address space of the access.
    pub space: SpaceId,
    /// Address of the access.
    pub address: VirtualAddress,
    /// What the access does.
    pub kind: AccessKind,
    /// Physical address that is right; `None`: the access should fault.
    pub expected: Option<PhysicalAddress>,
    /// What the hardware said; `None`: it faulted.
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

/// Regions remembered, a power of two.
const PLACES: usize = 4096;

/// Recent answers for whole 2MB pages without holes and for single pages, direct-mapped, so that
/// checking keeps pace with the simulation. Every change forgets them all.
#[derive(Debug)]
pub(crate) struct Recent {
    places: Box<[Place; PLACES]>,
    /// Places of an older generation are empty.
    generation: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    generation: u64,
    page: VirtualPage,
    space: SpaceId,
    permissions: Permissions,
    frame: Frame,
}

impl Default for Recent {
    fn default() -> Self {
        let empty = Place {
            generation: 0,
            page: VirtualPage::new(0),
            space: SpaceId(0),
            permissions: Permissions::READ,
            frame: Frame::new(0),
        };
        Self { places: Box::new([empty; PLACES]), generation: 1 }
    }
}

impl Recent {
    pub(crate) fn clear(&mut self) {
        self.generation += 1;
    }

    fn place(&mut self, space: SpaceId, page: VirtualPage) -> &mut Place {
        let mixed = (page.number() ^ u64::from(space.0) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.places[(mixed >> 52) as usize % PLACES]
    }

    fn find(&mut self, space: SpaceId, page: VirtualPage) -> Option<(Frame, Permissions)> {
        let generation = self.generation;
        let place = self.place(space, page);
        let hit = place.generation == generation && place.page == page && place.space == space;
        hit.then_some((place.frame, place.permissions))
    }

    fn fill(&mut self, space: SpaceId, page: VirtualPage, frame: Frame, permissions: Permissions) {
        let generation = self.generation;
        *self.place(space, page) = Place { generation, page, space, permissions, frame };
    }
}

impl Oracle {
    /// Compares an answer of the hardware: the physical address of the access, or `None` for a
    /// fault (not mapped or not allowed).
    ///
    /// # Errors
    /// If the answer is not what is mapped.
    pub fn check(
        &mut self,
        space: SpaceId,
        address: VirtualAddress,
        kind: AccessKind,
        got: Option<PhysicalAddress>,
    ) -> Result<(), Disagreement> {
        let expected = self
            .translate_recent(space, address.page())
            .filter(|(_, permissions)| permissions.allow(kind))
            .map(|(frame, _)| frame.address().add(address.offset(PageSize::Size4K)));
        if expected == got {
            Ok(())
        } else {
            Err(Disagreement { space, address, kind, expected, got })
        }
    }

    /// As [`Oracle::translate`], through the recent answers.
    fn translate_recent(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(Frame, Permissions)> {
        let large = page.align_down(PageSize::Size2M);
        let (large_key, page_key) = (key(large, true), key(page, false));
        if let Some((frame, permissions)) = self.recent.find(space, large_key) {
            return Some((frame.add(page.index_in(PageSize::Size2M) as u64), permissions));
        }
        if let Some(found) = self.recent.find(space, page_key) {
            return Some(found);
        }
        let extent = *self.extent(space, page)?;
        if extent.holes == 0 && extent.size != PageSize::Size4K {
            self.recent.fill(space, large_key, extent.frame_of(large), extent.permissions);
            return Some((extent.frame_of(page), extent.permissions));
        }
        let (frame, permissions) = self.translate_in(&extent, space, page)?;
        self.recent.fill(space, page_key, frame, permissions);
        Some((frame, permissions))
    }
}

/// A number that tells the place of a whole 2MB page from that of its first 4KB page.
fn key(page: VirtualPage, is_large: bool) -> VirtualPage {
    VirtualPage::new(page.number() << 1 | u64::from(is_large))
}
