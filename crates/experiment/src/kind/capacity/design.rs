//! Designs for large mappings in memory with retired frames.

use perforate_config::{ConfigError, read};
use perforate_schemes::perforated::Perforated;
use perforate_types::GapTolerance;

/// A design for large mappings in memory with retired frames.
pub enum Design {
    /// 2MB pages in blocks without retired frames.
    Conventional,
    /// Gap-tolerant superpages (G), with single or paired page-directory entries.
    GapTolerant(GapTolerance),
    /// 2MB pages with holes, as far as the policy for perforated pages allows.
    Perforated(Perforated),
}

impl Design {
    /// Names of designs that [`Design::parse`] accepts, for error messages.
    pub const FORMS: &'static str = "2m, gt-pde-1m, gt-pde-2m, gt-pde-4m, p-gt-pde-2m, \
                                     p-gt-pde-4m, perforated or perforated:max-hole-share=…";

    /// Parses the name of a design, which is also the name of its scheme.
    ///
    /// # Errors
    /// An unknown name; the message lists the known ones.
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
        read(options).and_then(Perforated::new).map(Self::Perforated).map_err(wrong)
    }

    /// Returns the mode of gap-tolerant superpages with this name; `None` for other names.
    pub fn mode(name: &str) -> Option<GapTolerance> {
        GapTolerance::ALL.into_iter().find(|&mode| mode_name(mode) == name)
    }
}

/// Returns the name of the scheme with this mode of gap-tolerant superpages, such as `gt-pde-4m`.
fn mode_name(mode: GapTolerance) -> String {
    mode.label().to_lowercase().trim_end_matches('b').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_schemes() {
        for (name, expected) in [
            ("gt-pde-1m", GapTolerance::SINGLE_1M),
            ("gt-pde-2m", GapTolerance::SINGLE_2M),
            ("gt-pde-4m", GapTolerance::SINGLE_4M),
        ] {
            assert!(
                matches!(Design::parse(name), Ok(Design::GapTolerant(mode)) if mode == expected)
            );
        }
        assert!(matches!(Design::parse("2m"), Ok(Design::Conventional)));
        assert!(Design::mode("p-gt-pde-2m").is_some_and(GapTolerance::is_paired));
        let name = "perforated:max-hole-share=25%,max-filter-bits=4";
        let Ok(Design::Perforated(policy)) = Design::parse(name) else { panic!("{name}") };
        assert_eq!(policy.options().max_filter_bits.get(), 4);
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
