//! Costs of the kernel derived from the measurements of one round.

/// Times of a system call for few and for many pages, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Pages of the call for few pages.
    pub few: u64,
    /// Time of the call for few pages.
    pub one_ns: f64,
    /// Pages of the call for many pages.
    pub many: u64,
    /// Time of the call for many pages.
    pub many_ns: f64,
}

impl Call {
    /// Time per page in nanoseconds.
    pub fn page_ns(&self) -> f64 {
        (self.many_ns - self.one_ns) / (self.many - self.few) as f64
    }

    /// Time of the call without the part for its pages, in nanoseconds.
    pub fn call_ns(&self) -> f64 {
        self.one_ns - self.few as f64 * self.page_ns()
    }
}

/// Times of one round, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct KernelRound {
    /// First touch of a 4KB page, with its page fault.
    pub fault_4k_ns: f64,
    /// First touch of a 2MB page; `None` if the kernel gives no 2MB pages.
    pub fault_2m_ns: Option<f64>,
    /// Clearing 4KB of memory that is in 4KB pages.
    pub clear_4k_ns: f64,
    /// Clearing 2MB of memory that is in 2MB pages.
    pub clear_2m_ns: f64,
    /// Copying 4KB of memory.
    pub copy_4k_ns: f64,
    /// fork, by the number of touched pages.
    pub fork: Call,
    /// mprotect, by the number of pages.
    pub protect: Call,
    /// munmap, by the number of pages.
    pub unmap: Call,
    /// madvise with MADV_DONTNEED, by the number of pages.
    pub advise: Call,
}

impl KernelRound {
    /// Time of clearing a 4KB page in a page fault, at most the time of the fault.
    pub fn zero_4k_ns(&self) -> f64 {
        self.clear_4k_ns.min(self.fault_4k_ns)
    }

    /// Time of a 4KB page fault without clearing and mapping the page, at least 1 ns.
    pub fn rest_4k_ns(&self) -> f64 {
        (self.fault_4k_ns - self.zero_4k_ns() - self.map_ns()).max(1.0)
    }

    /// Time of clearing a 2MB page in a page fault: the fault without `rest_2m_ns` and mapping.
    pub fn zero_2m_ns(&self) -> Option<f64> {
        Some((self.fault_2m_ns? - self.rest_2m_ns()? - self.map_ns()).max(0.0))
    }

    /// Time of a 2MB page fault without clearing and mapping the page. It is at least that of a 4KB
    /// page fault, even if the kernel clears faster than user mode does.
    pub fn rest_2m_ns(&self) -> Option<f64> {
        let fault_ns = self.fault_2m_ns?;
        let left = fault_ns - self.clear_2m_ns - self.map_ns();
        Some(left.max(self.rest_4k_ns()).min(fault_ns))
    }

    /// Time of mapping a page. fork maps each page in the child and write-protects it in the
    /// parent, so the time of mprotect is subtracted.
    pub fn map_ns(&self) -> f64 {
        (self.fork.page_ns() - self.protect_ns()).max(0.0)
    }

    /// Time of changing the permissions of a page (mprotect).
    pub fn protect_ns(&self) -> f64 {
        self.protect.page_ns().max(0.0)
    }

    /// Fixed cost of a call: the median of mprotect, munmap and madvise.
    pub fn call_ns(&self) -> f64 {
        let mut calls = [&self.protect, &self.unmap, &self.advise].map(Call::call_ns);
        calls.sort_by(f64::total_cmp);
        calls[1].max(0.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A call that takes `call_ns`, and `page_ns` more for each page.
    fn call(call_ns: f64, page_ns: f64) -> Call {
        let of = |pages: u64| call_ns + pages as f64 * page_ns;
        Call { few: 1, one_ns: of(1), many: 1001, many_ns: of(1001) }
    }

    /// A kernel whose 4KB faults take 1.6 µs (500 ns of them for clearing), 2MB faults 120 µs (100 µs
    /// for clearing), and fork 50 µs and 40 ns per page.
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
