//! Plan: memory that gets larger pages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use perforate_advice::{Analysis, AreaGain, AreaUse, Choice, ENOUGH, PageOrder};

use super::runs::{BEST_PARTS, BY_AREA, PARTS_IN_2MB, WITH_HUGE};

/// Share of the walks, beyond those that 2MB pages save, that 1GB pages have to save to be mentioned.
pub(super) const WORTH_GIGABYTES: f64 = 0.1;

/// Memory that gets larger pages.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The best parts of memory: the first choices of the gain curve.
    Parts {
        /// Index of the point of the curve; `None` if the plan is on no point.
        point: Option<usize>,
        /// Page size of each part that gets larger pages, by its index. Of the parts of whole areas, only those
        /// with 1GB pages are among them.
        orders: BTreeMap<usize, PageOrder>,
        /// Page sizes of areas that get larger pages as a whole, as their other parts cost next to nothing.
        whole: BTreeMap<usize, PageOrder>,
    },
    /// All memory that takes advice.
    All,
}

/// Additional memory of a whole area beyond that of its best parts, or of gaps between them, as a share of the
/// area's memory, up to which they are advised, too: one request is simpler than several.
pub(super) const NEXT_TO_NOTHING: f64 = 0.01;

impl Plan {
    /// Plans to time, in the order in which they are preferred, each with its name; empty if no pages save walks. The
    /// first has the parts that save nearly all walks that pages of at most 2MB can save, for the least memory.
    /// The second has whole areas, each with its own size, if that is not 2MB for all. If some parts of the first
    /// have smaller pages, the third has the same parts with 2MB pages. The last has 1GB pages besides, if these
    /// save many more walks.
    pub fn candidates(analysis: &Analysis) -> Vec<(&'static str, Self)> {
        let (curve, huge) = (&analysis.curve, &analysis.huge_curve);
        let mut found = Vec::new();
        let mut left = analysis.base.walks;
        if let Some(index) = curve.point_for(ENOUGH) {
            let point = &curve.points[index];
            left = point.walks;
            let first = orders(&curve.choices[..point.choices]);
            let in_2mb: BTreeMap<_, _> =
                first.keys().map(|&part| (part, PageOrder::LARGE)).collect();
            let has_smaller = in_2mb != first;
            found.push((BEST_PARTS, Self::parts(analysis, Some(index), first)));
            found.extend(Self::by_area(analysis).map(|plan| (BY_AREA, plan)));
            if has_smaller {
                found.push((PARTS_IN_2MB, Self::parts(analysis, Some(index), in_2mb)));
            }
        }
        if let Some(index) = huge.point_for(ENOUGH) {
            let point = &huge.points[index];
            let more = left.saturating_sub(point.walks);
            if more as f64 >= WORTH_GIGABYTES * analysis.base.walks as f64 {
                let orders = orders(&huge.choices[..point.choices]);
                found.push((WITH_HUGE, Self::parts(analysis, None, orders)));
            }
        }
        found
    }

    /// Plan with one page size for each of the areas with most page walks. Each area gets the size that takes the least
    /// memory among the sizes that save nearly as many walks as the area's best size. `None` if all get 2MB.
    fn by_area(analysis: &Analysis) -> Option<Self> {
        let gains = analysis.area_gains.iter().filter(|gain| gain.order <= PageOrder::LARGE);
        let mut most: BTreeMap<usize, u64> = BTreeMap::new();
        for gain in gains.clone().filter(|gain| gain.saved_walks > 0) {
            let of_area = most.entry(gain.area).or_default();
            *of_area = gain.saved_walks.max(*of_area);
        }
        let best = |(area, most): (usize, u64)| {
            let own = gains.clone().filter(|gain| gain.area == area);
            let enough = own.filter(|gain| gain.saved_walks as f64 >= ENOUGH * most as f64);
            let cost =
                |gain: &&AreaGain| (gain.additional_bytes, Reverse(gain.saved_walks), gain.order);
            let least = enough.min_by_key(cost)?;
            Some((area, least.order))
        };
        let whole: BTreeMap<usize, PageOrder> = most.into_iter().filter_map(best).collect();
        let has_smaller = whole.values().any(|order| *order < PageOrder::LARGE);
        has_smaller.then(|| Self::Parts { point: None, orders: BTreeMap::new(), whole })
    }

