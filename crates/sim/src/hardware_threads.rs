//! Number of hardware threads, and placement of the programs' threads on them.

use std::collections::BTreeMap;

use perforate_config::ConfigError;
use perforate_timing::Topology;
use perforate_types::{ProcessId, ProgramEvent, ThreadId, counted};
use serde::Serialize;

/// Largest number of hardware threads of a run, over all cores.
const MOST_THREADS: u64 = 64;
/// Number of instructions, per hardware thread, by which one thread may run ahead of the others: a
/// few turns of each thread ([`perforate_trace::InterleavedThreads`]).
const LEAD_INSTRUCTIONS: u64 = 8_192;

/// Cores and hardware threads of a run, and order of recorded threads; see
/// [`PlacementOptions`](crate::PlacementOptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessorOptions {
    /// Number of cores, at most 64.
    pub cores: u64,
    /// Number of hardware threads of each core (SMT).
    pub threads_per_core: u64,
    /// Length of a section of the recording, in instructions. Turns of threads that were recorded
    /// within a section run in parallel. 0 keeps the recorded order.
    pub side_by_side: u64,
}

impl Default for ProcessorOptions {
    fn default() -> Self {
        Self { cores: 1, threads_per_core: 1, side_by_side: 2_000_000 }
    }
}

impl ProcessorOptions {
    /// True if there are several hardware threads.
    pub fn are_several(&self) -> bool {
        self.topology().threads() > 1
    }

    /// Checks the number of hardware threads.
    ///
    /// # Errors
    /// [`ConfigError`] if there are no hardware threads, or more than 64.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (cores, each) = (self.cores, self.threads_per_core);
        match cores.checked_mul(each) {
            Some(1..=MOST_THREADS) => Ok(()),
            _ => {
                let problem = format!(
                    "{} of {} each; expected at most {MOST_THREADS} hardware threads in all",
                    counted(cores, "core"),
                    counted(each, "hardware thread"),
                );
                Err(ConfigError::new(problem).under("cores"))
            }
        }
    }

    /// Returns the topology of the hardware threads; a single thread if [`Self::check`] fails.
    pub fn topology(&self) -> Topology {
        let (cores, threads_per_core) = match self.check() {
            Ok(()) => (self.cores as usize, self.threads_per_core as usize),
            Err(_) => (1, 1),
        };
        let lead = LEAD_INSTRUCTIONS * (cores * threads_per_core) as u64;
        Topology { cores, threads_per_core, lead }
    }

    /// Returns a short description of cores and hardware threads for headings; `None` for a single
    /// hardware thread.
    pub(crate) fn describe(&self) -> Option<String> {
        let (cores, each) = (self.cores, self.threads_per_core);
        self.are_several().then(|| match each {
            1 => counted(cores, "core"),
            _ => format!("{} of {each} hardware threads", counted(cores, "core")),
        })
    }
}

/// Assignment of the programs' threads to hardware threads.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    topology: Topology,
    places: BTreeMap<(ProcessId, ThreadId), usize>,
    /// Number of program threads on each hardware thread.
    threads: Vec<u32>,
}

impl Placement {
    /// Creates an assignment in which the first thread of the first process is on hardware thread
    /// 0.
    pub(crate) fn new(topology: Topology) -> Self {
        let mut threads = vec![0; topology.threads()];
        threads[0] = 1;
        Self { topology, places: [((ProcessId(0), ThreadId(0)), 0)].into(), threads }
    }

    pub(crate) fn topology(&self) -> Topology {
        self.topology
    }

    /// Updates the placement for an event. Returns the hardware thread that runs from now on if the
    /// event is a switch of threads, otherwise `None`.
    pub(crate) fn after(&mut self, event: &ProgramEvent) -> Option<usize> {
        match *event {
            ProgramEvent::Switch { process, thread } => Some(self.place(process, thread)),
            ProgramEvent::Exit { process } => {
                let is_of = |&(of, _): &(ProcessId, ThreadId)| of == process;
                for (_, place) in self.places.extract_if(.., |who, _| is_of(who)) {
                    self.threads[place] -= 1;
                }
                None
            }
            _ => None,
        }
    }

