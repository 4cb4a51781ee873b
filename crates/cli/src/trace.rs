//! `perforate trace`: describes and converts traces.

mod areas;

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::actions::{Failure, write_whole};
use clap::{Args, Subcommand};
use perforate_config::{Count, Size};
use perforate_record::stop_or_end_on_interrupt;
use perforate_sim::{open_trace, recording_notes};
use perforate_trace::{
    Compression, ForeignWriter, Limited, Losses, PageMap, STANDARD_INPUT, Schedule, Source,
    TraceFormat, TraceSummary, TraceWriter, WriterOptions, formats_of_name, metadata_for,
    split_format, standard_input_bytes, write_chunk,
};
use perforate_types::{
    Chunk, ChunkItem, Instruction, MemoryAccess, Permissions, ProcessId, ProgramEvent, ThreadId,
    counted,
};
use perforate_workloads::WorkloadSpec;

use crate::output::{notes, per_instruction, print, text_columns};
use crate::progress::Bar;
use areas::Areas;

/// Maximum number of pages that are counted, because a small trace may touch arbitrarily many.
const MOST_PAGES: usize = 1 << 23;

/// Look into and convert traces.
#[derive(Args)]
pub struct TraceArguments {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    /// Contents of a trace: instructions, accesses, pages, events
    #[command(after_help = "Examples:
  perforate trace info traces/redis.trace
  perforate trace info drmemtrace.app.7.0000.dir   # also says what the format lacks
  perforate trace info cloudsuite:x.xz             # if the content does not identify the format")]
    Info {
        /// Trace of any format that can be read, or a bundled trace; `-` is a trace on standard input
        file: String,
    },
    /// The first instructions and events in words
    #[command(after_help = "Example:\n  perforate trace head my.trace --instructions 100")]
    Head {
        /// Trace of any format that can be read, or a bundled trace; `-` is a trace on standard input
        file: String,
        /// Instructions to show
        #[arg(long, value_name = "N", default_value_t = Count::new(20))]
        instructions: Count,
    },
    /// Convert a foreign trace or a workload into a Perforate trace, or a Perforate trace into a foreign one
    #[command(after_help = "Examples:
  perforate trace convert 429.mcf.champsimtrace.xz -o mcf.trace
  perforate trace convert drmemtrace.app.7.0000.dir -o app.trace
  perforate trace convert random:size=1G --instructions 1000000 -o random.trace
  perforate trace convert redis --instructions 1000000 -o redis.champsimtrace.xz
  perforate trace convert redis --instructions 1000 -o redis.csv
Formats read: perforate, champsim, cloudsuite, drmemtrace, gem5, lackey, csv.
docs/foreign-traces.md says what each lacks and what is assumed instead.")]
    Convert {
        /// Trace of any format that can be read, or a workload; FORMAT:FILE says which format, `-`
        /// is a trace on standard input
        file: String,
        /// The trace file to write; .champsimtrace and .csv, also with .xz, .gz or .zst, are
        /// foreign traces
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Format to write, where the name of the file does not say it
        #[arg(long, value_name = "FORMAT", value_parser = ["perforate", "champsim", "csv"], ignore_case = true)]
        to: Option<String>,
        /// Instructions to convert at most; those of a workload's set-up come before them and do not count
        #[arg(long, value_name = "N")]
        instructions: Option<Count>,
        /// Compression level, 1 to 22 (at most 9 for .xz and .gz) [default: 3]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22))]
        level: Option<i32>,
    },
}

/// Compression level of a converted trace by default.
const LEVEL: i32 = 3;

/// Describes or converts a trace.
pub fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    match &arguments.command {
        TraceCommand::Info { file } => info(file),
        TraceCommand::Head { file, instructions } => head(file, instructions.get()),
        TraceCommand::Convert { file, output, to, instructions, level } => {
            let target = Target::new(output, to.as_deref(), *level)?;
            convert(file, output, instructions.map(Count::get), target)
        }
    }
}

/// Numbers of instructions, accesses, pages and events of a trace, counted in one pass over the trace.
#[derive(Default)]
struct Contents {
    instructions: u64,
    reads: u64,
    writes: u64,
    branches: u64,
    events: u64,
    /// Data pages that were accessed, with their process.
    pages: HashSet<(ProcessId, u64)>,
    processes: BTreeSet<ProcessId>,
    threads: BTreeSet<ThreadId>,
    running: (ProcessId, ThreadId),
    /// Number of gaps between windows.
    gaps: u64,
    /// Number of instructions of the program that the trace leaves out, in all gaps together.
    skipped: u64,
    areas: Areas,
}

