//! Sentences on the effect of a varied option: by how much it changes the first scheme, and the value from
//! which on it no longer matters.

use super::{Quantity, Row, Table};
use crate::answer::{Difference, difference};
use crate::format;

/// Share of a quantity's largest value, 0–1, up to which a change of the quantity does not count as an effect
/// of the option.
const MATTERS: f64 = 0.01;

/// Maximum number of other schemes that a sentence names.
const MOST_NAMED: usize = 4;

/// Returns the sentences on the varied options. For two options, there is a sentence for the first value of
/// the second option and one for its last value.
pub(super) fn sentences(table: &Table<'_>) -> Vec<String> {
    let Some(first) = table.rows.first() else { return Vec::new() };
    let last = table.rows.last().unwrap_or(first);
    let Some((from, to)) = first.varied.second.zip(last.varied.second) else {
        let course = SchemeCurve::of(table, |row| row.scheme == first.scheme);
        let sentence = course.sentence().map(|text| capital(&text, table.key));
        return sentence.into_iter().chain(others(table)).collect();
    };
    let mut ends = vec![from, to];
    ends.dedup();
    let of_end = |end| {
        let is_own = |row: &Row<'_>| row.scheme == first.scheme && row.varied.second == Some(end);
        let sentence = SchemeCurve::of(table, is_own).sentence()?;
        Some(format!("With {} {}: {sentence}", end.key, end.value))
    };
    ends.into_iter().filter_map(of_end).collect()
}

