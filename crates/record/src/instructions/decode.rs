//! Decoder of instructions: registers, branch, operation, and the relation of the emulator's memory
//! accesses to operands.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, UsedMemory,
    UsedRegister,
};
use perforate_types::{
    Branch, FLAGS, INSTRUCTION_POINTER, Instruction, Operation, Register, VirtualAddress,
};

use super::registers::{is_floating, number};

/// Maximum size in bytes of one operand's access: a vector register.
const WIDEST_ACCESS_BYTES: usize = 64;

/// A decoded instruction, with properties that a trace does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The instruction as in the trace; conditional branches are marked as not taken.
    pub instruction: Instruction,
    /// Size of the widest memory operand in bytes; 0 if none is known.
    pub widest_bytes: u16,
    /// True if a memory operand is both read and written. The plugin may report both accesses as one.
    pub modifies_memory: bool,
    /// True if the instruction is a string instruction with a repeat prefix.
    pub repeats: bool,
    /// Target address of a direct branch; 0 for other instructions.
    pub target: u64,
}

/// Decoder of x86-64 instructions.
pub struct InstructionDecoder {
    factory: InstructionInfoFactory,
}

impl InstructionDecoder {
    /// Makes a decoder for 64-bit code.
    pub fn new() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }

    /// Decodes one instruction at `ip`. Unknown bytes give an instruction without operands, because the
    /// emulator has executed them.
    pub fn decode(&mut self, bytes: &[u8], ip: u64) -> Decoded {
        let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
        let x86 = decoder.decode();
        let info = self.factory.info(&x86);
        let branch = branch(&x86);
        let operands = Operands::new(info.used_registers(), info.used_memory(), &x86, branch);
        let (widest_bytes, modifies_memory) = memory(info.used_memory());
        let instruction = Instruction {
            ip: VirtualAddress::new(ip),
            sources: operands.sources.array(),
            data_sources: operands.data_sources(),
            destinations: operands.destinations.array(),
            accesses: 0,
            length: bytes.len() as u8,
            branch,
            taken: !matches!(branch, Branch::None | Branch::Conditional),
            operation: operation(&x86, &operands),
        };
        let repeats =
            x86.is_string_instruction() && (x86.has_rep_prefix() || x86.has_repne_prefix());
        let target = x86.near_branch_target();
        Decoded { instruction, widest_bytes, modifies_memory, repeats, target }
    }
}

fn branch(x86: &iced_x86::Instruction) -> Branch {
    match x86.flow_control() {
        FlowControl::UnconditionalBranch => Branch::Jump,
        FlowControl::IndirectBranch => Branch::Indirect,
        FlowControl::ConditionalBranch => Branch::Conditional,
        FlowControl::Return => Branch::Return,
        // iced classifies system calls as calls.
        FlowControl::Call if x86.mnemonic() == Mnemonic::Call => Branch::Call,
        FlowControl::IndirectCall => Branch::IndirectCall,
        _ => Branch::None,
    }
}

fn memory(used: &[UsedMemory]) -> (u16, bool) {
    let widest = used.iter().map(|memory| memory.memory_size().size()).max().unwrap_or(0);
    let modifies = used.iter().any(|memory| {
        matches!(
            memory.access(),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite | OpAccess::CondWrite
        )
    });
    (widest.min(WIDEST_ACCESS_BYTES) as u16, modifies)
}

/// Set of registers in order of insertion; [`Instruction`] holds the first `N`.
#[derive(Default)]
struct RegisterList<const N: usize> {
    list: Vec<Register>,
}

impl<const N: usize> RegisterList<N> {
    fn add(&mut self, register: Register) {
        if register != 0 && !self.list.contains(&register) {
            self.list.push(register);
        }
    }

    fn array(&self) -> [Register; N] {
        std::array::from_fn(|index| self.list.get(index).copied().unwrap_or(0))
    }
}

/// Registers that an instruction reads and writes, in order of importance: registers that form an address,
/// operands, flags, instruction pointer. Registers that do not fit are left out.
#[derive(Default)]
struct Operands {
    sources: RegisterList<4>,
    /// Number of source registers, from the first on, that form addresses; the number of all source registers
    /// if there is no memory access.
    addresses: usize,
    destinations: RegisterList<2>,
}

