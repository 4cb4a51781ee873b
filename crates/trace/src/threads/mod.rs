//! Sources that wrap other sources and change the order in which threads and programs run.

mod lines;
mod shared_out;
mod side_by_side;
mod together;

pub use shared_out::SharedOut;
pub use side_by_side::InterleavedThreads;
pub use together::ConcurrentPrograms;

use perforate_types::{Chunk, ProcessId, ProgramEvent, ThreadId};

use crate::TraceError;
use crate::source::skip_by_decoding;

/// Number of instructions that a thread or program runs in its turn: few, so that threads run concurrently,
/// and enough that a switch costs little.
const TURN_INSTRUCTIONS: usize = 500;

/// Process and thread that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Runner {
    process: ProcessId,
    thread: ThreadId,
}

impl Runner {
    /// Returns the process and thread that run after a switch event; `None` for other events.
    fn after(event: &ProgramEvent) -> Option<Self> {
        match *event {
            ProgramEvent::Switch { process, thread } => Some(Self { process, thread }),
            _ => None,
        }
    }

    /// Moves the events of skipped instructions from `skipped` into `chunk`. Sets `running` to the thread
    /// that the last switch event among them names, if any.
    fn after_skipped(skipped: &mut Vec<ProgramEvent>, running: &mut Self, chunk: &mut Chunk) {
        for event in skipped.drain(..) {
            *running = Self::after(&event).unwrap_or(*running);
            chunk.push_event(event);
        }
    }

    /// Adds a switch event to this process and thread to `chunk`, unless they are running already.
    fn take_over(self, running: &mut Self, chunk: &mut Chunk) {
        if self != *running {
            *running = self;
            let Self { process, thread } = self;
            chunk.push_event(ProgramEvent::Switch { process, thread });
        }
    }
}

/// Skips up to `instructions` instructions of the source that `fill` reads. Returns the number of skipped
/// instructions, and their events.
fn skip(
    instructions: u64,
    fill: impl FnMut(&mut Chunk, usize) -> Result<bool, TraceError>,
) -> Result<(u64, Vec<ProgramEvent>), TraceError> {
    let mut events = Vec::new();
    let skipped = skip_by_decoding(instructions, |event| events.push(event), fill)?;
    Ok((skipped, events))
}
