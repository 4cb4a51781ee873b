//! Plan: memory that gets large pages, and records of areas, parts and curve for it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use perforate_advice::remedy::AdvisedRange;
use perforate_advice::{Analysis, Area, AreaKind, AreaUse, Choice, ENOUGH, PageOrder};
use perforate_records::{AdviceArea, AdvicePiece, AdvicePoint, AdviceRange};
use perforate_sim::AdvisedRanges;

/// Share of the walks, beyond those that 2MB pages save, that 1GB pages have to save to be mentioned.
const WORTH_GIGABYTES: f64 = 0.1;

/// Share of the page walks in mapped files, 0–1, from which a note says so.
const MANY_IN_FILES: f64 = 0.2;

/// Memory that gets large pages.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The best parts of memory: the first choices of the gain curve.
    Parts {
        /// Index of the point of the curve.
        point: usize,
        /// Page size of each part that gets larger pages, by its index. Parts of whole areas are not among
        /// them.
        orders: BTreeMap<usize, PageOrder>,
        /// Indices of areas that get 2MB pages as a whole, as their other parts cost next to nothing.
        whole: BTreeSet<usize>,
    },
    /// All memory that takes advice.
    All,
}

/// Additional memory of a whole area beyond that of its best parts, as a share of the area's memory, up to
/// which the whole area is advised: one request is simpler than several.
const NEXT_TO_NOTHING: f64 = 0.01;

impl Plan {
    /// Chooses the parts that save nearly all walks that large pages can save, for the least memory; `None` if
    /// they save none.
    pub fn of(analysis: &Analysis) -> Option<Self> {
        let point = analysis.curve.point_for(ENOUGH)?;
        let choices = analysis.curve.points[point].choices;
        let mut orders = orders(&analysis.curve.choices[..choices]);
        let chosen = areas_of(analysis, &orders).into_iter();
        let whole: BTreeSet<usize> =
            chosen.filter(|&area| costs_no_more(analysis, &orders, area)).collect();
        orders.retain(|&piece, _| !whole.contains(&area_of(analysis, piece)));
        Some(Self::Parts { point, orders, whole })
    }

    /// Memory with large pages in bytes: its 2MB blocks that the program touches.
    pub fn bytes(&self, analysis: &Analysis) -> u64 {
        match self {
            Self::Parts { orders, whole, .. } => {
                let areas = whole.iter().map(|&area| area_bytes(analysis, area)).sum::<u64>();
                areas + bytes_of(analysis, orders)
            }
            Self::All => self.areas(analysis).map(|area| area_bytes(analysis, area)).sum(),
        }
    }

    /// Indices of the areas that get large pages.
    pub fn areas(&self, analysis: &Analysis) -> impl Iterator<Item = usize> {
        let own: Vec<usize> = match self {
            Self::Parts { orders, whole, .. } => {
                areas_of(analysis, orders).union(whole).copied().collect()
            }
            Self::All => {
                let takes_advice = |&area: &usize| analysis.areas[area].kind.takes_advice();
                let has_blocks = |&area: &usize| area_bytes(analysis, area) > 0;
                (0..analysis.areas.len()).filter(takes_advice).filter(has_blocks).collect()
            }
        };
        own.into_iter()
    }

    /// True if an area gets large pages as a whole.
    fn has_whole(&self, analysis: &Analysis, area: usize) -> bool {
        match self {
            Self::Parts { whole, .. } => whole.contains(&area),
            Self::All => analysis.areas[area].kind.takes_advice(),
        }
    }

    /// Page size of a part.
    fn order(&self, analysis: &Analysis, piece: usize) -> PageOrder {
        match self {
            _ if self.has_whole(analysis, area_of(analysis, piece)) => PageOrder::LARGE,
            Self::Parts { orders, .. } => orders.get(&piece).copied().unwrap_or(PageOrder::BASE),
            Self::All => PageOrder::BASE,
        }
    }

    /// Ranges of addresses for which the program requests large pages.
    pub fn advised(&self, analysis: &Analysis) -> AdvisedRanges {
        let range = |range: &AdvisedRange| perforate_sim::AdvisedRange {
            process: range.process,
            bytes: range.bytes.clone(),
        };
        AdvisedRanges::new(ranges(analysis, self).iter().map(range).collect())
    }
}

