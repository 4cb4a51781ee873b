//! Groups of runs that are compared: one workload, one machine, several schemes, several seeds.

use std::collections::BTreeMap;

use perforate_records::{Interval, Roles, RunResult, TOO_LITTLE_WORK, Vocabulary};
use perforate_types::SchemeRole;
use serde_json::Value;

use crate::ids;
use crate::metric::per_kilo_instruction;
use crate::palette;
use crate::varied::Varied;

/// Maximum number of schemes for a table with a column for each scheme; if there are more, each scheme has a
/// row.
pub(crate) const MOST_COLUMNS: usize = 6;

/// Median and range of one figure over the runs of a scheme, one per seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// Number of runs in which the figure has a finite value.
    pub runs: usize,
}

impl Spread {
    /// Computes median and range of the finite values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median, least, most, runs: sorted.len() })
    }

    /// Writes the range as text, with `write` for each end.
    pub fn range(&self, write: impl Fn(f64) -> String) -> String {
        format!("{} to {}", write(self.least), write(self.most))
    }
}

/// The runs of one scheme in a comparison, one per seed.
pub(crate) struct SchemeRuns<'a> {
    pub name: &'a str,
    /// Palette name of the scheme's colour.
    pub colour: &'static str,
    pub roles: Roles,
    pub runs: Vec<&'a RunResult>,
}

impl<'a> SchemeRuns<'a> {
    /// Creates the runs of a scheme, with `run` as the only one so far.
    fn new(run: &'a RunResult, vocabulary: &Vocabulary) -> Self {
        let name = run.scheme.as_str();
        let colour = palette::of_scheme(vocabulary, name);
        Self { name, colour, roles: vocabulary.roles(name), runs: vec![run] }
    }

    /// Returns median and range of a figure over the seeds; `None` if no run has it.
    pub fn spread(&self, figure: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| figure(run)))
    }

    /// Returns the median of a counter over the seeds; `None` if no run has it.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.spread(|run| run.counter(name)).map(|spread| spread.median)
    }

    /// Returns the speed relative to another scheme, which may be in another comparison of the same workload.
    /// The interval reflects the variation between batches (the same instructions in both runs), and between
    /// seeds if there are several.
    pub fn speed_over(&self, other: &Self) -> Option<Interval> {
        let speeds = self.runs.iter().filter_map(|run| {
            let other = other.runs.iter().find(|other| other.seed == run.seed)?;
            let mean = run.ipc? / other.ipc.filter(|&ipc| ipc > 0.0)?;
            let is_sure = !run.has_few_windows() && !other.has_few_windows();
            let parts = run.batches.speed_over(&other.batches).filter(|_| is_sure);
            Some(Interval { mean, half_width_95: parts.and_then(|parts| parts.half_width_95) })
        });
        over_seeds(&speeds.collect::<Vec<_>>())
    }

    /// Returns a figure relative to another scheme's. Runs with the same seed are compared; the interval
    /// reflects the variation between seeds.
    pub fn ratio_over(
        &self,
        other: &Self,
        figure: impl Fn(&RunResult) -> Option<f64>,
    ) -> Option<Interval> {
        let ratios = self.runs.iter().filter_map(|run| {
            let other = other.runs.iter().find(|other| other.seed == run.seed)?;
            let base = figure(other).filter(|&base| base > 0.0)?;
            Some(Interval { mean: figure(run)? / base, half_width_95: None })
        });
        over_seeds(&ratios.collect::<Vec<_>>())
    }

    /// Returns the schemes of guest and host; `None` for native runs.
    pub fn pair(&self) -> Option<(&'a str, &'a str)> {
        let run = self.first();
        Some((run.guest.as_deref()?, run.host.as_deref()?))
    }

    /// Returns the scheme's first run in the file. Charts over time and pictures show only this run.
    pub fn first(&self) -> &'a RunResult {
        self.runs[0]
    }
}

