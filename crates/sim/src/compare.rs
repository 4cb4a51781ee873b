//! Several schemes on one workload: decoded once, run in parallel, each with its own memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use perforate_trace::{Source, SourceMetadata, TraceError};
use perforate_types::{Chunk, GapTolerance};

use crate::footprint::Footprint;
use crate::memory_history::TouchedHistory;
use crate::results::RunResult;
use crate::simulation::{Figures, RunOptions, Simulation};
use crate::system::SystemOptions;
use crate::{
    Composition, Machine, MemoryState, ModeSwitching, Scheme, SimError, Workload, open_workload,
};

/// Chunks a slow scheme may lag behind the decoder.
const CHUNKS_AHEAD: usize = 8;

/// Everything that makes one comparison; the same inputs and seed give the same results.
pub struct Comparison {
    /// What to run.
    pub workload: Workload,
    /// On which machine.
    pub machine: Machine,
    /// Under which schemes.
    pub schemes: Vec<Composition>,
    /// On which memory.
    pub memory: MemoryState,
    /// Seed of workload and memory.
    pub seed: u64,
    /// Count events only.
    pub functional: bool,
    /// Compare every translation with the oracle.
    pub check: bool,
    /// Instructions before measuring starts; a fifth of the run where none are given and its
    /// length is known.
    pub warmup: Option<u64>,
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Instructions delivered so far.
    pub done: u64,
    /// Instructions in all, where known.
    pub total: Option<u64>,
}

/// Runs a comparison; `progress` hears of it now and then.
///
/// # Errors
/// The first thing that goes wrong in the workload or under any scheme.
pub fn compare(
    comparison: &Comparison,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<RunResult>, SimError> {
    let Comparison { workload, memory, seed, .. } = comparison;
    let mut source = open_workload(workload, memory, *seed)?;
    let metadata = source.metadata().clone();
    let options = comparison.run_options(&metadata);
    if comparison.schemes.iter().any(|scheme| scheme.host.is_some()) {
        memory.check_host()?;
    }
    let mut simulations = Vec::new();
    for scheme in &comparison.schemes {
        let machine = &comparison.machine;
        simulations.push(Simulation::new(machine, *scheme, memory, *seed, options)?);
    }
    let mut touched =
        Touched { footprint: Footprint::new(), history: TouchedHistory::new(), done: 0 };
    let total = metadata.instructions;
    let figures =
        run_all(simulations, source.as_mut(), &mut touched, total, progress).map_err(|error| {
            match error {
                SimError::WarmupTooLong { instructions: 0, .. } => SimError::NoInstructions {
                    name: metadata.name.clone(),
                    why: source.truncated().map_or_else(String::new, |cut| format!(": {cut}")),
                },
                error => error,
            }
        })?;
    let notes = comparison.notes(&metadata, source.as_ref());
    let touched_bytes = touched.footprint.bytes();
    let history = touched.history.finish(touched.done, touched_bytes);
    let results = comparison.schemes.iter().zip(figures).map(|(scheme, mut figures)| {
        figures.counters.count("touched_bytes", touched_bytes);
        for (point, &(instruction, bytes)) in figures.series.memory.iter_mut().zip(&history) {
            assert_eq!(point.instruction, instruction, "sampled at the same moments");
            point.touched_bytes = bytes;
        }
        comparison.result(scheme, &metadata, &options, figures, notes.clone())
    });
    Ok(results.collect())
}

/// What the program has touched so far.
struct Touched {
    footprint: Footprint,
    history: TouchedHistory,
    /// Instructions decoded.
    done: u64,
}

impl Touched {
    fn add(&mut self, chunk: &Chunk) {
        self.history.observe(self.done, self.footprint.bytes());
        self.footprint.add(chunk);
        self.done += chunk.instructions.len() as u64;
    }
}

/// Feeds every simulation from one decoder.
fn run_all(
    simulations: Vec<Simulation>,
    source: &mut dyn Source,
    touched: &mut Touched,
    total: Option<u64>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Figures>, SimError> {
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut workers = Vec::new();
        let slowest: Arc<Vec<AtomicU64>> =
            Arc::new(simulations.iter().map(|_| AtomicU64::new(0)).collect());
        for (index, simulation) in simulations.into_iter().enumerate() {
            let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
            let done = Arc::clone(&slowest);
            senders.push(sender);
            workers.push(scope.spawn(move || run_one(simulation, &receiver, &done[index])));
        }
        let decoded = decode(source, touched, senders, || {
            let done = slowest.iter().map(|done| done.load(Ordering::Relaxed)).min();
            progress(Progress { done: done.unwrap_or(0), total });
        });
        let outcomes: Vec<Result<Figures, SimError>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        decoded?;
        first_cause(outcomes)
    })
}

