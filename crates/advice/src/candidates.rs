//! Memory that may have larger pages: pieces of areas, and whole areas. Each choice of memory and page size is a
//! configuration that is simulated; the last configuration has 2MB pages everywhere.

use std::cmp::Reverse;
use std::ops::Range;

use crate::analysis::{AreaGain, AreaUse};
use crate::collect::{Memory, PageCounts, References};
use crate::filter::PossibleOrders;
use crate::marginal::{Simulations, additional_bytes, use_of};
use crate::tlbs::{PageSizes, WalkCounts};
use crate::{
    AdviceError, Area, AreaKind, Choice, ChoiceGain, GainCurve, GainPoint, PageOrder, Piece, pieces,
};

/// Largest number of areas that are simulated as a whole with each page size.
const MOST_AREAS: usize = 8;
/// Share of all walks, 1/100, that an area needs for that.
const AREA_SHARE: u64 = 100;

/// A piece and the ids of its pages.
pub(crate) type PieceIds = (Piece, Vec<Range<u32>>);

/// Memory of a program, with page walks with 4KB pages.
pub(crate) struct Walked<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) walks: &'a PageCounts,
}

impl Walked<'_> {
    /// Page walks to a range of addresses of an area.
    fn walks(&self, area: &Area, bytes: &Range<u64>) -> u64 {
        self.memory.ids_of(area, bytes).iter().map(|ids| self.walks.sum(ids)).sum()
    }

    /// Use of a range of addresses of an area.
    pub(crate) fn use_of(&self, area: &Area, bytes: &Range<u64>) -> AreaUse {
        AreaUse {
            pages: use_of(self.memory, &self.memory.ids_of(area, bytes)),
            walks: self.walks(area, bytes),
        }
    }

    /// Indices of the areas that take advice and have at least [`AREA_SHARE`] of their walks, those with most first.
    fn areas_by_walks(&self) -> Vec<usize> {
        let advised = self.memory.areas.iter().enumerate();
        let advised = advised.filter(|(_, area)| area.kind.takes_advice());
        let mut found: Vec<(u64, usize)> =
            advised.map(|(number, area)| (self.walks(area, &area.bytes), number)).collect();
        let total: u64 = found.iter().map(|(walks, _)| walks).sum();
        found.retain(|(walks, _)| *walks > 0 && walks * AREA_SHARE >= total);
        found.sort_by_key(|&(walks, number)| (Reverse(walks), number));
        found.into_iter().map(|(_, number)| number).collect()
    }
}

/// Pieces and areas with the page sizes that they may have.
pub(crate) struct Candidates<'a> {
    memory: &'a Memory,
    /// Pieces with page walks. Those of 1GB come last and overlap the others.
    pub(crate) pieces: Vec<PieceIds>,
    /// Number of pieces before those of 1GB.
    small: usize,
    /// Page sizes for one piece, with 4KB pages elsewhere.
    choices: Vec<Choice>,
    /// Page sizes for one area, with 2MB pages elsewhere; the first of each area is 4KB.
    of_areas: Vec<(usize, PageOrder)>,
}

impl<'a> Candidates<'a> {
    /// Finds the candidates of a program's memory. At most `limit` pieces are cut, for pages of these orders.
    pub(crate) fn find(walked: &Walked<'a>, orders: &[PageOrder], limit: usize) -> Self {
        let memory = walked.memory;
        let walks_of = |area: &Area, bytes: &Range<u64>| walked.walks(area, bytes);
        let mut pieces = pieces::cut(&memory.areas, limit, walks_of);
        let small = pieces.len();
        if orders.contains(&PageOrder::HUGE) {
            pieces.extend(pieces::gigabytes(&memory.areas, limit / 4, walks_of));
        }
        let with_ids = |piece: Piece| {
            let ids = memory.ids_of(&memory.areas[piece.area], &piece.bytes);
            (piece, ids)
        };
        let pieces: Vec<PieceIds> = pieces.into_iter().map(with_ids).collect();
        let choices = choices(&pieces, small, orders);
        let of_areas = area_choices(&walked.areas_by_walks(), &choices, &pieces, orders);
        Self { memory, pieces, small, choices, of_areas }
    }

