//! Hard faults: a frame fails while it is in use (P §VI gives hard faults as one reason for holes).
//! Its data are copied to another frame, and the frame is never used again.

use perforate_config::Count;
use perforate_types::{Counter, Counters, Frame, HoleSet, Random, SpaceId, figures, registered};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Core, demotion, migration, reservation};
use crate::space::{Departure, FrameVisitor};
use crate::{FrameClass, OsError};

/// Number of the random-number stream that draws failing frames.
const HARD_FAULTS: u64 = 5;

/// Settings of hard faults while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HardFaultConfig {
    /// Frames that fail at a time, drawn from those that programs use.
    pub frames: Count<1>,
}

impl Default for HardFaultConfig {
    fn default() -> Self {
        Self { frames: Count::new(1) }
    }
}

/// Outcome of the failure of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardFault {
    /// The frame was free, or reserved for a page that was not touched yet.
    WasFree,
    /// The data of the frame were copied to another frame.
    Moved,
    /// The frame was part of a large page, which now has a hole at this sub-page.
    Punched,
    /// The frame was part of a direct segment; its page escapes the segment (D §V).
    Escaped,
    /// The frame was part of a large page that was moved as a whole, such as a gap-tolerant superpage.
    Relocated,
    /// The frame was part of a large page that was split into 4KB pages.
    Split,
    /// The frame stays in use: it holds kernel data or tables, is shared, is part of a 1GB page, or
    /// no memory is left for the copy. A real machine would kill a program or panic.
    Uncorrected,
}

/// Numbers of hard faults since boot.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    served: u64,
    moved: u64,
    punched: u64,
    escaped: u64,
    split: u64,
    uncorrected: u64,
}

impl Counts {
    fn add(&mut self, outcome: HardFault) {
        self.served += 1;
        match outcome {
            HardFault::Moved => self.moved += 1,
            HardFault::Punched => self.punched += 1,
            HardFault::Escaped => self.escaped += 1,
            HardFault::Split => self.split += 1,
            HardFault::Uncorrected => self.uncorrected += 1,
            // Superpages count themselves, and a frame that is free costs nothing.
            HardFault::Relocated | HardFault::WasFree => {}
        }
    }
}

figures! {
    static HARD_FAULT: Counts, "Memory" {
        /// Frames that failed while the program ran.
        hard_faults, "frames that failed", Count, Table: |it| it.served;
        /// Failing frames of 4KB pages, whose data were copied to other frames.
        hard_faults_moved, Count, Listed: |it| it.moved;
        /// Failing frames of large pages that have a hole there since.
        hard_faults_punched, Count, Listed: |it| it.punched;
        /// Failing frames of direct segments, whose pages escape the segment since.
        hard_faults_escaped, Count, Listed: |it| it.escaped;
        /// Failing frames of large pages that were split into 4KB pages for that.
        hard_faults_split, Count, Listed: |it| it.split;
        /// Failing frames that stay in use, since their data cannot be moved. A real machine would kill a program.
        hard_faults_uncorrected, Count, Listed: |it| it.uncorrected;
    }
}

/// Counters of hard faults. Results contain these only if a frame has failed.
pub(super) fn counters() -> Vec<Counter> {
    registered(HARD_FAULT)
}

/// Hard faults while the program runs.
#[derive(Default)]
pub(super) struct HardFaults {
    pub(super) config: HardFaultConfig,
    /// Number of frames drawn so far.
    drawn: u64,
    counts: Counts,
}

impl HardFaults {
    /// Fails as many frames as configured, drawn from those that programs use with equal probability.
    pub(super) fn pass(&mut self, core: &mut Core) {
        for _ in 0..self.config.frames.get() {
            let random = Random::keyed(core.config.seed, HARD_FAULTS, self.drawn);
            let Some(frame) = used_frame(core, random) else { return };
            self.drawn += 1;
            self.fail(core, frame);
        }
    }

    /// Handles a failing frame: retires it if its data can be moved.
    pub(super) fn fail(&mut self, core: &mut Core, frame: Frame) -> HardFault {
        core.note_peak();
        let outcome = serve(core, frame);
        demotion::conclude(core);
        self.counts.add(outcome);
        outcome
    }

    pub(super) fn counters(&self, out: &mut Counters) {
        if self.counts.served > 0 {
            out.record(HARD_FAULT, &self.counts);
        }
    }
}

/// Draws one of the frames that programs use; `None` if they use none.
fn used_frame(core: &Core, random: Random) -> Option<Frame> {
    let mut draw = Draw { random, visited: 0, drawn: None };
    core.live_spaces().for_each(|space| space.visit_frames(&mut draw));
    draw.drawn
}

/// Visitor that draws one of the visited frames, each with the same probability, without knowing their number
/// beforehand.
struct Draw {
    random: Random,
    visited: u64,
    drawn: Option<Frame>,
}

