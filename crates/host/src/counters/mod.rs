//! Hardware counters of programs that run natively: cycles, instructions, misses of the data TLB, and
//! cycles of page walks.
//!
//! Each counter is opened separately and counts user mode only, so a counter that the processor lacks
//! does not disable the rest. If more counters are open than the hardware has, the kernel multiplexes
//! them, and readings are scaled to the whole time.

mod absence;
mod event;
mod reading;

use perf_event::{Builder, Counter};

use crate::machine::Processor;

pub use absence::Absence;
pub use event::Event;
pub use reading::{PerEvent, Rates, Readings};

/// Open hardware counters of a thread or program.
pub struct Counting {
    counters: Vec<(Event, Counter)>,
}

impl Counting {
    /// Opens counters for the calling thread, which count from now on.
    ///
    /// # Errors
    /// If there are no counters, or this process may not use them.
    pub fn of_thread() -> Result<Self, Absence> {
        Self::open(|builder| {
            builder.enabled(true);
        })
    }

    /// Opens counters for the next program that the calling thread starts, with its threads and
    /// child processes, from its first instruction. Use a value for one program only: the kernel
    /// may pass the counter itself to the program, and then later programs are not counted.
    ///
    /// # Errors
    /// The errors of [`Self::of_thread`].
    pub fn of_next_program() -> Result<Self, Absence> {
        Self::open(|builder| {
            builder.inherit(true).enable_on_exec(true);
        })
    }

    /// Opens a counter for each event. `set` configures when a counter starts, and if child processes are
    /// counted.
    fn open(set: fn(&mut Builder<'_>)) -> Result<Self, Absence> {
        let processor = Processor::own();
        let mut counters = Vec::new();
        let mut refused = None;
        for event in Event::ALL {
            let Some(mut builder) = event.builder(&processor) else { continue };
            set(builder.exclude_kernel(true).exclude_hv(true));
            match builder.build() {
                Ok(counter) => counters.push((event, counter)),
                Err(error) if refused.is_none() => refused = Some(error),
                Err(_) => {}
            }
        }
        match refused {
            Some(error) if counters.is_empty() => Err(Absence::of(&error, &processor)),
            _ => Ok(Self { counters }),
        }
    }

    /// Reads the counts so far. Counters that cannot be read are left out.
    pub fn read(&mut self) -> Readings {
        let mut readings = Readings::default();
        for (event, counter) in &mut self.counters {
            let Ok(data) = counter.read_count_and_time() else { continue };
            let count = reading::scaled(data.count, data.time_enabled, data.time_running);
            readings.set(*event, count);
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    /// Counts page faults, which the kernel itself counts, so that this test runs on any machine.
    /// The counter of a started program works the same way as a counter of the hardware.
    #[test]
    fn only_the_started_program_is_counted() {
        let mut builder = Builder::new().kind(Software::PAGE_FAULTS);
        builder.exclude_kernel(true).inherit(true).enable_on_exec(true);
        let mut counter = match builder.build() {
            Ok(counter) => counter,
            Err(error) => return println!("skipped: perf_event_open: {error}"),
        };
        let mut memory = vec![0_u8; 1 << 20];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
        assert_eq!(counter.read().unwrap(), 0, "no program was started");
        if std::process::Command::new("sh").args(["-c", "true & wait"]).status().is_err() {
            return println!("skipped: there is no shell");
        }
        assert!(counter.read().unwrap() > 0);
        memory.iter_mut().for_each(|byte| *byte = 2);
        let after = counter.read().unwrap();
        let more = vec![1_u8; 1 << 20];
        std::hint::black_box((&memory, &more));
        assert_eq!(counter.read().unwrap(), after, "nor is it after the program");
    }

    #[test]
    fn counters_can_be_read_where_they_exist() {
        match Counting::of_thread() {
            Ok(mut counting) => {
                let before = counting.read();
                let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
                std::hint::black_box(sum);
                let counted = counting.read().since(before);
                assert!(counted.instructions.is_none_or(|count| count > 100_000), "{counted:?}");
            }
            Err(absence) => println!("skipped: {absence}"),
        }
    }
}
