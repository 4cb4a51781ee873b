//! Progress on standard error: a bar on a terminal, otherwise an occasional line.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use perforate_host::Reporter;
use perforate_report::text::{compact, cut};
use perforate_sim::Progress;
use terminal_size::terminal_size_of;

use crate::output::printable;

/// Time between two lines of progress if there is no terminal, and before the first line.
const LINE_PERIOD: Duration = Duration::from_secs(30);
/// Maximum time between two redraws of the bar, if there is no progress.
const REDRAW_PERIOD: Duration = Duration::from_millis(200);
/// Minimum time between two redraws of the bar while there is progress.
const LEAST_REDRAW_PERIOD: Duration = Duration::from_millis(50);
/// Assumed width of a terminal whose width is unknown, in characters.
const UNKNOWN_TERMINAL: usize = 80;
/// Minimum width of the bar in characters, with the spaces around it.
const LEAST_BAR: usize = 8;
/// Frames of the spinner, which replaces the bar if the total is unknown.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Minimum time after which a rate of progress is computed.
const LEAST_MEASURED: Duration = Duration::from_secs(2);

/// Number of steps into which the work is divided if its progress is known only as a share from 0 to 1.
const SHARE_STEPS: u64 = 100_000;

/// Prints a line on standard error. Ignores errors, because a closed standard error is no reason to stop.
pub fn print_message(line: &str) {
    let _ = writeln!(io::stderr(), "perforate: {}", printable(line));
}

/// A stage of long work, and its progress.
struct Stage {
    /// Name of the stage, which is shown.
    text: String,
    /// Unit in which the progress is counted, such as instructions.
    unit: &'static str,
    /// Text that replaces the amounts done and total, if they mean nothing to a reader.
    counts: Option<String>,
    progress: Progress,
    /// Moment of the first progress, and the amount done by then. The rate counts from there, because work
    /// before the first instruction, such as ageing memory, is not counted.
    from: Option<(Instant, u64)>,
}

impl Stage {
    fn new(text: &str, unit: &'static str) -> Self {
        let progress = Progress { done: 0, total: None };
        Self { text: text.into(), unit, counts: None, progress, from: None }
    }

    fn advance(&mut self, progress: Progress, now: Instant) {
        self.progress = progress;
        self.from.get_or_insert((now, progress.done));
    }

    /// Progress per second in the stage's unit; `None` until enough time has passed.
    fn rate(&self, now: Instant) -> Option<f64> {
        let (since, before) = self.from?;
        let seconds = now.saturating_duration_since(since);
        let done = self.progress.done.saturating_sub(before);
        (seconds >= LEAST_MEASURED && done > 0).then(|| done as f64 / seconds.as_secs_f64())
    }

    /// Total of the progress; `None` if unknown, for which foreign traces report 0.
    fn total(&self) -> Option<u64> {
        self.progress.total.filter(|total| *total > 0)
    }

    /// Formats the amount done, and the total if it is known.
    fn amounts(&self) -> String {
        let done = compact(self.progress.done as f64);
        match (&self.counts, self.total()) {
            (Some(counts), _) => counts.clone(),
            (None, Some(total)) => format!("{done} of {} {}", compact(total as f64), self.unit),
            (None, None) => format!("{done} {}", self.unit),
        }
    }

    /// Formats amounts, rate and time left, as far as they are known.
    fn figures(&self, now: Instant) -> String {
        let (done, rate) = (self.progress.done, self.rate(now));
        let mut phrases = vec![self.amounts()];
        if let (None, Some(rate)) = (&self.counts, rate) {
            phrases.push(format!("{}/s", compact(rate.round())));
        }
        if let (Some(total), Some(rate)) = (self.total(), rate) {
            phrases.push(time(total.saturating_sub(done) as f64 / rate) + " left");
        }
        phrases.join(", ")
    }
}

/// Formats a duration with at most two digits, rounded up.
pub fn time(seconds: f64) -> String {
    let (seconds, minutes) = (seconds.ceil(), (seconds / 60.0).ceil());
    match seconds {
        0.0..=99.0 => format!("{seconds} s"),
        99.0..=5940.0 => format!("{minutes} min"),
        _ => format!("{:.0} h", (seconds / 3600.0).ceil()),
    }
}

