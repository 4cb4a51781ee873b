//! Switches that give a program large pages, or take them away: texts for a user, from facts about the
//! machine and the program. Nothing is done.
//!
//! Each row of [`ROWS`] is one switch. It is shown only if the program maps the library concerned, and if the
//! versions of kernel and library have it.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_records::AdviceStep;
use perforate_types::{ProcessId, counted};

/// Version as numbers, such as 6.18 or 2.36.
pub type Version = (u32, u32);

/// A file that a program maps, with its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// Path of the file.
    pub path: String,
    /// Version; `None` if unknown.
    pub version: Option<Version>,
}

/// Facts about the machine and the program that decide which switches there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Version of the kernel; `None` if unknown, as for a trace of another machine.
    pub kernel: Option<Version>,
    /// Settings of transparent large pages by name below `/sys/kernel/mm/transparent_hugepage`, with their
    /// values; empty if the kernel has none.
    pub settings: BTreeMap<String, String>,
    /// Files that the program maps.
    pub libraries: Vec<Library>,
}

/// Memory for which large pages are recommended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvisedRange {
    /// Process to which the memory belongs.
    pub process: ProcessId,
    /// Name of the area in which it lies, and the offset within the area in bytes.
    pub area: (String, u64),
    /// Range of virtual addresses in bytes.
    pub bytes: Range<u64>,
    /// Size of the recommended pages in bytes.
    pub page_bytes: u64,
}

/// Aim of the switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Large pages for these ranges, in order of address.
    Ranges(Vec<AdvisedRange>),
    /// No large pages for the program.
    Off,
}

impl Aim {
    fn ranges(&self) -> &[AdvisedRange] {
        match self {
            Self::Ranges(ranges) => ranges,
            Self::Off => &[],
        }
    }

    fn wants(&self, is_one: impl Fn(u64) -> bool) -> bool {
        self.ranges().iter().any(|range| is_one(range.page_bytes))
    }
}

/// Largest number of `madvise` calls that are printed.
const MOST_CALLS: usize = 8;
const MB: u64 = 1 << 20;
/// Size of the large pages of `MADV_HUGEPAGE`.
const LARGE_BYTES: u64 = 2 * MB;
const GB: u64 = 1 << 30;
const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// Facts and aim, with questions about them.
struct Case<'a> {
    facts: &'a Surroundings,
    aim: &'a Aim,
}

/// Switches in the order in which they are shown: those inside the program first.
const ROWS: &[fn(&Case<'_>) -> Option<AdviceStep>] = &[
    madvise,
    collapse,
    glibc,
    jemalloc,
    tcmalloc,
    mimalloc,
    java,
    go,
    node,
    python,
    numpy,
    program_off,
    enabled,
    other_sizes,
    khugepaged,
    gigabyte_pages,
];

/// Returns the switches that lead to this aim, for these facts.
pub fn remedies(facts: &Surroundings, aim: &Aim) -> Vec<AdviceStep> {
    let case = Case { facts, aim };
    ROWS.iter().filter_map(|row| row(&case)).collect()
}

impl Case<'_> {
    /// Returns the mapped file whose name begins with one of these texts.
    fn library(&self, names: &[&str]) -> Option<&Library> {
        let is_one = |library: &&Library| {
            let name = library.path.rsplit('/').next().unwrap_or_default();
            names.iter().any(|start| name.starts_with(start))
        };
        self.facts.libraries.iter().find(is_one)
    }

    /// True if the kernel has a feature since this version, or if its version is unknown.
    fn kernel_has(&self, since: Version) -> bool {
        self.facts.kernel.is_none_or(|kernel| kernel >= since)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.facts.settings.get(name).map(String::as_str)
    }

    /// True if large pages are wanted that transparent huge pages can be.
    fn wants_large(&self) -> bool {
        self.aim.wants(|bytes| bytes < GB)
    }

    fn is_off(&self) -> bool {
        *self.aim == Aim::Off
    }

    /// True if 2MB pages are wanted.
    fn wants_2mb(&self) -> bool {
        self.aim.wants(|bytes| bytes == LARGE_BYTES)
    }

    /// True if pages between 4KB and 2MB are wanted, for which the kernel has settings of their own.
    fn wants_between(&self) -> bool {
        self.aim.wants(|bytes| bytes < LARGE_BYTES) && self.kernel_has(WITH_OTHER_SIZES)
    }

    /// Sentence on the machine's setting, if requests of programs have no effect under it.
    fn condition(&self) -> &'static str {
        match self.setting("enabled") {
            _ if self.wants_between() => " It takes the settings of sizes below.",
            Some("never") => {
                " It has no effect until transparent_hugepage/enabled is madvise or always."
            }
            _ => "",
        }
    }
}