impl Contents {
    fn add(&mut self, chunk: &Chunk) {
        self.instructions += chunk.instructions.len() as u64;
        self.events += chunk.events.len() as u64;
        let (mut process, _) = self.running;
        for (process, accesses) in chunk.accesses_by_process(&mut process) {
            for access in accesses {
                let write = access.kind == perforate_types::AccessKind::Write;
                *if write { &mut self.writes } else { &mut self.reads } += 1;
                if self.pages.len() < MOST_PAGES {
                    self.pages.insert((process, access.address.page().number()));
                }
            }
        }
        self.count_events(chunk);
        self.areas.add(chunk);
        let branch =
            |instruction: &&Instruction| instruction.branch != perforate_types::Branch::None;
        self.branches += chunk.instructions.iter().filter(branch).count() as u64;
    }

    /// Counts processes, threads and gaps in the events of a chunk.
    fn count_events(&mut self, chunk: &Chunk) {
        let mut from = 0;
        for (at, event) in &chunk.events {
            match event {
                ProgramEvent::Switch { process, thread } => {
                    self.count_thread(from < *at);
                    (self.running, from) = ((*process, *thread), *at);
                }
                ProgramEvent::Gap { instructions } => {
                    self.gaps += 1;
                    self.skipped = self.skipped.saturating_add(*instructions);
                }
                _ => {}
            }
        }
        self.count_thread((from as usize) < chunk.instructions.len());
    }

    fn count_thread(&mut self, has_run: bool) {
        if has_run {
            self.processes.insert(self.running.0);
            self.threads.insert(self.running.1);
        }
    }

    /// Lines of text for traces that have several threads or gaps.
    fn details(&self) -> String {
        let mut text = String::new();
        if self.threads.len() > 1 {
            let (processes, threads) = (self.processes.len(), self.threads.len());
            text += &format!("processes     {processes}\nthreads       {threads}\n");
        }
        if self.skipped > 0 {
            let all = self.instructions.saturating_add(self.skipped);
            text += &format!(
                "gaps          {}, {} instructions passed over: multiply counts by {:.2}\n",
                self.gaps,
                self.skipped,
                all as f64 / self.instructions.max(1) as f64,
            );
        }
        text
    }
}

/// Opens a trace by its path or name. Refuses the name of a workload.
fn open_recorded(file: &str) -> Result<(String, Box<dyn Source>), Failure> {
    if WorkloadSpec::is_workload(file) && !Path::new(file).exists() {
        return Err(Failure::Usage(format!(
            "{file} is a workload, not a trace; `perforate trace convert` makes a trace of it"
        )));
    }
    Ok(open_trace(file)?)
}

fn info(file: &str) -> Result<(), Failure> {
    let (path, mut source) = open_recorded(file)?;
    let bar = Bar::instructions("reading");
    let total = source.metadata().instructions;
    let (mut contents, mut chunk) = (Contents::default(), Chunk::default());
    while source.next_chunk(&mut chunk)? {
        contents.add(&chunk);
        bar.show(perforate_sim::Progress { done: contents.instructions, total });
    }
    drop(bar);
    let metadata = source.metadata();
    let bytes = length_on_disk(split_format(Path::new(&path)).1);
    let has = |present| if present { "yes" } else { "no" };
    let mut text = format!(
        "{path}: {} format, {bytes} bytes{}\n\
         instructions  {}\nreads         {}\nwrites        {}\nbranches      {}\n\
         data pages    {}{} of 4KB ({} MB)\nevents        {}\n{}\
         knows map events: {}, register dependencies: {}, branches: {}\n",
        metadata.format,
        per_instruction(bytes, contents.instructions, [", ", ""]),
        contents.instructions,
        contents.reads,
        contents.writes,
        contents.branches,
        if contents.pages.len() < MOST_PAGES { "" } else { "at least " },
        contents.pages.len(),
        (contents.pages.len() * 4096) >> 20,
        contents.events,
        contents.details(),
        has(metadata.has_events),
        has(metadata.has_dependencies),
        has(metadata.has_branches),
    );
    if let Some(recording) = &metadata.recording {
        text += &format!("recorded      {recording}\n");
    }
    if metadata.format == TraceFormat::Drmemtrace.name() {
        text += &drmemtrace_files(split_format(Path::new(&path)).1, &contents)?;
    }
    text += &take(&mut contents.areas).text(contents.pages.iter().copied());
    text += &notes(&recording_notes(metadata), text_columns());
    text += &notes(&metadata.assumptions, text_columns());
    if let Some(truncation) = source.truncated() {
        text += &format!("warning: incomplete at {truncation}\n");
    }
    print(&text)
}

