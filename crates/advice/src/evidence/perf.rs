//! Lines of `perf script`.
//!
//! A line has the fields that `-F` names, in perf's order: command, process, processor, time, period, event,
//! address, source of the data, latencies, instruction pointer, physical address (Linux:
//! `process_event` in tools/perf/builtin-script.c). Times end with a colon, which is how lines of events are
//! recognised. Lines of call chains begin with a tab.

use std::ops::Range;

/// Bits of the data source that tell the result of the TLB look-up (`mem_dtlb` of `perf_mem_data_src` in
/// include/uapi/linux/perf_event.h).
const TLB_SHIFT: u32 = 26;
const TLB_HIT: u64 = 2 << TLB_SHIFT;
const TLB_MISS: u64 = 4 << TLB_SHIFT;
/// Largest latency that a sample can have, in cycles. Larger numbers are instruction pointers.
const MAX_LATENCY: u32 = 100_000;
/// Fewest hexadecimal digits of a data source that names a TLB. Symbols that look like numbers are shorter.
const SOURCE_DIGITS: usize = 7;

/// A line of `perf script`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A sample of the processor.
    Sample(Sample<'a>),
    /// A process mapped memory.
    Map { process: u32, bytes: Range<u64>, permissions: &'a str, name: &'a str },
    /// A process created another.
    Fork { parent: u32, child: u32 },
    /// A process replaced its memory.
    Exec { process: u32 },
    /// A sample, or another event, without its process or in an unknown form.
    Unknown,
    /// A line of a call chain.
    CallChain,
    /// Anything else: empty lines, headings, other records.
    Other,
}

/// Address in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// Address of the data.
    Data(u64),
    /// Address of the data if a call chain follows; else that of the instruction.
    DataBeforeCallChain(u64),
    /// The sample has no address.
    None,
}

/// A sample of the processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub(super) process: u32,
    pub(super) time: &'a str,
    pub(super) event: &'a str,
    pub(super) address: Address,
    /// True if the access missed the TLB and needed a page walk; `None` if the sample does not say.
    pub(super) missed_tlb: Option<bool>,
    /// Latency of the access in cycles.
    pub(super) latency_cycles: Option<u32>,
}

/// Parses a line without its end.
pub(super) fn parse(line: &str) -> Line<'_> {
    if line.starts_with('\t') {
        return Line::CallChain;
    }
    let Some((process, time, rest)) = header(line) else { return Line::Other };
    let rest = rest.trim();
    if let Some(record) = rest.strip_prefix("PERF_RECORD_") {
        return parse_record(record).unwrap_or(Line::Other);
    }
    match process {
        Some(process) => Line::Sample(parse_sample(process, time, rest)),
        None => Line::Unknown,
    }
}

/// Splits a line at its time: process before, time, and the rest.
fn header(line: &str) -> Option<(Option<u32>, &str, &str)> {
    let is_time = |word: &str| {
        let parts = word.strip_suffix(':').and_then(|time| time.split_once('.'));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        parts.is_some_and(|(seconds, rest)| is_number(seconds) && is_number(rest))
    };
    let time = line.split_ascii_whitespace().find(|word| is_time(word))?;
    let start = time.as_ptr() as usize - line.as_ptr() as usize;
    let mut before = line[..start].split_ascii_whitespace().rev();
    let mut process = before.next();
    if process.is_some_and(|word| word.starts_with('[')) {
        process = before.next();
    }
    let process = process.and_then(|word| word.split('/').next()?.parse().ok());
    Some((process, time, &line[start + time.len()..]))
}

/// Parses a record other than a sample, after its common prefix.
fn parse_record(record: &str) -> Option<Line<'_>> {
    if let Some(fork) = record.strip_prefix("FORK(") {
        let (child, parent) = fork.split_once("):(")?;
        let number = |pair: &str| pair.split(':').next()?.parse().ok();
        let (child, parent) = (number(child)?, number(parent)?);
        return (child != parent).then_some(Line::Fork { parent, child });
    }
    if let Some(command) = record.strip_prefix("COMM exec: ") {
        let (_, numbers) = command.rsplit_once(':')?;
        return Some(Line::Exec { process: numbers.split('/').next()?.parse().ok()? });
    }
    let map = record.strip_prefix("MMAP")?;
    let (numbers, map) = map.split_once(": [0x")?;
    let process = numbers.split_ascii_whitespace().last()?.split('/').next()?.parse().ok()?;
    let (start, map) = map.split_once("(0x")?;
    let (length, map) = map.split_once(')')?;
    let (_, map) = map.split_once("]: ")?;
    let (permissions, name) = map.split_once(' ')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let start = number(start)?;
    let bytes = start..start.checked_add(number(length)?)?;
    let name = if name == "//anon" { "" } else { name };
    Some(Line::Map { process, bytes, permissions, name })
}