fn remedy(title: &str, lines: Vec<String>, effect: String, source: &'static str) -> AdviceStep {
    AdviceStep { title: title.into(), lines, effect, source: source.into() }
}

/// Returns calls of `madvise` with this advice, by area and offset.
fn calls(ranges: &[AdvisedRange], advice: &str) -> Vec<String> {
    let call = |range: &AdvisedRange| {
        let (name, offset) = &range.area;
        let length = (range.bytes.end - range.bytes.start) / 4096;
        let size =
            (range.page_bytes < LARGE_BYTES).then(|| format!("{}KB pages", range.page_bytes >> 10));
        let process = (range.process.0 > 0).then(|| format!("process {}", range.process.0));
        let remarks: Vec<String> = size.into_iter().chain(process).collect();
        let remark = if remarks.is_empty() { "" } else { "  // " };
        let call = format!("madvise({name} + {offset:#x}, {length} * 4096, {advice});");
        call + remark + &remarks.join(", ")
    };
    let mut lines: Vec<String> = ranges.iter().take(MOST_CALLS).map(call).collect();
    if ranges.len() > MOST_CALLS {
        lines.push(format!("// and {} more: all of them with --json", ranges.len() - MOST_CALLS));
    }
    lines
}

/// madvise(2), MADV_HUGEPAGE: since Linux 2.6.38.
fn madvise(case: &Case<'_>) -> Option<AdviceStep> {
    let ranges = case.aim.ranges();
    let large: Vec<AdvisedRange> =
        ranges.iter().filter(|range| range.page_bytes < GB).cloned().collect();
    (!large.is_empty()).then(|| {
        let effect = format!(
            "In the program, behind the calls that map this memory and before its first use. Nothing else \
             changes.{}",
            case.condition()
        );
        remedy("madvise in the program", calls(&large, "MADV_HUGEPAGE"), effect, "madvise(2), MADV_HUGEPAGE")
    })
}

/// madvise(2), MADV_COLLAPSE: since Linux 6.1; independent of the settings in sysfs.
fn collapse(case: &Case<'_>) -> Option<AdviceStep> {
    let is_there = case.wants_2mb() && case.facts.kernel.is_some() && case.kernel_has((6, 1));
    is_there.then(|| {
        let effect = "Once the memory is in use: copies it into large pages now, whatever \
                      transparent_hugepage/enabled says. process_madvise(2) does so from another process.";
        let is_2mb = |range: &&AdvisedRange| range.page_bytes == LARGE_BYTES;
        let mut ranges: Vec<AdvisedRange> =
            case.aim.ranges().iter().filter(is_2mb).cloned().collect();
        if !case.wants_between() {
            // One call as an example: `madvise` does for all ranges.
            let largest = ranges.into_iter().max_by_key(|range| range.bytes.end - range.bytes.start);
            ranges = largest.into_iter().collect();
        }
        remedy(
            "Collapse now",
            calls(&ranges, "MADV_COLLAPSE"),
            effect.into(),
            "madvise(2), MADV_COLLAPSE (Linux 6.1)",
        )
    })
}

/// The GNU C Library manual, Memory Allocation Tunables, glibc.malloc.hugetlb; NEWS for version 2.35.
fn glibc(case: &Case<'_>) -> Option<AdviceStep> {
    let library = case.library(&["libc.so.6", "libc-2."])?;
    let has_it = case.wants_large() && library.version.is_none_or(|version| version >= (2, 35));
    let other_allocator = case.library(&["libjemalloc", "libtcmalloc", "libmimalloc"]).is_some();
    (has_it && !other_allocator).then(|| {
        let mut effect = "malloc requests large pages for all that it gets from the kernel."
            .to_owned()
            + case.condition();
        if case.setting("enabled") == Some("always") {
            effect += " With enabled=always it changes nothing but the alignment of the heap.";
        }
        effect += " The value 2 takes reserved pages instead (vm.nr_hugepages).";
        let lines = vec!["GLIBC_TUNABLES=glibc.malloc.hugetlb=1 PROG".to_owned()];
        remedy(
            "glibc's malloc",
            lines,
            effect,
            "The GNU C Library, Memory Allocation Tunables, glibc.malloc.hugetlb (2.35)",
        )
    })
}