/// Progress of long work in one or more stages. The progress is shown until this value is dropped.
pub struct Bar {
    stage: Arc<Mutex<Stage>>,
    /// Terminal line of the bar; `None` if standard error is not a terminal.
    drawn: Option<Arc<Mutex<TerminalLine>>>,
    /// True while lines are printed instead of a bar.
    is_in_lines: Arc<AtomicBool>,
    /// Threads that print lines and redraw the bar; dropping them ends them.
    _printers: [Option<Ticker>; 2],
}

impl Bar {
    /// Shows the progress of work counted in instructions. `text` names the first stage.
    pub fn instructions(text: &str) -> Self {
        Self::of(text, "instructions")
    }

    /// Shows progress like [`Bar::instructions`], while a program prints to the same terminal
    /// ([`Bar::share_terminal`]).
    pub fn beside_program(text: &str) -> Self {
        Self::new(text, "instructions", true)
    }

    /// Shows the progress of work counted in `unit`. `text` names the first stage.
    pub fn of(text: &str, unit: &'static str) -> Self {
        Self::new(text, unit, false)
    }

    fn new(text: &str, unit: &'static str, is_shared: bool) -> Self {
        let stage = Arc::new(Mutex::new(Stage::new(text, unit)));
        let is_terminal = io::stderr().is_terminal();
        let is_in_lines = Arc::new(AtomicBool::new(!is_terminal || is_shared));
        let line =
            || Arc::new(Mutex::new(TerminalLine { is_hidden: is_shared, ..Default::default() }));
        let drawn = is_terminal.then(line);
        let prints_lines = Arc::clone(&is_in_lines);
        let print = move |line: &str| {
            if prints_lines.load(Ordering::Relaxed) {
                print_message(line)
            }
        };
        let printer = Ticker::printing(Arc::clone(&stage), LINE_PERIOD, print);
        let redrawer = drawn.clone().map(|line| {
            let stage = Arc::clone(&stage);
            Ticker::start(REDRAW_PERIOD, move || lock(&line).draw(&stage))
        });
        let bar = Self { stage, drawn, is_in_lines, _printers: [Some(printer), redrawer] };
        bar.draw();
        bar
    }

    /// Prints occasional lines instead of a bar while `is_shared` is true: a program prints to the same
    /// terminal, and each of its lines would leave a copy of the bar.
    pub fn share_terminal(&self, is_shared: bool) {
        let Some(drawn) = &self.drawn else { return };
        if self.is_in_lines.swap(is_shared, Ordering::Relaxed) != is_shared {
            lock(drawn).set_hidden(is_shared);
        }
    }

    /// Describes stage and progress, for use in a sentence.
    pub fn status(&self) -> String {
        let stage = lock(&self.stage);
        format!("{}, {}", stage.text, stage.amounts())
    }

    /// Begins another stage, counted in the same unit, unless `text` names the current stage. It is shown
    /// with its first progress.
    pub fn stage(&self, text: &str) {
        let mut stage = lock(&self.stage);
        if stage.text != text {
            *stage = Stage::new(text, stage.unit);
        }
    }

    /// Updates the progress of the current stage, and shows it.
    pub fn show(&self, progress: Progress) {
        lock(&self.stage).advance(progress, Instant::now());
        self.draw();
    }

    /// Shows that `share` of the work, from 0 to 1, is done. The text also says that `parts` of `all_parts`
    /// are done, which may be another share, because parts may differ in length.
    pub fn show_share(&self, share: f64, parts: usize, all_parts: usize) {
        let percent = share * 100.0;
        let mut stage = lock(&self.stage);
        let counts = format!("{percent:.0} %, {parts} of {all_parts} {}", stage.unit);
        stage.counts = Some(counts);
        drop(stage);
        let done = (share * SHARE_STEPS as f64) as u64;
        self.show(Progress { done, total: Some(SHARE_STEPS) });
    }

