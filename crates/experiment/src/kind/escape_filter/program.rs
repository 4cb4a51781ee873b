//! Runs of one program on a host with a set of faulty frames.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_os::{FaultMap, KernelConfig};
use perforate_schemes::segment::{self, DirectSegments, SegmentState};
use perforate_sim::{
    Composition, MemoryState, RunOptions, SimError, Simulation, SystemOptions, Workload,
    open_workload,
};
use perforate_types::{
    AccessKind, Backing, Chunk, Counters, Instruction, MemoryAccess, ProgramEvent, Random,
};

use super::EscapeFilter;

/// Seed of the workload and of memory, equal for all sets of faulty frames.
const SEED: u64 = 1;
/// Memory of the host in MB in addition to the guest's, for page tables and escaped pages. It is so small
/// that the guest's segment cannot avoid the faulty frames.
const HOST_EXTRA_MB: u64 = 64;

/// Instructions of a program, decoded once for all runs. They begin with accesses to every page
/// that the program accesses, and to one page of each mapped area. The paper's programs ran for
/// minutes, so first touches were negligible.
pub struct Tape {
    chunks: Vec<Chunk>,
    has_events: bool,
    /// Number of instructions of the warm-up, before measurement starts.
    warmup: u64,
}

impl Tape {
    /// Decodes the instructions of the program for a study.
    ///
    /// # Errors
    /// An unknown workload, or a damaged trace.
    pub fn read(study: &EscapeFilter) -> Result<Self, SimError> {
        let workload = Workload::named(study.workload.as_str());
        let workload = Workload { instructions: Some(study.instructions), ..workload };
        let mut source = open_workload(&workload, &study.guest, SEED)?;
        let (mut chunks, mut chunk) = (Vec::new(), Chunk::default());
        while source.next_chunk(&mut chunk)? {
            chunks.push(std::mem::take(&mut chunk));
        }
        let touches = touches(&mut chunks);
        let decoded: usize = chunks.iter().map(|chunk| chunk.instructions.len()).sum();
        let warmup = (touches.instructions.len() + decoded / 2) as u64;
        chunks.insert(0, touches);
        Ok(Self { chunks, has_events: source.metadata().has_events, warmup })
    }
}

/// Returns the system calls at the start of the program (removed from `chunks`), followed by a read of each
/// page that it accesses, and of the first page of each writable anonymous area.
fn touches(chunks: &mut [Chunk]) -> Chunk {
    let accesses = chunks.iter().flat_map(|chunk| &chunk.accesses);
    let mut pages: BTreeSet<_> = accesses.map(|access| access.address.page()).collect();
    let mut touches = Chunk::default();
    let Some(first) = chunks.first_mut() else { return touches };
    let at_start = first.events.iter().take_while(|(at, _)| *at == 0).count();
    for (_, event) in first.events.drain(..at_start) {
        if let ProgramEvent::Map { start, permissions, backing: Backing::Anonymous, .. } = event
            && permissions.write
        {
            pages.insert(start.page());
        }
        touches.push_event(event);
    }
    let Some(&instruction) = first.instructions.first() else { return touches };
    for page in pages {
        let access = MemoryAccess { address: page.address(), size: 8, kind: AccessKind::Read };
        touches.push(Instruction { ip: instruction.ip, ..Instruction::default() }, &[access]);
    }
    touches
}

/// Counters and cycles of one run of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Number of instructions in the measured half of the run.
    pub instructions: u64,
    pub cycles: u64,
    /// State of the host's segment at the end of the run.
    pub segment: SegmentState,
    /// Number of first-level TLB misses, without instruction fetches.
    pub misses: f64,
    /// Number of TLB misses that the host's segment translated; if the guest has a segment, too, that both
    /// translated. `walked` counts misses that the host's segment did not translate, because the page had
    /// escaped or was a false positive.
    pub by_segments: f64,
    pub walked: f64,
}

/// A program and the pair of schemes under which it runs.
pub struct Program<'a> {
    pub study: &'a EscapeFilter,
    pub composition: Composition,
    pub tape: &'a Tape,
}

