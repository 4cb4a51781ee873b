//! Mapping pages to merged frames, and giving them frames of their own again.

use std::ops::Range;

use perforate_types::{Frame, Permissions, SpaceId, Update};

use crate::OsError;
use crate::kernel::{Kernel, SpacePage};
use crate::space::{Effects, Present};

/// 2MB pages split and sub-pages punched so far.
fn broken(effects: &Effects<'_>) -> (u64, u64) {
    (effects.ledger.done.large_pages_split, effects.ledger.done.subpages_punched)
}

impl Kernel {
    /// Maps a page to a frame of the stable tree.
    pub(super) fn join(
        &mut self,
        place: SpacePage,
        identity: u64,
        frame: Frame,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (_, own) = self.candidate(place).expect("it was found by the scan");
        let to = (own != frame).then_some(frame);
        self.map_alone(place, to, updates)?;
        let nodes = self.ksm.stable.get_mut(&identity).expect("found there");
        let node = nodes.iter_mut().find(|node| node.frame == frame).expect("found there");
        if !node.sharers.contains(&place) {
            node.sharers.push(place);
        }
        self.ksm.merged.insert(place, (identity, frame));
        self.ksm.counts.merged += u64::from(to.is_some());
        Ok(())
    }

    /// Maps a page read-only by an entry of its own: to `to`, whose reference is added, or to the
    /// frame it has.
    pub(super) fn map_alone(
        &mut self,
        (id, page): SpacePage,
        to: Option<Frame>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (present, own) = self.candidate((id, page)).expect("a candidate");
        let permissions = Permissions { write: false, ..present.permissions() };
        let frame = to.unwrap_or(own);
        let (space, mut effects) = self.parts(id, updates)?;
        let effects = &mut effects;
        let (split_before, punched_before) = broken(effects);
        let was_whole = space.extent_at(page).is_some_and(|(_, extent)| extent.is_whole());
        if !present.has_own_entry() && space.detacher(page).is_none() {
            space.break_up(page, effects)?;
        }
        match space.detacher(page) {
            Some(detacher) if !present.has_own_entry() => {
                detacher.detach(space, page, effects)?;
                detacher.fill(space, page, frame, permissions, effects);
            }
            _ if to.is_some() => {
                space.remap(page, frame, permissions, effects);
            }
            Some(_) if !present.permissions().write => {}
            _ => space.protect_own(page, permissions, effects),
        }
        if to.is_some() {
            effects.memory.share(frame);
            effects.memory.release(own);
        }
        let (split, punched) = broken(effects);
        let was_punched = punched > punched_before;
        self.ksm.counts.split += split - split_before;
        self.ksm.counts.perforated += u64::from(was_punched && was_whole);
        self.ksm.counts.punched += u64::from(was_punched);
        Ok(())
    }

    /// Whether a page still maps a merged frame: read-only, by an entry of its own, with the
    /// frame's content.
    pub(super) fn maps_merged(&self, place: SpacePage, identity: u64, frame: Frame) -> bool {
        let Some((present, now)) = self.candidate(place) else { return false };
        now == frame
            && present.has_own_entry()
            && !present.permissions().write
            && self.contents.identity(place.0, place.1) == identity
    }

    /// A write found the page read-only, as `before`: it has content of its own now.
    pub(in crate::kernel) fn note_write(&mut self, id: SpaceId, page: u64, before: Present) {
        self.contents.write(id, page);
        self.spread_content(id, page);
        if let Some((_, frame)) = self.ksm.merged.remove(&(id, page)) {
            self.ksm.counts.written += u64::from(before.frame() == Some(frame));
        }
    }

    /// Gives merged pages frames of their own again (Linux: MADV_UNMERGEABLE).
    pub(in crate::kernel) fn unmerge(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let range = (id, pages.start)..(id, pages.end);
        let places: Vec<(SpacePage, (u64, Frame))> =
            self.ksm.merged.range(range).map(|(&place, &node)| (place, node)).collect();
        for (place, (identity, frame)) in places {
            if self.maps_merged(place, identity, frame) {
                let area = self.space(id)?.areas.find(place.1).expect("area of a candidate");
                self.make_writable(id, place.1, area.attributes, updates)?;
            }
            self.ksm.merged.remove(&place);
        }
        Ok(())
    }
}
