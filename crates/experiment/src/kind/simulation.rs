//! Simulated runs: a workload on a machine and a memory, under schemes.

use std::path::Path;

use perforate_sim::{
    BackgroundOptions, Comparison, Composition, HostMemoryOptions, Machine, MemoryOptions,
    MemoryState, PastOptions, RunResult, Workload, compare,
};
use perforate_trace::{WorkloadSpec, bundled};
use xxhash_rust::xxh3::Xxh3;

use super::{Kind, Measurement, Setting, Settings};

/// Simulated runs.
pub struct Simulation;

macro_rules! setting {
    ($key:literal, $meaning:literal) => {
        Setting { key: $key, meaning: $meaning, default: None }
    };
    ($key:literal, $meaning:literal, $default:literal) => {
        Setting { key: $key, meaning: $meaning, default: Some($default) }
    };
}

/// All settings; those without a meaning of their own are the options of `perforate run`.
const SETTINGS: &[Setting] = &[
    setting!("workload", "workload with its parameters, bundled trace, or path of a trace"),
    setting!("machine", "machine", "perforated-table2"),
    setting!("machine.", "another value for a key of the machine file, as machine.walker.walkers"),
    setting!("instructions", "instructions of a run, warm-up included"),
    setting!("warmup", "instructions before measuring starts", "a fifth of the run"),
    setting!("skip", "instructions to pass over first", "0"),
    setting!("functional", "count events only, without a clock", "false"),
    setting!("memory", "--memory", "16G"),
    setting!("memory-from", "--memory-from"),
    setting!("fragmentation", "--fragmentation", "none"),
    setting!("perforation", "--perforation"),
    setting!("segment", "--segment"),
    setting!("superpages", "--superpages"),
    setting!("age", "--age"),
    setting!("faulty", "--faulty; 0 % is no faulty frame"),
    setting!("compaction", "--compaction", "none"),
    setting!("defrag", "--defrag", "never"),
    setting!("swap", "--swap"),
    setting!("zones", "--zones", "single"),
    setting!("io-gap", "--io-gap", "none"),
    setting!("hot-add", "--hot-add"),
    setting!("khugepaged", "--khugepaged"),
    setting!("ksm", "--ksm"),
    setting!("contents", "--contents"),
    setting!("modes", "--modes"),
    setting!("host-memory", "--host-memory"),
    setting!("host-memory-from", "--host-memory-from"),
    setting!("host-fragmentation", "--host-fragmentation", "none"),
    setting!("host-age", "--host-age"),
    setting!("host-faulty", "--host-faulty"),
    setting!("host-swap", "--host-swap"),
    setting!("host-khugepaged", "--host-khugepaged"),
    setting!("host-perforation", "--host-perforation"),
    setting!("host-segment", "--host-segment"),
    setting!("host-superpages", "--host-superpages"),
];

impl Kind for Simulation {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn summary(&self) -> &'static str {
        "simulated runs; figures are those of `perforate run --json`, with cycles and ipc"
    }

    fn subjects(&self) -> &'static str {
        "schemes, or pairs GUEST+HOST"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        comparison(settings, &[subject.to_owned()], 0).map(|_| ())
    }

    fn inputs(&self, settings: &Settings) -> Result<Vec<String>, String> {
        let machine = Machine::text(machine_name(settings)).map_err(|error| error.to_string())?;
        let files = ["memory-from", "host-memory-from", "faulty", "host-faulty"];
        let files = files.into_iter().filter_map(|key| settings.text(key));
        let workload = workload_name(settings)?;
        let mut inputs = vec![machine];
        for file in files.chain([workload.as_str()]).filter(|file| Path::new(file).is_file()) {
            inputs.push(hash_of_file(Path::new(file))?);
        }
        Ok(inputs)
    }

    fn cost(&self, settings: &Settings) -> f64 {
        let instructions = settings.count("instructions", 20_000_000).unwrap_or_default() as f64;
        instructions / if settings.text("functional") == Some("true") { 4.0 } else { 1.0 }
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let comparison = comparison(settings, subjects, seed)?;
        let results = compare(&comparison, &mut |step| {
            let total = step.total.unwrap_or(0).max(1);
            progress(step.done as f64 / total as f64);
        });
        Ok(results.map_err(|error| error.to_string())?.iter().map(figures).collect())
    }
}

