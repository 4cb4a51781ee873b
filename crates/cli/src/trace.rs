//! `perforate trace`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use perforate_trace::{
    Limited, Source, TraceWriter, WorkloadSpec, WriterOptions, metadata_for, open, write_chunk,
};
use perforate_types::{Chunk, Instruction, MemoryAccess, Permissions, ProgramEvent};

use crate::bundled;
use crate::failure::Failure;
use crate::output::{Bar, print, write_whole};

/// Look into and convert traces.
#[derive(Args)]
pub struct TraceArguments {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    /// What a trace holds: instructions, accesses, pages, events
    #[command(after_help = "Example:\n  perforate trace info traces/redis.trace")]
    Info {
        /// Trace of any format that can be read, or a bundled trace
        file: String,
    },
    /// The first instructions and events in words
    #[command(after_help = "Example:\n  perforate trace head my.trace --instructions 100")]
    Head {
        /// Trace of any format that can be read, or a bundled trace
        file: String,
        /// Instructions to show
        #[arg(long, value_name = "N", default_value_t = 20)]
        instructions: u64,
    },
    /// Convert a foreign trace or a workload into a trace of ours
    #[command(after_help = "Examples:
  perforate trace convert 429.mcf.champsimtrace.xz -o mcf.trace
  perforate trace convert random:size=1G --instructions 1000000 -o random.trace")]
    Convert {
        /// ChampSim (raw, .xz, .gz, .zst), valgrind lackey, ours, or a workload
        file: String,
        /// The trace file to write
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Instructions to convert at most
        #[arg(long, value_name = "N")]
        instructions: Option<u64>,
        /// Compression level, 1 to 22
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22))]
        level: i32,
    },
}

/// Runs the subcommand.
pub fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    match &arguments.command {
        TraceCommand::Info { file } => info(file),
        TraceCommand::Head { file, instructions } => head(file, *instructions),
        TraceCommand::Convert { file, output, instructions, level } => {
            convert(file, output, *instructions, *level)
        }
    }
}

/// What a pass over a trace found.
#[derive(Default)]
struct Contents {
    instructions: u64,
    reads: u64,
    writes: u64,
    branches: u64,
    events: u64,
    pages: HashSet<u64>,
}

impl Contents {
    fn add(&mut self, chunk: &Chunk) {
        self.instructions += chunk.instructions.len() as u64;
        self.events += chunk.events.len() as u64;
        for access in &chunk.accesses {
            let write = access.kind == perforate_types::AccessKind::Write;
            *if write { &mut self.writes } else { &mut self.reads } += 1;
            self.pages.insert(access.address.page().number());
        }
        let branch =
            |instruction: &&Instruction| instruction.branch != perforate_types::Branch::None;
        self.branches += chunk.instructions.iter().filter(branch).count() as u64;
    }
}

/// Opens a trace by its path or its name.
fn open_trace(file: &str) -> Result<(String, Box<dyn Source>), Failure> {
    let path = bundled::resolve(file);
    if WorkloadSpec::is_workload(&path) && !Path::new(&path).exists() {
        return Err(Failure::Usage(format!(
            "{file} is a workload, not a trace; `perforate trace convert` makes a trace of it"
        )));
    }
    let source = open(&path)?;
    Ok((path, source))
}

fn info(file: &str) -> Result<(), Failure> {
    let (path, mut source) = open_trace(file)?;
    let bar = Bar::instructions("reading");
    let total = source.metadata().instructions;
    let (mut contents, mut chunk) = (Contents::default(), Chunk::default());
    while source.next_chunk(&mut chunk)? {
        contents.add(&chunk);
        bar.show(perforate_sim::Progress { done: contents.instructions, total });
    }
    drop(bar);
    let metadata = source.metadata();
    let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let has = |present| if present { "yes" } else { "no" };
    let mut text = format!(
        "{path}: {} format, {bytes} bytes, {:.3} per instruction\n\
         instructions  {}\nreads         {}\nwrites        {}\nbranches      {}\n\
         data pages    {} of 4KB ({} MB)\nevents        {}\n\
         knows map events: {}, register dependencies: {}, branches: {}\n",
        metadata.format,
        bytes as f64 / contents.instructions.max(1) as f64,
        contents.instructions,
        contents.reads,
        contents.writes,
        contents.branches,
        contents.pages.len(),
        (contents.pages.len() * 4096) >> 20,
        contents.events,
        has(metadata.has_events),
        has(metadata.has_dependencies),
        has(metadata.has_branches),
    );
    for assumption in &metadata.assumptions {
        text += &format!("note: {assumption}\n");
    }
    if let Some(truncation) = source.truncated() {
        text += &format!("warning: incomplete at {truncation}\n");
    }
    print(&text)
}

fn head(file: &str, instructions: u64) -> Result<(), Failure> {
    let (_, source) = open_trace(file)?;
    let mut source = Limited::new(source, instructions);
    let mut chunk = Chunk::default();
    while source.next_chunk(&mut chunk)? {
        let mut accesses = chunk.accesses.as_slice();
        let mut events = chunk.events.iter().peekable();
        let mut text = String::new();
        for (index, instruction) in chunk.instructions.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= index) {
                text += &event_line(event);
            }
            let (own, rest) = accesses.split_at(usize::from(instruction.accesses));
            accesses = rest;
            text += &line(instruction, own);
        }
        print(&text)?;
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
        Event::Fork { child } => format!("fork process {}", child.0),
        Event::Exec => "exec".into(),
        Event::Exit { process } => format!("exit process {}", process.0),
        Event::Gap { instructions } => format!("gap: {instructions} instructions not recorded"),
        Event::Switch { process, thread } => {
            format!("switch to process {} thread {}", process.0, thread.0)
        }
    };
    line + "\n"
}

/// As in `/proc/PID/maps`: `rw-`.
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

fn convert(
    file: &str,
    output: &Path,
    instructions: Option<u64>,
    level: i32,
) -> Result<(), Failure> {
    let mut source: Box<dyn Source> = if WorkloadSpec::is_workload(file) {
        if instructions.is_none() {
            return Err(Failure::Usage(format!("{file} is endless: give --instructions N")));
        }
        WorkloadSpec::parse(file)?.source(1, instructions)
    } else {
        let source = open(bundled::resolve(file))?;
        match instructions {
            Some(instructions) => Box::new(Limited::new(source, instructions)),
            None => source,
        }
    };
    let text = write_whole(output, |partial| write(source.as_mut(), partial, level))?;
    print(&format!("{}: {text}", output.display()))
}

fn write(source: &mut dyn Source, path: &Path, level: i32) -> Result<String, Failure> {
    let options = WriterOptions { level, ..WriterOptions::default() };
    let mut writer = TraceWriter::create_with(path, &metadata_for(source), options)?;
    let bar = Bar::instructions("converting");
    let total = source.metadata().instructions;
    let mut chunk = Chunk::default();
    let mut done = 0;
    while source.next_chunk(&mut chunk)? {
        write_chunk(&mut writer, &chunk)?;
        done += chunk.instructions.len() as u64;
        bar.show(perforate_sim::Progress { done, total });
    }
    let summary = writer.finish()?;
    let per_instruction = summary.bytes as f64 / summary.instructions.max(1) as f64;
    let mut text = format!(
        "{} instructions, {} accesses, {} events, {} bytes ({per_instruction:.3} per instruction)\n",
        summary.instructions, summary.accesses, summary.events, summary.bytes
    );
    if let Some(truncation) = source.truncated() {
        text += &format!("warning: the source is incomplete at {truncation}\n");
    }
    Ok(text)
}
