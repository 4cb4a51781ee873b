//! Memory that is there in full at once (MAP_POPULATE, MADV_POPULATE_WRITE).
//!
//! It is populated in pieces, so that the changes of a large mapping are never all held at once.
//! In a virtual machine the guest's kernel clears the frames, so that the host backs them at the
//! same time: no violation of the nested page table is left for the program's first access. Such a
//! violation would have the walk done twice, the second time with what the first left in the TLBs,
//! and a run over much memory would measure little else.

use std::ops::Range;

use perforate_os::{Kernel, OsError};
use perforate_schemes::segment::{DirectSegments, SegmentRule};
use perforate_types::{
    Advice, PageSize, ProgramEvent, TableOperation, Truth, Update, VirtualAddress, VirtualPage,
};

use super::System;
use crate::SimError;

/// MADV_POPULATE_READ and MADV_POPULATE_WRITE of Linux.
const POPULATE: [i32; 2] = [22, 23];

/// What is populated at once. A piece of 4KB pages makes some MB of changes.
const PIECE_BYTES: u64 = 128 << 20;

impl System {
    /// What the program asks of the operating system.
    ///
    /// # Errors
    /// Out of memory, simulated or of the host, or a change that the oracle refuses.
    pub fn event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        self.host_memory.check(event)?;
        self.turn_to_thread(event);
        self.hear(event)?;
        self.prepare()
    }

    /// Has the operating system do what it has to do in advance of touches, and the host back tables
    /// of mechanisms that the guest's kernel has written.
    pub(super) fn prepare(&mut self) -> Result<(), SimError> {
        while self.kernel.has_work_in_advance() {
            self.populating(|kernel, updates| kernel.proceed(updates))?;
        }
        while let Some(frame) = self.written_tables.pop() {
            let run = frame.number()..frame.number() + 1;
            self.change_host(|host, updates| host.back(run, updates))?;
        }
        Ok(())
    }

    fn hear(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        match event {
            ProgramEvent::Map { start, length, populate: true, .. } if *length > PIECE_BYTES => {
                let mut unpopulated = event.clone();
                if let ProgramEvent::Map { populate, .. } = &mut unpopulated {
                    *populate = false;
                }
                self.change(|kernel, updates| kernel.event(&unpopulated, updates))?;
                self.prepare()?;
                self.populate_in_pieces(*start, *length)
            }
            ProgramEvent::Map { populate: true, .. } => self.populating_event(event),
            ProgramEvent::Advise { advice: Advice::Other(advice), .. }
                if POPULATE.contains(advice) =>
            {
                self.populating_event(event)
            }
            _ => self.change(|kernel, updates| kernel.event(event, updates)),
        }
    }

    /// Before the first instruction: makes the direct segment anew of the largest area, if a smaller
    /// one got it. A recorded trace begins in the midst of a program and names the memory that
    /// there is area by area, so that the first touch knows the first of them only. D §II.B has one
    /// primary region for all of the program's data.
    ///
    /// # Errors
    /// As [`Self::change`]'s. Where there is no contiguous memory for it, there is no segment then.
    pub(crate) fn make_primary_region(&mut self) -> Result<(), SimError> {
        let space = self.kernel.current();
        let wanted = self.kernel.segment_frames_wanted(space, &SegmentRule::default());
        let (Some(segment), Some(wanted)) = (self.kernel.segment(space), wanted) else {
            return Ok(());
        };
        // What is wanted is whole 2MB blocks.
        if wanted <= segment.pages + 2 * PageSize::Size2M.pages() {
            return Ok(());
        }
        self.change(|kernel, updates| {
            kernel.dissolve_segment(space, updates)?;
            // The kernel counts it as a failure if there is no room.
            kernel.create_segment(space, updates).map(|_| ()).or(Ok(()))
        })
    }

    fn populate_in_pieces(&mut self, start: VirtualAddress, length: u64) -> Result<(), SimError> {
        let first = start.page().number();
        let pages = first..first + length.div_ceil(PageSize::Size4K.bytes());
        // Of a vast mapping that may not be touched there are no pieces.
        for readable in self.kernel.readable_within(pages) {
            for piece in parts(readable) {
                self.populating_event(&ProgramEvent::Advise {
                    start: VirtualPage::new(piece.start).address(),
                    length: (piece.end - piece.start) * PageSize::Size4K.bytes(),
                    advice: Advice::Other(POPULATE[1]),
                })?;
            }
        }
        Ok(())
    }

    /// Translations that the host added since it booted, as a guest's touches bring them in.
    fn pages_backed(&self) -> u64 {
        self.hypervisor.as_ref().map_or(0, |host| host.kernel().pages_brought_in())
    }

    fn populating_event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        self.populating(|kernel, updates| kernel.event(event, updates))
    }

    /// Lets `act` bring memory in, and the host back what the guest's kernel writes.
    fn populating<T>(
        &mut self,
        act: impl FnOnce(&mut Kernel, &mut Vec<Update>) -> Result<T, OsError>,
    ) -> Result<T, SimError> {
        let outcome = self.change(act)?;
        if self.hypervisor.is_none() || self.updates.is_empty() {
            return Ok(outcome);
        }
        let mut written = Vec::new();
        self.updates.iter().for_each(|update| note_written(update, &mut written));
        for run in written {
            for part in parts(run) {
                let before = self.pages_backed();
                self.change_host(|host, updates| host.back(part, updates))?;
                // Each page that the host maps was a violation of its own.
                self.host.exits.nested_fault += self.pages_backed() - before;
            }
        }
        Ok(outcome)
    }
}

/// A run of frames or pages in pieces of bounded length.
fn parts(run: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let pages = PIECE_BYTES / PageSize::Size4K.bytes();
    let (start, end) = (run.start, run.end);
    (start..end).step_by(pages as usize).map(move |first| first..end.min(first + pages))
}

/// Adds the frames that the guest's kernel writes to for this update: new pages and table nodes.
/// Neighbours become one run.
fn note_written(update: &Update, runs: &mut Vec<Range<u64>>) {
    match update {
        Update::Truth(Truth::Map { run, frame, .. }) => add(runs, frame.number(), run.pages),
        Update::Table(TableOperation::AddNode { frame, .. }) => add(runs, frame.number(), 1),
        _ => {}
    }
}

fn add(runs: &mut Vec<Range<u64>>, first: u64, pages: u64) {
    match runs.last_mut() {
        Some(run) if run.end == first => run.end += pages,
        _ => runs.push(first..first + pages),
    }
}
