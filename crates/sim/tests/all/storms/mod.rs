//! Set-up and random events of storms, which are long runs of random events with checks after each.

mod agreement;
mod coalesced;
mod defects;
pub mod kept;
mod names;
pub mod occupied;
mod segments;
mod tampered;
mod virtualized;
mod watched;

use perforate_config::{Count, OptionTexts, read};
use perforate_mmu::{BitmapUpdates, L2Part, ShadowReads, TlbConfig, TlbGeometry, Ways, allow};
use perforate_os::{
    HoleContent, Kernel, KhugepagedConfig, KsmConfig, LaidOut, OsError, PageLayout,
};
use perforate_sim::scheme::scripted::{Script, ScriptError};
use perforate_sim::{
    Composition, Machine, MemoryOptions, MemorySnapshot, MemoryState, ProcessorOptions, SimError,
    System, SystemOptions, Wiring,
};
use perforate_types::{
    AccessKind, Advice, Backing, Frame, HoleSet, PageSize, Permissions, ProcessId, ProgramEvent,
    SpaceId, ThreadId, VirtualAddress, VirtualPage,
};

pub use agreement::{check_all_tables, check_some_tables};
pub use coalesced::Coalesced;
pub use defects::{Defect, Defective, PLANTED, is_caught};
pub use names::{Replay, assert_map_adds_up, number, seeds};
pub use segments::{SegmentAction, has_segments};
pub use virtualized::virtualize;
pub use watched::Watcher;

/// First address of the arena in which all events happen.
const ARENA: u64 = 0x7f00_0000_0000;
/// Number of 2MB regions in the arena.
const REGIONS: u64 = 6;
/// Number of events between checks of the kernel's records.
pub const CHECKED_EVERY: u64 = 400;

/// A policy that uses every function of a policy script.
const STORM_POLICY: &str = r#"
    fn order_for(area, kind, orders) {
        let region = area.address >> 21;
        if region % 5 == 0 && kind == "fault" { 0 } else { orders }
    }
    fn with_holes(block) {
        switch block.holes % 3 { 0 => "lazy", 1 => true, _ => block.holes < 300 }
    }
    fn promote(region, ways) {
        if region.pages_absent % 7 == 0 { () } else { ways[region.pages_present % ways.len()] }
    }
    fn patch(frames_copied) { frames_copied < 2 }
    fn demote(block) { block.holes > 90 }
    fn reclaim(victim) { (victim.address >> 21) % 2 == 0 || victim.large }
"#;

/// Values of `defrag`: compaction in page faults for 2MB pages.
const DEFRAG_MODES: [&str; 5] = ["always", "defer", "defer+madvise", "madvise", "never"];

/// Resolves options to a memory.
pub fn memory_of(options: &[(&str, &str)]) -> MemoryState {
    let given: OptionTexts = options.iter().copied().collect();
    MemoryOptions::read(given).unwrap().resolve(&MemorySnapshot::load).unwrap()
}

/// Pseudo-random choices.
pub struct Random(perforate_types::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(perforate_types::Random::new(seed))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.next() % limit
    }

    pub fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }
}

/// A storm: a long run of random events and accesses. The seed determines the kinds of events and
/// their frequencies.
pub struct Storm {
    pub random: Random,
    pub system: System,
    processes: Vec<ProcessId>,
    next_process: u16,
    /// Sub-pages used within a 2MB region. There are few, so that events and accesses affect the
    /// same pages.
    subpages: Vec<u64>,
    weights: [u64; 14],
    has_segments: bool,
    /// True if threads of the processes run on several cores.
    has_cores: bool,
    /// True if a defect is planted, which the oracle must find.
    is_damaged: bool,
    /// Reference model of the hardware state; `None` with a planted defect.
    watcher: Option<Watcher>,
    /// Number of samples in which tables were compared with the oracle.
    samples: u64,
}

impl Storm {
    /// Creates a storm over a scheme or a pair of schemes.
    pub fn new(composition: Composition, seed: u64, defect: Option<Defect>) -> Self {
        Self::over(composition, seed, None, defect)
    }

    /// Creates a storm with a changed memory. Its events are the same under all schemes.
    pub fn changed(composition: Composition, seed: u64, change: &dyn Fn(&mut MemoryState)) -> Self {
        Self::build(composition, seed, None, None, Some(change), None)
    }

