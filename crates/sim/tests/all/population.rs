//! Tests of memory that is populated before it is accessed, and of direct segments of recorded
//! programs.

use perforate_os::Work;
use perforate_schemes::segment::DirectSegments;
use perforate_sim::{
    Composition, Machine, MemoryState, RunOptions, Simulation, System, SystemOptions,
};
use perforate_types::{
    AccessKind, Backing, Chunk, Counters, Instruction, Permissions, ProgramEvent, VirtualAddress,
};

const START: u64 = 0x7f00_0000_0000;
const MB: u64 = 1 << 20;

fn map(start: u64, length: u64, populate: bool) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate,
    }
}

fn memory() -> MemoryState {
    MemoryState::of(2 << 30)
}

fn system(scheme: &str) -> System {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let options = SystemOptions { check: true, implicit_maps: false, counts_only: true };
    System::new(&machine, Composition::find(scheme).unwrap(), &memory(), 1, options).unwrap()
}

/// Memory is populated in pieces of 128MB, the last one smaller. The host backs exactly this memory, so
/// that no access causes an exit.
#[test]
fn a_populated_mapping_is_there_in_guest_and_host() {
    for scheme in ["4k", "4k+4k", "thp+4k", "4k+thp", "perforated+perforated", "segment+segment"] {
        let mut system = system(scheme);
        let length = 300 * MB + 4096;
        system.event(&map(START, length, true)).unwrap();
        let mut counters = Counters::default();
        system.kernel().counters(&mut counters);
        assert_eq!(counters.get("mapped_bytes"), Some(length as f64), "{scheme}");
        system.start_measuring();
        for page in (0..length / 4096).step_by(97) {
            let address = VirtualAddress::new(START + page * 4096);
            system.translate(AccessKind::Write, address).unwrap().unwrap();
        }
        assert_eq!(system.work().pages_mapped, 0, "{scheme}");
        let Some(host) = system.host_work() else { continue };
        assert_eq!((host.work.pages_mapped, host.exits.total()), (0, 0), "{scheme}");
    }
}

/// The host's first backing of guest memory counts as such for each way of writing new memory. The
/// program's speed with the kernels' work leaves it out, as it happens once for all programs.
#[test]
fn all_work_of_the_host_for_new_memory_is_first_backing() {
    for scheme in ["4k+4k", "thp+4k", "4k+thp", "perforated+perforated", "4k+shadow-4k"] {
        for populate in [true, false] {
            let mut system = system(scheme);
            system.start_measuring();
            system.event(&map(START, 8 * MB, populate)).unwrap();
            for page in 0..8 * MB / 4096 {
                let address = VirtualAddress::new(START + page * 4096);
                system.translate(AccessKind::Write, address).unwrap().unwrap();
            }
            let host = system.host_work().unwrap();
            let zeroed = |work: &Work| (work.blocks_zeroed_2m, work.frames_zeroed_4k);
            assert_ne!(zeroed(&host.work), (0, 0), "{scheme}");
            assert_eq!(
                zeroed(&host.backing),
                zeroed(&host.work),
                "{scheme}, populated: {populate}"
            );
            // Under shadow paging, the guest's page tables cause exits too.
            if scheme != "4k+shadow-4k" {
                assert_eq!(
                    host.backing_exits,
                    host.exits.total(),
                    "{scheme}, populated: {populate}"
                );
            }
        }
    }
}

/// Pages are backed when they are mapped. The program's own request to populate them finds them there.
#[test]
fn ranges_are_backed_before_the_program_populates_them() {
    let [mapped, populated] = [false, true].map(|populate| {
        let mut system = system("range");
        system.event(&map(START, 300 * MB, populate)).unwrap();
        let mut counters = Counters::default();
        system.kernel().counters(&mut counters);
        ["ranges", "range_pages", "pages_backed_in_advance"].map(|name| counters.get(name))
    });
    assert_eq!(mapped[2], Some((300 * MB / 4096) as f64));
    assert_eq!(populated, mapped);
}

/// Without populating, each page is backed at its first access.
#[test]
fn what_is_not_populated_is_backed_on_demand() {
    let mut system = system("4k+4k");
    system.event(&map(START, 300 * MB, false)).unwrap();
    for page in 0..10 {
        let address = VirtualAddress::new(START + page * 4096);
        system.translate(AccessKind::Write, address).unwrap().unwrap();
    }
    let exits = system.host_work().unwrap().exits.total();
    assert!(exits >= 10, "{exits} exits");
}

/// There are three adjacent mappings, each populated before the next one is made. The segment
/// covers all three when the program runs, but not before.
#[test]
fn a_recorded_program_has_one_primary_region() {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let system = SystemOptions { check: true, implicit_maps: true, counts_only: true };
    let options = RunOptions { functional: true, system, warmup: 0 };
    let segment = Composition::find("segment").unwrap();
    let mut simulation = Simulation::new(&machine, segment, &memory(), 1, options).unwrap();
    let mut chunk = Chunk::default();
    for (start, length) in [(0, 64 * MB), (64 * MB, 256 * MB), (320 * MB, 64 * MB)] {
        chunk.events.push((0, map(START + start, length, true)));
    }
    simulation.run(&chunk).unwrap();
    let pages = |simulation: &Simulation| {
        let kernel = simulation.system().kernel();
        kernel.segment(kernel.current()).unwrap().pages
    };
    assert_eq!(pages(&simulation), 64 * MB / 4096);
    chunk.events.clear();
    chunk.instructions.push(Instruction::default());
    simulation.run(&chunk).unwrap();
    assert_eq!(pages(&simulation), 384 * MB / 4096);
}

/// A later area has the segment if it is larger by more than two blocks of 2MB, which rounding may explain.
#[test]
fn the_larger_area_has_the_segment() {
    for (larger, expected) in [(66, 64), (68, 64), (70, 70), (128, 128)] {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let system = SystemOptions { check: true, implicit_maps: false, counts_only: true };
        let options = RunOptions { functional: true, system, warmup: 0 };
        let segment = Composition::find("segment").unwrap();
        let mut simulation = Simulation::new(&machine, segment, &memory(), 1, options).unwrap();
        let mut chunk = Chunk::default();
        chunk.events.push((0, map(START, 64 * MB, true)));
        chunk.events.push((0, map(START + 1024 * MB, larger * MB, true)));
        chunk.instructions.push(Instruction::default());
        simulation.run(&chunk).unwrap();
        let kernel = simulation.system().kernel();
        let pages = kernel.segment(kernel.current()).unwrap().pages;
        assert_eq!(pages, expected * MB / 4096, "{larger} MB");
    }
}
