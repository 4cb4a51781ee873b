//! Names of the counters that the report computes with or refers to. Counters that it only lists come from
//! the vocabulary.

macro_rules! names {
    ($(#[$about:meta])* $all:ident { $($constant:ident = $name:literal;)* }) => {
        $(pub(crate) const $constant: &str = $name;)*

        $(#[$about])*
        pub const $all: &[&str] = &[$($name),*];
    };
}

names! {
    /// Counters from which the report computes figures. Every name must be a registered counter.
    COUNTERS_USED {
        CYCLES_WITH_OPERATING_SYSTEM = "cycles_with_operating_system";
        GUEST_REFERENCES_PER_WALK = "guest_references_per_walk";
        HOST_REFERENCES_PER_WALK = "host_references_per_walk";
        DRAM_BUSY = "dram_busy";
        HUGE_PAGE_ADVICES = "huge_page_advices";
        HUGE_PAGE_REFUSALS = "huge_page_refusals";
        L1D_MSHRS_BUSY = "l1d_mshrs_busy";
        L1_TLB_MISSES = "l1_tlb_misses";
        L1_TLB_MPKI = "l1_tlb_mpki";
        L2_TLB_COMPULSORY_SHARE = "l2_tlb_compulsory_share";
        L2_TLB_MISSES = "l2_tlb_misses";
        L2_TLB_MPKI = "l2_tlb_mpki";
        LOADS = "loads";
        MAPPED_BYTES = "mapped_bytes";
        OPERATING_SYSTEM_BACKGROUND_CYCLES = "operating_system_background_cycles";
        OPERATING_SYSTEM_CYCLES = "operating_system_cycles";
        OPERATING_SYSTEM_CYCLES_SWAPPING = "operating_system_cycles_swapping";
        PAGE_WALKERS_BUSY = "page_walkers_busy";
        PERFORATED_PAGES = "perforated_pages";
        REFERENCES_PER_WALK = "references_per_walk";
        SEGMENT_CHECKS_PER_WALK = "segment_checks_per_walk";
        STORES = "stores";
        TOUCHED_BYTES = "touched_bytes";
        TRANSLATION_STALL_CYCLES = "translation_stall_cycles";
        TRANSLATION_ENERGY_DYNAMIC_NJ = "translation_energy_dynamic_nj";
        VIRTUAL_MACHINE_EXITS = "virtual_machine_exits";
        WALKS = "walks";
        WHOLE_RUN_CYCLES = "whole_run_cycles";
        WHOLE_RUN_IPC = "whole_run_ipc";
        WHOLE_RUN_OPERATING_SYSTEM_CYCLES = "whole_run_operating_system_cycles";
        WALK_CYCLES = "walk_cycles";
    }
}

names! {
    /// Names of totals: reports add up or stack the components of each. Every total has registered
    /// components.
    WHOLES_USED {
        BITMAP_REFERENCES = "bitmap_references";
        KHUGEPAGED_PAGES_MADE = "khugepaged_pages_made";
        L2_TLB_CONTENTS = "l2_tlb_contents";
        PARTS_OF_WORK = "operating_system_cycles";
        STACK_CYCLES = "stack_cycles";
        TRANSLATION_MEMORY = "translation_memory";
        TRANSLATION_CYCLES = "translation_cycles";
        WALK_REFERENCES = "walk_references";
        WORK_FAULTS = "work_faults";
        WORK_SHOOTDOWNS = "work_shootdowns";
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use perforate_records::Vocabulary;
    use perforate_types::{SchemeFacts, SchemeRole};

    /// Returns a vocabulary for tests with one scheme for each role (such as base or ideal) that headlines
    /// distinguish.
    pub(crate) fn vocabulary() -> Vocabulary {
        let scheme = |name: &'static str, colour: &'static str, role| SchemeFacts {
            name: name.into(),
            other_names: Vec::new(),
            colour: colour.into(),
            role,
            setting: matches!(role, SchemeRole::Base | SchemeRole::Conventional)
                .then(|| format!("pages={name}").into()),
        };
        let schemes = vec![
            scheme("4k", "page-4k", SchemeRole::Base),
            scheme("thp", "page-2m", SchemeRole::Conventional),
            scheme("perforated", "perforated", SchemeRole::Proposal),
            scheme("ideal", "ideal", SchemeRole::Ideal),
            scheme("free", "free", SchemeRole::Free),
        ];
        Vocabulary::new(Vec::new(), schemes)
    }
}
