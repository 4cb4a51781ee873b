//! `perforate list`: lists of everything that has a name.

use crate::actions::Failure;
use clap::{Args, ValueEnum};
use perforate_config::{Key, keys, words_of};
use perforate_experiment::Experiment;
use perforate_os::{
    AgeingPreset, ContentDistribution, Fragmentation, HardFaultConfig, KhugepagedConfig, KsmConfig,
    SelfBalloonConfig,
};
use perforate_report::text::wrapped;
use perforate_schemes::gap_tolerant::SuperpageOptions;
use perforate_schemes::perforated::PerforationOptions;
use perforate_schemes::segment::SegmentOptions;
use perforate_sim::{Machine, MeasuringOptions, MemoryOptions, PlacementOptions, scheme};
use perforate_types::Counter;
use perforate_workloads::WORKLOADS;

use crate::experiment;
use crate::output::{described, print, text_columns};
use perforate_config::Table as _;
use perforate_trace::bundled;

/// List schemes, workloads, machines, ways to age memory, options of policies, counters or experiments.
#[derive(Args)]
pub struct ListArguments {
    /// What to list [default: all of them]
    #[arg(ignore_case = true, value_name = "WHAT")]
    topic: Option<Topic>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Topic {
    /// Translation schemes
    Schemes,
    /// Synthetic workloads with their parameters, and bundled traces
    Workloads,
    /// Machines
    Machines,
    /// Options of a run and of its memory
    Options,
    /// Histories that age memory
    Ageing,
    /// Policies of page sizes as scripts
    Policies,
    /// Options of the policy for perforated pages
    Perforation,
    /// Options of the policy for direct segments
    Segment,
    /// Options of the policy for gap-tolerant superpages
    Superpages,
    /// Counters in results
    Counters,
    /// Tables and figures of the papers
    Experiments,
}

/// Width of the column with names of counters and their units, in characters.
const NAME_COLUMNS: usize = 44;

/// Prints one list, or all of them.
pub fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let sections = [
        (Topic::Schemes, schemes as fn() -> String),
        (Topic::Workloads, workloads),
        (Topic::Machines, machines),
        (Topic::Options, all_options),
        (Topic::Ageing, ageing),
        (Topic::Policies, policies),
        (Topic::Perforation, || {
            options(
                "Policy for perforated pages (--perforation KEY=VALUE,…)",
                &keys::<PerforationOptions>(),
            )
        }),
        (Topic::Segment, || {
            options("Policy for direct segments (--segment KEY=VALUE,…)", &keys::<SegmentOptions>())
        }),
        (Topic::Superpages, || {
            options(
                "Policy for gap-tolerant superpages (--superpages KEY=VALUE,…)",
                &keys::<SuperpageOptions>(),
            )
        }),
        (Topic::Counters, counters),
        (Topic::Experiments, || experiment::list(&Experiment::bundled())),
    ];
    let texts: Vec<String> = sections
        .iter()
        .filter(|(topic, _)| arguments.topic.is_none_or(|chosen| chosen == *topic))
        .map(|(_, text)| text())
        .collect();
    print(&texts.join("\n"))
}

fn schemes() -> String {
    let mut text = "Schemes\n".to_owned();
    for scheme in scheme::all().chain(scheme::hosts_only()) {
        text += &described("  ", scheme.name, 21, scheme.summary);
        text += &described("  ", "", 21, &format!("source: {}", scheme.source));
    }
    text += "  GUEST+HOST            any scheme in a virtual machine over any of its host, for example\n";
    text += "                        4k+thp; not two different TLB variants of perforated pages\n";
    text
}

fn workloads() -> String {
    let mut text = "Workloads (NAME or NAME:KEY=VALUE,…) [default]\n".to_owned();
    for workload in WORKLOADS {
        text += &described("  ", workload.name, 12, workload.summary);
        text += &described("  ", "", 12, &format!("such as {}", workload.example));
        text += &lines("    ", &workload.options());
    }
    text += "\nBundled traces of real programs\n";
    let traces = bundled::all();
    if traces.is_empty() {
        text += "  none found; PERFORATE_TRACES names their folder\n";
    }
    for (name, path) in traces {
        let mark = if name == bundled::DEFAULT { " (default)" } else { "" };
        text += &format!("  {name:<20} {}{mark}\n", describe(&path));
    }
    text
}