    /// Creates a storm on a machine whose TLBs hold contiguous pages as one entry. Some storms have
    /// folios of several sizes under any scheme.
    pub fn coalesced(composition: Composition, seed: u64, coalesced: Coalesced) -> Self {
        Self::build(composition, seed, None, None, None, Some(coalesced))
    }

    /// Creates a storm over the memory of a snapshot, if one is given.
    pub fn over(
        composition: Composition,
        seed: u64,
        snapshot: Option<MemorySnapshot>,
        defect: Option<Defect>,
    ) -> Self {
        let coalesced = defect.and_then(Defect::coalesced);
        Self::build(composition, seed, snapshot, defect, None, coalesced)
    }

    fn build(
        composition: Composition,
        seed: u64,
        snapshot: Option<MemorySnapshot>,
        defect: Option<Defect>,
        change: Option<&dyn Fn(&mut MemoryState)>,
        coalesced: Option<Coalesced>,
    ) -> Self {
        let mut random = Random::new(seed);
        let mut machine = Machine::load(Machine::DEFAULT).unwrap();
        if random.one_in(2) {
            // Small TLBs evict often.
            machine.tlb.l2 = TlbGeometry { entries: 48, ways: 12 };
            partition_l2(&mut machine.tlb, seed);
            machine.tlb.l1_data_4k = TlbGeometry { entries: 8, ways: 4 };
        } else {
            // Room for most pages of a storm. The reference model looks at all entries, again and again.
            machine.tlb.l2.entries = 384;
        }
        machine.tlb.tagged = !random.one_in(4);
        if seed % 3 == 2 {
            machine.tlb.shadow_reads = ShadowReads::WithDirectoryEntry;
        }
        if seed % 2 == 1 {
            machine.tlb.bitmap_updates = BitmapUpdates::InPlace;
        }
        let holes = 1 + random.below(60);
        let shape = if random.one_in(2) { "clustered" } else { "dispersed" };
        let fragmentation = format!("portion={}%,holes={holes}%,{shape}", random.below(101));
        let perforation = [
            "holes=eager",
            "holes=lazy,promote=punch",
            "max-filter-bits=4",
            "hole-cost=0",
            "create=reserve",
            "create=reserve,max-hole-share=10%,demote-above=10%",
        ];
        let perforation = perforation[random.below(6) as usize];
        // Half of the storms have aged memory, some others too little memory.
        let aged = random.one_in(2) && snapshot.is_none();
        let least = if !aged && random.one_in(2) { 4 } else { 64 };
        // Some memories end with a whole block below the hole bitmaps, some do not.
        let kilobytes = (least + 2 * random.below(least)) * 1024 + 4 * random.below(3);
        let (memory, has_own_state) = (format!("{kilobytes}K"), aged || snapshot.is_some());
        let faulty = random.one_in(2) && snapshot.is_none();
        let compaction = ["none", "background"][random.below(2) as usize];
        let defrag = DEFRAG_MODES[random.below(5) as usize];
        let swap = ["0", "4M", "16M"][random.below(3) as usize];
        let zones = ["single", "x86"][random.below(2) as usize];
        let mut memory = memory_of(&[
            ("memory", &memory),
            ("fragmentation", if has_own_state { "none" } else { &fragmentation }),
            ("perforation", perforation),
            ("age", if aged { "kernel-build,free=60%" } else { "none" }),
            ("faulty", if faulty { "uniform=0.1%" } else { "none" }),
            ("compaction", compaction),
            ("defrag", defrag),
            ("swap", swap),
            ("zones", if snapshot.is_some() { "single" } else { zones }),
        ]);
        if let Some(snapshot) = snapshot {
            memory = memory.with_snapshot(snapshot).unwrap();
        }
        // Only the scheme `layout` uses the layout. Some regions have large pages, others do not.
        let large = (0..REGIONS).filter(|region| (seed ^ 0b101) >> region & 1 == 1);
        let range =
            |region| (ARENA + (region << 21)..ARENA + ((region + 1) << 21), PageSize::Size2M);
        let layout = PageLayout::new(large.map(range));
        memory.policies.layout = Some(LaidOut { layout, name: "storm".into() });
        // Only schemes with a script use the script. The remaining seeds use the bundled scripts.
        if !seed.is_multiple_of(3) {
            memory.policies.script = Some(Script::compile("storm", STORM_POLICY).unwrap());
        }
        if let Some(change) = change {
            change(&mut memory);
        }
        if [Some(composition.own), composition.host].into_iter().flatten().any(has_segments) {
            // Small filters wrongly report many pages as escaped.
            let bits = [256, 64, 16][Random::new(seed).below(3) as usize];
            machine.virtualization.escape_filter_bits = bits;
        }
        if composition.host.is_some() {
            virtualize(&mut machine, &mut memory, &mut Random::new(!seed));
            // Perforated pages need 2MB-grained entries in the second-level TLB.
            let perforates = composition.in_hardware().any(|scheme| scheme.shadow_directories);
            let holds_large = perforates || !seed.is_multiple_of(6);
            if !holds_large {
                machine.tlb.l2_2m = L2Part::NONE;
            }
        }
        if let Some(coalesced) = coalesced {
            coalesced.configure(&mut machine, &mut memory, seed);
        }
        let options = SystemOptions { check: true, implicit_maps: false, counts_only: false };
        let name = if change.is_some() { 0 } else { composition.name().len() as u64 };
        let processors = processors(seed + name, defect);
        let shares_cores = processors.threads_per_core > 1;
        let watcher = defect.is_none().then(|| Watcher::new(&machine, &composition, shares_cores));
        let wiring: Box<dyn Wiring> = match (&watcher, defect) {
            (Some(watcher), _) => Box::new(watcher.clone()),
            (None, Some(defect)) => Defective::new(defect),
            (None, None) => unreachable!("nothing watches a storm with a defect only"),
        };
        let mut system =
            System::wired(&machine, composition, &memory, seed, options, Some(wiring)).unwrap();
        system.set_processors(&processors).unwrap();
        let contents = format!("zero=2%,duplicate={}%,distinct=40", random.below(60).max(1));
        let contents = read(&contents).expect("valid");
        let set_contents = |kernel: &mut Kernel| kernel.set_content_distribution(contents);
        system.change(set_contents).unwrap();
        let mut subpages: Vec<_> = (0..4 + random.below(28)).map(|_| random.below(512)).collect();
        if coalesced.is_some() {
            // Neighbours of 64KB are used together: three such blocks of each region.
            subpages.iter_mut().for_each(|subpage| *subpage = 64 + *subpage % 48);
        }
        let weights = std::array::from_fn(|_| random.below(4));
        let mut storm = Self {
            random,
            system,
            processes: vec![ProcessId(0)],
            next_process: 1,
            subpages,
            weights,
            has_segments: has_segments(composition.own),
            has_cores: processors.are_several(),
            is_damaged: defect.is_some(),
            watcher,
            samples: 0,
        };
        storm.map_arena().unwrap();
        storm
    }

