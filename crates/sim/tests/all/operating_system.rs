//! Hand-calculated work of the operating system and its cycles, inside and outside the measured part.

use crate::runs::measuring;
use crate::storms::memory_of;
use crate::sums::checked_run;
use perforate_os::Work;
use perforate_sim::{
    Composition, Machine, MemoryState, ProcessorOptions, ResolvedRun, RunOptions, RunResult,
    Scheme, Simulation, System, SystemOptions, Workload,
};
use perforate_types::{
    AccessKind, Backing, Chunk, Instruction, MemoryAccess, Permissions, ProgramEvent,
    VirtualAddress,
};

const START: u64 = 0x1000_0000;

fn system(scheme: &str) -> System {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let memory = MemoryState::of(1 << 30);
    let options = SystemOptions { check: true, implicit_maps: false, counts_only: false };
    System::new(&machine, Scheme::find(scheme).unwrap(), &memory, 1, options).unwrap()
}

fn map(length: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    }
}

fn write(system: &mut System, offset: u64) {
    let address = VirtualAddress::new(START + offset);
    assert!(system.translate(AccessKind::Write, address).unwrap().is_some());
}

/// There are three first touches before measuring and two after it. Then all five pages are
/// unmapped.
#[test]
fn work_before_measuring_is_left_out() {
    let mut system = system("4k");
    system.event(&map(5 * 4096)).unwrap();
    for page in 0..5 {
        if page == 3 {
            system.start_measuring();
        }
        write(&mut system, page * 4096);
        write(&mut system, page * 4096 + 8); // no second fault
    }
    let start = VirtualAddress::new(START);
    system.event(&ProgramEvent::Unmap { start, length: 5 * 4096 }).unwrap();
    let work = Work {
        memory_calls: 1,
        faults_4k: 2,
        frames_zeroed_4k: 2,
        pages_mapped: 2,
        pages_unmapped: 5,
        shootdowns_page: 5,
        shootdown_batches: 1,
        entries_invalidated: 5,
        ..Work::default()
    };
    assert_eq!(system.work(), work);
    // At 2GHz, a nanosecond is two cycles.
    let costs = Machine::load(Machine::DEFAULT).unwrap().operating_system;
    let cycles = costs.cycles(&system.work(), 2.0);
    assert_eq!(cycles.faults, 2 * 2 * 2_625);
    assert_eq!(cycles.zeroing, 2 * 2 * 850);
    assert_eq!(cycles.mapping, 2 * 7 * 25);
    assert_eq!(cycles.shootdowns, 2 * 5 * 158 + 2 * 2_100 + 75);
    assert_eq!(cycles.total(), 10_500 + 3_400 + 350 + 5_855);
}

fn run(scheme: &str, warmup: u64, functional: bool) -> RunResult {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(60_000), ..Workload::named("random:size=64M") },
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list(scheme).unwrap(),
        memory: MemoryState::of(1 << 30),
        seed: 1,
        measuring: measuring(functional, false, Some(warmup)),
    };
    checked_run(&comparison).unwrap().remove(0)
}

