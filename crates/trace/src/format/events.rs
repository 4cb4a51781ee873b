//! Program events as JSON: an array of `[position, event]`, position being the number of
//! instructions before the event since the start of the trace.

use perforate_types::ProgramEvent;

use super::columns::{Column, Packer, Unpacker};
use super::header::{Problem, problem};

/// An event and how many instructions came before it.
pub(crate) type Placed = (u64, ProgramEvent);

pub(crate) fn encode(events: &[Placed], packer: &mut Packer) -> std::io::Result<Vec<u8>> {
    packer.pack(&[serde_json::to_vec(events)?])
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
    let events: Vec<Placed> = serde_json::from_slice(columns[0].rest())
        .map_err(|error| problem(format!("events that cannot be read ({error})"), "valid JSON"))?;
    if events.len() != count as usize {
        let found = format!("{} events", events.len());
        return Err(problem(found, format!("{count} as the chunk header says")));
    }
    let mut previous = earliest;
    for (position, _) in &events {
        if *position < previous {
            let found = format!("an event at instruction {position}");
            return Err(problem(found, format!("none before instruction {previous}")));
        }
        previous = *position;
    }
    Ok(events)
}
