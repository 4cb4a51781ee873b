//! Register numbers of x86-64 in recorded traces.
//!
//! | number | register |
//! |---|---|
//! | 0 | none |
//! | 1–16 | rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8–r15; a part counts as the whole |
//! | 17 | the arithmetic flags |
//! | 18 | the instruction pointer: written by every branch, never a source |
//! | 19–50 | vector registers 0–31 (xmm, ymm and zmm of one number are one register) |
//! | 51–58 | x87 and MMX registers 0–7 |
//! | 59–66 | mask registers k0–k7 |
//!
//! Segment, control and status registers (mxcsr) have no number.

use perforate_types::Register;

const GENERAL: u8 = 1;
const VECTOR: u8 = 19;
const FLOATING: u8 = 51;
const MASK: u8 = 59;

/// True for numbers of vector, x87 and MMX registers.
pub(crate) const fn is_floating(register: Register) -> bool {
    register >= VECTOR && register < MASK
}

/// Returns the number of an x86-64 register in traces; 0 for registers without a number.
pub(crate) fn number(register: iced_x86::Register) -> Register {
    let index = register.number() as u8;
    if register.is_gpr() {
        GENERAL + register.full_register().number() as u8
    } else if register.is_vector_register() {
        VECTOR + index
    } else if register.is_st() || register.is_mm() {
        FLOATING + index
    } else if register.is_k() {
        MASK + index
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::Register as X86;
    use perforate_types::STACK_POINTER;

    #[test]
    fn every_register_has_its_number() {
        let expected = [
            (X86::RAX, 1),
            (X86::AH, 1),
            (X86::CL, 2),
            (X86::ESP, STACK_POINTER),
            (X86::DIL, 8),
            (X86::R15W, 16),
            (X86::XMM0, 19),
            (X86::YMM15, 34),
            (X86::ZMM31, 50),
            (X86::ST0, 51),
            (X86::MM7, 58),
            (X86::K7, 66),
            (X86::FS, 0),
            (X86::None, 0),
        ];
        for (register, number_expected) in expected {
            assert_eq!(number(register), number_expected, "{register:?}");
        }
        assert!(is_floating(19) && is_floating(58) && !is_floating(16) && !is_floating(59));
    }
}
