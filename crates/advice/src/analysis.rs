//! The analysis of a trace: areas, pieces, gains and the curve.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use perforate_mmu::TlbConfig;
use perforate_trace::{Source, SourceMetadata, TraceError};
use serde::Serialize;

use crate::candidates::{Candidates, Walked};
use crate::collect::{References, collect};
use crate::filter::PossibleOrders;
use crate::marginal::{self, Simulations};
use crate::tlbs::{WalkCounts, orders_with_entries};
use crate::{
    Area, ChoiceGain, ENOUGH, GainCurve, PageOrder, Piece, PieceUse, TouchedRegions, pieces,
};

/// Largest number of references that simulations of choices hear together: about half a minute of processor
/// time. Traces with many references have fewer and larger pieces.
const WORK_OF_CHOICES: usize = 1_500_000_000;
/// Largest number of references that simulations of the curve's points hear together.
const WORK_OF_CURVE: usize = 500_000_000;

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
    /// Failure of the recorded program, as a clause; `None` if it succeeded, or if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Analyses a trace for a machine with these TLBs. Walks and accesses count from `warmup` instructions after the
/// program's set-up. `threads` configurations are simulated at a time. The analysis
/// ends soon after another thread sets `stop`.
///
/// # Errors
/// [`AdviceError`] for a damaged trace, or one with accesses everywhere; or `stop` was set.
pub fn analyse(
    source: &mut dyn Source,
    warmup: u64,
    tlb: &TlbConfig,
    threads: usize,
    stop: &AtomicBool,
    on_progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Analysis, AdviceError> {
    let SourceMetadata { name: workload, has_events, failure, .. } = source.metadata().clone();
    let mut references = References::default();
    let memory = collect(source, warmup, &mut references, stop, on_progress)?;
    let gigabytes: Vec<u64> = memory.ids.gigabytes().collect();
    let simulations = Simulations { tlb, ids: &memory.ids, gigabytes: &gigabytes, threads, stop };
    let on_progress = Mutex::new(on_progress);
    let report = |done: usize, total: usize| {
        let mut report = on_progress.lock().expect("progress does not panic");
        (*report)(Progress { done: done as u64, total: Some(total as u64) });
    };

    // All references: the choice of pieces, and so the page sizes that are possible, follow from its walks.
    let (base, walks) = simulations.base_walks(&references)?;
    let walked = Walked { memory: &memory, walks: &walks };
    let orders = orders_with_entries(tlb);
    let mut possible = PossibleOrders::base(memory.ids.len());
    for order in orders.iter().filter(|order| **order < PageOrder::HUGE) {
        memory.eligible(None).for_each(|ids| possible.add(&ids, *order));
    }
    let mut kept = simulations.filtered(&references, &possible)?;
    let runs = |work: usize| work / kept.list.len().max(1);
    let most_pieces = (runs(WORK_OF_CHOICES) / orders.len()).clamp(16, pieces::MAXIMUM_PIECES);
    let most_points = runs(WORK_OF_CURVE).clamp(12, marginal::MAXIMUM_POINTS);
    let candidates = Candidates::find(&walked, &orders, most_pieces);
    if candidates.add_huge(&mut possible) {
        kept = simulations.filtered(&references, &possible)?;
    }
    drop(references);

    let total = candidates.configurations();
    let make = |number: usize| candidates.sizes(number);
    let counts = simulations.run_all(&kept, total, &make, &|done| report(done, total))?;
    let gains = candidates.gains(&counts);
    let (huge, others): (Vec<ChoiceGain>, Vec<_>) =
        gains.iter().partition(|gain| gain.choice.order == PageOrder::HUGE);
    let [huge, others] = [huge, others].map(|gains| marginal::ranked(&gains, base.walks));
    let curve =
        |choices, from| candidates.curve(&simulations, &kept, choices, from, most_points, &report);
    let without_huge = curve(others, 0)?;
    let huge_curve = if huge.is_empty() {
        GainCurve::default()
    } else {
        let enough = without_huge.point_for(ENOUGH).map(|point| without_huge.points[point].choices);
        let before = &without_huge.choices[..enough.unwrap_or(0)];
        curve([before, &huge].concat(), before.len())?
    };
    let pieces = candidates.pieces.iter();
    let piece_use = |piece: &Piece| walked.use_of(&memory.areas[piece.area], &piece.bytes);
    Ok(Analysis {
        workload,
        area_uses: memory.areas.iter().map(|area| walked.use_of(area, &area.bytes)).collect(),
        piece_uses: pieces.clone().map(|(piece, _)| piece_use(piece)).collect(),
        pieces: pieces.map(|(piece, _)| piece.clone()).collect(),
        base,
        all_large: counts[total - 1],
        all_large_bytes: candidates.all_large_bytes(),
        orders,
        area_gains: candidates.area_gains(&counts),
        gains,
        curve: without_huge,
        huge_curve,
        touched: TouchedRegions::new(
            &memory,
            memory.areas.iter().filter(|area| area.kind.takes_advice()),
        ),
        instructions: memory.instructions,
        accesses: memory.data_accesses,
        has_events,
        is_cut: memory.is_cut,
        failure,
        areas: memory.areas,
    })
}
