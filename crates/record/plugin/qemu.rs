//! The parts of QEMU's plugin interface (version 1) and of libc that the plugin uses. Debian's package
//! of QEMU has no header; the interface is described in the manual ("QEMU TCG Plugins").

use std::ffi::{c_char, c_int, c_uint, c_void};

/// ID that QEMU gives to a plugin.
pub type PluginId = u64;
/// A translated block during its translation.
pub enum Block {}
/// An instruction of a [`Block`].
pub enum Instruction {}

/// Flag: the callback reads no guest registers.
pub const NO_REGISTERS: c_int = 0;
/// Flags for loads and stores. A single registration must cover both: with several, QEMU 7.2 drops
/// accesses of its helper functions.
pub const READ_WRITE: c_int = 3;

/// Callback with only the plugin's ID.
pub type SimpleCallback = extern "C" fn(PluginId);
/// Callback when a virtual CPU starts or exits.
pub type CpuCallback = extern "C" fn(PluginId, c_uint);
/// Callback when a block is translated.
pub type TranslateCallback = extern "C" fn(PluginId, *mut Block);
/// Callback when a block is executed.
pub type ExecuteCallback = extern "C" fn(c_uint, *mut c_void);
/// Callback after a memory access: CPU, QEMU's description of size and direction, address, user data.
pub type MemoryCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Callback before a system call: CPU, number, eight arguments.
pub type SyscallCallback =
    extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
/// Callback after a system call: CPU, number, result.
pub type ReturnCallback = extern "C" fn(PluginId, c_uint, i64, i64);

unsafe extern "C" {
    pub fn qemu_plugin_reset(id: PluginId, callback: SimpleCallback);
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, callback: CpuCallback);
    pub fn qemu_plugin_register_vcpu_exit_cb(id: PluginId, callback: CpuCallback);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: TranslateCallback);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        callback: ExecuteCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: ExecuteCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: MemoryCallback,
        flags: c_int,
        direction: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, callback: SyscallCallback);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: PluginId, callback: ReturnCallback);
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const c_void;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_mem_size_shift(description: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(description: u32) -> bool;
}

// libc functions; the standard library links libc anyway.
unsafe extern "C" {
    pub fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub fn mprotect(start: *mut c_void, bytes: usize, protection: c_int) -> c_int;
    pub fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const Loaded, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    pub fn execve(
        path: *const c_char,
        arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int;
    pub fn access(path: *const c_char, mode: c_int) -> c_int;
    pub fn kill(process: c_int, signal: c_int) -> c_int;
    pub fn recvmsg(socket: c_int, message: *mut Message, flags: c_int) -> isize;
    pub fn waitid(kind: c_int, id: u32, waited: *mut Waited, options: c_int) -> c_int;
    pub fn shmctl(segment: c_int, command: c_int, status: *mut SegmentStatus) -> c_int;
    pub fn fcntl(descriptor: c_int, command: c_int, argument: c_int) -> c_int;
    pub fn process_vm_readv(
        process: c_int,
        to: *const IoVector,
        to_count: u64,
        from: *const IoVector,
        from_count: u64,
        flags: u64,
    ) -> isize;
}

/// A byte range: libc's `struct iovec`.
#[repr(C)]
pub struct IoVector {
    pub start: *mut c_void,
    pub length: usize,
}

/// A loaded file: the first fields of libc's `struct dl_phdr_info`.
#[repr(C)]
pub struct Loaded {
    /// Difference between the addresses in memory and those in the file.
    pub base: usize,
    pub name: *const c_char,
    pub segments: *const Segment,
    pub segment_count: u16,
}

impl Loaded {
    /// Program headers of the file.
    ///
    /// # Safety
    /// The file is still loaded.
    pub unsafe fn segments(&self) -> &[Segment] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts(self.segments, usize::from(self.segment_count)) }
    }
}

/// A program header: ELF's `Elf64_Phdr`.
#[repr(C)]
pub struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub physical_address: u64,
    pub file_bytes: u64,
    pub bytes: u64,
    pub alignment: u64,
}

/// A message: libc's `struct msghdr`.
#[repr(C)]
pub struct Message {
    pub name: *mut c_void,
    pub name_length: u32,
    pub parts: *mut IoVector,
    pub part_count: usize,
    pub control: *mut c_void,
    pub control_length: usize,
    pub flags: c_int,
}

/// MSG_CMSG_CLOEXEC: received descriptors are closed when the process executes another program.
pub const RECEIVE_CLOSED_ON_EXEC: c_int = 0x4000_0000;
/// SOL_SOCKET: control data for sockets of any kind.
pub const SOCKET_LEVEL: c_int = 1;
/// SCM_RIGHTS: control data with descriptors.
pub const SOCKET_RIGHTS: c_int = 1;

/// Room for libc's `siginfo_t`, which `waitid` fills.
#[repr(C, align(8))]
pub struct Waited(pub [u64; 16]);

/// libc's `struct shmid_ds`: its first fields, and more room than the rest needs.
#[repr(C)]
pub struct SegmentStatus {
    pub permissions: [u64; 6],
    pub bytes: u64,
    pub rest: [u64; 16],
}

/// IPC_STAT: the command that queries the status.
pub const STATUS_OF_SEGMENT: c_int = 2;

/// P_PID: wait for the process with this ID.
pub const WAIT_FOR_PROCESS: c_int = 1;
/// WNOHANG | WEXITED | WNOWAIT | __WALL: check whether a child of any kind has ended, without consuming
/// its exit status.
pub const WAIT_ONLY_ASK: c_int = 1 | 4 | 0x0100_0000 | 0x4000_0000;
/// F_DUPFD: makes a copy that stays open across execve.
pub const COPY_DESCRIPTOR: c_int = 0;
/// F_SETFD: sets the flags of a descriptor.
pub const SET_DESCRIPTOR_FLAGS: c_int = 2;
/// FD_CLOEXEC: the descriptor is closed when the process executes another program.
pub const CLOSED_ON_EXEC: c_int = 1;
/// ESRCH: there is no such process.
pub const NO_SUCH_PROCESS: i32 = 3;

/// X_OK: permission to execute.
pub const MAY_EXECUTE: c_int = 1;

/// Protection PROT_READ, of pages that are only read after relocation.
pub const PROTECTION_READ: c_int = 1;
/// Protection PROT_READ | PROT_WRITE.
pub const PROTECTION_READ_WRITE: c_int = 3;
/// Flag MAP_SHARED of mmap.
pub const MAP_SHARED: c_int = 1;

/// Array of arguments, as QEMU passes it.
pub type Arguments = *mut *mut c_char;
