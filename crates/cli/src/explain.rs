//! `perforate explain`.

use clap::Args;
use perforate_config::{Address, ConfigError};
use perforate_mmu::Case;
use perforate_report::text::{Column, columns};
use perforate_sim::{Composition, Explanation, SimError, Situation};
use perforate_types::VirtualAddress;

use crate::failure::Failure;
use crate::options::{PlacementArguments, part_of};
use crate::output::{COLUMNS, notes, print};
use crate::sections;

/// Instructions run before explaining where no number is given.
const DEFAULT_INSTRUCTIONS: u64 = 1_000_000;

/// Show one translation step by step.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate explain                             telling addresses of the random workload
  perforate explain 0x7f0000003000 --scheme perforated
  perforate explain 0x7f0000003000 --scheme 4k --machine ice-lake-sp
  perforate explain --set walker.l2_tlb_cycles=7 --set walk_cache.level2_entries=64

Cycles are those of an idle machine, with empty data caches and with every line read in the
first-level cache. Cases 1–7 are those of P §IV.D.")]
pub struct ExplainArguments {
    /// Virtual addresses, hexadecimal with 0x or decimal [default: telling ones are chosen]
    #[arg(value_name = "ADDRESS", value_parser = address, help_heading = sections::WHAT)]
    addresses: Vec<u64>,
    /// Trace or workload that is run first, 1 M instructions of it
    ///
    /// --instructions says how many others
    #[arg(
        long,
        value_name = "TRACE|WORKLOAD",
        default_value = "random",
        help_heading = sections::WHAT
    )]
    workload: String,
    /// The scheme
    #[arg(
        long,
        value_name = "NAME",
        default_value = "perforated",
        help_heading = sections::SCHEMES
    )]
    scheme: String,
    #[command(flatten)]
    placement: PlacementArguments,
}

fn address(text: &str) -> Result<u64, String> {
    let Address(address) = text.parse().map_err(|error: ConfigError| error.to_string())?;
    if address >> 47 != 0 {
        return Err("not a user address of x86-64 (47 bits)".into());
    }
    Ok(address)
}

/// Explains the translations.
pub fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let (placement, memory) = (arguments.placement.read()?, arguments.placement.memory()?);
    let machine = arguments.placement.machine()?;
    let mut workload = part_of(Some(&arguments.workload), &placement);
    workload.instructions.get_or_insert(DEFAULT_INSTRUCTIONS);
    let schemes = Composition::list(&arguments.scheme).map_err(SimError::from)?;
    let [scheme] = schemes.as_slice() else {
        return Err(Failure::Usage("explain takes one scheme".into()));
    };
    arguments.placement.check_effects(&schemes)?;
    let addresses: Vec<VirtualAddress> =
        arguments.addresses.iter().map(|&address| VirtualAddress::new(address)).collect();
    let seed = placement.seed.get();
    let explained =
        perforate_sim::explain(&machine, *scheme, &memory, &workload, seed, &addresses)?;
    let mut text =
        format!("Loads under {} on {}\n{}\n", scheme.name(), machine.name, memory.describe());
    text += &notes(&machine.remarks, COLUMNS);
    if explained.is_empty() {
        text += "\nNo address to explain: the workload touches none.\n";
    }
    for (address, explanations) in &explained {
        text += &format!("\n{address:#x}");
        match explanations.first() {
            None => text += ": the program has nothing mapped there\n",
            Some(first) => text += &format!(" lies at {:#x}\n", first.physical),
        }
        text.extend(explanations.iter().map(one));
    }
    print(&text)
}

fn one(explanation: &Explanation) -> String {
    let (cold, warm) = explanation.cycles();
    let first = match explanation.case {
        Case::BesideFirstLevel => "direct segment beside the L1 TLB: the address lies in it",
        _ => "L1 TLB: nothing found",
    };
    let mut rows = vec![(first, 0, 0)];
    let steps = explanation.steps.iter();
    rows.extend(steps.map(|step| (step.text.as_str(), step.cold_cycles, step.warm_cycles)));
    rows.push(("all together", cold, warm));
    let table = columns(
        &[
            Column::texts("", rows.iter().map(|row| format!("    {}", row.0)).collect()),
            Column::numbers(
                "cycles, caches empty",
                rows.iter().map(|row| row.1.to_string()).collect(),
            ),
            Column::numbers("warm", rows.iter().map(|row| row.2.to_string()).collect()),
        ],
        COLUMNS,
    );
    format!("\n  {}:\n  {}\n{table}", situation(explanation.situation), case(explanation))
}

fn situation(situation: Situation) -> &'static str {
    match situation {
        Situation::Cold => "all TLBs and walk caches empty",
        Situation::FirstLevelLost => "L1 TLB entry evicted",
        Situation::PageLost => "L1 and L2 entries evicted, the walk caches kept",
        Situation::HoleLost => "L1 entry and the hole's L2 entry evicted",
        Situation::BitmapLost => "L1 entry, 4KB entry and bitmap entry evicted",
    }
}

fn case(explanation: &Explanation) -> String {
    let case = match explanation.case {
        Case::FirstLevel => "first-level hit",
        Case::BesideFirstLevel => "a direct segment beside the first-level TLB translates it",
        Case::Intermediate => "case 1, the guest's page and a page of its host behind it",
        Case::Beside => "a unit beside the second-level TLB translates it",
        Case::Regular => "case 1, an ordinary or hole translation",
        Case::Filtered => "case 2, the filter says no hole is near",
        Case::BitmapInPlace => "case 3, the cached bitmap says no hole",
        Case::BitmapHole => "case 4, the cached bitmap says hole",
        Case::ReadInPlace => "case 5, the bitmap read from memory says no hole",
        Case::ReadHole => "case 6, the bitmap read from memory says hole",
    };
    match (explanation.walked, explanation.case) {
        (true, Case::Regular) => "case 7, a walk finds the page".into(),
        (true, _) => format!("case 7, a walk finds the page, then {case}"),
        (false, _) => case.into(),
    }
}
