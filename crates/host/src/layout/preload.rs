//! The preload library that gives a program's memory a layout (`preload/`).

use std::ffi::OsString;
use std::ops::Range;

use super::{Intervals, LARGE_BYTES, Layout};
use crate::HostError;
use crate::preloading::{MAX_PARAMETERS, PreloadLibrary};

/// The preload library's object file, compiled by the build script.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libperforate_layout.so"));

/// Sizes in bytes of the two pools that the preload library makes for a program's memory, multiples of 2MB. A
/// pool of 0 bytes is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    /// Size of malloc's pool in bytes.
    pub heap_bytes: u64,
    /// Size of the pool of anonymous mappings in bytes.
    pub mapped_bytes: u64,
}

/// Report of the preload library about the two memory pools that it made in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// True once the library has begun to run in the program.
    pub has_begun: bool,
    /// Address of malloc's pool; `None` if malloc is not the C library's.
    pub heap_start: Option<u64>,
    /// Address of the pool of anonymous mappings; `None` if it was not made.
    pub mapped_start: Option<u64>,
    /// Size of the pool of anonymous mappings up to the highest byte that was ever in use.
    pub mapped_highest: u64,
    /// Number of the library's madvise calls that the kernel refused.
    pub refused: u64,
}

/// The preload library that gives layouts.
pub struct Preload(PreloadLibrary);

impl Preload {
    /// Prepares the preload library for a program, which must be dynamically linked.
    ///
    /// # Errors
    /// If the program is not found, or is statically linked.
    pub fn new(program: &[OsString]) -> Result<Self, HostError> {
        let name = c"perforate-layout";
        PreloadLibrary::new(program, name, LIBRARY, "layouts are given").map(Self)
    }

    /// Environment variables that make the library give the program's memory a layout. With
    /// `reports`, the library writes a report over that of the previous run.
    ///
    /// # Errors
    /// If the layout has too many intervals for an environment variable.
    pub(crate) fn environment(
        &self,
        pools: Pools,
        layout: &Layout,
        reports: bool,
    ) -> Result<Vec<(String, OsString)>, HostError> {
        let pool = |name, bytes, intervals: &Intervals| {
            let mut text = format!("{name}={}:", bytes / LARGE_BYTES);
            let parts = intervals.within(0..bytes);
            let parts = parts.map(|Range { start, end }| [start / LARGE_BYTES, end / LARGE_BYTES]);
            let parts: Vec<_> = parts.map(|[start, end]| format!("{start}-{end}")).collect();
            text += &parts.join(":");
            text
        };
        let mut text = format!(
            "{};{}",
            pool("brk", pools.heap_bytes, &layout.heap),
            pool("mmap", pools.mapped_bytes, &layout.mapped)
        );
        if text.len() > MAX_PARAMETERS {
            return Err(HostError::Layout(format!(
                "{}: more intervals than can be handed to a program; expected some ten thousand at \
                 most",
                layout.name
            )));
        }
        if reports {
            text += &format!(";report={}", self.0.report_path().display());
        }
        Ok(vec![self.0.variable(), ("PERFORATE_LAYOUT".into(), text.into())])
    }

    /// Clears the library's report of the previous run.
    pub(crate) fn clear_report(&self) -> Result<(), HostError> {
        self.0.clear_report()
    }

    /// Reads the library's current report.
    pub(crate) fn report(&self) -> Result<Report, HostError> {
        Ok(Report::of(&self.0.report()?))
    }
}

impl Report {
    /// Decodes the words of a report, in the order of `Word` in `preload/words.rs`.
    fn of(words: &[u64]) -> Self {
        let word = |number: usize| words.get(number).copied().unwrap_or(0);
        let address = |number| Some(word(number)).filter(|start| *start != 0);
        Self {
            has_begun: word(0) != 0,
            heap_start: address(1),
            mapped_start: address(2),
            mapped_highest: word(3),
            refused: word(5),
        }
    }

    /// Address ranges of the two pools; `None` for a pool that was not made.
    pub(crate) fn addresses(&self, pools: Pools) -> [Option<Range<u64>>; 2] {
        let range = |start: Option<u64>, bytes| start.map(|start| start..start + bytes);
        [range(self.heap_start, pools.heap_bytes), range(self.mapped_start, pools.mapped_bytes)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_layout() {
        let preload = Preload::new(&["sh".into()]).unwrap();
        let layout = Layout {
            name: "test".into(),
            heap: Intervals::of_pages([0, 1, 4]),
            mapped: Intervals::of_pages([9]),
        };
        let pools = Pools { heap_bytes: 16 << 20, mapped_bytes: 4 << 20 };
        let [(preloaded, _), (variable, text)] =
            &preload.environment(pools, &layout, false).unwrap()[..]
        else {
            panic!("two variables")
        };
        assert_eq!((preloaded.as_str(), variable.as_str()), ("LD_PRELOAD", "PERFORATE_LAYOUT"));
        assert_eq!(text, "brk=8:0-2:4-5;mmap=2:", "intervals beyond the pool are left out");
        let many = Layout { heap: Intervals::of_pages((0..60_000).step_by(2)), ..layout };
        let pools = Pools { heap_bytes: 1 << 40, ..pools };
        let error = preload.environment(pools, &many, false).unwrap_err().to_string();
        assert!(error.starts_with("test: more intervals than"), "{error}");
    }

    #[test]
    fn reports_are_words() {
        assert_eq!(Report::of(&[]), Report::default());
        let report = Report::of(&[1, 0, 0x20_0000, 4096, 0, 3]);
        assert!(report.has_begun && report.heap_start.is_none());
        assert_eq!((report.mapped_highest, report.refused), (4096, 3));
        let pools = Pools { heap_bytes: 2 << 20, mapped_bytes: 4 << 20 };
        assert_eq!(report.addresses(pools), [None, Some(0x20_0000..0x60_0000)]);
    }
}
