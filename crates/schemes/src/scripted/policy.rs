//! The policy "scripted": passes the kernel's questions to a script.

use std::any::Any;
use std::cell::RefCell;

use perforate_os::mechanism::{Attributes, HoledPages, LargePageAdvice, REGION_PAGES, first_of};
use perforate_os::{
    BlockUse, HoleAllocation, HoleRule, HugePageRule, MechanismError, OrderPurpose, OrderRequest,
    Orders, OsError, Policy, Promotion, PromotionChoices, PromotionRule, Victim,
};
use perforate_script::{
    Answered, AreaFacts, BlockFacts, HoleUse, Purpose, Question, RegionFacts, Script, ScriptError,
    VictimFacts, WayFacts,
};
use perforate_types::{Backing, Counters, HoleSet, figures};

use crate::perforated::PerforatedPages;

const PAGE_BYTES: u64 = 4096;

/// Format of the page tables that a script's policy uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    /// Ordinary page tables of x86-64, without holes.
    Ordinary,
    /// Page tables with perforated pages.
    Perforated,
}

/// Name of the script of a script policy. Other code recognizes a script policy by this rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRule(pub String);

/// Policy whose decisions a script makes. For questions that the script does not define, it behaves
/// like `thp`: 2MB pages where possible, no holes, khugepaged copies, and reclaim takes any victim.
pub(super) struct Scripted {
    script: Script,
    rule: ScriptRule,
    tables: Tables,
    /// True if memory is fragmented by a simulated or recorded history, not by fragmentation
    /// generated before the run. The script gets this fact with each block.
    aged: bool,
    state: RefCell<ScriptState>,
}

/// State that a script policy keeps between the kernel's questions: numbers of questions and
/// operations, the script's first failure, and the answers to recent questions.
#[derive(Default)]
struct ScriptState {
    counts: Counts,
    failure: Option<OsError>,
    /// Last question about page sizes, with the sizes (buddy orders) offered and the script's
    /// choice. Several parts of the kernel ask the same question in succession, so the script runs
    /// once.
    orders: Option<(AreaFacts, Purpose, Orders, Orders)>,
    block: Option<(BlockFacts, BlockUse)>,
}

/// Numbers of questions to a script and of operations that it executed.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    questions: u64,
    operations: u64,
}

figures! {
    pub(super) static SCRIPTED: Counts, "Scripted policy" {
        /// Questions that the kernel asked the policy's script since the start.
        policy_questions, Count, Listed: |it| it.questions;
        /// Operations that the policy's script executed for its answers, as the script language
        /// counts them.
        policy_operations, Count, Listed: |it| it.operations;
    }
}

impl Scripted {
    pub(super) fn new(script: Script, tables: Tables, aged: bool) -> Self {
        let rule = ScriptRule(script.name().into());
        Self { script, rule, tables, aged, state: RefCell::default() }
    }

    /// Returns the script's answer, or `default` if the script does not define the function. After
    /// a failure, the script is not called again.
    fn ask<T>(
        &self,
        default: T,
        question: impl FnOnce(&Script) -> Result<Option<Answered<T>>, ScriptError>,
    ) -> T {
        let mut state = self.state.borrow_mut();
        if state.failure.is_some() {
            return default;
        }
        match question(&self.script) {
            Ok(None) => default,
            Ok(Some(Answered { answer, operations })) => {
                state.counts.questions += 1;
                state.counts.operations += operations;
                answer
            }
            Err(error) => {
                state.failure = Some(MechanismError::new(error).into());
                default
            }
        }
    }

    fn block(&self, holes: &HoleSet) -> BlockFacts {
        BlockFacts {
            holes: holes.count() as u64,
            regions_with_holes: u64::from(holes.filter().count_ones()),
            aged: self.aged,
        }
    }
}

