//! Labels that differ in one number only, such as "10 % holes" and "50 % holes". They are degrees of the same
//! property and get shades of one hue.

/// Minimum number of distinct numbers in a group of labels that differ only in one number.
const FEWEST: usize = 3;

/// Position of a label in a group of labels that differ only in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Degree {
    /// Index of the label's group.
    pub order: usize,
    /// Rank of the label's number in the group, from 0 for the smallest; `count` is the number of distinct
    /// numbers.
    pub place: usize,
    pub count: usize,
}

/// Returns, for each label in order, its position in its group; `None` for a label that belongs to no group.
pub(crate) fn degrees<'l>(labels: impl Iterator<Item = &'l str>) -> Vec<Option<Degree>> {
    let parsed: Vec<Option<(f64, String)>> = labels.map(number_and_rest).collect();
    let mut orders: Vec<&str> = Vec::new();
    for (_, rest) in parsed.iter().flatten() {
        let count = numbers(&parsed, rest).len();
        if count >= FEWEST && !orders.contains(&rest.as_str()) {
            orders.push(rest);
        }
    }
    let degree = |label: &Option<(f64, String)>| {
        let (number, rest) = label.as_ref()?;
        let order = orders.iter().position(|order| order == rest)?;
        let all = numbers(&parsed, rest);
        let place = all.iter().position(|other| other == number)?;
        Some(Degree { order, place, count: all.len() })
    };
    parsed.iter().map(degree).collect()
}

/// Returns the distinct numbers of labels whose other text is `rest`, in ascending order.
fn numbers(parsed: &[Option<(f64, String)>], rest: &str) -> Vec<f64> {
    let alike = parsed.iter().flatten().filter(|(_, other)| other == rest);
    let mut all: Vec<f64> = alike.map(|(number, _)| *number).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Splits a label into its first number (in bytes if it is a size) and the text around the number.
fn number_and_rest(label: &str) -> Option<(f64, String)> {
    let start = label.find(|letter: char| letter.is_ascii_digit())?;
    let (before, from) = label.split_at(start);
    let end = from.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (digits, after) = from.split_at(end.unwrap_or(from.len()));
    let number: f64 = digits.parse().ok()?;
    let units = [("KB", 1024.0), ("MB", 1024.0 * 1024.0), ("GB", 1024.0 * 1024.0 * 1024.0)];
    let size = units.iter().find_map(|(unit, factor)| Some((after.strip_prefix(unit)?, factor)));
    let (number, after) = match size {
        Some((after, factor)) => (number * factor, format!("B{after}")),
        None => (number, after.to_owned()),
    };
    Some((number, format!("{before}#{after}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_differ_in_a_number_are_in_order() {
        let degree = |order, place, count| Some(Degree { order, place, count });
        let labels = ["50 % holes", "10 % holes", "ideal", "25 % holes", "2MB + 4KB pages"];
        assert_eq!(
            degrees(labels.into_iter()),
            [degree(0, 2, 3), degree(0, 0, 3), None, degree(0, 1, 3), None]
        );
        let sizes = ["2MB", "64KB", "128KB", "4KB x", "8KB x"];
        assert_eq!(
            degrees(sizes.into_iter()),
            [degree(0, 2, 3), degree(0, 0, 3), degree(0, 1, 3), None, None]
        );
        assert_eq!(degrees(["", "a1", "1..2"].into_iter()), [None, None, None]);
        // Equal numbers are one degree, and do not make a group.
        let equal = ["8 ways", "16 ways", "8 ways"];
        assert_eq!(degrees(equal.into_iter()), [None, None, None]);
        let equal = ["1MB", "1024KB", "4MB", "2MB"];
        assert_eq!(
            degrees(equal.into_iter()),
            [degree(0, 0, 3), degree(0, 0, 3), degree(0, 2, 3), degree(0, 1, 3)]
        );
    }
}
