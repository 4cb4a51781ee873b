//! Timed runs: the program as it is, with 4KB pages, with large pages, with free translation, as recommended.

use perforate_advice::PageOrder;
use perforate_records::{AdviceRecord, AdviceRun, SpeedRecord, WORTH_EFFORT};
use perforate_sim::{AdvisedRanges, Composition, ResolvedRun, RunResult, SimError, run};

use super::defaults::changed;
use super::{AdviceObserver, AdviceQuestion, ThpSetting, sizes};
use crate::actions::{Failure, RunRequest};

/// Scheme with 4KB pages only.
const SMALL: &str = "4k";
/// Scheme with large pages for all memory.
const ALL: &str = "thp";
/// Scheme whose translation takes no time.
const FREE: &str = "free";
/// Name of the plan with the best parts of memory.
pub const BEST_PARTS: &str = "best parts";
/// Name of the plan with one page size for each area.
pub const BY_AREA: &str = "sizes by area";
/// Name of the plan with the same parts in 2MB pages.
pub const PARTS_IN_2MB: &str = "parts in 2MB";
/// Name of the plan with 1GB pages.
pub const WITH_HUGE: &str = "with 1GB pages";
/// Scheme with large pages for memory that the program requests them for.
const ADVISED: &str = "thp-madvise";

/// Counter of the instructions per cycle of the whole run, with the kernel's work.
const WHOLE_RUN: &str = "whole_run_ipc";

/// Longest run, in instructions, that is timed as a whole unless the user says otherwise.
const LONGEST_FULL: u64 = 15_000_000;
/// Share of the gain of large pages for all memory, 0–1, that parts need to be recommended.
const ENOUGH_OF_ALL: f64 = 0.8;
/// Share of the requested large pages, 0–1. If a run has fewer, another run is timed in memory that has all.
pub const MOST: f64 = 0.9;
/// Share of the program's memory, 0–1, that a size between has to save over 2MB pages to be recommended.
const LEAST_SAVED: f64 = 0.02;
/// Difference of two speeds below which parts are as good as all.
const SAME: f64 = 0.005;
/// Least gain of large pages for all memory of which the record has a share.
const LEAST_GAIN: f64 = 0.005;

/// Pairs of a speed-up and half the width of its interval, one for each assumption about the host.
pub type Speeds = Vec<(f64, f64)>;

/// Function that converts speed-ups to a record; `None` without speed-ups.
pub type ToRecord<'a> = dyn Fn(&[(f64, f64)]) -> Option<SpeedRecord> + 'a;

/// Page sizes and requests for large pages that are timed beside the program as it is.
pub struct Choices {
    /// Sizes of pages for all memory besides 4KB and 2MB.
    pub sizes: Vec<PageOrder>,
    /// Requests for all memory that takes advice, for the run with 2MB pages everywhere; `None` if the trace does not
    /// say what was mapped. Then all memory has the large pages that the scheme gives it.
    pub all: Option<Requests>,
    /// Requests of each plan, with its name: the cheapest plan first, one with 1GB pages last.
    pub plans: Vec<(&'static str, Requests)>,
}

/// Memory for which the program requests larger pages as soon as it is mapped.
#[derive(Clone)]
pub struct Requests {
    /// Addresses and sizes of pages.
    pub ranges: AdvisedRanges,
    /// Memory in bytes for which pages of 2MB or more are requested.
    pub large_bytes: u64,
}

/// Memory that a program is timed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// As it is, with the system's folios.
    AsItIs,
    /// As it is, but with folios of the scheme's sizes only.
    FoliosOfScheme,
    /// As it would be if nothing had fragmented it.
    Unfragmented,
}

