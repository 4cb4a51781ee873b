//! The steps of the hardware in one address translation, without their timing. The MMU appends
//! steps; the timing model turns steps into cycles.

use crate::PhysicalAddress;

/// A hardware structure that caches translations. Its entries have slot numbers, so the timing
/// model can tell when the fill of a slot completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Unit {
    /// First-level data TLB, all page sizes.
    L1DataTlb,
    /// First-level instruction TLB, all page sizes.
    L1InstructionTlb,
    /// Second-level TLB, for data and code.
    L2Tlb,
    /// Page-walk caches of all levels; in a virtual machine, those for the guest's tables.
    WalkCache,
    /// Page-walk caches for the host's tables.
    HostWalkCache,
    /// TLB of guest-physical addresses (gPA→hPA), if it is a separate structure.
    NestedTlb,
    /// Cache of a scheme's own mechanism, such as a range TLB, that is looked up in parallel with the
    /// second-level TLB. In a virtual machine, the cache of the guest's mechanism.
    SidebandTlb,
    /// Cache of a host's mechanism, such as a range TLB, that translates guest-physical addresses.
    HostSidebandTlb,
}

impl Unit {
    /// All these structures. The element at index *i* has `unit as usize` = *i*.
    pub const ALL: [Self; Self::COUNT] = [
        Self::L1DataTlb,
        Self::L1InstructionTlb,
        Self::L2Tlb,
        Self::WalkCache,
        Self::HostWalkCache,
        Self::NestedTlb,
        Self::SidebandTlb,
        Self::HostSidebandTlb,
    ];
    /// Number of these structures, for arrays indexed by `unit as usize`.
    pub const COUNT: usize = 8;

    /// Returns the cache of a mechanism, such as a range TLB: [`Self::HostSidebandTlb`] if `purpose`
    /// belongs to nested translation, otherwise [`Self::SidebandTlb`].
    pub const fn sideband_tlb(purpose: Purpose) -> Self {
        if purpose.is_host() { Self::HostSidebandTlb } else { Self::SidebandTlb }
    }

    /// True if look-ups in this structure occupy the page walker.
    pub const fn is_walkers(self) -> bool {
        !matches!(self, Self::L1DataTlb | Self::L1InstructionTlb | Self::L2Tlb | Self::SidebandTlb)
    }
}

/// Declares [`Purpose`]. Each line has a variant, its counterpart in nested translation (gPA→hPA),
/// its name in counters, its name in charts, and a label. In the enum, all counterparts follow the
/// first variants in the same order.
macro_rules! purposes {
    ($($(#[$doc:meta])* $own:ident, $host:ident, $id:literal, $name:literal, $label:literal;)*) => {
        /// Reason for a step of translation: the translation that is looked up, or the entry that is read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Purpose {
            $($(#[$doc])* $own,)*
            $(
                $(#[$doc])*
                ///
                /// This variant is for nested translation, from guest-physical to physical
                /// addresses.
                $host,
            )*
        }

        impl Purpose {
            /// All purposes: reasons for a step of translation. The element at index *i* has
            /// `purpose as usize` = *i*.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$own,)* $(Self::$host,)*];
            const OWN: usize = [$(Self::$own),*].len();
            /// Number of purposes (reasons for a step of translation), for arrays indexed by
            /// `purpose as usize`.
            pub const COUNT: usize = 2 * Self::OWN;

            /// Name of the purpose (reason for a step) in names of counters.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$own => $id,)*
                    $(Self::$host => concat!("host_", $id),)*
                }
            }

            /// Name of the purpose (reason for a step) in tables and charts.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$own => $name,)*
                    $(Self::$host => concat!("host ", $name),)*
                }
            }

            /// Name of the colour in which reports show steps with this purpose.
            pub const fn colour(self) -> &'static str {
                match self {
                    $(Self::$own => $id,)*
                    $(Self::$host => concat!("host-", $id),)*
                }
            }

            /// Name of the entry that a step with this purpose reads; equal for native, guest and
            /// host tables.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$own | Self::$host => $label,)*
                }
            }
        }
    };
}