/// Capitalises the first letter of a sentence, unless the sentence begins with the option's name, `key`.
fn capital(text: &str, key: &str) -> String {
    match text.chars().next() {
        Some(first) if !text.starts_with(key) => {
            first.to_uppercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// Results of one scheme over the values of the first option. Numeric values are sorted.
struct SchemeCurve<'t, 'a> {
    key: &'a str,
    quantity: Quantity,
    /// Rows of the scheme, each with its value of the compared quantity.
    points: Vec<(&'t Row<'a>, f64)>,
    are_numbers: bool,
}

impl<'t, 'a> SchemeCurve<'t, 'a> {
    fn of(table: &'t Table<'a>, is_own: impl Fn(&Row<'a>) -> bool) -> Self {
        let rows = table.rows.iter().filter(|row| is_own(row));
        let mut points: Vec<(&Row<'a>, f64)> =
            rows.filter_map(|row| Some((row, row.spread?.median))).collect();
        let number = |row: &Row<'a>| row.varied.first.number;
        let are_numbers = points.iter().all(|(row, _)| number(row).is_some());
        if are_numbers {
            let key = |row: &Row<'a>| number(row).unwrap_or(0.0);
            points.sort_by(|(one, _), (other, _)| key(one).total_cmp(&key(other)));
        }
        Self { key: table.key, quantity: table.quantity, points, are_numbers }
    }

    /// Returns the rows with the smallest and the largest quantity.
    fn ends(&self) -> Option<[&(&'t Row<'a>, f64); 2]> {
        let by_value = |one: &&(&Row<'a>, f64), other: &&(&Row<'a>, f64)| one.1.total_cmp(&other.1);
        Some([self.points.iter().min_by(by_value)?, self.points.iter().max_by(by_value)?])
    }

    fn sentence(&self) -> Option<String> {
        let [least, most] = self.ends()?;
        let [first, last] = [self.points.first()?, self.points.last()?];
        if self.points.len() < 2 {
            return None;
        }
        let margin = MATTERS * most.1.abs();
        if most.1 - least.1 <= margin {
            let (key, what) = (self.key, self.quantity.of_scheme(first.0.scheme));
            let range = self.range(least.1, most.1);
            return Some(format!("no value of {key} changes {what} by 1 % or more ({range})."));
        }
        if !self.are_numbers || (last.1 - first.1).abs() <= margin {
            return Some(self.of_best_and_worst(least, most));
        }
        let (from, to) = (first.0.value(), last.0.value());
        let (key, scheme) = (self.key, first.0.scheme);
        let range = self.range(first.1, last.1);
        let over = last.0.over_first_value.filter(|over| over.half_width_95.is_some());
        if over.is_some_and(|over| difference(over) == Difference::None) {
            return Some(format!(
                "from {from} to {to}, {key} changes the speed of {scheme} by nothing that this run can \
                 show ({range})."
            ));
        }
        let change = self.quantity.change(scheme, first.1, last.1);
        let rest = self.end_of_effect(margin);
        Some(format!("from {from} to {to}, {key} {change} ({range}){rest}."))
    }

    /// Returns a sentence on the best and the worst value, for options whose values have no order or whose
    /// effect has no direction.
    fn of_best_and_worst(&self, least: &(&Row<'_>, f64), most: &(&Row<'_>, f64)) -> String {
        let what = self.quantity.of_scheme(least.0.scheme);
        let [low, high] = [least, most].map(|one| (format::ratio(one.1), one.0.value()));
        let (key, name) = (self.key, self.quantity.label);
        let change = percent(least.1, most.1);
        let change = change
            .map_or(String::new(), |text| format!(" by up to {}", text.trim_start_matches('+')));
        format!(
            "{key} changes {what}{change}: {name} {} with {}, {} with {}.",
            high.0, high.1, low.0, low.1
        )
    }

    /// Returns a clause on the value from which on the option changes the quantity by less than `margin`, or
    /// on the change from the last value but one to the last.
    fn end_of_effect(&self, margin: f64) -> String {
        let Some((last, before)) = self.points.split_last() else { return String::new() };
        let differs = |point: &(&Row<'_>, f64)| (point.1 - last.1).abs() >= margin;
        match (self.points.iter().rposition(differs), before) {
            (Some(index), _) if index + 1 < before.len() => {
                let value = self.points[index + 1].0.value();
                format!("; from {value} on, it changes by less than 1 %")
            }
            (Some(_), [_, .., previous]) => {
                let value = previous.0.value();
                let step = percent(previous.1, last.1);
                let step = step.map_or(String::new(), |step| format!(": {step} from {value}"));
                format!("; it still matters at {}{step}", last.0.value())
            }
            _ => String::new(),
        }
    }

    fn range(&self, from: f64, to: f64) -> String {
        let (from, to) = (format::ratio(from), format::ratio(to));
        match self.quantity.is_speed() {
            true => format!("{} {from} to {to}", self.quantity.label),
            false => format!("{from} to {to} {}", self.quantity.label),
        }
    }
}

impl Quantity {
    fn of_scheme(self, scheme: &str) -> String {
        match self.is_speed() {
            true => format!("the speed of {scheme}"),
            false => format!("the walks of {scheme}"),
        }
    }

    /// Returns the predicate of a sentence on `scheme`, whose compared quantity changes from `from` to `to`.
    fn change(self, scheme: &str, from: f64, to: f64) -> String {
        let Some(change) = percent(from, to) else {
            return format!("changes {}", self.of_scheme(scheme));
        };
        match (self.is_speed(), change.strip_prefix('+'), change.strip_prefix('−')) {
            (true, Some(more), _) => format!("makes {scheme} {more} faster"),
            (true, None, Some(less)) => format!("makes {scheme} {less} slower"),
            _ => format!("changes the walks of {scheme} by {change}"),
        }
    }
}

/// Writes a change in percent with its sign; `None` if `from` is 0.
fn percent(from: f64, to: f64) -> Option<String> {
    let change = (to / from - 1.0) * 100.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    (from != 0.0).then(|| format!("{sign}{:.1} %", change.abs()))
}

/// Returns a sentence on all schemes but the first: the changes of their compared quantity from the option's
/// first to its last value. `None` if no change is known.
fn others(table: &Table<'_>) -> Option<String> {
    let (first, last) = (table.rows.first()?, table.rows.last()?);
    if first.value() == last.value() {
        return None;
    }
    let column = table.columns().into_iter().find(|column| column.is_change)?;
    let is_other = |row: &&Row<'_>| {
        row.varied == last.varied && row.scheme != first.scheme && row.over_first_value.is_some()
    };
    let rows: Vec<_> = table.rows.iter().filter(is_other).collect();
    let changes: Vec<String> = rows
        .iter()
        .take(MOST_NAMED)
        .map(|row| format!("{} {}", row.scheme, column.cell(row)))
        .collect();
    let more = match rows.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        count => format!(", and {count} more in the table"),
    };
    (!changes.is_empty()).then(|| {
        let (from, to) = (first.value(), last.value());
        format!("The others from {from} to {to}: {}{more}.", changes.join(", "))
    })
}
