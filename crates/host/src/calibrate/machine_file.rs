//! The base machine file, edited to contain the measured values.

use super::quantity::Quantity;
use crate::machine::Processor;
use crate::{HostError, validate::Spread};

const LINE_BYTES: i64 = 64;

/// Machine file of the base machine, edited to contain measured values.
#[derive(Clone)]
pub(super) struct MachineFile {
    file: perforate_sim::MachineFile,
    /// Name of the base machine, whose machine file is edited.
    base: String,
}

impl MachineFile {
    /// Loads the machine file of the bundled machine called `name`, or the file at this path.
    ///
    /// # Errors
    /// If there is no such machine, or its file is invalid.
    pub(super) fn load(name: &str) -> Result<Self, HostError> {
        let file = perforate_sim::MachineFile::load(name)?;
        let base = file.machine()?.name;
        Ok(Self { file, base })
    }

    /// Adds to the file the default of each kernel cost that is missing, so that the cost can be
    /// set.
    ///
    /// # Errors
    /// If the file is invalid.
    pub(super) fn complete_costs(&mut self) -> Result<(), HostError> {
        let costs = serde_json::to_value(&self.file.machine()?.operating_system);
        let costs = costs.expect("costs are plain data");
        let numbers = costs.as_object().into_iter().flatten().filter(|(_, cost)| cost.is_number());
        for (key, cost) in numbers {
            let key = format!("operating_system.{key}");
            if self.file.value(&key).is_none() {
                let source = "the default, as in perforated-table2";
                self.file.state(&key, &cost.to_string(), source)?;
            }
        }
        Ok(())
    }

    /// Writes into the file on which machine and kernel the costs were measured.
    pub(super) fn costs_measured_on(&mut self, machine: &str) -> Result<(), HostError> {
        let quoted = serde_json::to_string(machine).expect("a text");
        Ok(self.file.state("operating_system.measured_on", &quoted, "")?)
    }

