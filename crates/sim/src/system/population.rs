//! Populating memory before it is accessed (MAP_POPULATE, MADV_POPULATE_WRITE).
//!
//! Memory is populated in parts of limited size, so that the updates of a large mapping are never
//! all in memory together. In a virtual machine, the guest's kernel clears the frames, so the host
//! backs them at the same time. The program's first access then causes no fault in the host's page
//! tables. Such a fault would repeat the walk, with TLB entries from the first attempt. If much
//! memory is touched, these repetitions would dominate the run.

use std::ops::Range;

use perforate_os::{Kernel, OsError};
use perforate_schemes::segment::{DirectSegments, SegmentRule};
use perforate_types::{
    Advice, PageSize, ProgramEvent, TableOperation, Truth, Update, VirtualAddress, VirtualPage,
};

use super::System;
use crate::SimError;

/// Largest number of bytes that are populated at once. With 4KB pages, this causes some megabytes
/// of updates.
const PIECE_BYTES: u64 = 128 << 20;

impl System {
    /// Carries out an event of the program, such as a system call, in the operating system.
    ///
    /// # Errors
    /// The simulated memory or this computer's memory is exhausted, or the oracle refuses an
    /// update.
    pub fn event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        self.host_memory.check(event)?;
        self.turn_to_thread(event);
        self.handle_event(event)?;
        self.prepare()
    }

    /// Lets the kernel map memory in advance of accesses, if its mechanism does so (eager paging),
    /// and lets the host back the frames of tables other than page tables that the guest's kernel
    /// has written.
    pub(super) fn prepare(&mut self) -> Result<(), SimError> {
        while self.kernel.has_work_in_advance() {
            self.populating(|kernel| kernel.proceed())?;
        }
        while let Some(frame) = self.written_tables.pop() {
            let run = frame.number()..frame.number() + 1;
            self.change_host(|host| host.back(run))?;
        }
        Ok(())
    }

    fn handle_event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        match event {
            ProgramEvent::Map { start, length, populate: true, .. } if *length > PIECE_BYTES => {
                let mut unpopulated = event.clone();
                if let ProgramEvent::Map { populate, .. } = &mut unpopulated {
                    *populate = false;
                }
                self.change(|kernel| kernel.event(&unpopulated))?;
                self.prepare()?;
                self.populate_in_pieces(*start, *length)
            }
            ProgramEvent::Map { populate: true, .. } => self.populating_event(event),
            ProgramEvent::Advise { advice, .. } if advice.populates() => {
                self.populating_event(event)
            }
            _ => self.change(|kernel| kernel.event(event)),
        }
    }

    /// Creates a direct segment for the largest area before the first instruction, if a smaller
    /// area has the segment. This is necessary because a recorded trace begins in the middle of a
    /// program and lists existing memory area by area, so the first touch only knows the first
    /// area. D §II.B has one primary region for all of the program's data.
    ///
    /// # Errors
    /// As [`Self::change`]. Without contiguous memory for the new segment, there is no segment
    /// afterwards.
    pub(crate) fn make_primary_region(&mut self) -> Result<(), SimError> {
        let space = self.kernel.current();
        let wanted = self.kernel.segment_frames_wanted(space, &SegmentRule::default());
        let (Some(segment), Some(wanted)) = (self.kernel.segment(space), wanted) else {
            return Ok(());
        };
        // The requested size is rounded up to whole 2MB blocks.
        if wanted <= segment.pages + 2 * PageSize::Size2M.pages() {
            return Ok(());
        }
        self.change(|kernel| {
            kernel.dissolve_segment(space)?;
            // The kernel counts a failure if there is no room.
            kernel.create_segment(space, None).map(|_| ()).or(Ok(()))
        })
    }

    fn populate_in_pieces(&mut self, start: VirtualAddress, length: u64) -> Result<(), SimError> {
        let first = start.page().number();
        let pages = first..first + length.div_ceil(PageSize::Size4K.bytes());
        // An inaccessible mapping, however large, has no pieces.
        for readable in self.kernel.readable_within(pages) {
            for piece in pieces(readable) {
                self.populating_event(&ProgramEvent::Advise {
                    start: VirtualPage::new(piece.start).address(),
                    length: (piece.end - piece.start) * PageSize::Size4K.bytes(),
                    advice: Advice::POPULATE_WRITE,
                })?;
            }
        }
        Ok(())
    }

    /// Returns the number of translations that the host's kernel has added since it booted, without
    /// sub-pages of pages that were mapped before.
    fn pages_backed(&self) -> u64 {
        self.hypervisor.as_ref().map_or(0, |host| host.kernel().pages_brought_in())
    }

    fn populating_event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        self.populating(|kernel| kernel.event(event))
    }

    /// Lets `act` populate memory, and the host back the frames that the guest's kernel writes.
    fn populating<T>(
        &mut self,
        act: impl FnOnce(&mut Kernel) -> Result<T, OsError>,
    ) -> Result<T, SimError> {
        let outcome = self.change(act)?;
        if self.hypervisor.is_none() || self.updates.is_empty() {
            return Ok(outcome);
        }
        let mut written = Vec::new();
        self.updates.iter().for_each(|update| add_written_frames(update, &mut written));
        for run in written {
            for piece in pieces(run) {
                let before = self.pages_backed();
                let ((), is_first) = self.backing(|host| host.back(piece))?;
                // Without populating, each page that the host maps would be a separate fault.
                let exits = self.pages_backed() - before;
                self.host.exits.nested_fault += exits;
                self.host.backing_exits += if is_first { exits } else { 0 };
            }
        }
        Ok(outcome)
    }
}

