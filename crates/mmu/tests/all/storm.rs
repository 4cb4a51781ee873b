//! Random tests of ordinary page tables with pages of all three sizes, natively and over a host,
//! with random geometries of TLBs and walk caches. After every access and every change, their
//! contents are compared with the reference model. Guest and host mappings change between any two
//! accesses.
//!
//! `STORM_SEED=n` repeats one random test.

use std::fmt::Write;

use perforate_kept::{self as kept, TextHash};
use perforate_mmu::{
    Attempt, Dimension, Host, L2Part, Mmu, MmuConfig, Nested, PageFault, Radix, TlbGeometry,
    WalkCacheConfig, Ways,
};
use perforate_reference::{Reference, Setup, Side};
use perforate_types::{
    AccessKind, Frame, Level, PageRun, PageSize, Permissions, Shootdown, SpaceId, Steps,
    TableOperation, Truth, Update, VirtualPage,
};

/// Number of random tests natively, and as many virtualized. The next constant is the number of
/// steps in each.
const STORMS: u64 = 60;
const STEPS: u64 = 1500;
/// Number of address spaces of the tested programs.
const SPACES: u16 = 3;
/// Address space of the virtual machine in its host.
const MACHINE: SpaceId = SpaceId(7);
/// Gigabytes used of each address space, and of the guest's memory.
const GIGABYTES: u64 = 4;
const PAGES_1G: u64 = 1 << 18;

/// Pseudo-random choices.
struct Random(perforate_types::Random);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next() % limit
    }

    fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A page from a small set that spans all gigabytes, so that tests reuse pages.
    fn page(&mut self) -> VirtualPage {
        let region = self.below(3);
        let small = self.one_of(&[0, 1, 63, 64, 511]);
        VirtualPage::new(self.below(GIGABYTES) * PAGES_1G + region * 512 + small)
    }
}

/// A minimal operating system: leaves and table nodes of one address space.
#[derive(Default)]
struct Tables {
    leaves: Vec<(VirtualPage, PageSize)>,
    nodes: Vec<(Level, VirtualPage)>,
}

fn level_of(size: PageSize) -> Level {
    match size {
        PageSize::Size4K => 1,
        PageSize::Size2M => 2,
        PageSize::Size1G => 3,
    }
}

/// First page covered by the node of `level` around `page`.
fn node_around(page: VirtualPage, level: Level) -> VirtualPage {
    VirtualPage::new(page.number() >> (9 * level) << (9 * level))
}

struct Storm {
    random: Random,
    mmu: Mmu,
    reference: Reference,
    own: Vec<Tables>,
    host: Option<Tables>,
    /// Last frame number allocated to a page-table node, in the programs' and the host's tables.
    allocated: [u64; 2],
    cores: usize,
    found: u64,
    /// Hash of all attempts to translate, with their steps.
    history: TextHash,
}

fn geometry(random: &mut Random) -> TlbGeometry {
    let (ways, sets) = (random.one_of(&[1, 2, 3, 4, 6]), random.one_of(&[1, 2, 4]));
    TlbGeometry { entries: ways * sets, ways }
}

fn walk_caches(random: &mut Random) -> WalkCacheConfig {
    let mut caches = WalkCacheConfig::fully_associative(0, 0, 0);
    caches.level4_entries = random.below(3) as usize;
    caches.level3_entries = random.below(4) as usize;
    caches.level2_entries = random.one_of(&[0, 1, 4, 8]);
    if caches.level2_entries == 8 {
        caches.level2_ways = Some(2);
    }
    caches
}

fn config(random: &mut Random) -> MmuConfig {
    let mut config = MmuConfig::plain(geometry(random), TlbGeometry { entries: 16, ways: 4 });
    let tlb = &mut config.tlb;
    tlb.tagged = !random.one_in(3);
    tlb.l1_data_2m = Some(geometry(random)).filter(|_| !random.one_in(3));
    tlb.l1_data_1g = Some(geometry(random)).filter(|_| !random.one_in(3));
    tlb.l1_instruction_2m = Some(geometry(random)).filter(|_| !random.one_in(3));
    let range = |first, last| L2Part::Ways(Ways::Range { first, last });
    tlb.l2_2m = random.one_of(&[L2Part::ALL, range(1, 2), L2Part::NONE]);
    tlb.l2_1g = random.one_of(&[L2Part::ALL, range(3, 4), L2Part::NONE]);
    if random.one_in(3) {
        tlb.l2_2m = L2Part::Own(geometry(random));
    }
    if random.one_in(3) {
        tlb.l2_1g = L2Part::Own(geometry(random));
    }
    config.walk_cache = walk_caches(random);
    config.virtualization.host_walk_cache = Some(walk_caches(random));
    let (none, some) = (TlbGeometry { entries: 0, ways: 1 }, geometry(random));
    config.virtualization.nested_tlb = random.one_of(&[None, Some(none), Some(some)]);
    config.virtualization.intermediate_entries = random.one_in(2) && tlb_holds_large(&config);
    config
}