/// Describes the files next to a drmemtrace trace: its page map and its schedule.
fn drmemtrace_files(path: &Path, contents: &Contents) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(map) = PageMap::beside(path)? {
        let sizes: Vec<String> = map
            .sizes()
            .iter()
            .map(|(bytes, count)| format!("{count} of {}", Size(*bytes)))
            .collect();
        let (runs, longest) = map.runs();
        let is_covered = |(_, page): &&(ProcessId, u64)| map.translate(page * 4096).is_some();
        let covered = contents.pages.iter().filter(is_covered).count();
        text += &format!(
            "page map      {}: pages {} ({} MB)\n              \
             {} contiguous in both address spaces, the longest of {}\n              \
             has {covered} of the {} data pages\n",
            map.path().display(),
            sizes.join(", "),
            map.bytes() >> 20,
            counted(runs, "run"),
            Size(longest),
            contents.pages.len(),
        );
        for remark in map.remarks() {
            text += &format!("warning: {}: {remark}\n", map.path().display());
        }
    }
    if let Some(Schedule { path, stretches, threads, processors }) = Schedule::beside(path)? {
        text += &format!(
            "schedule      {}: {} on {} in {}\n",
            path.display(),
            counted(threads, "thread"),
            counted(processors, "processor"),
            counted(stretches, "stretch"),
        );
    }
    Ok(text)
}

fn head(file: &str, instructions: u64) -> Result<(), Failure> {
    let (_, source) = open_recorded(file)?;
    let mut source = Limited::new(source, instructions);
    let mut chunk = Chunk::default();
    while source.next_chunk(&mut chunk)? {
        let lines = chunk.in_order().map(|item| match item {
            ChunkItem::Event(event) => event_line(event),
            ChunkItem::Instruction(instruction, accesses) => line(instruction, accesses),
        });
        print(&lines.collect::<String>())?;
    }
    Ok(())
}

fn event_line(event: &ProgramEvent) -> String {
    use ProgramEvent as Event;
    let line = match event {
        Event::Map { start, length, permissions, accessible, backing, shared, populate } => {
            let mut line = format!("map {start:#x}+{length} {}", rights(*permissions, *accessible));
            line += &format!(" {}", format!("{backing:?}").to_lowercase());
            line += if *shared { " shared" } else { "" };
            line + if *populate { " present at once" } else { "" }
        }
        Event::Unmap { start, length } => format!("unmap {start:#x}+{length}"),
        Event::Protect { start, length, permissions, accessible } => {
            format!("protect {start:#x}+{length} {}", rights(*permissions, *accessible))
        }
        Event::Advise { start, length, advice } => {
            format!("advise {start:#x}+{length} {advice:?}")
        }
        Event::Remap { from, from_length, to, to_length } => {
            format!("remap {from:#x}+{from_length} to {to:#x}+{to_length}")
        }
        Event::Brk { start, end } => format!("brk {start:#x} to {end:#x}"),
        Event::Name { start, length, name } => {
            format!("name {start:#x}+{length} {}", areas::escaped(name))
        }
        Event::Fork { child } => format!("fork process {}", child.0),
        Event::Exec => "exec".into(),
        Event::Exit { process } => format!("exit process {}", process.0),
        Event::Gap { instructions } => format!("gap: {instructions} instructions not recorded"),
        Event::Phase { name, .. } => format!("phase {name}"),
        Event::Switch { process, thread } => {
            format!("switch to process {} thread {}", process.0, thread.0)
        }
    };
    line + "\n"
}

/// Formats permissions as in `/proc/PID/maps`: `rw-`.
fn rights(permissions: Permissions, accessible: bool) -> String {
    let letter = |allowed, letter| if accessible && allowed { letter } else { '-' };
    [letter(true, 'r'), letter(permissions.write, 'w'), letter(permissions.execute, 'x')]
        .iter()
        .collect()
}