/// Splits a run of frames or pages into parts of at most [`PIECE_BYTES`].
fn pieces(run: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let pages = PIECE_BYTES / PageSize::Size4K.bytes();
    let (start, end) = (run.start, run.end);
    (start..end).step_by(pages as usize).map(move |first| first..end.min(first + pages))
}

/// Adds the frames that the guest's kernel writes for an update to `runs`: new pages and page-table
/// nodes. Adjacent frames form one run.
fn add_written_frames(update: &Update, runs: &mut Vec<Range<u64>>) {
    match update {
        Update::Truth(Truth::Map { run, frame, .. }) => add_run(runs, frame.number(), run.pages),
        Update::Table(TableOperation::AddNode { frame, .. }) => add_run(runs, frame.number(), 1),
        _ => {}
    }
}

fn add_run(runs: &mut Vec<Range<u64>>, first: u64, pages: u64) {
    match runs.last_mut() {
        Some(run) if run.end == first => run.end += pages,
        _ => runs.push(first..first + pages),
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Frame, PageRun, Permissions, SpaceId};

    use super::*;

    #[test]
    fn runs_are_split_into_pieces() {
        const PAGES: u64 = PIECE_BYTES / 4096;
        let pieces = |run| pieces(run).map(|piece| (piece.start, piece.end)).collect::<Vec<_>>();
        assert_eq!(pieces(5..5), []);
        assert_eq!(pieces(5..6), [(5, 6)]);
        assert_eq!(pieces(5..5 + PAGES), [(5, 5 + PAGES)]);
        let two = [(5, 5 + PAGES), (5 + PAGES, 6 + PAGES)];
        assert_eq!(pieces(5..6 + PAGES), two);
    }

    /// New pages and new nodes are written; what is only changed or removed is not.
    #[test]
    fn frames_of_pages_and_nodes_are_written() {
        let (space, page) = (SpaceId(0), VirtualPage::new(0));
        let permissions = Permissions::READ_WRITE;
        let map = |frame, pages| {
            let (run, frame) = (PageRun::new(space, page, pages), Frame::new(frame));
            Update::Truth(Truth::Map { run, frame, permissions })
        };
        let node = |frame| {
            let frame = Frame::new(frame);
            Update::Table(TableOperation::AddNode { space, level: 1, page, frame, branch: 0 })
        };
        let entry = {
            let (size, frame) = (PageSize::Size4K, Frame::new(99));
            Update::Table(TableOperation::Map { space, page, size, frame, permissions })
        };
        let mut runs = Vec::new();
        for update in [map(10, 3), map(13, 1), entry, node(14), map(16, 2), map(10, 1), node(18)] {
            add_written_frames(&update, &mut runs);
        }
        assert_eq!(runs, [10..15, 16..18, 10..11, 18..19]);
    }
}
