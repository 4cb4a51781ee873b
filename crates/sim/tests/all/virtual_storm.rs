//! Seeded storms over pairs of schemes: events of a program and its operating system, as in the
//! native storms, and actions of a host on the virtual machine. Every translation is compared with
//! both oracles together, and the physical address of every guest table with the host's mapping.
//! The records of both kernels are recounted at intervals. Their tables are compared with the
//! oracles after every event. Planted defects are caught.
//!
//! A failure names its pair and seed. `STORM_PAIR=4k+thp STORM_SEED=n cargo test -p perforate-sim
//! --test all virtual_storm` replays it. A long storm, 10⁷ events and more over all pairs:
//! `STORM_SEEDS=10 STORM_EVENTS=12000 cargo test --release -p perforate-sim --test all virtual_storm
//! every_pair -- --nocapture`.

use crate::storms;
use crate::storms::kept;
use crate::storms::{
    CHECKED_EVERY, Coalesced, Defect, PLANTED, Replay, SegmentAction, Storm, assert_map_adds_up,
    forgive, is_caught, number, seeds,
};
use perforate_config::{Count, read};
use perforate_mmu::Host;
use perforate_os::{
    HoleContent, Hypervisor, KhugepagedConfig, KsmConfig, OsError, SelfBalloonConfig,
};
use perforate_sim::{Composition, SimError};
use perforate_types::{
    AccessKind, Advice, Frame, GuestFrame, Permissions, ProcessId, ProgramEvent, VirtualAddress,
    VirtualPage,
};

/// Default number of events of a storm; `STORM_EVENTS` overrides it.
const EVENTS: u64 = 200;
/// Default number of events of a long storm.
const LONG_EVENTS: u64 = 2_000;
/// Default number of storms of each pair; `STORM_SEEDS` overrides it.
const SEEDS: u64 = 1;
/// Average number of events per action of the host.
const HOST_EVENTS: u64 = 12;
/// Process of the host with a copy of the virtual machine's memory.
const SNAPSHOT: ProcessId = ProcessId(1);

/// Numbers of holes that the host made in and removed from the guest's memory.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    punched: u64,
    patched: u64,
}

/// A storm of events in the guest, with actions of its host.
struct VirtualStorm {
    guest: Storm,
    weights: [u64; 11],
    has_segments: bool,
    done: Done,
    /// Pages that were punched and not patched since.
    holes: Vec<VirtualPage>,
}

impl VirtualStorm {
    fn new(pair: Composition, mut guest: Storm) -> Self {
        let weights = std::array::from_fn(|_| guest.random.below(4));
        let contents = format!("zero=2%,duplicate={}%,distinct=40", guest.random.below(60).max(1));
        let contents = read(&contents).expect("valid");
        let has_segments = pair.host.is_some_and(storms::has_segments);
        let (done, holes) = (Done::default(), Vec::new());
        let mut storm = Self { guest, weights, has_segments, done, holes };
        storm.host(|host| host.kernel_mut().set_content_distribution(contents)).unwrap();
        storm
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.guest.random.below(limit)
    }

    /// Lets the host change the virtual machine; running out of memory is no error.
    fn host(
        &mut self,
        act: impl FnOnce(&mut Hypervisor) -> Result<(), OsError>,
    ) -> Result<(), SimError> {
        forgive(self.guest.system.change_host(act), ())
    }

    fn hypervisor(&self) -> &Hypervisor {
        self.guest.system.hypervisor().expect("the system is virtualized")
    }

    fn host_event(&mut self, event: ProgramEvent) -> Result<(), SimError> {
        self.host(|host| {
            let space = host.space();
            host.kernel_mut().event_in(space, &event)
        })
    }

    fn guest_frames(&self) -> u64 {
        self.guest.system.kernel().end_frame().number()
    }

    /// Returns a random page of the guest's memory, and its frame. Tries several pages to find one
    /// that is backed.
    fn page(&mut self) -> (GuestFrame, Option<Frame>) {
        let frames = self.guest_frames();
        let mut page = GuestFrame::new(self.below(frames));
        for _ in 0..64 {
            let host: &Host = self.guest.system.mmu().dimension().host().expect("virtualized");
            if let Some(found) = host.look_at(page) {
                return (page, Some(found.frame_of(VirtualPage::new(page.number()))));
            }
            page = GuestFrame::new(self.below(frames));
        }
        (page, None)
    }

