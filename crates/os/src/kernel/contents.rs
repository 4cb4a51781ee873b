//! Contents of pages.
//!
//! The contents are those that programs give their pages, whatever frames hold them: merging and
//! copying frames alters nothing here. What no one has told is drawn from the distribution, and
//! is unique without one. A child draws what its parent draws, as it begins with the same pages; so
//! what both touch at the same address only after the fork counts as equal too.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::{SpaceId, VirtualPage};

use super::{Core, sharing};
use crate::OsError;
use crate::content::{ContentDistribution, unique, written};

/// Contents by address space and page.
#[derive(Default)]
pub(super) struct PageContents {
    distribution: Option<ContentDistribution>,
    /// Whether anybody asked for contents; before that none are kept.
    are_kept: bool,
    /// From which stream an address space draws.
    streams: BTreeMap<SpaceId, u64>,
    next_stream: u64,
    /// Contents that are not drawn.
    given: BTreeMap<(SpaceId, u64), u64>,
    /// Pages written since.
    written: u64,
}

impl PageContents {
    /// Content of a page.
    pub(super) fn identity(&self, space: SpaceId, page: u64) -> u64 {
        if let Some(&identity) = self.given.get(&(space, page)) {
            return identity;
        }
        let stream = self.streams.get(&space).copied().unwrap_or_default();
        match &self.distribution {
            Some(distribution) => distribution.identity(stream, page),
            None => unique(stream, page),
        }
    }

    /// A new address space draws contents of its own.
    pub(super) fn add_space(&mut self, space: SpaceId) {
        self.streams.insert(space, self.next_stream);
        self.next_stream += 1;
    }

    /// `child` begins with the contents of `parent`.
    pub(super) fn fork(&mut self, parent: SpaceId, child: SpaceId) {
        let stream = self.streams.get(&parent).copied().unwrap_or_default();
        self.streams.insert(child, stream);
        for (page, identity) in self.given_in(parent, &(0..u64::MAX)) {
            self.given.insert((child, page), identity);
        }
    }

    /// The pages have no content any more; the next ones there are drawn again.
    pub(super) fn forget(&mut self, space: SpaceId, pages: &Range<u64>) {
        if !self.given.is_empty() {
            for (page, _) in self.given_in(space, pages) {
                self.given.remove(&(space, page));
            }
        }
    }

    /// The pages of `to` from `first` on have the contents of `pages` of `from`.
    pub(super) fn copy(&mut self, from: SpaceId, pages: Range<u64>, to: SpaceId, first: u64) {
        if self.are_kept {
            for page in pages.clone() {
                let identity = self.identity(from, page);
                self.given.insert((to, first + (page - pages.start)), identity);
            }
        }
    }

    /// A write gives the page a content that no other has.
    pub(super) fn write(&mut self, space: SpaceId, page: u64) {
        if self.are_kept {
            self.written += 1;
            self.given.insert((space, page), written(self.written));
        }
    }

    fn given_in(&self, space: SpaceId, pages: &Range<u64>) -> Vec<(u64, u64)> {
        let range = (space, pages.start)..(space, pages.end);
        self.given.range(range).map(|(&(_, page), &identity)| (page, identity)).collect()
    }
}

/// Draws the contents of all pages that nothing else is said of from `distribution`.
pub(super) fn set_distribution(
    core: &mut Core,
    distribution: ContentDistribution,
) -> Result<(), OsError> {
    distribution.check()?;
    core.contents.are_kept = true;
    core.contents.distribution = Some(distribution);
    Ok(())
}

/// mremap: the pages of `space` from `to` on have the contents of `pages`, as far as these have any.
pub(super) fn move_range(
    core: &mut Core,
    space: SpaceId,
    pages: &Range<u64>,
    to: u64,
) -> Result<(), OsError> {
    if !core.contents.are_kept {
        return Ok(());
    }
    let found = core.space(space)?;
    let mut present: Vec<u64> = found.swapped_within(pages.clone()).collect();
    for first in found.wide_within(pages) {
        present.extend(first..first + found.extent(first).pages());
    }
    present.extend(found.mapped_within(pages).into_iter().flatten());
    for page in present.into_iter().filter(|page| pages.contains(page)) {
        core.contents.copy(space, page..page + 1, space, page - pages.start + to);
    }
    Ok(())
}

/// Gives a mapped page a content, unless it shares its frame.
pub(super) fn set(
    core: &mut Core,
    space: SpaceId,
    page: VirtualPage,
    identity: u64,
) -> Result<(), OsError> {
    let number = page.number();
    let found = core.space(space)?;
    let frame = found.frame_of(number);
    let Some(frame) = frame else { return Err(OsError::NotMapped { space, page }) };
    let private = found.areas.find(number).is_none_or(|area| !area.attributes.is_shared());
    core.contents.are_kept = true;
    if core.contents.identity(space, number) == identity {
        return Ok(());
    }
    if private && core.memory.is_shared(frame) {
        return Err(OsError::SharedContent { space, page });
    }
    core.contents.given.insert((space, number), identity);
    spread(core, space, number);
    Ok(())
}

/// Gives the content of a page of shared memory to all others that map it.
pub(super) fn spread(core: &mut Core, space: SpaceId, page: u64) {
    if core.contents.are_kept {
        for (other, there) in sharing::mapped_elsewhere(core, space, page) {
            core.contents.copy(space, page..page + 1, other, there);
        }
    }
}

/// A page of shared memory has the content that others see there.
pub(super) fn receive(core: &mut Core, space: SpaceId, page: u64) {
    if core.contents.are_kept
        && let Some(&(other, there)) = sharing::mapped_elsewhere(core, space, page).first()
    {
        core.contents.copy(other, there..there + 1, space, page);
    }
}

/// Content of a mapped page; `None` where nothing is mapped.
pub(super) fn of_page(core: &Core, space: SpaceId, page: VirtualPage) -> Option<u64> {
    core.space(space).ok()?.frame_of(page.number())?;
    Some(core.contents.identity(space, page.number()))
}