fn describe(path: &std::path::Path) -> String {
    match perforate_trace::open(path) {
        Ok(source) => match source.metadata().instructions {
            Some(count) => format!("{:.1} M instructions", count as f64 / 1e6),
            None => String::new(),
        },
        Err(error) => error.to_string(),
    }
}

/// Lists the bundled machines with their summaries.
pub fn machines() -> String {
    let mut text = "Machines\n".to_owned();
    for machine in Machine::bundled() {
        let mark = if machine.name == Machine::DEFAULT { " (default)" } else { "" };
        text += &described("  ", &machine.name, 20, &format!("{}{mark}", machine.summary));
    }
    text
}

fn all_options() -> String {
    let run = [PlacementOptions::keys(), MeasuringOptions::keys()].concat();
    let memory: Vec<Key> =
        MemoryOptions::keys().into_iter().filter(|key| !key.name.starts_with("host-")).collect();
    [
        options("Runs (--KEY VALUE; experiments: KEY = VALUE)", &run),
        options("Memory (likewise; of the host under a virtual machine --host-KEY)", &memory),
        options("Injected fragmentation (--fragmentation KEY=VALUE,…)", &keys::<Fragmentation>()),
        options("Background promotion (--khugepaged every=N,…)", &keys::<KhugepagedConfig>()),
        options("Same-page merging (--ksm every=N,…)", &keys::<KsmConfig>()),
        options("Frames that fail (--hard-faults every=N,…)", &keys::<HardFaultConfig>()),
        options("Self-ballooning (--self-balloon every=N,…)", &keys::<SelfBalloonConfig>()),
        options("What is on the pages (--contents KEY=VALUE,…)", &keys::<ContentDistribution>()),
    ]
    .join("\n")
}

fn ageing() -> String {
    let mut text =
        "Ageing (--age PRESET[,unusable=U%][,slab=S%][,pinned=P%][,free=F%])\n".to_owned();
    for preset in words_of::<AgeingPreset>() {
        text += &described("  ", &preset.name, 14, &preset.help);
    }
    text
}

fn policies() -> String {
    let mut text =
        "Policies (--policy NAME|FILE, for scripted and perforated-scripted)\n".to_owned();
    for (name, about) in scheme::scripted::bundled() {
        text += &described("  ", name, 14, &about);
    }
    text
}

/// Lists counters by heading, each with its unit and meaning.
fn counters() -> String {
    let counters = perforate_sim::counters();
    let mut text = "Counters (name, unit, what it is)\n".to_owned();
    let mut groups: Vec<&str> = Vec::new();
    for Counter { group, .. } in &counters {
        if groups.contains(group) {
            continue;
        }
        groups.push(group);
        text += &format!("\n{group}\n");
        for counter in counters.iter().filter(|counter| counter.group == *group) {
            let name = format!("  {} ({})", counter.id, counter.unit.name());
            // The meaning is beside a short name, and below a long one.
            let (above, beside) = match name.len() < NAME_COLUMNS {
                true => (String::new(), name),
                false => (name + "\n", String::new()),
            };
            let lead = format!("{beside:<NAME_COLUMNS$}");
            text += &above;
            text += &wrapped(&lead, &counter.meaning, text_columns());
        }
    }
    text
}

fn options(title: &str, options: &[Key]) -> String {
    format!("{title} [default]\n{}", lines("  ", options))
}

/// Width of the column with options and their forms, in characters.
const OPTION_COLUMNS: usize = 38;

fn lines(indent: &str, options: &[Key]) -> String {
    let line = |Key { name, form, default, help, .. }: &Key| {
        let option = format!("{name}={form}");
        // The help of some options describes the default in words.
        let is_said = default.is_empty() || help.contains("[default");
        let default = if is_said { String::new() } else { format!(" [{default}]") };
        described(indent, &option, OPTION_COLUMNS, &format!("{help}{default}"))
    };
    options.iter().map(line).collect()
}
