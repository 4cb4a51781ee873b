//! Bundled script policies, which are part of the program.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

use perforate_config::{ConfigError, suggestion};
use perforate_script::{Script, ScriptError};

/// Name and text of each script policy that is part of the program.
const BUNDLED: [(&str, &str); 5] = [
    ("thp", include_str!("../../../../examples/policies/thp.rhai")),
    ("madvise", include_str!("../../../../examples/policies/madvise.rhai")),
    ("perforated", include_str!("../../../../examples/policies/perforated.rhai")),
    ("large-areas", include_str!("../../../../examples/policies/large-areas.rhai")),
    ("used", include_str!("../../../../examples/policies/used.rhai")),
];

/// Bundled script policies, each compiled on first use.
static SCRIPTS: [OnceLock<Script>; BUNDLED.len()] = [const { OnceLock::new() }; BUNDLED.len()];

/// Names of the bundled script policies, and the descriptions in their first comment lines.
pub fn bundled() -> impl Iterator<Item = (&'static str, String)> {
    BUNDLED.into_iter().map(|(name, text)| {
        let lines = text.lines().map_while(|line| line.strip_prefix("// "));
        (name, lines.collect::<Vec<_>>().join(" "))
    })
}

/// Finds the bundled script policy called `name`; `None` if no policy has this name.
pub(super) fn find(name: &str) -> Option<Script> {
    let place = BUNDLED.iter().position(|(known, _)| *known == name)?;
    let compile = || Script::compile(name, BUNDLED[place].1).expect("bundled policies are right");
    Some(SCRIPTS[place].get_or_init(compile).clone())
}

/// Loads the bundled script policy called `name`, or else the policy in the file `name`.
///
/// # Errors
/// If the file cannot be read or is not a valid policy.
pub fn load(name: &str) -> Result<Script, ConfigError> {
    if let Some(script) = find(name) {
        return Ok(script);
    }
    Script::read(Path::new(name)).map_err(|error| {
        ConfigError::new(match &error {
            ScriptError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
                let known = BUNDLED.map(|(name, _)| name);
                format!("{error}; of bundled policies {}", suggestion(name, &known))
            }
            _ => error.to_string(),
        })
    })
}
