//! The grammars of options, one example a line.

use std::fmt::Display;
use std::str::FromStr;

use perforate_experiment::capacity::Design;
use perforate_os::{Ageing, FaultMap, Fragmentation};
use perforate_sim::{
    Background, BackgroundOptions, Composition, MemoryState, ModeSwitching, Past, PastOptions,
    SimError, parse_size,
};
use perforate_trace::{WorkloadSpec, split_format};

use super::{Target, each_line, target};

pub const TARGETS: &[Target] = &[
    target("option-fragmentation", |bytes| each_line(bytes, printed::<Fragmentation>)),
    target("option-age", |bytes| each_line(bytes, printed::<Ageing>)),
    target("option-faulty", |bytes| {
        each_line(bytes, |line| {
            printed::<FaultMap>(line);
            if let Ok(map) = line.parse::<FaultMap>() {
                let faulty = map.frames(4096, 1).expect("shares are of any memory");
                assert!(faulty.len() <= 4096);
            }
        });
    }),
    target("option-perforation", |bytes| {
        each_line(bytes, |line| memory(|_| MemoryState::parse(None, None, Some(line))));
    }),
    target("option-segment", |bytes| {
        each_line(bytes, |line| memory(|memory| memory.with_segment(Some(line))));
    }),
    target("option-superpages", |bytes| {
        each_line(bytes, |line| memory(|memory| memory.with_superpages(Some(line))));
    }),
    target("option-khugepaged", |bytes| {
        each_line(bytes, |line| {
            background(BackgroundOptions { khugepaged: Some(line), ..Default::default() });
        });
    }),
    target("option-ksm", |bytes| {
        each_line(bytes, |line| {
            let contents = Some("zero=5%");
            background(BackgroundOptions { ksm: Some(line), contents, ..Default::default() });
        });
    }),
    target("option-contents", |bytes| {
        each_line(bytes, |line| {
            let (ksm, contents) = (Some("default"), Some(line));
            background(BackgroundOptions { ksm, contents, ..Default::default() });
        });
    }),
    target("option-zones", |bytes| {
        each_line(bytes, |line| past(PastOptions { zones: Some(line), ..Default::default() }));
    }),
    target("option-size", |bytes| {
        each_line(bytes, |line| {
            drop(parse_size("--max-size", line));
            memory(|_| MemoryState::parse(Some(line), None, None));
            past(PastOptions { swap: Some(line), ..Default::default() });
            past(PastOptions { hot_add: Some(line), ..Default::default() });
        });
    }),
    target("option-words", |bytes| {
        each_line(bytes, |line| {
            past(PastOptions { defrag: Some(line), ..Default::default() });
            past(PastOptions { compaction: Some(line), ..Default::default() });
            past(PastOptions { io_gap: Some(line), ..Default::default() });
            split_format(line.as_ref());
        });
    }),
    target("option-modes", |bytes| each_line(bytes, |line| drop(line.parse::<ModeSwitching>()))),
    target("scheme-name", |bytes| {
        each_line(bytes, |line| {
            if let Ok(found) = Composition::find(line) {
                Composition::find(&found.name()).expect("names are found again");
            }
            drop(Composition::list(line));
            drop(Composition::pairs(line, "4k,thp"));
            drop(Composition::pairs("4k,thp", line));
        });
    }),
    target("design-name", |bytes| {
        each_line(bytes, |line| drop(Design::parse(line).map(|design| design.label())));
    }),
    target("workload-name", |bytes| {
        each_line(bytes, |line| {
            if let Ok(spec) = WorkloadSpec::parse(line) {
                let text = spec.to_string();
                let again = WorkloadSpec::parse(&text).expect("what is printed can be read");
                assert_eq!(again.to_string(), text);
                spec.host_bytes();
            }
        });
    }),
];

/// What can be read can be printed and read again.
fn printed<T: FromStr + Display>(line: &str)
where
    T::Err: Display,
{
    let Ok(value) = line.parse::<T>() else { return };
    let text = value.to_string();
    if let Err(error) = text.parse::<T>() {
        panic!("{line:?} is printed as {text:?}: {error}");
    }
}

fn memory(read: impl FnOnce(MemoryState) -> Result<MemoryState, SimError>) {
    let default = MemoryState::parse(None, None, None).expect("the default is sound");
    if let Ok(memory) = read(default) {
        drop(memory.describe());
    }
}

fn past(options: PastOptions<'_>) {
    if let Ok(past) = Past::parse(options) {
        memory(|memory| memory.with_past(past));
    }
}

fn background(options: BackgroundOptions<'_>) {
    if let Ok(background) = Background::parse(options) {
        memory(|memory| Ok(MemoryState { background, ..memory }));
    }
}