    /// Plan with these page sizes, and with whole areas where that costs next to nothing.
    fn parts(
        analysis: &Analysis,
        point: Option<usize>,
        mut orders: BTreeMap<usize, PageOrder>,
    ) -> Self {
        let chosen = areas_of(analysis, &orders).into_iter();
        let largest = |area: usize| {
            let own = orders.iter().filter(|(part, _)| area_of(analysis, **part) == area);
            own.map(|(_, order)| (*order).min(PageOrder::LARGE)).max().unwrap_or(PageOrder::BASE)
        };
        let whole: BTreeMap<usize, PageOrder> = chosen
            .map(|area| (area, largest(area)))
            .filter(|&(area, order)| costs_no_more(analysis, &orders, area, order))
            .collect();
        orders.retain(|&part, &mut order| {
            order == PageOrder::HUGE || !whole.contains_key(&area_of(analysis, part))
        });
        Self::Parts { point, orders, whole }
    }

    /// Memory with larger pages in bytes: the parts of these pages' size that the program touches.
    pub fn bytes(&self, analysis: &Analysis) -> u64 {
        self.bytes_where(analysis, |_, _| true)
    }

    /// Memory with pages of 2MB or more, in bytes.
    pub fn large_bytes(&self, analysis: &Analysis) -> u64 {
        self.bytes_where(analysis, |_, order| order >= PageOrder::LARGE)
    }

    /// Memory with larger pages in bytes, counting only areas and page sizes for which `is_one` is true.
    pub(super) fn bytes_where(
        &self,
        analysis: &Analysis,
        is_one: impl Fn(usize, PageOrder) -> bool,
    ) -> u64 {
        let of_area = |area: usize, order: PageOrder| match is_one(area, order) {
            true => area_bytes(analysis, area, order),
            false => 0,
        };
        match self {
            Self::Parts { orders, whole, .. } => {
                let parts = bytes_of(analysis, orders, &is_one);
                let huge_within = |area: usize| {
                    bytes_of(analysis, orders, &|own, order| {
                        own == area && order == PageOrder::HUGE
                    })
                };
                let rest = |(&area, &order)| of_area(area, order).saturating_sub(huge_within(area));
                whole.iter().map(rest).sum::<u64>() + parts
            }
            Self::All => self.areas(analysis).map(|area| of_area(area, PageOrder::LARGE)).sum(),
        }
    }

    /// True if some part has 1GB pages.
    pub(super) fn has_huge(&self) -> bool {
        match self {
            Self::Parts { orders, .. } => orders.values().any(|order| *order == PageOrder::HUGE),
            Self::All => false,
        }
    }

    /// Indices of the areas that get larger pages.
    pub fn areas(&self, analysis: &Analysis) -> impl Iterator<Item = usize> {
        let own: Vec<usize> = match self {
            Self::Parts { orders, whole, .. } => {
                let whole = whole.keys().copied().collect();
                areas_of(analysis, orders).union(&whole).copied().collect()
            }
            Self::All => {
                let takes_advice = |&area: &usize| analysis.areas[area].kind.takes_advice();
                let has_blocks = |&area: &usize| area_bytes(analysis, area, PageOrder::LARGE) > 0;
                (0..analysis.areas.len()).filter(takes_advice).filter(has_blocks).collect()
            }
        };
        own.into_iter()
    }

    /// Page size of an area that gets larger pages as a whole.
    pub(super) fn whole_order(&self, analysis: &Analysis, area: usize) -> Option<PageOrder> {
        match self {
            Self::Parts { whole, .. } => whole.get(&area).copied(),
            Self::All => analysis.areas[area].kind.takes_advice().then_some(PageOrder::LARGE),
        }
    }

    /// Page size of a part. A part of a whole area with larger pages has 4KB pages if it has room for no larger one
    /// that the program touches.
    pub(super) fn order(&self, analysis: &Analysis, piece: usize) -> PageOrder {
        let own = match self {
            Self::Parts { orders, .. } => orders.get(&piece).copied(),
            Self::All => None,
        };
        let has_room = |order: &PageOrder| {
            block_bytes(&analysis.piece_uses[piece], &analysis.pieces[piece].bytes, *order) > 0
        };
        let whole = self.whole_order(analysis, area_of(analysis, piece)).filter(has_room);
        own.or(whole).unwrap_or(PageOrder::BASE)
    }
}

/// Page size of each part after these choices: the last one of a part is its largest.
pub(super) fn orders(choices: &[Choice]) -> BTreeMap<usize, PageOrder> {
    let mut orders = BTreeMap::new();
    for choice in choices {
        let order = orders.entry(choice.piece).or_insert(choice.order);
        *order = choice.order.max(*order);
    }
    orders
}