/// jemalloc(3), opt.thp and opt.metadata_thp; TUNING.md.
fn jemalloc(case: &Case<'_>) -> Option<AdviceStep> {
    let library = case.library(&["libjemalloc"])?;
    if library.version.is_some_and(|version| version < (5, 1)) {
        return None;
    }
    let source = "jemalloc(3), opt.thp, opt.metadata_thp (5.1)";
    let one = |value: &str, effect: String| {
        Some(remedy("jemalloc", vec![format!("MALLOC_CONF={value} PROG")], effect, source))
    };
    match case.aim {
        Aim::Off => one("thp:never", "jemalloc refuses large pages for its memory.".into()),
        Aim::Ranges(_) if case.wants_large() => {
            let effect =
                "All user memory is marked MADV_HUGEPAGE, and jemalloc's own data as they grow.";
            one("thp:always,metadata_thp:auto", effect.to_owned() + case.condition())
        }
        Aim::Ranges(_) => None,
    }
}

/// TCMalloc, docs/tuning.md, System-Level Optimizations.
fn tcmalloc(case: &Case<'_>) -> Option<AdviceStep> {
    let _library = case.library(&["libtcmalloc"])?;
    case.wants_large().then(|| {
        let set = |name: &str, value: &str| format!("echo {value} > {FOLDER}/{name}");
        let lines = vec![
            set("enabled", "always"),
            set("defrag", "defer+madvise"),
            set("khugepaged/max_ptes_none", "0"),
        ];
        let effect = "tcmalloc keeps its memory in whole large pages and leaves the rest to the kernel's \
                      settings, which its documentation wants so. They hold for all programs.";
        remedy("tcmalloc", lines, effect.into(), "TCMalloc, docs/tuning.md, System-Level Optimizations")
    })
}

/// mimalloc, Environment Options: MIMALLOC_ALLOW_LARGE_OS_PAGES, MIMALLOC_ALLOW_THP.
fn mimalloc(case: &Case<'_>) -> Option<AdviceStep> {
    let _library = case.library(&["libmimalloc"])?;
    let source = "mimalloc, Environment Options";
    let one = |line: &str, effect: &str| {
        Some(remedy("mimalloc", vec![format!("{line} PROG")], effect.into(), source))
    };
    match case.aim {
        Aim::Off => one(
            "MIMALLOC_ALLOW_THP=0",
            "Switches transparent large pages off for the whole process (versions that lack the option \
             ignore it).",
        ),
        Aim::Ranges(_) if case.wants_large() => one(
            "MIMALLOC_ALLOW_THP=1 MIMALLOC_ALLOW_LARGE_OS_PAGES=1",
            "The first is the default of newer versions; the second also takes reserved 2MB pages \
             (vm.nr_hugepages) where there are some. MIMALLOC_VERBOSE=1 says what it got.",
        ),
        Aim::Ranges(_) => None,
    }
}

/// The java command, Advanced Options: UseTransparentHugePages, AlwaysPreTouch.
fn java(case: &Case<'_>) -> Option<AdviceStep> {
    let _library = case.library(&["libjvm.so"])?;
    let source = "The java Command, Advanced Runtime Options for Java (HotSpot)";
    let one =
        |line: &str, effect: String| Some(remedy("Java", vec![line.to_owned()], effect, source));
    match case.aim {
        Aim::Off => one(
            "java -XX:-UseTransparentHugePages …",
            "The default: the virtual machine requests no large pages. Under enabled=always it has them \
             all the same."
                .into(),
        ),
        Aim::Ranges(_) if case.wants_large() => one(
            "java -XX:+UseTransparentHugePages -XX:+AlwaysPreTouch …",
            "Requests large pages for the heap and touches all of it at the start, when memory is least \
             fragmented; the start takes longer, and the whole heap is resident."
                .to_owned()
                + case.condition(),
        ),
        Aim::Ranges(_) => None,
    }
}

