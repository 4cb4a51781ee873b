//! Records of areas, parts and curve for a plan.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use perforate_advice::{Analysis, AreaKind, AreaUse, Choice, PageOrder};
use perforate_records::{AdviceArea, AdvicePiece, AdvicePoint, AdviceSize, word};

use super::plan::{Plan, WORTH_GIGABYTES, area_of, bytes_of, orders, touched};

/// Share of the page walks in mapped files, 0–1, from which a note says so.
const MANY_IN_FILES: f64 = 0.2;

/// Share of the touched 2MB blocks that is touched; `None` if nothing is.
fn density(used: &AreaUse) -> Option<f64> {
    let blocks = touched(used, PageOrder::LARGE);
    (blocks > 0).then(|| touched(used, PageOrder::BASE) as f64 / blocks as f64)
}

/// Returns the indices of areas: those with most page walks first, of equal ones the largest.
fn by_walks(analysis: &Analysis) -> Vec<usize> {
    let mut order: Vec<usize> = (0..analysis.areas.len()).collect();
    order.sort_by_key(|&area| {
        let used = &analysis.area_uses[area];
        Reverse((used.walks, touched(used, PageOrder::BASE)))
    });
    order
}

/// Records of the areas that the program touches, those with most page walks first.
pub fn areas(analysis: &Analysis, plan: &Plan) -> Vec<AdviceArea> {
    let all = by_walks(analysis).into_iter();
    all.filter(|&area| touched(&analysis.area_uses[area], PageOrder::BASE) > 0)
        .map(|area| area_record(analysis, plan, area))
        .collect()
}

fn area_record(analysis: &Analysis, plan: &Plan, index: usize) -> AdviceArea {
    let (area, used) = (&analysis.areas[index], &analysis.area_uses[index]);
    let all_walks = analysis.base.walks.max(1) as f64;
    let walk_share = used.walks as f64 / all_walks;
    let saved = |walks: u64| analysis.base.walks.saturating_sub(walks) as f64 / all_walks;
    let is_chosen = |choice: &Choice| {
        area_of(analysis, choice.piece) == index
            && choice.order == plan.order(analysis, choice.piece)
    };
    let chosen = analysis.gains.iter().filter(|gain| is_chosen(&gain.choice));
    let of_parts = chosen.fold((0.0, 0), |(share, bytes), gain| {
        (share + saved(gain.walks), bytes + gain.additional_bytes)
    });
    // A whole area has been simulated as such, unless it has few walks.
    let whole = plan.whole_order(analysis, index).filter(|_| !plan.has_huge());
    let of_whole =
        analysis.area_gains.iter().find(|gain| gain.area == index && Some(gain.order) == whole);
    let of_whole =
        of_whole.map(|gain| (gain.saved_walks as f64 / all_walks, gain.additional_bytes));
    let (saved_share, additional_bytes) = of_whole.unwrap_or(of_parts);
    let sizes = analysis.area_gains.iter().filter(|gain| gain.area == index);
    let sizes = sizes.map(|gain| AdviceSize {
        page_bytes: gain.order.bytes(),
        saved_share: (gain.saved_walks as f64 / all_walks).min(1.0),
        additional_bytes: gain.additional_bytes,
        advised_bytes: plan.bytes_where(analysis, |own, order| (own, order) == (index, gain.order)),
    });
    AdviceArea {
        name: area.name.clone(),
        kind: word(area.kind),
        process: area.process.0,
        start: format!("{:#x}", area.bytes.start),
        bytes: area.bytes.end - area.bytes.start,
        touched_bytes: touched(used, PageOrder::BASE),
        density: density(used),
        walk_share,
        saved_share: saved_share.min(walk_share),
        additional_bytes,
        advised_bytes: plan.bytes_where(analysis, |own, _| own == index),
        pages_copied: used.pages.pages_copied,
        sizes: sizes.collect(),
    }
}