/// Results of the timed runs.
pub struct Timed {
    /// Runs of the program as it is, with the system's folios, which the runs in `own` lack; empty if the system has none.
    with_folios: Vec<RunResult>,
    /// Runs of the program with its own requests for large pages, and with other sizes for all memory.
    own: Vec<RunResult>,
    /// Runs of the program with large pages for all memory.
    all: Vec<RunResult>,
    /// Runs of the program with the requests of each plan besides, with the plan's name.
    plans: Vec<(&'static str, Vec<RunResult>)>,
    /// Runs of the program with the recommended requests in memory that nothing has fragmented; empty unless the
    /// recommended run has too few of the requested large pages.
    unfragmented: Vec<RunResult>,
    /// Scheme of the program as it is.
    now: &'static str,
    /// Schemes of the host that are assumed; empty for a machine that is not virtual.
    hosts: Vec<&'static str>,
    /// Sizes of pages that were timed for all memory besides 4KB and 2MB, the smallest first.
    sizes: Vec<PageOrder>,
}

impl Timed {
    /// Times the program, and the program with requests for large pages.
    ///
    /// # Errors
    /// An invalid or ineffective option, or a run that fails or is cancelled.
    pub fn run(
        request: &RunRequest,
        question: &AdviceQuestion<'_>,
        hosts: &[&'static str],
        choices: Choices,
        instructions: u64,
        observer: &mut dyn AdviceObserver,
    ) -> Result<Self, Failure> {
        let is_one_thread = !request.spec.placement.processors().are_several();
        let is_long = instructions > LONGEST_FULL;
        let mut request = request.clone();
        if !request.spec.given().contains("timing") && is_one_thread && is_long {
            request = changed(&request, "timing", "sampled")?;
        }
        let all_schemes = schemes(question.now);
        let now = question.now.scheme();
        let has_folios = request.spec.memory.kernel.mthp.is_some();
        let mut own: Vec<&str> = all_schemes.clone();
        own.retain(|scheme| match *scheme {
            SMALL => true,
            scheme if scheme == now => !has_folios,
            scheme => scheme != ALL,
        });
        let of_sizes: Vec<String> = choices.sizes.iter().copied().map(sizes::scheme).collect();
        own.extend(of_sizes.iter().map(String::as_str));
        let mut timed = |schemes: &[&str], more: Option<&Requests>, memory: Memory, stage: &str| {
            observer.on_stage(stage, "instructions");
            // Options are checked for all schemes: some have no effect on 4KB pages.
            let all = pairs(&all_schemes, hosts)?;
            let mut resolved = request.resolve(Some(question.workload), all, &|_, _| ())?;
            resolved.schemes = pairs(schemes, hosts)?;
            if let Some(more) = more {
                let ranges = resolved.workload.advised.ranges().iter().chain(more.ranges.ranges());
                resolved.workload.advised = AdvisedRanges::new(ranges.cloned().collect());
            }
            resolved.memory = match memory {
                Memory::AsItIs => resolved.memory,
                Memory::FoliosOfScheme => resolved.memory.with_folios_of_scheme(),
                Memory::Unfragmented => resolved.memory.unfragmented(),
            };
            match run(&resolved, observer) {
                Err(SimError::SampledTwice) => {
                    request = changed(&request, "timing", "full")?;
                    let measuring = request.spec.measuring.clone();
                    Ok(run(&ResolvedRun { measuring, ..resolved }, observer)?)
                }
                results => Ok::<_, Failure>(results?),
            }
        };
        let stage = "timing the program as it is";
        let with_folios = match has_folios {
            true => timed(&[now], None, Memory::AsItIs, stage)?,
            false => Vec::new(),
        };
        let own = timed(&own, None, Memory::FoliosOfScheme, stage)?;
        let Choices { sizes, all: requests, plans: candidates } = choices;
        let all =
            timed(&[ALL], requests.as_ref(), Memory::AsItIs, "timing large pages for all memory")?;
        let mut plans = Vec::new();
        for (name, requests) in &candidates {
            let stage = "timing the program as recommended";
            let runs = timed(&[ADVISED], Some(requests), Memory::AsItIs, stage)?;
            plans.push((*name, runs));
        }
        let hosts = hosts.to_vec();
        let unfragmented = Vec::new();
        let mut found = Self { with_folios, own, all, plans, unfragmented, now, hosts, sizes };
        let (scheme, requests) = match found.recommended() {
            Some(plan) => (ADVISED, Some(&candidates[plan].1)),
            None => (ALL, requests.as_ref()),
        };
        if let Some(requests) = requests.filter(|requests| found.lacks(requests)) {
            let stage = "timing memory that is not fragmented";
            found.unfragmented = timed(&[scheme], Some(requests), Memory::Unfragmented, stage)?;
        }
        Ok(found)
    }

    /// True if the recommended run has too few of the large pages that are requested.
    fn lacks(&self, requests: &Requests) -> bool {
        self.large_bytes(self.recommended()) < MOST * requests.large_bytes as f64
    }

    /// Runs under a scheme, one for each assumption about the host.
    fn of(&self, scheme: &str) -> Vec<&RunResult> {
        let is_one = |name: &str| match self.hosts.is_empty() {
            true => name == scheme,
            false => name.split_once('+').is_some_and(|(guest, _)| guest == scheme),
        };
        self.own.iter().filter(|result| is_one(&result.scheme)).collect()
    }

    /// Runs of the program as it is, one for each assumption about the host.
    fn as_it_is(&self) -> Vec<&RunResult> {
        match self.with_folios.is_empty() {
            true => self.of(self.now),
            false => self.with_folios.iter().collect(),
        }
    }

    /// Runs of the program with the pages of a plan, by its index, or with large pages for all memory.
    fn with(&self, plan: Option<usize>) -> Vec<&RunResult> {
        plan.map_or(&self.all, |plan| &self.plans[plan].1).iter().collect()
    }

    /// Speed with the pages of a plan, or with large pages for all memory, over the speed as it is.
    pub fn speeds(&self, plan: Option<usize>) -> Speeds {
        speeds(&self.with(plan), &self.as_it_is())
    }

    /// Speed with translation that costs nothing over the speed as it is.
    pub fn free_over_now(&self) -> Speeds {
        speeds(&self.of(FREE), &self.as_it_is())
    }

    /// Speed with the recommended pages over the speed as it is, and memory in large pages in bytes, if memory is not
    /// fragmented; `None` unless the recommended run has too few large pages.
    pub fn unfragmented(&self) -> Option<(f64, f64)> {
        let runs: Vec<&RunResult> = self.unfragmented.iter().collect();
        let speeds = speeds(&runs, &self.as_it_is());
        Some((mean(speeds.iter().map(|(speed, _)| *speed))?, large_bytes(&runs)))
    }

    /// True if the program runs as with 4KB pages as it is.
    pub fn is_small_now(&self) -> bool {
        are_same(&self.as_it_is(), &self.of(SMALL))
    }

    /// Speed as it is over the speed with 4KB pages.
    pub fn now_over_small(&self) -> Speeds {
        speeds(&self.as_it_is(), &self.of(SMALL))
    }

    /// Index of the recommended plan; `None` for large pages for all memory. Recommended is what costs least and gains
    /// nearly as much as the best: plans in their order, but those with 1GB pages, which have to be reserved, after
    /// large pages for all memory.
    pub fn recommended(&self) -> Option<usize> {
        let is_huge = |plan: &usize| self.plans[*plan].0 == WITH_HUGE;
        let (huge, parts): (Vec<usize>, Vec<_>) = (0..self.plans.len()).partition(is_huge);
        let all = parts.into_iter().map(Some).chain([None]).chain(huge.into_iter().map(Some));
        let all: Vec<(Option<usize>, f64)> =
            all.filter_map(|plan| Some((plan, self.mean_gain(plan)?))).collect();
        let best = all.iter().map(|(_, gain)| *gain).fold(f64::MIN, f64::max);
        let is_enough = |(_, gain): &&(_, f64)| *gain >= ENOUGH_OF_ALL * best || best - gain < SAME;
        all.iter().find(is_enough).and_then(|(plan, _)| *plan)
    }

    fn mean_gain(&self, plan: Option<usize>) -> Option<f64> {
        mean(self.speeds(plan).iter().map(|(speed, _)| speed - 1.0))
    }

    /// Share of the gain of large pages for all memory that a plan has; `None` if that is no
    /// gain.
    pub fn gain_share(&self, plan: Option<usize>) -> Option<f64> {
        let all = self.mean_gain(None).filter(|all| *all >= LEAST_GAIN)?;
        Some(self.mean_gain(plan)?.max(0.0) / all)
    }

    /// Memory as recommended less the memory as it is, in bytes.
    pub fn additional_bytes(&self, plan: Option<usize>) -> i64 {
        let own = memory(&self.as_it_is());
        (memory(&self.with(plan)) - own).round() as i64
    }

    /// Memory of the program as it is less that with 4KB pages, in bytes.
    pub fn additional_bytes_now(&self) -> u64 {
        (memory(&self.as_it_is()) - self.resident()).max(0.0) as u64
    }

    /// Memory with 4KB pages in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.resident() as u64
    }