/// Page size of each part after these choices: the last one of a part is its largest.
fn orders(choices: &[Choice]) -> BTreeMap<usize, PageOrder> {
    let mut orders = BTreeMap::new();
    for choice in choices {
        let order = orders.entry(choice.piece).or_insert(choice.order);
        *order = choice.order.max(*order);
    }
    orders
}

fn area_of(analysis: &Analysis, piece: usize) -> usize {
    analysis.pieces[piece].area.0 as usize
}

fn areas_of(analysis: &Analysis, orders: &BTreeMap<usize, PageOrder>) -> BTreeSet<usize> {
    orders.keys().map(|&piece| area_of(analysis, piece)).collect()
}

/// True if 2MB pages for a whole area cost next to nothing beyond the choices for its parts.
fn costs_no_more(analysis: &Analysis, orders: &BTreeMap<usize, PageOrder>, area: usize) -> bool {
    let used = &analysis.area_uses[area];
    let touched_bytes = touched(used, PageOrder::BASE);
    let whole = touched(used, PageOrder::LARGE).saturating_sub(touched_bytes);
    let is_chosen = |choice: &Choice| {
        area_of(analysis, choice.piece) == area && orders.get(&choice.piece) == Some(&choice.order)
    };
    let chosen = analysis.gains.iter().filter(|gain| is_chosen(&gain.choice));
    let parts = chosen.map(|gain| gain.additional_bytes).sum::<u64>();
    whole.saturating_sub(parts) as f64 <= NEXT_TO_NOTHING * touched_bytes as f64
}

/// Memory of parts with larger pages in bytes; memory inside a gigabyte with a page of that size counts once.
fn bytes_of(analysis: &Analysis, orders: &BTreeMap<usize, PageOrder>) -> u64 {
    let huge: Vec<usize> = of_order(orders, PageOrder::HUGE).collect();
    let is_inside = |piece: usize| {
        let piece = &analysis.pieces[piece];
        huge.iter().any(|&huge| {
            let huge = &analysis.pieces[huge];
            huge.area == piece.area
                && huge.bytes.start <= piece.bytes.start
                && piece.bytes.end <= huge.bytes.end
        })
    };
    let counted =
        orders.iter().filter(|&(&piece, &order)| order == PageOrder::HUGE || !is_inside(piece));
    let bytes =
        |piece: usize| block_bytes(&analysis.piece_uses[piece], &analysis.pieces[piece].bytes);
    counted.map(|(&piece, _)| bytes(piece)).sum()
}

fn of_order(orders: &BTreeMap<usize, PageOrder>, wanted: PageOrder) -> impl Iterator<Item = usize> {
    orders.iter().filter(move |(_, order)| **order == wanted).map(|(piece, _)| *piece)
}

/// Memory of a range that can have 2MB pages and is touched, in bytes: whole aligned blocks only.
fn block_bytes(used: &AreaUse, bytes: &Range<u64>) -> u64 {
    let block = PageOrder::LARGE.bytes();
    let whole = (bytes.end & !(block - 1)).saturating_sub(bytes.start.next_multiple_of(block));
    touched(used, PageOrder::LARGE).min(whole)
}

/// Memory of an area that can have 2MB pages and is touched, in bytes.
fn area_bytes(analysis: &Analysis, area: usize) -> u64 {
    block_bytes(&analysis.area_uses[area], &analysis.areas[area].bytes)
}

fn touched(used: &AreaUse, order: PageOrder) -> u64 {
    used.pages.touched_blocks.get(usize::from(order.0)).copied().unwrap_or(0) * order.bytes()
}

/// Share of the touched 2MB blocks that is touched; `None` if nothing is.
fn density(used: &AreaUse) -> Option<f64> {
    let blocks = touched(used, PageOrder::LARGE);
    (blocks > 0).then(|| touched(used, PageOrder::BASE) as f64 / blocks as f64)
}

