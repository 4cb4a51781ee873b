//! Schemes of one run: a single scheme, or a guest's scheme over a host's (nested translation).

use perforate_mmu::{Coalescing, TlbConfig};

use crate::{Scheme, SchemeError, all, hosts_only};

/// Scheme of a native run, or guest's and host's scheme of a virtualized run. All pairs are
/// possible except those for which [`Self::obstacle`] gives a reason.
#[derive(Clone, Copy)]
pub struct Composition {
    /// The scheme of the system that runs the program: the guest's if virtualized.
    pub own: &'static Scheme,
    /// Scheme of the host; `None` in a native run.
    pub host: Option<&'static Scheme>,
}

impl From<&'static Scheme> for Composition {
    fn from(own: &'static Scheme) -> Self {
        Self { own, host: None }
    }
}

impl Composition {
    /// Finds the composition for the name of a scheme, or of a pair `GUEST+HOST`.
    ///
    /// # Errors
    /// If a scheme does not exist, or the pair is impossible.
    pub fn find(name: &str) -> Result<Self, SchemeError> {
        let Some((own, host)) = name.split_once('+') else {
            return Ok(native(name.trim())?.into());
        };
        let (own, host) = (native(own.trim())?, Scheme::find_for_host(host.trim())?);
        match Self::obstacle(own, host) {
            None => Ok(Self { own, host: Some(host) }),
            Some(why) => Err(SchemeError::ImpossiblePair { name: name.trim().into(), why }),
        }
    }

    /// Parses a comma-separated list of scheme names and pairs, or `all` for all native schemes.
    /// Duplicates are removed.
    ///
    /// # Errors
    /// See [`Self::find`].
    pub fn list(names: &str) -> Result<Vec<Self>, SchemeError> {
        if names.trim() == "all" {
            return Ok(all().map(Into::into).collect());
        }
        let mut found: Vec<Self> = Vec::new();
        for name in names.split(',') {
            let composition = Self::find(name)?;
            if !found.iter().any(|known| known.name() == composition.name()) {
                found.push(composition);
            }
        }
        Ok(found)
    }

    /// Returns all possible pairs of a guest's scheme in `guests` and a host's in `hosts`, each a
    /// comma-separated list of names. The second part of the result has one message for each reason
    /// for which pairs were left out.
    ///
    /// # Errors
    /// If a scheme does not exist, or if the first guest cannot run over the only host.
    pub fn pairs(guests: &str, hosts: &str) -> Result<(Vec<Self>, Vec<String>), SchemeError> {
        let guests = schemes(guests, false, native)?;
        let hosts = schemes(hosts, true, Scheme::find_for_host)?;
        let mut pairs = Vec::new();
        let mut left_out: Vec<(&'static str, Vec<String>)> = Vec::new();
        for own in guests {
            for &host in &hosts {
                let name = format!("{}+{}", own.name, host.name);
                match Self::obstacle(own, host) {
                    None => pairs.push(Self { own, host: Some(host) }),
                    Some(why) if pairs.is_empty() && left_out.is_empty() && hosts.len() == 1 => {
                        return Err(SchemeError::ImpossiblePair { name, why });
                    }
                    Some(why) => match left_out.iter_mut().find(|(known, _)| *known == why) {
                        Some((_, names)) => names.push(name),
                        None => left_out.push((why, vec![name])),
                    },
                }
            }
        }
        let line = |(why, names): (&str, Vec<String>)| format!("no {}: {why}", names.join(", "));
        Ok((pairs, left_out.into_iter().map(line).collect()))
    }

    /// Reason why a pair of schemes is impossible; `None` if the pair is possible.
    pub fn obstacle(guest: &Scheme, host: &Scheme) -> Option<&'static str> {
        if host.free_translation {
            return Some("translation is free as a whole: name free as the guest");
        }
        // With shadow paging, the hypervisor emulates the guest's hardware, so any guest scheme is
        // possible.
        let guests_own = guest.native_only.filter(|_| !host.shadow_paging);
        if let Some(why) = guests_own.or(host.native_only) {
            return Some(why);
        }
        let load_differently = guest
            .bitmap_loading
            .zip(host.bitmap_loading)
            .is_some_and(|(guest, host)| guest != host);
        if load_differently {
            return Some(
                "guest and host share one TLB, which treats perforated pages in one way: choose \
                 the same variant (naive, on-demand, or the filtered others) for both",
            );
        }
        let coalesce_differently =
            guest.coalescing.zip(host.coalescing).is_some_and(|(guest, host)| guest != host);
        coalesce_differently.then_some(
            "guest and host share one TLB, which coalesces pages in one way: ask for the same \
             number of pages for both, or for one only",
        )
    }

    /// Name of the composition in results: `SCHEME`, or `GUEST+HOST` for a pair.
    pub fn name(&self) -> String {
        match self.host {
            None => self.own.name.into(),
            Some(host) => format!("{}+{}", self.own.name, host.name),
        }
    }

    /// True if the hardware walks the shadow tables of a hypervisor, without nested translation.
    pub fn is_shadowed(&self) -> bool {
        self.host.is_some_and(|host| host.shadow_paging)
    }

