//! Areas of a trace: memory by its name, as `/proc/PID/maps` shows it.

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;

use perforate_report::text::end_of;
use perforate_types::{Backing, Chunk, ProcessId, ProgramEvent, RangeMap, VirtualAddress};

/// Number of areas that are shown one by one.
const SHOWN: usize = 16;
/// Width of the column of names.
const NAME_COLUMNS: usize = 46;
/// Column in which the lines of `trace info` begin, after their titles.
const INDENT: usize = 14;

/// Areas of all processes of a trace, collected from its events.
#[derive(Default)]
pub(super) struct Areas {
    /// Names of the memory of each process, at one point of the trace.
    spaces: BTreeMap<ProcessId, RangeMap<String>>,
    running: ProcessId,
    /// Ranges mapped or named since the last instruction. A name follows the mapping that it is for.
    new: Vec<(ProcessId, Range<u64>)>,
    /// Addresses that had each name at some point of the trace, with their process. Unsorted.
    found: BTreeMap<String, Vec<(ProcessId, Range<u64>)>>,
}

impl Areas {
    /// Adds the events of the trace's next chunk.
    pub(super) fn add(&mut self, chunk: &Chunk) {
        let mut last = 0;
        for (at, event) in &chunk.events {
            if *at > last {
                self.settle();
            }
            last = *at;
            self.add_event(event);
        }
        if chunk.instructions.len() as u32 > last {
            self.settle();
        }
    }

    fn add_event(&mut self, event: &ProgramEvent) {
        let process = self.running;
        let space = self.spaces.entry(process).or_default();
        let named: Vec<(Range<u64>, String)> = match event {
            ProgramEvent::Map { start, length, backing, shared, .. } => {
                vec![(range(*start, *length), unnamed(*backing, *shared).into())]
            }
            ProgramEvent::Brk { start, end } => {
                vec![(start.value()..end.value(), unnamed(Backing::Heap, false).into())]
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                let moved = space.remove(&range(*from, *from_length)).into_iter().next();
                moved.map(|(_, name)| (range(*to, *to_length), name)).into_iter().collect()
            }
            ProgramEvent::Name { start, length, name } => {
                let none = unnamed(Backing::Anonymous, false);
                let name = if name.is_empty() { none } else { name };
                let parts = space.remove(&range(*start, *length)).into_iter();
                parts.map(|(part, _)| (part, name.to_owned())).collect()
            }
            ProgramEvent::Fork { child } => {
                let copy = space.clone();
                self.new.extend(copy.iter().map(|(range, _)| (*child, range)));
                self.spaces.insert(*child, copy);
                return;
            }
            ProgramEvent::Unmap { start, length } => {
                space.remove(&range(*start, *length));
                return;
            }
            ProgramEvent::Exec => return *space = RangeMap::default(),
            ProgramEvent::Exit { process } => return drop(self.spaces.remove(process)),
            ProgramEvent::Switch { process, .. } => return self.running = *process,
            ProgramEvent::Protect { .. }
            | ProgramEvent::Advise { .. }
            | ProgramEvent::Gap { .. }
            | ProgramEvent::Phase { .. } => return,
        };
        for (range, name) in named {
            space.replace(range.clone(), name);
            self.new.push((process, range));
        }
    }

    /// Notes the names of the ranges that were mapped or named since the last instruction.
    fn settle(&mut self) {
        for (process, range) in take(&mut self.new) {
            let Some(space) = self.spaces.get(&process) else { continue };
            for (part, name) in space.within(range) {
                self.found.entry(name.clone()).or_default().push((process, part));
            }
        }
    }

    /// Lines of text with the areas: bytes that data accesses touched (`pages`, 4KB pages with their
    /// processes), bytes mapped at some point, name. Empty if the trace maps no memory.
    pub(super) fn text(mut self, pages: impl Iterator<Item = (ProcessId, u64)>) -> String {
        self.settle();
        let mut pages: Vec<(ProcessId, u64)> = pages.collect();
        pages.sort_unstable();
        let mut rows: Vec<Row> = self
            .found
            .into_iter()
            .map(|(name, ranges)| Row::new(name, ranges, &pages))
            .filter(|row| row.mapped > 0)
            .collect();
        rows.sort_by(|a, b| (b.touched, b.mapped, &a.name).cmp(&(a.touched, a.mapped, &b.name)));
        if rows.is_empty() {
            return String::new();
        }
        let mut text = format!(
            "{:INDENT$}  touched     mapped  name (touched by data accesses; mapped at any time)\n",
            "areas"
        );
        let hidden = rows.split_off(rows.len().min(SHOWN));
        for row in rows {
            text += &row.line();
        }
        if !hidden.is_empty() {
            let sum = |of: fn(&Row) -> u64| hidden.iter().map(of).fold(0, u64::saturating_add);
            let (touched, mapped) = (sum(|row| row.touched), sum(|row| row.mapped));
            let name = format!("{} more", hidden.len());
            text += &Row { name, touched, mapped }.line();
        }
        text
    }
}

/// An area of the table, with its bytes.
struct Row {
    name: String,
    touched: u64,
    mapped: u64,
}

impl Row {
    fn new(
        name: String,
        mut ranges: Vec<(ProcessId, Range<u64>)>,
        pages: &[(ProcessId, u64)],
    ) -> Self {
        ranges.sort_unstable_by_key(|(process, range)| (*process, range.start));
        let (mut touched, mut mapped) = (0, 0);
        let mut done = (ProcessId(0), 0);
        for (process, range) in ranges {
            let start = if done.0 == process { range.start.max(done.1) } else { range.start };
            if start < range.end {
                mapped += range.end - start;
                let before = |page| pages.partition_point(|place| *place < (process, page));
                touched += (before(range.end.div_ceil(4096)) - before(start / 4096)) as u64 * 4096;
                done = (process, range.end);
            }
        }
        Self { name, touched, mapped }
    }