    fn event(&mut self, event: ProgramEvent) -> Result<(), SimError> {
        forgive(self.system.event(&event), ())
    }

    /// Maps a new arena, of shared memory in half of the cases.
    fn map_arena(&mut self) -> Result<(), SimError> {
        let shared = self.random.one_in(2);
        self.event(storm_map(0, REGIONS * 512, Permissions::READ_WRITE, shared))
    }

    fn page(&mut self) -> u64 {
        let subpage = self.subpages[self.random.below(self.subpages.len() as u64) as usize];
        self.random.below(REGIONS) * 512 + subpage
    }

    fn range(&mut self) -> (VirtualAddress, u64) {
        let pages = match self.random.below(4) {
            0 => 512,
            1 => 1 + self.random.below(700),
            _ => 1 + self.random.below(4),
        };
        let first = if pages == 512 { self.page() / 512 * 512 } else { self.page() };
        (VirtualAddress::new(ARENA + first * 4096), pages * 4096)
    }

    fn permissions(&mut self) -> Permissions {
        [Permissions::READ, Permissions::READ_WRITE, Permissions::READ_EXECUTE, Permissions::ALL]
            [self.random.below(4) as usize]
    }

    fn access(&mut self) -> Result<(), SimError> {
        let kind = match self.random.below(8) {
            0 => AccessKind::Fetch,
            1..=3 => AccessKind::Write,
            _ => AccessKind::Read,
        };
        let address = VirtualAddress::new(ARENA + self.page() * 4096 + self.random.below(4096));
        let found = forgive(self.system.translate(kind, address), None)?;
        if found.is_some() && !self.is_damaged {
            self.assert_marked(kind, address);
        }
        Ok(())
    }