/// A content hash: a trace that is recorded anew is another input.
pub(super) fn hash_of_file(path: &Path) -> Result<String, String> {
    let failed = |error| format!("{}: {error}", path.display());
    let mut hash = Xxh3::new();
    let mut file = std::fs::File::open(path).map_err(failed)?;
    std::io::copy(&mut file, &mut hash).map_err(failed)?;
    Ok(format!("{:032x}", hash.digest128()))
}

fn machine_name(settings: &Settings) -> &str {
    settings.text("machine").unwrap_or(Machine::DEFAULT)
}

/// A synthetic workload as it is written, a trace by its path.
fn workload_name(settings: &Settings) -> Result<String, String> {
    let name = settings.required("workload")?;
    Ok(if WorkloadSpec::is_workload(name) { name.into() } else { bundled::resolve(name) })
}

fn comparison(settings: &Settings, subjects: &[String], seed: u64) -> Result<Comparison, String> {
    let text = |error: perforate_sim::SimError| error.to_string();
    let find = |name: &String| Composition::find(name).map_err(text);
    let name = workload_name(settings)?;
    if WorkloadSpec::is_workload(&name) {
        WorkloadSpec::parse(&name).map_err(|error| error.to_string())?;
    } else if !Path::new(&name).exists() {
        return Err(format!("setting \"workload\" is {name:?}: no such workload or trace"));
    }
    let machine = Machine::load_with(machine_name(settings), settings.below("machine."));
    let machine = machine.map_err(text)?;
    let schemes: Vec<Composition> = subjects.iter().map(find).collect::<Result<_, _>>()?;
    for scheme in &schemes {
        for scheme in std::iter::once(scheme.own).chain(scheme.host) {
            scheme.check_machine(&machine).map_err(text)?;
        }
    }
    let limited = settings.text("instructions").is_some();
    let given = settings.text("warmup").is_some();
    Ok(Comparison {
        workload: Workload {
            name,
            skip: settings.count("skip", 0)?,
            instructions: limited.then(|| settings.count("instructions", 0)).transpose()?,
        },
        machine,
        schemes,
        memory: memory(settings).map_err(text)?,
        seed,
        functional: settings.value("functional", false)?,
        check: false,
        warmup: given.then(|| settings.count("warmup", 0)).transpose()?,
    })
}

fn memory(settings: &Settings) -> Result<MemoryState, perforate_sim::SimError> {
    let text = |key| settings.text(key);
    // A share of nothing is no fault map: axes begin at 0.
    let faulty = |key| text(key).filter(|text| !text.ends_with("=0%"));
    let options = MemoryOptions {
        memory: text("memory"),
        memory_from: text("memory-from"),
        fragmentation: text("fragmentation").filter(|text| !text.starts_with("portion=0%")),
        perforation: text("perforation"),
        segment: text("segment"),
        superpages: text("superpages"),
        past: PastOptions {
            age: text("age"),
            faulty: faulty("faulty"),
            compaction: text("compaction"),
            defrag: text("defrag"),
            swap: text("swap"),
            zones: text("zones"),
            io_gap: text("io-gap"),
            hot_add: text("hot-add"),
        },
        background: BackgroundOptions {
            khugepaged: text("khugepaged"),
            ksm: text("ksm"),
            contents: text("contents"),
        },
        modes: text("modes"),
        host: HostMemoryOptions {
            memory: text("host-memory"),
            memory_from: text("host-memory-from"),
            fragmentation: text("host-fragmentation"),
            age: text("host-age"),
            faulty: faulty("host-faulty"),
            swap: text("host-swap"),
            khugepaged: text("host-khugepaged"),
            perforation: text("host-perforation"),
            segment: text("host-segment"),
            superpages: text("host-superpages"),
        },
    };
    options.read()
}

/// All counters, and what stands beside them in a result.
fn figures(result: &RunResult) -> Measurement {
    let mut figures: Measurement =
        result.counters.iter().map(|(name, value)| (name.to_owned(), value.as_f64())).collect();
    figures.insert("instructions".into(), result.instructions as f64);
    if let (Some(cycles), Some(ipc)) = (result.cycles, result.ipc) {
        figures.insert("cycles".into(), cycles as f64);
        figures.insert("ipc".into(), ipc);
    }
    figures
}