purposes! {
    /// The translation of the page: look-ups of TLBs and walk caches, and fills of TLBs.
    Page, HostPage, "page", "page", "entry";
    /// The hole bitmap of a perforated page (P §IV.D, cases 3–6).
    Bitmap, HostBitmap, "bitmap", "bitmap", "bitmap line";
    /// A level-5 entry (PML5E), of tables with five levels.
    Level5, HostLevel5, "level5", "level 5", "level-5 entry";
    /// A level-4 entry (PML4E).
    Level4, HostLevel4, "level4", "level 4", "level-4 entry";
    /// A level-3 entry (PDPTE).
    Level3, HostLevel3, "level3", "level 3", "level-3 entry";
    /// A level-2 entry (PDE).
    Level2, HostLevel2, "level2", "level 2", "level-2 entry";
    /// A level-1 entry (PTE).
    Level1, HostLevel1, "level1", "level 1", "level-1 entry";
    /// The shadow level-2 entry of a perforated page, which points to the level-1 node of its
    /// holes.
    Shadow, HostShadow, "shadow", "shadow", "shadow level-2 entry";
    /// The level-1 entry of a hole.
    Hole, HostHole, "hole", "hole", "hole's level-1 entry";
    /// A table of a mechanism, such as a range table. Its entries are filled into the mechanism's
    /// cache ([`Unit::SidebandTlb`]).
    OwnTable, HostOwnTable, "own_table", "own table", "table";
}

impl Purpose {
    /// True if the step belongs to nested translation, from guest-physical to physical addresses.
    pub const fn is_host(self) -> bool {
        self as usize >= Self::OWN
    }

    /// Returns the purpose of the corresponding step in nested translation, such as
    /// [`Self::HostLevel1`] for [`Self::Level1`].
    ///
    /// # Panics
    /// If the purpose belongs to nested translation already.
    #[inline]
    pub const fn of_host(self) -> Self {
        assert!(!self.is_host(), "there is no third dimension");
        Self::ALL[self as usize + Self::OWN]
    }
}

/// An action of the translation hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A look-up that found the entry in `slot`.
    Hit {
        /// TLB or other cache that was looked up.
        unit: Unit,
        /// Slot of the matching entry in that cache.
        slot: u32,
    },
    /// A look-up without a match.
    Miss {
        /// TLB or other cache that was looked up.
        unit: Unit,
    },
    /// A read of simulated memory by the page walker, through the data caches.
    Read {
        /// Physical address of the read: 8 bytes of an entry, or 64 of a bitmap line.
        address: PhysicalAddress,
    },
    /// Comparison of an address with BASE and LIMIT of a direct segment, and look-up in its escape
    /// filter (D §III).
    Check,
    /// Selection of the page's B-block (block of a slice) by the bitmap of a gap-tolerant entry (G §3.7). If
    /// the walk has just read the entry, the step has the purpose of that read. If the level-2 walk cache
    /// held the entry, the purpose is [`Purpose::Page`] or [`Purpose::HostPage`].
    Select,
    /// Fill of a TLB or other cache with a new entry. The entry can be used once the steps of this and all
    /// earlier stages are done.
    Fill {
        /// TLB or other cache that was filled.
        unit: Unit,
        /// Slot of the new entry in that cache.
        slot: u32,
    },
}

/// An action of the hardware, with its purpose and its stage (place in the order of steps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the stage in which the step runs. Steps of one stage run in parallel; the next stage starts
    /// when all are done.
    pub stage: u8,
    /// Reason for the step: the translation that is looked up, or the entry that is read.
    pub purpose: Purpose,
    /// Look-up, memory access or fill that the hardware performs.
    pub action: Action,
}

