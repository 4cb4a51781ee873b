//! Comparison of schemes on one workload. The workload is decoded once, and the schemes run in
//! parallel, each with a separate memory.

use perforate_records::{Batches, RunResult, Warmup};
use perforate_schemes::segment;
use perforate_trace::{Source, SourceMetadata};
use perforate_types::{Counters, GapTolerance, PageSize, figures};

use crate::feeding::{HugePageAdvices, Touched, run_all};
use crate::idle_options;
use crate::observer::TwoPassProgress;
use crate::placed::SchemeSetup;
use crate::recording::{recording_notes, refused_note};
use crate::sampled::{self, PrecisionRule};
use crate::simulation::{Figures, RunOptions, Simulation};
use crate::stretches::PartCounts;
use crate::system::SystemOptions;
use crate::translation_work;
use crate::warmup::{self, Steadiness};
use crate::{
    Composition, MeasuringOptions, MemoryState, Observer, ResolvedRun, Scheme, SimError,
    open_workload,
};

figures! {
    pub(crate) static TOUCHED: u64, "Memory" {
        /// Memory in distinct 4KB data pages that the program accessed; the same under every
        /// scheme.
        touched_bytes, "touched", Bytes, Main: |bytes| *bytes;
    }

    pub(crate) static ADVICES: HugePageAdvices, "Memory" {
        /// Times that the program requested large pages (MADV_HUGEPAGE), from the beginning of the
        /// trace. Absent if the trace has no such events.
        huge_page_advices, Count, Listed: |calls| calls.wanted;
        /// Times that the program forbade large pages (MADV_NOHUGEPAGE), from the beginning of the
        /// trace. Absent if the trace has no such events.
        huge_page_refusals, Count, Listed: |calls| calls.refused;
    }
}

/// Runs every scheme of a run, in parallel on the same instructions, and returns one record per scheme.
///
/// # Errors
/// The first error of the workload or of any scheme; [`SimError::Stopped`] if the observer
/// cancels the run.
pub fn run(run: &ResolvedRun, observer: &mut dyn Observer) -> Result<Vec<RunResult>, SimError> {
    let mut results = if run.measuring.detects_warmup() {
        run.results_after_detection(observer)?
    } else {
        run.results(run.run_once(run.measuring.stated_warmup(), observer)?, false)
    };
    let notes = run.notes_on(&results);
    results.iter_mut().for_each(|result| result.notes.extend_from_slice(&notes));
    Ok(results)
}

/// Results of all schemes after one pass over the workload, before they are written as records.
struct Run {
    metadata: SourceMetadata,
    options: RunOptions,
    figures: Vec<Figures>,
    touched: Touched,
    notes: Vec<String>,
}

impl Run {
    fn courses(&self) -> Vec<Steadiness> {
        self.figures.iter().map(|figures| figures.slices.course()).collect()
    }
}

impl ResolvedRun {
    /// Runs the workload twice. The first pass detects the length of the warm-up. If some scheme
    /// does not reach a steady state, the warm-up of the second pass is a fifth of the run.
    fn results_after_detection(
        &self,
        observer: &mut dyn Observer,
    ) -> Result<Vec<RunResult>, SimError> {
        let mut first = TwoPassProgress { observer, before: 0, done: 0 };
        let run = self.run_once(Some(0), &mut first)?;
        let fallback = run.touched.done / 5;
        let detected = warmup::settled_after(&run.courses());
        drop(run);
        let mut second = TwoPassProgress { before: first.done, done: 0, observer: first.observer };
        let run = self.run_once(Some(detected.unwrap_or(fallback)), &mut second)?;
        Ok(self.results(run, detected.is_some()))
    }

    /// Returns the notes that need the results of all schemes: on options that caused no work in
    /// any of them, and on too little address translation to distinguish schemes.
    fn notes_on(&self, results: &[RunResult]) -> Vec<String> {
        let counters: Vec<&Counters> = results.iter().map(|result| &result.counters).collect();
        let idle = idle_options::note_after(&self.schemes, &self.memory, &counters);
        // A run of one scheme is not a comparison, so it needs no such note.
        let entries = (results.len() > 1).then(|| self.machine.tlb.l2_entries(PageSize::Size4K));
        let little_work = entries.and_then(|entries| translation_work::note(&counters, entries));
        idle.into_iter().chain(little_work).collect()
    }