impl Program<'_> {
    /// Returns the location of the host's segment on a host without faulty frames; `None` if the host makes
    /// no segment.
    ///
    /// # Errors
    /// Out of memory, or a disagreement with the oracle.
    pub fn place(&self) -> Result<Option<SegmentState>, SimError> {
        let mut run = self.simulation(&[], true)?;
        run.run(&self.tape.chunks[0])?;
        Ok(host_segment(&run))
    }

    /// Runs the program on a host with these faulty frames. `None` if the host has no segment at
    /// the end.
    ///
    /// # Errors
    /// Out of memory, or a disagreement with the oracle.
    pub fn run(
        &self,
        faulty: &[u64],
        progress: &mut dyn FnMut(f64),
    ) -> Result<Option<Outcome>, SimError> {
        let mut run = self.simulation(faulty, false)?;
        for (index, chunk) in self.tape.chunks.iter().enumerate() {
            run.run(chunk)?;
            progress((index + 1) as f64 / self.tape.chunks.len() as f64);
        }
        let Some(segment) = host_segment(&run) else { return Ok(None) };
        let instructions = run.instructions() - self.tape.warmup;
        let mut counters = Counters::default();
        run.system().record(instructions, &mut counters);
        let get = |name| counters.get(name).unwrap_or_default();
        let (by_segments, walked) = if segment::is_used_by(self.composition.own) {
            (get("misses_in_both_segments"), get("misses_in_guest_segment_only"))
        } else {
            let by_host = get("misses_in_host_segment_only");
            (by_host, get("walks") - by_host)
        };
        let misses = get("l1_tlb_misses");
        let cycles = run.cycles().expect("a timed run");
        Ok(Some(Outcome { instructions, cycles, segment, misses, by_segments, walked }))
    }

    fn simulation(&self, faulty: &[u64], functional: bool) -> Result<Simulation, SimError> {
        let system = SystemOptions {
            check: self.study.check,
            implicit_maps: !self.tape.has_events,
            counts_only: false,
        };
        let options = RunOptions { functional, system, warmup: self.tape.warmup };
        let memory = self.memory(faulty);
        Simulation::new(&self.study.machine, self.composition, &memory, SEED, options)
    }

    fn memory(&self, faulty: &[u64]) -> MemoryState {
        let host_bytes = self.study.guest.kernel.memory_bytes + (HOST_EXTRA_MB << 20);
        let faulty = Some(faulty.to_vec()).filter(|frames| !frames.is_empty());
        let faulty = faulty.map(FaultMap::Frames);
        let kernel = KernelConfig { faulty, ..KernelConfig::new(host_bytes) };
        let host = Some(Box::new(MemoryState { kernel, ..MemoryState::default() }));
        MemoryState { host, ..self.study.guest.clone() }
    }
}

/// Returns the frames that the host's segment covers wherever the host places it: to avoid faulty
/// frames, the host may move the segment's start by up to `HOST_EXTRA_MB` in both directions.
///
/// # Errors
/// A segment that is too small to have such frames.
pub fn frames(segment: &SegmentState) -> Result<Range<u64>, String> {
    let margin = HOST_EXTRA_MB << 20 >> 12;
    let first = segment.frame.number();
    let frames = first + margin..(first + segment.pages).saturating_sub(margin);
    if frames.is_empty() {
        let least = 2 * HOST_EXTRA_MB;
        return Err(format!("the guest has too little memory: take more than {least}M"));
    }
    Ok(frames)
}

/// Returns the current state of the host's segment, if there is one.
fn host_segment(run: &Simulation) -> Option<SegmentState> {
    let hypervisor = run.system().hypervisor().expect("the program runs in a virtual machine");
    hypervisor.kernel().segment(hypervisor.space())
}

/// Draws a set of `count` distinct frames from this seed, uniformly.
///
/// # Errors
/// Fewer frames than `count`.
pub fn faulty_frames(frames: &Range<u64>, count: usize, seed: u64) -> Result<Vec<u64>, String> {
    let all = frames.end - frames.start;
    if all < count as u64 {
        return Err(format!("{count} faulty frames cannot be among {all}"));
    }
    let mut random = Random::new((count as u64) << 32 ^ seed);
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        chosen.insert(frames.start + random.evenly(all));
    }
    Ok(chosen.into_iter().collect())
}