impl Policy for Scripted {
    fn name(&self) -> &'static str {
        match self.tables {
            Tables::Ordinary => "scripted",
            Tables::Perforated => "perforated-scripted",
        }
    }

    fn describe(&self) -> String {
        format!("{}:{}", self.name(), self.script.name())
    }

    fn rules(&self) -> Vec<&dyn Any> {
        match self.tables {
            Tables::Ordinary => vec![&self.rule, &HugePageRule],
            Tables::Perforated => vec![&self.rule],
        }
    }

    fn orders_for(&self, request: &OrderRequest<'_>) -> Orders {
        let area = area_facts(request);
        let purpose = match request.purpose {
            OrderPurpose::Fault => Purpose::Fault,
            OrderPurpose::Khugepaged => Purpose::Khugepaged,
        };
        let offered = request.offered;
        let last = self.state.borrow().orders;
        if let Some((.., answer)) =
            last.filter(|last| (last.0, last.1, last.2) == (area, purpose, offered))
        {
            return answer;
        }
        let orders: Vec<u32> = offered.iter().collect();
        let default = Answered { answer: vec![Orders::LARGE], operations: 0 };
        let wanted = self.ask(default.answer, |script| script.order_for(area, purpose, &orders));
        let answer = wanted.into_iter().fold(Orders::BASE, Orders::with);
        self.state.borrow_mut().orders = Some((area, purpose, offered, answer));
        answer
    }

    fn reclaims(&self, victim: &Victim<'_>) -> bool {
        let facts = VictimFacts {
            address: first_of(victim.number).wrapping_mul(PAGE_BYTES),
            pages_present: victim.pages,
            large: victim.is_large,
            holes: victim.holes,
            advice: victim.area.map_or("none", |area| advice(&area.attributes)),
        };
        self.ask(true, |script| script.reclaim(facts))
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if holes.is_empty() {
            return BlockUse::Large;
        }
        if self.tables == Tables::Ordinary || *holes == HoleSet::FULL {
            return BlockUse::Pages;
        }
        let block = self.block(holes);
        let last = self.state.borrow().block;
        if let Some((_, answer)) = last.filter(|(known, _)| *known == block) {
            return answer;
        }
        let answer = match self.ask(HoleUse::No, |script| script.with_holes(block)) {
            HoleUse::No => BlockUse::Pages,
            HoleUse::Eager => BlockUse::WithHoles(HoleAllocation::Eager),
            HoleUse::Lazy => BlockUse::WithHoles(HoleAllocation::Lazy),
        };
        self.state.borrow_mut().block = Some((block, answer));
        answer
    }

    fn hole_rule(&self) -> Option<&dyn HoleRule> {
        (self.tables == Tables::Perforated).then_some(self)
    }

    fn promotions(&self) -> &'static [Promotion] {
        let chooses = self.script.defines(Question::Promote);
        match self.tables {
            Tables::Perforated if chooses => PromotionRule::Cheapest.promotions(),
            _ => PromotionRule::Collapse.promotions(),
        }
    }

    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        let region = RegionFacts {
            pages_present: REGION_PAGES - choices.pages_absent,
            pages_absent: choices.pages_absent,
            pages_shared: choices.pages_shared,
        };
        let (promotions, ways): (Vec<Promotion>, Vec<WayFacts>) = self
            .promotions()
            .iter()
            .filter_map(|&promotion| Some((promotion, way_facts(choices, promotion)?)))
            .unzip();
        let default = choices.cheapest(self.promotions(), 0.0);
        let default = promotions.iter().position(|&promotion| Some(promotion) == default);
        self.ask(default, |script| script.promote(region, &ways)).map(|place| promotions[place])
    }

    fn failure(&self) -> Option<OsError> {
        self.state.borrow().failure.clone()
    }

    fn counters(&self, out: &mut Counters) {
        out.record(SCRIPTED, &self.state.borrow().counts);
    }
}

impl HoleRule for Scripted {
    fn pages(&self) -> &'static dyn HoledPages {
        &PerforatedPages
    }

    fn reserves(&self) -> bool {
        false
    }

    fn demotes(&self, holes: &HoleSet) -> bool {
        self.ask(false, |script| script.demote(self.block(holes)))
    }

    fn patches(&self, frames_copied: u64) -> bool {
        self.ask(false, |script| script.patch(frames_copied))
    }
}