    /// Runs every scheme once. `warmup` is the length of the warm-up in instructions; `None` for
    /// the default.
    fn run_once(&self, warmup: Option<u64>, observer: &mut dyn Observer) -> Result<Run, SimError> {
        let ResolvedRun { workload, memory, measuring, processors, seed, .. } = self;
        let seed = *seed;
        let mut source = open_workload(workload, memory, seed)?;
        let metadata = source.metadata().clone();
        let options = self.run_options(&metadata, warmup);
        if self.schemes.iter().any(|scheme| scheme.host.is_some()) {
            memory.check_host()?;
        }
        measuring.check()?;
        let windows = measuring.timed_windows();
        let rule = windows.zip(measuring.precision);
        let rule = rule.map(|(windows, precision)| PrecisionRule::new(windows, precision));
        let window_warmup = measuring.window_warmup();
        processors.check()?;
        if processors.are_several() {
            match windows {
                Some(_) => return Err(SimError::SampledTiming),
                None if window_warmup > 0 => return Err(SimError::WindowWarmup),
                None => {}
            }
        }
        let is_functional = measuring.functional;
        self.machine.check_host_memory(processors.topology(), self.schemes.len(), is_functional)?;
        let mut simulations = Vec::new();
        for scheme in &self.schemes {
            let mut simulation = Simulation::new(&self.machine, *scheme, memory, seed, options)?;
            if !observer.wants_maps() {
                simulation = simulation.without_maps();
            }
            simulation = match windows {
                Some(windows) => simulation.with_timed_windows(windows, window_warmup, seed),
                None => simulation.with_window_warmup(window_warmup),
            };
            let simulation = simulation.with_hardware_threads(processors)?;
            let simulation = simulation.with_skipped(workload.skip);
            simulations.push(simulation.with_setup_until(metadata.setup_until));
        }
        let mut touched = Touched::new();
        let end = (metadata.instructions, rule.as_ref());
        let figures = run_all(simulations, source.as_mut(), &mut touched, end, observer);
        let figures = figures.map_err(|error| match error {
            SimError::WarmupTooLong { instructions: 0, .. } => SimError::NoInstructions {
                name: metadata.name.clone(),
                why: source.truncated().map_or_else(String::new, |cut| format!(": {cut}")),
            },
            SimError::TooMuchAsked { event, instruction, most, .. } => {
                let workload = metadata.name.clone();
                SimError::TooMuchAsked { workload, event, instruction, most }
            }
            error => error,
        })?;
        let notes = self.notes(&metadata, source.as_ref());
        Ok(Run { metadata, options, figures, touched, notes })
    }

