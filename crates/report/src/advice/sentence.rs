//! Sentences of advice: the verdict, what has to be known with it, what it was simulated for, its evidence.

use std::collections::BTreeSet;

use perforate_records::{
    AdviceRecord, AdviceRun, AdviceVerdict, EvidenceKind, LEAST_ACCESSES, SpeedRecord, WORTH_EFFORT,
};

use super::{measured_verdict, more_memory, planned_pages, ranking};
use crate::format::{bytes, capital, counted, exact, page_size, percent, unsigned_zero};

/// Size of the large pages of `madvise` in bytes.
const LARGE_BYTES: u64 = 2 << 20;

/// Share of the page walks that are first accesses to a page, 0–1, above which the verdict says so: more than half of
/// what larger pages can save is saved once, however long the program runs.
const MOSTLY_FIRST_TOUCHES: f64 = 0.5;

/// Returns the verdict: that of the measurement, if there is one, before that of the simulation.
pub(super) fn verdict(record: &AdviceRecord) -> String {
    let simulated = simulated_verdict(record);
    match (&record.verification, &record.verification_failure) {
        (Some(found), _) if found.unmeasured.is_none() => {
            format!("{} The simulation said: {simulated}", measured_verdict(found))
        }
        (Some(found), _) => format!("{simulated} {}", measured_verdict(found)),
        (None, Some(problem)) => format!("{simulated} Not measured: {problem}."),
        (None, None) => simulated,
    }
}

/// Returns the verdict of the simulation in a sentence.
fn simulated_verdict(record: &AdviceRecord) -> String {
    let verdict = record.simulated_verdict.unwrap_or(record.verdict);
    let is_measured = record.verification.is_some() || record.verification_failure.is_some();
    let can_measure = record.is_measurable && !is_measured;
    let Some(gain) = record.gain else {
        return match verdict {
            AdviceVerdict::TooLittle => format!(
                "Too little to tell: {}, and a verdict needs {}.",
                counted(record.evidence.accesses.unwrap_or(0), "data access"),
                exact(&LEAST_ACCESSES.into())
            ),
            AdviceVerdict::Ranking => {
                ranking::first(record)
                    + "A ranking of memory, no speed-up: this evidence has no time."
            }
            _ => "No verdict: the program was not timed.".into(),
        };
    };
    match verdict {
        AdviceVerdict::Worth => format!("Worth it: {}{}.", speed(gain), cost(record)),
        AdviceVerdict::AlreadyOn => {
            let now = record.gained.map_or_else(String::new, |gained| {
                format!(": large pages make it {} as fast as 4KB pages now", speed(gained))
            });
            format!("Already on{now}. More of them would gain {}.", effect(gain))
        }
        AdviceVerdict::CostsMemory => format!(
            "Huge pages cost memory here and gain nothing: {}, {} as fast as 4KB pages.",
            more_memory(cost_now(record)),
            record.gained.map_or_else(|| "1×".to_owned(), speed)
        ),
        AdviceVerdict::Unclear => {
            let of_long_run = gain.of_long_run(record.first_touch_share.unwrap_or(0.0));
            let reason = if gain.low > 1.0 && of_long_run.speed - 1.0 < WORTH_EFFORT {
                "First accesses to pages bring nearly all of the gain, and only once."
            } else if gain.low > 1.0 {
                "Translation has less part in that than the error of the prediction: the rest comes from where data \
                 lie in memory, which is another place in every run."
            } else if can_measure {
                "The error of the prediction is larger than the gain; --verify measures it."
            } else {
                "The error of the prediction is larger than the gain."
            };
            format!("Not clear: {}{}. {reason}", speed(gain), cost(record))
        }
        AdviceVerdict::NotWorth if gain.speed < 1.0 - WORTH_TELLING => {
            format!("Not worth it: large pages would make it {} as fast.", speed(gain))
        }
        AdviceVerdict::NotWorth => {
            let reason =
                if gain.low <= 1.0 { ", less than the error of the prediction" } else { "" };
            let with_kernel = [with_kernel(record), between_with_kernel(record).map(|it| it.1)];
            let mut with_kernel = with_kernel.into_iter().flatten();
            let saves_work = with_kernel.any(|speed| speed > 1.0 + WORTH_TELLING);
            format!(
                "Not worth it{}: {}{reason} ({} to {}).",
                if saves_work { " for translation" } else { "" },
                effect(gain),
                signed(gain.low),
                signed(gain.high)
            )
        }
        AdviceVerdict::TooLittle => "Too little to tell.".into(),
        AdviceVerdict::Ranking => "A ranking of memory.".into(),
    }
}