fn parse_sample<'a>(process: u32, time: &'a str, rest: &'a str) -> Sample<'a> {
    // The data source is a number and its meaning: `10268100142 |OP LOAD|LVL L1 hit|SNP None|TLB …`, before
    // Linux 5.12 `68100142 L1 hit|SNP None|TLB …`.
    let meaning = rest.find("|OP ").or_else(|| rest.find("|SNP "));
    let (fields, meaning) = rest.split_at(meaning.unwrap_or(rest.len()));
    let mut fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let event = fields.iter().position(|word| word.len() > 1 && word.ends_with(':'));
    let event = event.map_or("", |place| fields.drain(..=place).next_back().unwrap_or_default());
    let event = event.trim_end_matches(':');
    let source = if meaning.starts_with("|OP ") {
        fields.len().checked_sub(1)
    } else if meaning.is_empty() {
        None
    } else {
        fields.iter().rposition(|word| word.len() >= SOURCE_DIGITS && hexadecimal(word).is_some())
    };
    let tlb = source.and_then(|place| hexadecimal(fields[place])).unwrap_or(0);
    let by_source = match tlb & (TLB_HIT | TLB_MISS) {
        0 => None,
        bits => Some(bits & TLB_MISS != 0),
    };
    Sample {
        process,
        time,
        event,
        address: match source {
            Some(0) => Address::None,
            Some(_) => first(&fields).map_or(Address::None, Address::Data),
            None => address_of(&fields),
        },
        missed_tlb: by_source.or_else(|| counts_tlb_misses(event).then_some(true)),
        latency_cycles: latency(meaning),
    }
}

/// True for events that only count accesses that missed the TLB.
fn counts_tlb_misses(event: &str) -> bool {
    let event = event.to_ascii_lowercase();
    event.contains("tlb") && event.contains("miss")
}

/// Address in the fields of a sample without a data source. The instruction pointer looks the same, and is
/// followed by its symbol and file: `55d0 main+0x4 (/bin/a)`.
fn address_of(fields: &[&str]) -> Address {
    let Some(address) = first(fields) else { return Address::None };
    let is_alone = fields.len() == 1;
    // A symbol may be called `add`: before its file, only a longer word is a number.
    let is_before_file = fields.get(2).is_some_and(|word| word.starts_with('('));
    let two_numbers = fields.get(1).is_some_and(|word| {
        hexadecimal(word).is_some() && (!is_before_file || word.len() >= SOURCE_DIGITS)
    });
    let two_symbols =
        fields.windows(2).any(|pair| pair[0].ends_with(')') && hexadecimal(pair[1]).is_some());
    match is_alone || two_numbers || two_symbols {
        true => Address::Data(address),
        false => Address::DataBeforeCallChain(address),
    }
}

fn first(fields: &[&str]) -> Option<u64> {
    fields.first().and_then(|word| hexadecimal(word))
}

/// Latency after the meaning of the data source. The last part of the meaning has words; the number is a
/// latency and no instruction pointer if another number, or nothing, follows.
fn latency(meaning: &str) -> Option<u32> {
    let last = meaning.rsplit('|').next()?;
    let mut words = last.split_ascii_whitespace().skip(1);
    let latency = words.find(|word| hexadecimal(word).is_some())?.parse().ok()?;
    let is_latency = words.next().is_none_or(|next| hexadecimal(next).is_some());
    (is_latency && latency > 0 && latency <= MAX_LATENCY).then_some(latency)
}

