//! The runs: all settings of a workload read the same instructions, made once.

use perforate_sim::{
    Composition, Machine, MemoryState, PastOptions, RunOptions, SimError, Simulation,
    SystemOptions, Workload, open_workload,
};
use perforate_types::{Chunk, Counters};

use crate::options::Options;
use crate::parallel_runs;

/// What is compared.
#[derive(Clone)]
pub struct Setting {
    /// What it is called here.
    pub label: &'static str,
    /// What translates.
    pub scheme: &'static str,
    /// Hardware.
    pub machine: Machine,
}

/// A workload in its memory.
pub struct Place {
    /// What it is called.
    pub title: String,
    /// Name of a workload or path of a trace.
    pub workload: String,
    /// Its memory.
    pub memory: MemoryState,
}

/// What a run left.
pub struct Figures(Counters);

impl Figures {
    /// A counter of the run.
    pub fn counter(&self, name: &str) -> f64 {
        self.0.get(name).unwrap_or_else(|| panic!("runs have a counter {name}"))
    }

    /// Instructions per cycle.
    pub fn ipc(&self) -> f64 {
        self.counter("ipc")
    }

    /// A counter per thousand instructions.
    pub fn per_kilo_instruction(&self, name: &str) -> f64 {
        self.counter(name) * 1000.0 / self.counter("instructions")
    }

    /// One counter over another; 0 over 0 is 0.
    pub fn ratio(&self, of: &str, over: &str) -> f64 {
        let over = self.counter(over);
        if over > 0.0 { self.counter(of) / over } else { 0.0 }
    }
}

/// The runs of one seed.
pub struct Runs(Vec<(&'static str, Figures)>);

impl Runs {
    /// The run of a setting.
    pub fn get(&self, label: &str) -> &Figures {
        let found = self.0.iter().find(|(name, _)| *name == label);
        &found.unwrap_or_else(|| panic!("{label} is run")).1
    }

    /// How many times as fast one setting is as another.
    pub fn speedup(&self, label: &str, over: &str) -> f64 {
        self.get(label).ipc() / self.get(over).ipc()
    }

    /// Percent by which one setting is faster than another.
    pub fn gain(&self, label: &str, over: &str) -> f64 {
        percent_more(self.speedup(label, over))
    }
}

/// A ratio as percent more.
pub fn percent_more(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// All runs of a workload.
pub struct Study {
    /// What was run.
    pub place: Place,
    /// By seed.
    pub seeds: Vec<Runs>,
}

impl Study {
    /// A figure by seed.
    pub fn figures(&self, of: impl Fn(&Runs) -> f64) -> Vec<Option<f64>> {
        self.seeds.iter().map(|runs| Some(of(runs))).collect()
    }
}

/// Memory of so many bytes without injected fragmentation, with faulty frames (`uniform=1%`) or
/// none.
///
/// # Errors
/// As [`MemoryState`]'s.
pub fn memory(bytes: u64, faulty: Option<&str>) -> Result<MemoryState, SimError> {
    let past = perforate_sim::Past::parse(PastOptions { faulty, ..PastOptions::default() })?;
    let megabytes = bytes.div_ceil(2 << 20) * 2;
    MemoryState::parse(Some(&format!("{megabytes}M")), Some("none"), None)?.with_past(past)
}

/// Runs all settings on all places with all seeds.
///
/// # Errors
/// The first run that went wrong.
pub fn run(
    what: &str,
    places: Vec<Place>,
    settings: &[Setting],
    options: &Options,
) -> Result<Vec<Study>, SimError> {
    let of_place = |index| (1..=options.seeds).map(move |seed| (index, seed));
    let jobs: Vec<(usize, u64)> = (0..places.len()).flat_map(of_place).collect();
    let runs = parallel_runs::run(what, &jobs, |&(index, seed)| {
        run_one(&places[index], settings, seed, options.instructions)
    })?;
    let mut runs = runs.into_iter();
    let mut study =
        |place| Study { place, seeds: runs.by_ref().take(options.seeds as usize).collect() };
    Ok(places.into_iter().map(&mut study).collect())
}

fn run_one(
    place: &Place,
    settings: &[Setting],
    seed: u64,
    instructions: u64,
) -> Result<Runs, SimError> {
    let workload =
        Workload { name: place.workload.clone(), skip: 0, instructions: Some(instructions) };
    let mut source = open_workload(&workload, &place.memory, seed)?;
    let implicit_maps = !source.metadata().has_events;
    let options = RunOptions {
        functional: false,
        system: SystemOptions { check: false, implicit_maps, counts_only: false },
        warmup: instructions / 3,
    };
    let start = |setting: &Setting| {
        let scheme = Composition::find(setting.scheme)?;
        Simulation::new(&setting.machine, scheme, &place.memory, seed, options)
    };
    let mut simulations = settings.iter().map(start).collect::<Result<Vec<_>, SimError>>()?;
    let mut chunk = Chunk::default();
    while source.next_chunk(&mut chunk)? {
        for simulation in &mut simulations {
            simulation.run(&chunk)?;
        }
    }
    let finished = settings
        .iter()
        .zip(simulations)
        .map(|(setting, simulation)| Ok((setting.label, Figures(simulation.into_counters()?))));
    Ok(Runs(finished.collect::<Result<_, SimError>>()?))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Runs with instructions per cycle as given.
    pub fn runs(of: &[(&'static str, f64)]) -> Runs {
        let figures = |ipc: f64| {
            let mut counters = Counters::default();
            counters.ratio("ipc", ipc, 1.0);
            counters.count("instructions", 2000);
            counters.count("loads", 50);
            Figures(counters)
        };
        Runs(of.iter().map(|&(label, ipc)| (label, figures(ipc))).collect())
    }

    #[test]
    fn figures_worked_by_hand() {
        let runs = runs(&[("4k", 0.5), ("gt", 0.8)]);
        assert!((runs.gain("gt", "4k") - 60.0).abs() < 1e-9);
        assert!((runs.speedup("4k", "gt") - 0.625).abs() < 1e-9);
        assert_eq!(runs.get("4k").per_kilo_instruction("loads"), 25.0);
        assert_eq!(runs.get("4k").ratio("loads", "instructions"), 0.025);
    }

    /// All settings of a small run, twice: the same figures.
    #[test]
    fn settings_share_a_workload_and_nothing_else() {
        let machine = Machine::load("gtsm-table4").unwrap();
        let setting = |label, scheme| Setting { label, scheme, machine: machine.clone() };
        let place = || Place {
            title: "GUPS".into(),
            workload: "gups:size=64M".into(),
            memory: memory(256 << 20, Some("uniform=1%")).unwrap(),
        };
        let options = Options { seeds: 2, instructions: 60_000, ..Options::default() };
        let run = |settings: &[Setting]| run("test", vec![place()], settings, &options).unwrap();
        let both = run(&[setting("4k", "4k"), setting("gt", "gt-pde-4m")]);
        let alone = run(&[setting("gt", "gt-pde-4m")]);
        assert_eq!((both.len(), both[0].seeds.len()), (1, 2));
        for (together, alone) in both[0].seeds.iter().zip(&alone[0].seeds) {
            assert_eq!(together.get("gt").ipc(), alone.get("gt").ipc());
            assert!(together.get("gt").counter("superpage_bytes") > 0.0);
            assert!(together.get("4k").counter("superpage_bytes") == 0.0);
        }
    }
}
