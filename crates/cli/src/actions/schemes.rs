//! Selection of the schemes to compare.

use perforate_records::Roles;
use perforate_sim::{Composition, SimError};

/// Schemes of the guest or the host by default, if the user names only those of the other.
const SIDE: &str = "4k,thp,perforated";

/// Returns the named native schemes, and pairs of all named guests and hosts. Remarks name the
/// pairs that cannot be combined. If nothing is named, returns the schemes of `default`.
///
/// # Errors
/// An unknown scheme, or no pair that can be combined.
pub fn schemes(
    named: Option<&str>,
    guest: Option<&str>,
    host: Option<&str>,
    default: &str,
) -> Result<(Vec<Composition>, Vec<String>), SimError> {
    if guest.is_none() && host.is_none() {
        return Ok((Composition::list(named.unwrap_or(default))?, Vec::new()));
    }
    let native = named.map_or(Ok(Vec::new()), Composition::list)?;
    let (pairs, left_out) = Composition::pairs(guest.unwrap_or(SIDE), host.unwrap_or(SIDE))?;
    let mut compared = native;
    for pair in pairs {
        if !compared.iter().any(|known| known.name() == pair.name()) {
            compared.push(pair);
        }
    }
    Ok((compared, left_out))
}

/// Appends `free` (translation without cost) to a list that lacks it, because the cost of translation
/// is the difference between the reference and `free`. If the reference is virtualized, its host is
/// also the host of `free`. Functional runs have no timing, so their lists stay unchanged.
///
/// # Panics
/// Never: `free` is registered, and every host can run it as a guest.
pub fn with_free(mut schemes: Vec<Composition>, functional: bool) -> Vec<Composition> {
    let vocabulary = perforate_sim::vocabulary();
    let roles: Vec<Roles> = schemes.iter().map(|scheme| vocabulary.roles(&scheme.name())).collect();
    let host = Roles::reference(&roles).and_then(|reference| schemes[reference].host);
    let free = match host {
        Some(host) => Composition::find(&format!("free+{}", host.name)),
        None => Composition::find("free"),
    };
    let free = free.expect("it is registered");
    let is_there = schemes.iter().any(|scheme| scheme.name() == free.name());
    if !functional && !is_there {
        schemes.push(free);
    }
    schemes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_after_schemes_and_each_once() {
        let names = |named, guest, host| -> Vec<String> {
            schemes(named, guest, host, "4k,ideal")
                .unwrap()
                .0
                .iter()
                .map(Composition::name)
                .collect()
        };
        assert_eq!(names(None, None, None), ["4k", "ideal"]);
        assert_eq!(names(Some("4k+4k"), Some("4k"), Some("4k,thp")), ["4k+4k", "4k+thp"]);
        assert_eq!(names(None, Some("4k"), None), ["4k+4k", "4k+thp", "4k+perforated"]);
        assert!(schemes(Some("5k"), None, None, "4k").is_err());
    }

    #[test]
    fn free_translation_is_compared_with_the_rest_once() {
        let names = |list: &str, functional| -> Vec<String> {
            let named = Composition::list(list).unwrap();
            with_free(named, functional).iter().map(Composition::name).collect()
        };
        assert_eq!(names("4k,thp", false), ["4k", "thp", "free"]);
        assert_eq!(names("free,thp", false), ["free", "thp"]);
        assert_eq!(names("thp+thp,4k+4k", false), ["thp+thp", "4k+4k", "free+4k"]);
        assert_eq!(names("thp+shadow-thp", false), ["thp+shadow-thp", "free+shadow-thp"]);
        assert_eq!(names("ideal,4k+4k", false), ["ideal", "4k+4k", "free+4k"]);
        assert_eq!(names("thp,4k+4k", false), ["thp", "4k+4k", "free+4k"]);
        assert_eq!(names("ideal", false), ["ideal", "free"]);
        assert_eq!(names("4k,thp", true), ["4k", "thp"]);
    }
}
