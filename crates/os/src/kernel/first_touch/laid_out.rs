//! Backs first touches with the page sizes of a layout.

use perforate_types::{Counter, Counters, HoleSet, PageSize, figures, registered};

use super::{Backed, Backer, Touch, block, huge};
use crate::kernel::Core;
use crate::space::Large;
use crate::{Orders, OsError, PageLayout};

/// Backer of the 2MB and 1GB pages that a layout of page sizes prescribes, even in regions with injected
/// fragmentation, because Mosalloc's pools are reserved before the program starts.
pub(super) struct LaidOutPages {
    layout: PageLayout,
    figures: Figures,
}

/// Numbers of the layout's 2MB and 1GB pages that were mapped, and that could not be mapped.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    pages: u64,
    missing: u64,
}

figures! {
    static LAID_OUT: Figures, "Memory" {
        /// 2MB and 1GB pages that the layout of page sizes requests and that were mapped.
        layout_pages, Count, Listed: |it| it.pages;
        /// First touches for which the layout of page sizes requests a 2MB or 1GB page that was not
        /// mapped, because no contiguous memory was free or the mapping does not span the page.
        layout_missing, Count, Listed: |it| it.missing;
    }
}

/// Counters of policies that map large pages by a layout of page sizes.
pub fn layout_counters() -> Vec<Counter> {
    registered(LAID_OUT)
}

impl LaidOutPages {
    pub(super) fn new(layout: PageLayout) -> Self {
        Self { layout, figures: Figures::default() }
    }
}

impl Backer for LaidOutPages {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let backed = match self.layout.size_at(touch.page) {
            PageSize::Size4K => return Ok(Backed::No),
            PageSize::Size2M => map_large(core, touch)?,
            PageSize::Size1G => huge::map(core, touch)?,
        };
        match backed {
            Backed::Yes => self.figures.pages += 1,
            Backed::No => self.figures.missing += 1,
        }
        Ok(backed)
    }

    fn counters(&self, _: &Core, out: &mut Counters) {
        out.record(LAID_OUT, &self.figures);
    }
}

fn map_large(core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
    let number = touch.region();
    if !touch.orders(core)?.contains(Orders::LARGE) {
        return Ok(Backed::No);
    }
    let Some(frame) = core.memory.allocate_block() else { return Ok(Backed::No) };
    let large = Large { block: frame, permissions: touch.permissions() };
    let mapped = block::map(core, touch.space, number, large, &HoleSet::EMPTY, false);
    if let Err(error) = mapped {
        core.memory.free_frames_of(frame, &HoleSet::FULL);
        return Err(error);
    }
    Ok(Backed::Yes)
}
