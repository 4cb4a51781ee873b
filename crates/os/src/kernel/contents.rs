//! Contents of pages, as 64-bit identities.
//!
//! A content belongs to a page of a program, not to a frame: merging and copying frames changes nothing
//! here. Contents that neither a trace nor a write has set are generated from the configured distribution;
//! without a distribution they are unique. A forked child generates the same contents as its parent, because
//! both begin with the same pages. So pages that both first touch after the fork, at one address, count as
//! equal too.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::{SpaceId, VirtualPage};

use super::{Core, Kernel, sharing};
use crate::OsError;
use crate::content::{ContentDistribution, unique, written};

/// Content identity (equal for equal contents) of each page, by address space and page number.
#[derive(Default)]
pub(super) struct PageContents {
    distribution: Option<ContentDistribution>,
    /// True once a content distribution or the content of a page was set. Before that, writes to pages are
    /// not recorded here.
    are_kept: bool,
    /// Random stream that generates the page contents of each address space.
    streams: BTreeMap<SpaceId, u64>,
    next_stream: u64,
    /// Content identities that a trace or a write set, by address space and page. All others are generated.
    explicit: BTreeMap<(SpaceId, u64), u64>,
    /// Number of writes that created a new content.
    written: u64,
}

impl PageContents {
    /// Content identity of a page; pages with equal contents have equal identities.
    pub(super) fn identity(&self, space: SpaceId, page: u64) -> u64 {
        if let Some(&identity) = self.explicit.get(&(space, page)) {
            return identity;
        }
        let stream = self.streams.get(&space).copied().unwrap_or_default();
        match &self.distribution {
            Some(distribution) => distribution.identity(stream, page),
            None => unique(stream, page),
        }
    }

    /// Assigns a separate random stream to a new address space.
    pub(super) fn add_space(&mut self, space: SpaceId) {
        self.streams.insert(space, self.next_stream);
        self.next_stream += 1;
    }

    /// Gives `child` the contents of `parent`.
    pub(super) fn fork(&mut self, parent: SpaceId, child: SpaceId) {
        let stream = self.streams.get(&parent).copied().unwrap_or_default();
        self.streams.insert(child, stream);
        for (page, identity) in self.explicit_in(parent, &(0..u64::MAX)) {
            self.explicit.insert((child, page), identity);
        }
    }

    /// Forgets the content identities of unmapped pages. A page that is mapped again gets a generated
    /// content.
    pub(super) fn forget(&mut self, space: SpaceId, pages: &Range<u64>) {
        if !self.explicit.is_empty() {
            for (page, _) in self.explicit_in(space, pages) {
                self.explicit.remove(&(space, page));
            }
        }
    }

    /// Copies the content identities of `pages` in `from` to the pages of `to` that begin at page `first`.
    pub(super) fn copy(&mut self, from: SpaceId, pages: Range<u64>, to: SpaceId, first: u64) {
        if self.are_kept {
            for page in pages.clone() {
                let identity = self.identity(from, page);
                self.explicit.insert((to, first + (page - pages.start)), identity);
            }
        }
    }

    /// Gives a page that the program wrote a content that no other page has.
    pub(super) fn write(&mut self, space: SpaceId, page: u64) {
        if self.are_kept {
            self.written += 1;
            self.explicit.insert((space, page), written(self.written));
        }
    }

    fn explicit_in(&self, space: SpaceId, pages: &Range<u64>) -> Vec<(u64, u64)> {
        let range = (space, pages.start)..(space, pages.end);
        self.explicit.range(range).map(|(&(_, page), &identity)| (page, identity)).collect()
    }
}

impl Kernel {
    /// Sets the distribution from which the contents of pages are generated. Call it before programs write:
    /// earlier writes are not remembered.
    ///
    /// # Errors
    /// If the distribution contradicts itself.
    pub fn set_content_distribution(
        &mut self,
        distribution: ContentDistribution,
    ) -> Result<(), OsError> {
        distribution.check()?;
        self.core.contents.are_kept = true;
        self.core.contents.distribution = Some(distribution);
        Ok(())
    }

    /// Sets the content of a page, for example from a trace or snapshot with page hashes. Equal
    /// identities are equal contents; 0 ([`crate::ZERO_PAGE`]) is a page of zeros.
    ///
    /// # Errors
    /// If nothing is mapped at `page`, or its frame is shared and the content differs: only a write
    /// can then change it.
    pub fn set_content(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        identity: u64,
    ) -> Result<(), OsError> {
        let number = page.number();
        let found = self.core.space(space)?;
        let frame = found.frame_of(number);
        let Some(frame) = frame else { return Err(OsError::NotMapped { space, page }) };
        let private = found.areas.find(number).is_none_or(|area| !area.attributes.is_shared());
        self.core.contents.are_kept = true;
        if self.core.contents.identity(space, number) == identity {
            return Ok(());
        }
        if private && self.core.memory.is_shared(frame) {
            return Err(OsError::SharedContent { space, page });
        }
        self.core.contents.explicit.insert((space, number), identity);
        spread(&mut self.core, space, number);
        Ok(())
    }

    /// Content identity of a mapped page; `None` if nothing is mapped.
    pub fn content(&self, space: SpaceId, page: VirtualPage) -> Option<u64> {
        self.core.space(space).ok()?.frame_of(page.number())?;
        Some(self.core.contents.identity(space, page.number()))
    }
}

/// mremap: copies the content identities of the mapped pages in `pages` to the pages that begin at `to`.
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

/// Copies the content identity of a page of shared memory to all other virtual pages that map the same page.
pub(super) fn spread(core: &mut Core, space: SpaceId, page: u64) {
    if core.contents.are_kept {
        for (other, other_page) in sharing::mapped_elsewhere(core, space, page) {
            core.contents.copy(space, page..page + 1, other, other_page);
        }
    }
}

/// Copies the content identity of a shared page to `page`, from another virtual page that maps it.
pub(super) fn receive(core: &mut Core, space: SpaceId, page: u64) {
    if core.contents.are_kept
        && let Some(&(other, other_page)) = sharing::mapped_elsewhere(core, space, page).first()
    {
        core.contents.copy(other, other_page..other_page + 1, space, page);
    }
}
