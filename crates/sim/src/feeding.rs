//! One decoder feeds the simulations of a comparison, each on a thread of its own; with sampled timing
//! on two, where there are processors to spare.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use perforate_trace::{Source, TraceError};
use perforate_types::{Advice, Chunk, ProgramEvent};

use crate::footprint::Footprint;
use crate::memory_history::TouchedHistory;
use crate::processors::Threads;
use crate::sampled::{Gaps, PrecisionRule};
use crate::simulation::{Figures, Simulation};
use crate::stretches::Tally;
use crate::{Observer, Progress, SimError};

/// Chunks a slow scheme may lag behind the decoder.
const CHUNKS_AHEAD: usize = 8;

/// Calls of madvise about large pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugePageAdvices {
    /// MADV_HUGEPAGE.
    pub(crate) wanted: u64,
    /// MADV_NOHUGEPAGE.
    pub(crate) refused: u64,
}

/// What the program has touched so far.
pub(crate) struct Touched {
    pub(crate) footprint: Footprint,
    pub(crate) history: TouchedHistory,
    pub(crate) gaps: Gaps,
    pub(crate) advices: HugePageAdvices,
    /// Instructions decoded.
    pub(crate) done: u64,
    /// The run ended because its figures were as precise as was asked.
    pub(crate) is_precise: bool,
}

impl Touched {
    pub(crate) fn new() -> Self {
        Self {
            footprint: Footprint::new(),
            history: TouchedHistory::new(),
            gaps: Gaps::default(),
            advices: HugePageAdvices::default(),
            done: 0,
            is_precise: false,
        }
    }

    fn add(&mut self, chunk: &Chunk) {
        self.history.observe(self.done, self.footprint.bytes());
        self.footprint.add(chunk);
        self.gaps.add(self.done, chunk);
        for (_, event) in &chunk.events {
            if let ProgramEvent::Advise { advice, .. } = event {
                self.advices.wanted += u64::from(*advice == Advice::HugePage);
                self.advices.refused += u64::from(*advice == Advice::NoHugePage);
            }
        }
        self.done += chunk.instructions.len() as u64;
    }
}

/// What a simulation is sent.
enum Feed {
    /// Run this.
    Chunk(Arc<Chunk>),
    /// Tell which windows were timed so far.
    Tell(SyncSender<(usize, Vec<Tally>)>),
}

/// Feeds every simulation from one decoder, until the source ends, `precision` is reached or the run is
/// no longer wanted.
pub(crate) fn run_all(
    simulations: Vec<Simulation>,
    source: &mut dyn Source,
    touched: &mut Touched,
    (total, precision): (Option<u64>, Option<&PrecisionRule>),
    observer: &mut dyn Observer,
) -> Result<Vec<Figures>, SimError> {
    let is_cancelled = AtomicBool::new(false);
    let is_cancelled = &is_cancelled;
    // The decoder is one more.
    let mut threads = Threads::needed(simulations.len() + 1);
    // The clock of full timing is nearly all of a run: a thread for the rest gains nothing.
    let gain = simulations.iter().filter(|simulation| simulation.has_timed_windows()).count();
    let have_clock_threads = gain > 0 && threads.more_if_spare(gain);
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut workers = Vec::new();
        let slowest: Arc<Vec<AtomicU64>> =
            Arc::new(simulations.iter().map(|_| AtomicU64::new(0)).collect());
        for (index, mut simulation) in simulations.into_iter().enumerate() {
            if have_clock_threads && simulation.has_timed_windows() {
                simulation = simulation.with_clock_thread()?;
            }
            let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
            let done = Arc::clone(&slowest);
            senders.push(sender);
            let run = move || run_one((index, simulation), &receiver, &done[index], is_cancelled);
            // Those that were started end with their feeds, as this ends with the error.
            let worker = thread::Builder::new().spawn_scoped(scope, run);
            workers.push(worker.map_err(SimError::Thread)?);
        }
        let decoded = decode(source, touched, senders, precision, |delivered| {
            if delivered > 0 && delivered.is_multiple_of(16) {
                let done = slowest.iter().map(|done| done.load(Ordering::Relaxed)).min();
                observer.on_progress(Progress { done: done.unwrap_or(0), total });
            }
            is_cancelled.store(observer.is_cancelled(), Ordering::Relaxed);
            !observer.is_cancelled()
        });
        let outcomes: Vec<Result<Figures, SimError>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        decoded?;
        first_cause(outcomes)
    })
}

