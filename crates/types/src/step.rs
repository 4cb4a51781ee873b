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
    /// A mechanism's own cache beside the second-level TLB; of the guest when virtualized.
    BesideL2,
    /// A mechanism's own cache of translations of guest-physical addresses.
    HostBesideL2,
}

impl Unit {
    /// Number of units, for arrays indexed by `unit as usize`.
    pub const COUNT: usize = 8;

    /// A mechanism's own cache beside the second-level TLB, of the dimension that `purpose` is about.
    pub const fn beside_l2(purpose: Purpose) -> Self {
        if purpose.is_host() { Self::HostBesideL2 } else { Self::BesideL2 }
    }

    /// Whether the page walker looks it up, and is occupied while it does.
    pub const fn is_walkers(self) -> bool {
        !matches!(self, Self::L1DataTlb | Self::L1InstructionTlb | Self::L2Tlb | Self::BesideL2)
    }
}

/// The facts about purposes in one table: variant, id, name among its like, label. Those of the second
/// dimension follow in the same order.
macro_rules! purposes {
    ($($(#[$doc:meta])* $own:ident, $host:ident, $id:literal, $name:literal, $label:literal;)*) => {
        /// The reason of a step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Purpose {
            $($(#[$doc])* $own,)*
            $(
                $(#[$doc])*
                ///
                /// Of the second dimension, guest-physical to physical addresses.
                $host,
            )*
        }

        impl Purpose {
            /// All purposes, in order of their index.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$own,)* $(Self::$host,)*];
            const OWN: usize = [$(Self::$own),*].len();
            /// Number of purposes, for arrays indexed by `purpose as usize`.
            pub const COUNT: usize = 2 * Self::OWN;

            /// Name in counters.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$own => $id,)*
                    $(Self::$host => concat!("host_", $id),)*
                }
            }

            /// Name beside other purposes in tables and charts.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$own => $name,)*
                    $(Self::$host => concat!("host ", $name),)*
                }
            }

            /// What its colour in reports stands for.
            pub const fn colour(self) -> &'static str {
                match self {
                    $(Self::$own => $id,)*
                    $(Self::$host => concat!("host-", $id),)*
                }
            }

            /// The entry that is read, in words; the same for both dimensions.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$own | Self::$host => $label,)*
                }
            }
        }
    };
}

purposes! {
    /// The page's translation.
    Page, HostPage, "page", "page", "entry";
    /// The hole bitmap (P-4 cases 3–6).
    Bitmap, HostBitmap, "bitmap", "bitmap", "bitmap line";
    /// A level-4 entry (PML4E).
    Level4, HostLevel4, "level4", "level 4", "level-4 entry";
    /// A level-3 entry (PDPTE).
    Level3, HostLevel3, "level3", "level 3", "level-3 entry";
    /// A level-2 entry (PDE).
    Level2, HostLevel2, "level2", "level 2", "level-2 entry";
    /// A level-1 entry (PTE).
    Level1, HostLevel1, "level1", "level 1", "level-1 entry";
    /// The shadow level-2 entry of a perforated page.
    Shadow, HostShadow, "shadow", "shadow", "shadow level-2 entry";
    /// The level-1 entry of a hole.
    Hole, HostHole, "hole", "hole", "hole's level-1 entry";
    /// A table of a mechanism's own, from which its unit beside the second-level TLB is filled.
    OwnTable, HostOwnTable, "own_table", "own table", "table";
}

impl Purpose {
    /// Whether it is about the second dimension, guest-physical to physical addresses.
    pub const fn is_host(self) -> bool {
        self as usize >= Self::OWN
    }

    /// The same purpose in the second dimension.
    ///
    /// # Panics
    /// If it is about the second dimension already: there is no third.
    #[inline]
    pub const fn of_host(self) -> Self {
        assert!(!self.is_host(), "there is no third dimension");
        Self::ALL[self as usize + Self::OWN]
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
    /// Steps that no access waits for.
    background: Vec<Step>,
    /// How many fills in the background are under way, one inside the other.
    in_background: u8,
    background_reads: u8,
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

/// The steps of one translation, for whoever takes their time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepLists<'a> {
    /// See [`Steps::as_slice`].
    pub awaited: &'a [Step],
    /// See [`Steps::background`].
    pub background: &'a [Step],
}

impl<'a> From<&'a Steps> for StepLists<'a> {
    #[inline]
    fn from(steps: &'a Steps) -> Self {
        Self { awaited: &steps.list, background: &steps.background }
    }
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
        self.background.clear();
        self.background_reads = 0;
        self.reads = [0; Purpose::COUNT];
        self.checks = 0;
        self.gap_tolerant = GapTolerantSteps::default();
    }

    /// Whether nothing beyond the first-level TLB was needed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The steps that the access waits for, in order.
    #[inline]
    pub fn as_slice(&self) -> &[Step] {
        &self.list
    }

    /// Until [`Self::end_background`], steps are such that no access waits for.
    pub fn begin_background(&mut self) {
        self.in_background += 1;
    }

    /// Ends what began last.
    pub fn end_background(&mut self) {
        self.in_background -= 1;
    }

    /// Steps that no access waits for, in order. They begin when all others are done.
    #[inline]
    pub fn background(&self) -> &[Step] {
        &self.background
    }

    /// Reads in the background.
    #[inline]
    pub fn background_reads(&self) -> u8 {
        self.background_reads
    }

    /// Reads of simulated memory that the access waits for, indexed by `purpose as usize`.
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
        if self.in_background > 0 {
            return self.add_to_background(step);
        }
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

    #[cold]
    fn add_to_background(&mut self, step: Step) {
        let is_read = matches!(step.action, Action::Read { .. });
        self.background_reads = self.background_reads.saturating_add(u8::from(is_read));
        if !self.counts_only {
            self.background.push(step);
        }
    }
}
