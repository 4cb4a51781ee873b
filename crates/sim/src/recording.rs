//! Notes on the recording of a trace.

use perforate_trace::SourceMetadata;
use perforate_types::Counters;

/// Beginning of the note on a trace whose recording ended before the recorded program did.
pub const CUT_OFF: &str = "the recording was ended before its program";

/// Returns notes on the failure of the recorded program, and on parts that a recording lacks: its end, or mappings
/// of accessed memory.
pub fn recording_notes(metadata: &SourceMetadata) -> Vec<String> {
    let by = metadata.stopped_by.map(|reason| format!(", by {reason}")).unwrap_or_default();
    let cut_off = metadata
        .is_cut_off
        .then(|| format!("{CUT_OFF}{by}: what share of the program the trace is is not known"));
    let unmapped = (metadata.accesses_unmapped > 0).then(|| {
        let accesses = accesses(metadata.accesses_unmapped);
        format!(
            "warning: {accesses} of the recording went to memory that the recorder did not see \
             being mapped: the simulated kernel refuses these, and the answer leaves them out"
        )
    });
    metadata.failure.clone().into_iter().chain(cut_off).chain(unmapped).collect()
}

/// Returns a note on accesses that the simulated kernel refused. `None` if there are none, or if the trace's recorder
/// reported accesses to unmapped memory. Of a trace without map events, all addresses that a program can have are
/// mapped.
pub(crate) fn refused_note(metadata: &SourceMetadata, counters: &Counters) -> Option<String> {
    let refused = counters.get("accesses_refused").filter(|count| *count >= 1.0)?;
    (metadata.accesses_unmapped == 0).then(|| {
        let accesses = accesses(refused as u64);
        let memory = match metadata.has_events {
            true => "to memory that the trace does not map or not for writing",
            false => "to addresses that no program has, such as the kernel's",
        };
        format!(
            "warning: the simulated kernel refused {accesses} of the measured part, {memory}; the answer leaves them out"
        )
    })
}

fn accesses(count: u64) -> String {
    match count {
        1 => "1 access".into(),
        _ => format!("{count} accesses"),
    }
}

#[cfg(test)]
mod tests {
    use perforate_trace::StoppedBy;

    use super::*;

    #[test]
    fn the_failure_of_a_recorded_program_is_noted() {
        let failure = "the program was killed by signal 11".to_owned();
        let metadata =
            SourceMetadata { failure: Some(failure.clone()), ..SourceMetadata::default() };
        assert_eq!(recording_notes(&metadata), [failure]);
    }

    #[test]
    fn a_recording_without_fault_needs_no_note() {
        assert_eq!(recording_notes(&SourceMetadata::default()), Vec::<String>::new());
        assert_eq!(refused_note(&SourceMetadata::default(), &Counters::default()), None);
    }

    #[test]
    fn notes_name_the_limit_and_count_the_accesses() {
        let metadata = SourceMetadata {
            is_cut_off: true,
            stopped_by: Some(StoppedBy::Time),
            accesses_unmapped: 1,
            ..SourceMetadata::default()
        };
        let notes = recording_notes(&metadata);
        assert!(notes[0].contains("before its program, by its limit of time: "), "{notes:?}");
        assert!(notes[1].starts_with("warning: 1 access of the recording went to"), "{notes:?}");
    }

    #[test]
    fn refused_accesses_are_noted_once() {
        let mut counters = Counters::default();
        counters.set("accesses_refused", 12u64);
        let quiet = SourceMetadata { has_events: true, ..SourceMetadata::default() };
        let note = refused_note(&quiet, &counters).unwrap();
        assert!(note.contains("refused 12 accesses of the measured part"), "{note}");
        let counted = SourceMetadata { accesses_unmapped: 12, ..quiet };
        assert_eq!(refused_note(&counted, &counters), None, "the recorder's note says more");
    }

    #[test]
    fn notes_in_full() {
        let metadata = |is_cut_off, stopped_by, accesses_unmapped| SourceMetadata {
            is_cut_off,
            stopped_by,
            accesses_unmapped,
            has_events: true,
            ..SourceMetadata::default()
        };
        let notes = recording_notes(&metadata(true, None, 0));
        assert_eq!(
            notes,
            [format!("{CUT_OFF}: what share of the program the trace is is not known")]
        );
        let notes = recording_notes(&metadata(false, Some(StoppedBy::Time), 2));
        assert_eq!(
            notes,
            ["warning: 2 accesses of the recording went to memory that the recorder did not see \
              being mapped: the simulated kernel refuses these, and the answer leaves them out"]
        );
        let refused = |count: u64, has_events| {
            let mut counters = Counters::default();
            counters.set("accesses_refused", count);
            refused_note(&SourceMetadata { has_events, ..metadata(false, None, 0) }, &counters)
        };
        assert_eq!(
            refused(1, true).unwrap(),
            "warning: the simulated kernel refused 1 access of the measured part, to memory that the \
             trace does not map or not for writing; the answer leaves them out"
        );
        assert_eq!(
            refused(2, false).unwrap(),
            "warning: the simulated kernel refused 2 accesses of the measured part, to addresses that no program has, \
             such as the kernel's; the answer leaves them out"
        );
        assert_eq!((refused(0, true), refused(0, false)), (None, None));
    }
}
