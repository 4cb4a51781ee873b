//! `perforate explain`.

use clap::Args;
use perforate_mmu::Case;
use perforate_sim::{Composition, Explanation, Machine, Situation};
use perforate_types::VirtualAddress;

use crate::failure::Failure;
use crate::options::PlacementOptions;
use crate::output::print;

/// Instructions run before explaining where no number is given.
const DEFAULT_INSTRUCTIONS: u64 = 1_000_000;

/// Show one translation step by step.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate explain                             telling addresses of the random workload
  perforate explain 0x7f0000003000 --scheme perforated
  perforate explain 0x7f0000003000 --scheme 4k --machine ice-lake-sp

Cycles are those of an idle machine, with empty data caches and with every line read in the
first-level cache. Cases 1–7 are those of P §IV.D.")]
pub struct ExplainArguments {
    /// Virtual addresses, hexadecimal with 0x or decimal [default: telling ones are chosen]
    #[arg(value_name = "ADDRESS", value_parser = address)]
    addresses: Vec<u64>,
    /// Trace or workload that is run first, 1 M instructions unless --instructions says more
    #[arg(long, value_name = "TRACE|WORKLOAD", default_value = "random")]
    workload: String,
    /// The scheme
    #[arg(long, value_name = "NAME", default_value = "perforated")]
    scheme: String,
    #[command(flatten)]
    placement: PlacementOptions,
}

fn address(text: &str) -> Result<u64, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let value = value.map_err(|_| "not an address; write for example 0x7f0000003000".to_owned())?;
    if value >> 47 != 0 {
        return Err("not a user address of x86-64 (47 bits)".into());
    }
    Ok(value)
}

/// Explains the translations.
pub fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let placement = &arguments.placement;
    let (machine, memory) = (Machine::load(&placement.machine)?, placement.memory()?);
    let mut workload = placement.workload(Some(&arguments.workload));
    workload.instructions.get_or_insert(DEFAULT_INSTRUCTIONS);
    let schemes = Composition::list(&arguments.scheme)?;
    let [scheme] = schemes.as_slice() else {
        return Err(Failure::Usage("explain takes one scheme".into()));
    };
    let addresses: Vec<VirtualAddress> =
        arguments.addresses.iter().map(|&address| VirtualAddress::new(address)).collect();
    let explained =
        perforate_sim::explain(&machine, *scheme, &memory, &workload, placement.seed, &addresses)?;
    let mut text =
        format!("Loads under {} on {}\n{}\n", scheme.name(), machine.name, memory.describe());
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
    let mut text = format!(
        "\n  {}:\n  {}\n  {:>84}{:>7}{:>6}\n",
        situation(explanation.situation),
        case(explanation),
        "cycles with data caches:",
        "empty",
        "warm"
    );
    let mut line = |what: &str, cold: u64, warm: u64| {
        text += &format!("    {what:<82}{cold:>7}{warm:>6}\n");
    };
    line("L1 TLB: nothing found", 0, 0);
    for step in &explanation.steps {
        line(&step.text, step.cold_cycles, step.warm_cycles);
    }
    let (cold, warm) = explanation.cycles();
    line("all together", cold, warm);
    text
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
        Case::Beside => "direct segments translate it, beside the second-level TLB",
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