fn tlb_holds_large(config: &MmuConfig) -> bool {
    config.tlb.l2_2m != L2Part::NONE
}

impl Storm {
    fn new(seed: u64, is_virtual: bool) -> Self {
        let mut random = Random(perforate_types::Random::new(seed));
        let config = config(&mut random);
        let own = Box::new(Radix::new());
        let dimension: Box<dyn Dimension> = if is_virtual {
            let host = Host::new(&config, Box::new(Radix::new()), MACHINE);
            Box::new(Nested::new(own, host))
        } else {
            own
        };
        let mut mmu = Mmu::new(&config, dimension).unwrap();
        let cores = random.one_of(&[1, 2]);
        mmu.set_cores(cores);
        let setup = Setup { config, shares_cores: false, is_shadowed: false };
        let own = (0..SPACES).map(|_| Tables::default()).collect();
        let host = is_virtual.then(Tables::default);
        let reference = Reference::new(setup);
        Self {
            random,
            mmu,
            reference,
            own,
            host,
            allocated: [1 << 19, 1 << 30],
            cores,
            found: 0,
            history: TextHash::default(),
        }
    }

    fn apply(&mut self, side: Side, update: impl Into<Update>) {
        let update = update.into();
        match side {
            Side::Host => self.mmu.apply_host(&update),
            _ => self.mmu.apply(&update),
        }
        self.reference.update(side, &update, &self.mmu);
    }

    fn tables(&mut self, space: SpaceId) -> &mut Tables {
        if space == MACHINE {
            return self.host.as_mut().expect("there is a host");
        }
        &mut self.own[usize::from(space.0)]
    }

    /// Adds the missing nodes down to `level`, for a leaf of that level.
    fn add_nodes(&mut self, side: Side, space: SpaceId, page: VirtualPage, level: Level) {
        for level in (level..=4).rev() {
            let page = node_around(page, level);
            if !self.tables(space).nodes.contains(&(level, page)) {
                self.tables(space).nodes.push((level, page));
                let allocated = &mut self.allocated[usize::from(side == Side::Host)];
                *allocated += 1;
                let frame = Frame::new(*allocated);
                self.apply(side, TableOperation::AddNode { space, level, page, frame, branch: 0 });
            }
        }
    }

    /// Unmaps the pages that overlap a page of `size`, and removes the nodes below its level.
    fn clear(&mut self, side: Side, space: SpaceId, page: VirtualPage, size: PageSize) {
        let (first, end) = (page.number(), page.number() + size.pages());
        let overlaps = |&(leaf, of): &(VirtualPage, PageSize)| {
            leaf.number() < end && first < leaf.number() + of.pages()
        };
        let leaves: Vec<_> = self.tables(space).leaves.iter().copied().filter(overlaps).collect();
        for (page, size) in leaves {
            self.unmap(side, space, page, size);
        }
        let is_inside = |&(level, node): &(Level, VirtualPage)| {
            level < level_of(size) && (first..end).contains(&node.number())
        };
        let mut inside: Vec<_> =
            self.tables(space).nodes.iter().copied().filter(is_inside).collect();
        inside.sort_unstable();
        for (level, page) in inside {
            self.tables(space).nodes.retain(|&node| node != (level, page));
            self.apply(side, TableOperation::RemoveNode { space, level, page, branch: 0 });
            self.apply(side, Shootdown::Page { space, page });
        }
    }

    fn unmap(&mut self, side: Side, space: SpaceId, page: VirtualPage, size: PageSize) {
        self.tables(space).leaves.retain(|&leaf| leaf != (page, size));
        self.apply(side, Truth::Unmap { run: PageRun::new(space, page, size.pages()) });
        self.apply(side, TableOperation::Unmap { space, page, size });
        self.shoot_down(side, space, page, size);
    }

    fn shoot_down(&mut self, side: Side, space: SpaceId, page: VirtualPage, size: PageSize) {
        let shootdown = match size {
            _ if self.random.one_in(8) => Shootdown::Space { space },
            PageSize::Size4K => Shootdown::Page { space, page },
            _ => Shootdown::Large { space, page, size },
        };
        self.apply(side, shootdown);
    }

