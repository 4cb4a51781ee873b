//! What one translation did, without a clock: the memory-management unit appends steps, the
//! timing model turns them into cycles.

use crate::PhysicalAddress;

/// A structure that caches translations. Its entries are numbered slots, so that the timing
/// model can tell when a fill that is still in flight arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Unit {
    /// First-level data TLB, all page sizes.
    L1DataTlb,
    /// First-level instruction TLB, all page sizes.
    L1InstructionTlb,
    /// Second-level TLB.
    L2Tlb,
    /// Page-walk caches, all levels; of the guest when virtualized.
    WalkCache,
    /// Page-walk caches of the host's tables.
    HostWalkCache,
    /// TLB of guest-physical addresses, where it is a structure of its own.
    NestedTlb,
}

impl Unit {
    /// Number of units, for arrays indexed by `unit as usize`.
    pub const COUNT: usize = 6;
}

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// The page's translation.
    Page,
    /// The hole bitmap (P-4 cases 3–6).
    Bitmap,
    /// A level-4 entry (PML4E).
    Level4,
    /// A level-3 entry (PDPTE).
    Level3,
    /// A level-2 entry (PDE).
    Level2,
    /// A level-1 entry (PTE).
    Level1,
    /// The shadow level-2 entry of a perforated page.
    Shadow,
    /// The level-1 entry of a hole.
    Hole,
    /// The translation of a guest-physical address.
    HostPage,
    /// The host's hole bitmap.
    HostBitmap,
    /// A level-4 entry of the host.
    HostLevel4,
    /// A level-3 entry of the host.
    HostLevel3,
    /// A level-2 entry of the host.
    HostLevel2,
    /// A level-1 entry of the host.
    HostLevel1,
    /// The shadow level-2 entry of a perforated page of the host.
    HostShadow,
    /// The level-1 entry of a hole of the host.
    HostHole,
}

impl Purpose {
    /// Number of purposes, for arrays indexed by `purpose as usize`.
    pub const COUNT: usize = 16;

    /// Whether it is about the second dimension, guest-physical to physical addresses.
    pub const fn is_host(self) -> bool {
        self as usize >= Self::HostPage as usize
    }

    /// The same in the second dimension.
    ///
    /// # Panics
    /// If it is about the second dimension already: there is no third.
    pub const fn of_host(self) -> Self {
        match self {
            Self::Page => Self::HostPage,
            Self::Bitmap => Self::HostBitmap,
            Self::Level4 => Self::HostLevel4,
            Self::Level3 => Self::HostLevel3,
            Self::Level2 => Self::HostLevel2,
            Self::Level1 => Self::HostLevel1,
            Self::Shadow => Self::HostShadow,
            Self::Hole => Self::HostHole,
            _ => panic!("there is no third dimension"),
        }
    }
}

/// One thing the hardware did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A look-up that found `slot`.
    Hit {
        /// Where.
        unit: Unit,
        /// Which entry.
        slot: u32,
    },
    /// A look-up that found nothing.
    Miss {
        /// Where.
        unit: Unit,
    },
    /// A read of simulated memory by the page walker, through the data caches.
    Read {
        /// What it read; 8 bytes for entries, 64 for a bitmap line.
        address: PhysicalAddress,
    },
    /// An address was compared with BASE and LIMIT of a direct segment, and with its escape filter
    /// (D §III).
    Check,
    /// The page's B-block was found in a gap-tolerant entry's selection bitmap (G §3.7): of an
    /// entry just read (its purpose is that of the read), or of one in the walk cache of level-2
    /// entries (its purpose is the page).
    Select,
    /// An entry was filled; it is usable when the stages so far are done.
    Fill {
        /// Where.
        unit: Unit,
        /// Which entry.
        slot: u32,
    },
}

/// An action with its place in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Steps of one stage run in parallel; the next stage starts when all are done.
    pub stage: u8,
    /// What the step is for.
    pub purpose: Purpose,
    /// What was done.
    pub action: Action,
}

/// The steps of one translation, in order. Empty for a hit in the first-level TLB.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    list: Vec<Step>,
    /// Whether steps are only counted, not listed.
    counts_only: bool,
    /// Stage of the next step that starts when everything before it is done.
    next_stage: u8,
    reads: [u8; Purpose::COUNT],
    checks: u8,
    gap_tolerant: GapTolerantSteps,
}

/// What a translation did with gap-tolerant entries, of both dimensions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapTolerantSteps {
    /// B-blocks found in selection bitmaps.
    pub selections: u8,
    /// Those of them in entries that the walk cache held.
    pub cached_selections: u8,
    /// Reads that fell on the padding behind an entry of a level-1 node (G §3.5).
    pub padding_reads: u8,
}

impl Steps {
    /// No steps yet, with room for the longest native walk.
    pub fn new() -> Self {
        Self { list: Vec::with_capacity(128), ..Self::default() }
    }

    /// No steps yet, and none will be listed: only reads are counted, for runs without a clock.
    pub fn counts_only() -> Self {
        Self { counts_only: true, ..Self::default() }
    }

    /// Forgets all steps.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        self.next_stage = 0;
        self.reads = [0; Purpose::COUNT];
        self.checks = 0;
        self.gap_tolerant = GapTolerantSteps::default();
    }

    /// Whether nothing beyond the first-level TLB was needed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The steps in order.
    #[inline]
    pub fn as_slice(&self) -> &[Step] {
        &self.list
    }

    /// Reads of simulated memory, indexed by `purpose as usize`.
    #[inline]
    pub fn reads(&self) -> &[u8; Purpose::COUNT] {
        &self.reads
    }

    /// Checks of direct segments.
    #[inline]
    pub fn checks(&self) -> u8 {
        self.checks
    }

    /// Gap-tolerant entries.
    #[inline]
    pub fn gap_tolerant(&self) -> GapTolerantSteps {
        self.gap_tolerant
    }

    /// The read appended last fell on padding.
    #[inline]
    pub fn fell_on_padding(&mut self) {
        self.gap_tolerant.padding_reads += 1;
    }

    /// The first `length` steps only.
    pub fn prefix(&self, length: usize) -> Self {
        let mut prefix = Self::new();
        for step in &self.list[..length] {
            prefix.next_stage = step.stage;
            prefix.then(step.purpose, step.action);
        }
        prefix
    }

    /// Appends a step that starts when everything before it is done.
    #[inline]
    pub fn then(&mut self, purpose: Purpose, action: Action) {
        let stage = self.next_stage;
        self.next_stage += 1;
        self.add(Step { stage, purpose, action });
    }

    /// Appends a step that runs together with the one before it.
    #[inline]
    pub fn beside(&mut self, purpose: Purpose, action: Action) {
        let stage = self.next_stage.saturating_sub(1);
        self.next_stage = stage + 1;
        self.add(Step { stage, purpose, action });
    }

    #[inline]
    fn add(&mut self, step: Step) {
        match step.action {
            Action::Read { .. } => self.reads[step.purpose as usize] += 1,
            Action::Check => self.checks += 1,
            Action::Select => {
                let cached = matches!(step.purpose, Purpose::Page | Purpose::HostPage);
                self.gap_tolerant.selections += 1;
                self.gap_tolerant.cached_selections += u8::from(cached);
            }
            _ => {}
        }
        if !self.counts_only {
            self.list.push(step);
        }
    }
}
