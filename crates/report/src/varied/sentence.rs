//! Sentences on the effect of a varied option: the scheme that it changes most, by how much, and the value
//! from which on it no longer matters.

use super::{Quantity, Row, Table, ratio};
use crate::answer::{Difference, difference};
use crate::format;

/// Share of a quantity's largest value, 0–1, up to which a change of the quantity does not count as an effect
/// of the option.
const MATTERS: f64 = 0.01;

/// Maximum number of other schemes that a sentence names.
const MOST_NAMED: usize = 4;

/// Returns the sentences on the varied options. For one option: a sentence on the scheme that it changes most, and
/// one on the other schemes. For two options: a sentence for the first and one for the last value of the second.
pub(super) fn sentences(table: &Table<'_>) -> Vec<String> {
    let Some(first) = table.rows.first() else { return Vec::new() };
    let last = table.rows.last().unwrap_or(first);
    let Some((from, to)) = first.varied.second.zip(last.varied.second) else {
        let curves = Curves::of(table, |_| true);
        let sentence = curves.sentence().map(|text| capital(&text, table.key));
        return sentence.into_iter().chain(curves.others(table)).collect();
    };
    let mut ends = vec![from, to];
    ends.dedup();
    let of_end = |end| {
        let sentence = Curves::of(table, |row| row.varied.second == Some(end)).sentence()?;
        Some(format!("With {} {}: {sentence}", end.key, end.value))
    };
    ends.into_iter().filter_map(of_end).collect()
}

/// Curves of all schemes over the values of the first option.
struct Curves<'t, 'a> {
    all: Vec<SchemeCurve<'t, 'a>>,
    /// Index of the scheme that the option changes most. Bounds are not candidates, unless only they change.
    most_changed: usize,
    /// True if no other scheme changes by as large a share.
    is_alone: bool,
}

impl<'t, 'a> Curves<'t, 'a> {
    fn of(table: &'t Table<'a>, is_own: impl Fn(&Row<'a>) -> bool) -> Self {
        let of_scheme = |scheme| SchemeCurve::of(table, |row| row.scheme == scheme && is_own(row));
        let all: Vec<_> = table.schemes().into_iter().map(of_scheme).collect();
        let matters = |is_bound: bool| {
            all.iter().any(|curve| curve.is_of_bound() == is_bound && curve.matters())
        };
        let has_schemes = all.iter().any(|curve| !curve.is_of_bound());
        let are_bounds = !matters(false) && (matters(true) || !has_schemes);
        let effect = |index: &usize| all[*index].effect();
        // Of equal effects, the first one.
        let larger = |best, next| if effect(&next) > effect(&best) { next } else { best };
        let most_changed = (0..all.len())
            .filter(|&index| all[index].is_of_bound() == are_bounds)
            .reduce(larger)
            .unwrap_or(0);
        let change = |curve: &SchemeCurve<'_, '_>| curve.largest_change().unwrap_or(0.0);
        let is_less = |(index, curve)| {
            index == most_changed || change(curve) < change(&all[most_changed]) * (1.0 - ALIKE)
        };
        let is_alone = all.iter().enumerate().all(is_less);
        Self { all, most_changed, is_alone }
    }

    fn sentence(&self) -> Option<String> {
        let curve = self.all.get(self.most_changed)?;
        let is_rival = |(index, other): (usize, &SchemeCurve<'_, '_>)| {
            index != self.most_changed && other.points.len() > 1 && !other.is_of_bound()
        };
        let has_rivals = self.all.iter().enumerate().any(is_rival);
        curve.sentence(has_rivals, has_rivals && self.is_alone)
    }

    /// Returns a sentence on all schemes but the first sentence's: the changes of their compared quantity from
    /// the option's first to its last value. `None` if no scheme changes, or no change is known.
    fn others(&self, table: &Table<'a>) -> Option<String> {
        let subject = self.all.get(self.most_changed).filter(|curve| curve.matters())?;
        let (first, last) = (table.rows.first()?, table.rows.last()?);
        let column = table.columns().into_iter().find(|column| column.is_change)?;
        let others = self.all.iter().filter(|other| other.scheme != subject.scheme);
        let row_of = |curve: &SchemeCurve<'_, 'a>| {
            let is_own = |row: &&Row<'_>| {
                let is_known = row.over_first_value.is_some();
                row.varied == last.varied && row.scheme == curve.scheme && is_known
            };
            table.rows.iter().find(is_own)
        };
        // Runs that differ much by chance do not show that a change is small.
        let is_unsure = |curve: &SchemeCurve<'_, 'a>| {
            let half = row_of(curve).and_then(|row| row.over_first_value?.half_width_95);
            half.is_some_and(|half| half >= MATTERS)
        };
        let is_figure = |other: &&SchemeCurve<'_, 'a>| other.matters() || is_unsure(other);
        let (changed, same): (Vec<_>, Vec<_>) = others.partition(is_figure);
        let rows: Vec<&Row<'_>> = changed.into_iter().filter_map(row_of).collect();
        let same: Vec<&str> =
            same.iter().filter(|curve| curve.points.len() > 1).map(|curve| curve.scheme).collect();
        let changes: Vec<String> = rows
            .iter()
            .take(MOST_NAMED)
            .map(|row| format!("{} {}", row.scheme, column.cell(row)))
            .collect();
        let more = match rows.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            count => format!(", and {count} more in the table"),
        };
        let (from, to) = (first.value(), last.value());
        let changes = changes.join(", ") + &more;
        match (changes.is_empty(), same.is_empty()) {
            (true, true) => None,
            (true, false) => Some("It changes no other scheme by 1 % or more.".into()),
            (false, true) => Some(format!("The others from {from} to {to}: {changes}.")),
            (false, false) if same.len() > MOST_NAMED => Some(format!(
                "The others from {from} to {to}: {changes}; {} more schemes by less than 1 %.",
                same.len()
            )),
            (false, false) => Some(format!(
                "The others from {from} to {to}: {changes}; {} by less than 1 %.",
                same.join(", ")
            )),
        }
    }
}

