//! One decoder feeds the simulations of a comparison, each on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use perforate_trace::{Source, TraceError};
use perforate_types::{Advice, Chunk, ProgramEvent};

use crate::footprint::Footprint;
use crate::memory_history::TouchedHistory;
use crate::sampled::Gaps;
use crate::simulation::{Figures, Simulation};
use crate::{Progress, SimError};

/// Chunks a slow scheme may lag behind the decoder.
const CHUNKS_AHEAD: usize = 8;

/// What the program has touched so far.
pub(crate) struct Touched {
    pub(crate) footprint: Footprint,
    pub(crate) history: TouchedHistory,
    pub(crate) gaps: Gaps,
    /// How often it asked for large pages.
    pub(crate) huge_page_advices: u64,
    /// Instructions decoded.
    pub(crate) done: u64,
}

impl Touched {
    pub(crate) fn new() -> Self {
        Self {
            footprint: Footprint::new(),
            history: TouchedHistory::new(),
            gaps: Gaps::default(),
            huge_page_advices: 0,
            done: 0,
        }
    }

    fn add(&mut self, chunk: &Chunk) {
        self.history.observe(self.done, self.footprint.bytes());
        self.footprint.add(chunk);
        self.gaps.add(self.done, chunk);
        let asks = |(_, event): &&(u32, ProgramEvent)| {
            matches!(event, ProgramEvent::Advise { advice: Advice::HugePage, .. })
        };
        self.huge_page_advices += chunk.events.iter().filter(asks).count() as u64;
        self.done += chunk.instructions.len() as u64;
    }
}

/// Feeds every simulation from one decoder.
pub(crate) fn run_all(
    simulations: Vec<Simulation>,
    source: &mut dyn Source,
    touched: &mut Touched,
    total: Option<u64>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Figures>, SimError> {
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut workers = Vec::new();
        let slowest: Arc<Vec<AtomicU64>> =
            Arc::new(simulations.iter().map(|_| AtomicU64::new(0)).collect());
        for (index, simulation) in simulations.into_iter().enumerate() {
            let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
            let done = Arc::clone(&slowest);
            senders.push(sender);
            workers.push(scope.spawn(move || run_one(simulation, &receiver, &done[index])));
        }
        let decoded = decode(source, touched, senders, || {
            let done = slowest.iter().map(|done| done.load(Ordering::Relaxed)).min();
            progress(Progress { done: done.unwrap_or(0), total });
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
    mut simulation: Simulation,
    chunks: &Receiver<Arc<Chunk>>,
    done: &AtomicU64,
) -> Result<Figures, SimError> {
    for chunk in chunks {
        simulation.run(&chunk)?;
        done.store(simulation.instructions(), Ordering::Relaxed);
    }
    simulation.finish()
}

/// Delivers every chunk to every scheme. Chunks come back for reuse once all are done with them.
fn decode(
    source: &mut dyn Source,
    touched: &mut Touched,
    senders: Vec<SyncSender<Arc<Chunk>>>,
    mut tick: impl FnMut(),
) -> Result<(), TraceError> {
    let mut pool: Vec<Arc<Chunk>> = Vec::new();
    let mut delivered = 0u64;
    loop {
        let free = pool.iter().position(|chunk| Arc::strong_count(chunk) == 1);
        let mut chunk = free.map_or_else(Arc::default, |index| pool.swap_remove(index));
        let buffer = Arc::get_mut(&mut chunk).expect("nobody else holds the chunk");
        if !source.next_chunk(buffer)? {
            return Ok(());
        }
        touched.add(buffer);
        for sender in &senders {
            if sender.send(Arc::clone(&chunk)).is_err() {
                return Ok(()); // That scheme failed; its error is reported when it is joined.
            }
        }
        pool.push(chunk);
        delivered += 1;
        if delivered.is_multiple_of(16) {
            tick();
        }
    }
}
