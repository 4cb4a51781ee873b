//! Shootdowns between hardware threads, worked out by hand: which threads they interrupt, which
//! thread waits, and for how long.

use perforate_os::Work;
use perforate_sim::{
    Composition, Machine, MemoryState, ProcessorOptions, RunOptions, Simulation, System,
    SystemOptions,
};
use perforate_types::{
    AccessKind, Backing, Chunk, Counters, Instruction, MemoryAccess, Permissions, ProcessId,
    ProgramEvent, ThreadId, VirtualAddress,
};

const START: u64 = 0x4000_0000;
/// Area of another process.
const APART: u64 = 0x8000_0000;
const PAGE: u64 = 4096;
const THREADS: u64 = 4;

/// A machine of 2 GHz: interrupts are delivered after 20,000 cycles, the next one 4,000 cycles
/// later, and a handler takes at least 2,000 cycles.
fn machine() -> Machine {
    let mut machine = Machine::load(Machine::DEFAULT).unwrap();
    machine.core.frequency_ghz = 2.0;
    let costs = &mut machine.operating_system;
    (costs.synchronize_ns, costs.interrupt_ns) = (9_000.0, 2_000.0);
    costs.interrupt_handler_ns = 1_000.0;
    (costs.invalidate_entry_ns, costs.flush_space_ns) = (50.0, 700.0);
    costs.vm_exit_ns = 3_000.0;
    machine
}

/// Cycles that the handler of each of these batches takes on an interrupted thread, in the machine of
/// [`machine`].
fn handler_cycles(work: &Work, is_of_host: bool) -> u64 {
    let invalidated = work.entries_invalidated * 100 + work.spaces_flushed * 1_400;
    2_000 + if is_of_host { 6_000 } else { 0 } + invalidated / work.shootdown_batches
}

fn area(start: u64, pages: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length: pages * PAGE,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: true,
    }
}

fn unmap(pages: u64) -> ProgramEvent {
    ProgramEvent::Unmap { start: VirtualAddress::new(START), length: pages * PAGE }
}

fn switch(process: u16, thread: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(thread) }
}

fn load(chunk: &mut Chunk, address: u64) {
    let (address, kind) = (VirtualAddress::new(address), AccessKind::Read);
    chunk.push(Instruction::default(), &[MemoryAccess { address, size: 8, kind }]);
}

/// A simulation of four hardware threads. The first runs now; it, the second and the third run
/// threads of one process, which has 100 pages. The fourth runs another process.
fn simulation(composition: &str) -> Simulation {
    let composition = Composition::find(composition).unwrap();
    let system = SystemOptions { check: true, implicit_maps: false, counts_only: false };
    let options = RunOptions { functional: false, system, warmup: 0 };
    let memory = MemoryState::of(1 << 30);
    let processors = ProcessorOptions { cores: THREADS, ..ProcessorOptions::default() };
    let mut simulation = Simulation::new(&machine(), composition, &memory, 1, options)
        .unwrap()
        .with_hardware_threads(&processors)
        .unwrap();
    let mut chunk = Chunk::default();
    chunk.push_event(ProgramEvent::Fork { child: ProcessId(1) });
    chunk.push_event(area(START, 100));
    for thread in [1, 2] {
        chunk.push_event(switch(0, thread));
        load(&mut chunk, START + 99 * PAGE);
    }
    chunk.push_event(switch(1, 0));
    chunk.push_event(area(APART, 1));
    load(&mut chunk, APART);
    chunk.push_event(switch(0, 0));
    load(&mut chunk, START + 99 * PAGE);
    simulation.run(&chunk).unwrap();
    simulation
}

/// Runs an event and an instruction of the first hardware thread; returns the kernel's work.
fn event(simulation: &mut Simulation, event: ProgramEvent) -> Work {
    let before = simulation.system().kernel().work();
    let mut chunk = Chunk::default();
    chunk.push_event(event);
    load(&mut chunk, START + 99 * PAGE);
    simulation.run(&chunk).unwrap();
    simulation.system().kernel().work() - before
}

/// Batches waited for, cycles of waiting, interrupts, and cycles in their handlers.
fn shootdowns(counters: &Counters) -> [u64; 4] {
    let names = [
        "shootdowns_waited_for",
        "shootdown_wait_cycles",
        "shootdown_interrupts",
        "shootdown_interrupt_cycles",
    ];
    names.map(|name| counters.get(name).unwrap() as u64)
}

#[test]
fn threads_of_the_process_are_interrupted_and_waited_for() {
    for (pages, entries, flushes) in [(0, 0, 0), (1, 1, 0), (7, 7, 0), (90, 0, 1)] {
        let mut simulation = simulation("4k");
        let expected = if pages == 0 {
            [0; 4]
        } else {
            let work = event(&mut simulation, unmap(pages));
            let counted = (work.entries_invalidated, work.spaces_flushed, work.shootdown_batches);
            assert_eq!(counted, (entries, flushes, 1));
            let handler = handler_cycles(&work, false);
            // The fourth thread runs another process.
            [1, 20_000 + 4_000 + handler, 2, 2 * handler]
        };
        assert_eq!(shootdowns(&simulation.into_counters().unwrap()), expected, "{pages} pages");
    }
}

#[test]
fn nobody_waits_for_answers_to_a_kernel_thread() {
    let mut simulation = simulation("4k");
    let before = simulation.system().kernel().work();
    let system = simulation.system_mut();
    system.change_in_background(|kernel| kernel.event(&unmap(7))).unwrap();
    let work = system.kernel().work() - before;
    let mut chunk = Chunk::default();
    load(&mut chunk, START + 99 * PAGE);
    simulation.run(&chunk).unwrap();
    let handler = handler_cycles(&work, false);
    // The program itself then unmaps the rest, and waits.
    let more = event(&mut simulation, unmap(20));
    let of_more = handler_cycles(&more, false);
    let expected = [1, 20_000 + 4_000 + of_more, 3 + 2, 3 * handler + 2 * of_more];
    assert_eq!(shootdowns(&simulation.into_counters().unwrap()), expected);
}

/// The host takes memory of the virtual machine away: every virtual processor leaves the virtual
/// machine to answer.
#[test]
fn shootdowns_of_the_host_make_all_virtual_processors_exit() {
    for is_background in [false, true] {
        let mut simulation = simulation("4k+4k");
        let space = simulation.system().kernel().current();
        let guest = simulation.system().oracle().expect("translations are checked");
        let frame = |page| guest.translate(space, VirtualAddress::new(START + page * PAGE).page());
        let frames: Vec<_> = (0..5).map(|page| frame(page).expect("populated").0).collect();
        let system = simulation.system_mut();
        let work_of_host = |system: &System| system.hypervisor().unwrap().kernel().work();
        let before = work_of_host(system);
        if is_background {
            system.change_host_in_background(|host| host.take_back(&frames)).unwrap();
        } else {
            system.change_host(|host| host.take_back(&frames)).unwrap();
        }
        let work = work_of_host(system) - before;
        let mut chunk = Chunk::default();
        load(&mut chunk, START + 99 * PAGE);
        simulation.run(&chunk).unwrap();
        let (batches, handler) = (work.shootdown_batches, handler_cycles(&work, true));
        assert!(batches > 0 && work.entries_invalidated > 0, "{work:?}");
        let expected = match is_background {
            true => [0, 0, THREADS * batches, THREADS * batches * handler],
            false => [
                batches,
                batches * (20_000 + 2 * 4_000 + handler),
                3 * batches,
                3 * batches * handler,
            ],
        };
        assert_eq!(shootdowns(&simulation.into_counters().unwrap()), expected);
    }
}
