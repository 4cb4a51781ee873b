//! Standard output, result files and progress bars.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use perforate_sim::Progress;

use crate::failure::Failure;

/// Prints to standard output; a closed pipe is not an error of ours.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a whole file or nothing: under another name first, then renamed.
pub fn write_whole(path: &Path, content: &str) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: path.into(), source };
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let outcome = fs::write(&partial, content).and_then(|()| fs::rename(&partial, path));
    if outcome.is_err() {
        let _ = fs::remove_file(&partial); // the first error is the one to tell
    }
    outcome.map_err(failed)
}

/// A progress bar on a terminal, nothing in a pipe.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar over instructions with this text before it.
    pub fn instructions(text: &str) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template(
            "{msg} {wide_bar} {human_pos}/{human_len} instructions, {per_sec}, {eta} left",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(text.to_owned());
        Self(bar)
    }

    /// Changes the text before the bar.
    pub fn message(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    /// Shows how far the work is.
    pub fn show(&self, progress: Progress) {
        if let Some(total) = progress.total {
            self.0.set_length(total);
        }
        self.0.set_position(progress.done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