    /// Name of the base machine, whose machine file is edited.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the number at this key of the machine file; `None` if the file has no such number.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.file.value(key)?.replace('_', "").parse().ok()
    }

    /// Replaces the number at this key of the machine file, with `reason` as its comment, and
    /// removes the key's plausible range. An integer stays an integer.
    pub(super) fn set(&mut self, key: &str, value: f64, reason: &str) -> Result<(), HostError> {
        let Some(before) = self.file.value(key) else { return Ok(()) };
        let text = match before.replace('_', "").parse::<i64>() {
            Ok(_) => (value.round() as i64).to_string(),
            Err(_) => format!("{:?}", (value * 1000.0).round() / 1000.0),
        };
        Ok(self.file.state(key, &text, reason)?)
    }

    /// Writes a measured number into the machine file. Sizes of caches and TLBs are rounded to a possible
    /// geometry, and the file's number of ways changes if necessary.
    pub(super) fn set_measured(
        &mut self,
        key: &str,
        value: f64,
        reason: &str,
    ) -> Result<(), HostError> {
        // A TLB has one comment, so the comment of the key that is set last remains.
        for (changed, value) in self.changes(key, value).iter().rev() {
            let reason = if changed == key { reason } else { "by the measured size" };
            self.set(changed, *value, reason)?;
        }
        Ok(())
    }

    /// Keys of the machine file that change if `key` gets this value, with their new values.
    fn changes(&self, key: &str, value: f64) -> Vec<(String, f64)> {
        let Some((section, last)) = key.rsplit_once('.') else { return Vec::new() };
        let ways_key = format!("{section}.ways");
        let own = self.number(&ways_key).unwrap_or(1.0) as i64;
        let (size, ways) = match last {
            "size_bytes" => {
                let lines = (value as i64 / LINE_BYTES).max(1);
                let few = own - own / 4..=own + own / 4;
                match nearest(own, |ways| few.contains(&ways) && lines % ways == 0) {
                    Some(ways) => (lines * LINE_BYTES, ways),
                    None => ((lines / own).max(1) * own * LINE_BYTES, own),
                }
            }
            // Page sizes share the ways of this TLB, so the number of ways stays.
            "entries" if section == "tlb.l2" && self.is_divided() => {
                let sets = (value / own as f64).max(1.0).log2().round();
                (own << sets as u32, own)
            }
            "entries" => tlb_geometry(value.round() as i64, own),
            _ => return vec![(key.into(), value)],
        };
        let mut changes = vec![(key.into(), size as f64)];
        if ways != own {
            changes.push((ways_key, ways as f64));
        }
        changes
    }

    /// True if some page size can use only part of the ways of the L2 TLB.
    fn is_divided(&self) -> bool {
        let parts = ["tlb.l2_4k", "tlb.l2_2m", "tlb.l2_1g"];
        parts.into_iter().filter_map(|key| self.file.value(key)).any(|ways| ways.contains('-'))
    }

    /// Sets name, summary and processor of the machine in the file.
    pub(super) fn rename(
        &mut self,
        name: &str,
        summary: &str,
        processor: &Processor,
    ) -> Result<(), HostError> {
        self.file.rename(name, summary);
        Ok(self.file.state("processors", &processor.listed(), "")?)
    }

    /// Text of the machine file after the comment `preface`. The range of each measured value is added as a
    /// `[[plausible]]` section, which names other values to try.
    pub(super) fn text(&self, preface: &str, quantities: &[Quantity]) -> String {
        let mut text = format!("{preface}\n{}", self.file.text());
        for quantity in quantities {
            let (Some(key), Some(spread)) = (quantity.key, quantity.measured) else { continue };
            if quantity.remark.is_some() {
                continue;
            }
            let mut values: Vec<String> = Vec::new();
            for end in self.ends(key, &spread) {
                values.push(format!("{{ {end} }}"));
            }
            if !values.is_empty() {
                text += &format!(
                    "\n[[plausible]]\nname = \"measured: {}\"\nreason = \"least and most of all \
                     rounds\"\nvalues = [{}]\n",
                    quantity.name,
                    values.join(", ")
                );
            }
        }
        text
    }

    /// Assignments that set a machine file's key to the minimum and to the maximum of its measured values,
    /// for a `[[plausible]]` section. An assignment that changes nothing is left out.
    fn ends(&self, key: &str, spread: &Spread) -> Vec<String> {
        let is_whole = !key.ends_with("_ns") && !key.ends_with("_ghz");
        let rounded = |value: f64| match is_whole {
            true => value.round().max(1.0),
            false => (value * 1000.0).round() / 1000.0,
        };
        let mut ends = Vec::new();
        for end in [spread.min, spread.max] {
            let mut changes = self.changes(key, rounded(end));
            changes.retain(|(key, value)| self.number(key) != Some(*value));
            let text = |(key, value): &(String, f64)| match is_whole {
                true => format!("{key} = {value}"),
                false => format!("{key} = {value:?}"),
            };
            let text = changes.iter().map(text).collect::<Vec<_>>().join(", ");
            if !text.is_empty() && !ends.contains(&text) {
                ends.push(text);
            }
        }
        ends
    }
}

/// Geometry of a TLB (entries, ways) with a power of two of sets that is nearest to `entries`.
/// Among geometries with equally near entries, the one whose number of ways is nearest to `ways`.
pub(crate) fn tlb_geometry(entries: i64, ways: i64) -> (i64, i64) {
    const MOST_WAYS: i64 = 32;
    let geometries = (1..=MOST_WAYS).flat_map(|ways| (0..16).map(move |sets| (ways << sets, ways)));
    let distance = |one: i64, ways: i64| (one as f64 / ways as f64).ln().abs();
    geometries
        .min_by(|a, b| {
            let by_entries = (a.0 - entries).abs().cmp(&(b.0 - entries).abs());
            by_entries.then(distance(a.1, ways).total_cmp(&distance(b.1, ways)))
        })
        .expect("there are geometries")
}

/// Positive number nearest to `number` for which `fits` returns true; the greater of two equally
/// near ones.
fn nearest(number: i64, fits: impl Fn(i64) -> bool) -> Option<i64> {
    (0..number).find_map(|distance| {
        [number + distance, number - distance].into_iter().find(|one| *one > 0 && fits(*one))
    })
}

#[cfg(test)]
mod tests {
    use perforate_sim::Machine;
    use perforate_types::PageSize;

    use super::*;

