//! Backs regions with generated (injected) fragmentation. Each region gets a block with randomly chosen
//! holes, mapped as a 2MB page with holes. If the policy makes no such page there, only the frames at the holes
//! are taken, for data of other owners.

use perforate_types::{Permissions, SpaceId};

use super::block::{self, reserves};
use super::{Backed, Backer, Touch};
use crate::kernel::{Core, folios, single_page};
use crate::memory::{Fragment, complement};
use crate::space::{Area, Large};
use crate::{BlockUse, HoleAllocation, Orders, OsError, Policy};

/// Backer of 2MB regions for which the option `fragmentation` generates holes: maps blocks with these holes.
pub(super) struct InjectedFragments {
    reserves: bool,
}

impl InjectedFragments {
    /// Creates the backer of fragmented regions. `policy` decides if a block is at first only reserved.
    pub(super) fn new(policy: &dyn Policy) -> Self {
        Self { reserves: reserves(policy) }
    }

    fn map_around(
        &self,
        core: &mut Core,
        id: SpaceId,
        fragment: Fragment,
        permissions: Permissions,
        when: HoleAllocation,
    ) -> Result<(), OsError> {
        let Fragment { region, block } = fragment;
        let fragmentation = core.config.fragmentation.expect("there are fragments");
        let holes = core.injected_holes(region).expect("fragmented");
        let large = Large { block, permissions };
        if let Err(error) = block::map(core, id, region, large, &holes, self.reserves) {
            core.memory.release_block(block, &complement(&holes));
            core.memory.park(fragment);
            return Err(error);
        }
        core.space_mut(id)?.set_fragment(region, fragment);
        // Unallocated holes are never touched, as the program has no data there.
        let fills = when == HoleAllocation::Eager && !self.reserves;
        if fills && fragmentation.allocated {
            block::fill_holes(core, id, region, &holes, permissions)?;
        }
        Ok(())
    }
}

impl Backer for InjectedFragments {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let &Touch { space: id, page, ref area } = touch;
        let (number, permissions) = (touch.region(), touch.permissions());
        // Memory is fragmented whether or not the policy asks for a 2MB page here. `is_fragmented` takes longest, so it
        // is asked last: never for further pages of a region.
        let is_fragmented = area.attributes.eligible()
            && core.fits_large(id, page, area)?
            && core.is_fragmented(number);
        if !is_fragmented {
            return Ok(Backed::No);
        }
        let holes = core.injected_holes(number).expect("fragmented");
        let wants_large = touch.orders(core)?.contains(Orders::LARGE);
        match core.policy.use_block(&holes) {
            BlockUse::WithHoles(when) if wants_large && core.config.tables.shadow_directories => {
                match core.memory.allocate_fragment(number, &holes) {
                    Some(fragment) => {
                        self.map_around(core, id, fragment, permissions, when)?;
                        single_page::fill_hole(core, id, page, permissions)?;
                    }
                    None => single_page::map(core, id, page, permissions)?,
                }
            }
            _ => {
                let fragment = core.memory.occupy_fragment(number, &holes);
                let result = folios::map(core, touch);
                match (fragment, &result) {
                    (Some(fragment), Ok(())) => {
                        core.space_mut(id)?.set_fragment(number, fragment);
                    }
                    (Some(fragment), Err(_)) => core.memory.park(fragment),
                    (None, _) => {}
                }
                result?;
            }
        }
        Ok(Backed::Yes)
    }

    fn maps_beside_pages(&self, _: &Area) -> bool {
        false
    }
}