fn area_facts(request: &OrderRequest<'_>) -> AreaFacts {
    let OrderRequest { area, page, memory, .. } = request;
    let (attributes, zones) = (&area.attributes, memory.zones());
    AreaFacts {
        address: page.wrapping_mul(PAGE_BYTES),
        start: area.start.wrapping_mul(PAGE_BYTES),
        length: (area.end - area.start) * PAGE_BYTES,
        kind: kind(attributes.backing),
        advice: advice(attributes),
        shared: attributes.is_shared(),
        writable: attributes.permissions.write,
        executable: attributes.permissions.execute,
        memory_bytes: memory.memory_bytes(),
        free_bytes: zones.free_frames() * PAGE_BYTES,
        // A free 4MB block is counted as two 2MB blocks.
        free_blocks: zones.free_blocks(Orders::LARGE) + 2 * zones.free_blocks(Orders::LARGE + 1),
    }
}

fn way_facts(choices: &PromotionChoices, promotion: Promotion) -> Option<WayFacts> {
    let name = match promotion {
        Promotion::Collapse => "collapse",
        Promotion::PunchInPlace => "punch_in_place",
        Promotion::PunchAround => "punch_around",
    };
    choices.price(promotion).map(|price| WayFacts {
        name,
        frames_copied: price.frames_copied,
        frames_migrated: price.frames_migrated,
        frames_zeroed: price.frames_zeroed,
        holes: price.holes.count() as u64,
    })
}

fn kind(backing: Backing) -> &'static str {
    match backing {
        Backing::Heap => "heap",
        Backing::Stack => "stack",
        Backing::File => "file",
        Backing::Anonymous => "anonymous",
    }
}

