//! Miss-ratio curves: a table for the terminal, and a page with a chart.

use maud::{Markup, html};
use perforate_records::{MissPoint, MissRatioRecord, PageSizeCurve};

use crate::chart::{Axis, Ground, Lines, Mark, Series};
use crate::format::{MISSING, compact, exact, page_size};
use crate::html::{Cell, Figure, Grid, Origin, Page, ReportOptions, figures, header, notes};
use crate::palette;
use crate::text::{Column, columns, wrapped};

/// Returns the curves as text, at most `width` characters wide: the answer, a table, notes.
pub fn curves_table(record: &MissRatioRecord, width: usize) -> String {
    let mut text = format!("{} · TLBs of {}\n\n", record.workload, record.machine);
    text += &wrapped("", &answer(record), width);
    text.push('\n');
    text += &wrapped("", &lead(record), width);
    text.push('\n');
    let (head, rows) = grid(record);
    let column = |(index, heading): (usize, &String)| {
        let cells = rows.iter().map(|row| row[index].clone()).collect();
        let is_last = index + 1 == head.len();
        if is_last { Column::texts(heading, cells) } else { Column::numbers(heading, cells) }
    };
    let all: Vec<Column> = head.iter().enumerate().map(column).collect();
    text += &columns(&all, width);
    text.push('\n');
    record.notes.iter().for_each(|note| text += &wrapped("note: ", note, width));
    text
}

/// Returns the curves as one self-contained HTML page that works offline.
///
/// Equal records and options give equal bytes. All text is escaped.
pub fn curves_html(record: &MissRatioRecord, options: &ReportOptions) -> String {
    let mut page = Page::default();
    let headline = html! {
        p.about { (record.workload) " · TLBs of " (record.machine) }
        p.headline { (answer(record)) }
    };
    let remarks: Vec<Markup> = record.notes.iter().map(|note| html! { (note) }).collect();
    let again = Origin::of_versions([record.version.as_str()]).section(options, &mut page);
    let chart = figures([figure(record)], &mut page);
    let (head, rows) = grid(record);
    let table = Grid {
        head: head.iter().map(|name| name.as_str().into()).collect(),
        rows: rows.iter().map(|row| row.iter().map(|cell| Cell::text(cell)).collect()).collect(),
    };
    let body = html! {
        (header("Miss-ratio curves", options, &headline, &again, &[]))
        section.comparison {
            (chart)
            h2 { "Misses by entries" }
            p.lead { (lead(record)) }
            (table.scrolling("Misses by entries", "main"))
            (notes(&remarks))
        }
    };
    page.write(options, &body)
}

/// Sentences that say how many entries each page size needs.
fn answer(record: &MissRatioRecord) -> String {
    let Some((smallest, larger)) = record.page_sizes.split_first() else { return String::new() };
    if record.accesses == 0 {
        return format!(
            "Too little to tell: no data accesses in {} instructions.",
            count(record.instructions)
        );
    }
    let reference = count(record.reference_entries);
    let most = most_misses(record, smallest, record.reference_entries);
    let misses = misses(record, most, record.reference_misses, record.reference_half_width_95);
    let Some(entries) = smallest.entries_for_share else {
        return format!(
            "No answer from this sample of pages: with {reference} entries for 4KB pages, {misses} % of the data \
             accesses miss, and it does not tell how many entries avoid that. A larger sample says more; --sample 1/1 \
             follows all pages."
        );
    };
    if record.reference_misses == 0 {
        return format!(
            "More entries save nothing: {reference} entries hold all 4KB pages until they are used again."
        );
    }
    let needed = |curve: &PageSizeCurve| {
        Some(format!("; {} pages {}", size(curve), count(curve.entries_for_share?.max(1))))
    };
    let estimates = match record.page_sizes.iter().any(|curve| curve.sampled_one_in > 1) {
        true => " Pages are a sample: numbers of entries are estimates.",
        false => "",
    };
    format!(
        "{} pages need {} entries to avoid {:.0} % of the misses that {reference} leave{}. Those misses \
         are {misses} % of the data accesses.{}{estimates}",
        size(smallest),
        count(entries.max(1)),
        record.share * 100.0,
        larger.iter().filter_map(needed).collect::<String>(),
        first_touches(record, smallest)
    )
}

/// Returns a sentence on first touches, if they are more than the misses that the answer is about.
fn first_touches(record: &MissRatioRecord, smallest: &PageSizeCurve) -> String {
    if smallest.first_touches <= record.reference_misses {
        return String::new();
    }
    let each = record.page_sizes.iter().map(|curve| {
        format!("{} % with {} pages", percent(record, curve.first_touches), size(curve))
    });
    let each: Vec<String> = each.collect();
    format!(
        " Most misses are first touches, which no number of entries avoids: {}.",
        each.join(", ")
    )
}

