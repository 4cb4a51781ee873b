//! Costs of the kernel derived from the measurements of one round.

/// Durations of a system call for few and for many pages, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Number of pages in the system call for few pages.
    pub few: u64,
    /// Duration of the system call for few pages, in nanoseconds.
    pub one_ns: f64,
    /// Number of pages in the system call for many pages.
    pub many: u64,
    /// Duration of the system call for many pages, in nanoseconds.
    pub many_ns: f64,
}

impl Call {
    /// Additional duration of the system call per page, in nanoseconds.
    pub fn page_ns(&self) -> f64 {
        (self.many_ns - self.one_ns) / (self.many - self.few) as f64
    }

    /// Duration of the system call without the part for its pages, in nanoseconds.
    pub fn call_ns(&self) -> f64 {
        self.one_ns - self.few as f64 * self.page_ns()
    }
}

/// Durations of kernel operations in one round of a calibration, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct KernelRound {
    /// Duration of the first touch of a 4KB page, with its page fault.
    pub fault_4k_ns: f64,
    /// Duration of the first touch of a 2MB page; `None` if the kernel gives no 2MB pages.
    pub fault_2m_ns: Option<f64>,
    /// Duration of clearing 4KB of memory that is in 4KB pages.
    pub clear_4k_ns: f64,
    /// Duration of clearing 2MB of memory that is in 2MB pages.
    pub clear_2m_ns: f64,
    /// Duration of copying 4KB of memory.
    pub copy_4k_ns: f64,
    /// Durations of fork, for few and for many touched pages.
    pub fork: Call,
    /// Durations of mprotect, for few and for many pages.
    pub protect: Call,
    /// Durations of munmap, for few and for many pages.
    pub unmap: Call,
    /// Durations of madvise with MADV_DONTNEED, for few and for many pages.
    pub advise: Call,
}

impl KernelRound {
    /// Duration of clearing a 4KB page in a page fault, in nanoseconds; at most that of the fault.
    pub fn zero_4k_ns(&self) -> f64 {
        self.clear_4k_ns.min(self.fault_4k_ns)
    }

    /// Duration of a 4KB page fault without clearing and mapping the page, in nanoseconds; at least
    /// 1.
    pub fn rest_4k_ns(&self) -> f64 {
        (self.fault_4k_ns - self.zero_4k_ns() - self.map_ns()).max(1.0)
    }

    /// Duration of clearing a 2MB page in a page fault, in nanoseconds: the duration of the fault, minus
    /// mapping the page and the other work ([`Self::rest_2m_ns`]).
    pub fn zero_2m_ns(&self) -> Option<f64> {
        Some((self.fault_2m_ns? - self.rest_2m_ns()? - self.map_ns()).max(0.0))
    }

    /// Duration of a 2MB page fault without clearing and mapping the page, in nanoseconds. It is at
    /// least that of a 4KB page fault, even if the kernel clears faster than user mode does.
    pub fn rest_2m_ns(&self) -> Option<f64> {
        let fault_ns = self.fault_2m_ns?;
        let left = fault_ns - self.clear_2m_ns - self.map_ns();
        Some(left.max(self.rest_4k_ns()).min(fault_ns))
    }

    /// Duration of mapping a page, in nanoseconds. fork maps each page in the child and
    /// write-protects it in the parent, so the duration of mprotect is subtracted.
    pub fn map_ns(&self) -> f64 {
        (self.fork.page_ns() - self.protect_ns()).max(0.0)
    }

    /// Duration of changing the permissions of a page with mprotect, in nanoseconds.
    pub fn protect_ns(&self) -> f64 {
        self.protect.page_ns().max(0.0)
    }

    /// Fixed cost of a system call in nanoseconds: the median of mprotect, munmap and madvise.
    pub fn call_ns(&self) -> f64 {
        let mut calls = [&self.protect, &self.unmap, &self.advise].map(Call::call_ns);
        calls.sort_by(f64::total_cmp);
        calls[1].max(0.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates measurements of a call that takes `call_ns`, and `page_ns` more for each page.
    fn call(call_ns: f64, page_ns: f64) -> Call {
        let of = |pages: u64| call_ns + pages as f64 * page_ns;
        Call { few: 1, one_ns: of(1), many: 1001, many_ns: of(1001) }
    }

    /// Creates measurements of a kernel whose 4KB faults take 1.6 µs (500 ns of them for clearing),
    /// 2MB faults 120 µs (100 µs for clearing), and fork 50 µs and 40 ns per page.
    pub(crate) fn round() -> KernelRound {
        KernelRound {
            fault_4k_ns: 1_600.0,
            fault_2m_ns: Some(120_000.0),
            clear_4k_ns: 500.0,
            clear_2m_ns: 100_000.0,
            copy_4k_ns: 600.0,
            fork: call(50_000.0, 40.0),
            protect: call(400.0, 10.0),
            unmap: call(700.0, 60.0),
            advise: call(300.0, 50.0),
        }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value}, expected {expected}");
    }

    #[test]
    fn costs_by_hand() {
        let round = round();
        near(round.map_ns(), 30.0);
        near(round.protect_ns(), 10.0);
        near(round.zero_4k_ns(), 500.0);
        near(round.rest_4k_ns(), 1_600.0 - 500.0 - 30.0);
        near(round.rest_2m_ns().unwrap(), 120_000.0 - 100_000.0 - 30.0);
        near(round.fork.call_ns(), 50_000.0);
        near(round.call_ns(), 400.0);
        near(round.unmap.page_ns(), 60.0);
    }

    #[test]
    fn parts_are_never_negative_and_make_the_whole() {
        // Clearing in user mode was slower than the whole fault, because a neighbour was busy.
        let busy = KernelRound { clear_4k_ns: 2_000.0, clear_2m_ns: 300_000.0, ..round() };
        near(busy.zero_4k_ns(), 1_600.0);
        near(busy.rest_4k_ns(), 1.0);
        near(busy.rest_2m_ns().unwrap(), 1.0);
        near(busy.zero_2m_ns().unwrap(), 120_000.0 - 1.0 - 30.0);
        let quick = KernelRound { fault_2m_ns: Some(90_000.0), ..round() };
        near(quick.rest_2m_ns().unwrap(), 1_070.0);
        near(quick.zero_2m_ns().unwrap(), 90_000.0 - 1_070.0 - 30.0);
        let odd = KernelRound { fork: call(50_000.0, 5.0), protect: call(-10.0, -1.0), ..round() };
        near(odd.map_ns(), 5.0);
        near(odd.protect_ns(), 0.0);
        let small = KernelRound { fault_2m_ns: None, ..round() };
        assert_eq!((small.zero_2m_ns(), small.rest_2m_ns()), (None, None));
    }
}