fn counter(result: &RunResult, name: &str) -> f64 {
    result.counters.get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

/// 64MB are populated at the start: 32 large pages, one code page on its first fetch, and the
/// page-table nodes for both. All of this happens before the measured instructions, unless there is no
/// warm-up.
#[test]
fn results_contain_work_and_cycles() {
    let late = run("thp", 20_000, false);
    assert_eq!(counter(&late, "operating_system_cycles"), 0.0);
    assert_eq!(Some(counter(&late, "ipc_with_operating_system")), late.ipc);
    let whole = run("thp", 0, false);
    assert_eq!(counter(&whole, "work_blocks_zeroed_2m"), 32.0);
    assert_eq!(counter(&whole, "work_faults_4k"), 1.0);
    assert_eq!(counter(&whole, "work_frames_zeroed_4k"), 0.0, "code is read from a file");
    let nodes = counter(&whole, "page_table_bytes") / 4096.0;
    assert_eq!(counter(&whole, "work_frames_zeroed_tables"), nodes);
    let zeroing = 2.0 * (32.0 * 452_000.0 + nodes * 850.0);
    assert_eq!(counter(&whole, "operating_system_cycles_zeroing"), zeroing);
    assert_eq!(counter(&whole, "operating_system_cycles_faults"), 2.0 * 2_625.0);
    assert_eq!(counter(&whole, "operating_system_cycles_mapping"), 2.0 * 33.0 * 25.0);
    let extra = zeroing + 5_250.0 + 1_650.0;
    assert_eq!(counter(&whole, "operating_system_cycles"), extra);
    let cycles = whole.cycles.unwrap() as f64 + extra;
    assert_eq!(counter(&whole, "cycles_with_operating_system"), cycles);
    assert_eq!(counter(&whole, "ipc_with_operating_system"), 60_000.0 / cycles);
    // Memory that the program had before its first instruction is no work of its run.
    let of_run = counter(&whole, "whole_run_operating_system_cycles");
    assert!(of_run >= 5_250.0 && of_run < 5_250.0 + zeroing / 16.0, "{of_run}");
}

#[test]
fn without_a_clock_only_the_work_is_counted() {
    let result = run("4k", 0, true);
    assert_eq!(counter(&result, "work_frames_zeroed_4k"), 64.0 * 256.0);
    assert!(result.counters.get("operating_system_cycles").is_none());
    assert!(result.counters.get("ipc_with_operating_system").is_none());
}

#[test]
fn several_cores_without_a_clock_count_no_cycles() {
    let comparison = ResolvedRun {
        processors: ProcessorOptions { cores: 2, ..ProcessorOptions::default() },
        workload: Workload {
            instructions: Some(20_000),
            threads: 2,
            ..Workload::named("random:size=8M")
        },
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list("4k").unwrap(),
        memory: MemoryState::of(1 << 30),
        seed: 1,
        measuring: measuring(true, false, Some(0)),
    };
    let result = checked_run(&comparison).unwrap().remove(0);
    assert_eq!((result.cycles, result.ipc), (None, None));
}

/// Makes short timed runs of the first instructions of a workload.
fn runs(workload: &str, schemes: &str, warmup: u64) -> Vec<RunResult> {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(200_000), ..Workload::named(workload) },
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory: MemoryState::of(4 << 30),
        seed: 1,
        measuring: measuring(false, false, Some(warmup)),
    };
    checked_run(&comparison).unwrap()
}

/// Workload that unmaps, maps and fills pieces of 256KB, one after every 500 accesses.
const CHURN: &str = "churn:size=16M,piece=256K,between=500";

/// Schemes fault at different times, so the start of measuring must not decide which faults count.
#[test]
fn work_of_the_whole_run_does_not_depend_on_the_warm_up() {
    let schemes = "4k,thp,perforated-lazy,4k+4k";
    let [without, with] = [0, 150_000].map(|warmup| runs(CHURN, schemes, warmup));
    for (without, with) in without.iter().zip(&with) {
        let whole = "whole_run_operating_system_cycles";
        assert!(counter(without, whole) > 0.0, "{}", without.scheme);
        assert_eq!(counter(without, whole), counter(with, whole), "{}", without.scheme);
        let part = counter(with, "operating_system_cycles");
        assert!(part < counter(without, "operating_system_cycles"), "{}", without.scheme);
    }
}

/// The first backing by the host is work of the virtual machine. The program's work is that of its
/// kernel, as in a native run.
#[test]
fn first_backing_by_the_host_is_not_work_of_the_program() {
    let results = runs(CHURN, "4k,4k+4k", 0);
    let [native, virtualized] = &results[..] else { panic!("two schemes") };
    let whole = |result| counter(result, "whole_run_operating_system_cycles");
    assert!(whole(native) > 0.0);
    assert!(counter(virtualized, "operating_system_cycles_host") > 0.0);
    assert!(counter(virtualized, "virtual_machine_exits_nested_fault") > 0.0);
    assert_eq!(whole(virtualized), whole(native));
}