/// Returns the ranges with large pages in order of area and address. Pages of 1GB have to be reserved, so that
/// their memory is there with 2MB pages too.
pub fn ranges(analysis: &Analysis, plan: &Plan) -> Vec<AdvisedRange> {
    let whole = plan.areas(analysis).filter(|&area| plan.has_whole(analysis, area));
    let mut found: Vec<(usize, Range<u64>, u64)> = whole
        .map(|area| (area, analysis.areas[area].bytes.clone(), PageOrder::LARGE.bytes()))
        .collect();
    if let Plan::Parts { orders, .. } = plan {
        found.extend(orders.iter().map(|(&piece, &order)| {
            let bytes = order.min(PageOrder::LARGE).bytes();
            (area_of(analysis, piece), analysis.pieces[piece].bytes.clone(), bytes)
        }));
    }
    found.sort_by_key(|(area, bytes, page_bytes)| (*page_bytes, *area, bytes.start));
    let mut merged: Vec<(usize, Range<u64>, u64)> = Vec::new();
    for (area, bytes, page_bytes) in found {
        match merged.last_mut() {
            Some((last, range, size))
                if *last == area && *size == page_bytes && bytes.start <= range.end =>
            {
                range.end = range.end.max(bytes.end);
            }
            _ => merged.push((area, bytes, page_bytes)),
        }
    }
    merged.sort_by_key(|(area, bytes, _)| (*area, bytes.start));
    merged
        .into_iter()
        .map(|(area, bytes, size)| range(&analysis.areas[area], bytes, size))
        .collect()
}

fn range(area: &Area, bytes: Range<u64>, page_bytes: u64) -> AdvisedRange {
    let name = match area.name.as_str() {
        "" => format!("mapping@{:#x}", area.bytes.start),
        name => name.to_owned(),
    };
    AdvisedRange {
        process: area.process,
        area: (name, bytes.start - area.bytes.start),
        bytes,
        page_bytes,
    }
}

/// Converts a range to a record.
pub fn range_record(range: &AdvisedRange) -> AdviceRange {
    AdviceRange {
        process: range.process.0,
        area: range.area.0.clone(),
        offset: range.area.1,
        start: format!("{:#x}", range.bytes.start),
        bytes: range.bytes.end - range.bytes.start,
        page_bytes: range.page_bytes,
    }
}

