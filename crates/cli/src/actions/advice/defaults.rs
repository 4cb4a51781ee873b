//! Defaults of advice: this machine, its memory as it is now, and its setting of large pages.

use std::fmt;
use std::str::FromStr;

use perforate_host::machine::{LargePageSettings, Processor};
use perforate_os::FolioSizes;

use crate::actions::machines::HOST;
use crate::actions::{Failure, RunRequest, WithError, own_memory};

/// Options that say what state memory is in.
const MEMORY: [&str; 5] = ["memory", "memory-from", "fragmentation", "age", "zones"];

/// Setting `transparent_hugepage/enabled` of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThpSetting {
    /// Large pages for all memory.
    Always,
    /// Large pages for memory that a program requests them for.
    Madvise,
    /// No large pages for any memory.
    Never,
}

impl ThpSetting {
    /// Setting of this machine; `None` if its kernel has no transparent large pages.
    pub fn of_this_machine() -> Option<Self> {
        LargePageSettings::now().get("enabled")?.parse().ok()
    }

    /// Scheme that has the pages of a program under this setting.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Always => "thp",
            Self::Madvise => "thp-madvise",
            Self::Never => "4k",
        }
    }
}

impl FromStr for ThpSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "always" => Ok(Self::Always),
            "madvise" => Ok(Self::Madvise),
            "never" => Ok(Self::Never),
            other => Err(format!("expected always, madvise or never, not {other:?}")),
        }
    }
}

impl fmt::Display for ThpSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::Madvise => "madvise",
            Self::Never => "never",
        })
    }
}

/// Completes a request with this machine (if `is_for_own` and the user names none) and, for this machine, with
/// its memory as it is now and its settings of compaction in page faults and of multi-size THP. Returns notes on
/// what could not be had.
///
/// # Errors
/// Errors of the options that the user gave.
pub fn with_own_machine(
    request: RunRequest,
    is_for_own: bool,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(RunRequest, Vec<String>), Failure> {
    let mut notes = Vec::new();
    let mut request = request;
    if is_for_own && !request.spec.given().contains("machine") {
        let own = changed(&request, "machine", HOST)?;
        match own.machine() {
            Ok(_) => request = own,
            Err(problem) => {
                let name = &request.spec.placement.machine;
                notes.push(format!(
                    "predicted for {name}, as this machine cannot be described: {problem}"
                ));
            }
        }
    }
    let says_memory = MEMORY.iter().any(|option| request.spec.given().contains(option));
    if request.is_of_host() && !says_memory {
        match own_memory(HOST, progress) {
            Ok(_) => request = changed(&request, "memory-from", HOST)?,
            Err(problem) => notes.push(format!(
                "memory is assumed to be half fragmented, as this machine's cannot be read: {problem}"
            )),
        }
    }
    if request.is_of_host() {
        let settings = LargePageSettings::now();
        let own =
            [("defrag", settings.get("defrag").map(str::to_owned)), ("mthp", folios(&settings))];
        for (key, value) in own {
            if !request.spec.given().contains(key)
                && let Some(value) = value
            {
                request = changed(&request, key, &value)?;
            }
        }
    }
    Ok((request, notes))
}

/// Sizes of folios between 4KB and 2MB that a machine has, in the form of the option `mthp`; `None` if it has
/// none.
fn folios(settings: &LargePageSettings) -> Option<String> {
    let of_size = |order: u32| {
        let kilobytes = 4_u32 << order;
        let usage = settings.get(&format!("hugepages-{kilobytes}kB/enabled"))?;
        (usage != "never").then(|| format!("{kilobytes}K={usage}"))
    };
    let sizes: Vec<String> = FolioSizes::ORDERS.filter_map(of_size).collect();
    (!sizes.is_empty()).then(|| sizes.join(","))
}

/// Copies a request with another value of an option.
///
/// # Errors
/// An invalid value.
pub fn changed(request: &RunRequest, key: &str, value: &str) -> Result<RunRequest, Failure> {
    request.with(key, value).map_err(|error| match error {
        WithError::Key(error) => error.into(),
        WithError::Value(failure) => failure,
    })
}

/// Schemes of the host that are assumed: none for a machine that is not virtual; 4KB and 2MB pages for this
/// machine if it is virtual, as nobody inside sees the pages of its host.
pub fn hosts(request: &RunRequest) -> Vec<&'static str> {
    let is_virtual = request.is_of_host() && Processor::own().is_virtual();
    if is_virtual { vec!["4k", "thp"] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use perforate_sim::MemorySnapshot;

    use super::*;
    use crate::actions::MachineSettings;

    /// Sizes that a machine never has are left out.
    #[test]
    fn folios_are_those_of_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let setting = |size: &str, text: &str| {
            let own = folder.path().join(format!("hugepages-{size}kB"));
            std::fs::create_dir(&own).unwrap();
            std::fs::write(own.join("enabled"), text).unwrap();
        };
        let found = || folios(&LargePageSettings::read(folder.path()));
        setting("8", "[always] inherit madvise never\n");
        setting("2048", "always [inherit] madvise never\n");
        setting("32", "always inherit madvise [never]\n");
        assert_eq!(found(), None);
        setting("64", "[always] inherit madvise never\n");
        setting("1024", "always inherit [madvise] never\n");
        assert_eq!(found().as_deref(), Some("64K=always,1024K=madvise"));
        let request = RunRequest::new(Default::default(), MachineSettings::default()).unwrap();
        changed(&request, "mthp", &found().unwrap()).unwrap();
    }

    /// Compaction in page faults is that of this machine, if the simulated machine is this one and the user
    /// does not say otherwise.
    #[test]
    fn this_machine_compacts_as_it_does() {
        let defrag = |options: &[(&str, &str)]| {
            let given = options.iter().copied().chain([("memory", "1G")]).collect();
            let request = RunRequest::new(given, MachineSettings::default()).unwrap();
            let (request, _) = with_own_machine(request, false, &mut |_, _| ()).unwrap();
            request.spec.memory.resolve(&MemorySnapshot::load).unwrap().kernel.defrag.to_string()
        };
        let settings = LargePageSettings::now();
        assert_eq!(defrag(&[("machine", "host")]), settings.get("defrag").unwrap_or("never"));
        assert_eq!(defrag(&[("machine", "ice-lake-sp")]), "never");
        assert_eq!(defrag(&[("machine", "host"), ("defrag", "defer")]), "defer");
    }

    #[test]
    fn settings_are_words_with_schemes() {
        for (word, scheme) in [("always", "thp"), ("madvise", "thp-madvise"), ("never", "4k")] {
            let setting: ThpSetting = word.parse().unwrap();
            assert_eq!((setting.to_string().as_str(), setting.scheme()), (word, scheme));
            assert!(perforate_sim::Composition::find(scheme).is_ok());
        }
        assert!("maybe".parse::<ThpSetting>().unwrap_err().contains("expected always, madvise"));
    }
}
