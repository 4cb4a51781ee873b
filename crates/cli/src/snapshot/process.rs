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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_listed_by_content_zeros_first() {
        let page = |byte: u8| [byte; 4096];
        let list = |bytes: &[u8]| {
            let mut contents = PageContents::default();
            bytes.iter().for_each(|byte| contents.add(&page(*byte)));
            hashes(&contents)
        };
        let text = list(&[7, 0, 9, 7, 0, 7, 0, 0]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["content_hash,pages", "0,4"]);
        let mut counts: Vec<&str> =
            lines[2..].iter().map(|line| line.split_once(',').unwrap().1).collect();
        counts.sort_unstable();
        assert_eq!(counts, ["1", "3"]);
        let text = list(&[7]);
        assert!(text.lines().count() == 2 && !text.contains("\n0,"), "{text}");
    }
}