/// Largest relative difference between translation counters of two schemes that count as equal. Counters of equal
/// schemes differ slightly, because a scheme adds a few page tables of its own, which displace others in the walk
/// caches.
const ALIKE: f64 = 0.002;

/// Several schemes that were run on one workload and one machine.
pub(crate) struct Comparison<'a> {
    pub workload: &'a str,
    pub machine: &'a str,
    /// Registered counters and schemes, with which reports interpret the runs.
    pub vocabulary: &'a Vocabulary,
    /// Settings that distinguish this comparison from others of the same workload and machine.
    pub difference: String,
    pub schemes: Vec<SchemeRuns<'a>>,
    /// Index of the scheme that other schemes are compared with: 4KB pages if present.
    pub reference: usize,
    /// Index of the native scheme with ideal large pages; `None` if it was not run.
    pub ideal: Option<usize>,
    /// Index of the scheme with free translation, otherwise of the scheme with ideal large pages. `None` if
    /// neither was run.
    pub bound: Option<usize>,
}

impl<'a> Comparison<'a> {
    /// Returns the name of the reference scheme for headings: `4KB` for native 4KB pages.
    pub fn reference_name(&self) -> &'a str {
        let reference = &self.schemes[self.reference];
        if reference.roles == Roles::Native(SchemeRole::Base) { "4KB" } else { reference.name }
    }

    /// Returns the name of the scheme with ideal large pages for headings.
    pub fn ideal_name(&self) -> &'a str {
        self.ideal.map_or("ideal", |ideal| self.schemes[ideal].name)
    }

    /// Returns the index of the ideal scheme that pairs of guest and host schemes are compared with: the
    /// virtualized one if it was run, otherwise the native one.
    pub fn ideal_of_pairs(&self) -> Option<usize> {
        place(&self.schemes, pair_of(SchemeRole::Ideal)).or(self.ideal)
    }

    /// Returns the index of the pair that other pairs are compared with: 4KB pages in guest and host,
    /// otherwise the first pair.
    pub fn reference_of_pairs(&self) -> Option<usize> {
        place(&self.schemes, pair_of(SchemeRole::Base))
            .or_else(|| self.schemes.iter().position(|scheme| scheme.pair().is_some()))
    }

    /// Returns the speed of `scheme` relative to `reference` (indices of schemes), with an interval.
    pub fn speed(&self, scheme: usize, reference: usize) -> Option<Interval> {
        self.schemes[scheme].speed_over(&self.schemes[reference])
    }

    /// Returns the share of a scheme's time that free translation would save: 1 − cycles(free) ÷
    /// cycles(scheme). The interval is from paired batches of both runs. If free translation was not run,
    /// ideal large pages are used instead. `None` if neither was run, and for the scheme that would be used.
    pub fn saving(&self, scheme: usize) -> Option<Interval> {
        let bound = self.bound.filter(|&bound| bound != scheme)?;
        let speed = self.speed(scheme, bound)?;
        Some(Interval { mean: 1.0 - speed.mean, ..speed })
    }

    /// Returns the share of a scheme's cycles, 0–1, in which it waits for address translation.
    pub fn translation_share(&self, scheme: usize) -> Option<Interval> {
        let shares = self.schemes[scheme].runs.iter().filter_map(|run| {
            let cycles = run.cycles().filter(|&cycles| cycles > 0.0)?;
            let mean = run.counter(ids::TRANSLATION_STALL_CYCLES)? / cycles;
            let parts = run.batches.translation_share().filter(|_| !run.has_few_windows());
            Some(Interval { mean, half_width_95: parts.and_then(|parts| parts.half_width_95) })
        });
        over_seeds(&shares.collect::<Vec<_>>())
    }

    /// Name of the comparison for readers: workload, machine and the difference from other comparisons.
    pub fn name(&self) -> String {
        let parts = [self.workload, self.machine, self.difference.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" · ")
    }

    /// True if users can enable the scheme today; a pair is available if both of its schemes are.
    pub fn is_available(&self, scheme: usize) -> bool {
        self.schemes[scheme].name.split('+').all(|name| self.setting(name).is_some())
    }

    /// Returns the setting of current systems that enables the scheme of this name; `None` if no current
    /// system has the scheme.
    pub fn setting(&self, name: &str) -> Option<&'a str> {
        self.vocabulary.scheme(name)?.setting.as_deref()
    }

    /// Returns a figure of `scheme` divided by that of `reference`. Runs with the same seed are compared; a
    /// seed that `reference` lacks is compared with the median of `reference`.
    pub fn relative(
        &self,
        scheme: usize,
        reference: usize,
        figure: fn(&RunResult) -> Option<f64>,
    ) -> Option<Spread> {
        self.quotient((scheme, figure), (reference, figure))
    }

    /// Returns a figure of one scheme divided by another figure of a second scheme, paired by seed as in
    /// [`Self::relative`].
    pub fn quotient(
        &self,
        (scheme, figure): (usize, fn(&RunResult) -> Option<f64>),
        (reference, base): (usize, fn(&RunResult) -> Option<f64>),
    ) -> Option<Spread> {
        let below = &self.schemes[reference];
        let middle = below.spread(base)?.median;
        Spread::of(self.schemes[scheme].runs.iter().filter_map(|run| {
            let same_seed = below.runs.iter().find(|other| other.seed == run.seed);
            let base = same_seed.and_then(|other| base(other)).unwrap_or(middle);
            figure(run).filter(|_| base > 0.0).map(|value| value / base)
        }))
    }

    /// True if a native scheme and `reference` missed the TLBs, walked and read page tables equally often: any difference
    /// in speed is then one of where memory lies in caches and DRAM. A walk of a virtual machine does more than read.
    pub fn translates_alike(&self, scheme: usize, reference: usize) -> bool {
        if [scheme, reference].iter().any(|&index| self.schemes[index].pair().is_some()) {
            return false;
        }
        let figures: [fn(&RunResult) -> Option<f64>; 4] = [
            |run| run.counter(ids::L1_TLB_MISSES),
            |run| run.counter(ids::L2_TLB_MISSES),
            |run| run.counter(ids::WALKS),
            |run| run.counter(ids::REFERENCES_PER_WALK),
        ];
        figures.into_iter().all(|figure| {
            self.relative(scheme, reference, figure)
                .is_some_and(|ratio| ratio.least > 1.0 - ALIKE && ratio.most < 1.0 + ALIKE)
        })
    }

    /// True if a run's note says that it has too little translation work to tell schemes apart.
    pub fn has_too_little_work(&self) -> bool {
        let is_too_little = |note: &String| note.starts_with(TOO_LITTLE_WORK);
        self.schemes.iter().any(|scheme| scheme.first().notes.iter().any(is_too_little))
    }

    /// True if any run has an IPC; false if all runs are in functional mode.
    pub fn is_timed(&self) -> bool {
        self.schemes.iter().any(|scheme| scheme.runs.iter().any(|run| run.ipc.is_some()))
    }

    /// Returns the largest number of runs, one per seed, that any scheme has.
    pub fn seeds(&self) -> usize {
        self.schemes.iter().map(|scheme| scheme.runs.len()).max().unwrap_or(0)
    }

    /// Returns the index of the scheme that a headline is about: a perforated one, otherwise the fastest, or
    /// without timing the one with the fewest walks. The reference and ideal bounds are not candidates.
    pub fn subject(&self) -> Option<usize> {
        let candidates: Vec<usize> = (0..self.schemes.len())
            .filter(|&index| index != self.reference && !self.schemes[index].roles.is_bound())
            .collect();
        let first = |test: &dyn Fn(Roles) -> bool| {
            candidates.iter().copied().find(|&index| test(self.schemes[index].roles))
        };
        let is_of_proposal = |role| matches!(role, SchemeRole::Proposal | SchemeRole::Variant);
        first(&|roles| roles == Roles::Native(SchemeRole::Proposal))
            .or_else(|| first(&|roles| roles == pair_of(SchemeRole::Proposal)))
            .or_else(|| first(&|roles| roles.has(is_of_proposal)))
            .or_else(|| {
                let rate = |index: usize| {
                    let scheme = &self.schemes[index];
                    let walks = || scheme.spread(|run| per_kilo_instruction(run, ids::WALKS));
                    let ipc = scheme.spread(|run| run.ipc).map(|spread| spread.median);
                    ipc.or_else(|| Some(-walks()?.median)).unwrap_or(f64::NEG_INFINITY)
                };
                let better = |best, next| if rate(next) > rate(best) { next } else { best };
                candidates.iter().copied().reduce(better)
            })
    }
}