    /// Adds 1GB for the pieces that may have such pages. Returns true if there are any.
    pub(crate) fn add_huge(&self, possible: &mut PossibleOrders) -> bool {
        let is_huge = |choice: &&Choice| choice.order == PageOrder::HUGE;
        let ids =
            self.choices.iter().filter(is_huge).flat_map(|choice| &self.pieces[choice.piece].1);
        ids.clone().for_each(|ids| possible.add(ids, PageOrder::HUGE));
        ids.count() > 0
    }

    /// Number of configurations: of each choice, of each area, and 2MB pages everywhere.
    pub(crate) fn configurations(&self) -> usize {
        self.choices.len() + self.of_areas.len() + 1
    }

    /// Page sizes of a configuration.
    pub(crate) fn sizes(&self, number: usize) -> PageSizes {
        let mut sizes = PageSizes::base(&self.memory.ids);
        if let Some(Choice { piece, order }) = self.choices.get(number) {
            self.pieces[*piece].1.iter().for_each(|ids| sizes.enlarge(ids, *order));
        } else if let Some(&(area, order)) = self.of_areas.get(number - self.choices.len()) {
            self.memory.eligible(Some(area)).for_each(|ids| sizes.enlarge(&ids, PageOrder::LARGE));
            self.enlarge_area(&mut sizes, area, order);
        } else {
            self.memory.eligible(None).for_each(|ids| sizes.enlarge(&ids, PageOrder::LARGE));
        }
        sizes
    }

    /// Gives an area pages of an order. With 1GB pages, memory beside whole aligned gigabytes has 2MB pages.
    fn enlarge_area(&self, sizes: &mut PageSizes, area: usize, order: PageOrder) {
        let small = order.min(PageOrder::LARGE);
        self.memory.ids_of_area(area).iter().for_each(|ids| sizes.enlarge(ids, small));
        if order == PageOrder::HUGE {
            let own = self.pieces[self.small..].iter();
            let own = own.filter(|(piece, _)| piece.area == area);
            own.flat_map(|(_, ids)| ids).for_each(|ids| sizes.enlarge(ids, order));
        }
    }

    /// Additional memory of a configuration in a range of pages, in bytes.
    fn additional_bytes(&self, number: usize, ids: &[Range<u32>]) -> u64 {
        additional_bytes(self.memory, ids, &self.sizes(number))
    }

    /// Effect of each choice, from the walks of all configurations.
    pub(crate) fn gains(&self, counts: &[WalkCounts]) -> Vec<ChoiceGain> {
        let gain = |(number, &choice): (usize, &Choice)| ChoiceGain {
            choice,
            walks: counts[number].walks,
            additional_bytes: self.additional_bytes(number, &self.pieces[choice.piece].1),
        };
        self.choices.iter().enumerate().map(gain).collect()
    }

    /// Effect of each larger page size for whole areas, from the walks of all configurations.
    pub(crate) fn area_gains(&self, counts: &[WalkCounts]) -> Vec<AreaGain> {
        let of_areas = || (self.choices.len()..).zip(&self.of_areas);
        let with_small = |area: usize| {
            let small = of_areas().find(|(_, choice)| **choice == (area, PageOrder::BASE));
            small.map_or(0, |(number, _)| counts[number].walks)
        };
        let gain = |(number, &(area, order)): (usize, &(usize, PageOrder))| AreaGain {
            area,
            order,
            saved_walks: with_small(area).saturating_sub(counts[number].walks),
            additional_bytes: self.additional_bytes(number, &self.memory.ids_of_area(area)),
        };
        of_areas().map(gain).filter(|gain| gain.order != PageOrder::BASE).collect()
    }

    /// Additional memory with 2MB pages everywhere, in bytes.
    pub(crate) fn all_large_bytes(&self) -> u64 {
        let ids: Vec<Range<u32>> = self.memory.eligible(None).collect();
        self.additional_bytes(self.configurations() - 1, &ids)
    }

