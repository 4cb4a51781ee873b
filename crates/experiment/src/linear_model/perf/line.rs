//! Parser for a line of `perf stat -x,`, and the events that the models use.

/// An input of the models, and the perf events that count it. The first event that perf counted is used.
pub(super) struct Figure {
    pub(super) meaning: &'static str,
    pub(super) events: &'static [&'static str],
}

pub(super) const CYCLES: Figure = Figure {
    meaning: "cycles",
    events: &["cycles", "cpu-cycles", "cpu_clk_unhalted.thread", "cpu_clk_unhalted.core"],
};
/// Events for the walk cycles of loads. `walk_duration` exists from Sandy Bridge to Broadwell. `walk_active`
/// (from Skylake) counts cycles with at least one walk; `walk_pending` counts each of several overlapping
/// walks.
pub(super) const LOAD_WALK_CYCLES: Figure = Figure {
    meaning: "walk cycles of loads",
    events: &[
        "dtlb_load_misses.walk_duration",
        "dtlb_load_misses.walk_active",
        "dtlb_load_misses.walk_pending",
    ],
};
pub(super) const STORE_WALK_CYCLES: Figure = Figure {
    meaning: "walk cycles of stores",
    events: &[
        "dtlb_store_misses.walk_duration",
        "dtlb_store_misses.walk_active",
        "dtlb_store_misses.walk_pending",
    ],
};
/// Events for the walks of loads. The first one is the event behind `dtlb-load-misses` on Intel processors.
pub(super) const LOAD_MISSES: Figure = Figure {
    meaning: "walks of loads",
    events: &[
        "dtlb_load_misses.miss_causes_a_walk",
        "dtlb-load-misses",
        "dtlb_load_misses.walk_completed",
    ],
};
pub(super) const STORE_MISSES: Figure = Figure {
    meaning: "walks of stores",
    events: &[
        "dtlb_store_misses.miss_causes_a_walk",
        "dtlb-store-misses",
        "dtlb_store_misses.walk_completed",
    ],
};
pub(super) const FIGURES: [&Figure; 5] =
    [&CYCLES, &LOAD_WALK_CYCLES, &LOAD_MISSES, &STORE_WALK_CYCLES, &STORE_MISSES];

/// List of the accepted events, for a help text.
pub const ACCEPTED_EVENTS: &str = "\
cycles           cycles, cpu-cycles, cpu_clk_unhalted.thread, cpu_clk_unhalted.core
  walk cycles      dtlb_load_misses.{walk_duration, walk_active or walk_pending}
  misses           dtlb_load_misses.miss_causes_a_walk, dTLB-load-misses,
                   dtlb_load_misses.walk_completed
  and if all files have both, the walk cycles and misses of dtlb_store_misses, dTLB-store-misses
  (Intel's names; AMD's processors have no event for the cycles of walks)";

/// Count of one event that the models use, from one line of perf's output.
pub(super) struct Entry {
    pub(super) event: String,
    /// Count of the event; `None` if perf could not count it.
    pub(super) value: Option<f64>,
    pub(super) is_scaled: bool,
}

const SEPARATORS: [char; 4] = [',', ';', '|', '\t'];

impl Entry {
    /// Parses a line of perf's output; `Ok(None)` if the models do not use its event.
    pub(super) fn parse(line: &str) -> Result<Option<Self>, String> {
        let split = |separator: char| line.split(separator).map(str::trim).collect::<Vec<_>>();
        let known = |fields: &[&str]| fields.iter().position(|field| event_name(field).is_some());
        let found = SEPARATORS.iter().find_map(|&separator| {
            let fields = split(separator);
            known(&fields).map(|place| (fields, place))
        });
        let Some((fields, place)) = found else {
            let is_table = SEPARATORS.iter().any(|&separator| line.contains(separator));
            return if is_table { Ok(None) } else { Err(unreadable(line)) };
        };
        let event = event_name(fields[place]).expect("it was found by that");
        let Some(text) = place.checked_sub(2).map(|place| fields[place]) else {
            return Err(format!(
                "{} without a count; expected value,unit,event as `perf stat -x,` writes it",
                fields[place]
            ));
        };
        let value = match text {
            "<not counted>" | "<not supported>" => None,
            _ => Some(number(text).ok_or_else(|| {
                format!("{text:?} is no count of {}; expected a number", fields[place])
            })?),
        };
        // With perf's option `-r`, a standard deviation may precede the counter's run time and share.
        let after = fields[place + 1..].iter().filter(|field| !field.ends_with('%')).nth(1);
        let share = after.and_then(|share| number(share)).filter(|_| value.is_some());
        let is_scaled = share.is_some_and(|share| share < 99.5);
        Ok(Some(Self { event, value, is_scaled }))
    }
}

fn unreadable(line: &str) -> String {
    let start: String = line.chars().take(40).collect();
    format!("{start:?} is no line of `perf stat -x,`; expected value,unit,event,…")
}

/// Parses a count, which may have a decimal comma if the separator of fields is another character.
fn number(text: &str) -> Option<f64> {
    let value: f64 = text.replace(',', ".").parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// Returns the event's name without unit and modifiers, in lower case; `None` if the models do not use the
/// event.
fn event_name(field: &str) -> Option<String> {
    let lower = field.to_ascii_lowercase();
    let mut name = lower.as_str();
    // For example cpu_core/cycles/u and cpu/cycles/.
    if let Some((unit, rest)) = name.split_once('/')
        && unit.starts_with("cpu")
    {
        name = rest.rsplit_once('/').map_or(rest, |(name, _modifiers)| name);
    }
    let name = name.split_once(':').map_or(name, |(name, _modifiers)| name);
    let known = FIGURES.iter().flat_map(|figure| figure.events).any(|event| *event == name);
    known.then(|| name.to_owned())
}