    fn resident(&self) -> f64 {
        memory(&self.of(SMALL))
    }

    /// Large pages of the program as it is, at their peak.
    pub fn large_pages_now(&self) -> u64 {
        counter(&self.as_it_is(), "large_pages") as u64
    }

    /// Large pages of the program as recommended, at their peak, in bytes.
    pub fn large_bytes(&self, plan: Option<usize>) -> f64 {
        large_bytes(&self.with(plan))
    }

    /// Records of the runs; `record` converts speed-ups.
    pub fn records(&self, plan: Option<usize>, record: &ToRecord<'_>) -> Vec<AdviceRun> {
        let now = self.as_it_is();
        let (smaller, huge): (Vec<PageOrder>, Vec<_>) =
            self.sizes.iter().copied().partition(|order| *order < PageOrder::LARGE);
        let sized = |order: PageOrder| {
            (sizes::name(order), Some(order.bytes()), self.of(&sizes::scheme(order)))
        };
        let large = Some(PageOrder::LARGE.bytes());
        let mut rows = vec![
            (AdviceRecord::AS_IT_IS.to_owned(), None, now.clone()),
            (AdviceRecord::SMALL.into(), Some(PageOrder::BASE.bytes()), self.of(SMALL)),
        ];
        rows.extend(smaller.into_iter().map(sized));
        rows.extend(self.plans.iter().enumerate().map(|(index, (name, runs))| {
            let name = if plan == Some(index) { AdviceRecord::RECOMMENDED } else { name };
            (name.to_owned(), None, runs.iter().collect())
        }));
        rows.push((AdviceRecord::ALL_LARGE.into(), large, self.all.iter().collect()));
        let unfragmented: Vec<&RunResult> = self.unfragmented.iter().collect();
        if large_bytes(&unfragmented) > self.large_bytes(plan) {
            rows.push((AdviceRecord::ALL_HAD.into(), None, unfragmented));
        }
        rows.extend(huge.into_iter().map(sized));
        rows.push((AdviceRecord::FREE.into(), None, self.of(FREE)));
        let rows = rows.into_iter().filter(|(_, _, results)| !results.is_empty());
        rows.map(|(name, page_bytes, results)| {
            let own = speeds(&results, &now);
            // The error of the predictor holds for the gain of large pages. If this run has fewer large pages than
            // now, the inverse ratio is such a gain.
            let loses_large = large_bytes(&results) < large_bytes(&now);
            let speed = match loses_large {
                true => record(&speeds(&now, &results)).map(|speed| speed.inverse()),
                false => record(&own),
            };
            AdviceRun {
                name,
                page_bytes,
                schemes: results.iter().map(|result| result.scheme.clone()).collect(),
                speed: speed
                    .map(|speed| if are_same(&results, &now) { SpeedRecord::SAME } else { speed }),
                scheme_speeds: own.into_iter().map(|(speed, _)| speed).collect(),
                speed_with_kernel: mean(results.iter().zip(&now).filter_map(|(run, now)| {
                    Some(
                        run.counter(WHOLE_RUN)?
                            / now.counter(WHOLE_RUN).filter(|ipc| *ipc > 0.0)?,
                    )
                })),
                cycles: mean(results.iter().filter_map(|result| result.cycles())).unwrap_or(0.0),
                walks: counter(&results, "walks"),
                large_pages: counter(&results, "large_pages"),
                mapped_bytes: memory(&results),
            }
        })
        .collect()
    }

