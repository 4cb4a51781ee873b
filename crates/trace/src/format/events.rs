//! Program events as JSON: an array of `[position, event]`, position being the number of
//! instructions before the event since the start of the trace.

use perforate_types::ProgramEvent;

use super::columns::{Column, Packer, Unpacker};
use super::header::{Problem, problem};
use super::{MAX_EVENTS_BYTES, MAX_PHASE_FIGURES};

/// An event and how many instructions came before it.
pub(crate) type Placed = (u64, ProgramEvent);

/// The payload of a chunk with these events; `None` where they are too long for one.
pub(crate) fn encode(events: &[Placed], packer: &mut Packer) -> std::io::Result<Option<Vec<u8>>> {
    let list = serde_json::to_vec(events)?;
    if list.len() > MAX_EVENTS_BYTES {
        return Ok(None);
    }
    packer.pack(&[list]).map(Some)
}

/// What a phase has to tell, in pieces of about the same size in memory; of other events 0.
pub(crate) fn figures(event: &ProgramEvent) -> usize {
    let ProgramEvent::Phase { name, figures } = event else { return 0 };
    let letters: usize = figures.iter().map(|(name, _)| name.len()).sum();
    figures.len() + (name.len() + letters) / 64
}

/// The events in `payload`, whose positions must not fall below `earliest`.
pub(crate) fn decode(
    payload: &[u8],
    count: u32,
    earliest: u64,
    unpacker: &mut Unpacker,
) -> Result<Vec<Placed>, Problem> {
    let mut columns = [Column::default()];
    unpacker.unpack(payload, &mut columns)?;
    let length = columns[0].rest().len();
    if length > MAX_EVENTS_BYTES {
        let found = format!("events of {length} bytes");
        return Err(problem(found, format!("at most {MAX_EVENTS_BYTES} in a chunk")));
    }
    let events: Vec<Placed> = serde_json::from_slice(columns[0].rest())
        .map_err(|error| problem(format!("events that cannot be read ({error})"), "valid JSON"))?;
    if events.len() != count as usize {
        let found = format!("{} events", events.len());
        return Err(problem(found, format!("{count} as the chunk header says")));
    }
    let mut previous = earliest;
    for (position, event) in &events {
        if figures(event) > MAX_PHASE_FIGURES {
            let found = format!("a phase with {} figures", figures(event));
            return Err(problem(found, format!("at most {MAX_PHASE_FIGURES}, and short names")));
        }
        if *position < previous {
            let found = format!("an event at instruction {position}");
            return Err(problem(found, format!("none before instruction {previous}")));
        }
        previous = *position;
    }
    Ok(events)
}
