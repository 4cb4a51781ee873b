//! Verdicts of claims as plain lines, for `diff` against those of an earlier build.

use perforate_records::{ClaimRecord, ExperimentRecord, word};

/// One line for each claim: experiment, id, statement, verdict.
pub fn verdicts(results: &[ExperimentRecord]) -> String {
    let line = |ClaimRecord { experiment, id, statement, verdict, .. }: &ClaimRecord| {
        format!("{experiment} | {id} | {statement} | {}\n", word(verdict))
    };
    results.iter().flat_map(|result| &result.claims).map(line).collect()
}

#[cfg(test)]
mod tests {
    use perforate_records::read_experiments;

    use super::*;

    #[test]
    fn claims_have_a_line() {
        let records = r#"{"record":"experiment","experiment":"a/b","title":"T","curves":[]}
{"record":"claim","experiment":"a/b","id":"P-C2","statement":"S","ours":1.5,"verdict":"reproduced"}
"#;
        let results = read_experiments(records).unwrap();
        assert_eq!(verdicts(&results), "a/b | P-C2 | S | reproduced\n");
    }
}
