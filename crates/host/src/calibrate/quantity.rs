//! Measured quantities, and the resulting values in the machine file.

use serde::Serialize;

use super::derive::{Expected, Round};
use super::machine_file::MachineFile;
use crate::HostError;
use crate::machine::Processor;
use crate::validate::Spread;

const LINE_BYTES: f64 = 64.0;
/// Value of [`Quantity::noise`] above which a quantity is noisy.
const MAX_SPREAD: f64 = 0.3;
/// Largest relative distance between the size at which a measured curve rises and the size that the
/// processor reports, for the reported size to be used. Replacement other than LRU, and other
/// programs, move the rise.
const AGREES_WITH_STATED: f64 = 0.35;

/// Measurements of one quantity, and the resulting value in the machine file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// Name of the quantity in tables.
    pub name: &'static str,
    /// Unit of the quantity: cycles, ns, bytes, entries, GB/s, or empty for plain numbers.
    pub unit: &'static str,
    /// Spread of the values over the rounds; absent unless more than half of the rounds show the
    /// quantity.
    pub measured: Option<Spread>,
    /// Noise of the measurement: interquartile range of the values of all rounds divided by their median.
    pub noise: f64,
    /// Key of the quantity in machine files; absent if machine files have no such value.
    pub key: Option<&'static str>,
    /// Value at the quantity's key in the base machine file.
    pub before: Option<f64>,
    /// Value at the quantity's key in the written machine file.
    pub value: Option<f64>,
    /// Explanation for users, if the value does not follow from the measurement alone.
    pub remark: Option<String>,
}

/// Rule by which measurements become a value of the machine file.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// The median of the measurements, unrounded.
    Measured,
    /// The median of the measurements, rounded to a whole number, at least 1.
    Whole,
    /// The median rounded to a whole number, for quantities that depend on other programs on the same
    /// computer. It replaces the base machine's value even if the measurements are noisy.
    Now,
    /// The size that the processor reports, if the measurement is near it; otherwise the rounded median.
    Size { stated: u64 },
    /// The base machine's value, because this machine does not allow measuring the quantity; with
    /// the reason.
    Hidden(&'static str),
    /// The median rounded to a whole number. If another resource limits the measurement, a higher
    /// value of the base machine remains.
    AtLeast { is_limited_by_others: bool },
}

impl Quantity {
    /// Creates a quantity without a key of the machine file, from its values in all rounds.
    pub(super) fn of(name: &'static str, unit: &'static str, values: &[Option<f64>]) -> Self {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let measured = Spread::of(&known).filter(|_| known.len() * 2 > values.len());
        let noise = noise(known);
        Self { name, unit, measured, noise, key: None, before: None, value: None, remark: None }
    }

    /// Like [`Self::of`], for values that every round has, such as the cost that remains after other costs
    /// are subtracted.
    pub(super) fn left(name: &'static str, unit: &'static str, values: Vec<f64>) -> Self {
        Self::of(name, unit, &values.into_iter().map(Some).collect::<Vec<_>>())
    }

    /// Binds the quantity to a key of the machine file, and writes the value that simulation found
    /// for it.
    pub(super) fn adjusted(
        mut self,
        file: &mut MachineFile,
        key: &'static str,
        value: f64,
        remark: String,
    ) -> Result<Self, HostError> {
        (self.key, self.before) = (Some(key), file.number(key));
        (self.value, self.remark) = (Some(value), Some(remark));
        file.set(key, value, &super::reason(&self, file.base()))?;
        Ok(self)
    }

    /// True if the base machine's value remains, because it is within the spread of noisy
    /// measurements.
    fn keeps(&self, before: f64) -> bool {
        let is_inside = |spread: Spread| (spread.min..=spread.max).contains(&before);
        self.is_noisy() && self.measured.is_some_and(is_inside)
    }

    /// True if the measurements are too noisy to rely on.
    pub fn is_noisy(&self) -> bool {
        self.noise > MAX_SPREAD
    }

    /// Binds the quantity to a key of the machine file. `before` is the base machine's value;
    /// `kind` is the rule for the written value.
    pub(super) fn goes_to(mut self, key: &'static str, before: f64, kind: Kind) -> Self {
        (self.key, self.before) = (Some(key), Some(before));
        let Some(spread) = self.measured.filter(|spread| spread.median > 0.0) else {
            self.remark = Some("not seen in the measurements: as it was".into());
            self.value = Some(before);
            return self;
        };
        if let Kind::Hidden(reason) = kind {
            self.remark = Some(reason.into());
            self.value = Some(before);
            return self;
        }
        if let Kind::Size { stated } = kind
            && (spread.median / stated as f64 - 1.0).abs() <= AGREES_WITH_STATED
        {
            self.remark = Some("as the processor states".into());
            self.value = Some(stated as f64);
            return self;
        }
        if !matches!(kind, Kind::Now) && self.keeps(before) {
            self.remark = Some("too noisy to say that it is another: as it was".into());
            self.value = Some(before);
            return self;
        }
        self.value = Some(match kind {
            Kind::Measured | Kind::Hidden(_) => spread.median,
            Kind::Whole | Kind::Now | Kind::Size { .. } => spread.median.round().max(1.0),
            Kind::AtLeast { is_limited_by_others } => {
                let least = spread.median.round().max(1.0);
                if is_limited_by_others && before > least {
                    self.remark = Some("at least; something else is the limit: as it was".into());
                    before
                } else {
                    least
                }
            }
        });
        self
    }
}