fn lead(record: &MissRatioRecord) -> String {
    format!(
        "Misses in percent of {} data accesses, in {} instructions. The TLB is fully associative, replaces \
         the least recently used entry, and holds pages of one size. First touches miss in any TLB, and are \
         apart.",
        compact(record.accesses as f64),
        compact(record.instructions as f64),
    )
}

fn size(curve: &PageSizeCurve) -> String {
    page_size(curve.page_bytes)
}

fn count(number: u64) -> String {
    exact(&number.into())
}

/// Returns a number of accesses in percent of all.
fn share(record: &MissRatioRecord, accesses: u64) -> f64 {
    100.0 * accesses as f64 / record.accesses.max(1) as f64
}

/// Formats a number of accesses as a percentage of all, with about three digits.
fn percent(record: &MissRatioRecord, accesses: u64) -> String {
    let value = share(record, accesses);
    let decimals = decimals(value);
    let least = 0.1_f64.powi(decimals as i32) / 2.0;
    match accesses {
        0 => "0".into(),
        _ if value < least => format!("<{:.decimals$}", 2.0 * least),
        _ => format!("{value:.decimals$}"),
    }
}

fn decimals(percent: f64) -> usize {
    match percent {
        value if value < 0.9995 => 3,
        value if value < 9.995 => 2,
        _ => 1,
    }
}

/// True if the 95 % interval of misses is wider than their number, which then says little.
fn is_wide(misses: u64, half_width_95: Option<u64>) -> bool {
    half_width_95.is_some_and(|half| 2 * half > misses)
}

/// Ends of the 95 % interval of misses, of which there are at most `most`.
fn interval(most: u64, misses: u64, half_width_95: u64) -> (u64, u64) {
    let high = misses.saturating_add(half_width_95).min(most.max(misses));
    (misses.saturating_sub(half_width_95), high)
}

/// Returns the largest possible number of misses with this many entries: no more than with fewer entries, as a
/// fully associative TLB holds what a smaller one holds.
fn most_misses(record: &MissRatioRecord, curve: &PageSizeCurve, entries: u64) -> u64 {
    let fewer = curve.points.iter().filter(|it| it.entries < entries);
    let highs = fewer.map(|point| point.misses.saturating_add(point.half_width_95.unwrap_or(0)));
    highs.fold(record.accesses, u64::min)
}

/// Formats a number of misses in percent of all accesses: with half of the 95 % interval, or as the two ends of the
/// interval if it is wider than the number. There are at most `most` misses.
fn misses(record: &MissRatioRecord, most: u64, misses: u64, half_width_95: Option<u64>) -> String {
    let text = percent(record, misses);
    match half_width_95 {
        None => text,
        Some(half) if is_wide(misses, half_width_95) => {
            let (low, high) = interval(most, misses, half);
            format!("{}–{}", percent(record, low), percent(record, high))
        }
        Some(0) if misses == 0 => text,
        Some(half) => {
            let decimals = decimals(share(record, misses));
            format!("{text} ±{:.decimals$}", share(record, half))
        }
    }
}

fn cell(record: &MissRatioRecord, curve: &PageSizeCurve, point: &MissPoint) -> String {
    let most = most_misses(record, curve, point.entries);
    misses(record, most, point.misses, point.half_width_95)
}

/// Headings and rows of the table: a row for each number of entries, then first touches.
fn grid(record: &MissRatioRecord) -> (Vec<String>, Vec<Vec<String>>) {
    let sizes = record.page_sizes.iter();
    let mut head = vec!["entries".to_owned()];
    head.extend(sizes.clone().map(size));
    head.push("machine".into());
    let points = record.page_sizes.first().map_or(0, |curve| curve.points.len());
    let mut rows: Vec<Vec<String>> = (0..points)
        .map(|index| {
            let entries = record.page_sizes[0].points[index].entries;
            let misses = sizes.clone().map(|curve| {
                curve.points.get(index).map_or(MISSING.into(), |point| cell(record, curve, point))
            });
            let mut row = vec![count(entries)];
            row.extend(misses);
            row.push(of_machine(record, entries));
            row
        })
        .collect();
    let mut first = vec!["first touches".to_owned()];
    first.extend(sizes.map(|curve| percent(record, curve.first_touches)));
    first.push(String::new());
    rows.push(first);
    (head, rows)
}

/// Names the TLBs of the machine with this many entries, such as “L2 4KB, 2MB”.
fn of_machine(record: &MissRatioRecord, entries: u64) -> String {
    let at_level = |level: &str, own: fn(&PageSizeCurve) -> u64| {
        let sizes = record.page_sizes.iter().filter(|curve| own(curve) == entries);
        let sizes: Vec<String> = sizes.map(size).collect();
        (!sizes.is_empty()).then(|| format!("{level} {}", sizes.join(", ")))
    };
    let first = at_level("L1", |curve| curve.machine_l1_entries);
    let second = at_level("L2", |curve| curve.machine_l2_entries);
    first.into_iter().chain(second).collect::<Vec<_>>().join("; ")
}