    /// Returns the hardware thread on which a program thread always runs. A new program thread gets
    /// the hardware thread with the fewest program threads; ties go to the core with the fewest,
    /// then to the lowest number.
    fn place(&mut self, process: ProcessId, thread: ThreadId) -> usize {
        if let Some(&place) = self.places.get(&(process, thread)) {
            return place;
        }
        let each = self.topology.threads_per_core;
        let on_core = |place: usize| -> u32 {
            let first = place / each * each;
            self.threads[first..first + each].iter().sum()
        };
        let fewest = |&place: &usize| (self.threads[place], on_core(place), place);
        let place = (0..self.threads.len()).min_by_key(fewest).unwrap_or(0);
        self.threads[place] += 1;
        self.places.insert((process, thread), place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_spread_over_cores_and_stay() {
        let topology = Topology { cores: 2, threads_per_core: 2, lead: 1 };
        let mut placement = Placement::new(topology);
        let mut place = |process, thread| {
            let event =
                ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(thread) };
            placement.after(&event).unwrap()
        };
        // Hardware threads 0 and 1 belong to the first core, 2 and 3 to the second.
        assert_eq!([0, 1, 2, 3, 4].map(|thread| place(0, thread)), [0, 2, 1, 3, 0]);
        assert_eq!(place(0, 1), 2);
        assert_eq!(placement.after(&ProgramEvent::Exit { process: ProcessId(0) }), None);
        assert_eq!(placement.threads, [0; 4]);
    }

    #[test]
    fn there_are_at_most_64() {
        let options = |cores, each| ProcessorOptions {
            cores,
            threads_per_core: each,
            ..ProcessorOptions::default()
        };
        assert_eq!(options(16, 4).topology().threads(), 64);
        assert_eq!(options(2, 4).topology().lead, 8 * LEAD_INSTRUCTIONS);
        assert!(!options(1, 1).are_several() && options(1, 2).are_several());
        let error = options(u64::MAX, 2).check().unwrap_err().to_string();
        assert!(error.contains("at most 64 hardware threads"), "{error}");
        assert_eq!(options(4, 2).describe().unwrap(), "4 cores of 2 hardware threads");
    }

    #[test]
    fn numbers_of_threads_have_limits() {
        let options = |cores, threads_per_core| ProcessorOptions {
            cores,
            threads_per_core,
            ..ProcessorOptions::default()
        };
        for (cores, each) in [(1, 1), (64, 1), (32, 2), (1, 64)] {
            assert!(options(cores, each).check().is_ok(), "{cores} of {each}");
            assert_eq!(options(cores, each).topology().threads() as u64, cores * each);
        }
        for (cores, each, given) in [
            (65, 1, "65 cores of 1 hardware thread each"),
            (13, 5, "13 cores of 5 hardware threads each"),
            (0, 1, "0 cores of 1 hardware thread each"),
            (1, 0, "1 core of 0 hardware threads each"),
        ] {
            let error = options(cores, each).check().unwrap_err().to_string();
            let expected = format!("cores: {given}; expected at most 64 hardware threads in all");
            assert_eq!(error, expected);
            assert!(!options(cores, each).are_several(), "as a single one");
            let Topology { cores, threads_per_core, lead } = options(cores, each).topology();
            assert_eq!((cores, threads_per_core, lead), (1, 1, LEAD_INSTRUCTIONS));
        }
        let described = |cores, each| options(cores, each).describe();
        assert_eq!(described(1, 1), None);
        assert_eq!(described(2, 1).as_deref(), Some("2 cores"));
        assert_eq!(described(1, 2).as_deref(), Some("1 core of 2 hardware threads"));
        let default = ProcessorOptions::default();
        let values = (default.cores, default.threads_per_core, default.side_by_side);
        assert_eq!(values, (1, 1, 2_000_000));
        let Topology { cores, threads_per_core, lead } = options(3, 2).topology();
        assert_eq!((cores, threads_per_core, lead), (3, 2, 6 * 8_192));
    }

    /// Only the threads of the process that exits leave room; a program thread that comes back is new.
    #[test]
    fn places_of_a_process_that_exits_are_free() {
        let topology = Topology { cores: 2, threads_per_core: 2, lead: 1 };
        let mut placement = Placement::new(topology);
        let switch = |placement: &mut Placement, process, thread| {
            let (process, thread) = (ProcessId(process), ThreadId(thread));
            placement.after(&ProgramEvent::Switch { process, thread }).unwrap()
        };
        let places = [(1, 0), (1, 1), (2, 0), (2, 1)];
        let placed = places.map(|(process, thread)| switch(&mut placement, process, thread));
        assert_eq!((placed, placement.threads.as_slice()), ([2, 1, 3, 0], &[2, 1, 1, 1][..]));
        placement.after(&ProgramEvent::Exit { process: ProcessId(1) });
        assert_eq!(placement.threads, [2, 0, 0, 1]);
        // Of two free hardware threads, the second core's is on the core with fewer program threads.
        assert_eq!(switch(&mut placement, 1, 1), 2);
        assert_eq!(switch(&mut placement, 2, 1), 0, "it stays");
        assert_eq!(placement.after(&ProgramEvent::Exec), None);
        assert_eq!(placement.topology(), topology);
    }
}