    /// Asserts that the tables allow the access, and that every table has the dirty bit after a
    /// write.
    fn assert_marked(&self, kind: AccessKind, address: VirtualAddress) {
        let space = self.system.kernel().current();
        let found = self.system.mmu().dimension().look_at(space, address.page());
        let allows = found.map_or(0, |found| found.allows);
        let needed = allow::needed(kind);
        assert_eq!(allows & needed, needed, "{kind:?} of {address:?} in {space:?}");
    }

    /// Returns a process other than the first; `None` if there is none.
    fn other_process(&mut self) -> Option<ProcessId> {
        let others = self.processes.len() as u64 - 1;
        (others > 0).then(|| self.processes[1 + self.random.below(others) as usize])
    }

    fn space_of(&self, process: ProcessId) -> Option<SpaceId> {
        self.system.kernel().processes().find(|(id, _)| *id == process).map(|(_, space)| space)
    }

    /// Performs an access or, less often, an event.
    pub fn step(&mut self) -> Result<(), SimError> {
        let total: u64 = self.weights.iter().sum();
        if self.has_cores && self.random.one_in(4) {
            self.switch()?;
        } else if self.has_segments && self.random.one_in(60) {
            self.segment()?;
        } else if total == 0 || !self.random.one_in(6) {
            return self.access();
        } else {
            self.perform_event(total)?;
        }
        self.check_some_tables();
        Ok(())
    }

