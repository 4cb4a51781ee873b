//! The ordered map.

use std::collections::BTreeMap;

use perforate_types::{Frame, PageRun, Permissions, SpaceId, Truth, VirtualPage};

use crate::error::Reason;
use crate::recent::Recent;
use crate::{Extent, OracleError};

/// What a page is translated to.
pub type Mapping = (Frame, Permissions);

type Key = (SpaceId, VirtualPage);

/// Page and frame numbers lie below this.
const NUMBERS: u64 = 1 << 52;

/// What is mapped where, in all address spaces: one entry for each run of pages that go on alike.
#[derive(Debug, Default)]
pub struct Oracle {
    /// By address space and first page. They do not overlap, and no two could be one.
    extents: BTreeMap<Key, Extent>,
    pub(crate) recent: Recent,
}

impl Oracle {
    /// Nothing is mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over a truth.
    ///
    /// # Errors
    /// If it contradicts those before it; it then has no effect.
    pub fn apply(&mut self, truth: &Truth) -> Result<(), OracleError> {
        self.change(truth).map_err(|reason| OracleError { truth: *truth, reason })
    }

    /// What `page` is translated to; `None` where an access faults.
    pub fn translate(&self, space: SpaceId, page: VirtualPage) -> Option<Mapping> {
        let extent = self.extent(space, page)?;
        Some((extent.frame_of(page), extent.permissions))
    }

    /// The run that holds `page`.
    pub fn extent(&self, space: SpaceId, page: VirtualPage) -> Option<&Extent> {
        let below = (space, VirtualPage::new(0))..=(space, page);
        let (_, extent) = self.extents.range(below).next_back()?;
        (page < extent.end()).then_some(extent)
    }

    /// All runs of an address space in order.
    pub fn extents(&self, space: SpaceId) -> impl Iterator<Item = &Extent> {
        let whole = (space, VirtualPage::new(0))..=(space, VirtualPage::new(u64::MAX));
        self.extents.range(whole).map(|(_, extent)| extent)
    }

    /// Every translated 4KB page of an address space in order.
    pub fn mappings(&self, space: SpaceId) -> impl Iterator<Item = (VirtualPage, Mapping)> {
        self.extents(space).flat_map(|extent| {
            let pages = (extent.page.number()..extent.end().number()).map(VirtualPage::new);
            pages.map(|page| (page, (extent.frame_of(page), extent.permissions)))
        })
    }

    fn change(&mut self, truth: &Truth) -> Result<(), Reason> {
        let run = truth.run();
        let fits = |first: u64| first.checked_add(run.pages).is_some_and(|end| end <= NUMBERS);
        if run.pages == 0 {
            return Err(Reason::Empty);
        }
        if !fits(run.page.number()) {
            return Err(Reason::TooLong);
        }
        self.recent.forget(run);
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
        // Those that differed in permissions only may be one now.
        let inside: Vec<_> = self.within(run).map(|(&(_, page), _)| page).collect();
        inside.into_iter().chain([run.end()]).for_each(|page| self.join(run.space, page));
        Ok(())
    }

    /// Makes the run begin and end where extents do, if all of it is mapped.
    fn isolate(&mut self, run: PageRun) -> Result<(), Reason> {
        let mut next = run.page;
        while next < run.end() {
            next = self.extent(run.space, next).ok_or(Reason::NotMapped)?.end();
        }
        self.cut(run.space, run.page);
        self.cut(run.space, run.end());
        Ok(())
    }

    /// The extents that begin inside a run.
    fn within(&self, run: PageRun) -> impl Iterator<Item = (&Key, &Extent)> {
        self.extents.range((run.space, run.page)..(run.space, run.end()))
    }

    fn insert(&mut self, space: SpaceId, extent: Extent) {
        self.extents.insert((space, extent.page), extent);
    }

    /// Makes an extent begin at `page`, if one reaches across.
    fn cut(&mut self, space: SpaceId, page: VirtualPage) {
        let Some(&extent) = self.extent(space, page).filter(|extent| extent.page < page) else {
            return;
        };
        let (below, others) = extent.split_at(page);
        self.insert(space, below);
        self.insert(space, others);
    }

    /// Makes one of the extents that meet at `page`, if they go on alike.
    fn join(&mut self, space: SpaceId, page: VirtualPage) {
        let Some(&next) = self.extents.get(&(space, page)) else { return };
        let below = (space, VirtualPage::new(0))..(space, page);
        let Some((_, before)) = self.extents.range_mut(below).next_back() else { return };
        if before.end() == page && before.goes_on_as(&next) {
            before.pages += next.pages;
            self.extents.remove(&(space, page));
        }
    }
}
