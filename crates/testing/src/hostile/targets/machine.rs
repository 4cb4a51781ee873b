//! Targets for records of the emulator's plugin, recorded programs, and system files of this
//! machine.

use std::path::Path;

use perforate_host::benchmark::Job;
use perforate_host::machine::{chosen, parse_control_groups};
use perforate_record::Region;
use perforate_types::PageSize;
use perforate_workloads::layout::LayoutFile;

use super::{Target, each_line, target, told, with_file};

/// Memory limit in bytes for replaying the records that a recorded program writes. The list of process images
/// is indexed by their numbers, and a damaged record may contain a large number.
const REPLAY_BYTES: usize = 64 << 20;

pub const TARGETS: &[Target] = &[
    target("recorder-replay", perforate_record::hostile::replay).with_memory(REPLAY_BYTES),
    target("recorder-maps", perforate_record::hostile::process_maps),
    target("recorder-program", |bytes| with_file(bytes, perforate_record::hostile::program_file)),
    target("recorder-region", |bytes| {
        each_line(bytes, |line| {
            if let Some(region) = told(line.parse::<Region>()) {
                drop(region.to_string());
            }
        });
    }),
    target("native-smaps", perforate_host::hostile::smaps),
    target("native-buddyinfo", perforate_host::hostile::buddyinfo),
    target("native-cgroup", |bytes| drop(parse_control_groups(bytes))),
    target("native-setting", |bytes| drop(chosen(bytes))),
    target("native-layout", |bytes| {
        with_file(bytes, layout);
    }),
    target("native-worker", |bytes| {
        each_line(bytes, |line| {
            told(line.parse::<Job>());
        });
    }),
];

/// Asserts that a layout file (page sizes of a program's memory) is the same after it was written and read
/// again. The other reader, which accepts only 4KB and 2MB pages, may refuse the file.
fn layout(path: &Path) {
    told(perforate_host::layout::LayoutFile::read(path));
    let read = |path: &Path| told(LayoutFile::read(path, PageSize::Size1G));
    let Some(file) = read(path) else { return };
    with_file(file.to_csv().as_bytes(), |path| {
        let again = read(path).expect("what was written is a layout");
        assert_eq!(again.pools, file.pools);
    });
}