/// Combines the values of a figure for several seeds: their median, with an interval for the variation within
/// each run and between runs.
fn over_seeds(seeds: &[Interval]) -> Option<Interval> {
    let means: Vec<f64> = seeds.iter().map(|seed| seed.mean).collect();
    let median = Spread::of(means.iter().copied())?.median;
    let between = Interval::of_values(&means)?.half_width_95;
    let squares = seeds.iter().filter_map(|seed| seed.half_width_95).map(|half| half.powi(2));
    let squares: Vec<f64> = squares.collect();
    let within = (!squares.is_empty())
        .then(|| (squares.iter().sum::<f64>() / squares.len() as f64 / seeds.len() as f64).sqrt());
    let half = match (within, between) {
        (Some(within), Some(between)) => Some(within.hypot(between)),
        (one, other) => one.or(other),
    };
    Some(Interval { mean: median, half_width_95: half })
}

/// Groups runs into comparisons, in the order of the file.
///
/// A second run of the same scheme, workload, machine and seed starts another comparison, because
/// its configuration must differ. [`Comparison::difference`] describes the difference.
pub(crate) fn comparisons<'a>(
    results: &'a [RunResult],
    vocabulary: &'a Vocabulary,
) -> Vec<Comparison<'a>> {
    let mut groups: Vec<(&str, &str, Vec<SchemeRuns<'_>>)> = Vec::new();
    for run in results {
        let has_place = |group: &&mut (&str, &str, Vec<SchemeRuns<'_>>)| {
            let taken = |scheme: &SchemeRuns<'_>| {
                scheme.name == run.scheme && scheme.runs.iter().any(|other| other.seed == run.seed)
            };
            let is_varied_alike = Varied::of(group.2[0].first()) == Varied::of(run);
            group.0 == run.workload
                && group.1 == run.machine
                && is_varied_alike
                && !group.2.iter().any(taken)
        };
        let group = match groups.iter_mut().find(has_place) {
            Some(group) => group,
            None => {
                groups.push((&run.workload, &run.machine, Vec::new()));
                let last = groups.len() - 1;
                &mut groups[last]
            }
        };
        match group.2.iter_mut().find(|scheme| scheme.name == run.scheme) {
            Some(scheme) => scheme.runs.push(run),
            None => group.2.push(SchemeRuns::new(run, vocabulary)),
        }
    }
    let mut found: Vec<Comparison<'_>> =
        groups.into_iter().map(|group| comparison(group, vocabulary)).collect();
    name_differences(&mut found);
    found
}

