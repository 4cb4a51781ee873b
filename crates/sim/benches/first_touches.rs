//! First touches against the steady state, without a clock, one JSON line per scheme:
//! `cargo bench -p perforate-sim --bench first_touches [-- PART-OF-SCHEME…]`.
//!
//! Two programs: one stores once to every page, then does so again (every store of the first round
//! may fault, every store of the second walks); the other fills new memory word by word, then does
//! so again. Shares are the speed of the first round over that of the second.

use std::time::{Duration, Instant};

use perforate_sim::{Machine, MemoryState, Scheme, System, SystemOptions};
use perforate_types::{AccessKind, Backing, Permissions, ProgramEvent, VirtualAddress};

const START: u64 = 0x7f00_0000_0000;
/// Memory touched, page by page.
const TOUCHED_BYTES: u64 = 2 << 30;
const PAGE_BYTES: u64 = 4096;
/// Stores to each page where a program fills its new memory word by word.
const STORES_PER_PAGE: u64 = PAGE_BYTES / 8;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for scheme in ["4k", "thp", "perforated", "ideal"] {
        if wanted.is_empty() || wanted.iter().any(|part| scheme.contains(part.as_str())) {
            measure(scheme);
        }
    }
}

fn measure(scheme: &str) {
    let mut system = new_system(scheme);
    // Every page once: the first touch. Then every page again: a walk, no fault.
    let first = pass(&mut system, 1);
    let faults = system.work();
    let walks = pass(&mut system, 1);
    // The same with every word of a page written.
    let mut system = new_system(scheme);
    let first_whole = pass(&mut system, STORES_PER_PAGE);
    let steady_whole = pass(&mut system, STORES_PER_PAGE);
    let pages = TOUCHED_BYTES / PAGE_BYTES;
    let per_page = |time: Duration| (time.as_nanos() as u64) / pages;
    let share = |steady: Duration, first: Duration| {
        (steady.as_secs_f64() / first.as_secs_f64() * 1000.0).round() / 1000.0
    };
    println!(
        "{}",
        serde_json::json!({
            "scheme": scheme,
            "faults_4k": faults.faults_4k,
            "faults_2m": faults.faults_2m,
            "faults_perforated": faults.faults_perforated,
            "first_touch_ns_per_page": per_page(first),
            "walk_ns_per_page": per_page(walks),
            "touching_speed_over_walking": share(walks, first),
            "filling_speed_over_refilling": share(steady_whole, first_whole),
        })
    );
}

fn new_system(scheme: &str) -> System {
    let memory = MemoryState::parse(Some("8G"), Some("portion=50%,holes=25%,clustered"), None);
    let machine = Machine::load(Machine::DEFAULT).expect("a bundled machine");
    let scheme = Scheme::find(scheme).expect("a scheme");
    let options = SystemOptions { check: false, implicit_maps: false, counts_only: true };
    let memory = memory.expect("a right memory");
    let mut system = System::new(&machine, scheme, &memory, 1, options).expect("a system");
    let map = ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length: TOUCHED_BYTES,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    };
    system.event(&map).expect("room for it");
    system
}

/// Writes `stores` words of every page, in order.
fn pass(system: &mut System, stores: u64) -> Duration {
    let start = Instant::now();
    for page in 0..TOUCHED_BYTES / PAGE_BYTES {
        for word in 0..stores {
            let address = VirtualAddress::new(START + page * PAGE_BYTES + word * 8);
            let found = system.translate(AccessKind::Write, address).expect("enough memory");
            std::hint::black_box(found);
        }
    }
    start.elapsed()
}