    /// Simulates beginnings of the list of choices, each with all its choices together: the first `from` choices,
    /// longer beginnings, and the whole list. Returns at most `most` points.
    pub(crate) fn curve(
        &self,
        simulations: &Simulations<'_>,
        references: &References,
        choices: Vec<Choice>,
        from: usize,
        most: usize,
        on_progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<GainCurve, AdviceError> {
        let each = (choices.len() - from).div_ceil(most - 1).max(1);
        let mut prefixes: Vec<usize> = (from..=choices.len()).step_by(each).collect();
        if prefixes.last() != Some(&choices.len()) {
            prefixes.push(choices.len());
        }
        let make = |number: usize| {
            let mut sizes = PageSizes::base(&self.memory.ids);
            for choice in &choices[..prefixes[number]] {
                self.pieces[choice.piece].1.iter().for_each(|ids| sizes.enlarge(ids, choice.order));
            }
            sizes
        };
        let total = prefixes.len();
        let counts =
            simulations.run_all(references, total, &make, &|done| on_progress(done, total))?;
        // Pieces of 1GB overlap others.
        let mut chosen: Vec<Range<u32>> =
            choices.iter().flat_map(|choice| self.pieces[choice.piece].1.clone()).collect();
        chosen.sort_by_key(|ids| ids.start);
        let mut counted = 0;
        for ids in &mut chosen {
            ids.start = ids.start.max(counted).min(ids.end);
            counted = counted.max(ids.end);
        }
        let points =
            prefixes.iter().zip(&counts).enumerate().map(|(number, (&count, counts))| GainPoint {
                choices: count,
                walks: counts.walks,
                additional_bytes: additional_bytes(self.memory, &chosen, &make(number)),
            });
        Ok(GainCurve { points: points.collect(), choices })
    }
}

impl Memory {
    /// Ids of the pages in a range of addresses of an area.
    fn ids_of(&self, area: &Area, bytes: &Range<u64>) -> Vec<Range<u32>> {
        self.ids.ranges(area.process, &(bytes.start >> 12..bytes.end >> 12))
    }

    fn ids_of_area(&self, area: usize) -> Vec<Range<u32>> {
        self.ids_of(&self.areas[area], &self.areas[area].bytes)
    }

    /// Ids of the pages of all areas for which `thp` maps 2MB pages, or of all but one.
    pub(crate) fn eligible(&self, left_out: Option<usize>) -> impl Iterator<Item = Range<u32>> {
        let is_eligible = |kind: AreaKind| kind.takes_advice() || matches!(kind, AreaKind::Stack);
        let others = (0..self.areas.len()).filter(move |number| Some(*number) != left_out);
        let eligible = others.filter(move |number| is_eligible(self.areas[*number].kind));
        eligible.flat_map(|number| self.ids_of_area(number))
    }
}

/// Choices that have an effect: the piece contains a whole block of the order. The first `small` pieces have
/// all orders but 1GB, the others only that.
fn choices(pieces: &[PieceIds], small: usize, orders: &[PageOrder]) -> Vec<Choice> {
    let has_block = |piece: usize, order: PageOrder| {
        let size = 1_u32 << order.0;
        let ids = &pieces[piece].1;
        ids.iter().any(|ids| ids.start.next_multiple_of(size) < ids.end & !(size - 1))
    };
    let larger = orders.iter().filter(|order| **order != PageOrder::BASE);
    let all = larger.flat_map(|&order| {
        let pieces = if order == PageOrder::HUGE { small..pieces.len() } else { 0..small };
        pieces.map(move |piece| Choice { piece, order })
    });
    all.filter(|choice| has_block(choice.piece, choice.order)).collect()
}

/// Page sizes for whole areas, of which some part has that choice.
fn area_choices(
    areas: &[usize],
    choices: &[Choice],
    pieces: &[PieceIds],
    orders: &[PageOrder],
) -> Vec<(usize, PageOrder)> {
    let is_possible = |area: usize, order: PageOrder| {
        let is_one = |choice: &Choice| (pieces[choice.piece].0.area, choice.order) == (area, order);
        order == PageOrder::BASE || choices.iter().any(is_one)
    };
    let all = areas.iter().take(MOST_AREAS);
    let all = all.flat_map(|&area| orders.iter().map(move |&order| (area, order)));
    all.filter(|&(area, order)| is_possible(area, order)).collect()
}
