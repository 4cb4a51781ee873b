//! `perforate snapshot host` and `show`.

use crate::actions::{Failure, write_whole};
use perforate_schemes::perforated::{Perforated, PerforationOptions};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use perforate_config::{ConfigError, Count, Size, read};
use perforate_host::Reporter;
use perforate_host::snapshot::{HostFiles, read_host};
use perforate_os::HostSnapshot;
use perforate_records::{Snapshot, json_line, read_snapshot};
use perforate_sim::{MemorySnapshot, Progress, host_record};

use super::{OutputOptions, show_snapshot};
use crate::output::CommandOutput;

/// Maximum size in bytes of a process snapshot's JSON file.
const MAX_JSON_BYTES: u64 = 256 << 20;

#[derive(Args)]
pub struct HostArguments {
    /// Keep the snapshot in this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// /proc, or a folder with copies of its files
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    proc: PathBuf,
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    pub(super) show: OutputOptions,
}

#[derive(Args)]
pub struct ShowArguments {
    /// Snapshot of a host, or the JSON of one of a process
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    pub(super) show: OutputOptions,
}

/// Options of the simulation on a snapshot.
#[derive(Args)]
struct Question {
    /// Policy for perforated pages (see `perforate list perforation`)
    /// [default: that of P §III.C, max-hole-share=25%,max-filter-bits=4]
    #[arg(long, value_name = "SPEC", value_parser = read::<PerforationOptions>)]
    perforation: Option<PerforationOptions>,
    /// Simulate a program that touches this much memory, or none
    #[arg(long, value_name = "SIZE|none", default_value = "2G", allow_hyphen_values = true)]
    request: String,
    /// Seed of the order in which page cache is dropped
    #[arg(long, value_name = "N", default_value_t = Count::new(1))]
    seed: Count,
}

impl Question {
    fn request_bytes(&self) -> Result<u64, Failure> {
        let wrong = |error: ConfigError| error.under("request");
        let request: Option<Size> = read(&self.request).map_err(wrong)?;
        let Some(size) = request else { return Ok(0) };
        if !(1 << 21..=1 << 44).contains(&size.bytes()) {
            let problem = format!("expected 2M to 16T, or none; not {size}");
            return Err(wrong(ConfigError::new(problem)).into());
        }
        Ok(size.bytes())
    }

    fn policy(&self) -> Result<Perforated, Failure> {
        let options = self.perforation.unwrap_or(PerforationOptions::SELECTIVE);
        Ok(Perforated::new(options).map_err(|error| error.under("perforation"))?)
    }

    fn describe(&self, snapshot: HostSnapshot) -> Result<Snapshot, Failure> {
        let (policy, bytes) = (self.policy()?, self.request_bytes()?);
        let record = host_record(&Arc::new(snapshot), policy, bytes, self.seed.get());
        Ok(Snapshot::Host(Box::new(record)))
    }
}

/// Takes a snapshot of this machine.
pub fn host(
    arguments: &HostArguments,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    arguments.question.request_bytes()?;
    arguments.question.policy()?;
    let files = HostFiles::open(&arguments.proc);
    reporter.stage("reading", "frames");
    let snapshot = read_host(files, &mut |done, total| {
        reporter.progress(Progress { done, total });
    })?;
    if let Some(file) = &arguments.output {
        store(&snapshot, file)?;
    }
    let snapshot = arguments.question.describe(snapshot)?;
    let (json, stored) = (json_line(&snapshot), arguments.output.as_deref());
    show_snapshot(&snapshot, json, "Memory of a machine", &arguments.show, stored)
}

fn store(snapshot: &HostSnapshot, file: &Path) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: file.into(), source };
    write_whole(file, |new| {
        let mut out = BufWriter::new(new);
        snapshot.write_to(&mut out).and_then(|()| out.flush()).map_err(failed)
    })
}

/// Describes a stored snapshot.
pub fn show(arguments: &ShowArguments) -> Result<CommandOutput, Failure> {
    let file = &arguments.file;
    let wrong = |problem: String| Failure::Snapshot { path: file.clone(), problem };
    let mut start = Vec::new();
    let opened = perforate_config::open_file(file).map_err(|error| wrong(error.to_string()))?;
    let mut limited = opened.take(MAX_JSON_BYTES);
    (&mut limited).take(1).read_to_end(&mut start).map_err(|error| wrong(error.to_string()))?;
    if start.first() != Some(&b'{') {
        let (snapshot, _) = MemorySnapshot::read(&file.to_string_lossy())?;
        let snapshot = arguments.question.describe(snapshot)?;
        let json = json_line(&snapshot);
        return show_snapshot(&snapshot, json, "Memory of a machine", &arguments.show, None);
    }
    limited.read_to_end(&mut start).map_err(|error| wrong(error.to_string()))?;
    let json =
        String::from_utf8(start).map_err(|_| wrong("it is no text and no snapshot".into()))?;
    let snapshot = read_snapshot(&json).map_err(|error| wrong(error.to_string()))?;
    show_snapshot(&snapshot, json, "Memory of a process", &arguments.show, None)
}
