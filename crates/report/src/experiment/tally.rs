//! Numbers of claims by verdict: in total, by paper and by kind of claim.

use std::collections::BTreeMap;

use perforate_records::{ClaimKind, ClaimRecord, ExperimentRecord, Reading, Verdict, paper_of};

/// Numbers of claims by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of claims whose values are within the tolerance.
    pub reproduced: usize,
    /// Number of claims whose values are outside the tolerance, but on the same side of a reference value
    /// (such as 1 for speedups) as the paper's.
    pub same_direction: usize,
    /// Number of claims whose values are neither within the tolerance nor on the paper's side of the
    /// reference value.
    pub not_reproduced: usize,
}

impl Tally {
    /// Returns the numbers of these claims by verdict.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a ClaimRecord>) -> Self {
        let mut tally = Self::default();
        for claim in claims {
            match claim.verdict {
                Verdict::Reproduced => tally.reproduced += 1,
                Verdict::SameDirection => tally.same_direction += 1,
                Verdict::NotReproduced => tally.not_reproduced += 1,
            }
        }
        tally
    }

    /// Returns the total number of claims.
    pub fn total(&self) -> usize {
        self.reproduced + self.same_direction + self.not_reproduced
    }

    pub(super) fn text(&self) -> String {
        format!(
            "{} reproduced, {} same direction, {} not reproduced",
            self.reproduced, self.same_direction, self.not_reproduced
        )
    }
}

/// Numbers of claims by verdict for one paper.
pub(super) struct PaperTally {
    /// Short name of the paper.
    pub name: String,
    pub tally: Tally,
    /// Number of distinct claim ids; `whole_ids` is the number of ids whose claims are all reproduced. Claims
    /// that refer only to a section of their paper have no id.
    pub ids: usize,
    pub whole_ids: usize,
}

/// Returns the numbers of claims for each paper that has claims, in alphabetical order of names.
pub(super) fn papers(results: &[ExperimentRecord]) -> Vec<PaperTally> {
    // Claims that belong to no paper come last.
    let mut found: BTreeMap<(bool, String), Vec<&ClaimRecord>> = BTreeMap::new();
    for claim in claims(results) {
        let name = paper_name(paper_of(&claim.id));
        found.entry((name == OTHERS, name)).or_default().push(claim);
    }
    found
        .into_iter()
        .map(|((_, name), claims)| {
            let (ids, whole_ids) = count_ids(claims.iter().copied());
            let tally = Tally::of(claims);
            PaperTally { name, tally, ids, whole_ids }
        })
        .collect()
}

/// Numbers of claims by verdict for one kind of claim.
pub(super) struct KindTally {
    /// Name of the kind of claims.
    pub name: &'static str,
    pub tally: Tally,
    /// Number of claims that hold for some plausible value of the parameters that the papers do not state;
    /// `None` if these values were not simulated.
    pub in_some_reading: Option<usize>,
}

/// Kinds of claims with their names. Kinds that simulation can contradict come first.
const KINDS: [(ClaimKind, &str); 8] = [
    (ClaimKind::Number, "numbers"),
    (ClaimKind::Threshold, "thresholds"),
    (ClaimKind::Restated, "restated"),
    (ClaimKind::Sign, "signs"),
    (ClaimKind::ClosedForm, "closed forms"),
    (ClaimKind::ByConstruction, "by construction"),
    (ClaimKind::Input, "inputs"),
    (ClaimKind::Test, "tests of explanations"),
];

/// Returns the numbers of claims for each kind that has claims.
pub(super) fn kinds(results: &[ExperimentRecord]) -> Vec<KindTally> {
    let of_kind = |&(kind, name): &(ClaimKind, &'static str)| {
        let of_kind = || claims(results).filter(move |claim| claim.kind == Some(kind));
        let ranges = || of_kind().filter(|claim| claim.unstated.is_some());
        let holds = |claim: &&ClaimRecord| {
            claim.verdict == Verdict::Reproduced
                || claim.unstated.as_ref().is_some_and(|range| range.reading != Reading::InNone)
        };
        let in_some_reading = (ranges().count() > 0).then(|| of_kind().filter(holds).count());
        KindTally { name, tally: Tally::of(of_kind()), in_some_reading }
    };
    KINDS.iter().map(of_kind).filter(|kind| kind.tally.total() > 0).collect()
}

/// Counts the verdicts on claims that simulation can contradict: numbers and thresholds.
pub(super) fn tested(results: &[ExperimentRecord]) -> Tally {
    Tally::of(claims(results).filter(|claim| claim.is_tested()))
}