/// Difference of two changes, as a share of the larger one, up to which neither is called the larger.
const ALIKE: f64 = 0.002;

/// Capitalises the first letter of a sentence, unless the sentence begins with the option's name, `key`.
fn capital(text: &str, key: &str) -> String {
    if text.starts_with(key) { text.to_owned() } else { format::capital(text) }
}

/// Results of one scheme over the values of the first option. Numeric values are sorted.
struct SchemeCurve<'t, 'a> {
    key: &'a str,
    scheme: &'a str,
    quantity: Quantity,
    /// Rows of the scheme, each with its value of the compared quantity.
    points: Vec<(&'t Row<'a>, f64)>,
    are_numbers: bool,
}

impl<'t, 'a> SchemeCurve<'t, 'a> {
    fn of(table: &'t Table<'a>, is_own: impl Fn(&Row<'a>) -> bool) -> Self {
        let rows: Vec<&Row<'a>> = table.rows.iter().filter(|row| is_own(row)).collect();
        let scheme = rows.first().map_or("", |row| row.scheme);
        let mut points: Vec<(&Row<'a>, f64)> =
            rows.into_iter().filter_map(|row| Some((row, row.spread?.median))).collect();
        let number = |row: &Row<'a>| row.varied.first.number;
        let are_numbers = points.iter().all(|(row, _)| number(row).is_some());
        if are_numbers {
            let key = |row: &Row<'a>| number(row).unwrap_or(0.0);
            points.sort_by(|(one, _), (other, _)| key(one).total_cmp(&key(other)));
        }
        Self { key: table.key, scheme, quantity: table.quantity, points, are_numbers }
    }

    fn is_of_bound(&self) -> bool {
        self.points.first().is_some_and(|(row, _)| row.runs.roles.is_bound())
    }

    /// Returns the rows with the smallest and the largest quantity.
    fn ends(&self) -> Option<[&(&'t Row<'a>, f64); 2]> {
        let by_value = |one: &&(&Row<'a>, f64), other: &&(&Row<'a>, f64)| one.1.total_cmp(&other.1);
        Some([self.points.iter().min_by(by_value)?, self.points.iter().max_by(by_value)?])
    }

    /// Returns the two rows that a sentence compares: those of the first and the last value, or of the
    /// smallest and the largest quantity if values have no order or their effect has no direction.
    fn compared(&self) -> Option<[&(&'t Row<'a>, f64); 2]> {
        if self.has_direction() {
            Some([self.points.first()?, self.points.last()?])
        } else {
            self.ends()
        }
    }

    /// Change of the quantity up to which it does not count as an effect of the option.
    fn margin(&self) -> f64 {
        self.ends().map_or(0.0, |[_, most]| MATTERS * most.1.abs())
    }

    /// True if the values are numbers and the quantity changes from the first to the last by 1 % or more.
    fn has_direction(&self) -> bool {
        let change = self.points.first().zip(self.points.last());
        let change = change.map(|(first, last)| (last.1 - first.1).abs());
        self.are_numbers && change.is_some_and(|change| change > self.margin())
    }

    /// True if the quantity changes by 1 % or more, and by more than chance would explain.
    fn matters(&self) -> bool {
        self.ends().is_some_and(|[least, most]| most.1 - least.1 > self.margin())
            && self.compared().is_some_and(|[from, to]| !self.is_chance(from.0, to.0))
    }

    /// True if the runs cannot show a difference between two rows.
    fn is_chance(&self, from: &Row<'a>, to: &Row<'a>) -> bool {
        let over = ratio(to.runs, from.runs, self.quantity);
        let over = over.filter(|over| over.half_width_95.is_some());
        over.is_some_and(|over| difference(over) == Difference::None)
    }

    /// Returns the largest difference between two values, as a share of the larger quantity; `None` if the
    /// quantity is 0 throughout.
    fn largest_change(&self) -> Option<f64> {
        self.ends().filter(|[_, most]| most.1 > 0.0).map(|[least, most]| 1.0 - least.1 / most.1)
    }

    /// Returns the size of the option's effect, by which schemes are ordered: a share for speeds, a difference
    /// for walks, since each walk costs time. Effects of less than 1 % and differences that the runs cannot
    /// show are below 1, all others above.
    fn effect(&self) -> f64 {
        let share = self.largest_change().unwrap_or(0.0);
        match self.ends() {
            _ if !self.matters() => share / (1.0 + share),
            Some([least, most]) if !self.quantity.is_speed() => 1.0 + most.1 - least.1,
            _ => 1.0 + share,
        }
    }

    /// Returns the sentence on the scheme. `has_rivals` says that there are other schemes which the option
    /// could change, `is_most` that it changes all of them less.
    fn sentence(&self, has_rivals: bool, is_most: bool) -> Option<String> {
        let [least, most] = self.ends()?;
        let [first, last] = [self.points.first()?, self.points.last()?];
        if self.points.len() < 2 {
            return None;
        }
        let (key, scheme) = (self.key, self.scheme);
        let margin = self.margin();
        if most.1 - least.1 <= margin {
            let range = self.range(least.1, most.1);
            if !has_rivals {
                let what = self.quantity.of_scheme(scheme);
                return Some(format!("no value of {key} changes {what} by 1 % or more ({range})."));
            }
            let what = self.quantity.of_scheme("any scheme");
            let change = self.change(least, most).filter(|_| most.1 > least.1);
            return Some(match change {
                None => format!("no value of {key} changes {what} at all."),
                Some(change) => format!(
                    "no value of {key} changes {what} by 1 % or more (at most {}, {scheme}: {range}).",
                    change.trim_start_matches('+')
                ),
            });
        }
        let [from, to] = self.compared()?;
        if self.is_chance(from.0, to.0) {
            let range = self.range(from.1, to.1);
            let whose = if has_rivals { "any scheme" } else { scheme };
            let example = if has_rivals { format!("{scheme}: {range}") } else { range };
            let (from, to) = (from.0.value(), to.0.value());
            let what = self.quantity.of_scheme(whose);
            return Some(format!(
                "from {from} to {to}, {key} changes {what} by nothing that this run can show ({example})."
            ));
        }
        if !self.has_direction() {
            return Some(self.of_best_and_worst(least, most, is_most));
        }
        let range = self.range(first.1, last.1);
        let change = self.predicate(first, last, is_most);
        let rest = self.end_of_effect(margin);
        let (from, to) = (first.0.value(), last.0.value());
        Some(format!("from {from} to {to}, {key} {change} ({range}){rest}."))
    }

    /// Returns a sentence on the best and the worst value, for options whose values have no order or whose
    /// effect has no direction.
    fn of_best_and_worst(
        &self,
        least: &(&Row<'a>, f64),
        most: &(&Row<'a>, f64),
        is_most: bool,
    ) -> String {
        let what = self.quantity.of_scheme(self.scheme);
        let [low, high] = [least, most].map(|one| (format::ratio(one.1), one.0.value()));
        let (key, name) = (self.key, self.quantity.label);
        let change = self.change(least, most);
        let change = change
            .map_or(String::new(), |text| format!(" by up to {}", text.trim_start_matches('+')));
        let most = match (is_most, change.is_empty()) {
            (true, true) => " most",
            (true, false) => " most,",
            (false, _) => "",
        };
        format!(
            "{key} changes {what}{most}{change}: {name} {} with {}, {} with {}.",
            high.0, high.1, low.0, low.1
        )
    }

    /// Writes the change between two points in percent with its interval, and a minus sign if it is a loss; `None`
    /// if the quantity is 0 at the first point.
    fn change(&self, from: &(&Row<'a>, f64), to: &(&Row<'a>, f64)) -> Option<String> {
        let change = percent(from.1, to.1)?;
        let half = ratio(to.0.runs, from.0.runs, self.quantity).and_then(|over| over.half_width_95);
        let Some(half) = half else { return Some(change) };
        let half = format::plus_minus(half * 100.0, 1);
        Some(change.replace(" %", &format!(" {half} %")))
    }

    /// Returns the predicate of a sentence on the change from one point to another.
    fn predicate(&self, from: &(&Row<'a>, f64), to: &(&Row<'a>, f64), is_most: bool) -> String {
        let scheme = self.scheme;
        let what = self.quantity.of_scheme(scheme);
        let Some(change) = self.change(from, to) else {
            return format!("changes {what}{}", if is_most { " most" } else { "" });
        };
        let size = change.trim_start_matches(['+', '−']);
        let way = if change.starts_with('+') { "faster" } else { "slower" };
        match (self.quantity.is_speed(), is_most) {
            (true, true) => format!("changes {what} most: {size} {way}"),
            (true, false) => format!("makes {scheme} {size} {way}"),
            (false, true) => format!("changes {what} most: {change}"),
            (false, false) => format!("changes {what} by {change}"),
        }
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
}

/// Writes a change in percent with its sign; `None` if `from` is 0.
fn percent(from: f64, to: f64) -> Option<String> {
    let change = (to / from - 1.0) * 100.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    (from != 0.0).then(|| format!("{sign}{:.1} %", change.abs()))
}