/// In a trace without map events, the first access maps each page, in the warm-up or later. The
/// kernel's work is then not attributed to the whole run.
#[test]
fn traces_without_events_of_mappings_have_no_work_of_the_whole_run() {
    let sample = "champsim:".to_owned()
        + concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/samples/champsim.xz");
    let mut comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload::named(&sample),
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list("4k").unwrap(),
        memory: MemoryState::of(1 << 30),
        seed: 1,
        measuring: measuring(false, false, Some(0)),
    };
    let found = checked_run(&comparison).unwrap().remove(0);
    assert_eq!(found.counters.get("whole_run_ipc"), None);
    assert_eq!(found.counters.get("whole_run_operating_system_cycles"), None);
    assert!(found.notes.iter().any(|note| note.starts_with("the trace has no events of mappings")));
    comparison.workload = Workload { instructions: Some(1_000), ..Workload::named(CHURN) };
    let recorded = checked_run(&comparison).unwrap().remove(0);
    assert!(recorded.counters.get("whole_run_ipc").is_some());
}

/// Same-page merging of a run is done by a thread of the kernel.
#[test]
fn merging_is_background_work() {
    let background = |every: &str| {
        let comparison = ResolvedRun {
            processors: ProcessorOptions::default(),
            workload: Workload { instructions: Some(60_000), ..Workload::named("random:size=8M") },
            machine: Machine::load(Machine::DEFAULT).unwrap(),
            schemes: Composition::list("4k").unwrap(),
            memory: memory_of(&[("memory", "256M"), ("contents", "zero=50%"), ("ksm", every)]),
            seed: 1,
            measuring: measuring(false, false, Some(0)),
        };
        let result = checked_run(&comparison).unwrap().remove(0);
        counter(&result, "operating_system_background_cycles")
    };
    assert_eq!(background("every=1M"), 0.0, "the run is shorter");
    assert!(background("every=5k,pages-to-scan=500") > 0.0);
}

/// Threads of the kernel on other processors do the same work, but the program does not wait for it: only
/// for shootdowns, which interrupt its own processor.
#[test]
fn work_of_kernel_threads_is_background_work() {
    let cycles = |in_background: bool| {
        let (machine, memory) =
            (Machine::load(Machine::DEFAULT).unwrap(), MemoryState::of(1 << 30));
        let system = SystemOptions { check: true, implicit_maps: false, counts_only: false };
        let options = RunOptions { functional: false, system, warmup: 0 };
        let scheme = Scheme::find("4k").unwrap();
        let mut simulation = Simulation::new(&machine, scheme, &memory, 1, options).unwrap();
        let mut chunk = Chunk::default();
        chunk.push_event(map(64 << 10));
        for page in 0..16 {
            let address = VirtualAddress::new(START + page * 4096);
            let access = MemoryAccess { address, size: 8, kind: AccessKind::Write };
            chunk.push(Instruction::default(), &[access]);
        }
        simulation.run(&chunk).unwrap();
        let unmap = ProgramEvent::Unmap { start: VirtualAddress::new(START), length: 28 << 10 };
        let system = simulation.system_mut();
        match in_background {
            true => system.change_in_background(|kernel| kernel.event(&unmap)).unwrap(),
            false => system.change(|kernel| kernel.event(&unmap)).unwrap(),
        }
        let counters = simulation.into_counters().unwrap();
        assert_eq!(counters.get("work_pages_unmapped"), Some(7.0));
        let of = |name| counters.get(name).unwrap() as u64;
        let (all, background) =
            (of("operating_system_cycles"), of("operating_system_background_cycles"));
        (all, background, of("operating_system_cycles_shootdowns"))
    };
    let (all, background, shootdowns) = cycles(false);
    assert_eq!(background, 0);
    let (awaited, background, same) = cycles(true);
    assert!(background > 0 && shootdowns > 0);
    assert_eq!((awaited + background, same), (all, shootdowns));
}
