//! Mapping pages to merged frames, and giving them frames of their own again.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, Permissions, SpaceId, Update};

use crate::kernel::{Kernel, SpacePage};
use crate::space::{Present, region_of};
use crate::{OsError, PartialChange};

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
        let number = region_of(page);
        let splits = self.partial_change() == PartialChange::Split;
        let (present, own) = self.candidate((id, page)).expect("a candidate");
        let permissions = Permissions { write: false, ..present.permissions() };
        let frame = to.unwrap_or(own);
        let is_large = matches!(present, Present::Large(..));
        let (space, mut effects) = self.parts(id, updates)?;
        let effects = &mut effects;
        if is_large && splits {
            space.split_large(number, &HoleSet::FULL, effects)?;
        }
        let is_superpage = matches!(present, Present::Superpage(..));
        if is_superpage {
            space.demote_superpages(space.superpage_start(page), effects)?;
        }
        match present {
            Present::Large(..) if !splits => {
                space.punch(page, effects)?;
                space.map_hole(page, frame, permissions, effects);
            }
            Present::InPlace(..) => {
                space.punch(page, effects)?;
                space.map_hole(page, frame, permissions, effects);
            }
            Present::Large(..) | Present::Superpage(..) | Present::Page(..) if to.is_none() => {
                space.protect_page(page, permissions, effects);
            }
            Present::Large(..) | Present::Superpage(..) | Present::Page(..) => {
                space.unmap_page(page, effects);
                space.map_page(page, frame, permissions, effects)?;
            }
            Present::Hole(..) => {
                if to.is_some() || present.permissions().write {
                    space.remap_hole(page, frame, permissions, effects);
                }
            }
            Present::Huge(..) | Present::EmptyHole => unreachable!("no candidate"),
        }
        if to.is_some() {
            effects.memory.share(frame);
            effects.memory.release(own);
        }
        let punches = (is_large && !splits) || matches!(present, Present::InPlace(..));
        self.ksm.counts.split += u64::from(is_large && splits);
        self.ksm.counts.perforated += u64::from(is_large && !splits);
        self.ksm.counts.punched += u64::from(punches);
        Ok(())
    }

    /// Whether a page still maps a merged frame: read-only, by an entry of its own, with the
    /// frame's content.
    pub(super) fn maps_merged(&self, place: SpacePage, identity: u64, frame: Frame) -> bool {
        let Some((present, now)) = self.candidate(place) else { return false };
        now == frame
            && matches!(present, Present::Page(..) | Present::Hole(..))
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
