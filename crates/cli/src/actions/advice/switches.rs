//! Steps that a verdict recommends, such as settings and calls of `madvise`.

use perforate_advice::PageOrder;
use perforate_advice::remedy::{AdvisedRange, Aim, Surroundings, remedies, size_for_all};
use perforate_records::{AdviceStep, AdviceVerdict};
use perforate_report::more_memory;

/// Facts from which the steps are made, together with the verdict.
#[derive(Default)]
pub struct Switches {
    /// Facts about this machine and the program.
    pub facts: Surroundings,
    /// Memory with larger pages in the recommended plan.
    pub ranges: Vec<AdvisedRange>,
    /// Size between 4KB and 2MB that gains nearly as much for less memory, its speed over the program as it is, and
    /// its memory beyond that, in bytes.
    pub frugal_size: Option<(PageOrder, f64, i64)>,
}

impl Switches {
    /// The steps that a verdict recommends; none if pages are to stay as they are.
    pub fn steps(&self, verdict: AdviceVerdict) -> Vec<AdviceStep> {
        let aim = match verdict {
            AdviceVerdict::CostsMemory => Aim::Off,
            _ if verdict.recommends() && !self.ranges.is_empty() => {
                Aim::Ranges(self.ranges.clone())
            }
            _ => return Vec::new(),
        };
        let mut steps = remedies(&self.facts, &aim);
        if let Some((order, speed, more)) = self.frugal_size.filter(|_| !steps.is_empty()) {
            let effect = format!("{speed:.3}× as fast as it is, for {}", more_memory(more as f64));
            steps.extend(size_for_all(&self.facts, order.bytes(), &effect));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::ProcessId;

    use super::*;

    #[test]
    fn steps_follow_the_verdict() {
        let range = AdvisedRange {
            process: ProcessId(0),
            area: ("[heap]".into(), 0),
            bytes: 1 << 30..2 << 30,
            page_bytes: 2 << 20,
        };
        let switches = Switches { ranges: vec![range], ..Switches::default() };
        let has_steps = |switches: &Switches, verdict| !switches.steps(verdict).is_empty();
        for (verdict, expected) in [
            (AdviceVerdict::Worth, true),
            (AdviceVerdict::Unclear, true),
            (AdviceVerdict::CostsMemory, true),
            (AdviceVerdict::AlreadyOn, false),
            (AdviceVerdict::NotWorth, false),
            (AdviceVerdict::TooLittle, false),
            (AdviceVerdict::Ranking, false),
        ] {
            assert_eq!(has_steps(&switches, verdict), expected, "{verdict:?}");
        }
        assert!(!has_steps(&Switches::default(), AdviceVerdict::Worth), "nothing is advised");
        let madvise = "madvise in the program";
        let titles = |verdict| switches.steps(verdict).iter().any(|step| step.title == madvise);
        assert_eq!(
            (titles(AdviceVerdict::Worth), titles(AdviceVerdict::CostsMemory)),
            (true, false)
        );
    }
}
