//! `perforate curves`: TLB misses against entries, for each page size.

use std::path::PathBuf;

use crate::actions::{Failure, REPORT, ResultFolder};
use clap::Args;
use perforate_advice::{
    COUNTED_ENTRIES, MissRatioCurve, PageOrder, Sampling, miss_ratio_curves, tlb_entries,
};
use perforate_config::Section;
use perforate_host::Reporter;
use perforate_records::{MissPoint, MissRatioRecord, PageSizeCurve, json_line};
use perforate_report::{ReportOptions, curves_html, curves_table};
use perforate_sim::{Composition, Machine, Progress, ResolvedRun, SimError, open_workload};
use perforate_trace::Source;

use crate::options::WorkloadFlags;
use crate::output::{CommandOutput, columns, command};

/// Page sizes of the curves: 4KB, 16KB, 64KB, 2MB, 1GB.
const ORDERS: [PageOrder; 5] =
    [PageOrder::BASE, PageOrder(2), PageOrder(4), PageOrder::LARGE, PageOrder::HUGE];
/// Number of instructions above which `--sample auto` samples pages.
const LONG: u64 = 500_000_000;
/// Number of small pages of which `--sample auto` follows one in long traces.
const LONG_SAMPLE: u32 = 16;
/// Share of the first level's misses that the answer's numbers of entries avoid.
const SHARE: f64 = 0.99;
/// Largest number of entries in the table, unless the machine has more.
const MOST_ENTRIES: u64 = 1 << 24;
/// Width of the output in characters.
const COLUMNS: usize = 80;

/// TLB misses against entries, for each page size
#[derive(Args)]
#[command(after_help = "Examples:
  perforate curves redis
  perforate curves my.trace --machine zen4-genoa --out curves
  perforate curves random:size=8G --instructions 2G --sample 1/64
  perforate curves bfs --json | jq '.page_sizes[] | [.page_bytes, .entries_for_share]'

One pass over the data accesses makes the curves of all page sizes (docs/curves.md).")]
pub struct CurvesArguments {
    /// Trace file, bundled trace or workload [default: hpcc, a bundled trace]
    #[arg(value_name = "TRACE|WORKLOAD", help_heading = Section::Program.title())]
    workload: Option<String>,
    #[command(flatten)]
    placement: WorkloadFlags,
    /// Follow one small page in N, a power of two, with the error that this has; auto: 1/16 above
    /// 500 M instructions
    #[arg(
        long,
        value_name = "auto|1/N",
        default_value = "auto",
        value_parser = sample,
        help_heading = Section::Length.title()
    )]
    sample: Sample,
    /// Folder for report.html, a page with a chart that opens offline, and curves.json [default:
    /// none is written]
    #[arg(short, long, value_name = "DIR", help_heading = Section::Output.title())]
    out: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long, help_heading = Section::Output.title())]
    pub json: bool,
}

/// Pages to follow, as `--sample` states it.
#[derive(Clone, Copy)]
enum Sample {
    Auto,
    Stated(Sampling),
}

fn sample(text: &str) -> Result<Sample, String> {
    if text == "auto" {
        return Ok(Sample::Auto);
    }
    let blocks = text.strip_prefix("1/").and_then(|blocks| blocks.parse().ok());
    blocks.and_then(Sampling::one_in).map(Sample::Stated).ok_or_else(|| {
        let most = Sampling::MAXIMUM;
        format!("expected auto or 1/N with a power of two up to {most}, such as 1/16, not {text:?}")
    })
}

/// Makes the curves of a workload.
pub fn curves(
    arguments: &CurvesArguments,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    let folder = arguments.out.as_deref().map(ResultFolder::named).transpose()?;
    let request = arguments.placement.request()?;
    let schemes = Composition::list("4k").map_err(SimError::from)?;
    let run = request.resolve(arguments.workload.as_deref(), schemes, &|_, _| ())?;
    let mut source = open_workload(&run.workload, &run.memory, run.seed)?;
    let sampling = match arguments.sample {
        Sample::Stated(sampling) => sampling,
        Sample::Auto if source.metadata().instructions.is_some_and(|all| all > LONG) => {
            Sampling::one_in(LONG_SAMPLE).expect("a power of two")
        }
        Sample::Auto => Sampling::ALL,
    };
    let record = measure(&run, source.as_mut(), sampling, reporter)?;
    let json = json_line(&record);
    let mut text = curves_table(&record, columns().min(COLUMNS));
    if let Some(folder) = folder {
        let title = format!("{} on {}", record.workload, record.machine);
        let options = ReportOptions { title, command: command(), ..ReportOptions::default() };
        let page = curves_html(&record, &options);
        let files = vec![("curves.json".into(), json.clone()), (REPORT.into(), page)];
        let written = folder.write(&files)?;
        text += &format!("report: {}\n", written.file(REPORT).display());
    }
    Ok(CommandOutput { json, text })
}