/// Go, A Guide to the Go Garbage Collector, Linux transparent huge pages; package runtime, GODEBUG.
fn go(case: &Case<'_>) -> Option<AdviceStep> {
    let library = case.facts.libraries.iter().find(|library| library.path.starts_with("go:"))?;
    let source =
        "Go, A Guide to the Go Garbage Collector, Linux transparent huge pages; runtime, GODEBUG";
    // Since 1.21.1 the runtime leaves large pages to the kernel's settings.
    let leaves_it = library.version.is_none_or(|version| version >= (1, 21));
    match case.aim {
        Aim::Off if leaves_it => Some(remedy(
            "Go",
            vec!["GODEBUG=disablethp=1 PROG".into()],
            "No large pages for the heap (Go 1.21.6, 1.22 and later; to be removed some day).".into(),
            source,
        )),
        Aim::Ranges(_) if case.wants_large() && leaves_it => Some(remedy(
            "Go",
            vec![
                format!("echo always > {FOLDER}/enabled"),
                format!("echo 0 > {FOLDER}/khugepaged/max_ptes_none"),
            ],
            "The runtime does not request large pages: it has them under enabled=always only, and its \
             guide wants max_ptes_none=0, or unused memory grows back into large pages. Both hold for \
             all programs. A larger GOGC makes the heap denser in time, at the cost of memory."
                .into(),
            source,
        )),
        _ => None,
    }
}

/// Node.js, Command-line API, --use-largepages.
fn node(case: &Case<'_>) -> Option<AdviceStep> {
    let _program = case.library(&["node", "libnode.so"])?;
    case.wants_large().then(|| {
        let effect = "Moves the program's code into 2MB pages at the start. There is no switch for the heap of \
                      V8: it has large pages under enabled=always only.";
        remedy(
            "Node.js",
            vec!["node --use-largepages=silent …".into()],
            effect.into(),
            "Node.js, Command-line API, --use-largepages",
        )
    })
}

/// Python, Command line and environment, PYTHONMALLOC; glibc.malloc.hugetlb as in [`glibc`].
fn python(case: &Case<'_>) -> Option<AdviceStep> {
    let _program = case.library(&["python", "libpython"])?;
    let glibc = case.library(&["libc.so.6"])?;
    let has_tunable = glibc.version.is_none_or(|version| version >= (2, 35));
    (case.wants_large() && has_tunable).then(|| {
        let effect = "Python's own allocator maps 256KB or 1MB at a time, too little for a large page. With \
                      PYTHONMALLOC=malloc small objects come from glibc, which is somewhat slower for them."
            .to_owned()
            + case.condition();
        remedy(
            "Python",
            vec!["PYTHONMALLOC=malloc GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python …".into()],
            effect,
            "Python, Command line and environment, PYTHONMALLOC",
        )
    })
}

/// NumPy, Global Configuration Options, Madvise hugepage on Linux.
fn numpy(case: &Case<'_>) -> Option<AdviceStep> {
    let _library = case.library(&["_multiarray_umath"])?;
    let source = "NumPy, Global Configuration Options, madvise hugepage on Linux";
    let one = |value: u8, effect: &str| {
        let lines = vec![format!("NUMPY_MADVISE_HUGEPAGE={value} python …")];
        Some(remedy("NumPy", lines, effect.to_owned(), source))
    };
    match case.aim {
        Aim::Off => one(0, "NumPy no longer requests large pages for its arrays."),
        Aim::Ranges(_) if case.wants_large() => one(
            1,
            "NumPy requests large pages for arrays from 4MB on; the default since Linux 4.6.",
        ),
        Aim::Ranges(_) => None,
    }
}

/// prctl(2), PR_SET_THP_DISABLE: since Linux 3.15; its flag since 6.18.
fn program_off(case: &Case<'_>) -> Option<AdviceStep> {
    if !case.is_off() {
        return None;
    }
    let mut lines = vec!["prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);".to_owned()];
    let mut effect =
        "For this program and the programs that it starts; other programs keep their large pages."
            .to_owned();
    if case.facts.kernel.is_some() && case.kernel_has((6, 18)) {
        lines.push("prctl(PR_SET_THP_DISABLE, 1, PR_THP_DISABLE_EXCEPT_ADVISED, 0, 0);".into());
        effect +=
            " The second form leaves large pages to memory that the program requests them for.";
    }
    Some(remedy("No large pages for this program", lines, effect, "PR_SET_THP_DISABLE(2const)"))
}

