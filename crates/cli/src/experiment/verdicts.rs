//! Verdicts of claims as plain lines, for `diff` against those of an earlier build.

use serde::Deserialize;

/// What a verdict's line takes from a record; other records have no verdict.
#[derive(Deserialize)]
struct Claim {
    experiment: String,
    id: String,
    statement: String,
    verdict: String,
}

/// One line for each claim among these records: experiment, id, statement, verdict.
pub fn verdicts(records: &str) -> String {
    let claims = records.lines().filter_map(|line| serde_json::from_str::<Claim>(line).ok());
    claims
        .map(|Claim { experiment, id, statement, verdict }| {
            format!("{experiment} | {id} | {statement} | {verdict}\n")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_have_a_line_and_other_records_none() {
        let records = r#"{"record":"experiment","experiment":"a/b","title":"T"}
{"record":"claim","experiment":"a/b","id":"P-C2","statement":"S","ours":1.5,"verdict":"reproduced"}
"#;
        assert_eq!(verdicts(records), "a/b | P-C2 | S | reproduced\n");
    }
}
