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

/// Note on a workload whose length is not known before its end, so that there is no warm-up by default.
const NO_WARMUP: &str = "there is no warm-up, as the length is not known before the end: caches and TLBs fill while it is \
                         measured (--warmup N sets one; a foreign trace has a known length once `perforate trace \
                         convert` has converted it)";

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
        let Run { metadata, options, figures, mut touched, notes } = run;
        let touched_bytes = touched.footprint.bytes();
        let windows = measuring.timed_windows();
        let window_warmup = measuring.window_warmup();
        let precision = precision_note(measuring, touched.is_precise, touched.done, &figures);
        touched.history.add_last(touched.done, touched_bytes);
        let history: Vec<(u64, u64)> = touched.history.into_points().collect();
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
        let warmup = warmup.or_else(|| metadata.default_warmup()).unwrap_or(0);
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
        if self.measuring.warmup.is_none() && metadata.default_warmup().is_none() {
            notes.push(NO_WARMUP.into());
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

#[cfg(test)]
mod tests {
    use perforate_config::{OptionTexts, Share};
    use perforate_os::{FrameState, HostSnapshot, OccupancyBuilder};
    use perforate_trace::{TraceError, Truncation};
    use perforate_types::Chunk;

    use super::*;
    use crate::{
        Machine, MemoryOptions, MemorySnapshot, ProcessorOptions, Silent, TimedWindows, Timing,
        WarmupLength, Workload,
    };

    fn resolved(schemes: &str, memory: &[(&str, &str)], functional: bool) -> ResolvedRun {
        let options = MemoryOptions::read(memory.iter().copied().collect::<OptionTexts>()).unwrap();
        let workload = Workload { instructions: Some(2_000), ..Workload::named("random:size=1M") };
        let mut run = ResolvedRun::new(workload, Composition::list(schemes).unwrap());
        run.memory = options.resolve(&|_| Ok(snapshot())).unwrap();
        run.measuring.functional = functional;
        run
    }

    fn snapshot() -> MemorySnapshot {
        let mut made = OccupancyBuilder::default();
        made.push_run(FrameState::Free, 16 << 10).unwrap();
        let mut snapshot = HostSnapshot::of(made.finish().unwrap());
        snapshot.about.swap_bytes = 1 << 30;
        MemorySnapshot::taken("s.snap", snapshot).unwrap()
    }

    /// Source without instructions, which may be cut off.
    struct Nothing(SourceMetadata, Option<Truncation>);

    impl Source for Nothing {
        fn metadata(&self) -> &SourceMetadata {
            &self.0
        }

        fn next_chunk(&mut self, _: &mut Chunk) -> Result<bool, TraceError> {
            Ok(false)
        }

        fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
            Ok(0)
        }

        fn truncated(&self) -> Option<&Truncation> {
            self.1.as_ref()
        }
    }

    /// All notes that do not depend on results, in their order.
    #[test]
    fn notes_on_the_conditions_of_a_run() {
        const STEADY: &str = "IPC is steady state; the figures with OS work add what page faults, \
            clearing, copying, page tables and shootdowns took in the whole run, at the costs in the \
            machine file, ";
        const IMPLICIT: &str = "the trace has no events of mappings: the kernel maps what is touched \
            first, and its work is not in any figure";
        const INJECTED: &str = "fragmentation is injected per virtual 2MB region, the same in every \
            scheme but the ideal one, as in the papers' emulation (P §VII.A)";
        const CORES: &str = "2 cores: IPC is that of all together, and cycles by cause are the mean \
            of all; threads stay where they begin; shootdowns are waited for and answered in the \
            run's cycles (interrupt_handler_ns and its neighbours in the machine file)";
        let small = ("memory", "1G");
        let fragmented = [small, ("fragmentation", "portion=50%,holes=25%,clustered")];
        let origin = Machine::load(Machine::DEFAULT).unwrap().operating_system.origin();
        let steady = format!("{STEADY}{origin}");
        let plain = "1GB of memory, not fragmented";
        let fragments = "1GB of memory, fragmented: portion=50%,holes=25%,clustered";
        let from = "memory begins with the frames free, movable and fixed that s.snap had";
        let swap = "s.snap has 1G of swap, which the simulated memory does not take over: --swap and \
                    --ksm give it its own";
        let ideal_from = format!("{from}; the ideal scheme has as much memory, all of it free");
        for (schemes, memory, functional, has_events, expected) in [
            ("4k", &[small][..], true, true, vec![plain]),
            ("4k", &[small], true, false, vec![plain]),
            ("4k", &[small], false, true, vec![plain, &steady]),
            ("4k", &[small], false, false, vec![plain, IMPLICIT]),
            ("4k,ideal", &fragmented, true, true, vec![fragments, INJECTED]),
            (
                "4k+4k",
                &[small, ("host-memory", "2G")],
                true,
                true,
                vec![plain, "host: 2GB of memory, not fragmented"],
            ),
            (
                "4k",
                &[("memory-from", "x")],
                true,
                true,
                vec!["64MB of memory as in s.snap", from, swap],
            ),
            (
                "4k,ideal",
                &[("memory-from", "x")],
                true,
                true,
                vec!["64MB of memory as in s.snap", &ideal_from, swap],
            ),
            (
                "4k",
                &[small, ("segment", "min=16M")],
                true,
                true,
                vec!["", "segment has no effect: no scheme here has direct segments"],
            ),
            (
                "4k,ideal",
                &[small, ("age", "weeks")],
                true,
                true,
                vec!["", "the ideal scheme runs without age"],
            ),
            ("4k", &[small], true, true, vec![plain]),
        ] {
            let run = resolved(schemes, memory, functional);
            let instructions = Some(1_000);
            let metadata = SourceMetadata { has_events, instructions, ..SourceMetadata::default() };
            let mut found = run.notes(&metadata, &Nothing(metadata.clone(), None));
            if expected[0].is_empty() {
                found[0].clear();
            }
            assert_eq!(found, expected, "{schemes} {memory:?}");
        }
        let mut run = resolved("4k", &[small], true);
        run.processors = ProcessorOptions { cores: 2, ..ProcessorOptions::default() };
        run.machine.remarks = vec!["a remark".into()];
        let metadata = SourceMetadata {
            assumptions: vec!["an assumption".into()],
            is_cut_off: true,
            ..SourceMetadata::default()
        };
        let problem = "no end".into();
        let cut = Truncation { offset: 9, instructions: 4, problem };
        let incomplete = format!("the trace is incomplete: {cut}");
        let cut_off =
            format!("{}: what share of the program the trace is is not known", crate::CUT_OFF);
        let found = run.notes(&metadata, &Nothing(metadata.clone(), Some(cut)));
        let expected =
            [plain, CORES, "a remark", "an assumption", &incomplete, NO_WARMUP, &cut_off];
        assert_eq!(found, expected);
        // Without a stated warm-up, there is one if the length is known, or a set-up that warms.
        for (instructions, setup_until, warmup, is_noted) in [
            (None, None, None, true),
            (Some(9), None, None, false),
            (None, Some("run"), None, false),
            (None, None, Some(WarmupLength::Instructions(0)), false),
            (None, None, Some(WarmupLength::Detected), false),
        ] {
            run.measuring.warmup = warmup;
            let metadata =
                SourceMetadata { instructions, setup_until, ..SourceMetadata::default() };
            let notes = run.notes(&metadata, &Nothing(metadata.clone(), None));
            assert_eq!(notes.iter().any(|note| note == NO_WARMUP), is_noted);
        }
    }

    /// The warm-up is a fifth of a known length; it is 0 if the program has a set-up.
    #[test]
    fn warm_ups_and_mappings_follow_from_the_source() {
        for (instructions, setup_until, stated, expected) in [
            (Some(1_004), None, None, 200),
            (None, None, None, 0),
            (Some(1_000), Some("run"), None, 0),
            (Some(1_000), Some("run"), Some(7), 7),
            (Some(1_000), None, Some(0), 0),
        ] {
            for functional in [false, true] {
                let mut run = resolved("4k", &[], functional);
                run.measuring.check = functional;
                let has_events = functional;
                let metadata =
                    SourceMetadata { instructions, setup_until, has_events, ..Default::default() };
                let options = run.run_options(&metadata, stated);
                let system = SystemOptions {
                    check: functional,
                    implicit_maps: !has_events,
                    counts_only: functional,
                };
                assert_eq!((options.warmup, options.functional), (expected, functional));
                assert_eq!(options.system, system);
            }
        }
    }

    #[test]
    fn warm_ups_are_judged() {
        let judge = |warmup, functional, timing, detected, course| {
            let mut run = resolved("4k", &[], functional);
            (run.measuring.warmup, run.measuring.timing) = (warmup, timing);
            run.judge_warmup(1_000, ("4k".into(), course), detected)
        };
        let late = Steadiness::Steady { after: 500, change: -0.5 };
        let stated = Some(WarmupLength::Instructions(1_000));
        let sampled = Timing::Sampled(TimedWindows::default());
        let warmup = |stated, detected, suggested_instructions| Warmup {
            instructions: 1_000,
            stated,
            detected,
            suggested_instructions,
        };
        let note = |figure: &str| {
            format!(
                "the first 500 instructions after the warm-up differ from the rest: without them, \
                 {figure} of 4k change by -50.0 %; try a warmup of 1500"
            )
        };
        let (cycles, misses) = ("cycles per instruction", "L2 TLB misses per instruction");
        let found = judge(None, false, Timing::Full, false, late);
        assert_eq!(found, (warmup(false, false, Some(1_500)), Some(note(cycles))));
        let found = judge(stated, true, Timing::Full, false, late);
        assert_eq!(found, (warmup(true, false, Some(1_500)), Some(note(misses))));
        let found = judge(stated, false, sampled, false, late);
        assert_eq!(found.1, Some(note(misses)));
        let found = judge(None, false, Timing::Full, false, Steadiness::Short);
        assert_eq!(found, (warmup(false, false, None), None));
        let detected = Some(WarmupLength::Detected);
        let found = judge(detected, false, Timing::Full, true, Steadiness::Short);
        let expected = "warm-up: 1000 instructions, after which cycles per instruction have settled \
                        under every scheme";
        assert_eq!(found, (warmup(false, true, None), Some(expected.into())));
        let (_, note) = judge(detected, false, Timing::Full, false, late);
        assert!(note.unwrap().starts_with("warm-up: a fifth, 1000 instructions: cycles per"));
    }

    fn figures(run: &ResolvedRun, counters: &[(&str, u64)]) -> Figures {
        let mut found = run.run_once(Some(0), &mut Silent).unwrap().figures.remove(0);
        let counted = found.counters.iter().map(|(name, value)| (name.to_owned(), value));
        let changed = counters.iter().map(|(name, count)| ((*name).to_owned(), (*count).into()));
        found.counters = counted.chain(changed).collect();
        found
    }

    /// Each note on a result is there where its count is zero and the scheme could have had more.
    #[test]
    fn notes_on_what_a_result_lacks() {
        let fragmented = ("fragmentation", "portion=50%,holes=25%,clustered");
        let run = |schemes, memory: &[(&str, &str)]| {
            resolved(schemes, &[&[("memory", "256M")], memory].concat(), true)
        };
        let policy_note = |run: &ResolvedRun, counters: &[(&str, u64)]| {
            run.policy_note(&run.schemes[0], &figures(run, counters))
        };
        let plain = run("perforated", &[]);
        let none = ("perforated_pages", 0);
        assert_eq!(policy_note(&plain, &[none]), None);
        let fragments = run("perforated", &[fragmented]);
        let never = "perforated: there never was a perforated page: no fragmented block met its \
                     policy (perforated), or the program has no 2MB of memory in one";
        assert_eq!(policy_note(&fragments, &[none]).as_deref(), Some(never));
        let forbids = format!("{never} that it does not forbid large pages for (MADV_NOHUGEPAGE)");
        assert_eq!(policy_note(&fragments, &[none, ("huge_page_refusals", 1)]), Some(forbids));
        let none_refused = policy_note(&fragments, &[none, ("huge_page_refusals", 0)]);
        assert_eq!(none_refused.as_deref(), Some(never));
        assert_eq!(policy_note(&fragments, &[("perforated_pages", 1)]), None);
        assert_eq!(policy_note(&run("thp", &[fragmented]), &[none]), None);
        let aged = run("perforated", &[("age", "weeks")]);
        let chosen = "perforated: on aged memory, blocks are perforated as P §III.C does \
                      (perforated:max-hole-share=25%,max-filter-bits=4); --perforation \
                      max-hole-share=100%,max-filter-bits=8 takes every block";
        assert_eq!(policy_note(&aged, &[("perforated_pages", 1)]).as_deref(), Some(chosen));
        let note = policy_note(&aged, &[none]).unwrap();
        assert!(note.starts_with("perforated: there never was a perforated page"), "{note}");

        let segment_notes = |schemes, counters: &[(&str, u64)]| {
            let run = run(schemes, &[("host-memory", "512M")]);
            run.segment_notes(&run.schemes[0], &figures(&run, counters))
        };
        let lacks = |scheme: &str, whose: &str| {
            format!(
                "{scheme}: there never was a {whose}segment: no area large enough was touched, or no \
                 contiguous memory was left for it (segment)"
            )
        };
        let (own, host) = ("segment_pages", "host_segment_pages");
        let both = "segment+segment";
        for (schemes, counters, expected) in [
            ("segment", [(own, 0), (host, 0)], vec![lacks("segment", "")]),
            ("segment", [(own, 1), (host, 0)], vec![]),
            ("4k", [(own, 0), (host, 0)], vec![]),
            (both, [(own, 0), (host, 1)], vec![lacks(both, "guest's ")]),
            (both, [(own, 1), (host, 0)], vec![lacks(both, "host's ")]),
            (both, [(own, 0), (host, 0)], vec![lacks(both, "guest's "), lacks(both, "host's ")]),
            ("4k+segment", [(own, 0), (host, 1)], vec![]),
            ("segment+4k", [(own, 1), (host, 0)], vec![]),
        ] {
            assert_eq!(segment_notes(schemes, &counters), expected, "{schemes} {counters:?}");
        }
    }

    #[test]
    fn precisions_are_noted_with_sampled_timing() {
        let measuring = |timing, precision| MeasuringOptions {
            timing,
            precision,
            ..MeasuringOptions::default()
        };
        let sampled = Timing::Sampled(TimedWindows::default());
        let five = Some(Share::percent(5));
        let note = |measuring: &MeasuringOptions, is_reached| {
            precision_note(measuring, is_reached, 70, &[])
        };
        for (timing, precision) in [(Timing::Full, five), (sampled, None)] {
            assert_eq!(note(&measuring(timing, precision), true), None);
        }
        let wanted = measuring(sampled, five);
        assert_eq!(
            note(&wanted, true).unwrap(),
            "the run ended after 70 instructions, when IPC and speed-ups were known to ±5%; what the \
             program does later is not in any figure"
        );
        let run = resolved("4k", &[], true);
        let unknown = precision_note(&wanted, false, 70, &[figures(&run, &[])]).unwrap();
        assert_eq!(unknown, "a precision of ±5% was not reached: no interval at the end");
    }

    #[test]
    fn windows_are_batches() {
        let window = |factor| PartCounts {
            instructions: factor,
            cycles: 2 * factor,
            translation_cycles: 3 * factor,
            translation_stall_cycles: 4 * factor,
            l2_tlb_misses: 5 * factor,
            walks: 6 * factor,
        };
        let mut expected = Batches::default();
        expected.push(1, 2, 4);
        expected.push(10, 20, 40);
        assert_eq!(window_batches(&[window(1), window(10)]), expected);
    }

    /// Configurations in results describe the run; a host and several processors are there if the run has
    /// them.
    #[test]
    fn results_say_what_was_run() {
        let mut run = resolved("4k,thp+4k", &[("memory", "1G"), ("host-memory", "2G")], true);
        run.measuring.check = true;
        run.measuring.warmup = Some(WarmupLength::Instructions(500));
        (run.seed, run.workload.skip) = (9, 100);
        let results = super::run(&run, &mut Silent).unwrap();
        let [native, guest] = &results[..] else { panic!("two results") };
        for (result, scheme, own, host) in
            [(native, "4k", None, None), (guest, "thp+4k", Some("thp"), Some("4k"))]
        {
            assert_eq!((&*result.scheme, result.seed), (scheme, 9));
            assert_eq!((result.guest.as_deref(), result.host.as_deref()), (own, host));
            assert_eq!((&*result.machine, result.instructions), ("perforated-table2", 1_500));
            assert_eq!((result.cycles, result.ipc), (None, None));
            let config = &result.config;
            for (key, value) in [
                ("seed", serde_json::json!(9)),
                ("functional", true.into()),
                ("check", true.into()),
                ("implicit_maps", false.into()),
                ("warmup_instructions", 500.into()),
                ("skipped_instructions", 100.into()),
                ("instructions_limit", 2_000.into()),
            ] {
                assert_eq!(config[key], value, "{key}");
            }
            assert_eq!(config["scheme"]["name"], own.unwrap_or(scheme));
            assert_eq!(config["memory"]["memory_bytes"], 1 << 30);
            assert_eq!(config["host_scheme"]["name"].as_str(), host);
            let of_host = config["host_memory"]["memory_bytes"].as_u64();
            assert_eq!(of_host, host.map(|_| 2 << 30));
            assert!(config.get("processors").is_none() && config.get("timing").is_none());
            assert!(result.warmup.stated && !result.warmup.detected);
        }
        run.processors.threads_per_core = 2;
        run.measuring.check = false;
        let result = super::run(&run, &mut Silent).unwrap().remove(0);
        assert_eq!(result.config["processors"]["threads_per_core"], 2);
        assert_eq!(result.config["check"], false);
    }

    #[test]
    fn counters_of_the_source_are_its_own() {
        let mut counters = Counters::default();
        counters.record(ADVICES, &HugePageAdvices { wanted: 6, refused: 2 });
        counters.record(TOUCHED, &77);
        for (name, value) in
            [("huge_page_advices", 6.0), ("huge_page_refusals", 2.0), ("touched_bytes", 77.0)]
        {
            assert_eq!(counters.get(name), Some(value));
        }
    }

    /// Options that several hardware threads exclude, and runs without instructions to measure.
    #[test]
    fn runs_that_cannot_be() {
        let error = |change: fn(&mut ResolvedRun)| {
            let mut run = resolved("4k", &[("memory", "256M")], false);
            change(&mut run);
            super::run(&run, &mut Silent).unwrap_err().to_string()
        };
        let sampled = error(|run| {
            run.processors.cores = 2;
            run.measuring.timing = Timing::Sampled(TimedWindows::default());
        });
        assert!(sampled.starts_with("sampled timing is for one hardware thread"), "{sampled}");
        let window_warmup = error(|run| {
            run.processors.cores = 2;
            run.measuring.window_warmup = Some(perforate_config::Count::new(1));
        });
        assert!(window_warmup.starts_with("window-warmup is for one"), "{window_warmup}");
        let none = error(|run| run.workload.instructions = Some(0));
        assert_eq!(none, "random:size=1M,others=3,writes=0%: no instructions to run");
        let all = error(|run| run.measuring.warmup = Some(WarmupLength::Instructions(2_000)));
        let rest = "nothing is left to measure";
        assert_eq!(all, format!("warmup of 2000 instructions: the run has only 2000; {rest}"));
        let host = error(|run| {
            run.schemes = Composition::list("4k+4k").unwrap();
            run.memory.host = Some(Box::new(MemoryState::of(128 << 20)));
        });
        assert!(host.starts_with("a guest with 256M of memory"), "{host}");
    }

    /// The first of two passes finds where the run settles. A run too short for that, or one that never
    /// settles, has a warm-up of a fifth. Progress is that of both passes.
    #[test]
    fn warm_ups_are_detected_in_a_first_pass() {
        for (instructions, is_detected) in [(2_005, false), (40_000, true)] {
            let mut run = resolved("4k,thp", &[("memory", "256M")], true);
            run.measuring.warmup = Some(WarmupLength::Detected);
            run.workload.instructions = Some(instructions);
            let mut told = Vec::new();
            let mut observer =
                |progress: crate::Progress| told.push((progress.done, progress.total));
            let results = super::run(&run, &mut observer).unwrap();
            assert_eq!(results[0].warmup.instructions, results[1].warmup.instructions);
            for result in results {
                let Warmup { instructions: warmup, stated, detected, .. } = result.warmup;
                assert_eq!((stated, detected), (false, is_detected));
                assert_eq!(result.instructions + warmup, instructions);
                if !is_detected {
                    assert_eq!(warmup, 401);
                }
                let start = if is_detected { "warm-up: " } else { "warm-up: a fifth, 401 ins" };
                assert!(result.notes.iter().any(|note| note.starts_with(start)));
            }
            assert!(told.is_sorted(), "{told:?}");
            assert!(told.iter().all(|(_, total)| *total == Some(2 * instructions)), "{told:?}");
        }
    }

    /// A program's set-up is neither measured nor a part of the warm-up.
    #[test]
    fn set_ups_are_not_measured() {
        let mut run = resolved("4k", &[("memory", "256M")], true);
        run.workload = Workload::named("fork:heap=2M");
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let scheme = crate::Scheme::find("4k").unwrap();
        let spec = perforate_workloads::WorkloadSpec::parse("fork:heap=2M").unwrap();
        let place = (&machine, &run.memory);
        let mut phased = crate::PhasedRun::new(place, scheme, &spec, 1, (false, false)).unwrap();
        phased.run_until("fork").unwrap();
        let setup = phased.simulation.instructions();
        while phased.next_phase().unwrap().is_some() {}
        let all = phased.simulation.instructions();
        for (warmup, expected) in [(None, all - setup), (Some(10), all - setup - 10)] {
            run.measuring.warmup = warmup.map(WarmupLength::Instructions);
            let result = super::run(&run, &mut Silent).unwrap().remove(0);
            assert_eq!(result.instructions, expected, "{all} with {setup} before");
            assert_eq!(result.warmup.instructions, warmup.unwrap_or(0));
        }
    }

    /// Notes on all results are in each; one scheme alone is no comparison.
    #[test]
    fn notes_on_all_results_are_in_each() {
        let notes = |schemes: &str, options: &[(&str, &str)]| -> Vec<Vec<bool>> {
            let run = resolved(schemes, options, true);
            let results = super::run(&run, &mut Silent).unwrap();
            let starts =
                ["there is too little translation work", "had no effect in this run: swap"];
            let has = |result: &RunResult, start: &&str| {
                result.notes.iter().any(|note| note.starts_with(*start))
            };
            let of = |result| starts.iter().map(|start| has(result, start)).collect();
            results.iter().map(of).collect()
        };
        let memory = ("memory", "256M");
        assert_eq!(notes("4k", &[memory]), [[false, false]]);
        assert_eq!(notes("4k,thp", &[memory]), [[true, false]; 2]);
        assert_eq!(notes("4k,thp", &[memory, ("swap", "1G")]), [[true, true]; 2]);
        assert_eq!(notes("4k", &[memory, ("swap", "1G")]), [[false, true]]);
    }
}