/// Records of the parts of areas for the address map, in order of [`areas`] and of address.
pub fn pieces(analysis: &Analysis, plan: &Plan) -> Vec<AdvicePiece> {
    let touched_areas = by_walks(analysis).into_iter();
    let shown =
        touched_areas.filter(|&area| touched(&analysis.area_uses[area], PageOrder::BASE) > 0);
    let places: BTreeMap<usize, usize> =
        shown.enumerate().map(|(place, area)| (area, place)).collect();
    let is_huge = |order: PageOrder| order == PageOrder::HUGE;
    let huge: HashSet<usize> = analysis
        .gains
        .iter()
        .filter(|gain| is_huge(gain.choice.order))
        .map(|gain| gain.choice.piece)
        .collect();
    let all_walks = analysis.base.walks.max(1) as f64;
    let own = analysis.pieces.iter().enumerate().filter(|(index, _)| !huge.contains(index));
    let mut records: Vec<AdvicePiece> = own
        .filter_map(|(index, piece)| {
            let area = area_of(analysis, index);
            let used = &analysis.piece_uses[index];
            Some(AdvicePiece {
                area: *places.get(&area)?,
                offset: piece.bytes.start - analysis.areas[area].bytes.start,
                bytes: piece.bytes.end - piece.bytes.start,
                walk_share: used.walks as f64 / all_walks,
                density: density(used),
                page_bytes: plan.order(analysis, index).bytes(),
            })
        })
        .collect();
    records.sort_by_key(|piece| (piece.area, piece.offset));
    records
}

/// Records of the points of the gain curve. A plan for all memory is one more point at its end.
pub fn curve(analysis: &Analysis, plan: &Plan) -> Vec<AdvicePoint> {
    let recommended = match plan {
        Plan::Parts { point, .. } => *point,
        Plan::All => None,
    };
    let points = analysis.curve.points.iter().enumerate();
    let mut records: Vec<AdvicePoint> = points
        .map(|(index, point)| AdvicePoint {
            choices: point.choices,
            additional_bytes: point.additional_bytes,
            advised_bytes: bytes_of(
                analysis,
                &orders(&analysis.curve.choices[..point.choices]),
                &|_, _| true,
            ),
            saved_share: analysis.curve.saved_share(index),
            is_recommended: recommended == Some(index),
        })
        .collect();
    if let (Plan::All, [_, .., last]) = (plan, &records[..]) {
        let base = analysis.base.walks;
        let saved = base.saturating_sub(analysis.all_large.walks);
        records.push(AdvicePoint {
            choices: last.choices,
            additional_bytes: analysis.all_large_bytes,
            advised_bytes: plan.bytes(analysis),
            saved_share: saved as f64 / base.max(1) as f64,
            is_recommended: true,
        });
    }
    records
}

/// Notes on the analysis: no areas, a cut trace, 1GB pages.
pub fn notes(analysis: &Analysis, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if !analysis.has_events {
        notes.push(
            "the trace does not say what memory the program mapped: areas are touched addresses without gaps of \
             more than 2MB, and large pages are timed for all of them. perforate record makes traces that say it"
                .to_owned(),
        );
    }
    if analysis.is_cut {
        notes.push(
            "the analysis counts the first part of the trace; times are those of all of it"
                .to_owned(),
        );
    }
    let of_files = analysis.areas.iter().zip(&analysis.area_uses);
    let of_files = of_files.filter(|(area, _)| area.kind == AreaKind::File);
    let walks = of_files.map(|(_, used)| used.walks).sum::<u64>();
    let share = walks as f64 / analysis.base.walks.max(1) as f64;
    if share >= MANY_IN_FILES {
        notes.push(format!(
            "{:.0} % of the page walks are in mapped files, for which madvise requests no large pages. Data that are \
             read into anonymous memory, or lie in a tmpfs mounted with huge=, can have them",
            share * 100.0
        ));
    }
    let huge = analysis.huge_curve.points.iter().map(|point| point.walks).min();
    let base = analysis.base.walks.max(1) as f64;
    let beyond =
        huge.map_or(0.0, |walks| analysis.all_large.walks.saturating_sub(walks) as f64 / base);
    if !plan.has_huge() && beyond >= WORTH_GIGABYTES {
        notes.push(format!(
            "1GB pages would save another {:.0} % of the page walks of 4KB pages, if all memory that can have them \
             has them. They have to be reserved (boot parameters hugepagesz=1G hugepages=N)",
            beyond * 100.0
        ));
    }
    notes
}
