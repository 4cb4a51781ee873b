//! The order of threads and programs: sources around other sources.

mod lines;
mod shared_out;
mod side_by_side;
mod together;

pub use shared_out::SharedOut;
pub use side_by_side::SideBySide;
pub use together::Together;

use perforate_types::{Chunk, ProcessId, ProgramEvent, ThreadId};

use crate::TraceError;
use crate::source::skip_by_decoding;

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

    /// Says in a chunk what happened in a part that was passed over; `running` is who runs then.
    fn after_skipped(skipped: &mut Vec<ProgramEvent>, running: &mut Self, chunk: &mut Chunk) {
        for event in skipped.drain(..) {
            *running = Self::after(&event).unwrap_or(*running);
            chunk.push_event(event);
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

/// Passes over instructions that `fill` delivers; returns how many there were, and the events among
/// them.
fn skip(
    instructions: u64,
    fill: impl FnMut(&mut Chunk, usize) -> Result<bool, TraceError>,
) -> Result<(u64, Vec<ProgramEvent>), TraceError> {
    let mut events = Vec::new();
    let skipped = skip_by_decoding(instructions, |event| events.push(event), fill)?;
    Ok((skipped, events))
}
