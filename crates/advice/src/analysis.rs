//! The analysis of a trace: areas, pieces, gains and the curve.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use perforate_mmu::TlbConfig;
use perforate_trace::{Source, TraceError};
use serde::Serialize;

use crate::collect::{PageCounts, References, collect};
use crate::filter::{PossibleOrders, filtered};
use crate::marginal::{self, PiecePages, Simulations, additional_bytes};
use crate::tlbs::{PageSizes, Walk, WalkCounts, orders_with_entries};
use crate::{
    Area, AreaKind, Choice, ChoiceGain, ENOUGH, GainCurve, PageOrder, Piece, PieceUse,
    TouchedRegions, pieces,
};

/// Largest number of references that simulations of choices hear together: about half a minute of processor
/// time. Traces with many references have fewer and larger pieces.
const WORK_OF_CHOICES: usize = 1_500_000_000;
/// Largest number of references that simulations of the curve's points hear together.
const WORK_OF_CURVE: usize = 500_000_000;
/// Largest number of areas that are simulated as a whole with each page size.
const MOST_AREAS: usize = 8;
/// Share of all walks, 1/100, that an area needs for that.
const AREA_SHARE: u64 = 100;

/// Reason for which a trace cannot be analysed.
#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The programs' accesses are spread over more aligned gigabytes than ids distinguish.
    #[error(
        "the accesses are spread over more than 8,192 aligned gigabytes; expected a smaller part of \
         the trace, such as --instructions 10M"
    )]
    TooManyAddresses,
    /// The caller asked the analysis to stop.
    #[error("stopped")]
    Stopped,
}

/// Progress of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Amount done of the present stage: instructions, or configurations.
    pub done: u64,
    /// Total amount of the stage; `None` if unknown.
    pub total: Option<u64>,
}

/// Part of a run that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredPart {
    /// Number of instructions after the program's set-up before walks and accesses count.
    pub warmup: u64,
}

/// Use of one area, and page walks with 4KB pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AreaUse {
    /// Accesses, touched blocks, copies after a fork.
    #[serde(flatten)]
    pub pages: PieceUse,
    /// Page walks with 4KB pages everywhere, first walks to pages not counted.
    pub walks: u64,
}

/// Effect of one page size for a whole area, with 2MB pages elsewhere: walks to memory with 4KB pages would hide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AreaGain {
    /// Index of the area.
    pub area: usize,
    /// Page size of its memory. With 1GB pages, memory beside whole aligned gigabytes has 2MB pages.
    pub order: PageOrder,
    /// Page walks of the whole program that are saved over 4KB pages for the area.
    pub saved_walks: u64,
    /// Resident memory beyond that with 4KB pages, in bytes.
    pub additional_bytes: u64,
}

/// Result of an analysis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Name of the trace or workload.
    pub workload: String,
    /// Areas in order of process and address.
    pub areas: Vec<Area>,
    /// Use of each area.
    pub area_uses: Vec<AreaUse>,
    /// Pieces with page walks, of areas that take advice. Pieces of 1GB come last and overlap the others.
    pub pieces: Vec<Piece>,
    /// Use of each piece, and page walks with 4KB pages.
    pub piece_uses: Vec<AreaUse>,
    /// Walks with 4KB pages everywhere.
    pub base: WalkCounts,
    /// Walks with 2MB pages wherever an area can have one, as `thp` maps them in unfragmented memory.
    pub all_large: WalkCounts,
    /// Resident memory beyond that with 4KB pages if all areas have 2MB pages, in bytes.
    pub all_large_bytes: u64,
    /// Page sizes for which the machine has TLB entries.
    pub orders: Vec<PageOrder>,
    /// Effect of each choice alone, with 4KB pages elsewhere.
    pub gains: Vec<ChoiceGain>,
    /// Effect of each page size for each of the areas with most walks, those first.
    pub area_gains: Vec<AreaGain>,
    /// The best choices of pages up to 2MB together.
    pub curve: GainCurve,
    /// The choices that save [`ENOUGH`] of what the curve saves, and 1GB pages beside them, the best first; empty
    /// if none are possible.
    pub huge_curve: GainCurve,
    /// Touched memory of areas that take advice.
    #[serde(skip)]
    pub touched: TouchedRegions,
    /// Number of instructions that count.
    pub instructions: u64,
    /// Number of data accesses that count.
    pub accesses: u64,
    /// True if the trace says what was mapped. Otherwise areas are touched addresses without gaps of more
    /// than 2MB.
    pub has_events: bool,
    /// True if the trace is longer than the analysed part.
    pub is_cut: bool,
}

