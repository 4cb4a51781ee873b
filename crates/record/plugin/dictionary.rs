//! Dictionary of translated blocks, shared by all recorded processes.

use std::sync::atomic::Ordering;

use super::qemu::{self, Block};
use super::ring;
use crate::layout::{
    DICTIONARY_BYTES, DICTIONARY_OFFSET, DICTIONARY_UNIT_BYTES, FAILURE_DICTIONARY,
};
use crate::record::MAX_BLOCK_INSTRUCTIONS;

/// Adds a block of code to the dictionary during its translation. Returns the number of the block; `None` if
/// the dictionary is full.
///
/// Layout of an entry: address (8 bytes), number of instructions (4), bytes of code (4), length of each
/// instruction (1 each), code. Room is reserved before it is filled, so processes do not wait for each
/// other. The recorder reads an entry only after a record refers to it.
pub fn append(block: *mut Block) -> Option<u32> {
    let mut lengths = [0u8; MAX_BLOCK_INSTRUCTIONS];
    let mut code = Vec::with_capacity(256);
    // SAFETY: `block` and its instructions are valid during the translation callback.
    let address = unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(block).min(MAX_BLOCK_INSTRUCTIONS);
        for (index, length) in lengths[..count].iter_mut().enumerate() {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            code.extend_from_slice(instruction_bytes(instruction));
            *length = qemu::qemu_plugin_insn_size(instruction) as u8;
        }
        qemu::qemu_plugin_tb_vaddr(block)
    };
    let count = lengths.iter().position(|length| *length == 0).unwrap_or(lengths.len());
    let mut entry = Vec::with_capacity(32 + count + code.len());
    entry.extend_from_slice(&address.to_le_bytes());
    entry.extend_from_slice(&(count as u32).to_le_bytes());
    entry.extend_from_slice(&(code.len() as u32).to_le_bytes());
    entry.extend_from_slice(&lengths[..count]);
    entry.extend_from_slice(&code);

    let room = entry.len().next_multiple_of(DICTIONARY_UNIT_BYTES);
    let start = ring::shared().dictionary_bytes.fetch_add(room as u64, Ordering::AcqRel) as usize;
    if start.saturating_add(room) > DICTIONARY_BYTES {
        ring::shared().failure.store(FAILURE_DICTIONARY, Ordering::Release);
        return None;
    }
    let place = ring::shared_bytes(DICTIONARY_OFFSET + start);
    // SAFETY: the entry ends inside the dictionary, and its bytes are reserved for it.
    unsafe { place.copy_from_nonoverlapping(entry.as_ptr(), entry.len()) };
    Some((start / DICTIONARY_UNIT_BYTES) as u32)
}

/// Code bytes of an instruction.
///
/// # Safety
/// The instruction must belong to the block that is being translated. The bytes are valid during the
/// translation callback.
pub unsafe fn instruction_bytes<'a>(instruction: *const qemu::Instruction) -> &'a [u8] {
    // SAFETY: promised by the caller.
    unsafe {
        let size = qemu::qemu_plugin_insn_size(instruction);
        let data = qemu::qemu_plugin_insn_data(instruction).cast::<u8>();
        std::slice::from_raw_parts(data, size)
    }
}
