//! Sampled timing: runs in which only windows are timed.

use super::*;
use crate::sampled::{Phase, Schedule};

/// State of sampled timing: the position in the schedule of windows, and the counts of each past
/// window.
pub(super) struct TimedRun {
    schedule: Schedule,
    phase: Phase,
    /// Counts of the run at the beginning of the current window; `None` between windows of sampled
    /// timing.
    open: Option<PartCounts>,
    closed: Vec<PartCounts>,
}

impl TimedRun {
    pub(super) fn new(schedule: Schedule) -> Self {
        Self { schedule, phase: Phase::Warming, open: None, closed: Vec::new() }
    }
}

impl Simulation {
    /// Returns the counts of each window that has ended: its instructions, cycles, TLB misses and
    /// page walks.
    pub(crate) fn timed_windows(&self) -> &[PartCounts] {
        self.timed.as_ref().map_or(&[], |timed| &timed.closed)
    }

    /// Starts measuring, but pauses the counters of the timing model until the first window.
    pub(super) fn await_first_window(&mut self) {
        if let (Some(timed), Some(clock)) = (&mut self.timed, &mut self.clock) {
            timed.schedule.start_measuring(self.done);
            clock.run_on_core(Core::pause_counting);
        }
    }

    /// Runs the instructions of a chunk from `position` up to number `end`, in the phases of the
    /// schedule.
    pub(super) fn run_in_phases(
        &mut self,
        chunk: &Chunk,
        position: &mut Position,
        end: usize,
    ) -> Result<(), SimError> {
        while position.instruction < end {
            let now = self.done;
            let timed = self.timed.as_mut().expect("windows are timed");
            let (phase, until) = timed.schedule.phase(now);
            self.enter(phase);
            let length = usize::try_from(until - now).unwrap_or(usize::MAX);
            let part = end.min(position.instruction.saturating_add(length));
            let mut clock = self.clock.take().expect("a run of timed windows has a clock");
            let is_warming = phase == Phase::Warming;
            let outcome = match &mut clock {
                Clock::Inline(core) if is_warming => {
                    self.run_with(&mut Warming(core), chunk, position, part)
                }
                Clock::Inline(core) => self.run_with(core.as_mut(), chunk, position, part),
                Clock::Threaded(thread) => {
                    thread.set_warming(is_warming);
                    self.run_with(thread, chunk, position, part)
                }
                Clock::Several(_) => Err(SimError::SampledTiming),
            };
            self.clock = Some(clock);
            outcome?;
        }
        Ok(())
    }

    /// Switches the timing model to a phase (warming, filling or counting), if it is in another
    /// phase.
    fn enter(&mut self, phase: Phase) {
        let Some(before) = self.timed.as_ref().map(|timed| timed.phase) else { return };
        if before == Phase::Counting && phase != Phase::Counting {
            self.close_window();
        }
        if phase == Phase::Counting && before != Phase::Counting {
            self.clock.iter_mut().for_each(|clock| clock.run_on_core(Core::resume_counting));
            let tally = self.tally_at_rest();
            self.timed.iter_mut().for_each(|timed| timed.open = Some(tally));
        }
        if phase == Phase::Warming && before != Phase::Warming {
            self.clock.iter_mut().for_each(|clock| clock.run_on_core(Core::drain));
        }
        self.timed.iter_mut().for_each(|timed| timed.phase = phase);
    }

    /// Ends the current window, and appends its counts. Does not drain the pipeline: cycles count
    /// from the last retirement before the window begins to the last one before it ends.
    fn close_window(&mut self) {
        let tally = self.tally_at_rest();
        let (Some(timed), Some(clock)) = (&mut self.timed, &mut self.clock) else { return };
        if let Some(open) = timed.open.take() {
            timed.closed.push(tally - open);
            clock.run_on_core(Core::pause_counting);
        }
    }

    /// Ends the run and extrapolates the windows to `instructions` measured instructions.
    ///
    /// # Errors
    /// [`SimError::NoTimedWindow`] if no window was timed.
    pub(super) fn finish_windows(
        &mut self,
        instructions: u64,
    ) -> Result<Vec<PartCounts>, SimError> {
        self.close_window();
        let Some(timed) = self.timed.take() else { return Ok(Vec::new()) };
        if timed.closed.iter().all(|window| window.instructions == 0) {
            return Err(SimError::NoTimedWindow { instructions });
        }
        if let Some(clock) = &mut self.clock {
            clock.run_on_core(Core::drain);
            clock.run_on_core(move |core| core.extrapolate(instructions));
        }
        Ok(timed.closed)
    }
}
