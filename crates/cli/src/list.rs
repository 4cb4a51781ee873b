//! `perforate list`.

use clap::{Args, ValueEnum};
use perforate_config::{Key, keys, words_of};
use perforate_os::{AgeingPreset, PerforationOptions, SegmentOptions, SuperpageOptions};
use perforate_sim::{Machine, scheme};
use perforate_trace::WORKLOADS;

use crate::experiment;
use crate::failure::Failure;
use crate::output::print;
use perforate_trace::bundled;

/// List schemes, workloads, machines, ways to age memory, options of policies or experiments.
#[derive(Args)]
pub struct ListArguments {
    /// What to list [default: all of them]
    what: Option<What>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Translation schemes
    Schemes,
    /// Synthetic workloads with their parameters, and bundled traces
    Workloads,
    /// Machines
    Machines,
    /// What ages memory
    Ageing,
    /// Options of the policy for perforated pages
    Perforation,
    /// Options of the policy for direct segments
    Segment,
    /// Options of the policy for gap-tolerant superpages
    Superpages,
    /// Tables and figures of the papers
    Experiments,
}

/// Prints the lists.
pub fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let sections = [
        (What::Schemes, schemes as fn() -> String),
        (What::Workloads, workloads),
        (What::Machines, machines),
        (What::Ageing, ageing),
        (What::Perforation, perforation),
        (What::Segment, segment),
        (What::Superpages, superpages),
        (What::Experiments, experiment::list),
    ];
    let wanted: Vec<String> = sections
        .iter()
        .filter(|(what, _)| arguments.what.is_none_or(|wanted| wanted == *what))
        .map(|(_, text)| text())
        .collect();
    print(&wanted.join("\n"))
}

fn schemes() -> String {
    let mut text = "Schemes\n".to_owned();
    for scheme in scheme::ALL.iter().chain(scheme::HOSTS_ONLY) {
        text += &format!("  {:<21} {}\n", scheme.name, scheme.summary);
        text += &format!("  {:<21} source: {}\n", "", scheme.source);
    }
    text += "  GUEST+HOST            any scheme in a virtual machine over any of its host, for example\n";
    text += "                        4k+thp; not two different TLB variants of perforated pages\n";
    text
}

fn workloads() -> String {
    let mut text = "Workloads (name:key=value,…)\n".to_owned();
    for workload in WORKLOADS {
        text += &format!("  {:<12} {}\n", workload.name, workload.summary);
        for parameter in workload.parameters {
            let default = match parameter.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            text += &format!("    {:<12} {}{default}\n", parameter.name, parameter.help);
        }
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

fn machines() -> String {
    let mut text = "Machines\n".to_owned();
    for machine in Machine::bundled() {
        let mark = if machine.name == Machine::DEFAULT { " (default)" } else { "" };
        text += &format!("  {:<20} {}{mark}\n", machine.name, machine.summary);
    }
    text
}

fn ageing() -> String {
    let mut text = "Ageing (--age PRESET[,unusable=U%][,free=F%])\n".to_owned();
    for preset in words_of::<AgeingPreset>() {
        text += &format!("  {:<14} {}\n", preset.name, preset.help);
    }
    text
}

fn perforation() -> String {
    options(
        "Policy for perforated pages (--perforation KEY=VALUE,…)",
        &keys::<PerforationOptions>(),
    )
}

fn superpages() -> String {
    options(
        "Policy for gap-tolerant superpages (--superpages KEY=VALUE,…)",
        &keys::<SuperpageOptions>(),
    )
}

fn segment() -> String {
    options("Policy for direct segments (--segment KEY=VALUE,…)", &keys::<SegmentOptions>())
}

fn options(title: &str, options: &[Key]) -> String {
    let mut text = format!("{title} [default]\n");
    for Key { name, form, default, help, .. } in options {
        let option = format!("{name}={form}");
        text += &format!("  {option:<38} {help} [{default}]\n");
    }
    text
}
