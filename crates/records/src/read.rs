//! Reader of results files.

use crate::{RunResult, read_json};

/// Error while reading a results file or a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file contains no records.
    #[error("no results: expected one JSON object per line, found none")]
    Empty,
    /// A line of the file is not the result of a run.
    #[error("line {line}: {cause}; expected one JSON object with at least scheme and workload")]
    Line {
        /// Number of the invalid line, counted from 1.
        line: usize,
        /// Error of the JSON reader.
        cause: serde_json::Error,
    },
    /// A line is not a record of an experiment, or a text is not a snapshot.
    #[error("line {line}: {cause}")]
    Record {
        /// Number of the invalid line, counted from 1.
        line: usize,
        /// Reason why the line or text is invalid, without the line number.
        cause: String,
    },
}

/// Reads a results file: one JSON object per line, empty lines allowed. Characters that control a terminal
/// or reorder text are replaced.
///
/// # Errors
/// [`RecordsError::Line`] if a line is not a result, [`RecordsError::Empty`] if there is no run.
pub fn read_results(text: &str) -> Result<Vec<RunResult>, RecordsError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut results = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let run = read_json(line).map_err(|cause| RecordsError::Line { line: index + 1, cause })?;
        results.push(run);
    }
    if results.is_empty() { Err(RecordsError::Empty) } else { Ok(results) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_missing_and_null_fields_are_tolerated() {
        let line = r#"{"scheme":"4k","workload":"w","seed":null,"cycles":null,"new":[1],
            "counters":{"walks":3,"odd":"text","ratio":0.5,"less":-1},"series":null,"regions":null,
            "warmup":null,"instructions":1e3,"memory_maps":[{"cells":[[1],[2,0,3.5,-1]]}]}"#
            .replace('\n', " ");
        let results = read_results(&format!("\n{line}\n\n")).unwrap();
        let [run] = &results[..] else { panic!("one run") };
        assert_eq!((run.counter("walks"), run.counter("odd")), (Some(3.0), None));
        assert_eq!((run.counter("ratio"), run.counter("less")), (Some(0.5), Some(-1.0)));
        assert_eq!((run.cycles, run.instructions), (None, 1000));
        assert_eq!((run.instructions(), run.cycles()), (Some(1000.0), None));
        let [first, second] = &run.memory_maps[0].cells[..] else { panic!("two runs of cells") };
        assert_eq!((first.cells, first.class), (1, None));
        assert_eq!((second.class, second.free_frames, second.hole_frames), (Some(0), 3, 0));
    }

    /// Reading and writing again gives the same bytes.
    #[test]
    fn reading_and_writing_are_one_schema() {
        let line = r#"{"scheme":"a+b","guest":"a","host":"b","workload":"w","machine":"m","seed":7,"instructions":10,"warmup":{"instructions":1,"stated":true,"detected":false,"suggested_instructions":null},"cycles":20,"ipc":0.5,"counters":{"ratio":0.25,"walks":18446744073709551615},"series":{"l2_tlb_contents":[{"instruction":5,"empty":1,"page_4k":3}],"memory":[{"instruction":5,"unusable_index_2m":0.125,"fragmentation_index_2m":null,"free_bytes":4096,"mapped_bytes":0,"touched_bytes":8192}]},"regions":[{"page":"0x200000","filter":"0x03","holes":["0x0000000000000001"],"allocated":["0x0000000000000000"]}],"memory_maps":[{"of":"guest","instructions":[1,2],"blocks":2,"blocks_per_cell":1,"frames":{"free":1024},"block_classes":{"free":2},"classes":["free"],"cells":[[2,0,512,0,0]]}],"notes":["n"],"config":{"k":1},"version":"1"}"#;
        let results = read_results(line).unwrap();
        assert_eq!(serde_json::to_string(&results[0]).unwrap(), line);
        assert_eq!(results[0].series.l2_tlb_contents[0].entries.get("page_4k"), Some(3));
    }

    #[test]
    fn errors_name_the_line() {
        let text = "{\"scheme\":\"4k\",\"workload\":\"w\"}\n{\"scheme\":\"4k\",\n";
        let error = read_results(text).unwrap_err().to_string();
        assert!(error.starts_with("line 2: "), "{error}");
        assert!(read_results("{\"scheme\":\"4k\"}").unwrap_err().to_string().contains("workload"));
        assert!(matches!(read_results("  \n"), Err(RecordsError::Empty)));
    }
}