impl Operands {
    fn new(
        registers: &[UsedRegister],
        memory: &[UsedMemory],
        x86: &iced_x86::Instruction,
        branch: Branch,
    ) -> Self {
        let mut operands = Self::default();
        for memory in memory {
            operands.sources.add(number(memory.base()));
            operands.sources.add(number(memory.index()));
        }
        operands.addresses = if memory.is_empty() { 4 } else { operands.sources.list.len() };
        for used in registers {
            let register = number(used.register());
            // Writing 8 or 16 bits of a general register keeps the rest of its old value.
            let keeps_rest = used.register().is_gpr8() || used.register().is_gpr16();
            if reads(used.access()) || keeps_rest && writes(used.access()) {
                operands.sources.add(register);
            }
            if writes(used.access()) {
                operands.destinations.add(register);
            }
        }
        if x86.rflags_read() != 0 {
            operands.sources.add(FLAGS);
        }
        if x86.rflags_modified() != 0 {
            operands.destinations.add(FLAGS);
        }
        if branch != Branch::None {
            operands.destinations.add(INSTRUCTION_POINTER);
        }
        operands
    }

    /// Bit mask of the source registers that do not form an address.
    fn data_sources(&self) -> u8 {
        let places = self.sources.list.len().min(4);
        (self.addresses.min(places)..places).fold(0, |bits, place| bits | 1 << place)
    }
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    // A conditional write (cmov) may keep the old value, so it depends on the old value.
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite | OpAccess::CondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// Determines the kind of operation. Locked instructions do not count as serializing.
fn operation(x86: &iced_x86::Instruction, operands: &Operands) -> Operation {
    match x86.mnemonic() {
        Mnemonic::Imul | Mnemonic::Mul | Mnemonic::Mulx => return Operation::Multiply,
        Mnemonic::Div | Mnemonic::Idiv => return Operation::Divide,
        Mnemonic::Syscall
        | Mnemonic::Cpuid
        | Mnemonic::Mfence
        | Mnemonic::Lfence
        | Mnemonic::Serialize
        | Mnemonic::Rdtscp
        | Mnemonic::Int
        | Mnemonic::Int3 => return Operation::Serializing,
        _ => {}
    }
    let lists = [&operands.sources.list, &operands.destinations.list];
    if !lists.into_iter().flatten().any(|register| is_floating(*register)) {
        return Operation::Integer;
    }
    let name = format!("{:?}", x86.mnemonic());
    let name = name.strip_prefix('V').unwrap_or(&name).to_ascii_lowercase();
    let is_one_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if is_one_of(&["div", "sqrt", "fdiv", "fidiv", "fsqrt"]) {
        Operation::Divide
    } else if is_one_of(&["mov", "lddqu", "fld", "fst", "fxch", "push", "pop", "maskmov"]) {
        Operation::Integer
    } else {
        Operation::Float
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: u64 = 0x40_1000;
    const RAX: u8 = 1;
    const RCX: u8 = 2;
    const RDX: u8 = 3;
    const RBX: u8 = 4;
    const RSP: u8 = 5;
    const RBP: u8 = 6;
    const RSI: u8 = 7;
    const RDI: u8 = 8;
    const R8: u8 = 9;
    const XMM0: u8 = 19;
    const XMM1: u8 = 20;

    fn decode(bytes: &[u8]) -> Decoded {
        InstructionDecoder::new().decode(bytes, IP)
    }

    /// Checks sources, destinations, branch and operation of hand-assembled bytes.
    fn check(
        bytes: &[u8],
        sources: &[u8],
        destinations: &[u8],
        branch: Branch,
        operation: Operation,
    ) -> Decoded {
        let decoded = decode(bytes);
        let mut seen = decoded.instruction.sources.to_vec();
        seen.retain(|register| *register != 0);
        assert_eq!(seen, sources, "sources of {bytes:x?}");
        let mut seen = decoded.instruction.destinations.to_vec();
        seen.retain(|register| *register != 0);
        assert_eq!(seen, destinations, "destinations of {bytes:x?}");
        assert_eq!(decoded.instruction.branch, branch, "{bytes:x?}");
        assert_eq!(decoded.instruction.operation, operation, "{bytes:x?}");
        assert_eq!(usize::from(decoded.instruction.length), bytes.len());
        assert_eq!(decoded.instruction.ip.value(), IP);
        decoded
    }

    #[test]
    fn integer_instructions() {
        use Operation::{Divide, Integer, Multiply};
        let none = Branch::None;
        // mov rax, [rbx+rcx*8]
        let load = check(&[0x48, 0x8b, 0x04, 0xcb], &[RBX, RCX], &[RAX], none, Integer);
        assert_eq!((load.widest_bytes, load.modifies_memory), (8, false));
        assert_eq!(load.instruction.data_sources, 0, "both form the address");
        // mov [rsi], edx
        let store = check(&[0x89, 0x16], &[RSI, RDX], &[], none, Integer);
        assert_eq!((store.widest_bytes, store.modifies_memory), (4, false));
        assert_eq!(store.instruction.data_sources, 0b10, "rdx is what is stored");
        // add rax, [rbx]
        let sum = check(&[0x48, 0x03, 0x03], &[RBX, RAX], &[RAX, FLAGS], none, Integer);
        assert_eq!(sum.instruction.data_sources, 0b10);
        // add rax, [0x1000], whose address needs no register
        let bytes = [0x48, 0x03, 0x04, 0x25, 0, 0x10, 0, 0];
        let absolute = check(&bytes, &[RAX], &[RAX, FLAGS], none, Integer);
        assert_eq!(absolute.instruction.data_sources, 0b1);
        // add [rax], rax: rax is both address and data
        let both = check(&[0x48, 0x01, 0x00], &[RAX], &[FLAGS], none, Integer);
        assert_eq!(both.instruction.data_sources, 0);
        // add rax, rdx
        check(&[0x48, 0x01, 0xd0], &[RAX, RDX], &[RAX, FLAGS], none, Integer);
        // xor eax, eax: no dependence
        check(&[0x31, 0xc0], &[], &[RAX, FLAGS], none, Integer);
        // mov al, [rdi]: keeps the rest of rax
        check(&[0x8a, 0x07], &[RDI, RAX], &[RAX], none, Integer);
        // lea rax, [rip+0x10]: the address is known
        let lea = check(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0], &[], &[RAX], none, Integer);
        assert_eq!(lea.widest_bytes, 0);
        // cmovne rax, rcx: flags and the old value
        check(&[0x48, 0x0f, 0x45, 0xc1], &[RAX, RCX, FLAGS], &[RAX], none, Integer);
        // imul rcx, rdx
        check(&[0x48, 0x0f, 0xaf, 0xca], &[RCX, RDX], &[RCX, FLAGS], none, Multiply);
        // div rsi: quotient and remainder; the flags do not fit
        check(&[0x48, 0xf7, 0xf6], &[RSI, RAX, RDX], &[RAX, RDX], none, Divide);
        // push rbp
        check(&[0x55], &[RSP, RBP], &[RSP], none, Integer);
    }

    /// Moves of floating-point registers are no arithmetic; divisions and roots are.
    #[test]
    fn floating_point_operations_have_their_kind() {
        use Operation::{Divide, Float, Integer};
        for (bytes, name, expected) in [
            (&[0x0f, 0x28, 0xc1][..], "movaps", Integer),
            (&[0xf2, 0x0f, 0xf0, 0x00], "lddqu", Integer),
            (&[0xd9, 0x00], "fld", Integer),
            (&[0xd9, 0x10], "fst", Integer),
            (&[0xd9, 0xc9], "fxch", Integer),
            (&[0x66, 0x0f, 0xf7, 0xc1], "maskmovdqu", Integer),
            (&[0xc5, 0xf8, 0x28, 0xc1], "vmovaps", Integer),
            (&[0x0f, 0x58, 0xc1], "addps", Float),
            (&[0xc5, 0xf0, 0x58, 0xc2], "vaddps", Float),
            (&[0x0f, 0x5e, 0xc1], "divps", Divide),
            (&[0x0f, 0x51, 0xc1], "sqrtps", Divide),
            (&[0xc5, 0xf0, 0x5e, 0xc2], "vdivps", Divide),
            (&[0xd8, 0xf1], "fdiv", Divide),
            (&[0xda, 0x30], "fidiv", Divide),
            (&[0xd9, 0xfa], "fsqrt", Divide),
            (&[0xd8, 0xc1], "fadd", Float),
        ] {
            assert_eq!(decode(bytes).instruction.operation, expected, "{name}");
        }
        for (bytes, name) in [
            (&[0x0f, 0x05][..], "syscall"),
            (&[0x0f, 0xa2], "cpuid"),
            (&[0x0f, 0xae, 0xf0], "mfence"),
            (&[0x0f, 0xae, 0xe8], "lfence"),
            (&[0x0f, 0x01, 0xe8], "serialize"),
            (&[0x0f, 0x01, 0xf9], "rdtscp"),
            (&[0xcd, 0x80], "int"),
            (&[0xcc], "int3"),
        ] {
            let operation = decode(bytes).instruction.operation;
            assert_eq!(operation, Operation::Serializing, "{name}");
        }
    }

    #[test]
    fn branches() {
        use Operation::Integer;
        let ip = INSTRUCTION_POINTER;
        // jne +5
        let jne = check(&[0x75, 0x05], &[FLAGS], &[ip], Branch::Conditional, Integer);
        assert!(!jne.instruction.taken, "decided by what follows");
        // jmp +5
        let jump = check(&[0xeb, 0x05], &[], &[ip], Branch::Jump, Integer);
        assert!(jump.instruction.taken);
        // jmp rax
        check(&[0xff, 0xe0], &[RAX], &[ip], Branch::Indirect, Integer);
        // call +0
        check(&[0xe8, 0, 0, 0, 0], &[RSP], &[RSP, ip], Branch::Call, Integer);
        // call [rax+8]
        check(&[0xff, 0x50, 0x08], &[RAX, RSP], &[RSP, ip], Branch::IndirectCall, Integer);
        // ret
        check(&[0xc3], &[RSP], &[RSP, ip], Branch::Return, Integer);
        // syscall is not a branch
        let syscall = decode(&[0x0f, 0x05]);
        assert_eq!(syscall.instruction.branch, Branch::None);
        assert_eq!(syscall.instruction.operation, Operation::Serializing);
    }

    #[test]
    fn each_kind_of_operation_has_its_instructions() {
        use Operation::{Divide, Multiply, Serializing};
        for (bytes, operation) in [
            (&[0xf7, 0xe1][..], Multiply),               // mul ecx
            (&[0xf7, 0xe9], Multiply),                   // imul ecx
            (&[0x6b, 0xc1, 0x07], Multiply),             // imul eax, ecx, 7
            (&[0xc4, 0xe2, 0x73, 0xf6, 0xc2], Multiply), // mulx eax, ecx, edx
            (&[0xf7, 0xf1], Divide),                     // div ecx
            (&[0xf7, 0xf9], Divide),                     // idiv ecx
            (&[0x0f, 0x05], Serializing),                // syscall
            (&[0x0f, 0xa2], Serializing),                // cpuid
            (&[0x0f, 0xae, 0xf0], Serializing),          // mfence
            (&[0x0f, 0xae, 0xe8], Serializing),          // lfence
            (&[0x0f, 0x01, 0xe8], Serializing),          // serialize
            (&[0x0f, 0x01, 0xf9], Serializing),          // rdtscp
            (&[0xcd, 0x80], Serializing),                // int 0x80
            (&[0xcc], Serializing),                      // int3
            (&[0x0f, 0xae, 0xf8], Operation::Integer),   // sfence
            (&[0x0f, 0x31], Operation::Integer),         // rdtsc
        ] {
            let decoded = decode(bytes).instruction;
            assert_eq!(
                (decoded.operation, decoded.branch),
                (operation, Branch::None),
                "{bytes:x?}"
            );
        }
    }

    #[test]
    fn vectors_and_floating_point() {
        use Operation::{Divide, Float, Integer};
        let none = Branch::None;
        // movups xmm0, [rax]
        let load = check(&[0x0f, 0x10, 0x00], &[RAX], &[XMM0], none, Integer);
        assert_eq!(load.widest_bytes, 16);
        // addsd xmm0, xmm1
        check(&[0xf2, 0x0f, 0x58, 0xc1], &[XMM0, XMM1], &[XMM0], none, Float);
        // divsd xmm0, xmm1
        check(&[0xf2, 0x0f, 0x5e, 0xc1], &[XMM0, XMM1], &[XMM0], none, Divide);
        // sqrtsd xmm0, xmm1 keeps the upper half of xmm0
        assert_eq!(decode(&[0xf2, 0x0f, 0x51, 0xc1]).instruction.operation, Divide);
        // vmovdqu ymm0, [r8]
        let wide = check(&[0xc4, 0xc1, 0x7e, 0x6f, 0x00], &[R8], &[XMM0], none, Integer);
        assert_eq!(wide.widest_bytes, 32);
        // fld qword [rax] pushes on the x87 stack
        assert_eq!(decode(&[0xdd, 0x00]).instruction.operation, Integer);
    }

    #[test]
    fn read_modify_write_strings_and_unknown_bytes() {
        // lock add [rdi], eax
        let locked = decode(&[0xf0, 0x01, 0x07]);
        assert!(locked.modifies_memory && locked.widest_bytes == 4);
        // lock cmpxchg [rdi], rcx
        assert!(decode(&[0xf0, 0x48, 0x0f, 0xb1, 0x0f]).modifies_memory);
        // xchg [rdi], eax
        assert!(decode(&[0x87, 0x07]).modifies_memory);
        // rep movsb, rep stosq, repne scasb, movsb
        assert!(decode(&[0xf3, 0xa4]).repeats);
        assert!(decode(&[0xf3, 0x48, 0xab]).repeats);
        assert!(decode(&[0xf2, 0xae]).repeats);
        assert!(!decode(&[0xa4]).repeats);
        // movsd xmm0, [rax] is not a string instruction
        assert!(!decode(&[0xf2, 0x0f, 0x10, 0x00]).repeats);
        // rep ret, pause and endbr64 have the prefix, and do not repeat
        assert!(!decode(&[0xf3, 0xc3]).repeats);
        assert!(!decode(&[0xf3, 0x90]).repeats);
        assert!(!decode(&[0xf3, 0x0f, 0x1e, 0xfa]).repeats);
        // 0x06 is not an instruction in 64-bit mode
        let unknown = decode(&[0x06]).instruction;
        assert_eq!((unknown.sources, unknown.destinations), ([0; 4], [0; 2]));
    }
}
