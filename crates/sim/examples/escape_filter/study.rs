//! One program over one set of faulty frames, and many of them at once.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use perforate_os::{FaultMap, SegmentState};
use perforate_sim::{
    Composition, Machine, MemoryState, Past, RunOptions, Scheme, SimError, Simulation,
    SystemOptions, Workload, open_workload,
};
use perforate_types::{
    AccessKind, Backing, Chunk, Counters, Instruction, MemoryAccess, ProgramEvent,
};

use crate::case_study::Random;

/// Seed of workloads and memory; sets of faulty frames have seeds of their own.
const SEED: u64 = 1;
/// What the host has besides the guest's memory, for its tables and for pages that escaped. So
/// little that the guest's segment fits only where faulty frames are.
const HOST_EXTRA_MB: u64 = 64;

/// A program in a virtual machine.
pub struct Subject {
    /// In the table.
    pub name: &'static str,
    /// A workload, or the name of a bundled trace.
    pub workload: &'static str,
    /// The guest's policy with options; its scheme is the one of that name.
    pub guest: &'static str,
    /// Memory of the guest.
    pub memory_mb: u64,
    /// Greatest overhead in the paper, in percent.
    pub paper_percent: Option<f64>,
}

impl Subject {
    /// The guest's scheme over direct segments.
    pub fn composition(&self) -> Result<Composition, SimError> {
        let host = Some(Scheme::find("segment")?);
        let name = self.guest.split(':').next().unwrap_or_default();
        let own = Scheme::find(name)?;
        if !self.guest.contains(':') {
            return Ok(Composition { own, host });
        }
        // A program tells its primary region (D §II.B), a trace does not: the size does.
        let own: &'static Scheme = Box::leak(Box::new(Scheme { policy: self.guest, ..*own }));
        Ok(Composition { own, host })
    }

    fn memory(&self, faulty: Option<Vec<u64>>) -> Result<MemoryState, SimError> {
        let size = |megabytes: u64| format!("{megabytes}M");
        let host_memory = size(self.memory_mb + HOST_EXTRA_MB);
        let host = MemoryState::parse(Some(&host_memory), None, None)?;
        let faulty = faulty.map(FaultMap::Frames);
        let host = host.with_past(Past { faulty, ..Past::default() })?;
        let guest = MemoryState::parse(Some(&size(self.memory_mb)), None, None)?;
        Ok(MemoryState { host: Some(Box::new(host)), ..guest })
    }
}

/// The instructions of a program, decoded once for all runs. Before them every page is touched that
/// they touch, and one of each area that was mapped: the paper's programs ran for minutes, so that
/// next to no page was touched the first time.
pub struct Tape {
    chunks: Vec<Chunk>,
    has_events: bool,
    /// Before measuring starts.
    warmup: u64,
}

impl Tape {
    /// Reads the program's first instructions.
    ///
    /// # Errors
    /// No such workload, or a trace that is damaged.
    pub fn read(subject: &Subject, instructions: u64) -> Result<Self, SimError> {
        let name = match subject.workload.strip_suffix(".trace") {
            Some(_) => {
                let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
                format!("{folder}/{}", subject.workload)
            }
            None => subject.workload.into(),
        };
        let workload = Workload { name, skip: 0, instructions: Some(instructions) };
        let mut source = open_workload(&workload, &subject.memory(None)?, SEED)?;
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

/// What the program finds mapped, and a read of each page.
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

/// What one run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Cycles of the measured half.
    pub cycles: u64,
    /// The host's segment at the end.
    pub segment: SegmentState,
    /// First-level TLB misses, instruction fetches not counted.
    pub misses: f64,
    /// Pages that were in no TLB and that the segments of the mode translated, and those of which
    /// the host's segment alone did not.
    pub by_segments: f64,
    pub escaped: f64,
}

/// Everything that the runs of a program have in common.
pub struct Study<'a> {
    pub machine: &'a Machine,
    pub subject: &'a Subject,
    pub composition: Composition,
    pub tape: &'a Tape,
    pub check: bool,
}

impl Study<'_> {
    /// Runs the program over a host with these faulty frames; `None` if the host has no segment at
    /// the end.
    ///
    /// # Errors
    /// Out of memory, or a disagreement with the oracle.
    pub fn run(&self, faulty: Option<&[u64]>) -> Result<Option<Outcome>, SimError> {
        let options = RunOptions {
            functional: false,
            system: SystemOptions {
                check: self.check,
                implicit_maps: !self.tape.has_events,
                counts_only: false,
            },
            warmup: self.tape.warmup,
        };
        let memory = self.subject.memory(faulty.map(<[u64]>::to_vec))?;
        let mut run = Simulation::new(self.machine, self.composition, &memory, SEED, options)?;
        for chunk in &self.tape.chunks {
            run.run(chunk)?;
        }
        let system = run.system();
        let hypervisor = system.hypervisor().expect("the program runs in a virtual machine");
        let Some(segment) = hypervisor.kernel().segment(hypervisor.space()) else {
            return Ok(None);
        };
        let mut counters = Counters::default();
        system.record(run.instructions() - options.warmup, &mut counters);
        let get = |name| counters.get(name).unwrap_or_default();
        let (by_segments, escaped) = match self.composition.own.name {
            "segment" => (get("misses_in_both_segments"), get("misses_in_guest_segment_only")),
            _ => {
                let by_host = get("misses_in_host_segment_only");
                (by_host, get("walks") - by_host)
            }
        };
        let misses = get("l1_tlb_misses");
        let cycles = run.cycles().expect("a timed run");
        Ok(Some(Outcome { cycles, segment, misses, by_segments, escaped }))
    }

    /// The outcomes for many sets of faulty frames, in their order, on all processors.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_all(
        &self,
        sets: &[Vec<u64>],
        step: &(dyn Fn() + Sync),
    ) -> Result<Vec<Option<Outcome>>, SimError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((index, set)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                sets.get(index).map(|set| (index, set))
            } {
                step();
                done.push((index, self.run(Some(set))));
            }
            done
        };
        let mut all = thread::scope(|scope| {
            let workers = thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..workers.min(sets.len())).map(|_| scope.spawn(work)).collect();
            let done = workers.into_iter().flat_map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            done.collect::<Vec<_>>()
        });
        all.sort_unstable_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// The frames that the host's segment has wherever it begins: a run as long as the guest's
    /// memory may begin `HOST_EXTRA_MB` earlier or later, if that avoids faulty frames.
    pub fn frames(&self, segment: &SegmentState) -> Range<u64> {
        let margin = HOST_EXTRA_MB << 20 >> 12;
        let first = segment.frame.number();
        first + margin..first + segment.pages - margin
    }
}

/// A set of so many different frames, evenly.
pub fn faulty_frames(frames: &Range<u64>, count: usize, set: usize) -> Vec<u64> {
    let mut random = Random((count as u64) << 32 | set as u64);
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        chosen.insert(frames.start + random.below(frames.end - frames.start));
    }
    chosen.into_iter().collect()
}
