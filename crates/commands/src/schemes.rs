//! Which schemes are compared.

use perforate_sim::{Composition, SimError};

/// Schemes where one side of the pairs is not named.
const SIDE: &str = "4k,thp,perforated";

/// The schemes of these lists, and those of guests over those of hosts, and remarks on pairs that are
/// left out. Where nothing is named, those of the list `default`.
///
/// # Errors
/// There is no such scheme, or no such pair.
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
}