    /// Converts the results of a pass over the workload to one record per scheme. `detected` is
    /// true if an earlier pass detected the length of the warm-up.
    fn results(&self, run: Run, detected: bool) -> Vec<RunResult> {
        let measuring = &self.measuring;
        let courses = run.courses();
        let Run { metadata, options, figures, touched, notes } = run;
        let touched_bytes = touched.footprint.bytes();
        let windows = measuring.timed_windows();
        let window_warmup = measuring.window_warmup();
        let precision = precision_note(measuring, touched.is_precise, touched.done, &figures);
        let history = touched.history.finish(touched.done, touched_bytes);
        let runs = self.schemes.iter().zip(figures).zip(courses);
        let results = runs.map(|((scheme, mut figures), course)| {
            let named = (scheme.name(), course);
            let (warmup, warmup_note) = self.judge_warmup(options.warmup, named, detected);
            figures.counters.record(TOUCHED, &touched_bytes);
            if metadata.has_events {
                figures.counters.record(ADVICES, &touched.advices);
            }
            for (point, &(instruction, bytes)) in figures.series.memory.iter_mut().zip(&history) {
                assert_eq!(point.instruction, instruction, "sampled at the same moments");
                point.touched_bytes = Some(bytes);
            }
            let from = touched.done.saturating_sub(figures.instructions);
            let represented = touched.gaps.represented(from, touched.done);
            let batches = match (represented, self.measuring.functional) {
                _ if windows.is_some() => window_batches(&figures.windows),
                (Some(_), false) => window_batches(&figures.windows),
                _ => figures.slices.batches(),
            };
            let mut notes = notes.clone();
            notes.extend(warmup_note);
            let sampled = if let Some(windows) = windows {
                notes.push(sampled::timing_note(windows, window_warmup, &figures.windows));
                notes.extend(precision.clone());
                let population = sampled::Population::Clock;
                sampled::estimate(&figures.windows, population, window_warmup, figures.instructions)
            } else {
                let population = if self.measuring.functional {
                    sampled::Population::Events
                } else {
                    sampled::Population::Program
                };
                let sampled = represented.and_then(|represented| {
                    sampled::estimate(&figures.windows, population, window_warmup, represented)
                });
                notes.extend(represented.map(|number| sampled::note(figures.instructions, number)));
                let (is_sample, has_figures) = (represented.is_some(), sampled.is_some());
                notes.extend(sampled::window_warmup_note(window_warmup, is_sample, has_figures));
                sampled
            };
            figures.record_speed(sampled.as_ref().filter(|_| windows.is_none()));
            let mut result = self.result(scheme, &metadata, &options, (figures, warmup), notes);
            if windows.is_some() {
                result.config["timing"] = serde_json::json!(measuring.timing);
            }
            RunResult { instructions_represented: represented, sampled, batches, ..result }
        });
        results.collect()
    }

    /// Returns the warm-up record of one scheme's run, and a note if the warm-up was too short.
    fn judge_warmup(
        &self,
        instructions: u64,
        named: (String, Steadiness),
        detected: bool,
    ) -> (Warmup, Option<String>) {
        let after = warmup::settled_after(std::slice::from_ref(&named.1));
        let warmup = Warmup {
            instructions,
            stated: self.measuring.stated_warmup().is_some(),
            detected,
            suggested_instructions: after.map(|after| instructions.saturating_add(after)),
        };
        let measuring = &self.measuring;
        let has_clock = !measuring.functional && measuring.timed_windows().is_none();
        let figure = warmup::figure_name(has_clock);
        let note = if measuring.detects_warmup() {
            Some(warmup::detection_note(instructions, figure, detected))
        } else {
            warmup::note(instructions, figure, &[named], warmup.suggested_instructions)
        };
        (warmup, note)
    }

    fn run_options(&self, metadata: &SourceMetadata, warmup: Option<u64>) -> RunOptions {
        let fifth = match metadata.setup_until {
            None => metadata.instructions.unwrap_or(0) / 5,
            Some(_) => 0, // The set-up warms caches and TLBs.
        };
        let warmup = warmup.unwrap_or(fifth);
        let implicit_maps = !metadata.has_events;
        let system = SystemOptions {
            check: self.measuring.check,
            implicit_maps,
            counts_only: self.measuring.functional,
        };
        RunOptions { functional: self.measuring.functional, system, warmup }
    }

    fn notes(&self, metadata: &SourceMetadata, source: &dyn Source) -> Vec<String> {
        let mut notes = vec![self.memory.describe()];
        if let Some(processors) = self.processors.describe() {
            notes.push(format!(
                "{processors}: IPC is that of all together, and cycles by cause are the mean of \
                 all; threads stay where they begin; shootdowns are waited for and answered in \
                 the run's cycles (interrupt_handler_ns and its neighbours in the machine file)"
            ));
        }
        notes.extend(self.machine.remarks.iter().cloned());
        notes.extend(self.options_without_effect());
        notes.extend(metadata.assumptions.iter().cloned());
        if let Some(truncation) = source.truncated() {
            notes.push(format!("the trace is incomplete: {truncation}"));
        }
        notes.extend(recording_notes(metadata));
        if !self.measuring.functional && !metadata.has_events {
            notes.push(
                "the trace has no events of mappings: the kernel maps what is touched first, and its work \
                 is not in any figure"
                    .into(),
            );
        }
        if !self.measuring.functional && metadata.has_events {
            notes.push(format!(
                "IPC is steady state; the figures with OS work add what page faults, clearing, copying, \
                 page tables and shootdowns took in the whole run, at the costs in the machine file, {}",
                self.machine.operating_system.origin()
            ));
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
            notes.extend(snapshot.left_out());
        }
        if self.memory.kernel.fragmentation.is_some() {
            notes.push(
                "fragmentation is injected per virtual 2MB region, the same in every scheme but \
                 the ideal one, as in the papers' emulation (P §VII.A)"
                    .into(),
            );
        }
        notes
    }