    /// Returns a random range of the guest's memory, as start and length in bytes.
    fn range(&mut self) -> (VirtualAddress, u64) {
        let (page, _) = self.page();
        let (first, pages) = match self.below(4) {
            0 => (page.number() / 512 * 512, 512),
            1 => (page.number(), 1 + self.below(700)),
            _ => (page.number(), 1 + self.below(4)),
        };
        let pages = pages.min(self.guest_frames() - first);
        (VirtualAddress::new(first * 4096), pages * 4096)
    }

    fn step(&mut self) -> Result<(), SimError> {
        if self.has_segments && self.guest.random.one_in(60) {
            self.segment()?;
            self.guest.check_some_tables();
            return Ok(());
        }
        let total: u64 = self.weights.iter().sum();
        if total == 0 || !self.guest.random.one_in(HOST_EVENTS) {
            return self.guest.step();
        }
        let mut choice = self.below(total);
        let mut kind = 0;
        while choice >= self.weights[kind] {
            choice -= self.weights[kind];
            kind += 1;
        }
        match kind {
            0 | 1 => self.compact_or_fail(),
            2 => self.promote(),
            3 => self.merge(),
            4 => self.inflate(),
            5 => self.deflate(),
            6 => self.protect(),
            7 => self.advise(),
            8 => self.snapshot(),
            9 => self.punch(),
            _ => self.patch(),
        }?;
        self.guest.check_some_tables();
        Ok(())
    }

    fn compact_or_fail(&mut self) -> Result<(), SimError> {
        let frames = self.hypervisor().kernel().config().memory_bytes / 4096;
        let anywhere = Frame::new(self.below(frames));
        let failing = self.page().1.unwrap_or(anywhere);
        let choice = self.below(6);
        self.host(|host| {
            match choice {
                0 => drop(host.kernel_mut().compact()),
                1 => drop(host.kernel_mut().kcompactd_pass()),
                2 => drop(host.kernel_mut().hard_fault(anywhere)),
                _ => drop(host.kernel_mut().hard_fault(failing)),
            }
            Ok(())
        })
    }

    fn promote(&mut self) -> Result<(), SimError> {
        let limit = [0, 100, 400, 511][self.below(4) as usize];
        let config = KhugepagedConfig {
            pages_to_scan: Count::new(512 * (1 + self.below(16))),
            max_ptes_none: Count::new(limit),
            max_ptes_swap: Count::new([0, 511][self.below(2) as usize]),
            max_ptes_shared: Count::new([0, 511][self.below(2) as usize]),
            defrag: self.guest.random.one_in(2),
        };
        self.host(|host| {
            host.kernel_mut().set_khugepaged(config);
            host.kernel_mut().khugepaged_pass();
            Ok(())
        })
    }

    fn merge(&mut self) -> Result<(), SimError> {
        let pages_to_scan = [20, 200, 3000][self.below(3) as usize];
        let config = KsmConfig {
            pages_to_scan: Count::new(pages_to_scan),
            max_page_sharing: Count::new(2 + self.below(20)),
        };
        self.host(|host| {
            host.kernel_mut().set_ksm(config);
            host.kernel_mut().ksm_pass();
            Ok(())
        })
    }

    /// Lets the guest give memory to its host, and sometimes hot-add as much.
    fn inflate(&mut self) -> Result<(), SimError> {
        let frames = [1, 20, 600][self.below(3) as usize];
        let adds = self.guest.random.one_in(3);
        let given = self.guest.system.change(|kernel| {
            if adds && frames == 20 {
                kernel.self_balloon_blocks(SelfBalloonConfig { blocks: Count::new(3) })
            } else if adds {
                kernel.self_balloon(frames)
            } else {
                Ok(kernel.inflate_balloon(frames))
            }
        });
        let given = forgive(given, Vec::new())?;
        self.host(|host| host.take_back(&given))
    }

    /// Lets the guest take memory back, which the host has not backed yet.
    fn deflate(&mut self) -> Result<(), SimError> {
        let frames = 1 + self.below(1000);
        self.guest.system.change(|kernel| {
            kernel.deflate_balloon(frames);
            Ok(())
        })
    }

