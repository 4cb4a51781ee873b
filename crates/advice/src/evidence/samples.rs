//! Data addresses that a processor sampled, from the text of `perf script`.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

use perforate_types::{RangeMap, counted};

use super::Place;
use super::perf::{self, Address, Line, Sample};
use crate::AreaKind;

/// Size of the pages by which samples are counted, as a power of two.
const PAGE_SHIFT: u32 = 12;
/// Length of the longest line, in bytes.
const MAX_LINE: u64 = 1 << 16;
/// Largest number of different pages with samples.
const MAX_PAGES: usize = 1 << 23;
/// Largest number of mappings of all processes.
const MAX_MAPPINGS: usize = 1 << 20;
/// Addresses from here on are the kernel's.
const KERNEL: u64 = 1 << 63;

/// Error of reading samples, printed as one line.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct SampleError {
    /// Path of the file with the samples.
    pub path: PathBuf,
    /// Problem of the file, and what was expected.
    pub problem: String,
}

/// Samples of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageSamples {
    pub(super) samples: u64,
    /// Number of samples of which it is known that they missed the TLB.
    pub(super) misses: u64,
    /// Number of samples that say whether they missed the TLB.
    pub(super) with_tlb: u64,
    pub(super) latency_cycles: u64,
    pub(super) with_latency: u64,
}

impl PageSamples {
    fn add_tlb(&mut self, missed: Option<bool>) {
        self.with_tlb += u64::from(missed.is_some());
        self.misses += u64::from(missed == Some(true));
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.misses += other.misses;
        self.with_tlb += other.with_tlb;
        self.latency_cycles += other.latency_cycles;
        self.with_latency += other.with_latency;
    }
}

/// Samples of user memory with their data addresses, and the areas that their processes mapped.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Samples by process and number of the 4KB page.
    pub(super) pages: BTreeMap<(u32, u64), PageSamples>,
    /// Areas in order of process and address; empty if the text has no records of mappings.
    pub places: Vec<Place>,
    /// Number of samples of user memory.
    pub count: u64,
    /// Number of samples of the kernel's memory.
    pub of_kernel: u64,
    /// Number of samples without an address.
    pub without_address: u64,
}

impl Samples {
    /// Command that prints samples as this crate reads them, for messages.
    pub const COMMAND: &str = "perf script --show-mmap-events --show-task-events \
                               -F pid,tid,time,event,addr,data_src,weight";

    /// Reads the output of `perf script` in a file.
    ///
    /// # Errors
    /// If the file cannot be read, is `perf.data` itself, or has no samples with data addresses.
    pub fn read(path: &Path) -> Result<Self, SampleError> {
        match perforate_config::open_file(path) {
            Ok(file) => Self::parse(path, BufReader::new(file)),
            Err(error) => Err(SampleError { path: path.to_owned(), problem: error.to_string() }),
        }
    }