/// Returns the indices of areas: those with most page walks first, of equal ones the largest.
fn by_walks(analysis: &Analysis) -> Vec<usize> {
    let mut order: Vec<usize> = (0..analysis.areas.len()).collect();
    order.sort_by_key(|&area| {
        let used = &analysis.area_uses[area];
        std::cmp::Reverse((used.walks, touched(used, PageOrder::BASE)))
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
    let is_here = |choice: &Choice| area_of(analysis, choice.piece) == index;
    let own: BTreeMap<usize, PageOrder> = match plan {
        Plan::Parts { orders, .. } => {
            let own = orders.iter().filter(|(piece, _)| area_of(analysis, **piece) == index);
            own.map(|(piece, order)| (*piece, *order)).collect()
        }
        Plan::All => BTreeMap::new(),
    };
    let is_whole = plan.has_whole(analysis, index);
    let is_chosen = |choice: &Choice| match is_whole {
        true => choice.order == PageOrder::LARGE && is_here(choice),
        false => own.get(&choice.piece) == Some(&choice.order),
    };
    let gains: Vec<_> = analysis.gains.iter().filter(|gain| is_chosen(&gain.choice)).collect();
    let advised_bytes =
        if is_whole { area_bytes(analysis, index) } else { bytes_of(analysis, &own) };
    let saved =
        gains.iter().map(|gain| analysis.base.walks.saturating_sub(gain.walks)).sum::<u64>();
    let walk_share = used.walks as f64 / all_walks;
    AdviceArea {
        name: area.name.clone(),
        kind: area.kind.name().to_owned(),
        process: area.process.0,
        start: format!("{:#x}", area.bytes.start),
        bytes: area.bytes.end - area.bytes.start,
        touched_bytes: touched(used, PageOrder::BASE),
        density: density(used),
        walk_share,
        saved_share: (saved as f64 / all_walks).min(walk_share),
        additional_bytes: gains.iter().map(|gain| gain.additional_bytes).sum(),
        advised_bytes,
        pages_copied: used.pages.pages_copied,
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

/// Records of the points of the gain curve.
pub fn curve(analysis: &Analysis, plan: &Plan) -> Vec<AdvicePoint> {
    let recommended = match plan {
        Plan::Parts { point, .. } => Some(*point),
        Plan::All => None,
    };
    let points = analysis.curve.points.iter().enumerate();
    points
        .map(|(index, point)| AdvicePoint {
            choices: point.choices,
            additional_bytes: point.additional_bytes,
            advised_bytes: bytes_of(analysis, &orders(&analysis.curve.choices[..point.choices])),
            saved_share: analysis.curve.saved_share(index),
            is_recommended: recommended == Some(index),
        })
        .collect()
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
    if let Plan::Parts { orders, .. } = plan
        && orders.values().any(|&order| order != PageOrder::LARGE)
    {
        notes.push(
            "parts for which pages of another size than 2MB are best are timed with 2MB pages, which MADV_HUGEPAGE \
             requests"
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
    let best = analysis.curve.points.iter().map(|point| point.walks).min().unwrap_or(0);
    let base = analysis.base.walks.max(1) as f64;
    let beyond = (analysis.all_large.walks.saturating_sub(best)) as f64 / base;
    let has_huge = analysis.curve.choices.iter().any(|choice| choice.order == PageOrder::HUGE);
    if has_huge && beyond >= WORTH_GIGABYTES {
        notes.push(format!(
            "1GB pages would save another {:.0} % of the page walks of 4KB pages, if all memory that can have them \
             has them. They have to be reserved (boot parameters hugepagesz=1G hugepages=N)",
            beyond * 100.0
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use perforate_advice::{AreaId, ChoiceGain, GainCurve, GainPoint, Piece, PieceUse, WalkCounts};
    use perforate_types::ProcessId;

    use super::*;

    const MB: u64 = 1 << 20;
    const START: u64 = 0x7f00_0000_0000;

    fn used(walks: u64, pages: u64, blocks: u64) -> AreaUse {
        let mut touched_blocks = vec![0; 19];
        touched_blocks[0] = pages;
        touched_blocks[9] = blocks;
        AreaUse {
            pages: PieceUse { accesses: walks, touched_blocks, pages_copied: walks / 100 },
            walks,
        }
    }

    fn area(name: &str, kind: AreaKind, bytes: Range<u64>) -> Area {
        Area { process: ProcessId(0), name: name.into(), kind, bytes, lifetime: 0..1000 }
    }

    /// A heap of four parts of 2MB, of which the first two have most walks and the last two are sparse; a dense
    /// mapping of one part; a file.
    fn analysis() -> Analysis {
        let heap = area("[heap]", AreaKind::Heap, START..START + 8 * MB);
        let map = area("", AreaKind::Anonymous, START + 16 * MB..START + 18 * MB);
        let file = area("/lib/x.so", AreaKind::File, START + 32 * MB..START + 33 * MB);
        let piece = |area: u32, offset: u64, start: u64| Piece {
            area: AreaId(area),
            bytes: start + offset..start + offset + 2 * MB,
        };
        let heap_pieces = (0..4).map(|part| piece(0, part * 2 * MB, START));
        let pieces: Vec<Piece> = heap_pieces.chain([piece(1, 0, START + 16 * MB)]).collect();
        let choice = |piece| Choice { piece, order: PageOrder::LARGE };
        let gain = |piece, walks, additional_bytes| ChoiceGain {
            choice: choice(piece),
            walks,
            additional_bytes,
        };
        let point =
            |choices, walks, additional_bytes| GainPoint { choices, walks, additional_bytes };
        Analysis {
            area_uses: vec![used(900, 1100, 4), used(50, 512, 1), used(50, 10, 1)],
            areas: vec![heap, map, file],
            piece_uses: vec![
                used(500, 512, 1),
                used(350, 512, 1),
                used(30, 40, 1),
                used(20, 36, 1),
                used(50, 512, 1),
            ],
            pieces,
            base: WalkCounts { walks: 1000, ..WalkCounts::default() },
            all_large: WalkCounts { walks: 50, ..WalkCounts::default() },
            all_large_bytes: 4 * MB,
            orders: vec![PageOrder::BASE, PageOrder::LARGE],
            gains: vec![
                gain(0, 500, 0),
                gain(1, 650, 0),
                gain(2, 970, 472 * 4096),
                gain(3, 980, 476 * 4096),
                gain(4, 950, 0),
            ],
            curve: GainCurve {
                choices: [0, 1, 4, 2, 3].map(choice).to_vec(),
                points: vec![
                    point(0, 1000, 0),
                    point(1, 500, 0),
                    point(2, 150, 0),
                    point(3, 100, 0),
                    point(5, 50, 948 * 4096),
                ],
            },
            instructions: 1000,
            accesses: 1000,
            has_events: true,
            is_cut: false,
        }
    }

    /// Three parts cost nothing. The mapping is taken as a whole, the heap is not: its last parts cost 3.7MB.
    #[test]
    fn the_parts_that_pay_are_chosen() {
        let analysis = analysis();
        let plan = Plan::of(&analysis).unwrap();
        let orders = [(0, PageOrder::LARGE), (1, PageOrder::LARGE)].into();
        assert_eq!(plan, Plan::Parts { point: 3, orders, whole: [1].into() });
        assert_eq!((plan.bytes(&analysis), Plan::All.bytes(&analysis)), (6 * MB, 10 * MB));
        let text = plan.advised(&analysis).to_string();
        assert_eq!(text, "0x7f0000000000-0x7f0000400000,0x7f0001000000-0x7f0001200000");
        let all = Plan::All.advised(&analysis).to_string();
        assert_eq!(all, "0x7f0000000000-0x7f0000800000,0x7f0001000000-0x7f0001200000");
        let ranges = ranges(&analysis, &plan);
        let names: Vec<&str> = ranges.iter().map(|range| range.area.0.as_str()).collect();
        assert_eq!(names, ["[heap]", "mapping@0x7f0001000000"]);
    }

    #[test]
    fn records_are_in_order_of_walks() {
        let analysis = analysis();
        let plan = Plan::of(&analysis).unwrap();
        let areas = areas(&analysis, &plan);
        let found: Vec<_> =
            areas.iter().map(|area| (area.kind.as_str(), area.advised_bytes)).collect();
        assert_eq!(found, [("heap", 4 * MB), ("anonymous", 2 * MB), ("file", 0)]);
        assert_eq!(
            (areas[0].walk_share, areas[0].saved_share, areas[0].additional_bytes),
            (0.9, 0.85, 0)
        );
        assert_eq!(areas[0].density, Some(1100.0 / 2048.0));
        let pieces = pieces(&analysis, &plan);
        let sizes: Vec<u64> = pieces.iter().map(|piece| piece.page_bytes).collect();
        assert_eq!(sizes, [2 * MB, 2 * MB, 4096, 4096, 2 * MB]);
        let curve = curve(&analysis, &plan);
        assert_eq!(curve.iter().position(|point| point.is_recommended), Some(3));
        assert_eq!(curve[4].advised_bytes, 10 * MB);
        assert_eq!(curve[2].saved_share, 0.85);
    }

    #[test]
    fn what_cannot_be_said_is_noted() {
        let plain = analysis();
        assert!(notes(&plain, &Plan::All).is_empty());
        let foreign = Analysis { has_events: false, is_cut: true, ..analysis() };
        let text = notes(&foreign, &Plan::All).join("\n");
        assert!(
            text.contains("does not say what memory") && text.contains("first part of the trace"),
            "{text}"
        );
        let mut files = analysis();
        files.area_uses[2].walks = 400;
        let text = notes(&files, &Plan::All).join("\n");
        assert!(text.starts_with("40 % of the page walks are in mapped files"), "{text}");
        let none = Analysis { curve: GainCurve::default(), ..analysis() };
        assert_eq!(Plan::of(&none), None);
    }

    /// A gigabyte overlaps its parts of 2MB, which the map shows.
    #[test]
    fn gigabytes_are_not_in_the_address_map() {
        let small = analysis();
        let plan = Plan::of(&small).unwrap();
        let mut large = analysis();
        large.pieces.push(Piece { area: AreaId(0), bytes: START..START + (1 << 30) });
        large.piece_uses.push(used(900, 1100, 4));
        let choice = Choice { piece: 5, order: PageOrder::HUGE };
        large.gains.push(ChoiceGain { choice, walks: 100, additional_bytes: 1000 * MB });
        assert_eq!(pieces(&large, &plan), pieces(&small, &plan));
    }
}
