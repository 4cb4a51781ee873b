//! Backs a 2MB region with a 2MB block. The block is mapped whole, mapped with holes at frames that are in
//! use, or only reserved at first.

use perforate_types::{HoleSet, Permissions, SpaceId};

use super::{Backed, Backer, Touch};
use crate::kernel::claim::ClaimedBlock;
use crate::kernel::{Core, FirstTouch, single_page};
use crate::memory::complement;
use crate::space::{Area, Large, page_at};
use crate::{BlockUse, HoleAllocation, Orders, OsError, Policy};

/// Backer (mechanism that maps memory on first touches) of 2MB pages, in blocks claimed from memory.
pub(super) struct Blocks {
    reserves: bool,
}

impl Blocks {
    /// Creates the backer of 2MB pages. `policy` decides if a block is at first only reserved.
    pub(super) fn new(policy: &dyn Policy) -> Self {
        Self { reserves: reserves(policy) }
    }
}

/// True if the policy only reserves a 2MB block at first, and maps its sub-pages as they are touched (P §VI).
pub(super) fn reserves(policy: &dyn Policy) -> bool {
    policy.hole_rule().is_some_and(|rule| rule.reserves())
}

impl Backer for Blocks {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let &Touch { space: id, page, ref area } = touch;
        let number = touch.region();
        if !touch.orders(core)?.contains(Orders::LARGE) {
            return Ok(Backed::No);
        }
        let claimed = core.claim_block(area.attributes.is_advised());
        let Some(ClaimedBlock { block, holes }) = claimed else { return Ok(Backed::No) };
        let permissions = touch.permissions();
        let large = Large { block, permissions };
        if let Err(error) = map(core, id, number, large, &holes, self.reserves) {
            core.memory.free_frames_of(block, &complement(&holes));
            return Err(error);
        }
        let eager = BlockUse::WithHoles(HoleAllocation::Eager);
        let fills = !holes.is_empty() && core.policy.use_block(&holes) == eager;
        if fills && !self.reserves {
            fill_holes(core, id, number, &holes, permissions)?;
        }
        single_page::fill_hole(core, id, page, permissions)?;
        Ok(Backed::Yes)
    }

    fn maps_beside_pages(&self, _: &Area) -> bool {
        false
    }
}

/// Maps 2MB region `number` to a block by a 2MB page with `holes`, or by an ordinary one if there are none.
/// With `reserves`, only reserves the frames of the block, without mapping any.
pub(super) fn map(
    core: &mut Core,
    id: SpaceId,
    number: u64,
    large: Large,
    holes: &HoleSet,
    reserves: bool,
) -> Result<(), OsError> {
    let in_place = complement(holes);
    let space = &mut core.space_mut(id)?;
    let mapped = match space.holes {
        Some(pages) if reserves => {
            pages.reserve(space, number, large, in_place)?;
            FirstTouch::WithHoles { in_place: 0 }
        }
        Some(pages) if !holes.is_empty() => {
            pages.map_around(space, number, large, *holes)?;
            FirstTouch::WithHoles { in_place: in_place.count() as u64 }
        }
        _ => {
            assert!(holes.is_empty(), "a policy without 2MB pages with holes takes whole blocks");
            space.map_large(number, large)?;
            FirstTouch::Large
        }
    };
    space.ledger.bring_in(mapped);
    Ok(())
}

/// Allocates and maps a frame for each hole of the 2MB page that maps a region.
pub(super) fn fill_holes(
    core: &mut Core,
    id: SpaceId,
    number: u64,
    holes: &HoleSet,
    permissions: Permissions,
) -> Result<(), OsError> {
    for index in holes.iter() {
        single_page::fill_hole(core, id, page_at(number, index), permissions)?;
    }
    Ok(())
}
