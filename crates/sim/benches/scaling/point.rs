//! One point of a series, and its measurement.

use std::time::Instant;

use perforate_sim::{
    Composition, FiguresOnly, Machine, MeasuringOptions, MemoryState, ProcessorOptions,
    ResolvedRun, RunOptions, Simulation, SystemOptions, WarmupLength, Workload, open_workload, run,
};
use perforate_types::{
    AccessKind, Backing, Chunk, Instruction, MemoryAccess, Permissions, ProcessId, ProgramEvent,
    ThreadId, VirtualAddress,
};
use serde::{Deserialize, Serialize};

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;
/// Schemes of comparisons. A comparison of n schemes has the first n.
const SCHEMES: [&str; 16] = [
    "4k",
    "thp",
    "perforated",
    "ideal",
    "segment",
    "range",
    "gt-pde-2m",
    "gt-pde-1m",
    "gt-pde-4m",
    "4k-colt-8",
    "p-gt-pde-2m",
    "perforated-naive",
    "4k+4k",
    "thp+thp",
    "4k+segment",
    "perforated+perforated",
];
/// Bytes of memory of each process. The process touches all of it.
const SPACE_BYTES: u64 = MB;
/// Number of instructions between switches of processes.
const TURN: u64 = 2_000;

/// Quantity on the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Bytes of randomly accessed data.
    Data,
    /// Number of schemes in one comparison.
    Schemes,
    /// Number of processes that take turns.
    Spaces,
    /// Instructions of the run.
    Length,
}

/// Coordinates of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub axis: Axis,
    /// Scheme and mode (functional, timing or sampled).
    pub series: String,
    pub x: u64,
}

/// Results of a measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Instructions per second in the steady state, summed over all schemes.
    pub instructions_per_second: f64,
    /// Peak resident memory of the process.
    pub resident_bytes: f64,
    /// Time until the first instruction.
    pub set_up_seconds: f64,
}

impl Axis {
    pub const ALL: [Self; 4] = [Self::Data, Self::Schemes, Self::Spaces, Self::Length];

    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Schemes => "schemes",
            Self::Spaces => "spaces",
            Self::Length => "length",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Data => "bytes of data, accessed at random",
            Self::Schemes => "schemes of one comparison",
            Self::Spaces => "processes of 1MB that take turns",
            Self::Length => "instructions of the run",
        }
    }

    pub fn points(self) -> Vec<Point> {
        let (series, xs): (&[&str], Vec<u64>) = match self {
            Self::Data => {
                let sizes = (26..=40).step_by(2).map(|power| 1 << power).collect();
                (&["4k functional", "4k timing", "thp functional", "perforated functional"], sizes)
            }
            Self::Schemes => (&["functional", "timing"], (0..=4).map(|power| 1 << power).collect()),
            Self::Spaces => (
                &["4k functional", "4k timing"],
                (0..=10).step_by(2).map(|power| 1 << power).collect(),
            ),
            Self::Length => {
                let lengths = vec![1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
                (&["perforated functional", "perforated sampled"], lengths)
            }
        };
        let point = |series: &&str, x| Point { axis: self, series: (*series).into(), x };
        series.iter().flat_map(|series| xs.iter().map(move |&x| point(series, x))).collect()
    }
}

impl Point {
    /// Measures the point in this process.
    pub fn measure(&self) -> Measured {
        match self.axis {
            Axis::Data => self.data(),
            Axis::Schemes => self.schemes(),
            Axis::Spaces => self.spaces(),
            Axis::Length => self.length(),
        }
    }

    fn is_functional(&self) -> bool {
        self.series.ends_with("functional")
    }

    fn scheme(&self) -> Composition {
        let name = self.series.split(' ').next().unwrap_or_default();
        Composition::find(name).expect("a scheme")
    }

    fn simulation(&self, memory: &MemoryState, implicit_maps: bool) -> Simulation {
        let functional = self.is_functional();
        let system = SystemOptions { check: false, implicit_maps, counts_only: functional };
        let options = RunOptions { functional, system, warmup: 0 };
        let machine = Machine::load(Machine::DEFAULT).expect("a bundled machine");
        Simulation::new(&machine, self.scheme(), memory, 1, options).expect("a simulation")
    }

