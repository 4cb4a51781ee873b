//! Processes that read their heaps, round after round: of use where something changes memory in
//! between, such as merging of equal pages or page sharing of virtual machines.
//!
//! A round is reads of any page evenly, and reads skewed as 1/rank; each round is the same. Reads do
//! not wait for each other. Code, branches and their mispredictions are left out.

use perforate_types::ProcessId;
use serde::{Deserialize, Serialize};

use super::heap::{HEAP, Heap, OTHERS, switch};
use crate::program::{Program, Running, Tracer};
use crate::synthetic::random::Random;
use crate::synthetic::registry::{Parameter, ParameterKind, Workload};
use crate::synthetic::spec::WorkloadSpec;

const MOST_READS: u64 = 1_000_000_000;

pub(in crate::synthetic) const READERS: Workload = Workload {
    name: "readers",
    summary: "processes that read their heaps in turns, evenly and skewed (for --ksm; paper P)",
    parameters: &[
        HEAP,
        Parameter {
            name: "processes",
            kind: ParameterKind::Between(1, 1024),
            default: "2",
            help: "processes, each with a heap",
        },
        Parameter {
            name: "touch",
            kind: ParameterKind::Flag,
            default: "",
            help: "each page is written once before the first read",
        },
        Parameter {
            name: "reads",
            kind: ParameterKind::Between(1, MOST_READS),
            default: "500k",
            help: "reads in one pattern before the next, all processes together",
        },
        Parameter {
            name: "warmup",
            kind: ParameterKind::Count(MOST_READS),
            default: "200k",
            help: "reads before each of these",
        },
        Parameter {
            name: "slice",
            kind: ParameterKind::Between(1, MOST_READS),
            default: "10k",
            help: "reads of one process before the next runs",
        },
    ],
    host_bytes: |_| 0,
    build: Running::boxed::<Readers>,
};

/// What the processes do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadersOptions {
    /// 4KB pages of each heap.
    pub pages: u64,
    /// How many there are.
    pub processes: u16,
    /// Whether each page is written before the first read.
    pub touch: bool,
    /// Reads in one pattern before the next.
    pub reads: u64,
    /// Reads before each of these.
    pub warmup: u64,
    /// Reads of one process before the next runs.
    pub slice: u64,
}

impl ReadersOptions {
    /// What the text of a workload `readers` says.
    ///
    /// # Panics
    /// For another workload.
    pub fn of(spec: &WorkloadSpec) -> Self {
        Self {
            pages: Heap::new(spec.size("heap")).pages,
            processes: spec.size("processes") as u16,
            touch: spec.flag("touch"),
            reads: spec.size("reads"),
            warmup: spec.size("warmup"),
            slice: spec.size("slice"),
        }
    }
}

/// Which pages are read.
#[derive(Clone, Copy)]
enum Pattern {
    /// Any page of the heap, evenly.
    Uniform,
    /// The page of rank r with probability proportional to 1/r; ranks lie anywhere.
    Skewed,
}

impl Pattern {
    /// The page of a heap of `pages` that is read next.
    fn next_page(self, random: &mut Random, pages: u64) -> u64 {
        match self {
            Self::Uniform => random.evenly(pages),
            Self::Skewed => {
                let rank = (pages as f64).powf(random.fraction()) as u64 % pages;
                // A prime that does not divide the number of pages takes each rank elsewhere.
                rank * 2_654_435_761 % pages
            }
        }
    }
}

/// Bytes of an access.
const WORD_BYTES: u64 = 8;

struct Readers {
    options: ReadersOptions,
    heap: Heap,
    seed: u64,
}

impl Program for Readers {
    const SETUP_UNTIL: Option<&'static str> = Some("uniform-warm-up");

    fn start(spec: &WorkloadSpec, seed: u64, t: &mut Tracer) -> Self {
        t.leave_code_out();
        let options = ReadersOptions::of(spec);
        Self { options, heap: Heap { pages: options.pages }, seed }
    }

    async fn run(&mut self, t: &mut Tracer) {
        for process in 0..self.options.processes {
            self.switch(process, t);
            t.event(self.heap.map(false));
            if self.options.touch {
                self.touch(t).await;
            }
        }
        loop {
            self.read("uniform", Pattern::Uniform, t).await;
            self.read("skewed", Pattern::Skewed, t).await;
        }
    }
}

impl Readers {
    /// A process runs now. A single one always does.
    fn switch(&self, process: u16, t: &mut Tracer) {
        if self.options.processes > 1 {
            t.event(switch(ProcessId(process)));
        }
    }

    async fn touch(&self, t: &mut Tracer) {
        for page in 0..self.heap.pages {
            t.compute(OTHERS, 1);
            t.store(self.heap.page(page), WORD_BYTES, ());
            t.pause().await;
        }
    }

    async fn read(&self, name: &str, pattern: Pattern, t: &mut Tracer) {
        let ReadersOptions { processes, reads, warmup, slice, .. } = self.options;
        let mut random = Random::new(self.seed);
        t.begin_phase(&format!("{name}-warm-up"), &[]).await;
        for read in 0..warmup + reads {
            if read == warmup {
                t.begin_phase(name, &[]).await;
            }
            if read % slice == 0 {
                self.switch((read / slice % u64::from(processes)) as u16, t);
            }
            let page = pattern.next_page(&mut random, self.heap.pages);
            t.compute(OTHERS, 1);
            t.load(self.heap.page(page), WORD_BYTES, (), ());
            t.pause().await;
        }
    }
}