pub(super) fn area_of(analysis: &Analysis, piece: usize) -> usize {
    analysis.pieces[piece].area
}

fn areas_of(analysis: &Analysis, orders: &BTreeMap<usize, PageOrder>) -> BTreeSet<usize> {
    orders.keys().map(|&piece| area_of(analysis, piece)).collect()
}

/// True if pages of this order for a whole area cost next to nothing beyond the choices for its parts.
fn costs_no_more(
    analysis: &Analysis,
    orders: &BTreeMap<usize, PageOrder>,
    area: usize,
    order: PageOrder,
) -> bool {
    let used = &analysis.area_uses[area];
    let touched_bytes = touched(used, PageOrder::BASE);
    let whole = touched(used, order).saturating_sub(touched_bytes);
    let is_chosen = |choice: &Choice| {
        area_of(analysis, choice.piece) == area && orders.get(&choice.piece) == Some(&choice.order)
    };
    let chosen = analysis.gains.iter().filter(|gain| is_chosen(&gain.choice));
    let parts = chosen.map(|gain| gain.additional_bytes).sum::<u64>();
    whole.saturating_sub(parts) as f64 <= NEXT_TO_NOTHING * touched_bytes as f64
}

/// Memory of parts with larger pages in bytes, counting only areas and page sizes for which `is_one` is true. A part
/// inside a gigabyte that has a 1GB page is not counted again.
pub(super) fn bytes_of(
    analysis: &Analysis,
    orders: &BTreeMap<usize, PageOrder>,
    is_one: &impl Fn(usize, PageOrder) -> bool,
) -> u64 {
    let of_huge = orders.iter().filter(|(_, order)| **order == PageOrder::HUGE);
    let huge: Vec<usize> = of_huge.map(|(part, _)| *part).collect();
    let is_inside = |piece: usize| {
        let piece = &analysis.pieces[piece];
        huge.iter().any(|&huge| {
            let huge = &analysis.pieces[huge];
            huge.area == piece.area
                && huge.bytes.start <= piece.bytes.start
                && piece.bytes.end <= huge.bytes.end
        })
    };
    let counted = orders.iter().filter(|&(&piece, &order)| {
        is_one(area_of(analysis, piece), order) && (order == PageOrder::HUGE || !is_inside(piece))
    });
    let bytes = |piece: usize, order: PageOrder| {
        block_bytes(&analysis.piece_uses[piece], &analysis.pieces[piece].bytes, order)
    };
    counted.map(|(&piece, &order)| bytes(piece, order)).sum()
}

/// Memory of a range that can have pages of an order and is touched, in bytes: whole aligned blocks only. Memory
/// with 1GB pages is counted by 2MB blocks.
fn block_bytes(used: &AreaUse, bytes: &Range<u64>, order: PageOrder) -> u64 {
    let order = order.min(PageOrder::LARGE);
    let block = order.bytes();
    let whole = (bytes.end & !(block - 1)).saturating_sub(bytes.start.next_multiple_of(block));
    touched(used, order).min(whole)
}

/// Memory of an area that can have pages of an order and is touched, in bytes.
pub(super) fn area_bytes(analysis: &Analysis, area: usize, order: PageOrder) -> u64 {
    block_bytes(&analysis.area_uses[area], &analysis.areas[area].bytes, order)
}

pub(super) fn touched(used: &AreaUse, order: PageOrder) -> u64 {
    used.pages.touched_blocks.get(usize::from(order.0)).copied().unwrap_or(0) * order.bytes()
}

#[cfg(test)]
mod tests {
    use perforate_advice::{
        Area, AreaKind, ChoiceGain, GainCurve, GainPoint, Piece, PieceUse, TouchedRegions,
        WalkCounts,
    };
    use perforate_records::AdviceSize;
    use perforate_types::ProcessId;

