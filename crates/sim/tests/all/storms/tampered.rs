//! An address translation (dimension) that gives wrong answers.

use std::cell::RefCell;
use std::collections::HashMap;

use perforate_mmu::{
    BitmapLoading, Capability, CapabilityKind, CapabilityMut, Dimension, DimensionLayer, Holes,
    Reach, Run, RunRequest, Runs, WalkFault, WalkRequest, Walker,
};
use perforate_sim::scheme::gap_tolerant::{GapTolerantEntry, GapTolerantRadix, Superpage};
use perforate_types::{Frame, GapTolerance, SpaceId, VirtualPage};

use super::defects::Defect;

/// An address translation and its defect.
pub struct Tampered {
    inner: Box<dyn Dimension>,
    defect: Defect,
    /// Last run of pages found in each coalescing window.
    runs: RefCell<HashMap<(SpaceId, u64), Run>>,
}

impl Tampered {
    pub fn new(inner: Box<dyn Dimension>, defect: Defect) -> Box<Self> {
        Box::new(Self { inner, defect, runs: RefCell::default() })
    }

    /// Applies the defect to the reach of a page, which is the range over which its translation
    /// holds.
    fn tamper(&self, space: SpaceId, page: VirtualPage, reach: Reach) -> Reach {
        match self.defect {
            Defect::WrongFilterBit => {
                let filter = (reach.filter & 0x55) << 1 | (reach.filter & 0xaa) >> 1;
                Reach { filter, ..reach }
            }
            Defect::WrongPrefixSum | Defect::IgnoreOffsetB => {
                let frame = self.wrong_superpage(space, page).unwrap_or(reach.frame);
                Reach { frame, ..reach }
            }
            _ => reach,
        }
    }

    /// Returns the frame of a page in a superpage, as a defective decoder finds it.
    fn wrong_superpage(&self, space: SpaceId, page: VirtualPage) -> Option<Frame> {
        let tables: &GapTolerantRadix = self.inner.part()?;
        let superpage = tables.look_at_superpage(space, page)?;
        if self.defect == Defect::WrongPrefixSum {
            return Some(with_wrong_sum(&superpage, tables.mode(space)));
        }
        let first = GapTolerantEntry::read(self.inner.memory(), superpage.entry).slice();
        let offset = superpage.frame.number() - superpage.slice.number();
        Some(first.add(offset))
    }
}

/// Returns the frame that results if the prefix sum S₃ is too small by one.
fn with_wrong_sum(superpage: &Superpage, mode: GapTolerance) -> Frame {
    let Superpage { slice, selection, block, frame, .. } = *superpage;
    let index = (selection & ((1 << block) - 1)).count_ones();
    let bytes = selection.to_le_bytes();
    let mut sum = 0;
    let mut sums: [u32; 7] = std::array::from_fn(|byte| {
        sum += bytes[byte].count_ones();
        sum
    });
    sums[3] = sums[3].saturating_sub(1);
    let byte = sums.iter().filter(|&&sum| sum <= index).count();
    let before = if byte == 0 { 0 } else { sums[byte - 1] };
    let wanted = index.saturating_sub(before);
    let below = |bit: &u32| (u32::from(bytes[byte]) & ((2 << bit) - 1)).count_ones() <= wanted;
    let wrong = byte as u64 * 8 + (0..8).filter(below).count() as u64;
    let offset = frame.number() - slice.number() - (u64::from(block) << mode.block_order());
    slice.add((wrong << mode.block_order()) + offset)
}

impl DimensionLayer for Tampered {
    fn inside(&self) -> &dyn Dimension {
        self.inner.as_ref()
    }

    fn inside_mut(&mut self) -> &mut dyn Dimension {
        self.inner.as_mut()
    }

    fn walk_around(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let reach = self.inner.walk(request, walker)?;
        Ok(self.tamper(request.space, request.page, reach))
    }

    fn own_capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        match wanted {
            CapabilityKind::Runs => Some(Capability::Runs(self)),
            CapabilityKind::Holes if self.inner.holes().is_some() => Some(Capability::Holes(self)),
            _ => None,
        }
    }

    fn own_capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        (wanted == CapabilityKind::Holes).then_some(CapabilityMut::Holes(self))
    }
}

impl Holes for Tampered {
    fn bitmap_loading(&self) -> BitmapLoading {
        self.inner.holes().expect("it has holes").bitmap_loading()
    }

    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        if self.defect == Defect::IgnoreShadow {
            let reach = self.inner.walk(request, walker)?;
            return Ok(Reach::of_page(reach.frame_of(request.page), reach.allows));
        }
        self.inner.holes_mut().expect("it has holes").walk_hole(request, walker)
    }

    fn read_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault> {
        if self.defect == Defect::ForgetHostBitmap {
            return Ok([0; 8]);
        }
        self.inner.holes_mut().expect("it has holes").read_bitmap(request, block, walker)
    }

    fn written_bitmap(&self, space: SpaceId, page: VirtualPage) -> Option<[u64; 8]> {
        self.inner.holes().expect("it has holes").written_bitmap(space, page)
    }
}

impl Runs for Tampered {
    fn run_around(&self, request: &RunRequest) -> Run {
        match self.defect {
            Defect::IgnoreRunPermissions => {
                self.inner.run_around(&RunRequest { compared: 0, ..*request })
            }
            Defect::LengthenRuns => {
                let run = self.inner.run_around(request);
                let more = u64::from(run.first + run.pages < request.window);
                Run { pages: run.pages + more, ..run }
            }
            Defect::KeepStaleRun => {
                let own = request.page.number() % request.window;
                let window = (request.space, request.page.number() / request.window);
                let fits = |run: &Run| {
                    run.covers(own)
                        && run.frame.number() + own - run.first == request.frame.number()
                };
                let fresh = self.inner.run_around(request);
                let mut runs = self.runs.borrow_mut();
                let stale = runs.get(&window).copied().filter(fits);
                let run = stale.filter(|stale| stale.pages > fresh.pages).unwrap_or(fresh);
                runs.insert(window, run);
                run
            }
            _ => self.inner.run_around(request),
        }
    }

    fn is_contiguous(&self, space: SpaceId, page: VirtualPage) -> bool {
        self.inner.is_contiguous(space, page)
    }
}
