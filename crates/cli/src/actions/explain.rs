//! Explanations of address translations, step by step (`perforate explain`).

use perforate_mmu::Case;
use perforate_report::text::{rows, wrapped};
use perforate_sim::{Composition, Explained, Explanation, ResolvedRun, SimError, TlbState};
use perforate_types::VirtualAddress;
use serde_json::{Value, json};

use super::{Failure, RunRequest};

/// Number of instructions that run by default before translations are explained.
const DEFAULT_INSTRUCTIONS: u64 = 1_000_000;

/// Parameters of an explanation of translations.
pub struct Question<'a> {
    /// Virtual addresses to translate. If empty, illustrative addresses are chosen.
    pub addresses: &'a [u64],
    /// Trace or workload that runs before the translations are explained.
    pub workload: &'a str,
    /// Name of the translation scheme.
    pub scheme: &'a str,
}

/// Explained translations of loads, for each requested address.
pub struct Explanations {
    scheme: String,
    machine: String,
    memory: String,
    remarks: Vec<String>,
    all: Vec<(VirtualAddress, Vec<Explanation>)>,
}

/// Runs the workload, then explains the translations of the addresses.
///
/// # Errors
/// Several schemes, an invalid or ineffective option, or an error of the run.
pub fn explain(
    request: &RunRequest,
    question: &Question<'_>,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<Explanations, Failure> {
    let schemes = Composition::list(question.scheme).map_err(SimError::from)?;
    if schemes.len() != 1 {
        return Err(Failure::Usage("explain takes one scheme".into()));
    }
    let mut run = request.resolve(Some(question.workload), schemes, progress)?;
    run.workload.instructions.get_or_insert(DEFAULT_INSTRUCTIONS);
    let ResolvedRun { workload, machine, schemes, memory, seed, .. } = run;
    let scheme = schemes[0];
    let addresses: Vec<VirtualAddress> =
        question.addresses.iter().map(|&address| VirtualAddress::new(address)).collect();
    let all = perforate_sim::explain(&machine, scheme, &memory, &workload, seed, &addresses)?;
    Ok(Explanations {
        scheme: scheme.name(),
        machine: machine.name.clone(),
        memory: memory.describe(),
        remarks: machine.remarks,
        all,
    })
}

impl Explanations {
    /// Formats the explanations as text, with tables at most `width` characters wide.
    pub fn text(&self, width: usize) -> String {
        let mut text =
            format!("Loads under {} on {}\n{}\n", self.scheme, self.machine, self.memory);
        text.extend(self.remarks.iter().map(|remark| wrapped("note: ", remark, width)));
        if self.all.is_empty() {
            text += "\nNo address to explain: the workload touches none.\n";
        }
        for (address, explanations) in &self.all {
            text += &format!("\n{address:#x}");
            match explanations.first() {
                None => text += ": nothing is mapped there, and an access would be a page fault\n",
                Some(first) => text += &format!(" lies at {:#x}\n", first.physical),
            }
            text.extend(explanations.iter().map(|explanation| one(explanation, width)));
        }
        text
    }

    /// Returns the JSON form: for each address, its translation with empty TLBs, and with TLBs that lack only
    /// some of the entries that the translation needs.
    pub fn record(&self) -> Value {
        let step = |step: &Explained| {
            let Explained { text, cold_cycles, warm_cycles, .. } = step;
            json!({"text": text, "cold_cycles": cold_cycles, "warm_cycles": warm_cycles})
        };
        let translation = |explanation: &Explanation| {
            let (cold_cycles, warm_cycles) = explanation.cycles();
            json!({
                "situation": situation(explanation.situation), "case": case(explanation),
                "cold_cycles": cold_cycles, "warm_cycles": warm_cycles,
                "steps": explanation.steps.iter().map(step).collect::<Value>(),
            })
        };
        let address = |(address, found): &(VirtualAddress, Vec<Explanation>)| {
            json!({
                "address": address.value(),
                "physical": found.first().map(|first| first.physical.value()),
                "translations": found.iter().map(translation).collect::<Value>(),
            })
        };
        json!({
            "scheme": self.scheme, "machine": self.machine, "memory": self.memory,
            "addresses": self.all.iter().map(address).collect::<Value>(),
        })
    }
}

fn one(explanation: &Explanation, width: usize) -> String {
    let (cold, warm) = explanation.cycles();
    let first = match explanation.case {
        Case::BesideFirstLevel => "direct segment beside the L1 TLB: the address lies in it",
        _ => "L1 TLB: nothing found",
    };
    let mut lines = vec![(first, 0, 0)];
    let steps = explanation.steps.iter();
    lines.extend(steps.map(|step| (step.text.as_str(), step.cold_cycles, step.warm_cycles)));
    lines.push(("all together", cold, warm));
    let table = rows(
        &lines,
        &[
            ("", &|line| format!("    {}", line.0)),
            ("cycles, caches empty", &|line| line.1.to_string()),
            ("warm", &|line| line.2.to_string()),
        ],
        width,
    );
    format!("\n  {}:\n  {}\n{table}", situation(explanation.situation), case(explanation))
}

fn situation(situation: TlbState) -> &'static str {
    match situation {
        TlbState::Cold => "all TLBs and walk caches empty",
        TlbState::FirstLevelLost => "L1 TLB entry evicted",
        TlbState::PageLost => "L1 and L2 entries evicted, the walk caches kept",
        TlbState::HoleLost => "L1 entry and the hole's L2 entry evicted",
        TlbState::BitmapLost => "L1 entry, 4KB entry and bitmap entry evicted",
    }
}

fn case(explanation: &Explanation) -> String {
    let case = match explanation.case {
        Case::FirstLevel => "first-level hit",
        Case::BesideFirstLevel => "a direct segment beside the first-level TLB translates it",
        Case::Intermediate => "case 1, the guest's page and a page of its host behind it",
        Case::IntermediateBitmap => {
            "case 3 in the guest's page, no hole by the cached bitmap, and a page of its host behind it"
        }
        Case::IntermediateRead => {
            "case 5 in the guest's page, no hole by the bitmap in memory, and a page of its host behind it"
        }
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