/// Analyses a trace for a machine with these TLBs. `threads` configurations are simulated at a time. The analysis
/// ends soon after another thread sets `stop`.
///
/// # Errors
/// [`AdviceError`] for a damaged trace, or one with accesses everywhere; or `stop` was set.
pub fn analyse(
    source: &mut dyn Source,
    part: MeasuredPart,
    tlb: &TlbConfig,
    threads: usize,
    stop: &AtomicBool,
    on_progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Analysis, AdviceError> {
    // What a simulation counted before it was stopped is no result.
    let go_on = || match stop.load(Ordering::Relaxed) {
        true => Err(AdviceError::Stopped),
        false => Ok(()),
    };
    let perforate_trace::SourceMetadata { name: workload, has_events, .. } =
        source.metadata().clone();
    let mut all_references = References::default();
    let memory = collect(source, part, &mut all_references, stop, on_progress)?;
    let gigabytes: Vec<u64> = memory.ids.gigabytes().collect();
    let ids = &memory.ids;
    let simulations =
        Simulations { tlb, ids, gigabytes: &gigabytes, references: &all_references, threads, stop };
    let on_progress = Mutex::new(on_progress);
    let report = |done: usize, total: usize| {
        let mut report = on_progress.lock().expect("progress does not panic");
        (*report)(Progress { done: done as u64, total: Some(total as u64) });
    };

    // All references: the choice of pieces, and so the page sizes that are possible, follow from its walks.
    let mut walks = PageCounts::default();
    let base = simulations.tlbs().run(&all_references, &simulations.base(), |walk| match walk {
        Walk::To(id) => walks.add(id, 1),
        Walk::Start => walks = PageCounts::default(),
    });
    go_on()?;
    let ids_of = |area: &Area, bytes: &Range<u64>| {
        memory.ids.ranges(area.process, &(bytes.start >> 12..bytes.end >> 12))
    };
    let walks_of = |area: &Area, bytes: &Range<u64>| {
        ids_of(area, bytes).iter().map(|ids| walks.sum(ids)).sum::<u64>()
    };
    let use_of = |area: &Area, bytes: &Range<u64>| AreaUse {
        pages: marginal::use_of(&memory, &ids_of(area, bytes)),
        walks: walks_of(area, bytes),
    };

    let areas = &memory.areas;
    let orders = orders_with_entries(tlb);
    let of_area = |area: &Area| ids_of(area, &area.bytes);
    // Pages of all areas that may have larger ones, or of all but one area.
    let eligible = |left_out: Option<usize>| {
        let numbered = areas.iter().enumerate();
        let others = numbered.filter(move |(number, _)| Some(*number) != left_out);
        others.filter(|(_, area)| is_eligible(area.kind)).flat_map(|(_, area)| of_area(area))
    };
    let mut possible = PossibleOrders::base(memory.ids.len());
    for order in orders.iter().filter(|order| **order < PageOrder::HUGE) {
        eligible(None).for_each(|ids| possible.add(&ids, *order));
    }
    let mut references = filtered(&all_references, &simulations.tlbs(), &possible);
    go_on()?;
    let runs = |work: usize| work / references.list.len().max(1);
    let limit = (runs(WORK_OF_CHOICES) / orders.len()).clamp(16, pieces::MAXIMUM_PIECES);
    let most_points = runs(WORK_OF_CURVE).clamp(12, marginal::MAXIMUM_POINTS);
    let mut all = pieces::cut(areas, limit, walks_of);
    let small = all.len();
    if orders.contains(&PageOrder::HUGE) {
        all.extend(pieces::gigabytes(areas, limit / 4, walks_of));
    }
    let area_of = |piece: &Piece| &areas[piece.area.0 as usize];
    let piece_uses: Vec<AreaUse> =
        all.iter().map(|piece| use_of(area_of(piece), &piece.bytes)).collect();
    let with_pages = |piece: Piece| {
        let ids = ids_of(area_of(&piece), &piece.bytes);
        (piece, PiecePages { ids })
    };
    let all: Vec<(Piece, PiecePages)> = all.into_iter().map(with_pages).collect();
    let choices = choices(&all, small, &orders);
    let huge = choices.iter().filter(|choice| choice.order == PageOrder::HUGE);
    let huge: Vec<&Range<u32>> = huge.flat_map(|choice| &all[choice.piece].1.ids).collect();
    if !huge.is_empty() {
        huge.iter().for_each(|ids| possible.add(ids, PageOrder::HUGE));
        references = filtered(&all_references, &simulations.tlbs(), &possible);
    }
    let simulations =
        Simulations { tlb, ids, gigabytes: &gigabytes, references: &references, threads, stop };
    drop(all_references);

    let area_choices = area_choices(&areas_by_walks(areas, &walks_of), &choices, &all, &orders);
    let enlarge_area = |sizes: &mut PageSizes, area: usize, order: PageOrder| {
        eligible(Some(area)).for_each(|ids| sizes.enlarge(&ids, PageOrder::LARGE));
        let ids = of_area(&areas[area]);
        ids.iter().for_each(|ids| sizes.enlarge(ids, order.min(PageOrder::LARGE)));
        if order == PageOrder::HUGE {
            let own = all[small..].iter().filter(|(piece, _)| piece.area.0 as usize == area);
            own.flat_map(|(_, pages)| &pages.ids).for_each(|ids| sizes.enlarge(ids, order));
        }
    };
    // Configurations: the choices, then areas as a whole, and last 2MB pages everywhere.
    let make = |number: usize| {
        let mut sizes = simulations.base();
        if let Some(Choice { piece, order }) = choices.get(number) {
            all[*piece].1.ids.iter().for_each(|ids| sizes.enlarge(ids, *order));
        } else if let Some(&(area, order)) = area_choices.get(number - choices.len()) {
            enlarge_area(&mut sizes, area, order);
        } else {
            eligible(None).for_each(|ids| sizes.enlarge(&ids, PageOrder::LARGE));
        }
        sizes
    };
    let last = choices.len() + area_choices.len();
    let counts = simulations.run_all(last + 1, &make, &|done| report(done, last + 1));
    go_on()?;
    let additional =
        |number: usize, ids: &[Range<u32>]| additional_bytes(&memory, ids, &make(number));
    let gain = |(number, &choice): (usize, &Choice)| ChoiceGain {
        choice,
        walks: counts[number].walks,
        additional_bytes: additional(number, &all[choice.piece].1.ids),
    };
    let gains: Vec<ChoiceGain> = choices.iter().enumerate().map(gain).collect();
    // The first choice of each area is 4KB.
    let with_small = |area: usize| {
        let is_one = |choice: &(usize, PageOrder)| *choice == (area, PageOrder::BASE);
        area_choices.iter().position(is_one).map_or(0, |at| counts[choices.len() + at].walks)
    };
    let area_gain = |(number, &(area, order)): (usize, &(usize, PageOrder))| AreaGain {
        area,
        order,
        saved_walks: with_small(area).saturating_sub(counts[number].walks),
        additional_bytes: additional(number, &of_area(&areas[area])),
    };
    let area_gains = (choices.len()..).zip(&area_choices).map(area_gain);
    let area_gains = area_gains.filter(|gain| gain.order != PageOrder::BASE).collect();
    let all_large_bytes = additional(last, &eligible(None).collect::<Vec<_>>());
    let (huge, others): (Vec<ChoiceGain>, Vec<_>) =
        gains.iter().partition(|gain| gain.choice.order == PageOrder::HUGE);
    let curve = |choices: Vec<Choice>, from: usize| {
        marginal::curve(&simulations, &memory, &all, choices, from, most_points, &report)
    };
    let without_huge = curve(marginal::ranked(&others, base.walks), 0);
    go_on()?;
    let huge = marginal::ranked(&huge, base.walks);
    let huge_curve = if huge.is_empty() {
        GainCurve::default()
    } else {
        let enough = without_huge.point_for(ENOUGH).map(|point| without_huge.points[point].choices);
        let before = &without_huge.choices[..enough.unwrap_or(0)];
        curve([before, &huge[..]].concat(), before.len())
    };
    go_on()?;
    Ok(Analysis {
        workload,
        area_uses: areas.iter().map(|area| use_of(area, &area.bytes)).collect(),
        pieces: all.into_iter().map(|(piece, _)| piece).collect(),
        piece_uses,
        base,
        all_large: counts[last],
        all_large_bytes,
        orders,
        gains,
        area_gains,
        curve: without_huge,
        huge_curve,
        touched: TouchedRegions::new(&memory, areas.iter().filter(|area| area.kind.takes_advice())),
        instructions: memory.instructions,
        accesses: memory.data_accesses,
        has_events,
        is_cut: memory.is_cut,
        areas: memory.areas,
    })
}

/// True if `thp` maps 2MB pages in areas of this kind.
const fn is_eligible(kind: AreaKind) -> bool {
    kind.takes_advice() || matches!(kind, AreaKind::Stack)
}

/// Indices of the areas that take advice and have at least [`AREA_SHARE`] of their walks, those with most first.
fn areas_by_walks(areas: &[Area], walks: &impl Fn(&Area, &Range<u64>) -> u64) -> Vec<usize> {
    let advised = areas.iter().enumerate().filter(|(_, area)| area.kind.takes_advice());
    let mut found: Vec<(u64, usize)> =
        advised.map(|(number, area)| (walks(area, &area.bytes), number)).collect();
    let total: u64 = found.iter().map(|(walks, _)| walks).sum();
    found.retain(|(walks, _)| *walks > 0 && walks * AREA_SHARE >= total);
    found.sort_by_key(|&(walks, number)| (Reverse(walks), number));
    found.into_iter().map(|(_, number)| number).collect()
}

/// Page sizes for whole areas, of which some part has that choice.
fn area_choices(
    areas: &[usize],
    choices: &[Choice],
    pieces: &[(Piece, PiecePages)],
    orders: &[PageOrder],
) -> Vec<(usize, PageOrder)> {
    let is_possible = |area: usize, order: PageOrder| {
        let is_one = |choice: &Choice| {
            (pieces[choice.piece].0.area.0 as usize, choice.order) == (area, order)
        };
        order == PageOrder::BASE || choices.iter().any(is_one)
    };
    let all = areas.iter().take(MOST_AREAS);
    let all = all.flat_map(|&area| orders.iter().map(move |&order| (area, order)));
    all.filter(|&(area, order)| is_possible(area, order)).collect()
}

/// Choices that have an effect: the piece contains a whole block of the order. The first `small` pieces have
/// all orders but 1GB, the others only that.
fn choices(pieces: &[(Piece, PiecePages)], small: usize, orders: &[PageOrder]) -> Vec<Choice> {
    let has_block = |piece: usize, order: PageOrder| {
        let size = 1_u32 << order.0;
        let ids = &pieces[piece].1.ids;
        ids.iter().any(|ids| ids.start.next_multiple_of(size) < ids.end & !(size - 1))
    };
    let larger = orders.iter().filter(|order| **order != PageOrder::BASE);
    let all = larger.flat_map(|&order| {
        let pieces = if order == PageOrder::HUGE { small..pieces.len() } else { 0..small };
        pieces.map(move |piece| Choice { piece, order })
    });
    all.filter(|choice| has_block(choice.piece, choice.order)).collect()
}