/// Chart of all curves, from four entries: fewer miss so often that other differences would be small.
fn figure(record: &MissRatioRecord) -> Figure {
    let share = |accesses: u64| share(record, accesses);
    let mut points: Vec<(&PageSizeCurve, &MissPoint)> = Vec::new();
    for curve in &record.page_sizes {
        points.extend(curve.points.iter().filter(|it| it.entries >= 4).map(|point| (curve, point)));
    }
    let mark = |(curve, point): &(&PageSizeCurve, &MissPoint)| {
        let most = most_misses(record, curve, point.entries);
        let ends = point.half_width_95.map(|half| interval(most, point.misses, half));
        let machine = of_machine(record, point.entries);
        let machine = if machine.is_empty() { machine } else { format!(" ({machine})") };
        Mark {
            x: Some(point.entries as f64),
            series: size(curve),
            value: Some(share(point.misses)),
            low: ends.map(|(low, _)| share(low)),
            high: ends.map(|(_, high)| share(high)),
            text: format!("{} %{machine}", cell(record, curve, point)),
            ..Mark::default()
        }
    };
    let series = |(number, curve): (usize, &PageSizeCurve)| Series {
        label: size(curve),
        colour: palette::series(number),
        number,
        ..Series::default()
    };
    let most = points.iter().map(|(_, point)| share(point.misses)).fold(0.0, f64::max);
    let machine = record.page_sizes.iter().map(|curve| {
        let entries = |own: u64| if own == 0 { "none".into() } else { count(own) };
        let (first, second) =
            (entries(curve.machine_l1_entries), entries(curve.machine_l2_entries));
        format!("{} {first} and {second}", size(curve))
    });
    let chart = Lines {
        series: record.page_sizes.iter().enumerate().map(series).collect(),
        marks: points.iter().map(mark).collect(),
        ground: Ground::of_numbers(points.iter().map(|(_, point)| point.entries as f64).collect()),
        axis: Axis { label: "entries", suffix: "" },
        value: Axis { label: "misses", suffix: " %" },
        range: (0.0, if most > 0.0 { most } else { 1.0 }),
    };
    Figure {
        id: "curves".into(),
        name: format!("{} miss-ratio curves", record.workload),
        title: "Misses against entries".into(),
        caption: format!(
            "Percent of data accesses, first touches apart. Entries of {} in the first and second level: {}.",
            record.machine,
            machine.collect::<Vec<_>>().join("; ")
        ),
        chart: chart.spec(),
        data: Grid::of(
            &points,
            [
                ("page size".into(), &|(curve, _)| Cell::text(&size(curve))),
                ("entries".into(), &|(_, point)| Cell::count(point.entries)),
                ("misses".into(), &|(_, point)| Cell::count(point.misses)),
                ("± of 95 %".into(), &|(_, point)| {
                    point.half_width_95.map_or_else(Cell::missing, Cell::count)
                }),
            ],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 entries leave 400 misses, so that 256 entries cannot leave 700, whatever their sample says.
    #[test]
    fn more_entries_miss_no_more() {
        let point = |entries, misses, half_width_95| MissPoint { entries, misses, half_width_95 };
        let points = vec![point(64, 600, None), point(128, 400, None), point(256, 350, Some(350))];
        let curve = PageSizeCurve { points, ..PageSizeCurve::default() };
        let record = MissRatioRecord { accesses: 1000, ..MissRatioRecord::default() };
        let most = |entries| most_misses(&record, &curve, entries);
        assert_eq!([64, 128, 129, 512].map(most), [1000, 600, 400, 400]);
        assert_eq!(cell(&record, &curve, &curve.points[2]), "0–40.0");
        assert_eq!(interval(300, 350, 10), (340, 350), "a sample above what is possible stays");
    }

    #[test]
    fn shares_are_written_shortly() {
        let record = MissRatioRecord { accesses: 1_000_000, ..MissRatioRecord::default() };
        let text = |accesses| percent(&record, accesses);
        assert_eq!(
            [0, 4, 6, 9_994, 9_996, 99_940, 99_960, 1_000_000].map(text),
            ["0", "<0.001", "0.001", "0.999", "1.00", "9.99", "10.0", "100.0"]
        );
        assert!(
            is_wide(9, Some(5))
                && !is_wide(10, Some(5))
                && !is_wide(0, Some(0))
                && !is_wide(0, None)
        );
        let empty = MissRatioRecord::default();
        assert_eq!(percent(&empty, 0), "0");
    }
}
