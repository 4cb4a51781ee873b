//! Options of policies, as lists show them.

/// An option of the policy, for lists.
pub struct PolicyOption {
    /// Its key.
    pub name: &'static str,
    /// Its values.
    pub values: &'static str,
    /// The value where none is given.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

pub(super) const fn option(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    help: &'static str,
) -> PolicyOption {
    PolicyOption { name, values, default, help }
}

/// A number with `K`, `M` or `G`, in bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let unit = |letter| text.strip_suffix(letter);
    let (number, shift) = match (unit('K'), unit('M'), unit('G')) {
        (Some(number), ..) => (number, 10),
        (_, Some(number), _) => (number, 20),
        (.., Some(number)) => (number, 30),
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