    #[test]
    fn numbers_are_found_and_written_with_their_reason() {
        let mut file = MachineFile::load("ice-lake-sp").unwrap();
        assert_eq!(file.number("cache.llc.latency_cycles"), Some(56.0));
        assert_eq!(file.number("tlb.l2.entries"), Some(2048.0));
        assert_eq!(file.number("cache.l9.ways"), None);
        file.set("cache.l1d.mshrs", 15.7, "measured").unwrap();
        file.set("core.frequency_ghz", 2.34567, "measured").unwrap();
        file.set_measured("tlb.l1_data_4k.entries", 96.0, "measured").unwrap();
        file.set_measured("cache.l2.size_bytes", 2097152.0, "measured").unwrap();
        file.set_measured("cache.llc.size_bytes", 1e8, "measured").unwrap();
        file.set_measured("tlb.l2.entries", 1200.0, "measured").unwrap();
        let text = file.text("# mine", &[]);
        for line in [
            "mshrs = 16 # measured",
            "frequency_ghz = 2.346 # measured",
            "l1_data_4k = { entries = 96, ways = 3 } # measured",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        std::fs::write(&path, text.split("[[plausible]]").next().unwrap()).unwrap();
        let machine = Machine::load(path.to_str().unwrap()).unwrap();
        assert_eq!((machine.cache.l2.size_bytes, machine.cache.l2.ways), (2 << 20, 16));
        assert_eq!(machine.cache.l1d.mshrs, 16);
        let (l2, huge) = (machine.tlb.l2, machine.tlb.l2_entries(PageSize::Size1G));
        assert_eq!((l2.entries, l2.ways, huge), (1024, 16, 512), "its ways are divided");
    }

    #[test]
    fn costs_of_the_kernel_can_be_written_into_any_file() {
        // This machine has no section for its operating system.
        let mut file = MachineFile::load("gtsm-table4").unwrap();
        assert_eq!(file.number("operating_system.fault_4k_ns"), None);
        file.complete_costs().unwrap();
        assert_eq!(file.number("operating_system.fault_4k_ns"), Some(2625.0));
        assert_eq!(file.number("operating_system.interrupted_processors"), Some(1.0));
        file.set_measured("operating_system.fault_4k_ns", 1070.25, "measured: 1070 ns").unwrap();
        file.costs_measured_on("an EPYC").unwrap();
        let text = file.text("# mine", &[]);
        assert!(text.contains("fault_4k_ns = 1070.25 # measured: 1070 ns"), "{text}");
        let costs = Machine::from_text("mine", &text).unwrap().operating_system;
        assert_eq!((costs.fault_4k_ns, costs.zero_4k_ns, costs.call_ns), (1070.25, 850.0, 0.0));
        assert_eq!(costs.measured_on.as_deref(), Some("an EPYC"));
    }

    #[test]
    fn tlbs_have_a_power_of_two_of_sets() {
        assert_eq!(
            tlb_geometry(96, 4),
            (96, 3),
            "32 sets, as 6 ways in 16 sets are farther from 4"
        );
        assert_eq!(tlb_geometry(105, 4), (104, 13));
        assert_eq!(tlb_geometry(2048, 16), (2048, 16));
        assert_eq!(tlb_geometry(1, 4), (1, 1));
    }

    #[test]
    fn measured_values_are_not_left_open() {
        let mut file = MachineFile::load("ice-lake-sp").unwrap();
        let processor =
            Processor { vendor: "V".into(), family: 6, model: 9, ..Processor::default() };
        file.rename("mine", "this machine", &processor).unwrap();
        for (key, value) in [("walk_cache.level2_entries", 24.0), ("cache.l2.mshrs", 20.0)] {
            file.set(key, value, "measured").unwrap();
        }
        let spread = Spread { min: 18.2, median: 20.0, max: 20.1 };
        let quantity = Quantity {
            name: "misses",
            unit: "",
            measured: Some(spread),
            noise: 0.0,
            key: Some("cache.l2.mshrs"),
            before: Some(32.0),
            value: Some(20.0),
            remark: None,
        };
        let text = file.text("# mine", &[quantity]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        std::fs::write(&path, &text).unwrap();
        let open = Machine::left_open(path.to_str().unwrap()).unwrap();
        let names: Vec<&str> = open.iter().map(|(part, _)| part.name.as_str()).collect();
        assert!(
            !names.contains(&"walk caches") && !names.contains(&"MSHRs of the L2"),
            "{names:?}"
        );
        assert!(names.contains(&"MSHRs of the L1I"));
        let (_, values) = open.iter().find(|(part, _)| part.name == "measured: misses").unwrap();
        assert_eq!(values.len(), 1, "20.1 is 20");
        assert_eq!(values[0].description, "cache.l2.mshrs = 18");
    }
}