    /// Makes a function that removes the bar, for a thread that ends the process.
    pub fn eraser(&self) -> impl Fn() + Send + 'static + use<> {
        let drawn = self.drawn.clone();
        move || drawn.iter().for_each(|drawn| lock(drawn).set_hidden(true))
    }

    /// Draws the bar, if there is one, unless it was drawn just before.
    fn draw(&self) {
        if let Some(drawn) = &self.drawn {
            let mut line = lock(drawn);
            if line.drawn_at.is_none_or(|time| time.elapsed() >= LEAST_REDRAW_PERIOD) {
                line.draw(&self.stage);
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.eraser()();
    }
}

/// Line of the terminal that has the bar.
#[derive(Default)]
struct TerminalLine {
    /// True while drawing is forbidden.
    is_hidden: bool,
    /// Moment of the last draw; `None` if the line is empty.
    drawn_at: Option<Instant>,
    /// Number of draws so far, which selects the frame of the spinner.
    turn: usize,
}

impl TerminalLine {
    /// Draws the progress of a stage over the last drawing.
    fn draw(&mut self, stage: &Mutex<Stage>) {
        if self.is_hidden {
            return;
        }
        let now = Instant::now();
        let columns =
            terminal_size_of(io::stderr()).map_or(UNKNOWN_TERMINAL, |(width, _)| width.0.into());
        let text = bar(&lock(stage), now, columns, self.turn);
        let _ = write!(io::stderr(), "\r\x1b[2K{text}");
        self.drawn_at = Some(now);
        self.turn += 1;
    }

    /// Removes the bar and stops drawing, or allows drawing again.
    fn set_hidden(&mut self, is_hidden: bool) {
        if is_hidden && self.drawn_at.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
        self.is_hidden = is_hidden;
    }
}

/// Formats a bar with its text in a line of `columns` characters. Without a total, a spinner replaces the
/// bar.
fn bar(stage: &Stage, now: Instant, columns: usize, turn: usize) -> String {
    let (message, figures) = fitting(&stage.text, &stage.figures(now), columns);
    let Some(total) = stage.total() else {
        return format!("{} {message}: {figures}", SPINNER[turn % SPINNER.len()]);
    };
    // The last column stays empty, as some terminals wrap a full line.
    let used = message.chars().count() + figures.chars().count() + 3;
    let width = columns.saturating_sub(used);
    let done = stage.progress.done.min(total) as f64 / total as f64;
    let full = (width as f64 * done) as usize;
    format!("{message} {}{} {figures}", "█".repeat(full), "░".repeat(width - full))
}

/// Shortens message and figures so that they and the bar fit into one line. A bar of two lines would leave a
/// copy of itself at each redraw.
fn fitting(message: &str, figures: &str, columns: usize) -> (String, String) {
    let figures = cut(figures, columns.saturating_sub(LEAST_BAR));
    let left = columns.saturating_sub(LEAST_BAR + figures.chars().count());
    let message = printable(&message.replace('\n', " ")).into_owned();
    (cut(&message, left), figures)
}

/// Locks a mutex. Ignores poisoning, because the value is valid after a panic.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Thread that calls a function periodically until this value is dropped.
struct Ticker {
    /// Sender of a channel without messages; the thread ends when the sender is dropped.
    until: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts a thread that calls `act` after each period.
    fn start(period: Duration, act: impl Fn() + Send + 'static) -> Self {
        let (until, ended) = channel();
        // If no thread can be started, no progress is shown.
        let thread = Builder::new().spawn(move || {
            while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                act();
            }
        });
        Self { until: Some(until), thread: thread.ok() }
    }

    /// Starts a thread that prints the progress after each period.
    fn printing(
        stage: Arc<Mutex<Stage>>,
        period: Duration,
        print: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let start = Instant::now();
        Self::start(period, move || {
            let (stage, now) = (lock(&stage), Instant::now());
            let since = time((now - start).as_secs_f64().floor());
            print(&format!("after {since}: {}: {}", stage.text, stage.figures(now)));
        })
    }
}