    /// Schemes whose translations the hardware's TLBs and other units cache. Under shadow paging,
    /// only the host's: the hardware sees the shadow tables instead of the guest's.
    pub fn in_hardware(&self) -> impl Iterator<Item = &'static Scheme> + use<> {
        let own = (!self.is_shadowed()).then_some(self.own);
        own.into_iter().chain(self.host)
    }

    /// True if address translation takes no time in this composition.
    pub fn is_free(&self) -> bool {
        self.own.free_translation
    }

    /// Coalescing setting of the second-level TLB; `None` if neither scheme configures coalescing.
    fn coalescing(&self) -> Option<Coalescing> {
        self.own.coalescing.or_else(|| self.host?.coalescing)
    }

    /// Replaces the machine's TLB coalescing by that of the schemes, if one of them configures it.
    /// The first level then holds pages one by one (CoLT-SA).
    pub fn configure_coalescing(&self, tlb: &mut TlbConfig) {
        if let Some(coalescing) = self.coalescing() {
            (tlb.l2_coalescing, tlb.l1_coalescing) = (Some(coalescing), false);
        }
    }
}

/// Finds a scheme that can run a program natively or in a guest by its name.
fn native(name: &str) -> Result<&'static Scheme, SchemeError> {
    if hosts_only().any(|scheme| scheme.name == name) {
        let why = "a scheme for hosts only; give it a guest, as in 4k+shadow-4k or 4k+flat-4k";
        return Err(SchemeError::ImpossiblePair { name: name.into(), why });
    }
    Scheme::find(name)
}