/// The figures of all schemes, or why a run ended. Once one scheme has failed the others get no
/// more instructions, so that their runs may be too short for the warm-up; that is not the cause.
fn first_cause(outcomes: Vec<Result<Figures, SimError>>) -> Result<Vec<Figures>, SimError> {
    let mut figures = Vec::new();
    let mut too_short = None;
    for outcome in outcomes {
        match outcome {
            Ok(run) => figures.push(run),
            Err(error @ SimError::WarmupTooLong { .. }) => too_short = too_short.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    too_short.map_or(Ok(figures), Err)
}

fn run_one(
    mut simulation: Simulation,
    chunks: &Receiver<Arc<Chunk>>,
    done: &AtomicU64,
) -> Result<Figures, SimError> {
    for chunk in chunks {
        simulation.run(&chunk)?;
        done.store(simulation.instructions(), Ordering::Relaxed);
    }
    simulation.finish()
}

/// Delivers every chunk to every scheme. Chunks come back for reuse once all are done with them.
fn decode(
    source: &mut dyn Source,
    touched: &mut Touched,
    senders: Vec<SyncSender<Arc<Chunk>>>,
    mut tick: impl FnMut(),
) -> Result<(), TraceError> {
    let mut pool: Vec<Arc<Chunk>> = Vec::new();
    let mut delivered = 0u64;
    loop {
        let free = pool.iter().position(|chunk| Arc::strong_count(chunk) == 1);
        let mut chunk = free.map_or_else(Arc::default, |index| pool.swap_remove(index));
        let buffer = Arc::get_mut(&mut chunk).expect("nobody else holds the chunk");
        if !source.next_chunk(buffer)? {
            return Ok(());
        }
        touched.add(buffer);
        for sender in &senders {
            if sender.send(Arc::clone(&chunk)).is_err() {
                return Ok(()); // That scheme failed; its error is reported when it is joined.
            }
        }
        pool.push(chunk);
        delivered += 1;
        if delivered.is_multiple_of(16) {
            tick();
        }
    }
}

impl Comparison {
    fn run_options(&self, metadata: &SourceMetadata) -> RunOptions {
        let warmup = self.warmup.unwrap_or(metadata.instructions.unwrap_or(0) / 5);
        let implicit_maps = !metadata.has_events;
        let system =
            SystemOptions { check: self.check, implicit_maps, counts_only: self.functional };
        RunOptions { functional: self.functional, system, warmup }
    }

    fn notes(&self, metadata: &SourceMetadata, source: &dyn Source) -> Vec<String> {
        let mut notes = vec![self.memory.describe()];
        notes.extend(self.options_without_effect());
        notes.extend(metadata.assumptions.iter().cloned());
        if let Some(truncation) = source.truncated() {
            notes.push(format!("the trace is incomplete: {truncation}"));
        }
        if !self.functional {
            notes.push(
                "IPC is steady state; the figures \"including OS work\" add what page faults, clearing, \
                 copying, page tables and shootdowns took in the measured instructions, at the \
                 costs in the machine file"
                    .into(),
            );
        }
        if self.schemes.iter().any(|scheme| scheme.host.is_some()) {
            notes.push(format!("host: {}", self.memory.host().describe()));
        }
        if let Some(snapshot) = &self.memory.snapshot {
            let has_ideal = self.schemes.iter().any(|scheme| scheme.own.ideal_memory);
            let ideal = if has_ideal {
                "; the ideal scheme has as much memory, all of it free"
            } else {
                ""
            };
            notes.push(format!(
                "memory begins with the frames free, movable and fixed that {} had{ideal}",
                snapshot.file
            ));
        }
        if self.memory.fragmentation.is_some() {
            notes.push(
                "fragmentation is injected per virtual 2MB region, the same in every scheme but \
                 the ideal one, as in the papers' emulation (P §VII.A)"
                    .into(),
            );
        }
        notes
    }

    /// Says what was asked for and changes nothing here, or not everywhere.
    fn options_without_effect(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let perforates = |scheme: &Composition| scheme.own.shadow_directories;
        if self.memory.perforation.is_some() && !self.schemes.iter().any(perforates) {
            notes.push("--perforation has no effect: no scheme here has perforated pages".into());
        }
        let segments = |scheme: &Composition| scheme.own.has_segments();
        if self.memory.segment.is_some() && !self.schemes.iter().any(segments) {
            let whose = "no native or guest's scheme here has direct segments";
            notes.push(format!("--segment has no effect: {whose}"));
        }
        let has_superpages = |scheme: &Composition| scheme.own.gap_tolerance.is_some();
        if self.memory.superpages.is_some() && !self.schemes.iter().any(has_superpages) {
            let whose = "no native or guest's scheme here has gap-tolerant superpages";
            notes.push(format!("--superpages has no effect: {whose}"));
        }
        if let Some(host) = &self.memory.host {
            notes.extend(self.host_options_without_effect(host));
        }
        if self.memory.past.hot_add_bytes > 0 && self.memory.modes.is_none() {
            notes.push("--hot-add has no effect without --modes, which adds the memory".into());
        }
        let suits = |switching: ModeSwitching| {
            self.schemes.iter().any(|composition| switching.suits(composition))
        };
        if self.memory.modes.is_some_and(|switching| !suits(switching)) {
            let pairs = "big-memory wants a segment scheme on both sides, compute one as host";
            notes.push(format!("--modes has no effect here: {pairs}"));
        }
        let has_ideal = self.schemes.iter().any(|scheme| scheme.own.ideal_memory);
        if self.memory.background.ksm.is_some() && has_ideal {
            notes.push("the ideal scheme runs without same-page merging".into());
        }
        notes
    }

    /// The same of what was said about the host.
    fn host_options_without_effect(&self, host: &MemoryState) -> Vec<String> {
        let hosts: Vec<&Scheme> = self.schemes.iter().filter_map(|scheme| scheme.host).collect();
        let mut notes = Vec::new();
        if hosts.is_empty() {
            notes.push("--host-… options have no effect: no GUEST+HOST is compared".into());
        }
        if host.segment.is_some() && !hosts.iter().any(|scheme| scheme.has_segments()) {
            notes.push("--host-segment has no effect: no host here has direct segments".into());
        }
        if host.superpages.is_some() && !hosts.iter().any(|scheme| scheme.gap_tolerance.is_some()) {
            notes.push("--host-superpages has no effect: no host here has superpages".into());
        }
        if host.perforation.is_some() && !hosts.iter().any(|scheme| scheme.shadow_directories) {
            notes.push("--host-perforation has no effect: no host here perforates".into());
        }
        notes
    }

    /// Says so where a scheme could have segments and has none in the end.
    fn segment_notes(&self, composition: &Composition, figures: &Figures) -> Vec<String> {
        let name = composition.name();
        let host_memory = self.memory.host();
        let whose = if composition.host.is_some() { "guest's " } else { "" };
        let own = (composition.own, &self.memory, "segment_pages", whose);
        let host =
            composition.host.map(|host| (host, &host_memory, "host_segment_pages", "host's "));
        let sides = std::iter::once(own).chain(host);
        let missing = sides.filter(|(scheme, _, counter, _)| {
            scheme.has_segments() && figures.counters.get(counter) == Some(0.0)
        });
        let note = |(scheme, memory, _, whose): (&Scheme, &MemoryState, _, _)| {
            format!(
                "{name}: there is no {whose}segment at the end: no area large enough was touched, \
                 or no contiguous memory is left for it ({})",
                scheme.policy_text(memory)
            )
        };
        missing.map(note).collect()
    }

    /// Says so where the mode of superpages is not the one that the scheme is named after.
    fn mode_note(&self, scheme: &Composition) -> Option<String> {
        let mode = scheme.own.mode(&self.memory).ok().flatten()?;
        (Some(mode) != scheme.own.gap_tolerance)
            .then(|| format!("{}: the mode is {} (--superpages)", scheme.name(), mode.label()))
    }

    /// Says so where a scheme could have perforated pages and its policy made none.
    fn policy_note(&self, scheme: &Composition, figures: &Figures) -> Option<String> {
        let (scheme, name) = (scheme.own, scheme.name());
        let none = figures.counters.get("perforated_pages") == Some(0.0);
        (scheme.shadow_directories && self.memory.fragmentation.is_some() && none).then(|| {
            let policy = scheme.policy_text(&self.memory);
            format!("{name}: no fragmented block met its policy ({policy})")
        })
    }

    fn result(
        &self,
        composition: &Composition,
        metadata: &SourceMetadata,
        options: &RunOptions,
        figures: Figures,
        mut notes: Vec<String>,
    ) -> RunResult {
        notes.extend(self.segment_notes(composition, &figures));
        notes.extend(self.policy_note(composition, &figures));
        notes.extend(self.mode_note(composition));
        let transitions = figures.mode_transitions.iter();
        notes.extend(transitions.map(|line| format!("{}: {line}", composition.name())));
        let host_memory = self.memory.host();
        let config = serde_json::json!({
            "machine": self.machine,
            "memory": self.memory,
            "scheme": describe(composition.own, &self.memory),
            "host_scheme": composition.host.map(|host| describe(host, &host_memory)),
            "host_memory": composition.host.map(|_| &host_memory),
            "implicit_maps": options.system.implicit_maps,
            "workload": metadata,
            "seed": self.seed,
            "functional": self.functional,
            "check": self.check,
            "warmup_instructions": options.warmup,
            "skipped_instructions": self.workload.skip,
            "instructions_limit": self.workload.instructions,
        });
        RunResult {
            scheme: composition.name(),
            guest: composition.host.map(|_| composition.own.name.into()),
            host: composition.host.map(|host| host.name.into()),
            workload: metadata.name.clone(),
            machine: self.machine.name.clone(),
            seed: self.seed,
            instructions: figures.instructions,
            cycles: figures.cycles,
            ipc: figures.cycles.map(|cycles| figures.instructions as f64 / cycles.max(1) as f64),
            counters: figures.counters,
            series: figures.series,
            regions: figures.regions,
            memory_maps: figures.memory_maps,
            mode_transitions: figures.mode_transitions,
            notes,
            config,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// A scheme as results keep it.
fn describe(scheme: &Scheme, memory: &MemoryState) -> serde_json::Value {
    serde_json::json!({
        "name": scheme.name,
        "summary": scheme.summary,
        "source": scheme.source,
        "policy": scheme.policy_text(memory),
        "tlb_variant": format!("{:?}", scheme.variant),
        "ideal_memory": scheme.ideal_memory,
        "shadow_directories": scheme.shadow_directories,
        "gap_tolerance": scheme.mode(memory).ok().flatten().map(GapTolerance::label),
    })
}
