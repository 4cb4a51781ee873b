//! Second-level TLB contents over time, and the holes of perforated pages.

use std::collections::BTreeSet;

use serde_json::Number;

use super::figure::{Cell, Figure, Grid, Heading, headings, linked};
use crate::Region;
use crate::chart::{Area, Series, holes as draw_holes};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::compact;
use crate::word::{ENTRY_KINDS, with_unknown};

/// Pages drawn per comparison; more than these look alike.
const MOST_PAGES: usize = 12;

/// One chart per scheme that has samples; all share their axes.
pub(crate) fn contents(comparison: &Comparison<'_>, id: &str) -> String {
    let sampled: Vec<&SchemeRuns<'_>> = comparison
        .schemes
        .iter()
        .filter(|scheme| !scheme.first().series.l2_tlb_contents.is_empty())
        .collect();
    let samples = || sampled.iter().flat_map(|scheme| &scheme.first().series.l2_tlb_contents);
    let kinds: BTreeSet<String> = samples()
        .flat_map(|sample| &sample.entries)
        .filter(|(_, count)| count.as_f64().is_some_and(|count| count > 0.0))
        .map(|(kind, _)| kind.clone())
        .collect();
    if kinds.is_empty() {
        return String::new();
    }
    let series: Vec<Series> = with_unknown(ENTRY_KINDS, &kinds.into_iter().collect::<Vec<_>>())
        .into_iter()
        .map(|(key, label, colour)| Series { key, label, colour })
        .collect();
    let total = |sample: &crate::ContentsSample| {
        sample.entries.values().filter_map(Number::as_f64).filter(|count| *count > 0.0).sum::<f64>()
    };
    let top = (
        samples().map(|sample| sample.instruction).fold(0.0, f64::max),
        samples().map(total).fold(0.0, f64::max),
    );
    let figures: Vec<String> = sampled
        .iter()
        .enumerate()
        .map(|(index, scheme)| {
            one_scheme(scheme, &series, top, &format!("{id}-l2-tlb-{index}")).html()
        })
        .collect();
    format!(
        "<h2>What the L2 TLB holds</h2><p class=\"lead\">Entries by kind while the program runs{}.</p>\
         {}",
        if comparison.seeds() > 1 { "; the first seed of each scheme" } else { "" },
        linked(&figures),
    )
}

fn one_scheme(scheme: &SchemeRuns<'_>, series: &[Series], top: (f64, f64), id: &str) -> Figure {
    let samples = &scheme.first().series.l2_tlb_contents;
    let count = |sample: &crate::ContentsSample, key: &str| {
        sample.entries.get(key).and_then(Number::as_f64).unwrap_or(0.0)
    };
    let points = samples.iter().map(|sample| {
        (sample.instruction, series.iter().map(|one| count(sample, &one.key)).collect())
    });
    let title = format!("L2 TLB contents: {}", scheme.name);
    let chart = Area { title: &title, series: series.to_vec(), samples: points.collect(), top };
    let mut head = vec![Heading::from("instruction")];
    head.extend(series.iter().map(|one| Heading::with_unit(&one.label, "entries")));
    let rows = samples.iter().map(|sample| {
        let mut row = vec![Cell::value(Some(sample.instruction), compact)];
        row.extend(
            series
                .iter()
                .map(|one| sample.entries.get(&one.key).map_or_else(Cell::missing, Cell::number)),
        );
        row
    });
    Figure {
        id: id.to_string(),
        name: format!("{} {title}", scheme.first().workload),
        title: scheme.name.to_string(),
        caption: String::new(),
        picture: chart.svg(),
        data: Grid { head, rows: rows.collect() },
    }
}

/// Pictures of the perforated pages of every scheme that has some.
pub(crate) fn holes(comparison: &Comparison<'_>, id: &str) -> String {
    let all: Vec<(&str, &Region)> = comparison
        .schemes
        .iter()
        .flat_map(|scheme| scheme.first().regions.iter().map(|region| (scheme.name, region)))
        .collect();
    if all.is_empty() {
        return String::new();
    }
    let pictures: String = all
        .iter()
        .take(MOST_PAGES)
        .enumerate()
        .map(|(index, (scheme, region))| {
            one_page(scheme, region, &format!("{id}-holes-{index}")).html()
        })
        .collect();
    let more = match all.len().saturating_sub(MOST_PAGES) {
        0 => String::new(),
        more => format!("<p class=\"lead\">{more} more pages are in the results file.</p>"),
    };
    format!(
        "<h2>Holes in perforated pages</h2>\
         <p class=\"lead\">Each square is 4KB of a 2MB page, from left to right and down. Each frame is one of the eight 256KB regions of the filter; it is strong where the filter bit is set.</p>\
         <p class=\"key\"><span><i class=\"dot f-in-place\"></i>in place</span><span><i class=\"dot f-hole\"></i>hole, allocated</span><span><i class=\"dot hollow\"></i>hole, unallocated</span></p>\
         <div class=\"figures pages\">{pictures}</div>{more}"
    )
}

fn one_page(scheme: &str, region: &Region, id: &str) -> Figure {
    let hole_count = (0..512).filter(|&index| region.is_hole(index)).count();
    let allocated = (0..512).filter(|&index| region.is_allocated_hole(index)).count();
    let unallocated = hole_count - allocated;
    let kind = if region.scheme_kind.is_empty() || region.scheme_kind == scheme {
        scheme.to_string()
    } else {
        format!("{scheme}, {}", region.scheme_kind)
    };
    let caption = format!(
        "{kind}: {hole_count} holes of 512 ({allocated} allocated, {unallocated} not), {} of 8 filter bits set",
        (region.filter & 0xff).count_ones()
    );
    let word = |words: &[u64], index: usize| {
        Cell::text(&format!("{:#018x}", words.get(index).copied().unwrap_or(0)))
    };
    let rows = (0..8).map(|index| {
        vec![
            Cell::text(&index.to_string()),
            Cell::text(if region.filter >> index & 1 == 1 { "1" } else { "0" }),
            word(&region.holes, index),
            word(&region.allocated, index),
        ]
    });
    let title = if region.page.is_empty() { "2MB page".to_string() } else { region.page.clone() };
    Figure {
        id: id.to_string(),
        name: format!("holes {scheme} {title}"),
        picture: draw_holes(region, &format!("Holes of {title}: {caption}")),
        title,
        caption,
        data: Grid {
            head: headings(["region", "filter bit", "holes", "allocated holes"]),
            rows: rows.collect(),
        },
    }
}