/// Linux, Transparent Hugepage Support: enabled, defrag, shmem_enabled.
fn enabled(case: &Case<'_>) -> Option<AdviceStep> {
    let source = "Linux, Transparent Hugepage Support, Global THP controls";
    if case.facts.settings.is_empty() {
        let effect = "This kernel has no transparent large pages (CONFIG_TRANSPARENT_HUGEPAGE). 2MB pages have \
                      to be reserved, and the program has to map them (MAP_HUGETLB).";
        let lines = vec!["sysctl vm.nr_hugepages=N".to_owned()];
        return case.wants_large().then(|| remedy("Reserved pages", lines, effect.into(), source));
    }
    let now = |name: &str| case.setting(name).map(|value| format!("{name} is {value}"));
    let values = ["enabled", "defrag", "shmem_enabled"].iter().filter_map(|name| now(name));
    let values = values.collect::<Vec<_>>().join(", ");
    let setting = case.setting("enabled")?;
    let (line, effect) = match (case.aim, setting) {
        (Aim::Off, "always") => ("madvise", "Large pages only for programs that request them."),
        (Aim::Ranges(_), _) if case.wants_between() => return None,
        (Aim::Ranges(_), "never") => {
            ("madvise", "Large pages for memory that programs request them for, and for no other.")
        }
        (Aim::Ranges(_), "madvise") if case.wants_large() => (
            "always",
            "Large pages for all memory of all programs: this one need not be changed, others take more memory.",
        ),
        _ => return None,
    };
    let lines = vec![format!("echo {line} > {FOLDER}/enabled")];
    let effect = format!("{effect} Now {values}.");
    Some(remedy("Setting of the machine", lines, effect, source))
}

/// Documentation of multi-size THP.
const OTHER_SIZES: &str = "Linux, Transparent Hugepage Support, hugepages-<size>kB/enabled (6.8)";
/// First version of Linux with multi-size THP.
const WITH_OTHER_SIZES: Version = (6, 8);

/// Setting that gives all memory of all programs pages of a size between 4KB and 2MB; `effect` says what that
/// does to the program. `None` if the kernel has no such pages.
pub fn size_for_all(facts: &Surroundings, page_bytes: u64, effect: &str) -> Option<AdviceStep> {
    let aim = Aim::Off;
    let case = Case { facts, aim: &aim };
    let lines = vec![format!("echo always > {FOLDER}/{}", setting_of(page_bytes))];
    let now = now(&case, &[page_bytes]);
    let effect = format!(
        "In place of 2MB pages, for less memory. This program would be {effect}; others get such pages, too.{now}"
    );
    let title = format!("{}KB pages for all memory", page_bytes >> 10);
    case.kernel_has(WITH_OTHER_SIZES).then(|| remedy(&title, lines, effect, OTHER_SIZES))
}

/// Name of the setting for pages of a size between 4KB and 2MB.
fn setting_of(page_bytes: u64) -> String {
    format!("hugepages-{}kB/enabled", page_bytes >> 10)
}