    /// Returns notes on options that have no effect under some or all of the schemes.
    fn options_without_effect(&self) -> Vec<String> {
        let mut notes = idle_options::notes_before(&self.schemes, &self.memory);
        notes.extend(idle_options::note_on_ideal(&self.schemes, &self.memory));
        notes.extend(idle_options::note_on_shadowed(&self.schemes));
        notes
    }

    /// Returns notes on direct segments that were never created, although the scheme of the guest
    /// or of the host uses direct segments.
    fn segment_notes(&self, composition: &Composition, figures: &Figures) -> Vec<String> {
        let name = composition.name();
        let host_memory = self.memory.host();
        let whose = if composition.host.is_some() { "guest's " } else { "" };
        let own = (composition.own, &self.memory, "segment_pages", whose);
        let host =
            composition.host.map(|host| (host, &host_memory, "host_segment_pages", "host's "));
        let sides = std::iter::once(own).chain(host);
        let missing = sides.filter(|(scheme, _, counter, _)| {
            segment::is_used_by(scheme) && figures.counters.get(counter) == Some(0.0)
        });
        let note = |(scheme, memory, _, whose): (&Scheme, &MemoryState, _, _)| {
            format!(
                "{name}: there never was a {whose}segment: no area large enough was touched, or no \
                 contiguous memory was left for it ({})",
                scheme.describe_policy(&memory.policy_options())
            )
        };
        missing.map(note).collect()
    }

    /// Returns a note if the `superpages` option selects another mode of gap-tolerant superpages
    /// than the scheme's name.
    fn mode_note(&self, scheme: &Composition) -> Option<String> {
        let mode = scheme.own.mode(&self.memory).ok().flatten()?;
        (Some(mode) != scheme.own.gap_tolerance)
            .then(|| format!("{}: the mode is {} (superpages)", scheme.name(), mode.label()))
    }

    /// Returns a note if fragmented memory had no perforated page, or if the state of memory
    /// selected the perforation policy; otherwise `None`.
    fn policy_note(&self, scheme: &Composition, figures: &Figures) -> Option<String> {
        let (scheme, name) = (scheme.own, scheme.name());
        if !scheme.shadow_directories {
            return None;
        }
        let none = figures.counters.get("perforated_pages") == Some(0.0);
        let options = self.memory.policy_options();
        let policy = scheme.describe_policy(&options);
        let is_chosen = scheme.describe_policy(&self.memory.policies) != policy;
        if !none && is_chosen {
            return Some(format!(
                "{name}: on aged memory, blocks are perforated as P §III.C does ({policy}); \
                 --perforation max-hole-share=100%,max-filter-bits=8 takes every block"
            ));
        }
        let has_fragments = self.memory.kernel.fragmentation.is_some() || options.has_aged_blocks;
        let forbids = match figures.counters.get("huge_page_refusals") {
            Some(calls) if calls > 0.0 => {
                " that it does not forbid large pages for (MADV_NOHUGEPAGE)"
            }
            _ => "",
        };
        (has_fragments && none).then(|| {
            format!(
                "{name}: there never was a perforated page: no fragmented block met its policy \
                 ({policy}), or the program has no 2MB of memory in one{forbids}"
            )
        })
    }