/// The steps of one translation, in order. Empty if the first-level TLB hit.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    list: Vec<Step>,
    /// True if steps are only counted and not stored.
    counts_only: bool,
    /// True if `counts_only` is set and added steps are on the critical path.
    counts_awaited: bool,
    /// Stage of the next step that does not run in parallel with the previous one.
    next_stage: u8,
    /// Steps off the critical path: no access waits for these.
    background: Vec<Step>,
    /// Number of open calls of [`Self::begin_background`]. If it is above 0, added steps are off the critical
    /// path.
    in_background: u8,
    background_reads: u8,
    reads: [u8; Purpose::COUNT],
    /// Set of the purposes with at least one read, as bits `1 << purpose as u32`.
    read_purposes: u32,
    checks: u8,
    gap_tolerant: GapTolerantSteps,
    /// True if there are counts other than `reads`.
    counts_more: bool,
}

/// Counts of the work on gap-tolerant entries in one translation (G §3). A nested translation counts guest
/// and host together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapTolerantSteps {
    /// Number of times that the bitmap of an entry selected a B-block (block of a slice).
    pub selections: u8,
    /// Number of `selections` with an entry from the walk cache.
    pub cached_selections: u8,
    /// Number of reads that hit the zero padding behind an entry that points to a level-1 node (G
    /// §3.5).
    pub padding_reads: u8,
}

/// The steps of one translation, as the timing model reads them.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepLists<'a> {
    /// Steps on the critical path; see [`Steps::as_slice`].
    pub awaited: &'a [Step],
    /// Steps off the critical path; see [`Steps::background`].
    pub background: &'a [Step],
}

impl<'a> From<&'a Steps> for StepLists<'a> {
    #[inline]
    fn from(steps: &'a Steps) -> Self {
        Self { awaited: &steps.list, background: &steps.background }
    }
}

impl Steps {
    /// An empty list with room for the longest native walk.
    pub fn new() -> Self {
        Self { list: Vec::with_capacity(128), ..Self::default() }
    }

    /// An empty list that only counts reads and never stores steps, for runs without a clock.
    pub fn counts_only() -> Self {
        Self { counts_only: true, counts_awaited: true, ..Self::default() }
    }

    /// Removes all steps and zeroes the counts.
    #[inline]
    pub fn clear(&mut self) {
        // The first step that is stored or counted makes one of these positive.
        if u32::from(self.next_stage) | self.read_purposes | u32::from(self.counts_more) == 0 {
            return;
        }
        self.list.clear();
        self.next_stage = 0;
        self.background.clear();
        self.background_reads = 0;
        self.reads = [0; Purpose::COUNT];
        self.read_purposes = 0;
        self.checks = 0;
        self.gap_tolerant = GapTolerantSteps::default();
        self.counts_more = false;
    }

    /// True if the translation needed no step beyond the first-level TLB.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The steps that the access waits for, in order.
    #[inline]
    pub fn as_slice(&self) -> &[Step] {
        &self.list
    }

    /// Opens a background section: steps added before [`Self::end_background`] are off the critical
    /// path.
    pub fn begin_background(&mut self) {
        self.in_background += 1;
        self.counts_awaited = false;
    }

    /// Closes the background section opened last.
    pub fn end_background(&mut self) {
        self.in_background -= 1;
        self.counts_awaited = self.counts_only && self.in_background == 0;
    }

    /// Steps that no access waits for, in order. They begin after all other steps.
    #[inline]
    pub fn background(&self) -> &[Step] {
        &self.background
    }

    /// Number of reads of simulated memory off the critical path.
    #[inline]
    pub fn background_reads(&self) -> u8 {
        self.background_reads
    }

    /// Reads of simulated memory that the access waits for, indexed by `purpose as usize`.
    #[inline]
    pub fn reads(&self) -> &[u8; Purpose::COUNT] {
        &self.reads
    }

