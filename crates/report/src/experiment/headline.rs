//! Sentence that counts the verdicts on all claims and names the claim that is missed by most.

use perforate_records::{ClaimRecord, Verdict};
use perforate_types::counted;

use super::claim::{miss, ours_text, paper_text};
use super::tally::Tally;

/// Returns a sentence with the number of claims by verdict, and the claim whose value is furthest from the
/// paper's. `None` if there are no claims.
pub(super) fn headline<'a>(claims: impl Iterator<Item = &'a ClaimRecord>) -> Option<String> {
    let claims: Vec<&ClaimRecord> = claims.collect();
    let tally = Tally::of(claims.iter().copied());
    if tally.total() == 0 {
        return None;
    }
    let verdicts = [
        (tally.same_direction, "in the same direction only"),
        (tally.not_reproduced, "not reproduced"),
    ];
    let all = counted(tally.total(), "claim");
    let mut text = format!("{} of {all} reproduced", tally.reproduced);
    for (count, verdict) in verdicts.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {verdict}");
    }
    if let Some(worst) = worst(&claims) {
        let (id, ours, paper) = (&worst.id, ours_text(worst), paper_text(worst));
        text += &format!("; furthest from the paper: {id}, ours {ours}, the paper's {paper}");
    }
    Some(text + ".")
}

/// Returns the claim whose value is furthest from the paper's; `None` if no value differs. Claims with the
/// verdict "not reproduced" take precedence over those with "same direction".
fn worst<'a>(claims: &[&'a ClaimRecord]) -> Option<&'a ClaimRecord> {
    let of = |verdict| misses(claims.iter().copied(), verdict).into_iter().next();
    of(Verdict::NotReproduced).or_else(|| of(Verdict::SameDirection))
}

/// Returns the claims with this verdict whose values can be compared with the paper's, furthest from the
/// paper first.
pub(super) fn misses<'a>(
    claims: impl Iterator<Item = &'a ClaimRecord>,
    verdict: Verdict,
) -> Vec<&'a ClaimRecord> {
    let missed = claims.filter(|claim| claim.verdict == verdict);
    let mut missed: Vec<(&ClaimRecord, f64)> =
        missed.filter_map(|claim| Some((claim, miss(claim)?))).collect();
    missed.sort_by(|one, other| other.1.total_cmp(&one.1));
    missed.into_iter().map(|(claim, _)| claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(claims: &[(&str, &str, f64, f64)]) -> Option<String> {
        let claim = |&(id, verdict, paper, ours): &(&str, &str, f64, f64)| {
            serde_json::json!({
                "id": id, "statement": "s", "verdict": verdict, "show": "gain", "kind": "number",
                "paper": paper, "relation": "=", "ours": ours,
            })
        };
        let claims: Vec<_> = claims.iter().map(claim).collect();
        let claims: Vec<ClaimRecord> = serde_json::from_value(claims.into()).unwrap();
        headline(claims.iter())
    }

    #[test]
    fn the_worst_miss_is_named() {
        // The first claim misses 50 % by 10, the second 10 % by 5: in relative terms, the second is further
        // off.
        let found = of(&[
            ("A", "reproduced", 1.2, 1.2),
            ("B", "not_reproduced", 1.5, 1.4),
            ("C", "not_reproduced", 1.1, 1.05),
            ("D", "same_direction", 1.9, 1.1),
        ]);
        assert_eq!(
            found.unwrap(),
            "1 of 4 claims reproduced, 1 in the same direction only, 2 not reproduced; furthest from \
             the paper: C, ours +5.00 %, the paper's +10.0 %."
        );
        assert_eq!(of(&[("A", "reproduced", 1.2, 1.2)]).unwrap(), "1 of 1 claim reproduced.");
        assert_eq!(of(&[]), None);
    }
}