    /// The size between 4KB and 2MB that is fastest for all memory (of equally fast ones the smallest), with its
    /// speed over the program as it is and its memory beyond that of the program as it is, in bytes. `None` if
    /// it gains much less than 2MB pages or saves no memory over them, or if those gain next to nothing.
    pub fn frugal_size(&self) -> Option<(PageOrder, f64, i64)> {
        let all = self.mean_gain(None).filter(|gain| *gain >= WORTH_EFFORT)?;
        let of_all = self.additional_bytes(None);
        let least_saved = (self.resident() * LEAST_SAVED) as i64;
        let now = self.as_it_is();
        let between = self.sizes.iter().filter(|order| **order < PageOrder::LARGE);
        let candidates = between.filter_map(|&order| {
            let runs = self.of(&sizes::scheme(order));
            let speed = mean(speeds(&runs, &now).iter().map(|(speed, _)| *speed))?;
            let more = (memory(&runs) - memory(&now)).round() as i64;
            let is_one = speed - 1.0 >= ENOUGH_OF_ALL * all && of_all - more >= least_saved;
            is_one.then_some((order, speed, more))
        });
        let candidates: Vec<(PageOrder, f64, i64)> = candidates.collect();
        let fastest = candidates.iter().map(|(_, speed, _)| *speed).fold(0.0, f64::max);
        candidates.into_iter().find(|(_, speed, _)| *speed > fastest - SAME)
    }

