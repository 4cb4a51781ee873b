//! Remarks on schemes for the machine that the program runs on, if it is a virtual machine.
//!
//! In a virtual machine, page walks also read the host's page tables. A native scheme leaves these
//! out, so its predictions do not apply to this machine.

use perforate_host::machine::Hypervisor;
use perforate_sim::Composition;

/// Returns a remark that walks also read the host's page tables, and that native schemes leave them out, if
/// this machine is, or may be, a virtual machine; otherwise `None`.
pub(crate) fn remark_on(hypervisor: &Hypervisor, schemes: &[Composition]) -> Option<String> {
    let is_bound = |scheme: &Composition| scheme.own.ideal_memory || scheme.own.free_translation;
    let is_native = |scheme: &&Composition| scheme.host.is_none() && !is_bound(scheme);
    let native: Vec<String> = schemes.iter().filter(is_native).map(Composition::name).collect();
    match (hypervisor, native.as_slice()) {
        (Hypervisor::Absent, _) | (Hypervisor::Unknown, []) => None,
        (Hypervisor::Unknown, _) => Some(
            "machine: this machine does not say whether it is a virtual one; if it is, walks also go \
             through its host's tables: compare 4k+4k, thp+4k, 4k+thp, thp+thp"
                .into(),
        ),
        (Hypervisor::Present(_), []) => Some(format!(
            "machine: this is a {hypervisor}. Walks also go through its host's tables, so that schemes \
             of a guest over those of hosts are compared: the host's pages cannot be seen from here. \
             `perforate calibrate` says which host this one is like"
        )),
        (Hypervisor::Present(_), native) => {
            let verb = if native.len() == 1 { "leaves" } else { "leave" };
            Some(format!(
                "machine: this is a {hypervisor}. Walks also go through its host's tables, which {} \
                 {verb} out; 4k+4k, thp+4k, 4k+thp and thp+thp have them",
                native.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remark(hypervisor: &Hypervisor, schemes: &str) -> Option<String> {
        remark_on(hypervisor, &Composition::list(schemes).unwrap())
    }

    #[test]
    fn native_schemes_in_a_virtual_machine_are_remarked() {
        let kvm = Hypervisor::Present(Some("KVM".into()));
        let native = remark(&kvm, "4k,thp,ideal").unwrap();
        assert!(native.contains("a virtual machine under KVM"), "{native}");
        assert!(native.contains("which 4k, thp leave out; 4k+4k"), "{native}");
        assert!(remark(&kvm, "4k").unwrap().contains("which 4k leaves out"));
        let pairs = remark(&kvm, "4k+4k,thp+thp,ideal").unwrap();
        assert!(pairs.contains("schemes of a guest over those of hosts are compared"), "{pairs}");
    }

    #[test]
    fn other_machines_need_no_remark() {
        assert_eq!(remark(&Hypervisor::Absent, "4k,thp"), None);
        let unknown = remark(&Hypervisor::Unknown, "4k,thp").unwrap();
        assert!(unknown.contains("does not say whether"), "{unknown}");
        assert_eq!(remark(&Hypervisor::Unknown, "4k+4k"), None);
    }

    #[test]
    fn the_default_pairs_can_be_simulated() {
        for (has_layout, has_script) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let pairs = perforate_sim::scheme::default_pairs(has_layout, has_script);
            let schemes = Composition::list(pairs).unwrap();
            assert!(schemes.iter().all(|scheme| scheme.host.is_some()));
        }
    }
}