fn comparison<'a>(
    (workload, machine, schemes): (&'a str, &'a str, Vec<SchemeRuns<'a>>),
    vocabulary: &'a Vocabulary,
) -> Comparison<'a> {
    let all: Vec<Roles> = schemes.iter().map(|scheme| scheme.roles).collect();
    let ideal = place(&schemes, Roles::Native(SchemeRole::Ideal))
        .or_else(|| place(&schemes, pair_of(SchemeRole::Ideal)));
    let reference = Roles::reference(&all).unwrap_or(0);
    let native = place(&schemes, Roles::Native(SchemeRole::Free));
    let free = match all[reference] {
        Roles::Pair(..) => all
            .iter()
            .position(|roles| matches!(roles, Roles::Pair(SchemeRole::Free, _)))
            .or(native),
        Roles::Native(_) => native,
    };
    Comparison {
        workload,
        machine,
        vocabulary,
        difference: String::new(),
        schemes,
        reference,
        ideal,
        bound: free.or(ideal),
    }
}

/// Returns the index of the first scheme with these roles (base, ideal, …; of guest and host for a pair);
/// `None` if no scheme has them.
fn place(schemes: &[SchemeRuns<'_>], roles: Roles) -> Option<usize> {
    schemes.iter().position(|scheme| scheme.roles == roles)
}

/// Returns the roles of a pair whose guest and host both have this role.
fn pair_of(role: SchemeRole) -> Roles {
    Roles::Pair(role, role)
}

/// Fills in [`Comparison::difference`] with the configuration keys that distinguish comparisons of
/// the same workload and machine.
fn name_differences(found: &mut [Comparison<'_>]) {
    for index in 0..found.len() {
        let alike = |other: &Comparison<'_>| {
            other.workload == found[index].workload && other.machine == found[index].machine
        };
        if let Some(varied) = Varied::of(found[index].schemes[0].first()) {
            found[index].difference = varied.text();
            continue;
        }
        let configurations: Vec<BTreeMap<String, String>> = found
            .iter()
            .filter(|other| alike(other))
            .map(|other| flat(&other.schemes[other.reference].first().config))
            .collect();
        if configurations.len() < 2 {
            continue;
        }
        let mine = flat(&found[index].schemes[found[index].reference].first().config);
        let differs = |(key, value): &(&String, &String)| {
            configurations.iter().any(|other| other.get(*key) != Some(*value))
        };
        let named: Vec<String> = mine
            .iter()
            .filter(differs)
            .take(4)
            .map(|(key, value)| format!("{} {value}", key.rsplit('.').next().unwrap_or(key)))
            .collect();
        let before = found[..index].iter().filter(|other| alike(other)).count();
        found[index].difference =
            if named.is_empty() { format!("run {}", before + 1) } else { named.join(", ") };
    }
}

/// Flattens the JSON of a run's configuration into a map from dotted keys such as `a.b.c` to values.
fn flat(config: &Value) -> BTreeMap<String, String> {
    fn visit(prefix: &str, value: &Value, into: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    let key =
                        if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    visit(&key, inner, into);
                }
            }
            Value::String(text) => {
                into.insert(prefix.to_string(), text.clone());
            }
            other => {
                into.insert(prefix.to_string(), other.to_string());
            }
        }
    }
    let mut into = BTreeMap::new();
    visit("", config, &mut into);
    into
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::tests::vocabulary;
    use perforate_records::read_results;

    fn line(scheme: &str, seed: u64, ipc: f64, portion: u64) -> String {
        format!(
            r#"{{"scheme":"{scheme}","workload":"w","machine":"m","seed":{seed},"ipc":{ipc},"config":{{"memory":{{"portion":{portion}}}}}}}"#
        )
    }

    #[test]
    fn ratios_pair_runs_of_one_seed() {
        // 0.8 / 0.4 = 2, 0.9 / 0.6 = 1.5, 0.5 / 0.5 = 1: median 1.5.
        let text = [
            line("perforated", 1, 0.8, 0),
            line("perforated", 2, 0.9, 0),
            line("perforated", 3, 0.5, 0),
            line("4k", 1, 0.4, 0),
            line("4k", 2, 0.6, 0),
            line("4k", 3, 0.5, 0),
        ]
        .join("\n");
        let results = read_results(&text).unwrap();
        let vocabulary = vocabulary();
        let found = comparisons(&results, &vocabulary);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].reference, 1, "4k is the reference wherever it stands");
        let spread = found[0].relative(0, 1, |run| run.ipc).unwrap();
        assert_eq!((spread.median, spread.least, spread.most, spread.runs), (1.5, 1.0, 2.0, 3));
    }

    #[test]
    fn repeated_runs_start_a_comparison_named_by_what_differs() {
        let text = [
            line("4k", 1, 0.4, 50),
            line("thp", 1, 0.4, 50),
            line("4k", 1, 0.4, 100),
            line("thp", 1, 0.4, 100),
        ]
        .join("\n");
        let results = read_results(&text).unwrap();
        let vocabulary = vocabulary();
        let found = comparisons(&results, &vocabulary);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].difference, "portion 50");
        assert_eq!(found[1].difference, "portion 100");
    }

    #[test]
    fn spread_of_even_counts_and_of_nothing() {
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
    }

    /// The variation within runs is the mean of their squares over the number of seeds; that between runs comes to
    /// it at a right angle.
    #[test]
    fn intervals_of_seeds_are_within_and_between_runs() {
        let one = |mean, half_width_95| Interval { mean, half_width_95 };
        assert_eq!(over_seeds(&[]), None);
        assert_eq!(over_seeds(&[one(2.0, Some(0.3))]), Some(one(2.0, Some(0.3))));
        assert_eq!(over_seeds(&[one(2.0, None)]), Some(one(2.0, None)));
        let half = |seeds: &[Interval]| over_seeds(seeds).unwrap().half_width_95.unwrap();
        // √((0.3² + 0.4²) ÷ 2 ÷ 2).
        assert!((half(&[one(2.0, Some(0.3)), one(2.0, Some(0.4))]) - 0.25).abs() < 1e-12);
        // Of three seeds, one has no interval: √((0.3² + 0.4²) ÷ 2 ÷ 3).
        let three = [one(2.0, Some(0.3)), one(2.0, Some(0.4)), one(2.0, None)];
        assert!((half(&three) - (0.125_f64 / 3.0).sqrt()).abs() < 1e-12);
        let apart = [one(1.0, None), one(2.0, None), one(6.0, None)];
        let between = Interval::of_values(&[1.0, 2.0, 6.0]).unwrap().half_width_95.unwrap();
        assert_eq!(over_seeds(&apart), Some(one(2.0, Some(between))), "around the median");
        let both = [one(1.0, Some(0.3)), one(2.0, Some(0.3)), one(6.0, Some(0.3))];
        assert!((half(&both) - (between.powi(2) + 0.03).sqrt()).abs() < 1e-12);
    }

    /// A perforated scheme natively, then as a pair, then in part of one; otherwise the fastest.
    #[test]
    fn the_subject_is_a_proposal_or_the_fastest() {
        let subject = |names: &[&str]| {
            let lines: Vec<String> = (1..)
                .zip(names)
                .map(|(place, name)| {
                    let pair = name.split_once('+').map_or(String::new(), |(guest, host)| {
                        format!(r#""guest":"{guest}","host":"{host}","#)
                    });
                    format!(r#"{{"scheme":"{name}",{pair}"workload":"w","ipc":{place}}}"#)
                })
                .collect();
            let results = read_results(&lines.join("\n")).unwrap();
            let vocabulary = vocabulary();
            let found = comparisons(&results, &vocabulary);
            found[0].subject().map(|place| names[place].to_owned())
        };
        for (names, expected) in [
            (&["4k", "perforated+perforated", "perforated", "thp"][..], Some("perforated")),
            (
                &["4k+4k", "perforated+4k", "perforated+perforated", "thp"],
                Some("perforated+perforated"),
            ),
            (&["4k", "thp+perforated", "thp"], Some("thp+perforated")),
            (&["4k", "1g", "thp", "ideal"], Some("thp")),
            (&["thp", "4k"], Some("thp")),
            (&["4k", "ideal"], None),
        ] {
            assert_eq!(subject(names).as_deref(), expected, "{names:?}");
        }
    }

    #[test]
    fn a_spread_has_the_finite_values_only() {
        let spread = Spread::of([3.0, f64::NAN, 1.0]).unwrap();
        assert_eq!((spread.median, spread.least, spread.most, spread.runs), (2.0, 1.0, 3.0, 2));
        assert_eq!(spread.range(|value| format!("{value}")), "1 to 3");
        assert_eq!(Spread::of([5.0, 9.0, 1.0]).unwrap().median, 5.0);
    }
}