/// Sentence on the present settings for pages of these sizes; empty if none is known.
fn now(case: &Case<'_>, sizes: &[u64]) -> String {
    let values = sizes.iter().filter_map(|&bytes| {
        let name = setting_of(bytes);
        case.setting(&name).map(|value| format!("{name} is {value}"))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    if values.is_empty() { String::new() } else { format!(" Now {values}.") }
}

/// Settings for the recommended sizes between 4KB and 2MB. A setting holds for all memory or for memory of `madvise`,
/// and a first touch takes the largest size that is on. 2MB pages are therefore switched off, and memory that should
/// have them gets them with `MADV_COLLAPSE`.
fn other_sizes(case: &Case<'_>) -> Option<AdviceStep> {
    let mut sizes: Vec<u64> = case.aim.ranges().iter().map(|range| range.page_bytes).collect();
    sizes.retain(|&bytes| bytes < LARGE_BYTES);
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return None;
    }
    let names = sizes.iter().map(|bytes| format!("{}KB", bytes >> 10)).collect::<Vec<_>>();
    let names = names.join(" and ");
    if !case.kernel_has(WITH_OTHER_SIZES) {
        let effect = format!(
            "This kernel has no pages of {names}, which Linux has since 6.8: until then, madvise gives this memory \
             2MB pages, which take more memory."
        );
        return Some(remedy("Newer kernel", Vec::new(), effect, OTHER_SIZES));
    }
    let line = |value: &str, bytes: u64| format!("echo {value} > {FOLDER}/{}", setting_of(bytes));
    let mut lines: Vec<String> = sizes.iter().map(|bytes| line("madvise", *bytes)).collect();
    lines.push(line("never", LARGE_BYTES));
    sizes.push(LARGE_BYTES);
    let large = match case.wants_2mb() {
        true => {
            " Memory that is to have 2MB pages gets them by MADV_COLLAPSE, which no setting stops."
        }
        false => "",
    };
    let effect = format!(
        "Memory of madvise has {names} pages, and other memory keeps 4KB: a first touch takes the largest size that is \
         on, so that 2MB is off. This holds for all programs.{large}{}",
        now(case, &sizes)
    );
    Some(remedy("Sizes between", lines, effect, OTHER_SIZES))
}

/// Linux, Transparent Hugepage Support, Khugepaged controls.
fn khugepaged(case: &Case<'_>) -> Option<AdviceStep> {
    let limit: u64 = case.setting("khugepaged/max_ptes_none")?.parse().ok()?;
    if case.is_off() || !case.wants_2mb() || limit == 0 {
        return None;
    }
    let scanned = case.setting("khugepaged/pages_to_scan").unwrap_or("4096");
    let sleep = case.setting("khugepaged/scan_sleep_millisecs").unwrap_or("10000");
    let effect = format!(
        "khugepaged makes a large page of as few as {} of 512 (max_ptes_none is {limit}), where \
         large pages are on: memory grows with time. It looks at {scanned} pages every {sleep} ms.",
        counted(512 - limit.min(511), "used page"),
    );
    let lines = vec![format!("echo 0 > {FOLDER}/khugepaged/max_ptes_none")];
    Some(remedy(
        "Against slow growth",
        lines,
        effect,
        "Linux, Transparent Hugepage Support, Khugepaged controls",
    ))
}

/// Linux, HugeTLB Pages, Kernel parameters: hugepagesz, hugepages, default_hugepagesz.
fn gigabyte_pages(case: &Case<'_>) -> Option<AdviceStep> {
    let is_huge = |range: &&AdvisedRange| range.page_bytes >= GB;
    let pages: u64 = case
        .aim
        .ranges()
        .iter()
        .filter(is_huge)
        .map(|range| (range.bytes.end - range.bytes.start).div_ceil(GB))
        .sum();
    (pages > 0).then(|| {
        let lines = vec![
            format!("hugepagesz=1G hugepages={pages}"),
            "mmap(…, MAP_HUGETLB | MAP_HUGE_1GB, …);".to_owned(),
        ];
        let effect = "The first line belongs to the kernel's boot parameters (default_hugepagesz=1G makes it the \
                      size of MAP_HUGETLB alone). The pages are reserved from the start, and no other memory can \
                      use them; transparent large pages are 2MB at most.";
        remedy("1GB pages", lines, effect.into(), "Linux, HugeTLB Pages, kernel boot parameters")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, offset: u64, page_bytes: u64) -> AdvisedRange {
        let start = 0x7f00_0000_0000 + offset;
        AdvisedRange {
            process: ProcessId(0),
            area: (name.into(), offset),
            bytes: start..start + 4 * MB,
            page_bytes,
        }
    }

    fn large() -> Aim {
        Aim::Ranges(vec![range("[heap]", 0, LARGE_BYTES)])
    }

    fn machine(
        kernel: Version,
        settings: &[(&str, &str)],
        libraries: &[(&str, Option<Version>)],
    ) -> Surroundings {
        let library =
            |&(path, version): &(&str, Option<Version>)| Library { path: path.into(), version };
        Surroundings {
            kernel: Some(kernel),
            settings: settings.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            libraries: libraries.iter().map(library).collect(),
        }
    }

    /// Returns the titles of the switches, and all their lines and effects.
    fn shown(facts: &Surroundings, aim: &Aim) -> (Vec<String>, String) {
        let all = remedies(facts, aim);
        let text = all.iter().map(|one| format!("{}\n{}\n", one.lines.join("\n"), one.effect));
        (all.iter().map(|one| one.title.clone()).collect(), text.collect())
    }

    fn has(facts: &Surroundings, aim: &Aim, title: &str) -> bool {
        shown(facts, aim).0.iter().any(|one| one == title)
    }

    #[test]
    fn calls_name_areas_and_offsets() {
        let ranges = vec![range("[heap]", 0x200000, LARGE_BYTES); 10];
        let (_, text) =
            shown(&machine((6, 0), &[("enabled", "madvise")], &[]), &Aim::Ranges(ranges));
        assert!(
            text.contains("madvise([heap] + 0x200000, 1024 * 4096, MADV_HUGEPAGE);\n"),
            "{text}"
        );
        assert!(text.contains("// and 2 more: all of them with --json"), "{text}");
        let other = AdvisedRange { process: ProcessId(3), ..range("[heap]", 0, LARGE_BYTES) };
        assert_eq!(
            calls(&[other], "MADV_HUGEPAGE"),
            ["madvise([heap] + 0x0, 1024 * 4096, MADV_HUGEPAGE);  // process 3"]
        );
    }

    #[test]
    fn versions_decide() {
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        for (version, is_shown) in
            [(Some((2, 34)), false), (Some((2, 35)), true), (Some((2, 41)), true), (None, true)]
        {
            let facts = machine((6, 1), &[("enabled", "madvise")], &[(libc, version)]);
            assert_eq!(has(&facts, &large(), "glibc's malloc"), is_shown, "{version:?}");
        }
        for (kernel, is_shown) in
            [((6, 0), false), ((6, 1), true), ((5, 15), false), ((7, 0), true)]
        {
            let facts = machine(kernel, &[("enabled", "madvise")], &[]);
            assert_eq!(has(&facts, &large(), "Collapse now"), is_shown, "{kernel:?}");
        }
        let jemalloc = |version| machine((6, 1), &[], &[("/usr/lib/libjemalloc.so.2", version)]);
        assert!(!has(&jemalloc(Some((4, 5))), &large(), "jemalloc"));
        assert!(has(&jemalloc(Some((5, 3))), &large(), "jemalloc"));
    }

    #[test]
    fn only_mapped_libraries_have_switches() {
        let none = machine((6, 1), &[("enabled", "madvise")], &[("/usr/bin/sort", None)]);
        let (titles, _) = shown(&none, &large());
        assert_eq!(titles, ["madvise in the program", "Collapse now", "Setting of the machine"]);
        for (path, title) in [
            ("/usr/lib/libtcmalloc.so.4", "tcmalloc"),
            ("/usr/lib/libmimalloc.so.2.0", "mimalloc"),
            ("/usr/lib/jvm/java-17/lib/server/libjvm.so", "Java"),
            ("go:/usr/bin/etcd", "Go"),
            ("/usr/bin/node", "Node.js"),
            ("/x/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so", "NumPy"),
        ] {
            let facts = machine((6, 1), &[("enabled", "madvise")], &[(path, None)]);
            assert!(has(&facts, &large(), title), "{title}");
        }
        let python = [("/usr/bin/python3.11", None), ("/lib/libc.so.6", Some((2, 36)))];
        assert!(has(&machine((6, 1), &[], &python), &large(), "Python"));
        let both = [("/lib/libc.so.6", Some((2, 36))), ("/lib/libjemalloc.so.2", None)];
        let (titles, _) = shown(&machine((6, 1), &[], &both), &large());
        assert!(!titles.contains(&"glibc's malloc".to_owned()), "{titles:?}");
    }

    #[test]
    fn present_settings_are_named() {
        let settings = [
            ("enabled", "never"),
            ("defrag", "madvise"),
            ("shmem_enabled", "never"),
            ("khugepaged/max_ptes_none", "511"),
        ];
        let (_, text) = shown(&machine((6, 1), &settings, &[]), &large());
        assert!(
            text.contains("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
            "{text}"
        );
        assert!(
            text.contains("Now enabled is never, defrag is madvise, shmem_enabled is never."),
            "{text}"
        );
        assert!(
            text.contains("It has no effect until transparent_hugepage/enabled is madvise"),
            "{text}"
        );
        assert!(text.contains("as few as 1 used page of 512"), "{text}");
        assert!(!has(
            &machine((6, 1), &[("enabled", "always")], &[]),
            &large(),
            "Setting of the machine"
        ));
    }

    #[test]
    fn a_kernel_without_large_pages_can_reserve_them() {
        let (titles, text) = shown(&machine((6, 1), &[], &[]), &large());
        assert!(titles.contains(&"Reserved pages".to_owned()), "{titles:?}");
        assert!(text.contains("CONFIG_TRANSPARENT_HUGEPAGE"), "{text}");
    }

    #[test]
    fn sizes_between_and_gigabytes_have_switches_of_their_own() {
        let settings = [("enabled", "madvise"), ("hugepages-64kB/enabled", "never")];
        let aim = Aim::Ranges(vec![range("[heap]", 0, 64 << 10)]);
        let (_, text) = shown(&machine((6, 8), &settings, &[]), &aim);
        let line = "echo madvise > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
        assert!(
            text.contains(line) && text.contains("Now hugepages-64kB/enabled is never."),
            "{text}"
        );
        assert!(
            text.contains(
                "echo never > /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled"
            )
        );
        assert!(text.contains("MADV_HUGEPAGE);  // 64KB pages\n"), "{text}");
        assert!(
            !text.contains("MADV_COLLAPSE") && !text.contains("/transparent_hugepage/enabled\n"),
            "{text}"
        );
        let (titles, text) = shown(&machine((6, 7), &settings, &[]), &aim);
        assert!(!titles.contains(&"Sizes between".to_owned()), "{titles:?}");
        assert!(text.contains("no pages of 64KB, which Linux has since 6.8"), "{text}");
        // 2MB pages for some memory: every range of them is collapsed, as the setting gives none.
        let large = range("", 8 * MB, LARGE_BYTES);
        let mixed = Aim::Ranges(vec![range("[heap]", 0, 64 << 10), large.clone(), large]);
        let (_, text) = shown(&machine((6, 8), &settings, &[]), &mixed);
        assert_eq!(text.matches(", MADV_COLLAPSE);").count(), 2, "{text}");
        assert!(text.contains("gets them by MADV_COLLAPSE"), "{text}");
        let huge = AdvisedRange { bytes: 0..3 * GB, ..range("[heap]", 0, GB) };
        let (titles, text) = shown(&machine((6, 1), &settings, &[]), &Aim::Ranges(vec![huge]));
        assert_eq!(titles, ["1GB pages"]);
        assert!(text.contains("hugepagesz=1G hugepages=3"), "{text}");
    }

    #[test]
    fn a_size_for_all_memory_has_its_setting() {
        let facts = machine((6, 8), &[("hugepages-64kB/enabled", "madvise")], &[]);
        let remedy = size_for_all(&facts, 64 << 10, "1.100× as fast as it is").unwrap();
        let line = "echo always > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
        assert_eq!(
            (remedy.title.as_str(), &remedy.lines[..]),
            ("64KB pages for all memory", &[line.to_owned()][..])
        );
        assert!(remedy.effect.contains("would be 1.100× as fast"), "{}", remedy.effect);
        assert!(
            remedy.effect.ends_with("Now hugepages-64kB/enabled is madvise."),
            "{}",
            remedy.effect
        );
        assert_eq!(size_for_all(&machine((6, 7), &[], &[]), 64 << 10, ""), None);
    }

    #[test]
    fn large_pages_can_be_switched_off_for_one_program() {
        let libraries = [("/lib/libjemalloc.so.2", None), ("go:x", Some((1, 22)))];
        let (titles, text) =
            shown(&machine((6, 18), &[("enabled", "always")], &libraries), &Aim::Off);
        let expected =
            ["jemalloc", "Go", "No large pages for this program", "Setting of the machine"];
        assert_eq!(titles, expected);
        assert!(
            text.contains("PR_THP_DISABLE_EXCEPT_ADVISED") && text.contains("thp:never"),
            "{text}"
        );
        let (_, older) = shown(&machine((6, 17), &[("enabled", "always")], &[]), &Aim::Off);
        assert!(!older.contains("EXCEPT_ADVISED"), "{older}");
    }
}
