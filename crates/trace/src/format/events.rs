//! Program events as JSON: an array of `[position, event]`. The position is the number of instructions
//! before the event, from the start of the trace.

use perforate_types::ProgramEvent;

use super::columns::{Packer, Unpacker};
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
    let column = unpacker.unpack_one(payload)?;
    let length = column.rest().len();
    if length > MAX_EVENTS_BYTES {
        let found = format!("events of {length} bytes");
        return Err(problem(found, format!("at most {MAX_EVENTS_BYTES} in a chunk")));
    }
    let events: Vec<PositionedEvent> = serde_json::from_slice(column.rest())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(
        events: &[PositionedEvent],
        count: u32,
        earliest: u64,
    ) -> Result<Vec<PositionedEvent>, String> {
        let payload = encode(events, &mut Packer::new(1).unwrap()).unwrap().unwrap();
        let decoded = decode(&payload, count, earliest, &mut Unpacker::new().unwrap());
        decoded.map_err(|problem| problem.found)
    }

    #[test]
    fn events_are_in_order_and_as_many_as_the_chunk_says() {
        let events = [5, 5, 9].map(|position| (position, ProgramEvent::Exec));
        assert_eq!(decoded(&events, 3, 5), Ok(events.to_vec()));
        assert_eq!(decoded(&events, 2, 5), Err("3 events".into()));
        assert_eq!(decoded(&events, 4, 5), Err("3 events".into()));
        assert_eq!(decoded(&events, 3, 6), Err("an event at instruction 5".into()));
        let events = [5, 9, 8].map(|position| (position, ProgramEvent::Exec));
        assert_eq!(decoded(&events, 3, 0), Err("an event at instruction 8".into()));
    }

    #[test]
    fn texts_of_events_are_limited() {
        let phase = |name: usize, figures: usize, letters: usize| ProgramEvent::Phase {
            name: "n".repeat(name),
            figures: vec![("f".repeat(letters), 1); figures],
        };
        let name = |bytes: usize| ProgramEvent::Name {
            start: perforate_types::VirtualAddress::new(0),
            length: 4096,
            name: "n".repeat(bytes),
        };
        for (event, units) in [
            (ProgramEvent::Exec, 0),
            (phase(63, 0, 0), 0),
            (phase(64, 3, 0), 4),
            (phase(60, 2, 34), 4),
            (name(127), 1),
            (name(128), 2),
        ] {
            assert_eq!(text_units(&event), units, "{event:?}");
        }
        assert!(check(&phase(1, MAX_PHASE_FIGURES, 0)).is_ok());
        assert!(check(&phase(1, MAX_PHASE_FIGURES + 1, 0)).is_err());
        assert!(check(&name(MAX_NAME_BYTES)).is_ok() && check(&name(MAX_NAME_BYTES + 1)).is_err());
        assert!(decoded(&[(0, name(MAX_NAME_BYTES + 1))], 1, 0).is_err());
    }
}