    /// Compares some table entries with the oracle, and the hardware with the reference model.
    /// Called after an event.
    pub fn check_some_tables(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.at_rest(self.system.mmu());
        }
        if !self.is_damaged {
            self.samples += 1;
            check_some_tables(&self.system, self.samples);
        }
    }

    /// Compares the table entries of all pages with the oracle.
    pub fn check_all_tables(&self) {
        if !self.is_damaged {
            check_all_tables(&self.system);
        }
    }

    /// Performs an event, chosen by the weights.
    fn perform_event(&mut self, total: u64) -> Result<(), SimError> {
        let mut choice = self.random.below(total);
        let mut kind = 0;
        while choice >= self.weights[kind] {
            choice -= self.weights[kind];
            kind += 1;
        }
        let (start, length) = self.range();
        let page = VirtualAddress::new(ARENA + self.page() * 4096).page();
        match kind {
            0 => {
                let permissions = self.permissions();
                let first = (start.value() - ARENA) / 4096;
                let shared = self.random.one_in(3);
                self.event(storm_map(first, length / 4096, permissions, shared))
            }
            1 if self.random.one_in(3) => self.event(ProgramEvent::Unmap { start, length }),
            1 => self.map_arena(),
            2 => {
                let (permissions, accessible) = (self.permissions(), !self.random.one_in(8));
                self.event(ProgramEvent::Protect { start, length, permissions, accessible })
            }
            3 => {
                let orders = [2, 4, 6, 8, 9, 18];
                let order = orders[self.random.below(orders.len() as u64) as usize];
                let advice = match self.random.below(8) {
                    0 => Advice::DontNeed,
                    1 => Advice::NoHugePage,
                    2 => Advice::HugePage,
                    3 => Advice::Free,
                    4 | 5 => Advice::PageSize(order),
                    _ => Advice::POPULATE_WRITE,
                };
                self.event(ProgramEvent::Advise { start, length, advice })
            }
            4 | 5 => self.punch(page),
            6 => self.patch(page),
            7 => self.share(page),
            8 => self.fork_or_exit(),
            9 => self.merge(),
            10 => self.compact_or_fail(),
            11 => self.promote(),
            12 => self.remap(start, length),
            _ => self.switch(),
        }
    }

    /// Creates or removes a segment, or lets a page escape. Touches the page before and after,
    /// because segments are short-lived, and the change should affect cached entries.
    fn segment(&mut self) -> Result<(), SimError> {
        let page = VirtualAddress::new(ARENA + self.page() * 4096).page();
        let action = SegmentAction::draw(&mut self.random, page);
        let space = self.system.kernel().current();
        self.touch(page)?;
        forgive(
            self.system.change(|kernel| {
                action.act(kernel, space);
                Ok(())
            }),
            (),
        )?;
        self.touch(page)
    }

    fn touch(&mut self, page: VirtualPage) -> Result<(), SimError> {
        forgive(self.system.translate(AccessKind::Read, page.address()), None).map(|_| ())
    }

    /// Moves a range of pages, with or without whole regions. The kernel refuses a move to the same
    /// place.
    fn remap(&mut self, from: VirtualAddress, from_length: u64) -> Result<(), SimError> {
        let (to, to_length) = self.range();
        let to_length = if self.random.one_in(2) { from_length } else { to_length };
        self.event(ProgramEvent::Remap { from, from_length, to, to_length })
    }

    fn punch(&mut self, page: VirtualPage) -> Result<(), SimError> {
        let space = self.system.kernel().current();
        let permissions = self.permissions();
        let hole = match self.random.below(3) {
            0 => HoleContent::Unallocated,
            1 => HoleContent::Moved,
            _ => HoleContent::Permissions(permissions),
        };
        // A page that cannot be punched stays as it is.
        self.system.change(|kernel| Ok(kernel.punch(space, page, hole).ok()))?;
        Ok(())
    }

    fn patch(&mut self, page: VirtualPage) -> Result<(), SimError> {
        let space = self.system.kernel().current();
        self.system.change(|kernel| Ok(kernel.patch(space, page).ok()))?;
        Ok(())
    }

    fn share(&mut self, page: VirtualPage) -> Result<(), SimError> {
        let Some(to) = self.other_process().and_then(|process| self.space_of(process)) else {
            return Ok(());
        };
        let from = self.system.kernel().current();
        let page = page.align_down(PageSize::Size2M);
        if from != to {
            self.system.change(|kernel| Ok(kernel.share(from, page, to).ok()))?;
        }
        Ok(())
    }

    /// Runs a pass of same-page merging, short or long, with random settings.
    fn merge(&mut self) -> Result<(), SimError> {
        let pages_to_scan = [20, 200, 1500][self.random.below(3) as usize];
        let max_page_sharing = 2 + self.random.below(20);
        let config = KsmConfig {
            pages_to_scan: Count::new(pages_to_scan),
            max_page_sharing: Count::new(max_page_sharing),
        };
        self.system.change(|kernel| {
            kernel.set_ksm(config);
            Ok(kernel.ksm_pass())
        })?;
        Ok(())
    }

    /// Runs a pass of background promotion with random settings, sometimes after a region was touched
    /// page by page.
    fn promote(&mut self) -> Result<(), SimError> {
        if self.random.one_in(4) {
            self.touch_pages()?;
        }
        let limit = |random: &mut Random| [0, 100, 400, 511][random.below(4) as usize];
        let config = KhugepagedConfig {
            pages_to_scan: Count::new(512 * (1 + self.random.below(8))),
            max_ptes_none: Count::new(limit(&mut self.random)),
            max_ptes_swap: Count::new(limit(&mut self.random)),
            max_ptes_shared: Count::new(limit(&mut self.random)),
            defrag: self.random.one_in(2),
        };
        self.system.change(|kernel| {
            kernel.set_khugepaged(config);
            Ok(kernel.khugepaged_pass())
        })?;
        Ok(())
    }

    /// Touches most of a region's pages, in an order that puts each page in place in a block.
    /// Frames are allocated downwards, so the next page is the one before the place of the last
    /// frame.
    fn touch_pages(&mut self) -> Result<(), SimError> {
        let region = self.random.below(REGIONS) * 512;
        let start = VirtualAddress::new(ARENA + region * 4096);
        let advise = |advice| ProgramEvent::Advise { start, length: 2 << 20, advice };
        self.event(storm_map(region, 512, Permissions::READ_WRITE, false))?;
        self.event(advise(Advice::NoHugePage))?;
        let (mut touched, mut next) = (HoleSet::EMPTY, 0);
        for _ in 0..500 {
            while !touched.insert(next) {
                next = (next + 511) % 512;
            }
            let address = VirtualAddress::new(start.value() + next as u64 * 4096);
            if let Some(found) = forgive(self.system.translate(AccessKind::Write, address), None)? {
                next = (found.physical.value() / 4096 + 511) as usize % 512;
            }
        }
        self.event(advise(Advice::HugePage))
    }

    /// Compacts in the background, or lets a frame fail.
    fn compact_or_fail(&mut self) -> Result<(), SimError> {
        let frames = self.system.kernel().config().memory_bytes / 4096;
        let failing = Frame::new(self.random.below(frames));
        let choice = self.random.below(8);
        self.system.change(|kernel| {
            match choice {
                0 => drop(kernel.compact()),
                1 => drop(kernel.kcompactd_pass()),
                _ => drop(kernel.hard_fault(failing)),
            }
            Ok(())
        })
    }

    fn fork_or_exit(&mut self) -> Result<(), SimError> {
        if self.processes.len() < 4 {
            let child = ProcessId(self.next_process);
            self.next_process += 1;
            self.processes.push(child);
            return self.event(ProgramEvent::Fork { child });
        }
        let process = self.other_process().expect("there are four");
        self.processes.retain(|known| *known != process);
        self.event(ProgramEvent::Switch { process: ProcessId(0), thread: ThreadId(0) })?;
        self.event(ProgramEvent::Exit { process })
    }

    fn switch(&mut self) -> Result<(), SimError> {
        let process = self.processes[self.random.below(self.processes.len() as u64) as usize];
        let thread = if self.has_cores { self.random.below(5) as u16 } else { 0 };
        self.event(ProgramEvent::Switch { process, thread: ThreadId(thread) })
    }
}

