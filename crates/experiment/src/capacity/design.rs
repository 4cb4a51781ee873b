//! Ways to map memory in large pieces.

use std::fmt;

use perforate_config::{ConfigError, Share, read};
use perforate_schemes::perforated::Perforated;
use perforate_types::GapTolerance;

/// A way to map memory in large pieces.
pub enum Design {
    /// 2MB pages on whole blocks.
    Conventional,
    /// Gap-tolerant superpages, single or paired.
    GapTolerant(GapTolerance),
    /// 2MB pages with holes, by the rule of a policy; `name` is the design's own.
    Perforated {
        /// `perforated` with its options.
        name: String,
        /// Rule for the blocks that the design accepts.
        policy: Perforated,
    },
}

impl Design {
    /// Form of the names that [`Design::parse`] reads.
    pub const FORMS: &'static str = "2m, gt-pde-1m, gt-pde-2m, gt-pde-4m, p-gt-pde-2m, \
                                     p-gt-pde-4m, perforated or perforated:max-hole-share=…";

    /// Reads a name, as schemes have them.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "2m" {
            return Ok(Self::Conventional);
        }
        if let Some(mode) = Self::mode(text) {
            return Ok(Self::GapTolerant(mode));
        }
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        if name != "perforated" {
            return Err(format!("no design {text:?}; expected {}", Self::FORMS));
        }
        let wrong = |problem: ConfigError| format!("design {text:?}: {problem}");
        let options = if options.is_empty() { "default" } else { options };
        let policy = read(options).and_then(Perforated::new).map_err(wrong)?;
        Ok(Self::Perforated { name: text.to_owned(), policy })
    }

    /// The mode of gap-tolerant superpages of this name.
    pub fn mode(name: &str) -> Option<GapTolerance> {
        GapTolerance::ALL.into_iter().find(|&mode| mode_name(mode) == name)
    }

    /// The name in reports.
    pub fn label(&self) -> String {
        match self {
            Self::Conventional => "2MB page".into(),
            Self::GapTolerant(mode) => mode.label(),
            Self::Perforated { policy, .. } => {
                let options = policy.options();
                match (options.max_hole_share, options.max_filter_bits.get()) {
                    (Share::WHOLE, 8..) => "perforated".into(),
                    (share, bits) => format!("perforated <{share}, ≤{bits}/8"),
                }
            }
        }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conventional => formatter.write_str("2m"),
            Self::GapTolerant(mode) => formatter.write_str(&mode_name(*mode)),
            Self::Perforated { name, .. } => formatter.write_str(name),
        }
    }
}

/// The scheme's name of a mode: `gt-pde-4m`.
fn mode_name(mode: GapTolerance) -> String {
    mode.label().to_lowercase().trim_end_matches('b').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        let names = [
            "2m",
            "gt-pde-1m",
            "gt-pde-2m",
            "gt-pde-4m",
            "p-gt-pde-2m",
            "p-gt-pde-4m",
            "perforated",
            "perforated:max-hole-share=25%,max-filter-bits=4",
        ];
        let labels = [
            "2MB page",
            "GT-PDE-1MB",
            "GT-PDE-2MB",
            "GT-PDE-4MB",
            "P-GT-PDE-2MB",
            "P-GT-PDE-4MB",
            "perforated",
            "perforated <25%, ≤4/8",
        ];
        for (name, label) in names.into_iter().zip(labels) {
            let design = Design::parse(name).unwrap_or_else(|problem| panic!("{problem}"));
            assert_eq!((design.to_string().as_str(), design.label().as_str()), (name, label));
        }
    }

    #[test]
    fn mistakes() {
        for (text, problem) in [
            ("gt-pde-8m", "no design \"gt-pde-8m\"; expected 2m, gt-pde-1m"),
            ("", "no design \"\""),
            ("perforated:max-filter-bits=9", "max-filter-bits: is at most 8, not 9"),
            ("perforated:holes", "holes: expected eager or lazy"),
        ] {
            let Err(message) = Design::parse(text) else { panic!("{text} is no design") };
            assert!(message.contains(problem), "{message}");
        }
    }
}
