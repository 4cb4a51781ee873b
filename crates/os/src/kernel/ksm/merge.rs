//! Maps pages to merged frames, and undoes merges by giving pages private frames again.

use std::ops::Range;

use perforate_types::{Frame, Permissions, SpaceId};

use super::{Ksm, candidate};
use crate::OsError;
use crate::kernel::{Core, SpacePage, contents, copy_on_write};
use crate::space::{Departure, Present, SpaceMut};

/// Number of 2MB pages split and number of sub-pages punched out as holes, by the whole kernel since boot.
fn breakage(space: &SpaceMut<'_>) -> (u64, u64) {
    (space.ledger.done.large_pages_split, space.ledger.done.subpages_punched)
}

impl Ksm {
    /// Maps a page to a merged frame of the stable tree (KSM's frames by content).
    pub(super) fn join(
        &mut self,
        core: &mut Core,
        place: SpacePage,
        identity: u64,
        frame: Frame,
    ) -> Result<(), OsError> {
        let (_, own) = candidate(core, place).expect("it was found by the scan");
        let to = (own != frame).then_some(frame);
        self.map_alone(core, place, to)?;
        let nodes = self.stable.get_mut(&identity).expect("found there");
        let node = nodes.iter_mut().find(|node| node.frame == frame).expect("found there");
        if !node.sharers.contains(&place) {
            node.sharers.push(place);
        }
        self.merged.insert(place, (identity, frame));
        self.counts.merged += u64::from(to.is_some());
        Ok(())
    }

    /// Maps a page read-only by a separate 4KB entry. The entry maps frame `to`, which gains a
    /// reference, or the page's present frame if `to` is `None`.
    pub(super) fn map_alone(
        &mut self,
        core: &mut Core,
        (id, page): SpacePage,
        to: Option<Frame>,
    ) -> Result<(), OsError> {
        let (present, own) = candidate(core, (id, page)).expect("a candidate");
        let permissions = Permissions { write: false, ..present.permissions() };
        let frame = to.unwrap_or(own);
        let space = &mut core.space_mut(id)?;
        space.leave_overlay(&(page..page + 1), Departure::Remapped)?;
        let (split_before, punched_before) = breakage(space);
        let was_whole = space.extent_at(page).is_some_and(|(_, extent)| extent.is_whole());
        if !present.has_own_entry() && space.detacher(page).is_none() {
            space.break_up(page)?;
        }
        match space.detacher(page) {
            Some(detacher) if !present.has_own_entry() => {
                detacher.detach(space, page)?;
                detacher.fill(space, page, frame, permissions);
            }
            _ if to.is_some() => {
                space.remap(page, frame, permissions);
            }
            Some(_) if !present.permissions().write => {}
            _ => space.protect_own(page, permissions),
        }
        if to.is_some() {
            space.memory.share(frame);
            space.memory.release(own);
        }
        let (split, punched) = breakage(space);
        let was_punched = punched > punched_before;
        self.counts.split += split - split_before;
        self.counts.perforated += u64::from(was_punched && was_whole);
        self.counts.punched += u64::from(was_punched);
        Ok(())
    }

    /// Records a write to a page that was read-only. `before` is its translation before the write.
    /// The page's content is now unique.
    pub(in crate::kernel) fn note_write(
        &mut self,
        core: &mut Core,
        id: SpaceId,
        page: u64,
        before: Present,
    ) {
        core.contents.write(id, page);
        contents::spread(core, id, page);
        if let Some((_, frame)) = self.merged.remove(&(id, page)) {
            self.counts.written += u64::from(before.frame() == Some(frame));
        }
    }

    /// Gives merged pages private frames again (Linux: MADV_UNMERGEABLE).
    pub(in crate::kernel) fn unmerge(
        &mut self,
        core: &mut Core,
        id: SpaceId,
        pages: Range<u64>,
    ) -> Result<(), OsError> {
        let range = (id, pages.start)..(id, pages.end);
        let places: Vec<(SpacePage, (u64, Frame))> =
            self.merged.range(range).map(|(&place, &node)| (place, node)).collect();
        for (place, (identity, frame)) in places {
            if maps_merged(core, place, identity, frame) {
                let area = core.space(id)?.areas.find(place.1).expect("area of a candidate");
                copy_on_write::make_writable(core, id, place.1, area.attributes)?;
            }
            self.merged.remove(&place);
        }
        Ok(())
    }
}

/// True if a page still maps merged frame `frame`: read-only, by a separate 4KB entry, and with the
/// frame's content `identity`.
pub(super) fn maps_merged(core: &Core, place: SpacePage, identity: u64, frame: Frame) -> bool {
    let Some((present, current)) = candidate(core, place) else { return false };
    current == frame
        && present.has_own_entry()
        && !present.permissions().write
        && core.contents.identity(place.0, place.1) == identity
}