/// Returns the number of cores and hardware threads. Half of the storms have four hardware threads,
/// on four cores or on two. With a planted defect, only storms whose defect needs several threads
/// have them, because TLBs used in turn hold fewer wrong entries.
fn processors(mixed: u64, defect: Option<Defect>) -> ProcessorOptions {
    let (cores, threads_per_core) = match (defect, mixed % 4) {
        (None | Some(Defect::LateShootdown), 0) => (4, 1),
        (None | Some(Defect::LateShootdown), 2) => (2, 2),
        (Some(Defect::LateShootdown), _) => (4, 1),
        _ => (1, 1),
    };
    ProcessorOptions { cores, threads_per_core, ..ProcessorOptions::default() }
}

/// Gives some page sizes a part of the second-level TLB's ways or a separate array, or leaves them
/// shared.
fn partition_l2(tlb: &mut TlbConfig, seed: u64) {
    let ways = |first, last| Ways::Range { first, last };
    let own = L2Part::Own(TlbGeometry { entries: 8, ways: 4 });
    (tlb.l2_4k, tlb.l2_2m, tlb.l2_1g) = match seed / 2 % 4 {
        0 => return,
        1 => (Ways::All, L2Part::Ways(ways(1, 6)), L2Part::Ways(ways(7, 12))),
        2 => (ways(1, 7), L2Part::Ways(ways(6, 12)), L2Part::NONE),
        _ => (ways(5, 12), own, own),
    };
}

/// Ignores errors from exhausted memory, which are part of a storm, but not errors of scripts.
pub fn forgive<T>(outcome: Result<T, SimError>, otherwise: T) -> Result<T, SimError> {
    match outcome {
        Err(error) if is_of_script(&error) => Err(error),
        Err(SimError::Os { .. } | SimError::HostOs { .. }) => Ok(otherwise),
        outcome => outcome,
    }
}

/// True if a policy's script failed.
fn is_of_script(error: &SimError) -> bool {
    match error {
        SimError::Os { source: OsError::Mechanism(error), .. }
        | SimError::HostOs { source: OsError::Mechanism(error), .. } => {
            error.downcast_ref::<ScriptError>().is_some()
        }
        _ => false,
    }
}

fn storm_map(first: u64, pages: u64, permissions: Permissions, shared: bool) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(ARENA + first * 4096),
        length: pages * 4096,
        permissions,
        accessible: true,
        backing: Backing::Anonymous,
        shared,
        populate: false,
    }
}