/// Returns all claims of all experiments.
pub(super) fn claims(results: &[ExperimentRecord]) -> impl Iterator<Item = &ClaimRecord> {
    results.iter().flat_map(|result| &result.claims)
}

/// Returns the number of distinct claim ids, and the number of ids whose claims are all reproduced.
pub(super) fn count_ids<'a>(claims: impl IntoIterator<Item = &'a ClaimRecord>) -> (usize, usize) {
    let mut whole: BTreeMap<&str, bool> = BTreeMap::new();
    for claim in claims.into_iter().filter(|claim| claim.id.contains("-C")) {
        *whole.entry(&claim.id).or_insert(true) &= claim.verdict == Verdict::Reproduced;
    }
    (whole.len(), whole.values().filter(|&&is_whole| is_whole).count())
}

/// Name of the group for claims that belong to no paper.
const OTHERS: &str = "others";

/// Returns the name of the paper whose claims have ids with this prefix.
pub(super) fn paper_name(prefix: &str) -> String {
    match prefix {
        "P" => "P: perforated pages".into(),
        "G" => "G: gap-tolerant superpages".into(),
        "D" => "D: direct segments in virtual machines".into(),
        "" | "test" => OTHERS.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_whole_where_all_its_claims_are_reproduced() {
        let claim = |id: &str, verdict: &str| -> ClaimRecord {
            let text = format!(r#"{{"id":"{id}","statement":"s","verdict":"{verdict}"}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let claims = [
            claim("P-C1", "reproduced"),
            claim("P-C2", "reproduced"),
            claim("P-C2", "same_direction"),
            claim("P-C3", "not_reproduced"),
        ];
        assert_eq!(count_ids(&claims), (3, 1));
        let tally = Tally::of(&claims);
        assert_eq!(tally.text(), "2 reproduced, 1 same direction, 1 not reproduced");
        assert_eq!(tally.total(), 4);
        assert_eq!(paper_of("P-C1"), "P");
        assert_eq!(paper_of("odd"), "");
    }

    #[test]
    fn papers_have_names_and_claims_of_none_come_last() {
        let claim = |id: &str, kind: &str, verdict: &str, reading: &str| {
            let unstated = match reading {
                "" => String::new(),
                reading => format!(
                    r#","unstated":{{"default":1,"least":1,"greatest":2,"variants":2,"reading":"{reading}","parts":[]}}"#
                ),
            };
            let text = format!(
                r#"{{"id":"{id}","statement":"s","kind":"{kind}","verdict":"{verdict}"{unstated}}}"#
            );
            serde_json::from_str::<ClaimRecord>(&text).unwrap()
        };
        let text =
            r#"{"record":"experiment","experiment":"x","title":"t","curves":[],"charts":[]}"#;
        let record: ExperimentRecord = serde_json::from_str(text).unwrap();
        let claims = vec![
            claim("odd", "number", "reproduced", ""),
            claim("test-C1", "sign", "not_reproduced", ""),
            claim("P-C1", "number", "not_reproduced", "inside_the_range"),
            claim("P-C2", "number", "same_direction", "in_none"),
            claim("G-C1", "threshold", "reproduced", ""),
            claim("D 4", "threshold", "same_direction", ""),
            claim("Z-C1", "number", "not_reproduced", "at_the_default"),
        ];
        let results = [ExperimentRecord { claims, ..record }];
        let found: Vec<_> = papers(&results)
            .into_iter()
            .map(|paper| (paper.name, paper.tally.total(), paper.ids, paper.whole_ids))
            .collect();
        let expected = [
            ("D: direct segments in virtual machines", 1, 0, 0),
            ("G: gap-tolerant superpages", 1, 1, 1),
            ("P: perforated pages", 2, 2, 0),
            ("Z", 1, 1, 0),
            ("others", 2, 1, 0),
        ];
        assert_eq!(
            found,
            expected.map(|(name, all, ids, whole)| (name.to_owned(), all, ids, whole))
        );
        let found: Vec<_> = kinds(&results)
            .into_iter()
            .map(|kind| (kind.name, kind.tally.total(), kind.in_some_reading))
            .collect();
        // Reproduced, inside the range, at the default; of thresholds no reading was simulated.
        assert_eq!(found, [("numbers", 4, Some(3)), ("thresholds", 2, None), ("signs", 1, None)]);
        assert_eq!(tested(&results).total(), 6);
    }
}
