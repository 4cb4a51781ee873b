//! The order of threads and programs: sources around other sources.

mod lines;
mod shared_out;
mod side_by_side;
mod together;

pub use shared_out::SharedOut;
pub use side_by_side::SideBySide;
pub use together::Together;

use perforate_types::{Chunk, ProcessId, ProgramEvent, ThreadId};

/// Instructions after which another thread or program takes its turn: few, so that they run side by
/// side, and enough that a turn's end costs little.
const TURN_INSTRUCTIONS: usize = 500;

/// Who runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Runner {
    process: ProcessId,
    thread: ThreadId,
}

impl Runner {
    /// Who runs after an event, if it says so.
    fn after(event: &ProgramEvent) -> Option<Self> {
        match *event {
            ProgramEvent::Switch { process, thread } => Some(Self { process, thread }),
            _ => None,
        }
    }

    /// Says in a chunk that this one runs from here on, unless it does.
    fn take_over(self, running: &mut Self, chunk: &mut Chunk) {
        if self != *running {
            *running = self;
            let Self { process, thread } = self;
            chunk.push_event(ProgramEvent::Switch { process, thread });
        }
    }
}