    /// Reads the output of `perf script`; `path` is for errors.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(path: &Path, mut input: impl BufRead) -> Result<Self, SampleError> {
        let wrong = |problem| SampleError { path: path.to_owned(), problem };
        let start = input.fill_buf().map_err(|error| wrong(error.to_string()))?;
        if start.starts_with(b"PERFILE2") || start.starts_with(b"2ELIFREP") {
            let command = Self::COMMAND;
            let path = path.display();
            return Err(wrong(format!(
                "is a file of `perf record`; expected text: `{command} -i {path} > samples.txt`"
            )));
        }
        let mut reader = Reader::default();
        reader.read(input).map_err(wrong)?;
        let samples = reader.finish();
        samples.check().map_err(wrong)?;
        Ok(samples)
    }

    /// Fails if there is nothing to rank.
    fn check(&self) -> Result<(), String> {
        let command = Self::COMMAND;
        let without = self.without_address;
        match (self.count, self.of_kernel, without) {
            (0, 0, 0) => Err(format!("no samples; expected the output of `{command}`")),
            (0, 0, _) => Err(format!(
                "{} without data addresses; record them with `perf mem record`, or \
                 `perf record -d` and a precise event, and print them with `{command}`",
                counted(without, "sample"),
            )),
            (0, kernel, _) => Err(format!(
                "{} of the kernel's memory and none of a program's; expected samples of user \
                 memory (`perf mem record -U`)",
                counted(kernel, "sample"),
            )),
            _ => Ok(()),
        }
    }

    /// Sum over all samples.
    pub(super) fn total(&self) -> PageSamples {
        self.sum(self.pages.values())
    }

    /// Sum over the samples of a process in a range of addresses.
    pub(super) fn within(&self, process: u32, bytes: &Range<u64>) -> PageSamples {
        let pages = bytes.start >> PAGE_SHIFT..bytes.end.div_ceil(1 << PAGE_SHIFT);
        let pages = (process, pages.start)..(process, pages.end.max(pages.start));
        self.sum(self.pages.range(pages).map(|(_, samples)| samples))
    }

    fn sum<'a>(&self, pages: impl Iterator<Item = &'a PageSamples>) -> PageSamples {
        pages.fold(PageSamples::default(), |mut sum, page| {
            sum.add(page);
            sum
        })
    }

    /// Processes and addresses of the pages with samples, in order.
    pub(super) fn sampled_pages(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.pages.keys().map(|(process, page)| (*process, page << PAGE_SHIFT))
    }
}

/// Names and kinds of mappings, and the mappings of each process.
#[derive(Default)]
struct Reader {
    samples: Samples,
    processes: BTreeMap<u32, RangeMap<usize>>,
    labels: Vec<(String, AreaKind)>,
    numbers: HashMap<(String, AreaKind), usize>,
    mappings: usize,
    /// Process, time, address and events of the last sample. Arm's SPE prints one sample once for each event.
    last: Option<(u32, String, u64, Vec<String>)>,
    /// Page of the last sample and what it said about the TLB.
    last_missed: Option<bool>,
}

