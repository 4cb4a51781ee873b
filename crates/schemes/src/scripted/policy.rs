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
