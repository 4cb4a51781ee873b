//! Charts of second-level TLB contents over time, and pictures of holes in perforated pages.

use maud::{Markup, html};
use perforate_records::Region;
use perforate_types::counted;

use super::stacks::{entries, kinds_of_entries};
use crate::chart::{Areas, Axis, Sample, Series, changes, furthest, holes as draw_holes};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::compact;
use crate::html::{Cell, Figure, Grid, Heading, Page, dot, linked, places};

/// Maximum number of perforated pages that are drawn in a comparison, because more would look alike.
const MOST_PAGES: usize = 12;

/// A quantity over time, such as TLB contents, that the page shows as one stacked-area chart per scheme. All
/// charts share their axes.
pub(super) struct OverTime<'a> {
    pub key: &'a str,
    pub name: &'a str,
    pub series: &'a [Series],
    pub unit: &'a str,
    /// Function that returns the samples of a scheme.
    pub samples: &'a dyn Fn(&SchemeRuns<'_>) -> Vec<Sample>,
    /// Function that returns the data table below a scheme's chart.
    pub data: &'a dyn Fn(&SchemeRuns<'_>) -> Grid,
}

impl OverTime<'_> {
    /// Returns charts for the schemes whose samples change during the run.
    pub fn figures(&self, schemes: &[&SchemeRuns<'_>], id: &str) -> Vec<Figure> {
        let samples: Vec<Vec<Sample>> =
            schemes.iter().map(|scheme| (self.samples)(scheme)).collect();
        let top = furthest(samples.iter().flatten());
        let schemes = schemes.iter().zip(samples).enumerate();
        let changing = schemes.filter(|(_, (_, samples))| changes(samples, top.1));
        let figure = |(index, (scheme, samples)): (usize, (&&SchemeRuns<'_>, Vec<Sample>))| {
            let value = Axis { label: self.unit, suffix: "" };
            Figure {
                id: format!("{id}-{}-{index}", self.key),
                name: format!("{} {}: {}", scheme.first().workload, self.name, scheme.name),
                title: scheme.name.to_string(),
                caption: String::new(),
                chart: Areas { series: self.series, samples, top, value }.spec(),
                data: (self.data)(scheme),
            }
        };
        changing.map(figure).collect()
    }
}

/// Returns a chart for each scheme whose second-level TLB contents change during the run.
pub(super) fn contents(comparison: &Comparison<'_>, id: &str, page: &mut Page) -> Markup {
    let series = kinds_of_entries(comparison);
    let head = |one: &Series| Heading::with_unit(&one.label, "entries");
    let charts = OverTime {
        key: "l2-tlb",
        name: "L2 TLB contents",
        series: &series,
        unit: "entries",
        samples: &|scheme| {
            let samples = scheme.first().series.l2_tlb_contents.iter();
            let values = |sample| series.iter().map(|one| entries(sample, &one.key)).collect();
            samples.map(|sample| (sample.instruction as f64, values(sample))).collect()
        },
        data: &|scheme| {
            let rows = scheme.first().series.l2_tlb_contents.iter().map(|sample| {
                let cell = |one: &Series| {
                    sample.entries.get(&one.key).map_or_else(Cell::missing, Cell::count)
                };
                let place = Cell::value(Some(sample.instruction as f64), compact);
                std::iter::once(place).chain(series.iter().map(cell)).collect()
            });
            let head = std::iter::once("instruction".into()).chain(series.iter().map(head));
            Grid { head: head.collect(), rows: rows.collect() }
        },
    };
    let drawn = charts.figures(&comparison.schemes.iter().collect::<Vec<_>>(), id);
    if drawn.is_empty() {
        return html! {};
    }
    let steady = match comparison.schemes.len() - drawn.len() {
        0 => "",
        _ => " Schemes whose contents hardly change are left out.",
    };
    html! {
        h2 { "What the L2 TLB holds over time" }
        p.lead {
            "Entries by kind while the program runs"
            @if comparison.seeds() > 1 { "; the first seed of each scheme" } "." (steady)
        }
        (linked(drawn, page))
    }
}

/// Returns pictures of perforated pages for every scheme that has some.
pub(super) fn holes(comparison: &Comparison<'_>, id: &str, page: &mut Page) -> Markup {
    let regions = comparison
        .schemes
        .iter()
        .flat_map(|scheme| scheme.first().regions.iter().map(|region| (scheme.name, region)));
    let all: Vec<(&str, &Region)> = regions.collect();
    if all.is_empty() {
        return html! {};
    }
    let figure = |(index, (scheme, region)): (usize, &(&str, &Region))| {
        one_page(scheme, region, format!("{id}-holes-{index}"))
    };
    let drawn = places(all.iter().take(MOST_PAGES).enumerate().map(figure), page);
    html! {
        h2 { "Holes in perforated pages" }
        p.lead { "Each square is 4KB of a 2MB page, from left to right and down. Each frame is one of the eight 256KB regions of the filter; it is strong where the filter bit is set." }
        p.key {
            span { (dot("in-place")) "in place" }
            span { (dot("hole")) "hole, allocated" }
            span { i.dot.hollow {} "hole, unallocated" }
        }
        div.figures.pages { (drawn) }
        @if all.len() > MOST_PAGES {
            p.lead { (all.len() - MOST_PAGES) " more pages are in the results file." }
        }
    }
}

fn one_page(scheme: &str, region: &Region, id: String) -> Figure {
    let hole_count = (0..512).filter(|&index| region.is_hole(index)).count();
    let allocated = (0..512).filter(|&index| region.is_allocated_hole(index)).count();
    let kind = match region.scheme_kind.as_str() {
        kind if kind.is_empty() || kind == scheme => scheme.to_string(),
        kind => format!("{scheme}, {kind}"),
    };
    let caption = format!(
        "{kind}: {} of 512 sub-pages ({allocated} allocated, {} not), {} of 8 filter bits set",
        counted(hole_count, "hole"),
        hole_count - allocated,
        (region.filter & 0xff).count_ones()
    );
    let word = |words: &[u64], index: usize| {
        Cell::text(&format!("{:#018x}", words.get(index).copied().unwrap_or(0)))
    };
    let data = Grid::of(
        0..8,
        [
            ("region".into(), &|index| Cell::text(&index.to_string())),
            ("filter bit".into(), &|index| Cell::text(&(region.filter >> index & 1).to_string())),
            ("holes".into(), &|index| word(&region.holes, *index)),
            ("allocated holes".into(), &|index| word(&region.allocated, *index)),
        ],
    );
    let title = if region.page.is_empty() { "2MB page".to_string() } else { region.page.clone() };
    Figure {
        id,
        name: format!("holes {scheme} {title}"),
        chart: draw_holes(region),
        title,
        caption,
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caption_counts_holes_with_and_without_a_frame() {
        let (holes, allocated) = (vec![0b111, 1 << 63], vec![0b001]);
        let region = Region { filter: 3, holes, allocated, ..Region::default() };
        let caption = one_page("perforated", &region, "id".into()).caption;
        assert_eq!(
            caption,
            "perforated: 4 holes of 512 sub-pages (1 allocated, 3 not), 2 of 8 filter bits set"
        );
    }
}