    /// Notes of the runs that a reader of advice needs: the memory, this machine, and an incomplete trace.
    pub fn notes(&self) -> Vec<String> {
        let Some(first) = self.as_it_is().first().copied() else { return Vec::new() };
        let is_kept = |note: &&String| {
            ["machine:", "the trace is incomplete", "timed", "the recording", "host:", "sampled"]
                .iter()
                .any(|start| note.starts_with(start))
        };
        let memory = first.notes.first().into_iter().map(|memory| format!("memory: {memory}"));
        memory.chain(first.notes.iter().skip(1).filter(is_kept).cloned()).collect()
    }
}

/// Schemes of a program with its own requests: as it is first, and each once.
pub fn schemes(now: ThpSetting) -> Vec<&'static str> {
    let now = now.scheme();
    let others = [SMALL, ALL, FREE].into_iter().filter(|scheme| *scheme != now);
    std::iter::once(now).chain(others).collect()
}

/// Schemes, each over each host, if there are hosts.
///
/// # Errors
/// A scheme that is unknown or does not run over a host.
pub fn pairs(schemes: &[&str], hosts: &[&str]) -> Result<Vec<Composition>, SimError> {
    let names: Vec<String> = match hosts {
        [] => schemes.iter().map(|scheme| (*scheme).to_owned()).collect(),
        hosts => {
            let all =
                schemes.iter().flat_map(|scheme| hosts.iter().map(move |host| (scheme, host)));
            all.map(|(scheme, host)| format!("{scheme}+{host}")).collect()
        }
    };
    Ok(Composition::list(&names.join(","))?)
}

/// Speed of runs over others, pair by pair, each with half the width of its interval from paired batches.
fn speeds(runs: &[&RunResult], others: &[&RunResult]) -> Speeds {
    let speed = |(run, other): (&&RunResult, &&RunResult)| {
        let ratio = other.cycles()? / run.cycles()?.max(1.0);
        let paired = run.batches.speed_over(&other.batches);
        let (mean, half) = paired.map_or((ratio, None), |speed| (speed.mean, speed.half_width_95));
        Some((mean, half.unwrap_or(0.0)))
    };
    runs.iter().zip(others).filter_map(speed).collect()
}

/// True if runs are the same to the cycle and the page walk, as those of one program with the same pages are.
fn are_same(runs: &[&RunResult], others: &[&RunResult]) -> bool {
    let figures = |run: &RunResult| (run.cycles(), run.counter("walks"));
    runs.iter().zip(others).all(|(run, other)| figures(run) == figures(other))
}

/// Large pages at their peak, in bytes.
fn large_bytes(runs: &[&RunResult]) -> f64 {
    counter(runs, "large_pages") * (2 << 20) as f64
}

fn memory(runs: &[&RunResult]) -> f64 {
    counter(runs, "mapped_bytes")
}