/// Interquartile range of the values divided by their median.
fn noise(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = |share: f64| {
        let place = share * last as f64;
        let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
        low + (high - low) * place.fract()
    };
    ((at(0.75) - at(0.25)) / at(0.5)).abs()
}

/// Function that returns the number at a key of the base machine file.
pub(super) type Before<'a> = dyn Fn(&str) -> Option<f64> + 'a;

/// Returns the sizes of caches and TLBs that the processor reports, otherwise those of the base
/// machine.
pub(super) fn expected(processor: &Processor, before: &Before<'_>, bytes: u64) -> Expected {
    let known = |stated: Option<u64>, key: &str| {
        let number = before(key).map_or(1, |number| number as u64);
        stated.unwrap_or(number)
    };
    Expected {
        l1_bytes: known(processor.size("cache.l1d"), "cache.l1d.size_bytes"),
        l2_bytes: known(processor.size("cache.l2"), "cache.l2.size_bytes"),
        l1_tlb_entries: known(processor.size("tlb.l1_data_4k"), "tlb.l1_data_4k.entries"),
        l1_large_tlb_entries: known(None, "tlb.l1_data_2m.entries"),
        l2_tlb_entries: known(processor.size("tlb.l2"), "tlb.l2.entries"),
        bytes,
        is_splintered: false,
    }
}

/// True if TLB entries hold only 4KB of a 2MB page. A walk to a 2MB page then costs less than one
/// to a 4KB page, but far more than no walk.
pub(super) fn is_splintered(rounds: &[Round], expected: &Expected) -> bool {
    const SHARE: f64 = 0.25;
    let shares: Vec<f64> = rounds.iter().filter_map(|round| round.splintered(expected)).collect();
    Spread::of(&shares).is_some_and(|spread| spread.median > SHARE)
}

/// All quantities of caches, memory and TLBs that follow from the rounds of pointer chases.
pub(super) fn quantities(
    rounds: &[Round],
    expected: &Expected,
    before: &Before<'_>,
) -> Vec<Quantity> {
    let each = |of: &dyn Fn(&Round) -> Option<f64>| rounds.iter().map(of).collect::<Vec<_>>();
    let of = |name, unit, of: &dyn Fn(&Round) -> Option<f64>| Quantity::of(name, unit, &each(of));
    let mut found = Vec::new();
    let mut keep = |quantity: Quantity, key: &'static str, kind| {
        found.push(match before(key) {
            Some(value) => quantity.goes_to(key, value, kind),
            None => quantity,
        });
    };
    let clock = of("clock", "GHz", &|round| Some(round.clock_ghz));
    keep(clock, "core.frequency_ghz", Kind::Measured);
    let l1 = of("L1D: load to use", "cycles", &|round| round.l1_cycles(expected));
    keep(l1, "cache.l1d.latency_cycles", Kind::Whole);
    let size = of("L1D: half of the loads miss at", "bytes", &|round| round.l1_bytes(expected));
    keep(size, "cache.l1d.size_bytes", Kind::Size { stated: expected.l1_bytes });
    let l2 = of("L2: beyond the L1D", "cycles", &|round| {
        Some(round.l2_cycles(expected)? - round.l1_cycles(expected)?)
    });
    keep(l2, "cache.l2.latency_cycles", Kind::Whole);
    let size = of("L2: half of the loads miss at", "bytes", &|round| round.l2_bytes(expected));
    keep(size, "cache.l2.size_bytes", Kind::Size { stated: expected.l2_bytes });
    let llc = of("last level: beyond the L2", "cycles", &|round| {
        Some(round.llc_cycles(expected)? - round.l2_cycles(expected)?)
    });
    keep(llc, "cache.llc.latency_cycles", Kind::Whole);
    let size = of("last level: half of the loads miss at", "bytes", &|r| r.llc_bytes(expected));
    keep(size, "cache.llc.size_bytes", Kind::Now);
    let outstanding = of("misses at once", "", &|round| round.outstanding(expected));
    keep(outstanding, "cache.l1d.mshrs", Kind::Whole);
    let in_order =
        of("misses at once, in order", "", &|round| round.outstanding_in_order(expected));
    keep(in_order, "cache.l2.mshrs", Kind::Whole);
    let entries = of("L1 TLB, 4KB pages", "entries", &|round| round.l1_tlb_entries(expected));
    keep(entries, "tlb.l1_data_4k.entries", Kind::Size { stated: expected.l1_tlb_entries });
    let entries = of("L1 TLB, 2MB pages", "entries", &|round| round.l1_large_tlb_entries(expected));
    let stated = expected.l1_large_tlb_entries;
    keep(
        entries,
        "tlb.l1_data_2m.entries",
        match expected.is_splintered {
            true => Kind::Hidden("the TLB holds 2MB pages as 4KB here: as it was"),
            false => Kind::Size { stated },
        },
    );
    let entries = of("L2 TLB, 4KB pages", "entries", &|round| round.l2_tlb_entries(expected));
    keep(entries, "tlb.l2.entries", Kind::Size { stated: expected.l2_tlb_entries });
    let cycles = of("L2 TLB: a hit", "cycles", &|round| round.l2_tlb_cycles(expected));
    keep(cycles, "walker.l2_tlb_cycles", Kind::Whole);
    let slower = Quantity::of("", "", &each(&|round| round.slower_by_walks(expected)));
    let is_limited_by_others = slower.measured.is_none_or(|spread| spread.median < 1.2);
    let walks = of("walks at once", "", &|round| round.walks_at_once(expected));
    keep(walks, "walker.walkers", Kind::AtLeast { is_limited_by_others });
    found.push(of("memory: load to use", "ns", &|round| round.memory_ns(expected)));
    found.push(of("memory: while another core reads", "ns", &|round| round.loaded_ns));
    found.push(of("memory: a line, in order", "ns", &|round| Some(round.stream_ns)));
    found.push(of("memory: reading, in order", "GB/s", &|round| {
        Some(LINE_BYTES / round.stream_ns) // bytes per nanosecond
    }));
    found.push(of("2MB pages held as 4KB by the TLB", "of all", &|r| r.splintered(expected)));
    found
}

