//! What the recorder gets from the emulator, and what the machine says of itself.

use perforate_capture::{hostile, native};

use super::{Target, each_line, target, told, with_file};

/// A process may have many images before the one that a record names.
const REPLAY_BYTES: usize = 64 << 20;

pub const TARGETS: &[Target] = &[
    target("recorder-replay", hostile::replay).with_memory(REPLAY_BYTES),
    target("recorder-maps", hostile::process_maps),
    target("recorder-program", |bytes| with_file(bytes, hostile::program_file)),
    target("recorder-region", |bytes| {
        each_line(bytes, |line| {
            if let Some(region) = told(line.parse::<perforate_capture::Region>()) {
                drop(region.to_string());
            }
        });
    }),
    target("native-smaps", hostile::smaps),
    target("native-meminfo", hostile::meminfo),
    target("native-buddyinfo", hostile::buddyinfo),
    target("native-cpuinfo", |bytes| drop(native::parse_cpuinfo(bytes))),
    target("native-cgroup", |bytes| drop(native::parse_cgroups(bytes))),
    target("native-status", hostile::allowed_processors),
    target("native-setting", |bytes| drop(native::chosen(bytes))),
    target("native-worker", |bytes| {
        each_line(bytes, |line| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            told(native::Job::parse(&words));
            hostile::worker_answer(line);
        });
    }),
    target("native-cpuid", |bytes| {
        let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let numbers: Vec<u32> = numbers.collect();
        let leaves = numbers.as_chunks::<4>().0;
        native::intel_tlbs(leaves);
        if let [first, second, huge, ..] = leaves {
            native::amd_tlbs(*first, *second, *huge);
        }
    }),
];
