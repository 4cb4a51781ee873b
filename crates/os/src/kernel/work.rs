//! Account of the work that the kernel did, for models of its cost.
//!
//! The kernel has no clock. It counts actions: faults by kind, frames cleared and copied, entries
//! written, shootdowns sent. Operations on page tables and shootdowns are counted when they are
//! emitted, independent of their cause. A mechanism with page-table entries of a format of its own counts
//! its writes itself.

use perforate_types::{
    CONTIGUOUS_PAGES, CounterUnit, CounterValue, Counters, Figure, ProgramEvent, Prominence,
    Shootdown, SpaceId, TableOperation, VirtualPage,
};

/// Number of 4KB pages in a 2MB block.
const BLOCK_PAGES: u64 = 512;
/// Single invalidations after which a whole address space is flushed instead: Linux's
/// `tlb_single_page_flush_ceiling`.
const FLUSH_CEILING: u64 = 33;

/// Declares a struct of counters with field-by-field subtraction and addition.
#[macro_export]
macro_rules! fieldwise {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$meaning:meta])* $field_visibility:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$meaning])* $field_visibility $field: $type,)*
        }

        impl ::std::ops::Sub for $name {
            type Output = Self;

            /// Subtracts the counts at an earlier moment, so that the counts since that moment remain.
            fn sub(self, earlier: Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }

        impl ::std::ops::AddAssign for $name {
            fn add_assign(&mut self, more: Self) {
                $(self.$field += more.$field;)*
            }
        }
    };
}

