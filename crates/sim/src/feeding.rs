//! Distribution of decoded instructions to the simulations of a comparison. Each simulation has a
//! separate thread. With sampled timing it has two, if there are spare processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use perforate_trace::{Source, TraceError};
use perforate_types::{Advice, Chunk, ProgramEvent};

use crate::footprint::Footprint;
use crate::memory_history::touched_history;
use crate::processors::Threads;
use crate::sampled::{Gaps, PrecisionRule};
use crate::samples::Samples;
use crate::simulation::{Figures, Simulation};
use crate::stretches::PartCounts;
use crate::{Observer, Progress, SimError};

/// Largest number of chunks by which a slow scheme may lag behind the decoder.
const CHUNKS_AHEAD: usize = 8;

/// Number of madvise calls about large pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugePageAdvices {
    /// Number of madvise calls with MADV_HUGEPAGE.
    pub(crate) wanted: u64,
    /// Number of madvise calls with MADV_NOHUGEPAGE.
    pub(crate) refused: u64,
}

/// Statistics of the decoded instructions, which are the same for all schemes.
pub(crate) struct Touched {
    pub(crate) footprint: Footprint,
    pub(crate) history: Samples<u64>,
    pub(crate) gaps: Gaps,
    pub(crate) advices: HugePageAdvices,
    /// Number of instructions decoded so far.
    pub(crate) done: u64,
    /// True if the run ended early because its results reached the requested precision.
    pub(crate) is_precise: bool,
}

impl Touched {
    pub(crate) fn new() -> Self {
        Self {
            footprint: Footprint::new(),
            history: touched_history(),
            gaps: Gaps::default(),
            advices: HugePageAdvices::default(),
            done: 0,
            is_precise: false,
        }
    }

    fn add(&mut self, chunk: &Chunk) {
        self.history.add_if_due(self.done, || self.footprint.bytes());
        self.footprint.add(chunk);
        self.gaps.add(self.done, chunk);
        for (_, event) in &chunk.events {
            if let ProgramEvent::Advise { advice, .. } = event {
                self.advices.wanted +=
                    u64::from(matches!(advice, Advice::HugePage | Advice::PageSize(_)));
                self.advices.refused += u64::from(*advice == Advice::NoHugePage);
            }
        }
        self.done += chunk.instructions.len() as u64;
    }
}

/// Message to the thread of a simulation.
enum Feed {
    /// Request to run a chunk of instructions.
    Chunk(Arc<Chunk>),
    /// Request to report the index of the simulation, and the counts of each window of sampled
    /// timing so far.
    ReportWindows(SyncSender<(usize, Vec<PartCounts>)>),
}

/// Feeds all simulations from one decoder, until the source ends, `precision` is reached or the
/// observer cancels the run.
pub(crate) fn run_all(
    simulations: Vec<Simulation>,
    source: &mut dyn Source,
    touched: &mut Touched,
    (total, precision): (Option<u64>, Option<&PrecisionRule>),
    observer: &mut dyn Observer,
) -> Result<Vec<Figures>, SimError> {
    let is_cancelled = AtomicBool::new(false);
    let is_cancelled = &is_cancelled;
    // The decoder needs one more thread.
    let mut threads = Threads::needed(simulations.len() + 1);
    // With full timing, the clock takes nearly all of the time, so a separate thread for
    // translation gains nothing.
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
            // Earlier workers end when their senders are dropped, on return with the error.
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

/// Returns the results of all schemes, or the error that ended the run. Once one scheme fails, the
/// others get no more instructions, so they may report that the warm-up was too long. That error is
/// only a consequence, so another one is preferred.
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
            Feed::ReportWindows(answer) => {
                // The receiver is gone if another scheme has failed.
                let _ = answer.send((index, simulation.timed_windows().to_vec()));
            }
        }
    }
    if is_cancelled.load(Ordering::Relaxed) {
        return Err(SimError::Stopped);
    }
    simulation.finish()
}

/// Returns the counts of the windows of sampled timing so far, for each scheme; `None` if a scheme
/// has failed.
fn collect_windows(senders: &[SyncSender<Feed>]) -> Option<Vec<Vec<PartCounts>>> {
    let (sender, receiver) = sync_channel(senders.len());
    for simulation in senders {
        simulation.send(Feed::ReportWindows(sender.clone())).ok()?;
    }
    drop(sender);
    let mut windows = vec![Vec::new(); senders.len()];
    for _ in senders {
        let (index, reported) = receiver.recv().ok()?;
        windows[index] = reported;
    }
    Some(windows)
}