    use super::*;
    use crate::actions::advice::ranges::ranges;
    use crate::actions::advice::records::{areas, curve, notes, pieces};

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
        let piece = |area, offset: u64, start: u64| Piece {
            area,
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
            workload: "w".into(),
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
            area_gains: vec![AreaGain {
                area: 0,
                order: PageOrder::LARGE,
                saved_walks: 900,
                additional_bytes: 948 * 4096,
            }],
            huge_curve: GainCurve::default(),
            touched: TouchedRegions::default(),
            instructions: 1000,
            accesses: 1000,
            has_events: true,
            is_cut: false,
            failure: None,
        }
    }

    /// The only plan, which has 2MB pages only.
    fn first(analysis: &Analysis) -> Plan {
        let mut plans = Plan::candidates(analysis);
        assert_eq!(plans.len(), 1, "{plans:?}");
        plans.remove(0).1
    }

    /// Three parts cost nothing. The mapping is taken as a whole, the heap is not: its last parts cost 3.7MB.
    #[test]
    fn the_parts_that_pay_are_chosen() {
        let analysis = analysis();
        let plan = first(&analysis);
        let orders = [(0, PageOrder::LARGE), (1, PageOrder::LARGE)].into();
        let whole = [(1, PageOrder::LARGE)].into();
        assert_eq!(plan, Plan::Parts { point: Some(3), orders, whole });
        assert_eq!((plan.bytes(&analysis), Plan::All.bytes(&analysis)), (6 * MB, 10 * MB));
        let text = plan.requests(&analysis).ranges.to_string();
        assert_eq!(text, "0x7f0000000000-0x7f0000400000,0x7f0001000000-0x7f0001200000");
        let all = Plan::All.requests(&analysis).ranges.to_string();
        assert_eq!(all, "0x7f0000000000-0x7f0000800000,0x7f0001000000-0x7f0001200000");
        let ranges = ranges(&analysis, &plan);
        let names: Vec<&str> = ranges.iter().map(|range| range.area.0.as_str()).collect();
        assert_eq!(names, ["[heap]", "mapping@0x7f0001000000"]);
    }

    /// A plan for all memory is the last point of the curve, beyond that of all choices.
    #[test]
    fn a_plan_for_all_memory_is_on_the_curve() {
        let analysis = analysis();
        let found = curve(&analysis, &Plan::All);
        assert_eq!(found.len(), analysis.curve.points.len() + 1);
        let last = found.last().unwrap();
        assert_eq!(
            (last.advised_bytes, last.additional_bytes, last.saved_share),
            (10 * MB, 4 * MB, 0.95)
        );
        let marked: Vec<usize> = (0..found.len()).filter(|&at| found[at].is_recommended).collect();
        assert_eq!(marked, [5]);
        let none = Analysis { curve: GainCurve::default(), ..analysis };
        assert!(curve(&none, &Plan::All).is_empty());
    }

    /// The mapping of one part lies 4KB beside a multiple of 2MB: it has no room for a large page.
    #[test]
    fn no_large_pages_are_on_the_map_where_none_are_advised() {
        let mut analysis = analysis();
        let bytes = START + 16 * MB + 4096..START + 18 * MB + 4096;
        (analysis.areas[1].bytes, analysis.pieces[4].bytes) = (bytes.clone(), bytes);
        let whole = [(1, PageOrder::LARGE)].into();
        for plan in [Plan::All, Plan::Parts { point: None, orders: BTreeMap::new(), whole }] {
            let areas = areas(&analysis, &plan);
            let place = areas.iter().position(|area| area.kind == "anonymous").unwrap();
            assert_eq!(areas[place].advised_bytes, 0);
            let pieces = pieces(&analysis, &plan);
            let own: Vec<u64> = pieces
                .iter()
                .filter(|piece| piece.area == place)
                .map(|piece| piece.page_bytes)
                .collect();
            assert_eq!(own, [4096], "{plan:?}");
        }
    }

    #[test]
    fn records_are_in_order_of_walks() {
        let analysis = analysis();
        let plan = first(&analysis);
        let areas = areas(&analysis, &plan);
        let found: Vec<_> =
            areas.iter().map(|area| (area.kind.as_str(), area.advised_bytes)).collect();
        assert_eq!(found, [("heap", 4 * MB), ("anonymous", 2 * MB), ("file", 0)]);
        assert_eq!(
            (areas[0].walk_share, areas[0].saved_share, areas[0].additional_bytes),
            (0.9, 0.85, 0)
        );
        assert_eq!(areas[0].density, Some(1100.0 / 2048.0));
        let size = AdviceSize {
            page_bytes: 2 * MB,
            saved_share: 0.9,
            additional_bytes: 948 * 4096,
            advised_bytes: 4 * MB,
        };
        assert_eq!((&areas[0].sizes[..], &areas[1].sizes[..]), (&[size][..], &[][..]));
        let pieces = pieces(&analysis, &plan);
        let sizes: Vec<u64> = pieces.iter().map(|piece| piece.page_bytes).collect();
        assert_eq!(sizes, [2 * MB, 2 * MB, 4096, 4096, 2 * MB]);
        let curve = curve(&analysis, &plan);
        assert_eq!(curve.iter().position(|point| point.is_recommended), Some(3));
        assert_eq!(curve[4].advised_bytes, 10 * MB);
        assert_eq!(curve[2].saved_share, 0.85);
    }

    /// The last two parts of the heap have 64KB pages, which save nearly as much as 2MB pages for less memory: a whole
    /// heap in 2MB would cost 3.7MB.
    #[test]
    fn parts_have_pages_of_their_own_size_and_are_timed_in_2mb_too() {
        let mut analysis = analysis();
        let small = |piece| Choice { piece, order: PageOrder(4) };
        let gain = |piece| ChoiceGain { choice: small(piece), walks: 970, additional_bytes: 4096 };
        analysis.gains.extend([gain(2), gain(3)]);
        analysis.area_uses[0].walks = 4000;
        analysis.curve.choices = vec![
            Choice { piece: 0, order: PageOrder::LARGE },
            Choice { piece: 1, order: PageOrder::LARGE },
            small(2),
            small(3),
        ];
        analysis.curve.points = [(0, 1000, 0), (2, 500, 0), (4, 50, 8192)]
            .map(|(choices, walks, additional_bytes)| GainPoint {
                choices,
                walks,
                additional_bytes,
            })
            .to_vec();
        let plans = Plan::candidates(&analysis);
        let found: Vec<(&str, String)> = plans
            .iter()
            .map(|(name, plan)| (*name, plan.requests(&analysis).ranges.to_string()))
            .collect();
        let in_2mb = "0x7f0000000000-0x7f0000800000".to_owned();
        let mixed = "0x7f0000000000-0x7f0000400000,0x7f0000400000-0x7f0000800000=64K".to_owned();
        assert_eq!(found, [(BEST_PARTS, mixed), (PARTS_IN_2MB, in_2mb)]);
        let (mixed, in_2mb) = (&plans[0].1, &plans[1].1);
        assert_eq!((mixed.large_bytes(&analysis), in_2mb.large_bytes(&analysis)), (4 * MB, 8 * MB));
        let pages: Vec<u64> =
            pieces(&analysis, mixed).iter().map(|piece| piece.page_bytes).collect();
        assert_eq!(pages, [2 * MB, 2 * MB, 65536, 65536, 4096]);
    }

    /// Of the 1,000 walks, 2MB pages for the heap save 900. Pages of 64KB are right for it if they save 85 % of that for
    /// less memory.
    #[test]
    fn an_area_has_the_size_that_saves_nearly_as_much_for_less_memory() {
        let found = |saved_walks, additional_bytes| {
            let mut analysis = analysis();
            let order = PageOrder(4);
            analysis.area_gains.push(AreaGain { area: 0, order, saved_walks, additional_bytes });
            let plans = Plan::candidates(&analysis).into_iter();
            let plan = plans.skip(1).find(|(name, _)| *name == BY_AREA)?.1;
            Some(plan.requests(&analysis).ranges.to_string())
        };
        let heap = Some("0x7f0000000000-0x7f0000800000=64K".to_owned());
        assert_eq!(found(765, 8192), heap);
        assert_eq!(found(764, 8192), None, "76.4 % of all, which is less than 76.5");
        assert_eq!(found(765, 948 * 4096), None, "as much memory as 2MB pages");
        assert_eq!(found(901, 948 * 4096), heap, "as much memory, and fewer walks");
    }

    /// An area of three gigabytes, of which 2MB pages save 800 of 1,000 walks, and a page of 1GB for the second one
    /// some more.
    fn with_huge(walks: u64) -> Analysis {
        const GB: u64 = 1 << 30;
        let mut analysis = analysis();
        analysis.areas[0].bytes = START..START + 3 * GB;
        analysis.area_uses[0] = used(900, 3 << 18, 1536);
        let piece = |bytes: Range<u64>| Piece { area: 0, bytes };
        analysis.pieces = vec![piece(START..START + 3 * GB), piece(START + GB..START + 2 * GB)];
        analysis.piece_uses = vec![used(900, 3 << 18, 1536), used(300, 1 << 18, 512)];
        let large = Choice { piece: 0, order: PageOrder::LARGE };
        let huge = Choice { piece: 1, order: PageOrder::HUGE };
        let gain = |choice, walks| ChoiceGain { choice, walks, additional_bytes: 0 };
        analysis.gains = vec![gain(large, 200), gain(huge, 700)];
        let point = |choices, walks| GainPoint { choices, walks, additional_bytes: 0 };
        analysis.curve =
            GainCurve { choices: vec![large], points: vec![point(0, 1000), point(1, 200)] };
        analysis.huge_curve =
            GainCurve { choices: vec![large, huge], points: vec![point(1, 200), point(2, walks)] };
        analysis.all_large.walks = 200;
        analysis
    }

    #[test]
    fn gigabytes_are_timed_if_they_save_a_tenth_of_all_walks_more() {
        let names = |walks: u64| -> Vec<&str> {
            Plan::candidates(&with_huge(walks)).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(101), [BEST_PARTS]);
        assert_eq!(names(100), [BEST_PARTS, WITH_HUGE]);
        let analysis = with_huge(100);
        let plans = Plan::candidates(&analysis);
        let [(_, large), (_, huge)] = &plans[..] else { panic!("{plans:?}") };
        let ranges = ["0x7f0000000000-0x7f0040000000", "0x7f0080000000-0x7f00c0000000"];
        assert_eq!(
            huge.requests(&analysis).ranges.to_string(),
            format!("{},0x7f0040000000-0x7f0080000000=1G,{}", ranges[0], ranges[1])
        );
        assert_eq!(huge.bytes(&analysis), large.bytes(&analysis), "no memory counts twice");
        let text = notes(&analysis, large).join("\n");
        assert!(text.contains("1GB pages would save another 10 % of the page walks"), "{text}");
        assert!(notes(&analysis, huge).is_empty());
        assert!(notes(&with_huge(101), &Plan::All).is_empty());
    }

    /// Two ranges of 2MB, a gap, and a range of 2MB. The touched pages of the gap decide if it is filled, and its
    /// length: of the 2,048 pages of the area, a hundredth are 20.
    #[test]
    fn small_gaps_between_ranges_are_filled() {
        let with = |gap: u64, touched: &[(u64, u16)]| {
            let mut analysis = analysis();
            let end = 4 * MB + gap + 2 * MB;
            analysis.areas[0].bytes = START..START + 100 * MB;
            analysis.area_uses[0] = used(900, 2048, 40);
            for (part, start) in [0, 2 * MB, 4 * MB + gap].into_iter().enumerate() {
                analysis.pieces[part].bytes = START + start..START + start + 2 * MB;
            }
            let regions = touched.iter().map(|&(at, pages)| (ProcessId(0), START + at, pages));
            analysis.touched = TouchedRegions::from_regions(regions);
            let orders = (0..3).map(|part| (part, PageOrder::LARGE)).collect();
            let plan = Plan::Parts { point: None, orders, whole: BTreeMap::new() };
            let found = ranges(&analysis, &plan);
            let is_one = found.len() == 1;
            assert_eq!(found.last().unwrap().bytes.end, START + end);
            is_one
        };
        assert!(with(2 * MB, &[]), "the program does not touch the gap");
        assert!(with(2 * MB, &[(4 * MB, 512 - 20)]));
        assert!(!with(2 * MB, &[(4 * MB, 512 - 21)]));
        assert!(with(4 * MB, &[(4 * MB, 512 - 10), (6 * MB, 512 - 10)]));
        assert!(!with(4 * MB, &[(4 * MB, 512 - 10), (6 * MB, 512 - 11)]));
        assert!(with(6 * MB, &[]) && !with(8 * MB, &[]), "as long as both, and longer");
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
        assert!(Plan::candidates(&none).is_empty());
    }

    /// A gigabyte overlaps its parts of 2MB, which the map shows.
    #[test]
    fn gigabytes_are_not_in_the_address_map() {
        let small = analysis();
        let (_, plan) = Plan::candidates(&small).remove(0);
        let mut large = analysis();
        large.pieces.push(Piece { area: 0, bytes: START..START + (1 << 30) });
        large.piece_uses.push(used(900, 1100, 4));
        let choice = Choice { piece: 5, order: PageOrder::HUGE };
        large.gains.push(ChoiceGain { choice, walks: 100, additional_bytes: 1000 * MB });
        assert_eq!(pieces(&large, &plan), pieces(&small, &plan));
    }
}