    /// Changes the permissions of the virtual machine's memory, or restores all permissions.
    fn protect(&mut self) -> Result<(), SimError> {
        if self.guest.random.one_in(3) {
            return self.allow_all();
        }
        let (start, length) = self.range();
        let permissions = [Permissions::READ, Permissions::READ_WRITE, Permissions::READ_EXECUTE];
        let permissions = permissions[self.below(3) as usize];
        let accessible = !self.guest.random.one_in(8);
        self.host_event(ProgramEvent::Protect { start, length, permissions, accessible })
    }

    fn allow_all(&mut self) -> Result<(), SimError> {
        self.host_event(ProgramEvent::Protect {
            start: VirtualAddress::new(0),
            length: self.guest.system.kernel().end_frame().number() * 4096,
            permissions: Permissions::ALL,
            accessible: true,
        })
    }

    fn advise(&mut self) -> Result<(), SimError> {
        let (start, length) = self.range();
        let advice = [
            Advice::DontNeed,
            Advice::Free,
            Advice::NoHugePage,
            Advice::HugePage,
            Advice::POPULATE_WRITE,
        ][self.below(5) as usize];
        self.host_event(ProgramEvent::Advise { start, length, advice })
    }

    /// Makes a copy of the virtual machine's memory, writes to it, or drops it.
    fn snapshot(&mut self) -> Result<(), SimError> {
        let copy = self.hypervisor().kernel().processes().find(|&(id, _)| id == SNAPSHOT);
        let Some((_, copy)) = copy else {
            return self.host_event(ProgramEvent::Fork { child: SNAPSHOT });
        };
        if self.guest.random.one_in(4) {
            return self.host_event(ProgramEvent::Exit { process: SNAPSHOT });
        }
        let pages: Vec<_> = (0..20).map(|_| VirtualPage::new(self.page().0.number())).collect();
        self.host(|host| {
            for page in pages {
                host.kernel_mut().fault(copy, page, AccessKind::Write)?;
            }
            Ok(())
        })
    }

    fn punch(&mut self) -> Result<(), SimError> {
        let page = VirtualPage::new(self.page().0.number());
        let hole = [
            HoleContent::Unallocated,
            HoleContent::Moved,
            HoleContent::Permissions(Permissions::READ),
            HoleContent::Permissions(Permissions::ALL),
        ][self.below(4) as usize];
        let mut is_done = false;
        self.host(|host| {
            let space = host.space();
            // A page that cannot be punched stays as it is.
            is_done = host.kernel_mut().punch(space, page, hole).is_ok();
            Ok(())
        })?;
        if is_done {
            self.done.punched += 1;
            self.holes.push(page);
        }
        Ok(())
    }

    /// Patches a page that was punched, or any other page.
    fn patch(&mut self) -> Result<(), SimError> {
        let any = VirtualPage::new(self.page().0.number());
        let page = self.holes.pop().unwrap_or(any);
        let mut is_done = false;
        self.host(|host| {
            let space = host.space();
            is_done = host.kernel_mut().patch(space, page).is_ok();
            Ok(())
        })?;
        self.done.patched += u64::from(is_done);
        Ok(())
    }

    /// Creates or removes the segment of the virtual machine, or lets a page escape.
    fn segment(&mut self) -> Result<(), SimError> {
        let page = VirtualPage::new(self.page().0.number());
        let action = SegmentAction::draw(&mut self.guest.random, page);
        self.host(|host| {
            let space = host.space();
            action.act(host.kernel_mut(), space);
            Ok(())
        })
    }

    fn check(&self) {
        let system = &self.guest.system;
        for (whose, kernel) in [("guest", system.kernel()), ("host", self.hypervisor().kernel())] {
            kernel.check_invariants().unwrap_or_else(|wrong| panic!("{whose}: {wrong}"));
        }
        self.guest.check_all_tables();
    }
}

fn run(
    pair: Composition,
    seed: u64,
    events: u64,
    defect: Option<Defect>,
) -> Result<(Done, String), SimError> {
    run_storm(pair, Storm::new(pair, seed, defect), seed, events)
}