impl Drop for Ticker {
    /// Waits for the end of the thread, so that no line of progress follows the command's output.
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reporter of a measurement, which shows a bar for its stages.
#[derive(Default)]
pub struct StageBars(Option<Bar>);

impl Reporter for StageBars {
    fn stage(&mut self, name: &str, unit: &'static str) {
        let bar = self.0.get_or_insert_with(|| Bar::of(name, unit));
        *lock(&bar.stage) = Stage::new(name, unit);
        bar.draw();
    }

    fn progress(&mut self, progress: Progress) {
        if let Some(bar) = &self.0 {
            bar.show(progress);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u64, total: Option<u64>) -> Progress {
        Progress { done, total }
    }

    #[test]
    fn counts_come_first_then_rates_then_the_time_left() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut stage = Stage::new("simulating", "instructions");
        assert_eq!(stage.figures(start), "0 instructions");
        stage.advance(progress(100_000, Some(50_000_000)), start);
        assert_eq!(stage.figures(after(1)), "100k of 50.0M instructions", "too early for a rate");
        assert_eq!(stage.figures(after(9)), "100k of 50.0M instructions", "nothing more was done");
        stage.advance(progress(5_100_000, Some(50_000_000)), after(10));
        // 5M in 10 s; 44.9M are left.
        let figures = "5.10M of 50.0M instructions, 500k/s, 90 s left";
        assert_eq!(stage.figures(after(10)), figures);
        stage.advance(progress(5_100_000, None), after(10));
        assert_eq!(stage.figures(after(10)), "5.10M instructions, 500k/s");
        stage.advance(progress(5_100_000, Some(0)), after(10));
        assert_eq!(stage.figures(after(10)), "5.10M instructions, 500k/s", "no length is known");
    }

    #[test]
    fn a_bar_fits_into_its_line() {
        let long = "fragmentation=portion=50%,holes=25%,clustered, simulating";
        let figures = "4.64M of 20.0M instructions, 1.23M/s, 13 s left";
        assert_eq!(fitting("simulating", figures, 80), ("simulating".into(), figures.into()));
        for columns in [0, 1, 10, 40, 70, 200] {
            let (message, figures) = fitting(long, figures, columns);
            let width = message.chars().count() + figures.chars().count();
            assert!(width + LEAST_BAR <= columns.max(LEAST_BAR), "{columns}: {message} {figures}");
        }
        assert_eq!(fitting("\u{1b}[2J\n", "", 80).0, r"\u001b[2J ");
    }

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        let start = Instant::now();
        let mut stage = Stage::new("reading", "frames");
        stage.advance(progress(25, None), start);
        assert_eq!(bar(&stage, start, 40, 11), "⠙ reading: 25 frames");
        stage.advance(progress(25, Some(100)), start);
        let expected = "reading ███░░░░░░░░░░░ 25 of 100 frames";
        assert_eq!(bar(&stage, start, 40, 0), expected);
        assert_eq!(expected.chars().count(), 39, "the last column is free");
        stage.advance(progress(200, Some(100)), start);
        assert!(!bar(&stage, start, 60, 0).contains('░'), "more than the total was done");
    }

    #[test]
    fn times_have_no_more_digits_than_they_deserve() {
        let times = [(0.2, "1 s"), (99.0, "99 s"), (100.0, "2 min")];
        let times = times.into_iter().chain([(5940.0, "99 min"), (5941.0, "2 h")]);
        times.for_each(|(seconds, text)| assert_eq!(time(seconds), text));
    }

    #[test]
    fn without_a_terminal_there_is_a_line_for_each_period_until_the_end() {
        let (printed, lines) = channel();
        let stage = Arc::new(Mutex::new(Stage::new("reading", "frames")));
        lock(&stage).advance(progress(7, None), Instant::now());
        let print = move |line: &str| drop(printed.send(line.to_owned()));
        let running = Ticker::printing(stage, Duration::from_millis(1), print);
        let is_line =
            |line: String| line.starts_with("after ") && line.ends_with(" s: reading: 7 frames");
        assert!(is_line(lines.recv().unwrap()) && is_line(lines.recv().unwrap()));
        drop(running);
        assert!(lines.iter().all(is_line), "the thread has ended");
    }
}