/// Declares [`Work`] from one list: its fields, their difference and their counters. A string after a name
/// is the label of the counter in tables of reports; `of` names the sum that the counter is a part of.
macro_rules! account {
    ($($(#[doc = $meaning:literal])+ $name:ident $(of $sum:literal)? $(, $label:literal)?;)*) => {
        $crate::fieldwise! {
            /// Number of operations of each kind that the kernel did, since it booted or between two moments.
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct Work {
                $($(#[doc = $meaning])+ pub $name: u64,)*
            }
        }

        impl Work {
            /// Counters of the kernel's work, each named `work_` and the name of its field.
            pub const FIGURES: &[Figure<Self>] = &[$({
                const LABELS: &[&str] = &[$($label)?];
                const SUMS: &[&str] = &[$($sum)?];
                Figure {
                    id: concat!("work_", stringify!($name)),
                    label: LABELS.first().copied(),
                    unit: CounterUnit::Count,
                    group: if LABELS.is_empty() { "Operating system's work" } else { "Memory" },
                    meaning: &[$($meaning),+],
                    prominence: match LABELS.is_empty() {
                        true => Prominence::Listed,
                        false => Prominence::Table,
                    },
                    part: match SUMS {
                        [sum] => Some((*sum, stringify!($name), "other")),
                        _ => None,
                    },
                    value: |work| CounterValue::Count(work.$name),
                }
            },)*];

            /// Name and count of every kind of work.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

account! {
    /// Faults that mapped a 4KB page.
    faults_4k of "work_faults";
    /// Faults that mapped a folio of 16KB to 1MB by 4KB entries.
    faults_folio of "work_faults";
    /// Faults that mapped an ordinary 2MB page.
    faults_2m of "work_faults";
    /// Faults that mapped a 1GB page.
    faults_1g of "work_faults";
    /// Faults that mapped a perforated page.
    faults_perforated of "work_faults";
    /// Faults that gave an unallocated hole its frame.
    faults_hole of "work_faults";
    /// Writes to a page that was read-only, whether a frame was copied or not.
    faults_copy_on_write of "work_faults";
    /// Faults that read a page from swap (Linux: major faults).
    faults_swap of "work_faults";
    /// Faults that brought in gap-tolerant superpages.
    faults_superpage of "work_faults";
    /// Faults that made a direct segment, which contains the page.
    faults_segment of "work_faults";
    /// Faults after which nothing had to be mapped: spurious ones and refused accesses.
    faults_other of "work_faults";
    /// 4KB frames of anonymous memory cleared one by one.
    frames_zeroed_4k;
    /// 2MB blocks of anonymous memory cleared whole.
    blocks_zeroed_2m;
    /// 1GB runs of anonymous memory cleared whole.
    blocks_zeroed_1g;
    /// 4KB frames of new page-table nodes, shadow nodes included; they begin cleared.
    frames_zeroed_tables;
    /// 4KB frames copied for a write or a sub-page that moved.
    frames_copied;
    /// Translations added: pages of any size, allocated holes.
    pages_mapped;
    /// Translations removed.
    pages_unmapped;
    /// Translations whose permissions changed.
    pages_protected;
    /// Entries of 4KB pages that were rewritten to say that 16 pages are contiguous, or no longer to say
    /// so.
    entries_joined;
    /// 2MB pages split into 4KB pages.
    large_pages_split, "2MB pages split";
    /// 1GB pages split into 2MB pages.
    huge_pages_split;
    /// Gap-tolerant entries that became 4KB pages.
    superpages_demoted;
    /// Sub-pages that became holes of a 2MB page.
    subpages_punched;
    /// Holes that became a part of their 2MB page again.
    subpages_patched, "holes patched";
    /// Frames that scanners examined.
    frames_scanned;
    /// Frames whose content moved to another frame under the same page.
    frames_migrated;
    /// Pages written to swap.
    pages_swapped_out;
    /// Pages read from swap, by faults or before a page is populated, shared or patched.
    pages_swapped_in;
    /// Calls that change mappings or ask for it: mmap, munmap, mprotect, madvise, mremap and brk.
    memory_calls;
    /// Calls of fork.
    forks;
    /// Switches to another process.
    context_switches;
    /// Context switches from or to an address space with a direct segment. Its registers (D §II.B)
    /// and its escape filter (D §V) are saved, loaded or cleared.
    segment_registers_loaded;
    /// Mode switches: direct segments set in the registers of an address space, or cleared.
    segments_switched;
    /// Pages that escaped a direct segment.
    pages_escaped;
    /// Shootdowns of 4KB translations.
    shootdowns_page of "work_shootdowns";
    /// Shootdowns of bitmap entries.
    shootdowns_bitmap of "work_shootdowns";
    /// Shootdowns of entries of 2MB or 1GB.
    shootdowns_large of "work_shootdowns";
    /// Shootdowns of gap-tolerant superpages, each of which flushes the TLB.
    shootdowns_superpage of "work_shootdowns";
    /// Shootdowns of whole address spaces.
    shootdowns_space of "work_shootdowns";
    /// Operations that ended with a shootdown. All shootdowns of an operation are sent together, so
    /// other processors are interrupted once.
    shootdown_batches;
    /// Addresses that batches of shootdowns invalidated one by one.
    entries_invalidated;
    /// Batches of shootdowns that flushed an address space, because it was required or because it
    /// replaced more than 33 single invalidations.
    spaces_flushed;
}

impl Work {
    /// Returns these counts with all counts of shootdowns set to zero: the work that another CPU can do
    /// without interrupting the programs.
    pub fn apart_from_shootdowns(self) -> Self {
        Self {
            shootdowns_page: 0,
            shootdowns_bitmap: 0,
            shootdowns_large: 0,
            shootdowns_superpage: 0,
            shootdowns_space: 0,
            shootdown_batches: 0,
            entries_invalidated: 0,
            spaces_flushed: 0,
            ..self
        }
    }

    /// Writes every count to `out`, as the counter `work_…`.
    pub fn record(&self, out: &mut Counters) {
        out.record(Self::FIGURES, self);
    }
}

/// The kind of mapping that a first touch made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstTouch {
    /// A page of 4KB.
    #[default]
    Page,
    /// A frame for an unallocated hole.
    Hole,
    /// A folio mapped by 4KB entries.
    Folio {
        /// Number of 4KB pages in the folio.
        pages: u64,
    },
    /// An ordinary 2MB page.
    Large,
    /// One page of 1GB.
    Huge,
    /// One or more gap-tolerant superpages.
    Superpage {
        /// Number of 4KB pages in these superpages.
        pages: u64,
    },
    /// A run of contiguous memory of which an overlay (a direct segment) translates more than the touched
    /// page.
    Run {
        /// Number of pages of the run that are cleared.
        cleared: u64,
    },
    /// A 2MB page with holes.
    WithHoles {
        /// Number of sub-pages that are not holes.
        in_place: u64,
    },
}

/// Running counts of the kernel's work, and the shootdowns of the operation in progress, not sent yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Counts of the work done since boot.
    pub done: Work,
    /// Number of added translations that only filled a hole of a 2MB page, or came with another page of their
    /// folio.
    pub subpages_mapped: u64,
    /// True if frames that are mapped next count as cleared, as those of anonymous memory; false for memory
    /// that is read from a file or from swap.
    pub clears: bool,
    last_mapped: FirstTouch,
    entries_waiting: u64,
    flush_waiting: bool,
    /// Address of the last shootdown in this operation's batch. If the next one has the same address, it is
    /// counted as done by the same instruction.
    last_invalidated: Option<(SpaceId, VirtualPage)>,
}

impl Ledger {
    /// Counts the work of one page-table operation.
    #[inline]
    pub(crate) fn table(&mut self, operation: &TableOperation) {
        let done = &mut self.done;
        match operation {
            TableOperation::SetControl { .. } => {}
            // The code that allocates a larger node counts its other frames.
            TableOperation::AddNode { .. } => done.frames_zeroed_tables += 1,
            TableOperation::RemoveNode { .. } => {}
            TableOperation::Map { .. } => done.pages_mapped += 1,
            TableOperation::Unmap { .. } => done.pages_unmapped += 1,
            TableOperation::Protect { .. } => done.pages_protected += 1,
            TableOperation::Join { .. } => done.entries_joined += CONTIGUOUS_PAGES,
        }
    }

    /// Counts a system call of the program.
    pub(crate) fn call(&mut self, event: &ProgramEvent) {
        use ProgramEvent::{
            Advise, Brk, Exec, Exit, Fork, Gap, Map, Name, Phase, Protect, Remap, Switch, Unmap,
        };
        match event {
            Map { .. }
            | Unmap { .. }
            | Protect { .. }
            | Advise { .. }
            | Remap { .. }
            | Brk { .. } => {
                self.done.memory_calls += 1;
            }
            Fork { .. } => self.done.forks += 1,
            // PR_SET_VMA_ANON_NAME is rare, and the names of files are none of the program's calls.
            Exec | Exit { .. } | Switch { .. } | Gap { .. } | Phase { .. } | Name { .. } => {}
        }
    }

    /// Counts a shootdown. One instruction invalidates all TLB entries for an address: its 4KB and
    /// 2MB entries and the bitmap entry around it. P §IV.E: a bitmap change needs no shootdown
    /// besides that of the mapping.
    #[inline]
    pub(crate) fn shootdown(&mut self, shootdown: Shootdown) {
        let done = &mut self.done;
        let address = match shootdown {
            Shootdown::Page { space, page } => {
                done.shootdowns_page += 1;
                (space, page)
            }
            Shootdown::Bitmap { space, page } => {
                done.shootdowns_bitmap += 1;
                (space, page)
            }
            Shootdown::Large { space, page, .. } => {
                done.shootdowns_large += 1;
                (space, page)
            }
            // The superpage's translations are in as many 4KB entries as it has pages, too many to
            // invalidate one by one.
            Shootdown::Superpage { .. } => {
                done.shootdowns_superpage += 1;
                self.flush_waiting = true;
                return;
            }
            Shootdown::Space { .. } => {
                done.shootdowns_space += 1;
                self.flush_waiting = true;
                return;
            }
        };
        if self.last_invalidated.replace(address) != Some(address) {
            self.entries_waiting += 1;
        }
    }

    /// True if the present operation has shootdowns that [`Self::send`] has not counted as sent yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.entries_waiting > 0 || self.flush_waiting
    }

    /// Ends the kernel's present operation: counts its shootdowns as sent in one batch.
    #[inline]
    pub(crate) fn send(&mut self) {
        if !self.is_waiting() {
            return;
        }
        self.done.shootdown_batches += 1;
        if self.flush_waiting || self.entries_waiting > FLUSH_CEILING {
            self.done.spaces_flushed += 1;
        } else {
            self.done.entries_invalidated += self.entries_waiting;
        }
        (self.entries_waiting, self.flush_waiting) = (0, false);
        self.last_invalidated = None;
    }

    /// Counts the frames that a first touch clears. Records the kind of the mapping for
    /// [`Self::first_touch`].
    #[inline]
    pub(crate) fn bring_in(&mut self, what: FirstTouch) {
        let cleared = u64::from(self.clears);
        match what {
            FirstTouch::Page | FirstTouch::Hole => self.done.frames_zeroed_4k += cleared,
            // A folio counts as one mapping, as it takes one fault.
            FirstTouch::Folio { pages } => {
                self.done.frames_zeroed_4k += cleared * pages;
                self.subpages_mapped += pages - 1;
            }
            FirstTouch::Large => self.done.blocks_zeroed_2m += cleared,
            FirstTouch::Huge => self.done.blocks_zeroed_1g += cleared,
            FirstTouch::Superpage { pages } => {
                self.done.blocks_zeroed_2m += cleared * (pages / BLOCK_PAGES);
            }
            FirstTouch::Run { cleared: pages } => {
                self.done.blocks_zeroed_2m += cleared * (pages / BLOCK_PAGES);
                self.done.frames_zeroed_4k += cleared * (pages % BLOCK_PAGES);
            }
            FirstTouch::WithHoles { in_place } => {
                self.done.frames_zeroed_4k += cleared * in_place;
            }
        }
        // A hole filled when its perforated page is mapped is not the mapping that the fault counts
        // as.
        if what != FirstTouch::Hole {
            self.last_mapped = what;
        }
    }

    /// Records the kind of a new mapping to frames that other pages already map, so that nothing is cleared.
    #[inline]
    pub(crate) fn join(&mut self, what: FirstTouch) {
        self.last_mapped = what;
    }

    /// Counts a fault by the kind of the last mapping that [`Self::bring_in`] or [`Self::join`] recorded.
    #[inline]
    pub(crate) fn first_touch(&mut self) {
        match self.last_mapped {
            FirstTouch::Page | FirstTouch::Hole => self.done.faults_4k += 1,
            FirstTouch::Folio { .. } => self.done.faults_folio += 1,
            FirstTouch::Large => self.done.faults_2m += 1,
            FirstTouch::Huge => self.done.faults_1g += 1,
            FirstTouch::Superpage { .. } => self.done.faults_superpage += 1,
            FirstTouch::Run { .. } => self.done.faults_segment += 1,
            FirstTouch::WithHoles { .. } => self.done.faults_perforated += 1,
        }
    }

    /// The work done so far, with the shootdowns of the kernel's present operation counted as sent.
    pub(crate) fn total(mut self) -> Work {
        self.send();
        self.done
    }

    /// Number of translations (pages of any size, folios) added since boot, not counting holes that were
    /// filled in a 2MB page. Equals the number of faults that would map the same memory on demand.
    pub(crate) fn pages_brought_in(&self) -> u64 {
        self.done.pages_mapped - self.subpages_mapped
    }

    /// Counts `frames` frames that a scanner (compaction, khugepaged, same-page merging) examined.
    pub(crate) fn scanned(&mut self, frames: u64) {
        self.done.frames_scanned += frames;
    }

    /// Counts `frames` frames as migrated: their contents were copied to other frames, to which the same
    /// pages are mapped now. The table writes and shootdowns of the migration are counted separately; its
    /// copies do not count as copied frames.
    pub(crate) fn migrated(&mut self, frames: u64) {
        self.done.frames_migrated += frames;
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Frame, GapTolerance, PageSize, Permissions};

    use super::*;

    #[test]
    fn each_first_touch_is_cleared_and_counted_as_its_kind() {
        use FirstTouch::{Folio, Hole, Huge, Large, Page, Run, Superpage, WithHoles};
        let none = Work::default();
        for (what, cleared, fault, subpages) in [
            (Page, Work { frames_zeroed_4k: 1, ..none }, Work { faults_4k: 1, ..none }, 0),
            (Hole, Work { frames_zeroed_4k: 1, ..none }, Work { faults_4k: 1, ..none }, 0),
            (
                Folio { pages: 16 },
                Work { frames_zeroed_4k: 16, ..none },
                Work { faults_folio: 1, ..none },
                15,
            ),
            (Large, Work { blocks_zeroed_2m: 1, ..none }, Work { faults_2m: 1, ..none }, 0),
            (Huge, Work { blocks_zeroed_1g: 1, ..none }, Work { faults_1g: 1, ..none }, 0),
            (
                Superpage { pages: 1024 },
                Work { blocks_zeroed_2m: 2, ..none },
                Work { faults_superpage: 1, ..none },
                0,
            ),
            (
                Run { cleared: 1030 },
                Work { blocks_zeroed_2m: 2, frames_zeroed_4k: 6, ..none },
                Work { faults_segment: 1, ..none },
                0,
            ),
            (
                WithHoles { in_place: 500 },
                Work { frames_zeroed_4k: 500, ..none },
                Work { faults_perforated: 1, ..none },
                0,
            ),
        ] {
            for clears in [false, true] {
                let mut ledger = Ledger { clears, ..Ledger::default() };
                ledger.bring_in(what);
                assert_eq!(ledger.done, if clears { cleared } else { none }, "{what:?}");
                assert_eq!(ledger.subpages_mapped, subpages, "{what:?}");
                let before = ledger.done;
                ledger.first_touch();
                assert_eq!(ledger.done - before, fault, "{what:?}");
            }
            let mut joined = Ledger { clears: true, ..Ledger::default() };
            joined.join(what);
            joined.first_touch();
            assert_eq!(joined.done, fault, "{what:?}: what others have is not cleared");
        }
        let mut filled = Ledger::default();
        filled.bring_in(WithHoles { in_place: 3 });
        filled.bring_in(Hole);
        filled.first_touch();
        assert_eq!(
            filled.done,
            Work { faults_perforated: 1, ..none },
            "holes come with their page"
        );
    }

    #[test]
    fn one_batch_invalidates_an_address_once_or_flushes_all() {
        let at = |space, page| (SpaceId(space), VirtualPage::new(page));
        let page = |(space, page)| Shootdown::Page { space, page };
        let bitmap = |(space, page)| Shootdown::Bitmap { space, page };
        let large = |(space, page)| Shootdown::Large { space, page, size: PageSize::Size2M };
        let mode = GapTolerance::SINGLE_1M;
        let superpage = Shootdown::Superpage { space: SpaceId(0), page: VirtualPage::new(0), mode };
        let flush = Shootdown::Space { space: SpaceId(0) };
        let many: Vec<Shootdown> = (0..34).map(|number| page(at(0, number))).collect();
        for (shootdowns, entries, flushes) in [
            (&[][..], 0, 0),
            (&[page(at(0, 7)), bitmap(at(0, 7)), large(at(0, 7))], 1, 0),
            (&[page(at(0, 7)), page(at(1, 7)), page(at(0, 7)), page(at(0, 8))], 4, 0),
            (&[page(at(0, 7)), flush], 0, 1),
            (&[superpage], 0, 1),
            (&many[..33], 33, 0),
            (&many[..], 0, 1),
        ] {
            let mut ledger = Ledger::default();
            shootdowns.iter().for_each(|&shootdown| ledger.shootdown(shootdown));
            assert_eq!(ledger.is_waiting(), !shootdowns.is_empty());
            let total = ledger.total();
            ledger.send();
            assert_eq!(total, ledger.done, "what waits counts as sent");
            let batches = u64::from(!shootdowns.is_empty());
            let found = (total.entries_invalidated, total.spaces_flushed, total.shootdown_batches);
            assert_eq!(found, (entries, flushes, batches), "{shootdowns:?}");
            assert!(!ledger.is_waiting());
            // The next batch begins anew, also with the address of the last one.
            ledger.shootdown(page(at(0, 8)));
            assert_eq!(ledger.total().entries_invalidated, entries + 1);
            let kinds =
                Work { entries_invalidated: 0, spaces_flushed: 0, shootdown_batches: 0, ..total };
            assert_eq!(kinds.apart_from_shootdowns(), Work::default());
        }
    }

    #[test]
    fn operations_on_tables_are_counted_by_kind() {
        let (space, page, size) = (SpaceId(0), VirtualPage::new(0), PageSize::Size4K);
        let (frame, permissions) = (Frame::new(5), Permissions::READ);
        let none = Work::default();
        for (operation, expected) in [
            (
                TableOperation::AddNode { space, level: 1, page, frame, branch: 0 },
                Work { frames_zeroed_tables: 1, ..none },
            ),
            (TableOperation::RemoveNode { space, level: 1, page, branch: 0 }, none),
            (
                TableOperation::Map { space, page, size, frame, permissions },
                Work { pages_mapped: 1, ..none },
            ),
            (TableOperation::Unmap { space, page, size }, Work { pages_unmapped: 1, ..none }),
            (
                TableOperation::Protect { space, page, size, permissions },
                Work { pages_protected: 1, ..none },
            ),
            (
                TableOperation::Join { space, page, contiguity: None },
                Work { entries_joined: 16, ..none },
            ),
        ] {
            let mut ledger = Ledger::default();
            ledger.table(&operation);
            assert_eq!(ledger.done, expected, "{operation:?}");
        }
        let mut ledger = Ledger { subpages_mapped: 3, ..Ledger::default() };
        ledger.done.pages_mapped = 10;
        ledger.scanned(5);
        ledger.migrated(6);
        assert_eq!((ledger.pages_brought_in(), ledger.done.frames_scanned), (7, 5));
        assert_eq!(ledger.done.frames_migrated, 6);
    }

    #[test]
    fn figures_of_work_have_labels_and_sums() {
        let labelled = Work::FIGURES.iter().filter_map(|figure| Some((figure.id, figure.label?)));
        let expected = [
            ("work_large_pages_split", "2MB pages split"),
            ("work_subpages_patched", "holes patched"),
        ];
        assert!(labelled.eq(expected));
        for figure in Work::FIGURES {
            let name = figure.id.strip_prefix("work_").expect("work");
            let (is_fault, is_shootdown) =
                (name.starts_with("faults_"), name.starts_with("shootdowns_"));
            let sum = figure.part.map(|(sum, part, _)| (sum, part));
            let expected = match (is_fault, is_shootdown) {
                (true, _) => Some(("work_faults", name)),
                (_, true) => Some(("work_shootdowns", name)),
                _ => None,
            };
            assert_eq!(sum, expected, "{name}");
            let (group, prominence) = match figure.label {
                Some(_) => ("Memory", Prominence::Table),
                None => ("Operating system's work", Prominence::Listed),
            };
            assert_eq!((figure.group, figure.prominence), (group, prominence), "{name}");
        }
    }
}
