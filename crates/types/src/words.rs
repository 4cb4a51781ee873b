//! Counts with their nouns, for messages to users.

use std::borrow::Cow;
use std::fmt::Display;

/// The noun that agrees with `count`: `process` for 1, `processes` for 2.
pub fn noun(count: u64, singular: &str) -> Cow<'_, str> {
    let is_hissing = ["s", "x", "ch", "sh"].iter().any(|end| singular.ends_with(end));
    match singular.strip_suffix('y') {
        _ if count == 1 => singular.into(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies").into(),
        _ if is_hissing => format!("{singular}es").into(),
        _ => format!("{singular}s").into(),
    }
}

/// A count with its noun: `1 thread`, `2 threads`.
pub fn counted(count: impl TryInto<u64> + Display + Copy, singular: &str) -> String {
    // A number that does not fit 64 bits is plural.
    format!("{count} {}", noun(count.try_into().unwrap_or(u64::MAX), singular))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_counts() {
        assert_eq!(counted(1_u64, "thread"), "1 thread");
        assert_eq!(counted(0_u64, "thread"), "0 threads");
        assert_eq!(counted(2_usize, "memory access"), "2 memory accesses");
        assert_eq!(counted(3_u32, "entry"), "3 entries");
        assert_eq!(counted(2_i32, "key"), "2 keys");
        assert_eq!(counted(5_u64, "branch"), "5 branches");
    }
}