fn measure(
    run: &ResolvedRun,
    source: &mut dyn Source,
    sampling: Sampling,
    reporter: &mut dyn Reporter,
) -> Result<MissRatioRecord, Failure> {
    // Large pages are so few that all are followed.
    let sizes = ORDERS.map(|order| match order < PageOrder::LARGE {
        true => (order, sampling),
        false => (order, Sampling::ALL),
    });
    let metadata = source.metadata().clone();
    reporter.stage("following pages", "instructions");
    let found = miss_ratio_curves(source, &sizes, &mut |progress| {
        reporter.progress(Progress { done: progress.done, total: progress.total });
    })?;
    let [small, ..] = &found.curves[..] else { unreachable!("there are several sizes") };
    let reference = run.machine.tlb.l1_data_4k.entries;
    let reference_misses = small.misses(reference);
    let allowed = (reference_misses as f64 * (1.0 - SHARE)) as u64;
    let entries_for_share = |curve: &MissRatioCurve| {
        let entries = curve.entries_for(allowed);
        let mut errors = [small.error(reference), curve.error(entries)].into_iter().flatten();
        errors.all(|half| 2 * half <= reference_misses).then_some(entries as u64)
    };
    let entries = table_entries(&run.machine, &found.curves);
    let page_sizes = found.curves.iter().map(|curve| {
        let [first, second] = tlb_entries(&run.machine.tlb, curve.order);
        let point = |entries: &u64| MissPoint {
            entries: *entries,
            misses: curve.misses(*entries as usize),
            half_width_95: curve.error(*entries as usize),
        };
        PageSizeCurve {
            page_bytes: curve.order.bytes(),
            sampled_one_in: curve.sampling.blocks(),
            first_touches: curve.first_touches(),
            entries_for_share: entries_for_share(curve),
            machine_l1_entries: first as u64,
            machine_l2_entries: second as u64,
            points: entries.iter().map(point).collect(),
        }
    });
    Ok(MissRatioRecord {
        workload: metadata.name.clone(),
        machine: run.machine.name.clone(),
        seed: run.seed,
        instructions: found.instructions,
        accesses: found.accesses,
        reference_entries: reference as u64,
        reference_misses,
        reference_half_width_95: small.error(reference),
        share: SHARE,
        page_sizes: page_sizes.collect(),
        notes: notes(&metadata, sampling),
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// Numbers of entries of the table: powers of two up to the first without misses, and those of the machine.
fn table_entries(machine: &Machine, curves: &[MissRatioCurve]) -> Vec<u64> {
    let of_machine = ORDERS.iter().flat_map(|order| tlb_entries(&machine.tlb, *order));
    let mut entries: Vec<u64> = of_machine.map(|entries| entries as u64).collect();
    let has_misses = |entries: u64| curves.iter().any(|curve| curve.misses(entries as usize) > 0);
    let mut next = 1;
    entries.push(next);
    while next < MOST_ENTRIES && has_misses(next) {
        next *= 2;
        entries.push(next);
    }
    entries.sort_unstable();
    entries.dedup();
    entries.retain(|entries| *entries > 0);
    entries
}

fn notes(metadata: &perforate_trace::SourceMetadata, sampling: Sampling) -> Vec<String> {
    let mut notes = Vec::new();
    if sampling != Sampling::ALL {
        notes.push(format!(
            "pages smaller than 2MB are a sample of one in {}, for more than {COUNTED_ENTRIES} entries; ± is half of \
             the 95 % interval, of which both ends stand where it is wider than the number",
            sampling.blocks()
        ));
    }
    if !metadata.has_events {
        notes.push("the trace does not say what was mapped; no page counts as unmapped".to_owned());
    }
    notes
}
