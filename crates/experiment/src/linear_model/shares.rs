//! Shares of the TLB misses that each direct segment covers.

use super::ModelError;

/// Shares of the TLB misses, 0 to 1, by the direct segments that cover them (D §VII).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    segment: f64,
    vmm: f64,
    guest: f64,
    both: f64,
}

/// Tolerance of comparisons between shares, for rounding errors.
const TOLERANCE: f64 = 1e-9;

impl Shares {
    /// Creates shares; `segment` is F_DS. By default, shares follow the paper's layout of segments (D Fig.
    /// 6): the guest segment and the VMM segment cover the same misses as the native segment, and `both` is
    /// the smaller of the two.
    ///
    /// # Errors
    /// Shares outside 0 to 1, or a combination that is impossible for two overlapping segments.
    pub fn new(
        segment: f64,
        vmm: Option<f64>,
        guest: Option<f64>,
        both: Option<f64>,
    ) -> Result<Self, ModelError> {
        let guest = guest.unwrap_or(segment);
        let vmm = vmm.unwrap_or(segment);
        let both = both.unwrap_or(vmm.min(guest));
        let given = [("segment", segment), ("vmm", vmm), ("guest", guest), ("both", both)];
        for (name, share) in given {
            if !(0.0..=1.0).contains(&share) {
                return Err(ModelError::Share(format!(
                    "the {name} share is {share}; expected 0 to 1, or 0% to 100%"
                )));
            }
        }
        if both > vmm.min(guest) + TOLERANCE {
            return Err(ModelError::Share(format!(
                "the both share is {both}; expected at most {}, the lesser of the vmm and guest \
                 shares",
                vmm.min(guest)
            )));
        }
        if vmm + guest - both > 1.0 + TOLERANCE {
            return Err(ModelError::Share(format!(
                "the both share is {both}; expected at least {}, or the vmm and guest shares \
                 together hold more than all misses",
                vmm + guest - 1.0
            )));
        }
        Ok(Self { segment, vmm, guest, both })
    }

    /// Computes the shares from numbers of misses.
    ///
    /// # Errors
    /// More misses in segments than misses in total.
    pub(crate) fn counted(
        misses: f64,
        both: f64,
        guest_only: f64,
        vmm_only: f64,
    ) -> Result<Self, ModelError> {
        if misses <= 0.0 || both + guest_only + vmm_only > misses {
            return Err(ModelError::Share(format!(
                "{both} misses in both segments, {guest_only} in the guest's only and {vmm_only} in \
                 the host's only are more than the {misses} there are"
            )));
        }
        let guest = (both + guest_only) / misses;
        Self::new(guest, Some((both + vmm_only) / misses), Some(guest), Some(both / misses))
    }

    /// Returns the share of misses in the direct segment of a native run (F_DS).
    pub fn segment(&self) -> f64 {
        self.segment
    }

    /// Returns the share of misses in the VMM segment, inside or outside the guest segment (F_VD of VMM
    /// Direct).
    pub fn vmm(&self) -> f64 {
        self.vmm
    }

    /// Returns the share of misses in the guest segment, inside or outside the VMM segment (F_GD of Guest
    /// Direct).
    pub fn guest(&self) -> f64 {
        self.guest
    }

    /// Returns the share of misses in both segments (F_DD).
    pub fn both(&self) -> f64 {
        self.both
    }

    /// Returns the share of misses in the VMM segment only (F_VD of Dual Direct).
    pub fn vmm_only(&self) -> f64 {
        (self.vmm - self.both).max(0.0)
    }

    /// Returns the share of misses in the guest segment only (F_GD of Dual Direct).
    pub fn guest_only(&self) -> f64 {
        (self.guest - self.both).max(0.0)
    }

    /// Returns the share of misses in neither segment, which take a 2D walk under Dual Direct.
    pub fn neither(&self) -> f64 {
        (1.0 - self.vmm - self.guest + self.both).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(shares: Result<Shares, ModelError>) -> String {
        shares.unwrap_err().to_string()
    }

    #[test]
    fn one_share_stands_for_all() {
        let shares = Shares::new(0.75, None, None, None).unwrap();
        assert_eq!((shares.vmm(), shares.guest(), shares.both()), (0.75, 0.75, 0.75));
        assert_eq!((shares.vmm_only(), shares.guest_only(), shares.neither()), (0.0, 0.0, 0.25));
        // A VMM segment that covers everything includes the guest segment.
        let shares = Shares::new(0.75, Some(1.0), None, None).unwrap();
        assert_eq!((shares.both(), shares.vmm_only(), shares.neither()), (0.75, 0.25, 0.0));
    }

    #[test]
    fn impossible_shares() {
        assert!(message(Shares::new(1.5, None, None, None)).contains("segment share is 1.5"));
        assert!(message(Shares::new(f64::NAN, None, None, None)).contains("segment share is NaN"));
        assert!(message(Shares::new(0.5, Some(-0.1), None, None)).contains("vmm share is -0.1"));
        let more = message(Shares::new(0.5, Some(0.5), Some(0.5), Some(0.6)));
        assert!(more.contains("both share is 0.6; expected at most 0.5"), "{more}");
        let less = message(Shares::new(0.75, Some(0.75), Some(0.75), Some(0.25)));
        assert!(less.contains("both share is 0.25; expected at least 0.5"), "{less}");
    }

    #[test]
    fn counts_become_shares() {
        let shares = Shares::counted(200.0, 100.0, 50.0, 20.0).unwrap();
        assert_eq!((shares.segment(), shares.guest(), shares.vmm()), (0.75, 0.75, 0.6));
        assert!((shares.neither() - 0.15).abs() < 1e-12);
        assert!(message(Shares::counted(100.0, 90.0, 10.0, 1.0)).contains("the 100 there are"));
        assert!(message(Shares::counted(0.0, 0.0, 0.0, 0.0)).contains("the 0 there are"));
    }
}
