//! Carries out a planned promotion.

use perforate_types::{Frame, HoleSet};

use super::super::{Core, SpaceRegion};
use super::plan::{Plan, Source};
use super::region::{Census, census as census_of};
use crate::memory::complement;
use crate::space::{Departure, Entries, Large, page_at, pages_of};

/// Promotes a 2MB region as planned. Returns false if memory runs out. The mappings are then unchanged,
/// except for pages that compaction has migrated already.
pub(super) fn carry_out(core: &mut Core, place: SpaceRegion, census: &Census, plan: &Plan) -> bool {
    let Some((block, taken)) = take_block(core, plan) else { return false };
    let replaced = replace(core, place, census, block, &plan.price.holes);
    let Some(entries) = replaced else {
        core.memory.free_frames_of(block, &taken);
        return false;
    };
    settle_old_frames(core, place, census, block, &plan.price.holes, &entries);
    true
}

/// Allocates the frames of the 2MB block that `plan` selects. Returns the first frame of the block, and the
/// indices of the frames allocated. `None` if memory runs out or a migration fails.
fn take_block(core: &mut Core, plan: &Plan) -> Option<(Frame, HoleSet)> {
    match plan.source {
        Source::Free => Some((core.memory.allocate_block()?, HoleSet::FULL)),
        Source::Used(block, contents) => {
            if !core.evacuate(block, &contents) {
                return None;
            }
            core.note_block_taken(&contents.fixed);
            Some((block, complement(&contents.fixed)))
        }
        Source::Own(block, free) => {
            core.memory.take_frames(block, &free);
            Some((block, free))
        }
    }
}

/// Replaces the 4KB pages of a 2MB region by a 2MB page with `holes`. Returns the old entries, or `None` if
/// memory runs out or the region changed meanwhile.
fn replace(
    core: &mut Core,
    (id, number): SpaceRegion,
    census: &Census,
    block: Frame,
    holes: &HoleSet,
) -> Option<Entries> {
    let space = &mut core.space_mut(id).ok()?;
    space.leave_overlay(&pages_of(number), Departure::Remapped).ok()?;
    let node = match holes.is_empty() {
        true => None,
        false => Some(space.allocate_node().ok()?),
    };
    // Compaction may have moved the region's pages, and reclaim may have unmapped some to make
    // room.
    let is_same = census_of(core, id, number).is_some_and(|now| now.agrees(census));
    let space = &mut core.space_mut(id).ok()?;
    let large = Large { block, permissions: census.permissions };
    match node {
        None if is_same => Some(space.replace_by_large(number, large)),
        Some(node) if is_same => {
            let pages = space.holes?;
            Some(pages.replace_pages(space, number, large, *holes, node))
        }
        None => None,
        Some(node) => {
            space.give_back_node(node);
            None
        }
    }
}

/// Maps the holes of a promoted 2MB page to the pages' old frames, and releases frames whose data were
/// copied.
fn settle_old_frames(
    core: &mut Core,
    (id, number): SpaceRegion,
    census: &Census,
    block: Frame,
    holes: &HoleSet,
    entries: &Entries,
) {
    let Ok(space) = &mut core.space_mut(id) else { return };
    for index in census.mapped.iter() {
        let entry = entries[index];
        if holes.contains(index) {
            let page = page_at(number, index);
            let pages = space.holes.expect("it was just made with holes");
            pages.fill(space, page, entry.frame(), entry.permissions());
        } else if entry.frame() == block.add(index as u64) {
            space.memory.forget_owner(entry.frame());
        } else {
            space.memory.release(entry.frame());
        }
    }
}