fn line(instruction: &Instruction, accesses: &[MemoryAccess]) -> String {
    let registers = |registers: &[u8]| {
        let used: Vec<String> =
            registers.iter().filter(|r| **r != 0).map(|r| format!("r{r}")).collect();
        used.join(",")
    };
    let mut line = format!(
        "{:#018x} {:<9} {:>12} <- {:<16}",
        instruction.ip,
        format!("{:?}", instruction.operation).to_lowercase(),
        registers(&instruction.destinations),
        registers(&instruction.sources),
    );
    if instruction.branch != perforate_types::Branch::None {
        let taken = if instruction.taken { "taken" } else { "not taken" };
        line += &format!(" {:?} {taken}", instruction.branch);
    }
    for access in accesses {
        line += &format!(" {:?} {:#x}+{}", access.kind, access.address, access.size);
    }
    line.trim_end().to_owned() + "\n"
}

/// Size of a file, or of all files in a folder, in bytes.
fn length_on_disk(path: &Path) -> u64 {
    if path.as_os_str() == STANDARD_INPUT {
        return standard_input_bytes();
    }
    let Ok(facts) = std::fs::metadata(path) else { return 0 };
    if !facts.is_dir() {
        return facts.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| length_on_disk(&entry.path())).sum()
}

/// File extension of the output, unless it is `.trace`.
fn foreign_ending(output: &Path) -> Option<&str> {
    output.extension()?.to_str().filter(|ending| *ending != "trace")
}

/// Format and compression of the written trace.
struct Target {
    format: TraceFormat,
    compression: Compression,
    level: i32,
}

impl Target {
    fn new(output: &Path, to: Option<&str>, level: Option<i32>) -> Result<Self, Failure> {
        let (by_name, compression) = formats_of_name(output);
        let is_named =
            |format: &TraceFormat| to.is_some_and(|to| to.eq_ignore_ascii_case(format.name()));
        let named = TraceFormat::ALL.into_iter().find(is_named);
        if let (Some(named), Some(by_name)) = (named, by_name)
            && named != by_name
        {
            let (to, output) = (named.name(), output.display());
            return Err(Failure::Usage(format!(
                "--to {to}: {output} is the name of a {} trace; expected another name, or no --to",
                by_name.name()
            )));
        }
        let format = named.or(by_name).unwrap_or(TraceFormat::Perforate);
        if format == TraceFormat::Perforate && compression != Compression::None {
            return Err(Failure::Usage(format!(
                "-o {}: Perforate traces are compressed already; expected a name without .xz, .gz \
                 or .zst, or --to champsim or csv",
                output.display()
            )));
        }
        if let (None, None, Some(ending)) = (named, by_name, foreign_ending(output)) {
            return Err(Failure::Usage(format!(
                "-o {}: no format has names with .{ending}; expected .trace, .champsimtrace or \
                 .csv, or --to FORMAT",
                output.display()
            )));
        }
        let is_compressed = format == TraceFormat::Perforate || compression != Compression::None;
        if level.is_some() && !is_compressed {
            return Err(Failure::Usage(format!(
                "--level: has no effect: {} is not compressed; expected a name with .xz, .gz or \
                 .zst",
                output.display()
            )));
        }
        Ok(Self { format, compression, level: level.unwrap_or(LEVEL) })
    }
}

fn convert(
    file: &str,
    output: &Path,
    instructions: Option<u64>,
    target: Target,
) -> Result<(), Failure> {
    let mut source: Box<dyn Source> = if WorkloadSpec::is_workload(file) {
        if instructions.is_none() {
            return Err(Failure::Usage(format!("{file} is endless: give --instructions N")));
        }
        WorkloadSpec::parse(file)?.source(1, instructions)
    } else {
        let (_, source) = open_trace(file)?;
        match instructions {
            Some(instructions) => Box::new(Limited::new(source, instructions)),
            None => source,
        }
    };
    let text = write_whole(output, |new| {
        let file = new.file().map_err(|source| Failure::Write { path: output.into(), source })?;
        match target.format {
            TraceFormat::Perforate => write_ours(source.as_mut(), file, output, target.level),
            _ => write_foreign(source.as_mut(), file, output, &target),
        }
    })?;
    print(&format!("{}: {text}", output.display()))
}

