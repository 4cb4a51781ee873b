//! Program events as JSON: an array of `[position, event]`. The position is the number of instructions
//! before the event, from the start of the trace.

use perforate_types::ProgramEvent;

use super::columns::{Column, Packer, Unpacker};
use super::header::{Problem, problem};
use super::{MAX_EVENTS_BYTES, MAX_NAME_BYTES, MAX_PHASE_FIGURES};

/// An event, with the number of instructions before it.
pub(crate) type PositionedEvent = (u64, ProgramEvent);

/// Encodes these events as the payload of a chunk; `None` if it would exceed the limit of a chunk.
pub(crate) fn encode(
    events: &[PositionedEvent],
    packer: &mut Packer,
) -> std::io::Result<Option<Vec<u8>>> {
    let list = serde_json::to_vec(events)?;
    if list.len() > MAX_EVENTS_BYTES {
        return Ok(None);
    }
    packer.pack(&[list]).map(Some)
}

/// Memory that the texts of an event take beyond its own size, in units of about 64 bytes. Each figure of a
/// phase (number that the program reports with it) is one unit.
pub(crate) fn text_units(event: &ProgramEvent) -> usize {
    match event {
        ProgramEvent::Phase { name, figures } => {
            let letters: usize = figures.iter().map(|(name, _)| name.len()).sum();
            figures.len() + (name.len() + letters) / 64
        }
        ProgramEvent::Name { name, .. } => name.len() / 64,
        _ => 0,
    }
}

/// Checks that the texts of an event are within the limits of the format.
pub(crate) fn check(event: &ProgramEvent) -> Result<(), Problem> {
    match event {
        ProgramEvent::Phase { .. } if text_units(event) > MAX_PHASE_FIGURES => {
            let found = format!("a phase with {} figures", text_units(event));
            Err(problem(found, format!("at most {MAX_PHASE_FIGURES}, and short names")))
        }
        ProgramEvent::Name { name, .. } if name.len() > MAX_NAME_BYTES => {
            let found = format!("a name of {} bytes", name.len());
            Err(problem(found, format!("at most {MAX_NAME_BYTES}")))
        }
        _ => Ok(()),
    }
}

/// Decodes the events in `payload`. An event at an instruction number below `earliest` is an error.
pub(crate) fn decode(
    payload: &[u8],
    count: u32,
    earliest: u64,
    unpacker: &mut Unpacker,
) -> Result<Vec<PositionedEvent>, Problem> {
    let mut columns = [Column::default()];
    unpacker.unpack(payload, &mut columns)?;
    let length = columns[0].rest().len();
    if length > MAX_EVENTS_BYTES {
        let found = format!("events of {length} bytes");
        return Err(problem(found, format!("at most {MAX_EVENTS_BYTES} in a chunk")));
    }
    let events: Vec<PositionedEvent> = serde_json::from_slice(columns[0].rest())
        .map_err(|error| problem(format!("events that cannot be read ({error})"), "valid JSON"))?;
    if events.len() != count as usize {
        let found = format!("{} events", events.len());
        return Err(problem(found, format!("{count} as the chunk header says")));
    }
    let mut previous = earliest;
    for (position, event) in &events {
        check(event)?;
        if *position < previous {
            let found = format!("an event at instruction {position}");
            return Err(problem(found, format!("none before instruction {previous}")));
        }
        previous = *position;
    }
    Ok(events)
}