impl Reader {
    fn read(&mut self, mut input: impl BufRead) -> Result<(), String> {
        let mut bytes = Vec::new();
        // Sample whose number is a data address only if a call chain follows.
        let mut waiting: Option<String> = None;
        for number in 1_u64.. {
            bytes.clear();
            let read = io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut bytes);
            let read = read.map_err(|error| error.to_string())?;
            if read == 0 {
                break;
            }
            if read as u64 == MAX_LINE && bytes.last() != Some(&b'\n') {
                let command = Samples::COMMAND;
                return Err(format!(
                    "line {number} is longer than 64 KB; expected the output of `{command}`"
                ));
            }
            let text = String::from_utf8_lossy(&bytes);
            let line = perf::parse(text.trim_end_matches(['\n', '\r']));
            if let Some(before) = waiting.take() {
                self.add_waiting(&before, line == Line::CallChain)?;
            }
            match line {
                Line::Sample(sample) => match sample.address {
                    Address::DataBeforeCallChain(_) => waiting = Some(text.into_owned()),
                    Address::Data(address) => self.add(&sample, address)?,
                    Address::None => self.samples.without_address += 1,
                },
                Line::Map { process, bytes, permissions, name } => {
                    self.map(process, &bytes, permissions, name)?;
                }
                Line::Fork { parent, child } => {
                    let copy = self.processes.get(&parent).cloned().unwrap_or_default();
                    self.processes.insert(child, copy);
                }
                Line::Exec { process } => drop(self.processes.remove(&process)),
                Line::Unknown => {
                    let command = Samples::COMMAND;
                    return Err(format!(
                        "line {number} does not name a process before its time; expected the output \
                         of `{command}`"
                    ));
                }
                Line::CallChain | Line::Other => {}
            }
        }
        waiting.map_or(Ok(()), |before| self.add_waiting(&before, false))
    }

    fn add_waiting(&mut self, line: &str, has_call_chain: bool) -> Result<(), String> {
        match perf::parse(line.trim_end()) {
            Line::Sample(sample) => match sample.address {
                Address::DataBeforeCallChain(address) if has_call_chain => {
                    self.add(&sample, address)
                }
                _ => {
                    self.samples.without_address += 1;
                    Ok(())
                }
            },
            _ => Ok(()),
        }
    }

    fn add(&mut self, sample: &Sample, address: u64) -> Result<(), String> {
        let samples = &mut self.samples;
        if address == 0 {
            samples.without_address += 1;
            return Ok(());
        }
        if address >= KERNEL {
            samples.of_kernel += 1;
            return Ok(());
        }
        let page = (sample.process, address >> PAGE_SHIFT);
        if let Some((process, time, same, events)) = &mut self.last
            && (*process, time.as_str(), *same) == (sample.process, sample.time, address)
            && !events.iter().any(|event| event == sample.event)
        {
            events.push(sample.event.to_owned());
            let known = samples.pages.entry(page).or_default();
            if self.last_missed.is_none() {
                known.add_tlb(sample.missed_tlb);
                self.last_missed = sample.missed_tlb;
            }
            return Ok(());
        }
        if samples.pages.len() >= MAX_PAGES && !samples.pages.contains_key(&page) {
            return Err(format!("samples of more than {MAX_PAGES} pages; expected fewer"));
        }
        let events = vec![sample.event.to_owned()];
        self.last = Some((sample.process, sample.time.to_owned(), address, events));
        self.last_missed = sample.missed_tlb;
        samples.count += 1;
        let known = samples.pages.entry(page).or_default();
        known.samples += 1;
        known.add_tlb(sample.missed_tlb);
        if let Some(cycles) = sample.latency_cycles {
            known.latency_cycles += u64::from(cycles);
            known.with_latency += 1;
        }
        Ok(())
    }

    fn map(
        &mut self,
        process: u32,
        bytes: &Range<u64>,
        permissions: &str,
        name: &str,
    ) -> Result<(), String> {
        self.mappings += 1;
        if self.mappings > MAX_MAPPINGS {
            return Err(format!("more than {MAX_MAPPINGS} mappings; expected fewer"));
        }
        let end = bytes.end.min(KERNEL).next_multiple_of(1 << PAGE_SHIFT);
        let bytes = &(bytes.start >> PAGE_SHIFT << PAGE_SHIFT..end);
        let mappings = self.processes.entry(process).or_default();
        mappings.remove(bytes);
        if permissions.starts_with("---") {
            return Ok(());
        }
        let kind = AreaKind::of_mapping(name, permissions.ends_with('s'));
        let label = (name.to_owned(), kind);
        let number = *self.numbers.entry(label).or_insert_with_key(|label| {
            self.labels.push(label.clone());
            self.labels.len() - 1
        });
        mappings.insert(bytes.clone(), number);
        Ok(())
    }

    fn finish(self) -> Samples {
        let Self { mut samples, processes, labels, .. } = self;
        for (process, mappings) in processes {
            samples.places.extend(mappings.iter().map(|(bytes, label)| {
                let (name, kind) = labels[*label].clone();
                Place { process, name, kind, bytes }
            }));
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Samples, String> {
        let path = Path::new("samples.txt");
        Samples::parse(path, text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn areas_of_processes_that_fork_and_execute() {
        let samples = read(
            "\
7/7 1.0: PERF_RECORD_MMAP2 7/7: [0x1000(0x4000) @ 0 00:00 0 0]: rw-p //anon
7/7 1.1: PERF_RECORD_MMAP2 7/7: [0x2010(0xf08) @ 0 fe:00 1 2]: r-xp /bin/a
7/7 1.2: PERF_RECORD_MMAP2 7/7: [0x5000(0x1000) @ 0 00:00 0 0]: rw-p //anon
7/7 1.3: PERF_RECORD_MMAP2 7/7: [0x6000(0x1000) @ 0 00:00 0 0]: ---p //anon
7/7 1.4: PERF_RECORD_FORK(8:8):(7:7)
7/7 1.5: PERF_RECORD_FORK(9:9):(7:7)
9/9 1.6: PERF_RECORD_COMM exec: b:9/9
9/9 1.7: PERF_RECORD_MMAP2 9/9: [0x8000(0x1000) @ 0 00:00 0 0]: rw-s /SYSV00000001 (deleted)
7/7 1.8: e: 1234
",
        )
        .unwrap();
        let place =
            |process, bytes, name: &str, kind| Place { process, name: name.into(), kind, bytes };
        let both = |process| {
            [
                place(process, 0x1000..0x2000, "", AreaKind::Anonymous),
                place(process, 0x2000..0x3000, "/bin/a", AreaKind::File),
                place(process, 0x3000..0x6000, "", AreaKind::Anonymous),
            ]
        };
        let shared = place(9, 0x8000..0x9000, "/SYSV00000001 (deleted)", AreaKind::Shared);
        assert_eq!(samples.places, [&both(7)[..], &both(8), &[shared]].concat());
    }

    #[test]
    fn samples_are_counted_by_page() {
        let samples = read(
            "\
 a 7 1.0: tlb-access: 1008 8688000842 |OP LOAD|LVL L1 hit|SNP N/A|TLB Walker hit|LCK No
 a 7 1.0: l1d-access: 1008 8688000842 |OP LOAD|LVL L1 hit|SNP N/A|TLB Walker hit|LCK No
 a 7 1.5: mem: 1ff8 10250100142 |OP LOAD|LVL L1 hit|SNP None|TLB L2 miss|LCK No   300   401136 f (/a)
 a 7 1.6: mem: 1ff8 10250100142 |OP LOAD|LVL L1 hit|SNP None|TLB L2 miss|LCK No   100   401136 f (/a)
 a 7 1.7: dtlb_load_misses.walk_completed: 2000     401136
 a 7 1.8: cycles: 0     401136
 a 7 1.9: mem: ffffffff81000000     ffffffff81000008
a 7 2.0:  1 page-faults:  2008 g (/a)
\t401136 f (/a)
 a 7 2.1:  1 page-faults:  401136 f (/a)
 a 7 2.2:  1 page-faults:  401136 f (/a)
",
        )
        .unwrap();
        assert_eq!((samples.count, samples.of_kernel, samples.without_address), (5, 1, 3));
        let first = PageSamples {
            samples: 3,
            misses: 2,
            with_tlb: 3,
            latency_cycles: 400,
            with_latency: 2,
        };
        let second = PageSamples { samples: 2, misses: 1, with_tlb: 1, ..PageSamples::default() };
        let expected = BTreeMap::from([((7, 1), first), ((7, 2), second)]);
        assert_eq!(samples.pages, expected);
        assert_eq!(samples.within(7, &(0x1000..0x2000)), first);
        assert_eq!(samples.within(7, &(0x1fff..0x2001)).samples, 5);
        assert_eq!(samples.within(8, &(0..u64::MAX)).samples, 0);
    }

    #[test]
    fn files_without_addresses_get_one_line_that_says_what_to_do() {
        let no_address = "a 1 2.0: 1 cycles: ffffffff817554ea f ([kernel])\n".repeat(3);
        let long = "x".repeat(1 << 17);
        for (text, expected) in [
            (
                "PERFILE2\0\0",
                "samples.txt: is a file of `perf record`; expected text: `perf script",
            ),
            ("", "samples.txt: no samples; expected the output of `perf script"),
            ("# a heading\n", "no samples"),
            (&no_address, "3 samples without data addresses; record them with `perf mem record`"),
            ("a 1 2.0: e: ffffffff817554ea 401000\n", "1 sample of the kernel's memory"),
            ("a 2.0: e: 817554ea\n", "line 1 does not name a process"),
            (&long, "line 1 is longer than 64 KB"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