    fn map(&mut self, side: Side, space: SpaceId, page: VirtualPage, size: PageSize) {
        let page = page.align_down(size);
        self.clear(side, space, page, size);
        self.add_nodes(side, space, page, level_of(size));
        let frame = match side {
            Side::Host => self.random.below(1 << 22),
            // A guest frame must be inside the guest's memory.
            _ => self.random.page().number(),
        };
        let frame = Frame::new(frame).align_down(size);
        let all = [Permissions::ALL, Permissions::READ_WRITE, Permissions::READ];
        let permissions =
            if side == Side::Host { Permissions::ALL } else { self.random.one_of(&all) };
        let run = PageRun::new(space, page, size.pages());
        self.tables(space).leaves.push((page, size));
        self.apply(side, Truth::Map { run, frame, permissions });
        self.apply(side, TableOperation::Map { space, page, size, frame, permissions });
    }

    fn protect(&mut self, side: Side, space: SpaceId, page: VirtualPage, size: PageSize) {
        let permissions = self.random.one_of(&[Permissions::READ, Permissions::ALL]);
        let run = PageRun::new(space, page, size.pages());
        self.apply(side, Truth::Protect { run, permissions });
        self.apply(side, TableOperation::Protect { space, page, size, permissions });
        self.shoot_down(side, space, page, size);
    }

    fn size(&mut self) -> PageSize {
        self.random.one_of(&[PageSize::Size4K, PageSize::Size2M, PageSize::Size1G])
    }

    /// Makes a random change to the mappings of the operating system or of the host.
    fn change(&mut self) {
        let is_host = self.host.is_some() && self.random.one_in(2);
        let side = if is_host { Side::Host } else { Side::Own };
        let space =
            if is_host { MACHINE } else { SpaceId(self.random.below(SPACES.into()) as u16) };
        let leaves = &self.tables(space).leaves;
        let count = leaves.len() as u64;
        let leaf = if count == 0 { None } else { Some(self.random.below(count) as usize) };
        let leaf = leaf.map(|place| self.tables(space).leaves[place]);
        let choice = self.random.below(6);
        match leaf {
            Some((page, size)) if choice == 0 => self.unmap(side, space, page, size),
            Some((page, size)) if choice == 1 => self.protect(side, space, page, size),
            _ if choice == 2 && !is_host => {
                self.clear(side, space, VirtualPage::new(0), PageSize::Size1G);
            }
            _ => {
                let (page, size) = (self.random.page(), self.size());
                self.map(side, space, page, size);
            }
        }
    }

    fn access(&mut self) {
        let kinds = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch];
        let (kind, page) = (self.random.one_of(&kinds), self.random.page());
        let address = page.address().add(self.random.below(4096));
        let mut steps = Steps::new();
        for _ in 0..40 {
            let result = self.mmu.translate(kind, address, &mut steps);
            let attempt = Attempt { kind, address, result: &result, steps: &steps };
            self.reference.translated(&attempt, &self.mmu);
            write!(self.history, "{result:?}{steps:?}").expect("a hash takes all");
            let Err(PageFault::Host(fault)) = result else {
                self.found += u64::from(result.is_ok());
                return;
            };
            let size = self.size();
            self.map(Side::Host, MACHINE, VirtualPage::new(fault.page.number()), size);
        }
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..=3 => self.change(),
            4 => {
                let space = SpaceId(self.random.below(SPACES.into()) as u16);
                self.mmu.switch(space);
            }
            5 => {
                let core = self.random.below(self.cores as u64) as usize;
                self.mmu.run_on(core);
            }
            _ => return self.access(),
        }
        self.reference.at_rest(&self.mmu);
    }
}

/// Runs all random tests, compares a hash of the steps and counters of each with a file, and returns the
/// number of successful translations.
fn run_storms(is_virtual: bool) -> u64 {
    let mut lines = String::new();
    let asked = std::env::var("STORM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = asked.map_or(0..STORMS, |seed: u64| seed..seed + 1);
    let of_seed = |seed| {
        let mut storm = Storm::new(seed, is_virtual);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..STEPS).for_each(|_| storm.step());
        }));
        assert!(failed.is_ok(), "STORM_SEED={seed}");
        write!(storm.history, "{:?}", storm.mmu.counters()).expect("a hash takes all");
        writeln!(lines, "{seed} {} {}", storm.found, storm.history).expect("a string takes all");
        storm.found
    };
    let found = seeds.map(of_seed).sum();
    if asked.is_none() {
        let name = if is_virtual { "virtual" } else { "native" };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all");
        kept::compare(format!("{folder}/kept-{name}.txt"), &lines);
    }
    found
}

#[test]
fn pages_of_all_sizes_agree_with_the_reference() {
    assert!(run_storms(false) > STORMS * STEPS / 20, "most accesses should find something");
}

#[test]
fn pages_of_guest_and_host_agree_with_the_reference() {
    assert!(run_storms(true) > STORMS * STEPS / 20, "most accesses should find something");
}