/// Returns what a reader has to know with the verdict: the failure of the program, a gain that is not repeated, large
/// pages that memory lacks, a better size, and what the kernel's work changes. Empty if there is none of that.
pub(super) fn cautions(record: &AdviceRecord) -> String {
    let planned = planned_pages(record);
    let failure = record
        .failure
        .as_ref()
        .map(|failure| format!("{}: the advice is for what it did until then.", capital(failure)));
    let is_timed = record.gain.is_some();
    let share = record.first_touch_share.filter(|share| is_timed && *share > MOSTLY_FIRST_TOUCHES);
    let once = share.map(|share| {
        format!(
            "{:.0} % of the page walks with 4KB pages are the first access to a page in this trace: a program that runs for longer \
             gains by these once only, and a longer recording has fewer of them.",
            share * 100.0
        )
    });
    let is_more = |speed: &f64| record.gain.is_none_or(|gain| *speed > gain.speed + ROUNDING);
    let all_had = record.speed_of(AdviceRecord::ALL_HAD).filter(is_more).map(|speed| {
        format!("Memory has too few large pages: with all of {planned} it would be {speed:.3}×.")
    });
    let between = record.gain.and_then(|gain| better_between(record, gain)).map(|(run, speed)| {
        format!("{} for all memory would make it {speed:.3}×: more than {planned}.", run.name)
    });
    let of_planned = with_kernel(record).map(|speed| format!("{planned} make it {speed:.3}×"));
    let of_between = between_with_kernel(record).map(|(run, speed)| match of_planned {
        Some(_) => format!("{} for all memory {speed:.3}×", run.name),
        None => format!("{} for all memory make it {speed:.3}×", run.name),
    });
    let with_work: Vec<String> = [of_planned, of_between].into_iter().flatten().collect();
    let kernel = (!with_work.is_empty()).then(|| {
        format!(
            "With the kernel's work over the whole run (page faults, clearing, page tables), {}.",
            with_work.join(", and ")
        )
    });
    [failure, once, all_had, between, kernel].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Memory that the large pages of now cost: mapped memory as it is less that with 4KB pages.
fn cost_now(record: &AdviceRecord) -> f64 {
    let mapped = |name| record.run(name).map(|run| run.mapped_bytes);
    mapped(AdviceRecord::AS_IT_IS)
        .zip(mapped(AdviceRecord::SMALL))
        .map_or(0.0, |(now, small)| now - small)
}

/// A speed-up with its range, as in “1.21× (1.13 to 1.29)”.
pub(super) fn speed(speed: SpeedRecord) -> String {
    let decimals = if (speed.speed - 1.0).abs() < 0.0995 { 3 } else { 2 };
    format!("{:.decimals$}× ({})", speed.speed, range(speed, decimals))
}

/// Range of a speed-up, as in “1.13 to 1.29”. An end near 1 has as many decimals as show on which side of 1 it is.
pub(super) fn range(speed: SpeedRecord, decimals: usize) -> String {
    let end = |value: f64| {
        let shown = |decimals: &usize| {
            let step = 0.1_f64.powi(*decimals as i32);
            (value - 1.0).abs() >= step / 2.0
        };
        let decimals = (decimals..=MOST_DECIMALS).find(shown).unwrap_or(decimals);
        format!("{value:.decimals$}")
    };
    format!("{} to {}", end(speed.low), end(speed.high))
}

/// Largest number of decimals of an end of a range.
const MOST_DECIMALS: usize = 6;

/// A speed-up in percent, as in “0.4 %”.
fn effect(speed: SpeedRecord) -> String {
    percent(speed.speed - 1.0)
}

fn signed(speed: f64) -> String {
    let text = percent(speed - 1.0);
    text.replacen('-', "−", 1)
}

fn cost(record: &AdviceRecord) -> String {
    let more = more_memory(record.additional_bytes as f64);
    let sizes = other_sizes(record);
    // The gain is compared with that of 2MB pages for all memory.
    let is_part = sizes.is_empty() && record.advised_bytes < record.eligible_bytes;
    let part = record.gain_share.filter(|_| is_part);
    let part = part.map_or_else(String::new, |share| {
        let (some, all) = in_one_unit(record.advised_bytes as f64, record.eligible_bytes as f64);
        format!("; {:.0} % of the gain comes from {some} of {all}", share.min(1.0) * 100.0)
    });
    format!(" for {more}{sizes}{part}")
}

/// Sizes of the recommended pages, if they are not only 2MB, as in “, with pages of 64KB and 2MB”.
fn other_sizes(record: &AdviceRecord) -> String {
    let sizes: BTreeSet<u64> = record.ranges.iter().map(|range| range.page_bytes).collect();
    if sizes.iter().all(|bytes| *bytes == LARGE_BYTES) {
        return String::new();
    }
    let names: Vec<String> = sizes.into_iter().map(page_size).collect();
    let (last, others) = names.split_last().expect("a size is not 2MB");
    let all = match others {
        [] => last.clone(),
        others => format!("{} and {last}", others.join(", ")),
    };
    format!(", with pages of {all}")
}

/// Writes a part and a whole in megabytes, as in “210 of 6,144 MB”, unless the whole is small.
fn in_one_unit(part: f64, whole: f64) -> (String, String) {
    const MB: f64 = 1_048_576.0;
    if whole < 10.0 * MB {
        return (bytes(part), bytes(whole));
    }
    let grouped = |value: f64| exact(&((value / MB).round_ties_even() as u64).into());
    (grouped(part), grouped(whole) + " MB")
}

/// Returns the machine and its setting for which a trace was simulated; empty for other evidence.
pub(super) fn setting(record: &AdviceRecord) -> String {
    if record.evidence.kind != EvidenceKind::Trace {
        return String::new();
    }
    let machine = match record.machine.as_str() {
        HOST => "For this machine.".to_owned(),
        name => format!(
            "For the machine {name}; --machine chooses another, {HOST} this one and its memory."
        ),
    };
    format!("{machine} As it is: transparent_hugepage/enabled={}.", record.now)
}

/// Returns what the speeds of the simulated runs mean: the bound, and what their ranges are. Empty without speeds.
pub(super) fn meaning_of_speeds(record: &AdviceRecord) -> String {
    let free = record.speed_of(AdviceRecord::FREE).map(|free| {
        let speeds = record.runs.iter().filter_map(|run| run.speed);
        let bound = match speeds.into_iter().any(|run| run.speed > free + ROUNDING) {
            false => "no pages can gain more by translation",
            true => "what pages gain beyond it, they gain by where data lie in memory",
        };
        format!("Free is translation that costs nothing: {bound}.")
    });
    let error = (record.error.pairs > 0 && record.gain.is_some()).then(|| {
        format!(
            "A range has the error of {} predictions for which a measurement is known: measured effects are {:.2} to \
             {:.2} times the predicted ones in the central 80 % of them, those of less than 5 % from {} points below \
             to {} above: {}.",
            record.error.pairs,
            record.error.least_factor,
            record.error.largest_factor,
            unsigned_zero(-100.0 * record.error.least_difference),
            unsigned_zero(100.0 * record.error.largest_difference),
            record.error.sources.join(", "),
        )
    });
    [free, by_host(record), error].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Speeds of the planned run by scheme, if there are several: one for each assumption about the host.
fn by_host(record: &AdviceRecord) -> Option<String> {
    let run = record.planned_run().filter(|run| run.scheme_speeds.len() > 1)?;
    let each = run.schemes.iter().zip(&run.scheme_speeds);
    let each: Vec<String> = each.map(|(scheme, speed)| format!("{speed:.3}× ({scheme})")).collect();
    let planned = planned_pages(record);
    Some(format!(
        "Nobody inside a virtual machine sees its host's pages, so a speed is the mean over hosts with 4KB and 2MB \
         pages; of {planned}: {}.",
        each.join(", ")
    ))
}

/// Name of this machine in records.
const HOST: &str = "host";
/// Least difference of two speeds that readers see.
const ROUNDING: f64 = 0.0005;
/// Least difference that the kernel's work makes for it to be told.
const WORTH_TELLING: f64 = 0.01;

/// The fastest run with pages between 4KB and 2MB for all memory, and its speed, if that is clearly more than the
/// recommended pages gain.
fn better_between(record: &AdviceRecord, gain: SpeedRecord) -> Option<(&AdviceRun, f64)> {
    let fastest = fastest_between(record, |run| Some(run.speed?.speed))?;
    (fastest.1 - gain.speed >= WORTH_TELLING).then_some(fastest)
}

/// The fastest run with pages between 4KB and 2MB for all memory, and its speed.
fn fastest_between(
    record: &AdviceRecord,
    speed: impl Fn(&AdviceRun) -> Option<f64>,
) -> Option<(&AdviceRun, f64)> {
    let is_between = |bytes: u64| bytes > 4096 && bytes < 2 << 20;
    let runs = record.runs.iter().filter(|run| run.page_bytes.is_some_and(is_between));
    let speeds = runs.filter_map(|run| Some((run, speed(run)?)));
    speeds.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// The fastest run with pages between 4KB and 2MB for all memory, and its speed with the kernel's work, if that is
/// clearly more than the speed of the planned run.
fn between_with_kernel(record: &AdviceRecord) -> Option<(&AdviceRun, f64)> {
    let planned = record.planned_run()?.speed_with_kernel?;
    let fastest = fastest_between(record, |run| run.speed_with_kernel)?;
    (fastest.1 - planned >= WORTH_TELLING).then_some(fastest)
}

/// Speed of the recommended run with the kernel's work, if that makes a difference.
fn with_kernel(record: &AdviceRecord) -> Option<f64> {
    let run = record.planned_run()?;
    let speed = run.speed_with_kernel?;
    ((speed - run.speed?.speed).abs() >= WORTH_TELLING).then_some(speed)
}

/// Returns the kind of evidence in a sentence.
pub(super) fn evidence(record: &AdviceRecord) -> String {
    let kind = record.evidence.kind;
    let (letter, name) = (kind.letter(), kind.name());
    let sentence = format!("Evidence {letter}, {name}: {}.", record.evidence.description);
    [&sentence, kind.limits()].join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use perforate_records::{AdviceEvidence, AdviceRange, GainRatio, Judgement, Verification};

    use super::*;

    const MB: u64 = 1 << 20;

    fn record(kind: AdviceVerdict, gain: (f64, f64, f64)) -> AdviceRecord {
        let (speed, low, high) = gain;
        AdviceRecord {
            verdict: kind,
            gain: Some(SpeedRecord { speed, sampling_half_width: 0.0, low, high }),
            additional_bytes: 38 << 20,
            advised_bytes: 210 * MB,
            eligible_bytes: 6144 * MB,
            gain_share: Some(0.84),
            ..AdviceRecord::default()
        }
    }

    #[test]
    fn a_range_without_an_error_below_has_no_sign() {
        let mut record = record(AdviceVerdict::Worth, (1.21, 1.13, 1.29));
        record.error.pairs = 1;
        (record.error.least_difference, record.error.largest_difference) = (0.0, 0.17);
        let text = meaning_of_speeds(&record);
        assert!(text.contains("from 0.0 points below to 17.0 above"), "{text}");
    }

    #[test]
    fn each_verdict_has_its_sentence() {
        let worth = record(AdviceVerdict::Worth, (1.21, 1.13, 1.29));
        assert_eq!(
            verdict(&worth),
            "Worth it: 1.21× (1.13 to 1.29) for 38.0 MB more; 84 % of the gain comes from 210 of 6,144 MB."
        );
        let with = |sizes: &[u64]| {
            let range = |&page_bytes| AdviceRange { page_bytes, ..AdviceRange::default() };
            verdict(&AdviceRecord { ranges: sizes.iter().map(range).collect(), ..worth.clone() })
        };
        // The share compares with 2MB pages for all memory, so other page sizes have none.
        assert!(
            with(&[2 * MB, 65536, 2 * MB]).ends_with("38.0 MB more, with pages of 64KB and 2MB.")
        );
        assert!(with(&[16384]).ends_with(" more, with pages of 16KB."));
        assert_eq!(with(&[2 * MB]), verdict(&worth));
        let all = AdviceRecord { advised_bytes: 6144 * MB, ..worth };
        assert_eq!(verdict(&all), "Worth it: 1.21× (1.13 to 1.29) for 38.0 MB more.");
        let not = record(AdviceVerdict::NotWorth, (1.004, 0.99, 1.02));
        assert_eq!(
            verdict(&not),
            "Not worth it: 0.4 %, less than the error of the prediction (−1.0 % to 2.0 %)."
        );
        let slower = verdict(&record(AdviceVerdict::NotWorth, (0.85, 0.74, 0.95)));
        assert_eq!(slower, "Not worth it: large pages would make it 0.85× (0.74 to 0.95) as fast.");
        let gained = SpeedRecord { speed: 1.12, sampling_half_width: 0.0, low: 1.05, high: 1.15 };
        let on = AdviceRecord {
            gained: Some(gained),
            ..record(AdviceVerdict::AlreadyOn, (1.002, 1.0, 1.0))
        };
        assert_eq!(
            verdict(&on),
            "Already on: large pages make it 1.12× (1.05 to 1.15) as fast as 4KB pages now. More of them would \
             gain 0.2 %."
        );
        let run = |name: &str, bytes: u64| AdviceRun {
            name: name.into(),
            mapped_bytes: bytes as f64,
            ..AdviceRun::default()
        };
        let costs = AdviceRecord {
            runs: vec![run(AdviceRecord::AS_IT_IS, 220 * MB), run(AdviceRecord::SMALL, 100 * MB)],
            ..record(AdviceVerdict::CostsMemory, (1.0, 0.99, 1.0))
        };
        assert_eq!(
            verdict(&costs),
            "Huge pages cost memory here and gain nothing: 120 MB more, 1× as fast as 4KB pages."
        );
        let unclear = verdict(&record(AdviceVerdict::Unclear, (1.03, 0.99, 1.06)));
        assert!(
            unclear.starts_with("Not clear: 1.030× (0.990 to 1.060) for 38.0 MB more"),
            "{unclear}"
        );
        let once = AdviceRecord {
            first_touch_share: Some(0.97),
            ..record(AdviceVerdict::Unclear, (1.2, 1.1, 1.3))
        };
        let text = verdict(&once);
        assert!(
            text.ends_with(
                ". First accesses to pages bring nearly all of the gain, and only once."
            ),
            "{text}"
        );
        let none = AdviceRecord { gain: None, ..record(AdviceVerdict::Ranking, (1.0, 1.0, 1.0)) };
        assert!(verdict(&none).contains("A ranking"));
        let little = AdviceRecord {
            gain: None,
            evidence: AdviceEvidence { accesses: Some(1), ..AdviceEvidence::default() },
            ..record(AdviceVerdict::TooLittle, (1.0, 1.0, 1.0))
        };
        assert_eq!(
            verdict(&little),
            "Too little to tell: 1 data access, and a verdict needs 100,000."
        );
    }

    /// The rule of the verdict is that the lower end is above 1, so a reader has to see on which side of 1 it is.
    #[test]
    fn ends_of_ranges_are_seen_to_differ_from_1() {
        let range_of = |low, high| {
            let speed = SpeedRecord { speed: 1.084, sampling_half_width: 0.0, low, high };
            super::speed(speed)
        };
        assert_eq!(range_of(1.0002, 1.191), "1.084× (1.0002 to 1.191)");
        assert_eq!(range_of(0.99996, 1.0), "1.084× (0.99996 to 1.000)");
        assert_eq!(range_of(1.0006, 1.1), "1.084× (1.001 to 1.100)");
    }

    #[test]
    fn a_failure_and_a_gain_that_is_not_repeated_are_told_with_the_verdict() {
        let worth = record(AdviceVerdict::Worth, (1.2, 1.1, 1.3));
        let with =
            |share| cautions(&AdviceRecord { first_touch_share: Some(share), ..worth.clone() });
        assert_eq!((cautions(&worth), with(0.5)), (String::new(), String::new()));
        let once = with(0.84);
        assert!(
            once.starts_with("84 % of the page walks with 4KB pages are the first access"),
            "{once}"
        );
        let failed = AdviceRecord {
            failure: Some("the program ended with exit code 7".into()),
            first_touch_share: Some(1.0),
            ..worth
        };
        let text = crate::advice::advice_text(&failed, 1000);
        assert!(
            text.lines().next().unwrap().contains(
                "The program ended with exit code 7: the advice is for what it did until then. 100 % of the page walks"
            ),
            "{text}"
        );
    }

    /// Only a program can be measured, and only once.
    #[test]
    fn what_was_measured_comes_first_and_what_can_be_is_hinted_at() {
        let simulated = record(AdviceVerdict::Unclear, (1.03, 0.99, 1.06));
        let error = "The error of the prediction is larger than the gain";
        assert!(verdict(&simulated).ends_with(&format!("{error}.")), "{}", verdict(&simulated));
        let program = AdviceRecord { is_measurable: true, ..simulated };
        let text = verdict(&program);
        assert!(text.ends_with(&format!("{error}; --verify measures it.")), "{text}");
        let measured = |unmeasured: Option<&str>| {
            let ratio = |ratio, low, high| GainRatio { ratio, low, high };
            let mut record = program.clone();
            record.add_verification(Verification {
                measured: ratio(1.05, 1.02, 1.08),
                predicted: Some(ratio(1.04, 0.97, 1.1)),
                judgement: Some(Judgement::WithinError).filter(|_| unmeasured.is_none()),
                unmeasured: unmeasured.map(Into::into),
                ..Verification::default()
            });
            verdict(&record)
        };
        let simulated = "Not clear: 1.030× (0.990 to 1.060) for 38.0 MB more; 84 % of the gain comes from 210 of \
                         6,144 MB. The error of the prediction is larger than the gain.";
        assert_eq!(
            measured(None),
            format!(
                "Worth it: measured 1.050× (1.020 to 1.080) by processor time (as it is ÷ with advice). Predicted: \
                 1.040× (0.970 to 1.100): within the error. The simulation said: {simulated}"
            )
        );
        assert_eq!(measured(Some("a reason")), format!("{simulated} Not measured: a reason."));
        let failed =
            AdviceRecord { verification_failure: Some("it failed".into()), ..program.clone() };
        assert_eq!(verdict(&failed), format!("{simulated} Not measured: it failed."));
    }

    #[test]
    fn large_pages_that_memory_lacks_are_told() {
        let run = |name: &str, speed| AdviceRun {
            name: name.into(),
            speed: Some(SpeedRecord { speed, sampling_half_width: 0.0, low: 0.9, high: 1.3 }),
            ..AdviceRun::default()
        };
        let mut advice = record(AdviceVerdict::Worth, (1.05, 1.01, 1.1));
        advice.runs = vec![run(AdviceRecord::ALL_LARGE, 1.05)];
        assert_eq!(cautions(&advice), "");
        advice.runs.push(run(AdviceRecord::ALL_HAD, 1.105));
        assert_eq!(
            cautions(&advice),
            "Memory has too few large pages: with all of the recommended pages it would be 1.105×."
        );
        advice.gain = Some(SpeedRecord { speed: 1.11, ..advice.gain.unwrap() });
        assert_eq!(cautions(&advice), "", "more of them gain no more");
    }

    #[test]
    fn a_better_size_between_is_told() {
        let run = |bytes: u64, speed| AdviceRun {
            name: format!("{}KB pages", bytes >> 10),
            page_bytes: Some(bytes),
            speed: Some(SpeedRecord { speed, sampling_half_width: 0.0, low: 0.9, high: 1.3 }),
            ..AdviceRun::default()
        };
        let told = |runs: Vec<AdviceRun>| {
            let record = AdviceRecord { runs, ..record(AdviceVerdict::Worth, (1.05, 1.01, 1.1)) };
            cautions(&record)
        };
        let text = told(vec![run(4096, 1.2), run(16 << 10, 1.07), run(64 << 10, 1.08)]);
        assert!(text.contains("64KB pages for all memory would make it 1.080×: more"), "{text}");
        let text = told(vec![run(4096, 1.2), run(64 << 10, 1.059), run(2 << 20, 1.2)]);
        assert!(!text.contains("more than the recommended"), "{text}");
    }

    #[test]
    fn sizes_have_one_unit() {
        assert_eq!(in_one_unit(210.4e6, 6.5e9), ("201".into(), "6,199 MB".into()));
        assert_eq!(in_one_unit(4096.0, 8192.0), ("4.00 KB".into(), "8.00 KB".into()));
    }

    /// Limits of decimals, of what is told, and of units.
    #[test]
    fn what_is_told_depends_on_the_size_of_the_effect() {
        let shown = |value: f64| {
            speed(SpeedRecord { speed: value, sampling_half_width: 0.0, low: 0.5, high: 1.5 })
        };
        for (value, text) in
            [(1.0994, "1.099×"), (1.0996, "1.10×"), (0.9006, "0.901×"), (0.9004, "0.90×")]
        {
            assert_eq!(shown(value).split(' ').next().unwrap(), text);
        }
        for (speed, is_slower) in [(0.991, false), (0.989, true)] {
            let text = verdict(&record(AdviceVerdict::NotWorth, (speed, 0.9, 1.1)));
            assert_eq!(text.contains("large pages would make it"), is_slower, "{text}");
        }
        let text = verdict(&record(AdviceVerdict::NotWorth, (1.01, 1.001, 1.02)));
        assert_eq!(text, "Not worth it: 1.0 % (0.1 % to 2.0 %).");
        let text = verdict(&record(AdviceVerdict::Unclear, (1.03, 1.001, 1.06)));
        assert!(text.contains("Translation has less part in that than the error"), "{text}");
        let worth = record(AdviceVerdict::Worth, (1.2, 1.1, 1.3));
        let share = |share: f64, advised: u64| {
            verdict(&AdviceRecord {
                gain_share: Some(share),
                advised_bytes: advised,
                additional_bytes: 0,
                ..worth.clone()
            })
        };
        assert!(
            share(1.2, 6143 * MB)
                .contains("no more memory; 100 % of the gain comes from 6,143 of 6,144 MB")
        );
        assert!(!share(0.5, 6144 * MB).contains("of the gain"));
        let less = AdviceRecord { additional_bytes: -3 * MB as i64, ..worth };
        assert!(verdict(&less).contains(" for 3.00 MB less; "), "{}", verdict(&less));
        let mb = 1_048_576.0;
        assert_eq!(in_one_unit(mb, 10.0 * mb), ("1".into(), "10 MB".into()));
        assert_eq!(in_one_unit(mb, 9.99 * mb), ("1.00 MB".into(), "9.99 MB".into()));
        assert_eq!(
            in_one_unit(1e5 * mb, 1_234_567.0 * mb),
            ("100,000".into(), "1,234,567 MB".into())
        );
    }

    /// The kernel's work and pages of sizes between are told from 1 % on; what is beyond free translation from half
    /// a thousandth on.
    #[test]
    fn reasons_are_told_if_they_make_a_difference() {
        let run =
            |name: &str, page_bytes: Option<u64>, speed: f64, with_kernel: Option<f64>| AdviceRun {
                name: name.into(),
                page_bytes,
                speed: Some(SpeedRecord { speed, sampling_half_width: 0.0, low: 0.9, high: 1.3 }),
                speed_with_kernel: with_kernel,
                ..AdviceRun::default()
            };
        let with_runs = |runs: Vec<AdviceRun>| AdviceRecord {
            runs,
            ..record(AdviceVerdict::Worth, (1.05, 1.01, 1.1))
        };
        let told = |runs: Vec<AdviceRun>| cautions(&with_runs(runs));
        let kernel = |with: f64| told(vec![run("recommended", None, 1.05, Some(with))]);
        for (with, is_told) in [(1.0601, true), (1.0599, false), (1.0401, false), (1.0399, true)] {
            let sentence = format!(
                "(page faults, clearing, page tables), the recommended pages make it {with:.3}×."
            );
            assert_eq!(kernel(with).contains(&sentence), is_told, "{with}");
        }
        let both = |small: f64| {
            told(vec![
                run("recommended", None, 1.05, Some(1.2)),
                run("64KB pages", Some(65536), 1.0, Some(small)),
            ])
        };
        assert!(both(1.211).ends_with("make it 1.200×, and 64KB pages for all memory 1.211×."));
        assert!(both(1.209).ends_with("make it 1.200×."));
        let not_worth = |with: f64| {
            let runs = vec![run("all large", None, 1.0, Some(with))];
            let record = record(AdviceVerdict::NotWorth, (1.0, 0.99, 1.01));
            verdict(&AdviceRecord { runs, ..record })
        };
        assert!(not_worth(1.02).starts_with("Not worth it for translation: 0.0 %"));
        assert!(not_worth(1.005).starts_with("Not worth it: 0.0 %"));
        // Of a plan for all memory the run is that with large pages; without a plan there is none.
        assert!(told(vec![run("all large", None, 1.0, Some(1.1))]).contains("make it 1.100×."));
        assert!(!told(vec![run("4KB pages", Some(4096), 1.0, Some(1.1))]).contains("kernel"));
        let between =
            |bytes: u64, speed: f64| told(vec![run("these pages", Some(bytes), speed, None)]);
        for (bytes, speed, is_told) in [
            (8192, 1.0601, true),
            (8192, 1.0599, false),
            (1 << 20, 1.2, true),
            (4096, 1.2, false),
            (2 << 20, 1.2, false),
        ] {
            let text = between(bytes, speed);
            assert_eq!(
                text.contains("these pages for all memory would make it"),
                is_told,
                "{text}"
            );
        }
        let free = |others: f64| {
            let runs = vec![run("free", None, 1.1, None), run("x", None, others, None)];
            meaning_of_speeds(&with_runs(runs))
        };
        assert_eq!(
            free(1.1004),
            "Free is translation that costs nothing: no pages can gain more by translation."
        );
        assert_eq!(
            free(1.1006),
            "Free is translation that costs nothing: what pages gain beyond it, they gain by where data lie in memory."
        );
        assert_eq!(meaning_of_speeds(&with_runs(vec![run("x", None, 1.1, None)])), "");
        let over_hosts = AdviceRun {
            schemes: vec!["thp+4k".into(), "thp+thp".into()],
            scheme_speeds: vec![1.04, 1.0604],
            ..run("all large", None, 1.05, None)
        };
        let one = AdviceRun { scheme_speeds: vec![1.05], ..over_hosts.clone() };
        assert_eq!(meaning_of_speeds(&with_runs(vec![one])), "");
        assert_eq!(
            meaning_of_speeds(&with_runs(vec![over_hosts])),
            "Nobody inside a virtual machine sees its host's pages, so a speed is the mean over hosts with 4KB and 2MB \
             pages; of the recommended pages: 1.040× (thp+4k), 1.060× (thp+thp)."
        );
        let of = |machine: &str| {
            let record = record(AdviceVerdict::Worth, (1.05, 1.01, 1.1));
            setting(&AdviceRecord { machine: machine.into(), now: "madvise".into(), ..record })
        };
        let now = "As it is: transparent_hugepage/enabled=madvise.";
        assert_eq!(of("host"), format!("For this machine. {now}"));
        assert_eq!(
            of("zen4"),
            format!(
                "For the machine zen4; --machine chooses another, host this one and its memory. {now}"
            )
        );
    }
}