/// Resolves a comma-separated list of scheme names; `find` looks up one name. `all` means all
/// schemes that can run a program. For hosts, `all` excludes `free` and adds the schemes that only
/// hosts can have.
fn schemes(
    names: &str,
    for_hosts: bool,
    find: fn(&str) -> Result<&'static Scheme, SchemeError>,
) -> Result<Vec<&'static Scheme>, SchemeError> {
    if names.trim() == "all" {
        let more = hosts_only().filter(|_| for_hosts);
        let all = all().filter(|scheme| !(for_hosts && scheme.free_translation));
        return Ok(all.chain(more).collect());
    }
    names.split(',').map(|name| find(name.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_only_schemes_are_in_no_pair() {
        for name in ["segment-l1+4k", "4k+segment-l1"] {
            let error = Composition::find(name).err().unwrap().to_string();
            assert!(error.contains("use segment"), "{error}");
        }
        assert!(Composition::find("segment-l1").is_ok());
    }

    #[test]
    fn names_and_pairs() {
        assert_eq!(Composition::list("4k,thp,4k").unwrap().len(), 2);
        assert_eq!(Composition::list("all").unwrap().len(), all().count());
        let names = |list: Vec<Composition>| -> Vec<String> {
            list.iter().map(Composition::name).collect()
        };
        assert_eq!(names(Composition::list("thp, 4k+thp").unwrap()), ["thp", "4k+thp"]);
        let (pairs, left_out) = Composition::pairs("4k,perforated", "thp,perforated").unwrap();
        assert_eq!(
            names(pairs),
            ["4k+thp", "4k+perforated", "perforated+thp", "perforated+perforated"]
        );
        assert!(left_out.is_empty());
        let message = Composition::list("4k,2mb").err().unwrap().to_string();
        assert!(message.contains("2mb") && message.contains("perforated-naive"));
        let message = Composition::find("4k+2mb").err().unwrap().to_string();
        assert!(message.contains("no scheme \"2mb\""), "{message}");
    }

    #[test]
    fn one_tlb_has_one_variant() {
        let message = Composition::find("perforated-naive+perforated").err().unwrap().to_string();
        assert!(message.contains("perforated-naive+perforated: guest and host share one TLB"));
        for pair in ["perforated-naive+thp", "thp+perforated-on-demand"] {
            assert!(
                Composition::find(pair).is_ok(),
                "{pair}: only one of them has perforated pages"
            );
        }
        let (pairs, left_out) = Composition::pairs("all", "all").unwrap();
        let hosts = all().count() - 1 + hosts_only().count();
        assert!(Composition::find("4k+free").err().unwrap().to_string().contains("as the guest"));
        let left_out_pairs = left_out.iter().map(|line| line.matches('+').count());
        assert_eq!(pairs.len() + left_out_pairs.sum::<usize>(), all().count() * hosts);
        let left_out =
            |pair: &str| left_out.iter().any(|line| line.starts_with(&format!("no {pair}, ")));
        assert!(left_out("perforated-naive+perforated-on-demand"));
        assert!(left_out("4k-colt-4+4k-colt-8"));
    }

    #[test]
    fn one_tlb_coalesces_in_one_way() {
        let message = Composition::find("4k-colt-8+4k-colt-32").err().unwrap().to_string();
        assert!(message.contains("4k-colt-8+4k-colt-32: guest and host share one TLB"));
        for name in ["4k-colt-8", "4k-colt-8+thp", "thp+4k-colt-8", "4k-colt-8+4k-colt-8"] {
            let found = Composition::find(name).unwrap().coalescing();
            assert_eq!(found.map(|found| found.pages), Some(8), "{name}");
        }
        assert_eq!(Composition::find("4k+thp").unwrap().coalescing(), None);
    }

    /// A guest that cannot run over the only host is an error. Among others, it is left out.
    #[test]
    fn impossible_pairs_are_refused_or_left_out() {
        let why = "the original direct segment is checked beside the first-level TLB, natively; \
                   virtual machines have segments beside the second level (D §III): use segment";
        let pairs = |guests: &str, hosts: &str| {
            let found = Composition::pairs(guests, hosts).map_err(|error| error.to_string());
            found.map(|(pairs, left_out)| {
                (pairs.iter().map(Composition::name).collect::<Vec<_>>().join(","), left_out)
            })
        };
        let refused = Err(format!("segment-l1+4k: {why}"));
        assert_eq!(pairs("segment-l1", "4k"), refused);
        assert_eq!(pairs(" segment-l1 , thp", " 4k "), refused);
        let left_out = |pairs: &str| vec![format!("no {pairs}: {why}")];
        assert_eq!(pairs("4k,segment-l1", "4k"), Ok(("4k+4k".into(), left_out("segment-l1+4k"))));
        assert_eq!(
            pairs("segment-l1", "4k,thp"),
            Ok(("".into(), left_out("segment-l1+4k, segment-l1+thp")))
        );
        assert_eq!(
            pairs("segment-l1,thp", "thp,shadow-4k"),
            Ok(("segment-l1+shadow-4k,thp+thp,thp+shadow-4k".into(), left_out("segment-l1+thp")))
        );
        let host = pairs("4k", "ideals").unwrap_err();
        assert!(host.starts_with("no scheme \"ideals\"; "), "{host}");
    }

    /// The whole message of each reason.
    #[test]
    fn reasons_against_a_pair() {
        for (pair, why) in [
            ("4k+free", "translation is free as a whole: name free as the guest"),
            (
                "perforated-naive+perforated",
                "guest and host share one TLB, which treats perforated pages in one way: choose the \
                 same variant (naive, on-demand, or the filtered others) for both",
            ),
            (
                "4k-colt-4+4k-colt-8",
                "guest and host share one TLB, which coalesces pages in one way: ask for the same \
                 number of pages for both, or for one only",
            ),
        ] {
            let error = Composition::find(&format!(" {pair} ")).err().unwrap().to_string();
            assert_eq!(error, format!("{pair}: {why}"));
        }
        let host = Composition::find("flat-4k").err().unwrap().to_string();
        assert_eq!(
            host,
            "flat-4k: a scheme for hosts only; give it a guest, as in 4k+shadow-4k or 4k+flat-4k"
        );
        assert!(Composition::find("free+4k").unwrap().is_free());
        assert!(!Composition::find(" 4k + thp ").unwrap().is_free());
    }

    /// A scheme's coalescing replaces the machine's at both levels; other schemes leave it as it is.
    #[test]
    fn a_scheme_replaces_the_coalescing_of_the_machine() {
        let geometry = perforate_mmu::TlbGeometry { entries: 16, ways: 4 };
        let mut machine = perforate_mmu::MmuConfig::plain(geometry, geometry).tlb;
        let form = perforate_mmu::CoalescingForm::Napot;
        machine.l2_coalescing = Some(Coalescing { pages: 16, form });
        machine.l1_coalescing = true;
        for (name, pages) in
            [("4k", None), ("4k+thp", None), ("4k-colt-8+thp", Some(8)), ("thp+4k-colt-4", Some(4))]
        {
            let mut tlb = machine;
            Composition::find(name).unwrap().configure_coalescing(&mut tlb);
            let form = perforate_mmu::CoalescingForm::Runs;
            let expected = pages.map_or(machine, |pages| TlbConfig {
                l2_coalescing: Some(Coalescing { pages, form }),
                l1_coalescing: false,
                ..machine
            });
            assert_eq!(tlb, expected, "{name}");
        }
    }

    #[test]
    fn shadow_paging_is_for_hosts_of_any_guest() {
        for name in ["shadow-4k", "shadow-thp+4k"] {
            let message = Composition::find(name).err().unwrap().to_string();
            assert!(message.contains("for hosts only; give it a guest"), "{message}");
        }
        for guest in all() {
            let pair = Composition::find(&format!("{}+shadow-thp", guest.name)).unwrap();
            assert!(pair.is_shadowed() && !pair.own.shadow_paging);
            let in_hardware: Vec<_> = pair.in_hardware().map(|scheme| scheme.name).collect();
            assert_eq!(in_hardware, ["shadow-thp"], "of {} too", guest.name);
        }
        let nested = Composition::find("perforated+thp").unwrap();
        let in_hardware: Vec<_> = nested.in_hardware().map(|scheme| scheme.name).collect();
        assert_eq!(in_hardware, ["perforated", "thp"]);
    }
}