/// Mean of a counter over runs.
fn counter(runs: &[&RunResult], name: &str) -> f64 {
    mean(runs.iter().filter_map(|run| run.counter(name))).unwrap_or(0.0)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use perforate_records::read_results;

    use super::*;

    fn results(rows: &[(&str, u64, u64)]) -> Vec<RunResult> {
        let row = |&(scheme, cycles, bytes): &(&str, u64, u64)| {
            format!(
                r#"{{"scheme":"{scheme}","workload":"w","cycles":{cycles},"instructions":100,"counters":{{"mapped_bytes":{bytes},"large_pages":2}}}}"#
            )
        };
        read_results(&rows.iter().map(row).collect::<Vec<_>>().join("\n")).unwrap()
    }

    fn timed(advised: u64, hosts: Vec<&'static str>) -> Timed {
        let (own, all) = match hosts.is_empty() {
            true => {
                (results(&[("4k", 1200, 100), ("free", 900, 100)]), results(&[("thp", 1000, 400)]))
            }
            false => (
                results(&[("4k+4k", 1200, 100), ("4k+thp", 1100, 100)]),
                results(&[("thp+4k", 1000, 300), ("thp+thp", 1000, 500)]),
            ),
        };
        let advised = match hosts.is_empty() {
            true => results(&[("thp-madvise", advised, 150)]),
            false => {
                results(&[("thp-madvise+4k", advised, 150), ("thp-madvise+thp", advised, 150)])
            }
        };
        let plans = vec![(BEST_PARTS, advised)];
        let (with_folios, unfragmented, sizes) = (Vec::new(), Vec::new(), Vec::new());
        Timed { with_folios, own, all, plans, unfragmented, now: "4k", hosts, sizes }
    }

    #[test]
    fn parts_are_recommended_if_they_gain_nearly_as_much() {
        let timed_parts = timed(1020, vec![]);
        assert_eq!(timed_parts.recommended(), Some(0));
        assert_eq!(timed_parts.additional_bytes(Some(0)), 50);
        assert_eq!(timed_parts.additional_bytes(None), 300);
        let share = timed_parts.gain_share(Some(0)).unwrap();
        assert!((share - (1200.0 / 1020.0 - 1.0) / 0.2).abs() < 1e-9, "{share}");
        // 1.09 of 1.2.
        assert_eq!(timed(1100, vec![]).recommended(), None);
        let none = Timed { plans: Vec::new(), ..timed(1020, vec![]) };
        assert_eq!(none.recommended(), None);
        assert_eq!(none.speeds(None), [(1.2, 0.0)]);
    }

    /// With folios of the system, the program as it is differs from one with 4KB pages only.
    #[test]
    fn folios_of_the_system_are_part_of_the_program_as_it_is() {
        let none = timed(1020, vec![]);
        assert!(none.is_small_now());
        let with_folios = results(&[("4k", 1100, 120)]);
        let some = Timed { with_folios, ..timed(1020, vec![]) };
        assert!(!some.is_small_now());
        assert_eq!(some.now_over_small(), [(1200.0 / 1100.0, 0.0)]);
        assert_eq!(some.speeds(None), [(1.1, 0.0)]);
        assert_eq!((some.additional_bytes_now(), some.resident_bytes()), (20, 100));
    }

    /// Large pages for all memory gain 20 %. Parts, the same in 2MB, and with 1GB pages gain what the cycles say.
    #[test]
    fn the_cheapest_plan_that_gains_nearly_as_much_as_the_best_is_recommended() {
        let found = |parts, in_2mb, huge| {
            let plan = |cycles| results(&[("thp-madvise", cycles, 150)]);
            let plans = vec![
                (BEST_PARTS, plan(parts)),
                (PARTS_IN_2MB, plan(in_2mb)),
                (WITH_HUGE, plan(huge)),
            ];
            Timed { plans, ..timed(1000, vec![]) }.recommended()
        };
        // 16.1 % of 20 %, and 15.9 %.
        assert_eq!(found(1033, 1000, 1000), Some(0));
        assert_eq!(found(1036, 1033, 1000), Some(1));
        assert_eq!(found(1036, 1036, 1000), None);
        // With 1GB pages 24.9 %, of which 20 % are 80 %, and 25.1 %.
        assert_eq!(found(1100, 1100, 961), None);
        assert_eq!(found(1100, 1100, 959), Some(2));
    }

    #[test]
    fn a_size_between_is_recommended_if_it_gains_nearly_as_much_for_less_memory() {
        let with = |cycles, bytes| {
            let mut timed = timed(1000, vec![]);
            timed.own.extend(results(&[("mthp-16k", 1190, 100), ("mthp-64k", cycles, bytes)]));
            timed.sizes = vec![PageOrder(2), PageOrder(4), PageOrder::HUGE];
            timed
        };
        // 2MB pages gain 20 % for 300 bytes more, 64KB pages 17 % for 20.
        let (order, speed, more) = with(1026, 120).frugal_size().unwrap();
        assert_eq!((order, more), (PageOrder(4), 20));
        assert!((speed - 1200.0 / 1026.0).abs() < 1e-9, "{speed}");
        assert_eq!(with(1040, 120).frugal_size(), None, "15 % is too little");
        let mut both = with(1026, 120);
        both.own[2] = results(&[("mthp-16k", 1024, 100)]).remove(0);
        assert_eq!(both.frugal_size().unwrap().0, PageOrder(2), "as fast, and smaller");
        both.own[2] = results(&[("mthp-16k", 1040, 100)]).remove(0);
        assert_eq!(both.frugal_size().unwrap().0, PageOrder(4), "faster");
        assert_eq!(with(1026, 399).frugal_size(), None, "as much memory as with 2MB pages");
        let rows = with(1026, 120).records(Some(0), &|_| None);
        let rows: Vec<_> = rows.iter().map(|run| (run.name.as_str(), run.page_bytes)).collect();
        let expected = [
            ("as it is", None),
            ("4KB pages", Some(4 << 10)),
            ("16KB pages", Some(16 << 10)),
            ("64KB pages", Some(64 << 10)),
            ("recommended", None),
            ("all large", Some(2 << 20)),
            ("free", None),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn the_program_as_it_is_has_no_error_against_itself() {
        let inexact = |speeds: &[(f64, f64)]| {
            let speed = speeds.first()?.0;
            Some(SpeedRecord { speed, sampling_half_width: 0.1, low: 0.8, high: 1.4 })
        };
        let rows = timed(1020, vec![]).records(Some(0), &inexact);
        // 4KB pages are how the program is.
        for row in &rows[..2] {
            assert_eq!(row.speed, Some(SpeedRecord::SAME), "{}", row.name);
        }
        assert!(rows[2..].iter().all(|row| row.speed.is_some_and(|speed| !speed.is_exact())));
        let untimed = timed(1020, vec![]).records(Some(0), &|_| None);
        assert_eq!(untimed[0].speed, None);
    }

    /// 4KB pages lose what large pages have gained, within the same error.
    #[test]
    fn a_loss_of_large_pages_has_the_error_of_their_gain() {
        let row = |scheme: &str, cycles: u64, large: u64| {
            let counters = format!(r#"{{"large_pages":{large}}}"#);
            format!(
                r#"{{"scheme":"{scheme}","workload":"w","cycles":{cycles},"counters":{counters}}}"#
            )
        };
        let own = read_results(&[row("thp", 1000, 8), row("4k", 1250, 0)].join("\n")).unwrap();
        let timed = Timed { own, now: "thp", ..timed(1000, vec![]) };
        let above = |speeds: &[(f64, f64)]| {
            let speed = speeds.first()?.0;
            Some(SpeedRecord { speed, sampling_half_width: 0.0, low: speed, high: speed + 0.35 })
        };
        let small = timed.records(None, &above)[1].speed.unwrap();
        assert_eq!((small.speed, small.low, small.high), (0.8, 0.625, 0.8));
    }

    #[test]
    fn hosts_that_cannot_be_seen_are_pairs() {
        let timed = timed(1000, vec!["4k", "thp"]);
        assert_eq!(timed.speeds(Some(0)), [(1.2, 0.0), (1.1, 0.0)]);
        assert_eq!(timed.additional_bytes(None), 300);
        let names: Vec<String> =
            pairs(&["4k", "free"], &["4k", "thp"]).unwrap().iter().map(Composition::name).collect();
        assert_eq!(names, ["4k+4k", "4k+thp", "free+4k", "free+thp"]);
        let records = timed.records(Some(0), &|_| None);
        let names: Vec<&str> = records.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["as it is", "4KB pages", "recommended", "all large"]);
        assert_eq!(records[3].mapped_bytes, 400.0);
    }
}
