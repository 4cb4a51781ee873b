//! `perforate snapshot process`.

use std::path::PathBuf;

use crate::actions::{Failure, write_text};
use clap::Args;
use perforate_host::Reporter;
use perforate_host::snapshot::{PageContents, ProcessOptions, read_process};
use perforate_records::{Snapshot, json_line};
use perforate_sim::Progress;

use super::{OutputOptions, show_snapshot};
use crate::output::CommandOutput;

#[derive(Args)]
pub struct ProcessArguments {
    /// The process
    #[arg(value_name = "PID")]
    pid: u32,
    /// Keep the snapshot in this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read resident pages, and count those that are zero or equal to another page: memory that
    /// same-page merging could save
    #[arg(long)]
    contents: bool,
    /// Write the hash of every content and how many pages have it, as CSV, to compare with other
    /// processes; with --contents
    #[arg(long, value_name = "FILE", requires = "contents")]
    hashes: Option<PathBuf>,
    /// /proc, or a folder with copies of its files
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    proc: PathBuf,
    #[command(flatten)]
    pub(super) show: OutputOptions,
}

/// Takes a snapshot of a process.
pub fn process(
    arguments: &ProcessArguments,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    let options = ProcessOptions {
        pid: arguments.pid,
        proc: arguments.proc.clone(),
        contents: arguments.contents,
    };
    reporter.stage("reading", "bytes");
    let (record, contents) = read_process(&options, &mut |done, total| {
        reporter.progress(Progress { done, total: Some(total) });
    })?;
    if let Some(file) = &arguments.hashes {
        write_text(file, &hashes(&contents))?;
    }
    let snapshot = Snapshot::Process(Box::new(record));
    let (json, stored) = (json_line(&snapshot), arguments.output.as_deref());
    if let Some(file) = stored {
        write_text(file, &json)?;
    }
    show_snapshot(&snapshot, json, "Memory of a process", &arguments.show, stored)
}

/// Lists the number of pages for each hash of a page's content; zero pages come first, with hash 0.
fn hashes(contents: &PageContents) -> String {
    let mut text = "content_hash,pages\n".to_owned();
    if contents.zero_pages() > 0 {
        text += &format!("0,{}\n", contents.zero_pages());
    }
    let lines =
        contents.by_hash().into_iter().map(|(hash, pages)| format!("{hash:016x},{pages}\n"));
    text.extend(lines);
    text
}