fn advice(attributes: &Attributes) -> &'static str {
    match attributes.large_pages {
        LargePageAdvice::None => "none",
        LargePageAdvice::Wanted | LargePageAdvice::Order(_) => "hugepage",
        LargePageAdvice::Refused => "nohugepage",
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::PromotionPrice;

    use super::*;

    fn policy(text: &str, tables: Tables) -> Scripted {
        Scripted::new(Script::compile("test", text).expect("a script"), tables, true)
    }

    fn questions(policy: &Scripted) -> f64 {
        let mut out = Counters::default();
        policy.counters(&mut out);
        assert_eq!(
            out.get("policy_operations") > Some(0.0),
            out.get("policy_questions") > Some(0.0)
        );
        out.get("policy_questions").expect("it is counted")
    }

    fn holes(count: usize) -> HoleSet {
        (0..count).collect()
    }

    /// Whole blocks are used without a question, and others never become large pages without holes. The
    /// same question in succession is asked once.
    #[test]
    fn a_script_is_asked_about_blocks_with_holes() {
        let text = r#"fn with_holes(block) {
            if !block.aged { return "lazy"; }
            if block.holes == 3 { "lazy" } else { block.holes < 5 && block.regions_with_holes == 1 }
        }"#;
        let script = policy(text, Tables::Perforated);
        let with = |allocation| BlockUse::WithHoles(allocation);
        for (number, expected, asked) in [
            (0, BlockUse::Large, 0.0),
            (HoleSet::SUBPAGES, BlockUse::Pages, 0.0),
            (4, with(HoleAllocation::Eager), 1.0),
            (4, with(HoleAllocation::Eager), 1.0),
            (3, with(HoleAllocation::Lazy), 2.0),
            (4, with(HoleAllocation::Eager), 3.0),
            (5, BlockUse::Pages, 4.0),
            (5, BlockUse::Pages, 4.0),
        ] {
            assert_eq!(script.use_block(&holes(number)), expected, "{number}");
            assert_eq!(questions(&script), asked, "{number}");
        }
        let ordinary = policy(text, Tables::Ordinary);
        assert_eq!(
            [0, 4].map(|number| ordinary.use_block(&holes(number))),
            [BlockUse::Large, BlockUse::Pages]
        );
        assert_eq!((questions(&ordinary), ordinary.hole_rule().is_none()), (0.0, true));
        assert_eq!(ordinary.describe(), "scripted:test");
    }

    #[test]
    fn a_script_patches_and_demotes_or_nothing_does() {
        let text = "fn patch(frames) { frames < 7 } fn demote(block) { block.holes > 7 }";
        let script = policy(text, Tables::Perforated);
        let rule = script.hole_rule().expect("it has holes");
        assert!(!rule.reserves());
        assert_eq!([6, 7].map(|frames| rule.patches(frames)), [true, false]);
        assert_eq!([7, 8].map(|number| rule.demotes(&holes(number))), [false, true]);
        assert_eq!(questions(&script), 4.0);
        let silent = policy("fn reclaim(victim) { false }", Tables::Perforated);
        let rule = silent.hole_rule().expect("it has holes");
        assert_eq!(
            (rule.patches(0), rule.demotes(&holes(400)), questions(&silent)),
            (false, false, 0.0)
        );
        assert_eq!(silent.use_block(&holes(1)), BlockUse::Pages);
    }

    #[test]
    fn a_script_sees_the_facts_of_a_victim() {
        let small = Victim { area: None, number: 3, pages: 400, is_large: false, holes: 0 };
        let perforated = Victim { number: 4, pages: 507, is_large: true, holes: 5, ..small };
        for (victim, facts) in [
            (small, ["address == 6291456", "pages_present == 400", "large == false", "holes == 0"]),
            (perforated, ["address == 8388608", "pages_present == 507", "large", "holes == 5"]),
        ] {
            for fact in facts.into_iter().chain(["advice == \"none\""]) {
                let text = format!("fn reclaim(victim) {{ victim.{fact} }}");
                let script = policy(&text, Tables::Perforated);
                assert!(script.reclaims(&victim), "{fact}");
                assert_eq!((questions(&script), script.failure()), (1.0, None), "{fact}");
            }
        }
    }

    /// After the first failure the script is not called again, and the defaults hold.
    #[test]
    fn a_script_that_failed_is_asked_no_more() {
        let script = policy("fn patch(frames) { 10 / (7 - frames) > 5 }", Tables::Perforated);
        assert!(script.patches(6) && script.failure().is_none());
        assert!(!script.patches(7));
        let failure = script.failure().expect("a division by 0").to_string();
        assert!(!script.patches(6), "it would say yes");
        assert_eq!((script.failure().unwrap().to_string(), questions(&script)), (failure, 1.0));
    }

    /// A script sees the price of each possible way to promote a region. If the script has no function for that, the
    /// policy takes the only way that it has.
    #[test]
    fn a_script_chooses_among_the_possible_promotions() {
        let price = |frames_copied, frames_migrated, frames_zeroed| {
            Some(PromotionPrice { frames_copied, frames_migrated, frames_zeroed, holes: holes(2) })
        };
        let mut choices =
            PromotionChoices { pages_absent: 12, pages_shared: 3, ..PromotionChoices::default() };
        choices.prices[Promotion::Collapse as usize] = price(9, 0, 0);
        choices.prices[Promotion::PunchAround as usize] = price(0, 5, 1);
        let names = "fn promote(region, ways) {
            if region.pages_present != 500 || region.pages_absent != 12 || region.pages_shared != 3 { return; }
            for way in ways { if way.WHAT { return way.name; } }
        }";
        for (what, tables, expected) in [
            ("frames_copied == 9", Tables::Perforated, Some(Promotion::Collapse)),
            ("frames_migrated == 5", Tables::Perforated, Some(Promotion::PunchAround)),
            ("frames_zeroed == 1", Tables::Perforated, Some(Promotion::PunchAround)),
            ("holes == 2", Tables::Perforated, Some(Promotion::Collapse)),
            ("name == \"punch_around\"", Tables::Perforated, Some(Promotion::PunchAround)),
            ("name == \"punch_in_place\"", Tables::Perforated, None),
            ("frames_migrated == 5", Tables::Ordinary, None),
            ("name == \"collapse\"", Tables::Ordinary, Some(Promotion::Collapse)),
        ] {
            let script = policy(&names.replace("WHAT", what), tables);
            assert_eq!(script.promote(&choices), expected, "{what}");
            assert_eq!((questions(&script), script.failure()), (1.0, None), "{what}");
        }
        let silent = policy("fn reclaim(victim) { false }", Tables::Perforated);
        assert_eq!(silent.promote(&choices), Some(Promotion::Collapse), "no others without a word");
        assert_eq!(silent.promotions(), [Promotion::Collapse]);
        assert_eq!(questions(&silent), 0.0);
    }
}
