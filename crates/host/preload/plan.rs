//! Parser of the variable `PERFORATE_LAYOUT`, such as `brk=512:0-4:16-20;mmap=64:;report=/a/file`: the
//! size of each pool and its intervals of 2MB pages, in units of 2MB, and a file for the report.

use super::environment::number;

/// Bytes of a 2MB page.
pub const LARGE_BYTES: usize = 2 << 20;

/// Size and layout of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolPlan {
    /// Size of the pool in bytes, a multiple of 2MB.
    pub bytes: usize,
    /// Unparsed intervals, such as `0-4:16-20`, in units of 2MB.
    intervals: &'static [u8],
}

/// Parsed value of `PERFORATE_LAYOUT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Size and layout of malloc's pool (`brk`).
    pub heap: PoolPlan,
    /// Size and layout of the pool of anonymous mappings (`mmap`).
    pub mapped: PoolPlan,
    /// Path of the report file; empty for no report.
    pub report: &'static [u8],
}

/// Range of bytes in a pool that gets 2MB pages: start and end offset.
pub type Interval = (usize, usize);

impl PoolPlan {
    /// Intervals of 2MB pages, in ascending order. The memory between the intervals gets 4KB pages.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> + use<> {
        let bytes = |text: &[u8]| number(text)?.checked_mul(LARGE_BYTES);
        let parts = self.intervals.split(|byte| *byte == b':').filter(|part| !part.is_empty());
        parts.filter_map(move |part| {
            let dash = part.iter().position(|byte| *byte == b'-')?;
            Some((bytes(&part[..dash])?, bytes(&part[dash + 1..])?))
        })
    }
}

/// Parses the value of `PERFORATE_LAYOUT`. `None` if the text is malformed.
pub fn parse(text: &'static [u8]) -> Option<Plan> {
    let mut plan = Plan::default();
    for part in text.split(|byte| *byte == b';').filter(|part| !part.is_empty()) {
        let sign = part.iter().position(|byte| *byte == b'=')?;
        let (key, value) = (&part[..sign], &part[sign + 1..]);
        match key {
            b"brk" => plan.heap = pool(value)?,
            b"mmap" => plan.mapped = pool(value)?,
            b"report" => plan.report = value,
            _ => return None,
        }
    }
    Some(plan)
}

/// Parses the value of one pool: a size, and intervals in order that lie inside the pool.
fn pool(text: &'static [u8]) -> Option<PoolPlan> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    let bytes = number(&text[..colon])?.checked_mul(LARGE_BYTES)?;
    let pool = PoolPlan { bytes, intervals: &text[colon + 1..] };
    let mut last = 0;
    for (start, end) in pool.intervals() {
        if start < last || end <= start || end > bytes {
            return None;
        }
        last = end;
    }
    let wanted = pool.intervals.split(|byte| *byte == b':').filter(|part| !part.is_empty());
    (wanted.count() == pool.intervals().count()).then_some(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_parsed() {
        let plan = parse(b"brk=512:0-4:16-20;mmap=64:;report=/a/file").unwrap();
        assert_eq!(plan.heap.bytes, 1 << 30);
        let expected = [(0, 8 << 20), (32 << 20, 40 << 20)];
        assert!(plan.heap.intervals().eq(expected));
        assert_eq!((plan.mapped.bytes, plan.mapped.intervals().count()), (128 << 20, 0));
        assert_eq!(plan.report, b"/a/file");
        assert_eq!(parse(b""), Some(Plan::default()));
    }

    #[test]
    fn malformed_texts_are_rejected() {
        for wrong in [
            &b"brk"[..],
            b"heap=1:",
            b"brk=1",
            b"brk=x:",
            b"brk=4:0-5",
            b"brk=4:2-1",
            b"brk=4:0-2:1-3",
            b"brk=4:0",
            b"brk=4:0-x",
            b"brk=9999999999999:",
        ] {
            assert_eq!(parse(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
