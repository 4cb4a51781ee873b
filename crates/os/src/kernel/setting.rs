//! Context of a comparison that decides if an option of the kernel has an effect.

use crate::Policy;

/// Properties of the compared schemes on which the effect of kernel options depends.
pub struct Setting {
    /// Policy of each compared scheme.
    pub policies: Vec<Box<dyn Policy>>,
    /// Word for messages about schemes in a virtual machine: whose kernel is meant, with a space after it
    /// (`"host's "`). Empty if all schemes are native.
    pub side: &'static str,
    /// True if at least one scheme runs in a virtual machine.
    pub is_virtual: bool,
    /// True if at least one of the compared schemes has direct segments.
    pub has_segments: bool,
    /// True if a compared scheme switches to direct segments while the program runs (D Table III).
    pub switches_modes: bool,
}

impl Setting {
    /// Message that an option has no effect because no compared policy has `property`, for which `has` tests.
    /// `None` if a policy has it.
    pub fn lacks(&self, property: &str, has: impl Fn(&dyn Policy) -> bool) -> Option<String> {
        let none = !self.policies.iter().any(|policy| has(policy.as_ref()));
        none.then(|| format!("no {}scheme here has {property}", self.side))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BasePages, Thp};

    #[test]
    fn a_property_is_lacking_if_no_policy_has_it() {
        let setting = |side, policies| Setting {
            policies,
            side,
            is_virtual: false,
            has_segments: false,
            switches_modes: false,
        };
        let lacks = |setting: &Setting| setting.lacks("2MB pages", |policy| policy.maps_large());
        let none = lacks(&setting("", vec![Box::new(BasePages)]));
        assert_eq!(none.as_deref(), Some("no scheme here has 2MB pages"));
        let of_host = lacks(&setting("host's ", Vec::new()));
        assert_eq!(of_host.as_deref(), Some("no host's scheme here has 2MB pages"));
        let one = setting("", vec![Box::new(BasePages), Box::new(Thp::new("thp"))]);
        assert_eq!(lacks(&one), None);
    }
}