impl Draw {
    /// Offers `frames` frames, of which `nth` returns one by its index.
    fn offer(&mut self, frames: u64, nth: impl FnOnce(u64) -> Frame) {
        if frames == 0 {
            return;
        }
        self.visited += frames;
        let index = self.random.below(self.visited);
        if index < frames {
            self.drawn = Some(nth(index));
        }
    }
}

impl FrameVisitor for Draw {
    fn frames(&mut self, block: Frame, frames: &HoleSet, _: FrameClass) {
        self.offer(frames.count() as u64, |index| {
            block.add(frames.iter().nth(index as usize).expect("it is one of them") as u64)
        });
    }

    fn blocks(&mut self, first: Frame, blocks: u64, _: FrameClass) {
        self.offer(blocks * HoleSet::SUBPAGES as u64, |index| first.add(index));
    }
}

/// Retires a failing frame if its data can be moved.
fn serve(core: &mut Core, frame: Frame) -> HardFault {
    migration::refresh_owners(core);
    let outcome = move_away(core, frame);
    // Retire the frame at once: a demotion allocates a frame for a node, and must not get this one.
    if outcome != HardFault::Uncorrected && !core.memory.retire(frame) {
        return HardFault::Uncorrected;
    }
    outcome
}

fn move_away(core: &mut Core, frame: Frame) -> HardFault {
    if frame.number() >= core.memory.usable_frames() {
        return HardFault::Uncorrected;
    }
    if core.memory.zones().is_free(frame) {
        return HardFault::WasFree;
    }
    if let Some((space, page)) = core.kept_page(frame) {
        return match replace_kept_frame(core, space, page) {
            Ok(()) => HardFault::Escaped,
            Err(_) => HardFault::Uncorrected,
        };
    }
    if migration::migrate(core, frame) {
        return HardFault::Moved;
    }
    // The recorded owner may no longer map the frame by a 4KB entry, if the frame is now part of a
    // 2MB page.
    if core.memory.is_shared(frame) {
        return HardFault::Uncorrected;
    }
    if reservation::release_frame(core, frame) {
        return HardFault::WasFree;
    }
    match extent_around(core, frame) {
        Some((space, page)) => take_out_of_extent(core, space, page, frame),
        None => HardFault::Uncorrected,
    }
}

/// Copies `page` from its failing frame to a new one. No page-table entry maps the page, only an overlay
/// (a direct segment).
fn replace_kept_frame(core: &mut Core, id: SpaceId, page: u64) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    let mechanism = space.overlay().expect("it keeps the page").mechanism();
    mechanism.replace_frame(space, page)
}

/// Address space and page whose extent (mapping of more than 4KB, such as a 2MB page) contains `frame`;
/// `None` if no extent does. Visits all mappings, which is affordable because frames fail rarely.
fn extent_around(core: &Core, frame: Frame) -> Option<(SpaceId, u64)> {
    core.live_spaces().find_map(|space| {
        let page = space.page_of_frame(frame)?;
        let (_, extent) = space.extent_at(page)?;
        (!extent.stays_whole()).then_some((space.id(), page))
    })
}

fn take_out_of_extent(core: &mut Core, id: SpaceId, page: u64, frame: Frame) -> HardFault {
    let Ok(space) = &mut core.space_mut(id) else {
        return HardFault::Uncorrected;
    };
    let (first, extent) = space.extent_at(page).expect("it was found there");
    let (mechanism, pages) = (extent.mechanism(), first..first + extent.pages());
    if space.leave_overlay(&pages, Departure::Remapped).is_err() {
        return HardFault::Uncorrected;
    }
    if mechanism.relocate(space, first) {
        core.faults.extents_relocated += 1;
        return HardFault::Relocated;
    }
    if let Some(detacher) = space.detacher(page) {
        let permissions = space.extent(first).permissions();
        let punched = space.detach_with(detacher, page, true, permissions);
        return if punched.is_ok() { HardFault::Punched } else { HardFault::Uncorrected };
    }
    let broken_up = mechanism.break_up(space, first);
    if broken_up.is_ok() && migration::migrate(core, frame) {
        HardFault::Split
    } else {
        HardFault::Uncorrected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visited_frame_is_drawn_as_often() {
        let mut times = [0; 3];
        for seed in 0..30_000 {
            let mut draw = Draw { random: Random::new(seed), visited: 0, drawn: None };
            draw.frames(Frame::new(512), &HoleSet::EMPTY, FrameClass::Movable);
            draw.frames(Frame::new(1024), &[3, 9].into_iter().collect(), FrameClass::Movable);
            draw.frames(Frame::new(512), &[7].into_iter().collect(), FrameClass::Perforated);
            let drawn = draw.drawn.expect("there are three").number();
            times[[1027, 1033, 519].iter().position(|&frame| frame == drawn).unwrap()] += 1;
        }
        assert!(times.iter().all(|&times: &i32| (9_700..10_300).contains(&times)), "{times:?}");
        let mut draw = Draw { random: Random::new(1), visited: 0, drawn: None };
        draw.blocks(Frame::new(2048), 3, FrameClass::Large);
        assert!((2048..2048 + 3 * 512).contains(&draw.drawn.unwrap().number()));
    }
}