/// The figures of all schemes, or why a run ended. Once one scheme has failed the others get no
/// more instructions, so that their runs may be too short for the warm-up; that is not the cause.
fn first_cause(outcomes: Vec<Result<Figures, SimError>>) -> Result<Vec<Figures>, SimError> {
    let mut figures = Vec::new();
    let mut too_short = None;
    for outcome in outcomes {
        match outcome {
            Ok(run) => figures.push(run),
            Err(error @ SimError::WarmupTooLong { .. }) => too_short = too_short.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    too_short.map_or(Ok(figures), Err)
}

fn run_one(
    (index, mut simulation): (usize, Simulation),
    feed: &Receiver<Feed>,
    done: &AtomicU64,
    is_cancelled: &AtomicBool,
) -> Result<Figures, SimError> {
    for order in feed {
        if is_cancelled.load(Ordering::Relaxed) {
            break;
        }
        match order {
            Feed::Chunk(chunk) => {
                simulation.run_shared(&chunk)?;
                done.store(simulation.instructions(), Ordering::Relaxed);
            }
            Feed::Tell(asker) => {
                // An asker that is gone no longer wants to know.
                let _ = asker.send((index, simulation.timed_windows().to_vec()));
            }
        }
    }
    if is_cancelled.load(Ordering::Relaxed) {
        return Err(SimError::Stopped);
    }
    simulation.finish()
}

/// Windows of every scheme so far; none once a scheme has failed.
fn ask(senders: &[SyncSender<Feed>]) -> Option<Vec<Vec<Tally>>> {
    let (sender, receiver) = sync_channel(senders.len());
    for simulation in senders {
        simulation.send(Feed::Tell(sender.clone())).ok()?;
    }
    drop(sender);
    let mut windows = vec![Vec::new(); senders.len()];
    for _ in senders {
        let (index, its) = receiver.recv().ok()?;
        windows[index] = its;
    }
    Some(windows)
}

/// Delivers every chunk to every scheme, until `goes_on` says no to the number of chunks delivered. Chunks
/// come back for reuse once all are done with them.
fn decode(
    source: &mut dyn Source,
    touched: &mut Touched,
    senders: Vec<SyncSender<Feed>>,
    precision: Option<&PrecisionRule>,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<(), TraceError> {
    let mut pool: Vec<Arc<Chunk>> = Vec::new();
    let mut delivered = 0u64;
    let mut ask_at = precision.map_or(u64::MAX, |rule| rule.period);
    while goes_on(delivered) {
        let free = pool.iter().position(|chunk| Arc::strong_count(chunk) == 1);
        let mut chunk = free.map_or_else(Arc::default, |index| pool.swap_remove(index));
        let buffer = Arc::get_mut(&mut chunk).expect("nobody else holds the chunk");
        if !source.next_chunk(buffer)? {
            return Ok(());
        }
        touched.add(buffer);
        for sender in &senders {
            if sender.send(Feed::Chunk(Arc::clone(&chunk))).is_err() {
                return Ok(()); // That scheme failed; its error is reported when it is joined.
            }
        }
        pool.push(chunk);
        if let Some(rule) = precision.filter(|_| touched.done >= ask_at) {
            // All schemes are at the same instruction: the outcome depends on no thread's speed.
            ask_at = touched.done.saturating_add(rule.period);
            let Some(windows) = ask(&senders) else { return Ok(()) };
            if rule.is_met(&windows) {
                touched.is_precise = true;
                return Ok(());
            }
        }
        delivered += 1;
    }
    Ok(())
}