    fn line(&self) -> String {
        let (touched, mapped) = (size(self.touched), size(self.mapped));
        let name = end_of(&escaped(&self.name), NAME_COLUMNS);
        format!("{:INDENT$}{touched:>9}  {mapped:>9}  {name}\n", "")
    }
}

fn range(start: VirtualAddress, length: u64) -> Range<u64> {
    start.value()..start.value().saturating_add(length)
}

/// Name of memory that has none in `/proc/PID/maps`, or whose name the trace omits.
fn unnamed(backing: Backing, shared: bool) -> &'static str {
    match backing {
        Backing::Stack => "[stack]",
        Backing::Heap => "[heap]",
        Backing::File => "(a file)",
        Backing::Anonymous if shared => "(shared memory)",
        Backing::Anonymous => "(anonymous memory)",
    }
}

/// Formats a number of bytes with a unit.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KB", bytes >> 10),
        0x10_0000..0x1_0000_0000 => format!("{:.1} MB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// A name on one line: line ends are escaped as in `/proc/PID/maps`.
pub(super) fn escaped(name: &str) -> String {
    name.replace('\n', "\\012")
}

#[cfg(test)]
mod tests {
    use perforate_types::{Instruction, Permissions, ThreadId};

    use super::*;

    const MB: u64 = 1 << 20;

    fn at(megabytes: u64) -> VirtualAddress {
        VirtualAddress::new(megabytes * MB)
    }

    fn map(megabytes: Range<u64>, backing: Backing, shared: bool) -> ProgramEvent {
        ProgramEvent::Map {
            start: at(megabytes.start),
            length: (megabytes.end - megabytes.start) * MB,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing,
            shared,
            populate: false,
        }
    }

    fn name(megabytes: Range<u64>, name: &str) -> ProgramEvent {
        let length = (megabytes.end - megabytes.start) * MB;
        ProgramEvent::Name { start: at(megabytes.start), length, name: name.into() }
    }

    /// Text for a trace with one instruction after each list of events, and these pages touched.
    fn text(steps: &[&[ProgramEvent]], pages: &[(u16, u64)]) -> Vec<(u64, u64, String)> {
        let mut areas = Areas::default();
        for events in steps {
            let mut chunk = Chunk::default();
            events.iter().for_each(|event| chunk.push_event(event.clone()));
            chunk.push(Instruction::default(), &[]);
            areas.add(&chunk);
        }
        let pages = pages.iter().map(|(process, page)| (ProcessId(*process), *page));
        let text = areas.text(pages);
        let rows = text.lines().skip(1).map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let bytes = |number: &str, unit: &str| {
                number.parse::<f64>().unwrap() as u64 * if unit == "MB" { MB } else { 1 << 10 }
            };
            (bytes(words[0], words[1]), bytes(words[2], words[3]) / MB, words[4..].join(" "))
        });
        rows.collect()
    }

    #[test]
    fn names_follow_their_mappings() {
        let file = map(16..20, Backing::File, false);
        let anonymous = map(32..40, Backing::Anonymous, false);
        let remap = ProgramEvent::Remap {
            from: at(32),
            from_length: 8 * MB,
            to: at(64),
            to_length: 9 * MB,
        };
        let rows = text(
            &[
                &[file, name(16..20, "/lib/a"), anonymous],
                &[name(34..36, "[anon:b]"), name(100..104, "[anon:nothing]")],
                &[remap, name(64..66, "")],
                &[ProgramEvent::Brk { start: at(1), end: at(3) }],
            ],
            &[(0, 256), (0, 16 * 256), (0, 16 * 256 + 1), (0, 34 * 256), (1, 34 * 256)],
        );
        let row = |touched, mapped, name: &str| (touched, mapped, name.to_owned());
        let expected = [
            row(8192, 4, "/lib/a"),
            // 8MB, and 9MB at another place, of which the names of the first megabytes are taken away.
            row(4096, 17, "(anonymous memory)"),
            row(4096, 2, "[anon:b]"),
            row(4096, 2, "[heap]"),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn children_have_copies_until_they_execute_another_program() {
        let switch = ProgramEvent::Switch { process: ProcessId(1), thread: ThreadId(1) };
        let rows = text(
            &[
                &[map(16..17, Backing::Stack, false), map(32..34, Backing::Anonymous, true)],
                &[ProgramEvent::Fork { child: ProcessId(1) }, switch],
                &[ProgramEvent::Exec, map(48..49, Backing::Stack, false)],
                &[ProgramEvent::Exit { process: ProcessId(1) }],
            ],
            &[(1, 16 * 256)],
        );
        let expected = [(4096, 3, "[stack]".to_owned()), (0, 4, "(shared memory)".to_owned())];
        assert_eq!(rows, expected);
    }

    #[test]
    fn long_tables_and_names_are_cut() {
        let maps: Vec<ProgramEvent> = (0..40)
            .flat_map(|n| {
                let area = 2 * n + 1..2 * n + 2;
                let path = format!("/{}/{n}\n", "long".repeat(20));
                [map(area.clone(), Backing::File, false), name(area, &path)]
            })
            .collect();
        let rows = text(&[&maps], &[]);
        assert_eq!(rows.len(), SHOWN + 1);
        assert!(rows[0].2.starts_with('…') && rows[0].2.ends_with("/0\\012"), "{}", rows[0].2);
        assert_eq!(rows[SHOWN], (0, 24, "24 more".into()));
    }
}