fn hexadecimal(word: &str) -> Option<u64> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { u64::from_str_radix(word, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> Sample<'_> {
        match parse(line) {
            Line::Sample(sample) => sample,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Lines as perf 6.1 prints them, and those of Intel, Arm and older perfs that their authors quote.
    #[test]
    fn samples_of_several_processors() {
        for (line, process, event, address, missed_tlb, latency_cycles) in [
            // Load latency (PEBS) on Intel.
            (
                "chromium-browse   46572 [002] 544966.882384:      10000 \tcpu_core/MEM_UOPS_RETIRED.LOAD_LATENCY/: \
                 7ffdf1391b0c     10268100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK    N/A    5   7    \
                 0   7fad7c47425d [unknown] (/usr/lib64/libglib-2.0.so.0.8000.3)",
                46572,
                "cpu_core/MEM_UOPS_RETIRED.LOAD_LATENCY/",
                Address::Data(0x7ffd_f139_1b0c),
                Some(false),
                Some(5),
            ),
            // The same with the symbol of the data, a miss of the L2 TLB, and no instruction pointer.
            (
                "a b 12/13 7.5: cpu/mem-loads,ldlat=30/P:     55d4f5a2d098 table+0x98 (/tmp/my dir/a)      \
                 10250100142 |OP LOAD|LVL L1 hit|SNP None|TLB L2 miss|LCK No|BLK  N/A        412",
                12,
                "cpu/mem-loads,ldlat=30/P",
                Address::Data(0x55d4_f5a2_d098),
                Some(true),
                Some(412),
            ),
            // Arm SPE, without addresses.
            (
                "memstress  3603 [020]   122.463754:          1            l1d-miss:       8688000842 |OP LOAD|LVL L3 or \
                 L3 hit|SNP N/A|TLB Walker hit|LCK No|BLK  N/A               aaaac17c3e88 [unknown] (/home/ubuntu/memstress)",
                3603,
                "l1d-miss",
                Address::None,
                Some(false),
                None,
            ),
            // Before Linux 5.12, with an address.
            (
                "ls 14753 [011]  3678.072400:          1      l1d-miss:  ffffa7c22b4b2a00         88000182 L1 miss|SNP \
                 N/A|TLB Walker hit|LCK No|BLK  N/A ffffa7c22b4b2a00 [unknown] ([kernel.kallsyms])",
                14753,
                "l1d-miss",
                Address::Data(0xffff_a7c2_2b4b_2a00),
                Some(false),
                None,
            ),
            // Events without data sources.
            (
                "32624 37932.734138: page-faults:     5641e74c5098",
                32624,
                "page-faults",
                Address::Data(0x5641_e74c_5098),
                None,
                None,
            ),
            (
                "names 32624 37932.734202:          1 page-faults:     7f5bda70de06 _rtld_global+0xde6 \
                 (/usr/lib/ld.so)     7f5bda6f57ad _dl_start+0x3d (/usr/lib/ld.so)",
                32624,
                "page-faults",
                Address::Data(0x7f5b_da70_de06),
                None,
                None,
            ),
            (
                "names 9 [000] 1.0: 100 dTLB-load-misses:u:   7f5bda70de06     7f5bda6f57ad",
                9,
                "dTLB-load-misses:u",
                Address::Data(0x7f5b_da70_de06),
                Some(true),
                None,
            ),
            (
                "names 9 1.0:   1 page-faults:  ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])",
                9,
                "page-faults",
                Address::DataBeforeCallChain(0xffff_ffff_8175_54ea),
                None,
                None,
            ),
            ("names 9 1.0:   1 cycles:", 9, "cycles", Address::None, None, None),
        ] {
            let found = sample(line);
            assert_eq!((found.process, found.event), (process, event), "{line}");
            assert_eq!(found.address, address, "{line}");
            assert_eq!(found.missed_tlb, missed_tlb, "{line}");
            assert_eq!(found.latency_cycles, latency_cycles, "{line}");
        }
    }

    #[test]
    fn a_number_before_a_symbol_is_no_latency() {
        let with = |end: &str| {
            let line = format!("a 1 2.0: e: 7f00 10268100142 |OP LOAD|TLB L1 hit|LCK No{end}");
            sample(&line).latency_cycles
        };
        assert_eq!(with("   45   401136 main+0x1 (/a)"), Some(45));
        assert_eq!(with("   45"), Some(45));
        assert_eq!(with("   401 main+0x1 (/a)"), None, "an instruction pointer");
        assert_eq!(with("   401136"), None, "too large");
        assert_eq!(with("    0   401136 main+0x1 (/a)"), None, "unknown");
        assert_eq!(with("|BLK  Data Addr   45   7f01 main+0x1 (/a)"), Some(45));
    }

    #[test]
    fn records_of_processes() {
        let map = "names 32624 37932.747071: PERF_RECORD_MMAP2 32624/32627: [0x7f5bd9400000(0x800000) @ 0 00:01 \
                   39870 1644101905]: rw-s /memfd:a table (deleted)";
        let expected = Line::Map {
            process: 32624,
            bytes: 0x7f5b_d940_0000..0x7f5b_d9c0_0000,
            permissions: "rw-s",
            name: "/memfd:a table (deleted)",
        };
        assert_eq!(parse(map), expected);
        let first = "perf 7 0.0: PERF_RECORD_MMAP 7/7: [0x1000(0x2000) @ 0]: r //anon";
        let expected = Line::Map { process: 7, bytes: 0x1000..0x3000, permissions: "r", name: "" };
        assert_eq!(parse(first), expected);
        let fork = "32624 37932.764414: PERF_RECORD_FORK(32628:32628):(32624:32624)";
        assert_eq!(parse(fork), Line::Fork { parent: 32624, child: 32628 });
        let thread = "32624 37932.764414: PERF_RECORD_FORK(32624:32628):(32624:32624)";
        assert_eq!(parse(thread), Line::Other);
        let exec = "perf 9/9 37932.734078: PERF_RECORD_COMM exec: a:b:32624/32624";
        assert_eq!(parse(exec), Line::Exec { process: 32624 });
        for (line, expected) in [
            (
                "0 0.0: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1) @ 0]: x [kernel]",
                Line::Other,
            ),
            ("9 1.0: PERF_RECORD_MMAP2 1/1: [0xffffffffffffffff(0x2) @ 0]: rw-p a", Line::Other),
            ("names 37932.734138: page-faults:     5641e74c5098", Line::Unknown),
            ("\tffffffff817554ea elf_load+0x28a ([kernel.kallsyms])", Line::CallChain),
            ("# cmdline : perf record", Line::Other),
            ("", Line::Other),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
