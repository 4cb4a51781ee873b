//! Ranges of addresses with larger pages.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_advice::remedy::AdvisedRange;
use perforate_advice::{Analysis, Area, PageOrder};
use perforate_records::AdviceRange;
use perforate_sim::AdvisedRanges;
use perforate_types::RangeMap;

use super::plan::{NEXT_TO_NOTHING, Plan, area_of, touched};
use super::runs::Requests;

impl Plan {
    /// The program's requests for larger pages.
    pub fn requests(&self, analysis: &Analysis) -> Requests {
        let range = |range: &AdvisedRange| perforate_sim::AdvisedRange {
            process: range.process,
            bytes: range.bytes.clone(),
            order: (range.page_bytes / 4096).ilog2() as u8,
        };
        let ranges = AdvisedRanges::new(ranges(analysis, self).iter().map(range).collect());
        Requests { ranges, large_bytes: self.large_bytes(analysis) }
    }
}

/// Returns the ranges with larger pages in order of area and address. Two ranges of an area with pages of one size
/// become one if the gap between them is no longer than both together, and if its pages add next to nothing: all
/// gaps of an area that are filled together at most 1 % of its memory, those that add least first.
pub fn ranges(analysis: &Analysis, plan: &Plan) -> Vec<AdvisedRange> {
    let mut found: Vec<AdvisedRange> = Vec::new();
    for area in plan.areas(analysis) {
        let own = match plan {
            Plan::Parts { orders, .. } => orders.clone(),
            Plan::All => BTreeMap::new(),
        };
        let parts = own.into_iter().filter(|(part, _)| area_of(analysis, *part) == area);
        let mut by_size: BTreeMap<PageOrder, Vec<Range<u64>>> = BTreeMap::new();
        for (part, order) in parts {
            by_size.entry(order).or_default().push(analysis.pieces[part].bytes.clone());
        }
        if let Some(order) = plan.whole_order(analysis, area) {
            by_size.insert(order, vec![analysis.areas[area].bytes.clone()]);
        }
        // Memory that has larger pages already is in no other range.
        let mut taken: Vec<Range<u64>> = Vec::new();
        for (order, ranges) in by_size.into_iter().rev() {
            let mut left: RangeMap<()> = ranges.into_iter().collect();
            taken.iter().for_each(|bytes| drop(left.remove(bytes)));
            if order != PageOrder::HUGE {
                left = filled(analysis, area, &left, order);
                taken.iter().for_each(|bytes| drop(left.remove(bytes)));
            }
            taken.extend(left.iter().map(|(bytes, ())| bytes));
            let area = &analysis.areas[area];
            found.extend(left.iter().map(|(bytes, ())| range(area, bytes, order.bytes())));
        }
    }
    found.sort_by_key(|range| (range.process, range.bytes.start));
    found
}

/// Fills gaps between ranges of an area that have pages of this order.
fn filled(
    analysis: &Analysis,
    area: usize,
    ranges: &RangeMap<()>,
    order: PageOrder,
) -> RangeMap<()> {
    let length = |bytes: &Range<u64>| bytes.end - bytes.start;
    let process = analysis.areas[area].process;
    let ranges: Vec<Range<u64>> = ranges.iter().map(|(bytes, ())| bytes).collect();
    let mut gaps: Vec<(u64, Range<u64>)> = ranges
        .windows(2)
        .map(|pair| (pair[0].end..pair[1].start, length(&pair[0]) + length(&pair[1])))
        .filter(|(gap, both)| length(gap) <= *both)
        .map(|(gap, _)| (analysis.touched.most_added(process, &gap, order), gap))
        .collect();
    gaps.sort_by_key(|(added, gap)| (*added, gap.start));
    let memory = touched(&analysis.area_uses[area], PageOrder::BASE);
    let mut left = (memory as f64 * NEXT_TO_NOTHING) as u64;
    let fills = |(added, _): &(u64, Range<u64>)| {
        left = left.checked_sub(*added)?;
        Some(())
    };
    let number = gaps.iter().map_while(fills).count();
    gaps.into_iter().take(number).map(|(_, gap)| gap).chain(ranges).collect()
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
