//! Advice as an HTML page: address map, gain over memory, before and after, what to do, risks.

use maud::{Markup, html};
use perforate_records::{AdviceArea, AdvicePiece, AdvicePoint, AdviceRecord, AdviceRun};

use super::{
    SizedArea, area_name, measured, planned_pages, ranking, run_name, sentence, sized_areas,
    thousandths,
};
use crate::chart::{AddressMap, Axis, Bars, Ground, Lines, MapCell, Mark, Series, broken};
use crate::format::{bytes, compact, page_size, percent};
use crate::html::{
    Cell, Figure, Grid, Heading, Origin, Page, ReportOptions, figures, header, notes,
};

/// Largest number of areas on the address map and in the open table.
const MOST_AREAS: usize = 12;
/// Largest number of cells of one area on the address map. More would be narrower than a pixel.
const MOST_CELLS: usize = 200;

/// Largest number of points of the drawn curve. More points would have no shapes.
const MOST_POINTS: usize = 25;

/// Returns the advice as one self-contained HTML page that works offline.
///
/// Equal records and options give equal bytes. All text is escaped.
pub fn advice_html(record: &AdviceRecord, options: &ReportOptions) -> String {
    let mut page = Page::default();
    let cautions = sentence::cautions(record);
    let headline = html! {
        p.about { (record.workload) @if !record.machine.is_empty() { " on " (record.machine) } }
        p.headline { (sentence::verdict(record)) }
        @if !cautions.is_empty() { p.answer { (cautions) } }
        p.answer { (sentence::setting(record)) " " (sentence::evidence(record)) }
    };
    let sections: [(&str, &str, Markup); 7] = [
        ("ranking", "Memory by rank", ranking::page(record)),
        ("areas", "Memory by area", areas(record, &mut page)),
        ("gain", "Gain over memory", gain(record, &mut page)),
        ("before-after", "Before and after", runs(record, &mut page)),
        ("measured", "Measured", measured::page(record)),
        ("what-to-do", "What to do", steps(record)),
        ("risks", "Risks", risks(record)),
    ];
    let shown = sections.iter().filter(|(_, _, content)| !content.0.is_empty());
    let links: Vec<(String, String)> =
        shown.clone().map(|(id, title, _)| ((*id).to_owned(), (*title).to_owned())).collect();
    let remarks: Vec<Markup> = record.notes.iter().map(|note| html! { (note) }).collect();
    let again = Origin::of_versions([record.version.as_str()]).section(options, &mut page);
    let body = html! {
        (header("Advice on large pages", options, &headline, &again, &links))
        section.comparison {
            @for (id, title, content) in shown {
                h2 id=(id) { (title) }
                (content)
            }
            (notes(&remarks))
        }
    };
    page.write(options, &body)
}

fn areas(record: &AdviceRecord, page: &mut Page) -> Markup {
    if record.areas.is_empty() {
        return html! {};
    }
    let (main, others) = record.areas.split_at(record.areas.len().min(MOST_AREAS));
    let others = (!others.is_empty()).then(|| {
        let summary = html! { (others.len()) " more areas, with fewer page walks" };
        page.part(
            "other-areas",
            &summary,
            table_of(others, record).scrolling("Other areas", "main"),
        )
    });
    html! {
        p.lead {
            "Page walks with 4KB pages by the memory that they are for, first touches of pages left out; how much \
             of the touched 2MB blocks is in use; what " (planned_pages(record)) " cost and save, if all of \
             them can be had."
        }
        (figures(map(record), page))
        (table_of(main, record).scrolling("Memory by area", "main"))
        (sizes(record))
        @if let Some(others) = others { (others) }
    }
}

