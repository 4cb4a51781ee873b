//! Contents of the second-level TLB, by kind of entry.

use std::ops::AddAssign;

use perforate_types::{Counter, CounterUnit, Counters, Part, Prominence, spaced};

/// Number of entries of each kind in the second-level TLB (P Fig. 8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L2Contents {
    /// Number of entries that hold no translation.
    pub empty: u64,
    /// Number of entries of 4KB pages.
    pub page_4k: u64,
    /// Number of entries of ordinary 2MB pages.
    pub page_2m: u64,
    /// Number of entries of 1GB pages; 0 if the TLB cannot hold such pages.
    pub page_1g: u64,
    /// Number of entries of perforated pages.
    pub perforated: u64,
    /// Number of entries of holes in perforated pages, of 4KB each.
    pub hole: u64,
    /// Number of entries with 32 bits of a hole bitmap.
    pub bitmap: u64,
    /// Number of entries of runs of contiguous 4KB pages; 0 if the TLB does not coalesce.
    pub coalesced: u64,
    /// Number of entries of a guest's large pages over 4KB host pages (gVA→gPA, P §V).
    pub intermediate: u64,
    /// Number of entries of guest-physical addresses (gPA→hPA), of any kind.
    pub nested: u64,
}

/// A kind of entry: its name in results files, its label in charts, and the name of its colour.
type Kind = (&'static str, &'static str, &'static str);

/// All kinds, in the order in which charts stack them.
const KINDS: [Kind; 10] = [
    ("perforated", "perforated", "perforated"),
    ("page_1g", "1GB page", "page-1g"),
    ("page_2m", "2MB page", "page-2m"),
    ("page_4k", "4KB page", "page-4k"),
    ("coalesced", "run of 4KB pages", "coalesced"),
    ("hole", "hole (4KB)", "hole"),
    ("bitmap", "hole bitmap", "bitmap"),
    ("intermediate", "guest-virtual to guest-physical", "intermediate"),
    ("nested", "guest-physical", "nested-tlb"),
    ("empty", "empty", "empty"),
];

/// Name of the counter for second-level TLB entries of a kind.
fn counter_id(kind: &str) -> String {
    format!("l2_tlb_entries_{}", kind.strip_prefix("page_").unwrap_or(kind))
}

impl AddAssign for L2Contents {
    fn add_assign(&mut self, more: Self) {
        self.empty += more.empty;
        self.page_4k += more.page_4k;
        self.page_2m += more.page_2m;
        self.page_1g += more.page_1g;
        self.perforated += more.perforated;
        self.hole += more.hole;
        self.bitmap += more.bitmap;
        self.coalesced += more.coalesced;
        self.intermediate += more.intermediate;
        self.nested += more.nested;
    }
}

impl L2Contents {
    /// Names of all kinds with their numbers of entries, in the order of results files.
    pub fn by_kind(&self) -> [(&'static str, u64); 10] {
        [
            ("empty", self.empty),
            ("page_4k", self.page_4k),
            ("page_2m", self.page_2m),
            ("page_1g", self.page_1g),
            ("perforated", self.perforated),
            ("hole", self.hole),
            ("bitmap", self.bitmap),
            ("coalesced", self.coalesced),
            ("intermediate", self.intermediate),
            ("nested", self.nested),
        ]
    }

    /// Writes the mean number of entries of each kind over these samples to `out`; 0 without
    /// samples.
    pub fn record(samples: &[Self], out: &mut Counters) {
        for (place, (kind, _)) in Self::default().by_kind().into_iter().enumerate() {
            let entries: u64 = samples.iter().map(|sample| sample.by_kind()[place].1).sum();
            out.set(counter_id(kind), (entries, samples.len() as u64));
        }
    }

    /// Returns the descriptions of the counters, one for each kind of entry.
    pub(crate) fn counters() -> Vec<Counter> {
        let counter = |(key, label, colour): Kind| {
            let id = counter_id(key);
            Counter {
                label: spaced(&id).into(),
                unit: CounterUnit::Count,
                group: "L2 TLB, mean",
                meaning: format!("Entries, mean of samples: {label}.").into(),
                prominence: Prominence::Listed,
                part: Some(Part {
                    whole: "l2_tlb_contents",
                    key: key.into(),
                    label: label.into(),
                    colour: colour.into(),
                }),
                id: id.into(),
            }
        };
        KINDS.map(counter).into()
    }
}