/// Decodes the source and delivers every chunk to every scheme. Calls `goes_on` before each chunk
/// with the number of chunks delivered so far; `false` ends the delivery. Reuses chunks when all
/// schemes have released them.
fn decode(
    source: &mut dyn Source,
    touched: &mut Touched,
    senders: Vec<SyncSender<Feed>>,
    precision: Option<&PrecisionRule>,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<(), TraceError> {
    let mut pool: Vec<Arc<Chunk>> = Vec::new();
    let mut delivered = 0u64;
    let mut next_check = precision.map_or(u64::MAX, |rule| rule.period);
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
                return Ok(()); // The scheme failed; joining its thread reports the error.
            }
        }
        pool.push(chunk);
        if let Some(rule) = precision.filter(|_| touched.done >= next_check) {
            // All schemes are at the same instruction, so the outcome does not depend on the speed of
            // threads.
            next_check = touched.done.saturating_add(rule.period);
            let Some(windows) = collect_windows(&senders) else { return Ok(()) };
            if rule.is_met(&windows) {
                touched.is_precise = true;
                return Ok(());
            }
        }
        delivered += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use perforate_config::Share;
    use perforate_trace::SourceMetadata;
    use perforate_types::{Instruction, VirtualAddress};

    use super::*;
    use crate::{Composition, Machine, MemoryState, RunOptions, SystemOptions, TimedWindows};

    /// A source of chunks of ten instructions without accesses.
    struct Tens {
        metadata: SourceMetadata,
        chunks: u64,
    }

    impl Source for Tens {
        fn metadata(&self) -> &SourceMetadata {
            &self.metadata
        }

        fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
            chunk.clear();
            if self.chunks == 0 {
                return Ok(false);
            }
            self.chunks -= 1;
            (0..10).for_each(|_| chunk.push(Instruction::default(), &[]));
            Ok(true)
        }

        fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
            unreachable!("no instruction is skipped")
        }
    }

    fn tens(chunks: u64) -> Tens {
        Tens { metadata: SourceMetadata::default(), chunks }
    }

    fn simulation(scheme: &str) -> Simulation {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let system = SystemOptions { check: false, implicit_maps: false, counts_only: false };
        let options = RunOptions { functional: true, system, warmup: 0 };
        let memory = MemoryState::of(64 << 20);
        let composition = Composition::find(scheme).unwrap();
        Simulation::new(&machine, composition, &memory, 1, options).unwrap()
    }

    /// Progress is reported after every 16 chunks. Simulations are behind the decoder by the chunks in
    /// their queue, at most [`CHUNKS_AHEAD`], and the one in work.
    #[test]
    fn progress_is_that_of_the_slowest_scheme() {
        let mut told = Vec::new();
        let mut observer = |progress: Progress| told.push((progress.done, progress.total));
        let simulations = vec![simulation("4k"), simulation("thp")];
        let (mut source, mut touched) = (tens(100), Touched::new());
        let length = (Some(1000), None);
        let figures =
            run_all(simulations, &mut source, &mut touched, length, &mut observer).unwrap();
        assert_eq!((figures.len(), touched.done), (2, 1000));
        assert_eq!(told.len(), 6);
        for (number, (done, total)) in (1..).zip(told) {
            let delivered = 160 * number;
            let least = delivered - 10 * (CHUNKS_AHEAD as u64 + 1);
            assert!((least..=delivered).contains(&done), "{done} of {delivered}");
            assert_eq!((done % 10, total), (0, Some(1000)));
        }
    }

    /// The period is 25 instructions. Windows are asked for after 30 instructions, then after the
    /// first chunk that ends 25 or more later.
    #[test]
    fn precision_is_checked_once_in_a_period() {
        let windows = TimedWindows { window: 5, period: 25 };
        let rule = PrecisionRule::new(windows, Share::percent(1));
        for (rule, expected) in [(Some(&rule), vec![30, 60, 90]), (None, vec![])] {
            let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
            let worker = thread::spawn(move || {
                let (mut done, mut asked) = (0, Vec::new());
                for order in receiver {
                    match order {
                        Feed::Chunk(chunk) => done += chunk.instructions.len(),
                        Feed::ReportWindows(answer) => {
                            asked.push(done);
                            answer.send((0, Vec::new())).unwrap();
                        }
                    }
                }
                (done, asked)
            });
            let mut touched = Touched::new();
            let decoded = decode(&mut tens(11), &mut touched, vec![sender], rule, |_| true);
            decoded.unwrap();
            assert_eq!(worker.join().unwrap(), (110, expected));
            assert!(!touched.is_precise, "no window was timed");
        }
    }

    #[test]
    fn a_cancelled_run_has_no_result() {
        struct Impatient(u64);
        impl Observer for Impatient {
            fn on_progress(&mut self, progress: Progress) {
                self.0 = progress.done.max(1);
            }
            fn is_cancelled(&self) -> bool {
                self.0 > 0
            }
        }
        let (mut source, mut touched) = (tens(1000), Touched::new());
        let (mut observer, length) = (Impatient(0), (None, None));
        let simulations = vec![simulation("4k")];
        let outcome = run_all(simulations, &mut source, &mut touched, length, &mut observer);
        assert!(matches!(outcome, Err(SimError::Stopped)));
        assert_eq!(touched.done, 160, "nothing is decoded after the first report");
    }

    #[test]
    fn the_first_error_that_is_no_consequence_is_told() {
        let too_short = || Err(SimError::WarmupTooLong { warmup: 9, instructions: 3 });
        let stopped = || Err(SimError::Stopped);
        let cause = |outcomes| first_cause(outcomes).err().unwrap();
        assert!(matches!(cause(vec![too_short(), stopped()]), SimError::Stopped));
        assert!(matches!(cause(vec![stopped(), too_short()]), SimError::Stopped));
        assert!(matches!(cause(vec![too_short()]), SimError::WarmupTooLong { .. }));
        assert!(first_cause(Vec::new()).unwrap().is_empty());
    }

    /// Calls of madvise that ask for large pages of any size, or forbid them; no others.
    #[test]
    fn advice_on_large_pages_is_counted() {
        let mut chunk = Chunk::default();
        let advices = [
            Advice::HugePage,
            Advice::PageSize(4),
            Advice::NoHugePage,
            Advice::DontNeed,
            Advice::Other(23),
            Advice::PageSize(18),
        ];
        for advice in advices {
            let start = VirtualAddress::new(0);
            chunk.push_event(ProgramEvent::Advise { start, length: 4096, advice });
            chunk.push(Instruction::default(), &[]);
        }
        let mut touched = Touched::new();
        touched.add(&chunk);
        touched.add(&chunk);
        assert_eq!((touched.advices.wanted, touched.advices.refused), (6, 2));
        assert_eq!(touched.done, 12);
    }
}