    fn result(
        &self,
        composition: &Composition,
        metadata: &SourceMetadata,
        options: &RunOptions,
        (figures, warmup): (Figures, Warmup),
        mut notes: Vec<String>,
    ) -> RunResult {
        notes.extend(self.segment_notes(composition, &figures));
        notes.extend(self.policy_note(composition, &figures));
        notes.extend(self.mode_note(composition));
        notes.extend(refused_note(metadata, &figures.counters));
        notes.extend(idle_options::missing_huge_pages(composition, &figures.counters));
        let counters = &figures.counters;
        notes.extend(idle_options::missing_laid_out_pages(composition, &self.memory, counters));
        let transitions = figures.mode_transitions.iter();
        notes.extend(transitions.map(|line| format!("{}: {line}", composition.name())));
        let host_memory = self.memory.host();
        let mut config = serde_json::json!({
            "machine": self.machine,
            "memory": self.memory,
            "scheme": describe(composition.own, &self.memory),
            "host_scheme": composition.host.map(|host| describe(host, &host_memory)),
            "host_memory": composition.host.map(|_| &host_memory),
            "implicit_maps": options.system.implicit_maps,
            "workload": metadata,
            "seed": self.seed,
            "functional": self.measuring.functional,
            "check": self.measuring.check,
            "warmup_instructions": options.warmup,
            "skipped_instructions": self.workload.skip,
            "instructions_limit": self.workload.instructions,
        });
        if self.processors.are_several() {
            config["processors"] = serde_json::json!(self.processors);
        }
        RunResult {
            scheme: composition.name(),
            guest: composition.host.map(|_| composition.own.name.into()),
            host: composition.host.map(|host| host.name.into()),
            workload: metadata.name.clone(),
            machine: self.machine.name.clone(),
            seed: self.seed,
            instructions: figures.instructions,
            instructions_represented: None,
            sampled: None,
            batches: Batches::default(),
            warmup,
            cycles: figures.cycles,
            ipc: figures.cycles.map(|cycles| figures.instructions as f64 / cycles.max(1) as f64),
            hardware_threads: figures.threads,
            counters: figures.counters,
            series: figures.series,
            regions: figures.regions,
            memory_maps: figures.memory_maps,
            mode_transitions: figures.mode_transitions,
            notes,
            config,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// Returns a note on the precision that a run with sampled timing reached; `None` if no precision
/// was requested.
fn precision_note(
    measuring: &MeasuringOptions,
    is_reached: bool,
    instructions: u64,
    figures: &[Figures],
) -> Option<String> {
    let precision = measuring.timed_windows().and(measuring.precision)?;
    if is_reached {
        return Some(format!(
            "the run ended after {instructions} instructions, when IPC and speed-ups were known to \
             ±{precision}; what the program does later is not in any figure"
        ));
    }
    let windows: Vec<&[PartCounts]> = figures.iter().map(|it| it.windows.as_slice()).collect();
    let reached = sampled::widest(&windows)
        .map_or("no interval".into(), |width| format!("±{:.1}%", width * 100.0));
    Some(format!("a precision of ±{precision} was not reached: {reached} at the end"))
}

/// Converts the counts of each window of a sampled run to the batches of results files, which are
/// parts of the run with counts of their own.
fn window_batches(windows: &[PartCounts]) -> Batches {
    let mut batches = Batches::default();
    for window in windows {
        batches.push(window.instructions, window.cycles, window.translation_stall_cycles);
    }
    batches
}

/// Returns the description of a scheme for results files, as JSON: its name, its source, its policy
/// and its mechanisms.
fn describe(scheme: &Scheme, memory: &MemoryState) -> serde_json::Value {
    serde_json::json!({
        "name": scheme.name,
        "summary": scheme.summary,
        "source": scheme.source,
        "policy": scheme.describe_policy(&memory.policy_options()),
        "tlb_variant": format!("{:?}", scheme.bitmap_loading.unwrap_or_default()),
        "ideal_memory": scheme.ideal_memory,
        "free_translation": scheme.free_translation,
        "shadow_directories": scheme.shadow_directories,
        "gap_tolerance": scheme.mode(memory).ok().flatten().map(GapTolerance::label),
    })
}