/// Passes all chunks of `source` to `write`, and shows a progress bar. Returns the number of instructions of
/// the program's set-up, 0 if it reports none.
fn copy_chunks(
    source: &mut dyn Source,
    mut write: impl FnMut(&Chunk) -> Result<(), perforate_trace::TraceError>,
) -> Result<u64, Failure> {
    let (bar, stop) = (Bar::instructions("converting"), stop_or_end_on_interrupt()?);
    let total = source.metadata().instructions;
    let phase = source.metadata().setup_until;
    let mut chunk = Chunk::default();
    let (mut done, mut setup) = (0, None);
    while source.next_chunk(&mut chunk)? {
        write(&chunk)?;
        if let (Some(phase), None) = (phase, setup) {
            setup = chunk.phase_start(phase).map(|at| done + at as u64);
        }
        done += chunk.instructions.len() as u64;
        bar.show(perforate_sim::Progress { done, total });
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped(bar.status()));
        }
    }
    Ok(setup.unwrap_or(0))
}

fn write_ours(
    source: &mut dyn Source,
    file: File,
    path: &Path,
    level: i32,
) -> Result<String, Failure> {
    let options = WriterOptions { level, ..WriterOptions::default() };
    let mut writer = TraceWriter::on(file, path, &metadata_for(source), options)?;
    let setup = copy_chunks(source, |chunk| write_chunk(&mut writer, chunk))?;
    let summary = writer.finish()?;
    Ok(summary_text(summary, setup, source))
}

fn write_foreign(
    source: &mut dyn Source,
    file: File,
    path: &Path,
    target: &Target,
) -> Result<String, Failure> {
    let Target { format, compression, level } = *target;
    let mut writer = ForeignWriter::on(file, path, format, compression, level)?;
    let setup = copy_chunks(source, |chunk| writer.write_chunk(chunk))?;
    let (summary, Losses { accesses, events }) = writer.finish()?;
    let mut text = summary_text(summary, setup, source);
    let lacking = match target.format {
        TraceFormat::ChampSim => "sizes of accesses, lengths and operations of instructions",
        _ => "registers, branches and operations",
    };
    text += &format!("note: {} does not hold {lacking}\n", target.format.name());
    for (count, what) in [
        (accesses, "accesses beyond 4 reads or 2 writes of an instruction, or at address 0,"),
        (events, "events (maps, protections, switches …)"),
    ] {
        if count > 0 {
            text += &format!("note: {count} {what} were left out\n");
        }
    }
    Ok(text)
}

/// Summarizes the written trace: its size, how many of its instructions are the program's set-up, and a warning
/// if the source is incomplete.
fn summary_text(summary: TraceSummary, setup: u64, source: &dyn Source) -> String {
    let TraceSummary { instructions, accesses, events, bytes } = summary;
    let mut text = format!(
        "{}, {}, {}, {}{}\n",
        counted(instructions, "instruction"),
        counted(accesses, "access"),
        counted(events, "event"),
        counted(bytes, "byte"),
        per_instruction(bytes, instructions, [" (", ")"]),
    );
    if setup > 0 {
        text += &format!(
            "note: the first {setup} are the program's set-up, which --instructions does not count\n"
        );
    }
    if let Some(truncation) = source.truncated() {
        text += &format!("warning: the source is incomplete at {truncation}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_that_have_run() {
        let mut chunk = Chunk::default();
        (0..6).for_each(|_| chunk.push(Instruction::default(), &[]));
        let switch = |process, thread| ProgramEvent::Switch {
            process: ProcessId(process),
            thread: ThreadId(thread),
        };
        // Thread 3 runs nothing.
        let switches = [(0, switch(1, 1)), (2, switch(1, 2)), (4, switch(2, 3)), (4, switch(2, 4))];
        chunk.events.extend(switches);
        let mut contents = Contents::default();
        contents.add(&chunk);
        assert_eq!(contents.details(), "processes     2\nthreads       3\n");
        // The last one goes on after a gap.
        let mut later = Chunk::default();
        later.push(Instruction::default(), &[]);
        later.events.push((0, ProgramEvent::Gap { instructions: 14 }));
        contents.add(&later);
        let expected = "processes     2\nthreads       3\n\
                        gaps          1, 14 instructions passed over: multiply counts by 3.00\n";
        assert_eq!(contents.details(), expected);
        assert_eq!((contents.instructions, contents.events), (7, 5));
        let mut alone = Contents::default();
        alone.add(&Chunk { events: Vec::new(), ..chunk });
        assert_eq!(alone.details(), "");
    }
}