    /// Returns the purposes with at least one read, as pairs of index and number of reads, from
    /// [`Self::reads`].
    #[inline]
    pub fn present_reads(&self) -> impl Iterator<Item = (usize, u8)> {
        let mut rest = self.read_purposes;
        std::iter::from_fn(move || {
            let purpose = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some((purpose, self.reads[purpose]))
        })
    }

    /// True if the access waits for a read of an entry of a table, other than lines of hole bitmaps.
    #[inline]
    pub fn read_tables(&self) -> bool {
        const BITMAPS: u32 = 1 << Purpose::Bitmap as u32 | 1 << Purpose::HostBitmap as u32;
        self.read_purposes & !BITMAPS != 0
    }

    /// True if there are counts other than [`Self::reads`], such as [`Self::checks`] and
    /// [`Self::gap_tolerant`].
    #[inline]
    pub fn counts_more_than_reads(&self) -> bool {
        self.counts_more
    }

    /// Number of comparisons of addresses with the registers of direct segments.
    #[inline]
    pub fn checks(&self) -> u8 {
        self.checks
    }

    /// Counts of the work on gap-tolerant entries.
    #[inline]
    pub fn gap_tolerant(&self) -> GapTolerantSteps {
        self.gap_tolerant
    }

    /// Records that the last read hit the zero padding of a page directory (G §3.5).
    #[inline]
    pub fn record_padding_read(&mut self) {
        self.counts_more = true;
        self.gap_tolerant.padding_reads += 1;
    }

    /// A copy of the first `length` steps that the access waits for.
    pub fn prefix(&self, length: usize) -> Self {
        let mut prefix = Self::new();
        for step in &self.list[..length] {
            prefix.next_stage = step.stage;
            prefix.then(step.purpose, step.action);
        }
        prefix
    }

    /// Appends a step that starts when all earlier steps are done.
    #[inline(always)]
    pub fn then(&mut self, purpose: Purpose, action: Action) {
        if self.counts_awaited {
            return self.count(purpose, action);
        }
        self.add(self.next_stage, purpose, action);
    }

    /// Appends a step that runs in parallel with the step before it.
    #[inline(always)]
    pub fn beside(&mut self, purpose: Purpose, action: Action) {
        if self.counts_awaited {
            return self.count(purpose, action);
        }
        self.add(self.next_stage.saturating_sub(1), purpose, action);
    }

    /// Adds a step that the access waits for to the counts of reads, checks or selections. Look-ups and fills
    /// have no counts.
    #[inline(always)]
    fn count(&mut self, purpose: Purpose, action: Action) {
        match action {
            Action::Read { .. } => {
                self.reads[purpose as usize] += 1;
                self.read_purposes |= 1 << purpose as u32;
            }
            Action::Check => {
                self.checks += 1;
                self.counts_more = true;
            }
            Action::Select => {
                self.counts_more = true;
                let cached = matches!(purpose, Purpose::Page | Purpose::HostPage);
                self.gap_tolerant.selections += 1;
                self.gap_tolerant.cached_selections += u8::from(cached);
            }
            Action::Hit { .. } | Action::Miss { .. } | Action::Fill { .. } => {}
        }
    }

    #[inline(always)]
    fn add(&mut self, stage: u8, purpose: Purpose, action: Action) {
        self.next_stage = stage + 1;
        if self.in_background > 0 {
            return self.add_to_background(stage, purpose, action);
        }
        self.count(purpose, action);
        if self.list.len() == self.list.capacity() {
            self.make_room();
        }
        self.list.push(Step { stage, purpose, action });
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.list.reserve(1);
    }

    #[cold]
    #[inline(never)]
    fn add_to_background(&mut self, stage: u8, purpose: Purpose, action: Action) {
        let step = Step { stage, purpose, action };
        let is_read = matches!(step.action, Action::Read { .. });
        self.counts_more = true;
        self.background_reads = self.background_reads.saturating_add(u8::from(is_read));
        if !self.counts_only {
            self.background.push(step);
        }
    }
}