#[cfg(test)]
mod tests {
    use super::super::derive::tests::{EXPECTED, round};
    use super::*;

    fn before(missing: &'static str) -> impl Fn(&str) -> Option<f64> {
        move |key| (key != missing).then_some(4.0)
    }

    fn found<'a>(quantities: &'a [Quantity], key: &str) -> &'a Quantity {
        quantities.iter().find(|quantity| quantity.key == Some(key)).unwrap()
    }

    #[test]
    fn values_of_a_machine_file() {
        let quantities = quantities(&[round(false), round(false)], &EXPECTED, &before(""));
        let value = |key| found(&quantities, key).value.unwrap();
        assert_eq!(value("core.frequency_ghz"), 2.0);
        assert_eq!(value("cache.l1d.latency_cycles"), 5.0);
        assert_eq!(value("cache.l2.latency_cycles"), 10.0);
        assert_eq!(value("cache.llc.latency_cycles"), 45.0);
        assert_eq!(value("cache.l2.size_bytes"), 2097152.0, "as stated");
        assert_eq!(value("tlb.l2.entries"), 1024.0);
        assert_eq!(value("walker.walkers"), 2.0);
        assert_eq!(value("cache.l1d.mshrs"), 10.0);
        assert_eq!(value("cache.l2.mshrs"), 20.0);
        let llc = found(&quantities, "cache.llc.size_bytes");
        assert!((1.6e7..2.2e7).contains(&llc.value.unwrap()), "{llc:?}");
    }

    #[test]
    fn noise_is_of_the_middle_half() {
        assert_eq!(noise(vec![1.0, 2.0, 3.0, 4.0, 100.0]), 2.0 / 3.0);
        assert_eq!((noise(vec![5.0]), noise(Vec::new())), (0.0, 0.0));
    }

    #[test]
    fn noisy_measurements_keep_the_base_value() {
        let slow = |times: f64| {
            let mut round = round(false);
            round.values.values_mut().for_each(|ns| *ns *= times);
            round
        };
        let rounds = [slow(1.0), slow(3.0), slow(2.0)];
        let quantities = super::quantities(&rounds, &EXPECTED, &before(""));
        let latency = found(&quantities, "cache.l2.latency_cycles");
        assert!(latency.is_noisy());
        assert_eq!(latency.value, Some(20.0), "4 is none of 10, 20 and 30");
        let near = |_: &str| Some(12.0);
        let quantities = super::quantities(&rounds, &EXPECTED, &near);
        let hit = found(&quantities, "walker.l2_tlb_cycles");
        assert_eq!(hit.value, Some(12.0), "one of 7, 14 and 21");
        assert!(hit.remark.as_ref().unwrap().contains("as it was"), "{hit:?}");
    }

    #[test]
    fn machines_without_a_key_stay_without_it() {
        let quantities = quantities(&[round(false)], &EXPECTED, &before("cache.llc.size_bytes"));
        assert!(quantities.iter().all(|quantity| quantity.key != Some("cache.llc.size_bytes")));
    }
}