    fn data(&self) -> Measured {
        let memory = MemoryState::of(self.x + self.x / 4 + GB);
        let workload = Workload {
            instructions: Some(12_000_000),
            ..Workload::named(format!("random:size={}K", self.x / KB))
        };
        let start = Instant::now();
        let mut source = open_workload(&workload, &memory, 1).expect("a workload");
        let mut simulation = self.simulation(&memory, false);
        let mut chunk = Chunk::default();
        let mut warm = None;
        let mut set_up_seconds = 0.0;
        while source.next_chunk(&mut chunk).expect("instructions") {
            simulation.run(&chunk).expect("a run");
            if set_up_seconds == 0.0 {
                set_up_seconds = start.elapsed().as_secs_f64();
            }
            if warm.is_none() && simulation.instructions() >= 2_000_000 {
                warm = Some((simulation.instructions(), Instant::now()));
            }
        }
        let (before, since) = warm.expect("there are more");
        let instructions = simulation.instructions() - before;
        Measured::new(instructions, since, set_up_seconds)
    }

    /// Creates a comparison on small data, so that mapping the data takes little of the time.
    fn comparison(&self, schemes: Vec<Composition>, instructions: u64) -> ResolvedRun {
        ResolvedRun {
            processors: ProcessorOptions::default(),
            workload: Workload {
                instructions: Some(instructions),
                ..Workload::named("random:size=256M")
            },
            machine: Machine::load(Machine::DEFAULT).expect("a bundled machine"),
            schemes,
            memory: MemoryState::of(2 * GB),
            seed: 1,
            measuring: MeasuringOptions {
                functional: self.is_functional(),
                warmup: Some(WarmupLength::Instructions(0)),
                ..MeasuringOptions::default()
            },
        }
    }

    fn schemes(&self) -> Measured {
        let schemes = SCHEMES[..self.x as usize].join(",");
        let schemes = Composition::list(&schemes).expect("schemes");
        let instructions = if self.is_functional() { 10_000_000 } else { 2_000_000 };
        let comparison = self.comparison(schemes, instructions);
        let start = Instant::now();
        run(&comparison, &mut FiguresOnly(|_| ())).expect("a comparison");
        Measured::new(instructions * self.x, start, 0.0)
    }

    fn length(&self) -> Measured {
        let mut comparison = self.comparison(vec![self.scheme()], self.x);
        let start = Instant::now();
        if self.series.ends_with("sampled") {
            comparison.measuring.timing = "sampled".parse().expect("a right option");
        }
        run(&comparison, &mut FiguresOnly(|_| ())).expect("a comparison");
        Measured::new(self.x, start, 0.0)
    }

    /// Measures processes that take turns in loading their pages one after another.
    fn spaces(&self) -> Measured {
        let memory = MemoryState::of(4 * GB);
        let mut simulation = self.simulation(&memory, false);
        let start = Instant::now();
        let mut chunk = Chunk::default();
        for process in 0..self.x {
            if process > 0 {
                chunk.push_event(ProgramEvent::Fork { child: ProcessId(process as u16) });
            }
            switch_to(&mut chunk, process);
            chunk.push_event(map(DATA + process * 2 * SPACE_BYTES));
            (0..SPACE_BYTES / 4096).for_each(|page| load(&mut chunk, process, page));
            if process + 1 < self.x {
                switch_to(&mut chunk, 0);
            }
            simulation.run(&chunk).expect("a run");
            chunk.clear();
        }
        let set_up_seconds = start.elapsed().as_secs_f64();
        let (before, since) = (simulation.instructions(), Instant::now());
        let turns = if self.is_functional() { 5_000 } else { 1_000 };
        for turn in 0..turns {
            let process = turn % self.x;
            switch_to(&mut chunk, process);
            (0..TURN).for_each(|page| load(&mut chunk, process, page % (SPACE_BYTES / 4096)));
            simulation.run(&chunk).expect("a run");
            chunk.clear();
        }
        Measured::new(simulation.instructions() - before, since, set_up_seconds)
    }
}

/// Address of the first process's data. Each process has a separate range.
const DATA: u64 = 1 << 40;

fn switch_to(chunk: &mut Chunk, process: u64) {
    let process = ProcessId(process as u16);
    chunk.push_event(ProgramEvent::Switch { process, thread: ThreadId(0) });
}

fn map(start: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length: SPACE_BYTES,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: true,
    }
}

fn load(chunk: &mut Chunk, process: u64, page: u64) {
    let address = VirtualAddress::new(DATA + process * 2 * SPACE_BYTES + page * 4096);
    let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
    chunk.push(Instruction { accesses: 1, ..Instruction::default() }, &[access]);
}

impl Measured {
    fn new(instructions: u64, since: Instant, set_up_seconds: f64) -> Self {
        let seconds = since.elapsed().as_secs_f64();
        Self {
            instructions_per_second: (instructions as f64 / seconds).round(),
            resident_bytes: peak_resident_bytes(),
            set_up_seconds,
        }
    }
}

/// Returns the peak resident memory of this process in bytes.
fn peak_resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(0.0, |kilobytes| (kilobytes * KB) as f64)
}
