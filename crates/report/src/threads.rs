//! Table of hardware threads, with a row for each thread.

use maud::{Markup, html};
use perforate_records::HardwareThread;

use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{MISSING, compact, percent};
use crate::html::{Cell, Grid, Heading};

/// Maximum number of hardware threads of a scheme that a terminal shows, unless the user requests all
/// figures.
pub(crate) const MOST_ROWS: usize = 8;

/// A figure of a hardware thread: its heading, and the functions that compute and format it.
pub(crate) type Figure = (&'static str, fn(&HardwareThread) -> Option<f64>, fn(f64) -> String);

/// Figures of each hardware thread. Shares are relative to the cycles in which the thread runs, except for
/// the idle share. Shootdowns are those that the thread sends and waits for; interrupts are those that it
/// receives for other threads' shootdowns.
pub(crate) const FIGURES: [Figure; 7] = [
    ("IPC running", |thread| ratio(thread.instructions, thread.cycles), |ipc| format!("{ipc:.3}")),
    ("idle", |thread| ratio(thread.idle_cycles, thread.cycles + thread.idle_cycles), percent),
    ("translation", |thread| ratio(thread.translation_stall_cycles, thread.cycles), percent),
    ("shootdowns", |thread| Some(thread.shootdowns_waited_for as f64), compact),
    ("waited for", |thread| ratio(thread.shootdown_wait_cycles, thread.cycles), percent),
    ("interrupts", |thread| Some(thread.shootdown_interrupts as f64), compact),
    ("answering", |thread| ratio(thread.shootdown_interrupt_cycles, thread.cycles), percent),
];

fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}

/// Figures of all hardware threads in the first run of each scheme.
pub(crate) struct ThreadRows(pub(crate) Vec<ThreadRow>);

/// Figures of one hardware thread.
pub(crate) struct ThreadRow {
    pub(crate) scheme: String,
    colour: &'static str,
    /// Number of the core and, if a core has several threads, number of the thread, as text.
    pub(crate) thread: String,
    values: Vec<Option<f64>>,
}

impl ThreadRows {
    /// Returns the figures of all hardware threads; `None` unless the comparison has several hardware
    /// threads.
    pub(crate) fn of(comparison: &Comparison<'_>) -> Option<Self> {
        let rows: Vec<ThreadRow> = comparison.schemes.iter().flat_map(rows).collect();
        (!rows.is_empty()).then_some(Self(rows))
    }

    /// Returns the largest number of hardware threads that any scheme has.
    pub(crate) fn most(&self) -> usize {
        let of = |row: &ThreadRow| self.0.iter().filter(|it| it.scheme == row.scheme).count();
        self.0.iter().map(of).max().unwrap_or_default()
    }
}

impl ThreadRow {
    /// Writes a figure of the hardware thread, given by its index in [`FIGURES`].
    pub(crate) fn text(&self, figure: usize) -> String {
        self.values[figure].map_or(MISSING.into(), FIGURES[figure].2)
    }
}

fn rows(scheme: &SchemeRuns<'_>) -> Vec<ThreadRow> {
    let threads = &scheme.first().hardware_threads;
    let has_several = threads.windows(2).any(|pair| pair[0].core == pair[1].core);
    let row = |(number, thread): (usize, &HardwareThread)| ThreadRow {
        scheme: scheme.name.to_owned(),
        colour: scheme.colour,
        thread: match has_several {
            true => format!("core {}, thread {number}", thread.core),
            false => format!("core {}", thread.core),
        },
        values: FIGURES.iter().map(|figure| figure.1(thread)).collect(),
    };
    threads.iter().enumerate().map(row).collect()
}

/// Returns the table of hardware threads for a page; empty if there is only one thread.
pub(crate) fn section(comparison: &Comparison<'_>, id: &str) -> Markup {
    let Some(threads) = ThreadRows::of(comparison) else { return html! {} };
    let own = ["scheme", "hardware thread"].into_iter();
    let head = own.chain(FIGURES.iter().map(|figure| figure.0));
    let cells = |row: &ThreadRow| {
        let own = [Cell::scheme(&row.scheme, row.colour), Cell::text(&row.thread)];
        let figures = row.values.iter().zip(&FIGURES);
        let figures = figures.map(|(value, figure)| Cell::value(*value, figure.2));
        own.into_iter().chain(figures).collect()
    };
    let rows = threads.0.iter().map(cells).collect();
    let grid = Grid { head: head.map(Heading::from).collect(), rows };
    html! {
        h3 id={ (id) "-threads" } { "Hardware threads" }
        p.lead {
            "IPC while it runs; shares of the time in which it runs: waiting for translation, for answers "
            "to the shootdowns that it sends, and answering those that it is interrupted for."
        }
        (grid.scrolling("What each hardware thread did", "main"))
    }
}
