//! Page sizes by area on programs for which the right ones are known.

use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, Permissions, ProgramEvent, VirtualAddress,
};
use serde_json::Value;

use crate::place::{Place, json};

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;
/// Start of the first area, a multiple of 1GB.
const START: u64 = 0x7000_0000_0000;
const CODE: u64 = 0x40_0000;
/// Number of accesses, of which the first fifth is warm-up.
const ACCESSES: u64 = 250_000;

/// Writes a trace of a program with these areas, each with its start, its length and the pages that it reads: all
/// of them once, then pages of all areas in turn at random.
fn write_trace(place: &Place, areas: &[(u64, u64, Vec<u64>)]) {
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut writer = TraceWriter::create(place.path("areas.trace"), &metadata).unwrap();
    let code = [(CODE, 4096)].into_iter();
    for (start, length) in code.chain(areas.iter().map(|(start, length, _)| (*start, *length))) {
        let is_code = start == CODE;
        let map = ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length,
            permissions: Permissions::ALL,
            accessible: true,
            backing: if is_code { Backing::File } else { Backing::Anonymous },
            shared: false,
            populate: false,
        };
        writer.event(map).unwrap();
    }
    // Each page has a line of its own, so that the data caches hold them.
    let address = |start: u64, page: u64| start + page * 4096 + hash(page) % 64 * 64;
    let all = areas.iter().flat_map(|(start, _, pages)| pages.iter().map(|page| (*start, *page)));
    let first = all.map(|(start, page)| address(start, page));
    let at_random = (0..).map(|number: u64| {
        let (start, _, pages) = &areas[number as usize % areas.len()];
        address(*start, pages[hash(number) as usize % pages.len()])
    });
    for address in first.chain(at_random).take(ACCESSES as usize) {
        let ip = VirtualAddress::new(CODE);
        let instruction = Instruction { ip, accesses: 1, ..Instruction::default() };
        let address = VirtualAddress::new(address);
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        writer.push(&instruction, &[access]).unwrap();
    }
    writer.finish().unwrap();
}

fn hash(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

/// Returns the text of the advice, and its record.
fn advice(place: &Place, machine: &str) -> (String, Value) {
    let arguments = ["advise", "areas.trace", "--machine", machine, "--memory", "8G"];
    let options = ["--fragmentation", "none", "--now", "never", "--out", "out"];
    let text = place.succeeds(&[&arguments[..], &options].concat());
    (text, json(&place.read("out/advice.json")).remove(0))
}

fn ranges(advice: &Value) -> Vec<(String, u64, u64)> {
    let number = |value: &Value| value.as_u64().unwrap();
    let range = |range: &Value| {
        let start = range["start"].as_str().unwrap().to_owned();
        (start, number(&range["bytes"]), number(&range["page_bytes"]))
    };
    advice["ranges"].as_array().unwrap().iter().map(range).collect()
}

fn run<'a>(advice: &'a Value, name: &str) -> &'a Value {
    let runs = advice["runs"].as_array().unwrap();
    runs.iter().find(|run| run["name"] == name).unwrap_or_else(|| panic!("{name}: {runs:?}"))
}

/// The second level has 1,280 entries. 64KB of each of 256 blocks of 2MB are 256 pages of 64KB, spread over all sets,
/// and would cost 496MB as 2MB pages. All of 128MB are 2,048 pages of 64KB, too many, or 64 of 2MB.
#[test]
fn one_area_has_64kb_pages_and_another_2mb() {
    let place = Place::new();
    let first = |block: u64| block * 512 + block / 8 % 32 * 16;
    let sparse = (0..256).flat_map(|block| first(block)..first(block) + 16).collect();
    let dense = (0..32_768).collect();
    write_trace(&place, &[(START, 512 * MB, sparse), (START + GB, 128 * MB, dense)]);
    let (text, advice) = self::advice(&place, "neoverse-n1");
    assert_eq!(advice["verdict"], "worth", "{text}");
    let second = format!("{:#x}", START + GB);
    assert_eq!(
        ranges(&advice),
        [(format!("{START:#x}"), 512 * MB, 64 << 10), (second, 128 * MB, 2 * MB)],
        "{text}"
    );
    let walks = |name: &str| run(&advice, name)["walks"].as_f64().unwrap();
    assert!(walks("recommended") < walks("4KB pages") / 50.0, "{text}");
    assert!(walks("64KB pages") > walks("recommended") * 10.0, "{text}");
    let memory = |name: &str| run(&advice, name)["mapped_bytes"].as_f64().unwrap();
    assert_eq!(memory("recommended"), memory("4KB pages"));
    assert_eq!(memory("all large") - memory("recommended"), (496 * MB) as f64);
    let size = |area: usize, index: usize| &advice["areas"][area]["sizes"][index];
    // The dense area has most walks, and comes first.
    assert_eq!(size(0, 1)["advised_bytes"], 128 * MB);
    assert_eq!(
        (&size(1, 0)["advised_bytes"], &size(1, 0)["page_bytes"]),
        (&(16 * MB).into(), &65536.into())
    );
    assert_eq!(size(1, 1)["additional_bytes"], 496 * MB);

    let verdict = text.split("For the machine").next().unwrap().replace('\n', " ");
    assert!(verdict.contains("for no more memory, with pages of 64KB and 2MB"), "{text}");
    assert!(text.contains("Page sizes for the areas with most page walks"), "{text}");
    let prose = text.lines().filter(|line| !line.starts_with("      "));
    assert!(prose.clone().all(|line| line.chars().count() <= 80), "{text}");
}

/// Two pages of each of 1,024 blocks of 2MB: more than the 512 entries for 4KB and the 32 for 2MB, also in one of the
/// two gigabytes alone, and two of the four for 1GB.
#[test]
fn an_area_has_1gb_pages_where_there_are_few_entries_of_2mb() {
    let place = Place::new();
    let pages =
        (0..1024).flat_map(|block| [block * 512 + block % 251, block * 512 + 500]).collect();
    write_trace(&place, &[(START, 2 * GB, pages)]);
    let (text, advice) = self::advice(&place, "sandy-bridge-table6");
    assert_eq!(advice["verdict"], "worth", "{text}");
    assert_eq!(ranges(&advice), [(format!("{START:#x}"), 2 * GB, GB)]);
    let walks = |name: &str| run(&advice, name)["walks"].as_f64().unwrap();
    assert!(walks("recommended") < walks("all large") / 50.0, "{text}");
    let steps = advice["steps"].to_string();
    assert!(steps.contains("hugepagesz=1G hugepages=2"), "{steps}");
}
