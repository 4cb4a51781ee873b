//! Memory that is there in full at once (MAP_POPULATE, MADV_POPULATE_WRITE).
//!
//! It is populated in pieces, so that the changes of a large mapping are never all held at once.
//! In a virtual machine the guest's kernel clears the frames, so that the host backs them at the
//! same time: no violation of the nested page table is left for the program's first access. Such a
//! violation would have the walk done twice, the second time with what the first left in the TLBs,
//! and a run over much memory would measure little else.

use std::ops::Range;

use perforate_os::SegmentRule;
use perforate_types::{Advice, MappingChange, PageSize, ProgramEvent, Update, VirtualAddress};

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
        match event {
            ProgramEvent::Map { start, length, populate: true, .. } if *length > PIECE_BYTES => {
                let mut unpopulated = event.clone();
                if let ProgramEvent::Map { populate, .. } = &mut unpopulated {
                    *populate = false;
                }
                self.change(|kernel, updates| kernel.event(&unpopulated, updates))?;
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
        for done in (0..length).step_by(PIECE_BYTES as usize) {
            self.populating_event(&ProgramEvent::Advise {
                start: start.add(done),
                length: PIECE_BYTES.min(length - done),
                advice: Advice::Other(POPULATE[1]),
            })?;
        }
        Ok(())
    }

    /// Counts the pages that the host has just mapped as exits of the virtual machine.
    fn count_backed(&mut self) {
        let is_page = |update: &&Update| {
            let Update::Change(change) = update else { return false };
            matches!(change, MappingChange::Map { .. } | MappingChange::Perforate { .. })
        };
        self.host.exits.nested_fault += self.updates.iter().filter(is_page).count() as u64;
    }

    fn populating_event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        self.change(|kernel, updates| kernel.event(event, updates))?;
        if self.hypervisor.is_none() {
            return Ok(());
        }
        let mut written = Vec::new();
        self.updates.iter().for_each(|update| note_written(update, &mut written));
        for run in written {
            for part in parts(run) {
                self.change_host(|host, updates| host.back(part, updates))?;
                // Each page that the host maps was a violation of its own.
                self.count_backed();
            }
        }
        Ok(())
    }
}

/// A run of frames in pieces of bounded length.
fn parts(run: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let pages = PIECE_BYTES / PageSize::Size4K.bytes();
    let (start, end) = (run.start, run.end);
    (start..end).step_by(pages as usize).map(move |first| first..end.min(first + pages))
}

/// Adds the frames that the guest's kernel writes to for this change: new pages and table nodes.
/// Neighbours become one run.
fn note_written(update: &Update, runs: &mut Vec<Range<u64>>) {
    let Update::Change(change) = update else { return };
    match *change {
        MappingChange::Map { size, frame, .. } => add(runs, frame.number(), size.pages()),
        MappingChange::MapHole { frame, .. } | MappingChange::AddTable { frame, .. } => {
            add(runs, frame.number(), 1);
        }
        MappingChange::Segment { frame, pages, .. } => add(runs, frame.number(), pages),
        MappingChange::Perforate { block, ref holes, .. } => {
            let in_place = (0..PageSize::Size2M.pages()).filter(|&i| !holes.contains(i as usize));
            in_place.for_each(|index| add(runs, block.number() + index, 1));
        }
        _ => {}
    }
}

fn add(runs: &mut Vec<Range<u64>>, first: u64, pages: u64) {
    match runs.last_mut() {
        Some(run) if run.end == first => run.end += pages,
        _ => runs.push(first..first + pages),
    }
}
