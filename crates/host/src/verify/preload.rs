//! The preload library that gives advice (`preload_advice/`).

use std::ffi::OsString;
use std::ops::Range;

use super::area::AdvisedArea;
use crate::HostError;
use crate::preloading::{MAX_PARAMETERS, PreloadLibrary};

/// The preload library's object file, compiled by the build script.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libperforate_advice.so"));
/// Purpose of the library, for errors on programs that cannot load it.
pub(super) const PURPOSE: &str = "advice is given";
/// Maximum number of areas, as in `preload_advice/items.rs`.
const MAX_AREAS: usize = 1000;
/// Index of the first area's first word in the report.
const FIRST_AREA_WORD: usize = 8;

/// Parameters of the preload library beside the areas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// True if programs that the program executes get the same advice.
    pub inherits: bool,
    /// True to have large pages in advised memory only, also where the system gives them to all memory.
    pub only_advised: bool,
    /// False to give no advice and only hear of the program's memory.
    pub is_advised: bool,
}

/// The preload library, and the areas that it advises.
pub(super) struct AdvicePreload<'a> {
    library: PreloadLibrary,
    areas: &'a [AdvisedArea],
}

/// Report of the library about the first process of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// True once the library has begun to run in the program.
    pub has_begun: bool,
    /// True if the library hears of the program's mappings.
    pub is_patched: bool,
    /// Number of the library's madvise calls that the kernel refused.
    pub refused: u64,
    /// Addresses of each area; `None` if the area does not exist (yet), or is not at one place.
    pub addresses: Vec<Option<Range<u64>>>,
}

impl<'a> AdvicePreload<'a> {
    /// Prepares the preload library for a program, which must be dynamically linked.
    ///
    /// # Errors
    /// If the program cannot load the library, or if there are too many areas.
    pub fn new(program: &[OsString], areas: &'a [AdvisedArea]) -> Result<Self, HostError> {
        if areas.len() > MAX_AREAS {
            let problem =
                format!("{} areas with advice; expected {MAX_AREAS} at most", areas.len());
            return Err(HostError::Verify(problem));
        }
        let library = PreloadLibrary::new(program, c"perforate-advice", LIBRARY, PURPOSE)?;
        Ok(Self { library, areas })
    }

    /// Environment variables of a run. In a run without advice, the library is loaded all the same, so that
    /// runs differ in the advice only.
    pub fn environment(
        &self,
        parameters: Parameters,
    ) -> Result<Vec<(String, OsString)>, HostError> {
        self.library.clear_report()?;
        let mut words = vec![format!("report={}", self.library.report_path().display())];
        let Parameters { inherits, only_advised, is_advised } = parameters;
        words.extend(inherits.then(|| "inherit".to_owned()));
        words.extend(only_advised.then(|| "only-advised".to_owned()));
        words.extend((!is_advised).then(|| "silent".to_owned()));
        words.extend(self.areas.iter().map(AdvisedArea::parameter));
        let text = words.join(";");
        if text.len() > MAX_PARAMETERS {
            return Err(HostError::Verify(
                "more ranges of memory than can be handed to a program; expected some ten thousand at \
                 most"
                    .into(),
            ));
        }
        Ok(vec![self.library.variable(), ("PERFORATE_ADVICE".into(), text.into())])
    }

    /// Reads the library's current report.
    pub fn report(&self) -> Result<Report, HostError> {
        Ok(Report::of(&self.library.report()?, self.areas.len()))
    }
}

impl Report {
    /// Decodes the words of a report, in the order of `Word` in `preload_advice/areas.rs`.
    fn of(words: &[u64], areas: usize) -> Self {
        let word = |number: usize| words.get(number).copied().unwrap_or(0);
        let addresses = |area: usize| {
            let first = FIRST_AREA_WORD + 2 * area;
            let (start, bytes) = (word(first), word(first + 1));
            (bytes > 0).then_some(start..start.saturating_add(bytes))
        };
        Self {
            has_begun: word(0) != 0,
            is_patched: word(1) != 0,
            refused: word(2),
            addresses: (0..areas).map(addresses).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_words() {
        let report = Report::of(&[1, 1, 3, 9, 0, 0, 0, 0, 0x1000, 0x2000], 2);
        assert!(report.has_begun && report.is_patched);
        assert_eq!((report.refused, report.addresses), (3, vec![Some(0x1000..0x3000), None]));
        assert_eq!(Report::of(&[], 0), Report::default());
    }

    #[test]
    fn runs_without_advice_have_the_same_areas() {
        let areas = ["heap:0-2M".parse().unwrap(), "anonymous".parse().unwrap()];
        let preload = AdvicePreload::new(&["sh".into()], &areas).unwrap();
        let text = |is_advised| {
            let parameters = Parameters { inherits: true, only_advised: false, is_advised };
            let variables = preload.environment(parameters).unwrap();
            let text = variables[1].1.to_str().unwrap().to_owned();
            text.split_once(';').unwrap().1.to_owned()
        };
        assert_eq!(text(true), "inherit;heap:0-512;anonymous");
        assert_eq!(text(false), "inherit;silent;heap:0-512;anonymous");
        let many = vec![areas[0].clone(); 1001];
        assert!(AdvicePreload::new(&["sh".into()], &many).is_err());
    }
}