/// Returns the table of page sizes by area; empty if no area has a choice of sizes.
fn sizes(record: &AdviceRecord) -> Markup {
    let shown = sized_areas(record, MOST_AREAS);
    if shown.is_empty() {
        return html! {};
    }
    let amount = |bytes_of: u64| Cell::value((bytes_of > 0).then_some(bytes_of as f64), bytes);
    let table = Grid::of(
        &shown,
        [
            ("area".into(), &|it: &&SizedArea<'_>| Cell::text(&it.name(record))),
            ("pages".into(), &|it| Cell::text(&page_size(it.size.page_bytes))),
            ("walks saved".into(), &|it| Cell::value(Some(it.size.saved_share), percent)),
            (Heading::bytes("memory more"), &|it| Cell::bytes(it.size.additional_bytes as f64)),
            ("saved per MB".into(), &|it| Cell::value(it.saved_per_mb(), percent)),
            (Heading::bytes("advised"), &|it| amount(it.size.advised_bytes)),
        ],
    );
    html! {
        h3 { "Page sizes by area" }
        p.lead {
            "Each size is simulated for all of one area, with 2MB pages elsewhere, if all of them can be had: page walks \
             saved of all (of other memory, too, which gets room in the TLB), the \
             memory that it takes more, and for how much of the area it is recommended."
        }
        (table.scrolling("Page sizes by area", "main"))
    }
}

fn table_of(areas: &[AdviceArea], record: &AdviceRecord) -> Grid {
    Grid::of(
        areas,
        [
            ("area".into(), &|area| Cell::text(&area_name(area, record))),
            (Heading::bytes("size"), &|area| Cell::bytes(area.bytes as f64)),
            ("page walks".into(), &|area| Cell::value(Some(area.walk_share), percent)),
            ("in use of 2MB".into(), &|area| Cell::value(area.density, percent)),
            (Heading::bytes("advised"), &|area| Cell::bytes(area.advised_bytes as f64)),
            (Heading::bytes("memory more"), &|area| Cell::bytes(area.additional_bytes as f64)),
            ("walks saved".into(), &|area| Cell::value(Some(area.saved_share), percent)),
            ("copies after fork".into(), &|area| Cell::count(area.pages_copied)),
        ],
    )
}

/// Returns the address map; `None` without parts of areas.
fn map(record: &AdviceRecord) -> Option<Figure> {
    let areas = record.areas.iter().enumerate().take(MOST_AREAS);
    let mut names = Vec::new();
    let mut cells = Vec::new();
    for (index, area) in areas {
        let pieces: Vec<&AdvicePiece> =
            record.pieces.iter().filter(|piece| piece.area == index).collect();
        if pieces.is_empty() {
            continue;
        }
        let name = broken(&area_name(area, record));
        let merged = pieces.chunks(pieces.len().div_ceil(MOST_CELLS));
        cells.extend(merged.map(|pieces| cell(&name, pieces, area.bytes)));
        names.push(name);
    }
    let data = Grid::of(
        &record.pieces,
        [
            ("area".into(), &|piece: &&AdvicePiece| {
                Cell::text(
                    &record.areas.get(piece.area).map_or("".into(), |area| area_name(area, record)),
                )
            }),
            (Heading::bytes("offset"), &|piece| Cell::bytes(piece.offset as f64)),
            (Heading::bytes("size"), &|piece| Cell::bytes(piece.bytes as f64)),
            ("page walks".into(), &|piece| Cell::value(Some(piece.walk_share), percent)),
            ("in use of 2MB".into(), &|piece| Cell::value(piece.density, percent)),
            (Heading::bytes("pages"), &|piece| Cell::bytes(piece.page_bytes as f64)),
        ],
    );
    (!cells.is_empty()).then(|| Figure {
        id: "address-map".into(),
        name: format!("{} address map", record.workload),
        title: "Address map".into(),
        caption: "Each row is an area, from its first byte to its last. Above: page walks, the darker the more. \
                  Below: how much of the touched 2MB blocks is in use, the darker the less. A line marks \
                  memory for which large pages are recommended."
            .into(),
        chart: AddressMap { areas: &names, cells }.spec(),
        data,
    })
}

/// Makes one cell of the address map from neighbouring pieces of an area of this size.
fn cell(area: &str, pieces: &[&AdvicePiece], area_bytes: u64) -> MapCell {
    let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
    let end = last.offset + last.bytes;
    let known: Vec<f64> = pieces.iter().filter_map(|piece| piece.density).collect();
    let place = |offset: u64| offset as f64 / area_bytes.max(1) as f64;
    MapCell {
        area: area.to_owned(),
        start: place(first.offset),
        end: place(end),
        walk_share: pieces.iter().map(|piece| piece.walk_share).sum(),
        density: (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64),
        is_advised: pieces.iter().any(|piece| piece.page_bytes > 4096),
        text: format!(
            "{} at {}",
            bytes(end.saturating_sub(first.offset) as f64),
            bytes(first.offset as f64)
        ),
    }
}

fn gain(record: &AdviceRecord, page: &mut Page) -> Markup {
    if record.curve.len() < 2 {
        return html! {};
    }
    const MB: f64 = 1_048_576.0;
    let has_price = record.curve.iter().any(|point| point.additional_bytes as f64 >= MB);
    let (over, memory, price): (_, fn(&AdvicePoint) -> u64, _) = match has_price {
        true => ("additional memory", |point| point.additional_bytes, ""),
        false => (
            "memory with large pages",
            |point| point.advised_bytes,
            " All of them cost less than 1 MB more.",
        ),
    };
    let mark = |point: &AdvicePoint, series: &str| Mark {
        x: Some(memory(point) as f64 / MB),
        series: series.to_owned(),
        value: Some(point.saved_share * 100.0),
        text: percent(point.saved_share),
        ..Mark::default()
    };
    const ALL: &str = "best parts first";
    const CHOSEN: &str = "recommended";
    let step = record.curve.len().div_ceil(MOST_POINTS).max(1);
    let is_drawn =
        |(place, _): &(usize, &AdvicePoint)| place % step == 0 || place + 1 == record.curve.len();
    let drawn = record.curve.iter().enumerate().filter(is_drawn);
    let marks = drawn.map(|(_, point)| mark(point, ALL));
    let recommends = record.verdict.recommends();
    let recommended = record.curve.iter().filter(|point| point.is_recommended && recommends);
    let chosen: Vec<Mark> = recommended.map(|point| mark(point, CHOSEN)).collect();
    let mut shown = vec![(ALL, "series0")];
    shown.extend((!chosen.is_empty()).then_some((CHOSEN, "series1")));
    let marks: Vec<Mark> = marks.chain(chosen).collect();
    let places: Vec<f64> = marks.iter().filter_map(|mark| mark.x).collect();
    let most = places.iter().copied().fold(0.0, f64::max);
    let series = |(number, (label, colour)): (usize, (&str, &'static str))| Series {
        key: label.into(),
        label: label.into(),
        colour,
        number,
        round: 0,
    };
    let chart = Lines {
        series: shown.into_iter().enumerate().map(series).collect(),
        ground: Ground::Numbers { least: 0.0, most },
        axis: Axis { label: over, suffix: "MB" },
        value: Axis { label: "page walks saved", suffix: "%" },
        range: (0.0, 100.0),
        marks,
    };
    let data = Grid::of(
        &record.curve,
        [
            (Heading::bytes("additional memory"), &|point| {
                Cell::bytes(point.additional_bytes as f64)
            }),
            (Heading::bytes("large pages for"), &|point| Cell::bytes(point.advised_bytes as f64)),
            ("page walks saved".into(), &|point| Cell::value(Some(point.saved_share), percent)),
        ],
    );
    let figure = Figure {
        id: "gain-curve".into(),
        name: format!("{} gain over memory", record.workload),
        title: format!("Page walks saved over {over}"),
        caption: format!(
            "Parts of memory get large pages one after the other, the most walks saved for each megabyte first.{price}"
        ),
        chart: chart.spec(),
        data,
    };
    figures([figure], page)
}

fn runs(record: &AdviceRecord, page: &mut Page) -> Markup {
    let timed: Vec<&AdviceRun> = record.runs.iter().filter(|run| run.speed.is_some()).collect();
    if timed.is_empty() {
        return html! {};
    }
    let chart = Bars {
        series: vec![Series {
            key: "speed".into(),
            label: "speed".into(),
            colour: "series0",
            ..Series::default()
        }],
        places: timed.iter().map(|run| run_name(run, record)).collect(),
        marks: timed.iter().map(|run| speed_mark(run, record)).collect(),
        value: Axis { label: "speed over as it is", suffix: "×" },
        place: "pages",
        reference: Some(1.0),
        ..Bars::default()
    };
    let data = Grid::of(
        &record.runs,
        [
            ("pages".into(), &|run: &&AdviceRun| Cell::text(&run_name(run, record))),
            ("speed over as it is".into(), &|run| {
                Cell::value(run.speed.map(|speed| speed.speed), thousandths)
            }),
            ("with the kernel's work".into(), &|run| {
                Cell::value(run.speed_with_kernel, thousandths)
            }),
            ("cycles".into(), &|run| Cell::value(Some(run.cycles), compact)),
            ("page walks".into(), &|run| Cell::value(Some(run.walks), compact)),
            ("large pages, peak".into(), &|run| Cell::value(Some(run.large_pages), compact)),
            (Heading::bytes("memory"), &|run| Cell::bytes(run.mapped_bytes)),
            ("simulated as".into(), &|run| Cell::text(&run.schemes.join(", "))),
        ],
    );
    let table = data.scrolling("Simulated runs", "main");
    let figure = Figure {
        id: "speeds".into(),
        name: format!("{} before and after", record.workload),
        title: "Speed, relative to the program as it is".into(),
        caption: "Whiskers: the error of the prediction and of sampling.".into(),
        chart: chart.spec(),
        data,
    };
    html! { (figures([figure], page)) (table) p.lead { (sentence::meaning_of_speeds(record)) } }
}

/// Bar of a run's speed, with a whisker unless the speed is exact.
fn speed_mark(run: &AdviceRun, record: &AdviceRecord) -> Mark {
    let range = run.speed.filter(|speed| !speed.is_exact());
    let speed = run.speed.map(|speed| speed.speed);
    Mark {
        place: run_name(run, record),
        series: "speed".into(),
        value: speed,
        low: range.map(|speed| speed.low),
        high: range.map(|speed| speed.high),
        text: speed.map(thousandths).unwrap_or_default(),
        interval: range.map(|speed| sentence::range(speed, 3)).unwrap_or_default(),
        ..Mark::default()
    }
}

fn steps(record: &AdviceRecord) -> Markup {
    html! {
        @if !record.steps.is_empty() {
            p.lead { "Nothing has been done. Each line is for you to write, where you want it." }
            @for step in &record.steps {
                h3 { (step.title) }
                p { (step.effect) }
                div.command { pre tabindex="0" { (step.lines.join("\n")) } }
                p.remark { "Source: " (step.source) "." }
            }
        }
    }
}

fn risks(record: &AdviceRecord) -> Markup {
    html! {
        @if !record.risks.is_empty() {
            ul { @for risk in &record.risks { li { strong { (risk.title) } ": " (risk.evidence) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_records::SpeedRecord;

    use super::*;

    #[test]
    fn speeds_without_an_error_have_no_whisker() {
        let mark = |speed| {
            speed_mark(
                &AdviceRun { speed: Some(speed), ..AdviceRun::default() },
                &AdviceRecord::default(),
            )
        };
        let same = mark(SpeedRecord::SAME);
        assert_eq!((same.value, same.low, same.high), (Some(1.0), None, None));
        assert_eq!((same.text.as_str(), same.interval.as_str()), ("1.000×", ""));
        let other =
            mark(SpeedRecord { speed: 1.25, sampling_half_width: 0.0, low: 1.17, high: 1.34 });
        assert_eq!((other.low, other.high), (Some(1.17), Some(1.34)));
        assert_eq!(other.interval, "1.170 to 1.340");
    }
}
