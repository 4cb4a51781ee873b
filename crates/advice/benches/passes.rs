//! Measures the passes of the analysis: `cargo bench -p perforate-advice [-- PART-OF-NAME…]`. Each line has
//! the instructions and accesses of a trace, and seconds of processor time: for decoding alone, for curves of five page sizes
//! with their accesses per second (also without decoding) and from a sample, and for an analysis with the number
//! of its simulations.

use std::sync::atomic::AtomicBool;

use perforate_advice::{PageOrder, Sampling, analyse, miss_ratio_curves};
use perforate_sim::{Machine, MemoryState, Workload, open_workload};
use perforate_trace::Source;
use perforate_types::Chunk;

const CASES: [&str; 8] =
    ["random", "zipf:size=4G", "bfs", "redis", "mummer", "xz", "simplex", "hpcc"];
const INSTRUCTIONS: u64 = 20_000_000;
const ORDERS: [PageOrder; 5] =
    [PageOrder::BASE, PageOrder(2), PageOrder(4), PageOrder::LARGE, PageOrder::HUGE];

fn open(name: &str) -> Box<dyn Source> {
    let workload = Workload {
        instructions: Some(INSTRUCTIONS),
        ..Workload::named(perforate_trace::bundled::resolve(name))
    };
    open_workload(&workload, &MemoryState::of(64 << 30), 1).expect("it comes with the program")
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let machine = Machine::load(Machine::DEFAULT).expect("it comes with the program");
    println!(
        "{:<14} {:>9} {:>9} {:>7} {:>7} {:>7} {:>9} {:>9} {:>8} {:>8}",
        "",
        "instr",
        "accesses",
        "decode",
        "curves",
        "M/s",
        "M/s alone",
        "sampled",
        "analysis",
        "runs"
    );
    for name in CASES {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let decode = seconds(|| {
            let (mut source, mut chunk) = (open(name), Chunk::default());
            while source.next_chunk(&mut chunk).expect("readable") {}
        });
        let curves = |sampling| {
            let sizes = ORDERS.map(|order| (order, sampling));
            miss_ratio_curves(&mut open(name), &sizes, &mut |_| {}).expect("readable")
        };
        let mut accesses = 0;
        let exact = seconds(|| accesses = curves(Sampling::ALL).accesses);
        let sampled = seconds(|| drop(curves(Sampling::one_in(16).expect("a power of two"))));
        let mut found = None;
        let analysed = seconds(|| {
            let analysis =
                analyse(&mut open(name), 0, &machine.tlb, 2, &AtomicBool::new(false), &mut |_| {});
            found = Some(analysis.expect("readable"));
        });
        let found = found.expect("it ran");
        let millions = |count: f64| count / 1e6;
        println!(
            "{name:<14} {:>8.1}M {:>8.1}M {decode:>7.2} {exact:>7.2} {:>7.1} {:>9.1} {sampled:>9.2} {analysed:>8.2} {:>8}",
            millions(found.instructions as f64),
            millions(accesses as f64),
            millions(accesses as f64 / exact),
            millions(accesses as f64 / (exact - decode)),
            found.gains.len() + found.curve.points.len(),
        );
    }
}

/// Processor time of all threads, which other programs on the computer hardly change.
fn seconds(act: impl FnOnce()) -> f64 {
    let used = || {
        let text = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
        let fields = text.rsplit(')').next().expect("it has a name").split_whitespace();
        // User and system time in hundredths of a second.
        fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>()
    };
    let before = used();
    act();
    (used() - before) / 100.0
}