fn run_storm(
    pair: Composition,
    guest: Storm,
    seed: u64,
    events: u64,
) -> Result<(Done, String), SimError> {
    let _replay = Replay { scheme: pair.name(), seed };
    let mut storm = VirtualStorm::new(pair, guest);
    for event in 0..number("STORM_EVENTS", events) {
        storm.guest.system.at_instruction(event);
        storm.step()?;
        if event % CHECKED_EVERY == 0 {
            storm.check();
        }
    }
    storm.guest.check_all_tables();
    assert_map_adds_up(storm.guest.system.kernel(), seed);
    assert_map_adds_up(storm.hypervisor().kernel(), seed);
    Ok((storm.done, kept::line(&pair.name(), seed, &storm.guest.system)))
}

/// Returns all pairs, or the pair named by `STORM_PAIR`.
fn pairs() -> Vec<Composition> {
    match std::env::var("STORM_PAIR") {
        Ok(name) => vec![Composition::find(&name).unwrap()],
        Err(_) => Composition::pairs("all", "all").unwrap().0,
    }
}

#[test]
fn every_pair_agrees_with_the_oracles() {
    let mut pairs = pairs();
    if pairs.len() > 1 {
        pairs.retain(|pair| !pair.name().split('+').any(is_like_another));
    }
    kept::compare("pairs", &check_every_pair(&pairs, EVENTS));
}

/// True for schemes that differ from another one in a number only: sizes of folios, pages in an entry, sizes of
/// superpages. Long storms have them all, and so have native ones.
fn is_like_another(scheme: &str) -> bool {
    (scheme.starts_with("mthp-") && scheme != "mthp-64k")
        || ["4k-colt-4", "4k-colt-32", "gt-pde-1m", "p-gt-pde-4m"].contains(&scheme)
}

#[test]
#[ignore = "long storms, minutes even with --release"]
fn every_pair_agrees_with_the_oracles_in_long_storms() {
    check_every_pair(&pairs(), LONG_EVENTS);
}

fn check_every_pair(pairs: &[Composition], of_storm: u64) -> String {
    let (seeds, mut lines) = (seeds(SEEDS), String::new());
    let (mut events, mut all) = (0, Done::default());
    // Memory and machine depend on the seed. Each pair has different seeds, unless one seed is
    // requested.
    let is_asked = std::env::var("STORM_SEED").is_ok();
    for (index, &pair) in pairs.iter().enumerate() {
        for &seed in &seeds {
            let other = seed * pairs.len() as u64 + index as u64;
            let seed = if is_asked { seed } else { other };
            let (done, line) = run(pair, seed, of_storm, None)
                .unwrap_or_else(|error| panic!("{}, STORM_SEED={seed}: {error}", pair.name()));
            lines += &line;
            all.punched += done.punched;
            all.patched += done.patched;
            events += number("STORM_EVENTS", of_storm);
        }
    }
    // Most hosts have no holes, but some must, or holes would be untested.
    let is_one = pairs.len() == 1;
    assert!(is_one || all.punched > 0 && all.patched > 0, "{all:?}");
    eprintln!("{all:?}; {events} events, {} storms of each of {} pairs", seeds.len(), pairs.len());
    lines
}

/// Storms on machines with each kind of hardware for contiguous pages.
#[test]
fn folios_agree_with_the_oracles_on_all_hardware() {
    let pairs = "mthp-64k+4k,thp+mthp-64k,mthp-16k+mthp-64k,mthp-1m+thp,mthp-64k+mthp-64k,\
                 4k+1g,mthp-64k+perforated,mthp-64k+shadow-thp,segment+mthp-64k,mthp-64k+flat-thp";
    for (index, pair) in Composition::list(pairs).unwrap().into_iter().enumerate() {
        for (kind, coalesced) in Coalesced::ALL.into_iter().enumerate() {
            for seed in seeds(1) {
                let seed = seed + 5 * index as u64 + kind as u64;
                let storm = Storm::coalesced(pair, seed, coalesced);
                run_storm(pair, storm, seed, LONG_EVENTS / 4).unwrap_or_else(|error| {
                    panic!("{} with {coalesced:?}, STORM_SEED={seed}: {error}", pair.name())
                });
            }
        }
    }
}

#[test]
fn planted_defects_are_caught() {
    for &(defect, pairs) in PLANTED {
        for pair in pairs.iter().filter(|name| name.contains('+')) {
            let found = Composition::find(pair).unwrap();
            let storm = |seed| run(found, seed, LONG_EVENTS, Some(defect));
            assert!(is_caught(defect, pair, 120, storm), "{defect:?} in {pair}");
        }
    }
}
