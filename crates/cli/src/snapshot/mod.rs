//! `perforate snapshot`: memory of real machines and processes.

mod host;
mod process;

pub use host::{HostArguments, ShowArguments, host, show};
pub use process::{ProcessArguments, process};

use std::path::{Path, PathBuf};

use crate::actions::{Failure, REPORT, ResultFolder};
use clap::{Args, Subcommand};
use perforate_records::Snapshot;
use perforate_report::{ReportOptions, snapshot_html, snapshot_table};

use crate::output::{CommandOutput, command, text_columns};
use crate::progress::StageBars;

/// Show the memory of a machine or a process.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct SnapshotArguments {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Subcommand)]
enum SnapshotCommand {
    /// The use of every frame of this machine's memory, and the large pages it has room for
    #[command(after_help = "Examples:
  sudo perforate snapshot host -o before.snapshot --out before
  perforate snapshot host                        without root: free blocks by order
  perforate snapshot host --proc copied-files    files copied from a server's /proc
  perforate compare random --memory-from before.snapshot

Nothing is stopped or changed. Root sees the frames: kpageflags, kpagecount, pagetypeinfo, iomem;
buddyinfo and zoneinfo are open to all.")]
    Host(HostArguments),
    /// Areas, residency and page sizes of a process, and contents with --contents
    #[command(after_help = "Examples:
  perforate snapshot process 1234
  sudo perforate snapshot process 1234 --contents -o server.json
  sudo perforate snapshot process $(pidof qemu-system-x86_64) --contents    a VM's memory

The process is never stopped. Users who may trace it see areas and contents; root also sees
frames.")]
    Process(ProcessArguments),
    /// Show a stored snapshot
    #[command(after_help = "Examples:
  perforate snapshot show before.snapshot
  perforate snapshot show before.snapshot --perforation max-hole-share=50%,max-filter-bits=8
  perforate snapshot show server.json --out page")]
    Show(ShowArguments),
}

/// Destination of a snapshot's description.
#[derive(Args)]
struct OutputOptions {
    /// Folder for report.html, a page with the picture that opens offline, and snapshot.json
    /// [default: none is written]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// Takes or shows a snapshot, and prints its description.
pub fn snapshot(arguments: &SnapshotArguments) -> Result<(), Failure> {
    let bars = &mut StageBars::default();
    let (output, json) = match &arguments.command {
        SnapshotCommand::Host(arguments) => (host(arguments, bars)?, arguments.show.json),
        SnapshotCommand::Process(arguments) => (process(arguments, bars)?, arguments.show.json),
        SnapshotCommand::Show(arguments) => (show(arguments)?, arguments.show.json),
    };
    output.print(json)
}

/// Formats a snapshot as text, and writes the page and the JSON into the folder of `output`.
fn show_snapshot(
    snapshot: &Snapshot,
    json: String,
    title: &str,
    output: &OutputOptions,
    stored: Option<&Path>,
) -> Result<CommandOutput, Failure> {
    let write = |folder: ResultFolder| {
        let options =
            ReportOptions { title: title.into(), command: command(), ..ReportOptions::default() };
        folder.write(&vec![
            ("snapshot.json".to_owned(), json.clone()),
            (REPORT.to_owned(), snapshot_html(snapshot, &options)),
        ])
    };
    let folder = output.out.as_deref().map(ResultFolder::named).transpose()?;
    let written = folder.map(write).transpose()?;
    let mut text = snapshot_table(snapshot, text_columns());
    if let Some(file) = stored {
        text += &format!("\nsnapshot: {}\n", file.display());
    }
    if let Some(written) = written {
        text += &format!("report:   {}\n", written.file(REPORT).display());
    }
    Ok(CommandOutput { json, text })
}
