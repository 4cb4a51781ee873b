//! The ordered map of the intended mapping.

use std::collections::BTreeMap;

use perforate_types::{Frame, PageRun, Permissions, SpaceId, Truth, VirtualPage};

use crate::error::Reason;
use crate::recent::Recent;
use crate::{Extent, OracleError};

/// Frame and permissions of a mapped page.
pub type Mapping = (Frame, Permissions);

type Key = (SpaceId, VirtualPage);

/// Exclusive upper bound of page and frame numbers.
const NUMBER_LIMIT: u64 = 1 << 52;

/// Oracle with the intended mapping of all address spaces, one entry for each maximal run of pages.
#[derive(Debug, Default)]
pub struct Oracle {
    /// Runs of pages by address space and first page. Runs do not overlap, and adjacent runs that
    /// could be merged are merged.
    extents: BTreeMap<Key, Extent>,
    pub(crate) recent: Recent,
}

impl Oracle {
    /// Creates an oracle in which no page is mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a truth (a map, unmap or protect of a run of pages) to the intended mapping.
    ///
    /// # Errors
    /// [`OracleError`] if the truth contradicts earlier ones; the oracle is then unchanged.
    pub fn apply(&mut self, truth: &Truth) -> Result<(), OracleError> {
        self.change(truth).map_err(|reason| OracleError { truth: *truth, reason })
    }

    /// Returns the frame and permissions of `page`; `None` if the page is not mapped.
    pub fn translate(&self, space: SpaceId, page: VirtualPage) -> Option<Mapping> {
        let extent = self.extent(space, page)?;
        Some((extent.frame_of(page), extent.permissions))
    }

    /// Returns the run that contains `page`; `None` if the page is not mapped.
    pub fn extent(&self, space: SpaceId, page: VirtualPage) -> Option<&Extent> {
        let below = (space, VirtualPage::new(0))..=(space, page);
        let (_, extent) = self.extents.range(below).next_back()?;
        (page < extent.end()).then_some(extent)
    }

    /// Returns all runs of an address space, ordered by page.
    pub fn extents(&self, space: SpaceId) -> impl Iterator<Item = &Extent> {
        let whole = (space, VirtualPage::new(0))..=(space, VirtualPage::new(u64::MAX));
        self.extents.range(whole).map(|(_, extent)| extent)
    }

    /// Returns all mapped 4KB pages of an address space, ordered by page.
    pub fn mappings(&self, space: SpaceId) -> impl Iterator<Item = (VirtualPage, Mapping)> {
        self.extents(space).flat_map(|extent| {
            let pages = (extent.page.number()..extent.end().number()).map(VirtualPage::new);
            pages.map(|page| (page, (extent.frame_of(page), extent.permissions)))
        })
    }

    fn change(&mut self, truth: &Truth) -> Result<(), Reason> {
        let run = truth.run();
        let fits = |first: u64| first.checked_add(run.pages).is_some_and(|end| end <= NUMBER_LIMIT);
        if run.pages == 0 {
            return Err(Reason::Empty);
        }
        if !fits(run.page.number()) {
            return Err(Reason::TooLong);
        }
        self.recent.invalidate(run);
        match *truth {
            Truth::Map { frame, .. } if !fits(frame.number()) => Err(Reason::TooLong),
            Truth::Map { frame, permissions, .. } => self.map(run, frame, permissions),
            Truth::Unmap { .. } => self.unmap(run),
            Truth::Protect { permissions, .. } => self.protect(run, permissions),
        }
    }

    fn map(&mut self, run: PageRun, frame: Frame, permissions: Permissions) -> Result<(), Reason> {
        let PageRun { space, page, pages } = run;
        if self.extent(space, page).is_some() || self.within(run).next().is_some() {
            return Err(Reason::Mapped);
        }
        self.insert(space, Extent { page, pages, frame, permissions });
        self.join(space, page);
        self.join(space, run.end());
        Ok(())
    }

    fn unmap(&mut self, run: PageRun) -> Result<(), Reason> {
        self.isolate(run)?;
        let mut next = run.page;
        while next < run.end() {
            next = self.extents.remove(&(run.space, next)).expect("all of it is mapped").end();
        }
        Ok(())
    }

    fn protect(&mut self, run: PageRun, permissions: Permissions) -> Result<(), Reason> {
        self.isolate(run)?;
        let keys = (run.space, run.page)..(run.space, run.end());
        self.extents.range_mut(keys).for_each(|(_, extent)| extent.permissions = permissions);
        // Runs that differed only in permissions may now be mergeable.
        let inside: Vec<_> = self.within(run).map(|(&(_, page), _)| page).collect();
        inside.into_iter().chain([run.end()]).for_each(|page| self.join(run.space, page));
        Ok(())
    }

    /// Splits extents (runs of pages with one mapping) so that `run` begins and ends at the boundaries of
    /// extents. Fails if a page of the run is not mapped.
    fn isolate(&mut self, run: PageRun) -> Result<(), Reason> {
        let mut next = run.page;
        while next < run.end() {
            next = self.extent(run.space, next).ok_or(Reason::NotMapped)?.end();
        }
        self.cut(run.space, run.page);
        self.cut(run.space, run.end());
        Ok(())
    }

    /// Returns the runs of pages with one mapping (extents) that begin inside `run`.
    fn within(&self, run: PageRun) -> impl Iterator<Item = (&Key, &Extent)> {
        self.extents.range((run.space, run.page)..(run.space, run.end()))
    }

    fn insert(&mut self, space: SpaceId, extent: Extent) {
        self.extents.insert((space, extent.page), extent);
    }

    /// Splits the extent (run of pages with one mapping) around `page`, so that an extent begins there.
    fn cut(&mut self, space: SpaceId, page: VirtualPage) {
        let Some(&extent) = self.extent(space, page).filter(|extent| extent.page < page) else {
            return;
        };
        let (below, rest) = extent.split_at(page);
        self.insert(space, below);
        self.insert(space, rest);
    }

    /// Merges the extents (runs of pages with one mapping) that meet at `page`, if the second continues the
    /// first.
    fn join(&mut self, space: SpaceId, page: VirtualPage) {
        let Some(&next) = self.extents.get(&(space, page)) else { return };
        let below = (space, VirtualPage::new(0))..(space, page);
        let Some((_, before)) = self.extents.range_mut(below).next_back() else { return };
        if before.end() == page && before.is_continued_by(&next) {
            before.pages += next.pages;
            self.extents.remove(&(space, page));
        }
    }
}
