//! Following execve: the emulator would run the new program natively, so it is replaced by
//! another emulator instead, with the same plugin and the new program.

use std::ffi::{CStr, CString, c_char, c_void};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::qemu::{self, IoVector};

/// System calls that replace the program: execve, execveat.
pub const EXECVE: i64 = 59;
/// See [`EXECVE`].
pub const EXECVEAT: i64 = 322;
/// "The current folder" where a descriptor is expected.
const AT_FDCWD: i32 = -100;
/// The descriptor itself names the file.
const AT_EMPTY_PATH: u64 = 0x1000;
/// Interpreters of interpreters that Linux follows.
const MAX_INTERPRETERS: usize = 4;
/// Bytes of all arguments and the environment together, as Linux allows by default.
const MAX_ARGUMENT_BYTES: usize = 2 << 20;
/// The emulator's option for the program's own name, behind which the program's part begins.
const NAME_OPTION: &[u8] = b"-0";
const MACHINE_X86_64: [u8; 2] = [62, 0];

/// How this emulator was started.
struct Emulator {
    path: CString,
    /// Its name and options, without the program.
    options: Vec<CString>,
    program: PathBuf,
}

static EMULATOR: OnceLock<Option<Emulator>> = OnceLock::new();

/// Remembers how this emulator was started, so that another can be.
pub fn install() {
    EMULATOR.get_or_init(own_command_line);
}

fn own_command_line() -> Option<Emulator> {
    let path = fs::read_link("/proc/self/exe").ok()?;
    let line = fs::read("/proc/self/cmdline").ok()?;
    let words: Vec<&[u8]> = line.strip_suffix(&[0])?.split(|byte| *byte == 0).collect();
    let end = words.iter().position(|word| *word == NAME_OPTION)?;
    let options: Result<Vec<_>, _> = words[..end].iter().map(|word| CString::new(*word)).collect();
    let program = std::ffi::OsString::from_vec(words.get(end + 2)?.to_vec()).into();
    Some(Emulator { path: c_path(path)?, options: options.ok()?, program })
}

fn c_path(path: impl Into<PathBuf>) -> Option<CString> {
    CString::new(path.into().into_os_string().into_vec()).ok()
}

/// Carries out a call of execve or execveat. Returns if the new program cannot be recorded or
/// the call is wrong: then the emulator does what it would have done.
pub fn execute(number: i64, arguments: [u64; 5]) {
    let _ = try_execute(number, arguments);
}

fn try_execute(number: i64, arguments: [u64; 5]) -> Option<()> {
    let emulator = EMULATOR.get()?.as_ref()?;
    let [first, second, third, fourth, flags] = arguments;
    let (path, list, environment) = match number {
        EXECVE => (PathBuf::from(std::ffi::OsString::from_vec(text(first)?)), second, third),
        _ => (at_folder(first as i32, text(second)?, flags)?, third, fourth),
    };
    let path = own_image(path, emulator);
    let mut program: Vec<CString> = texts(list)?;
    let path = interpreted(path, &mut program)?;
    let name = program.first().cloned().unwrap_or_else(|| path.clone());
    let environment = texts(environment)?;

    let mut line = emulator.options.clone();
    line.push(CString::new(NAME_OPTION).ok()?);
    line.extend([name, path]);
    line.extend(program.into_iter().skip(1));
    let (line, environment) = (pointers(&line), pointers(&environment));
    // SAFETY: both lists hold C strings that live until the call and end with a null pointer.
    unsafe { qemu::execve(emulator.path.as_ptr(), line.as_ptr(), environment.as_ptr()) };
    None
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The path that execveat means.
fn at_folder(folder: i32, path: Vec<u8>, flags: u64) -> Option<PathBuf> {
    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
    let is_empty = path.as_os_str().is_empty();
    if is_empty && flags & AT_EMPTY_PATH == 0 {
        return None;
    }
    if path.is_absolute() || folder == AT_FDCWD {
        return Some(path);
    }
    // The descriptor may close when the program is replaced; its file's name stays.
    let folder = fs::read_link(format!("/proc/self/fd/{folder}")).ok()?;
    Some(if is_empty { folder } else { folder.join(path) })
}

/// `/proc/self/exe` is the recorded program to itself, and the emulator to the kernel.
fn own_image(path: PathBuf, emulator: &Emulator) -> PathBuf {
    let own = format!("/proc/{}/exe", std::process::id());
    let is_own = path == Path::new("/proc/self/exe") || path == Path::new(&own);
    if is_own { emulator.program.clone() } else { path }
}

/// The program to load for `path`, which may be a script: its interpreter then, before whose
/// arguments the script is put, as Linux does. None if it is nothing the emulator can run.
fn interpreted(path: PathBuf, arguments: &mut Vec<CString>) -> Option<CString> {
    let mut path = path;
    for _ in 0..MAX_INTERPRETERS {
        let name = c_path(path.clone())?;
        // SAFETY: the name is a C string.
        let may_execute = unsafe { qemu::access(name.as_ptr(), qemu::MAY_EXECUTE) } == 0;
        if !may_execute || !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut start = Vec::new();
        File::open(&path).ok()?.take(256).read_to_end(&mut start).ok()?;
        let Some(line) = start.strip_prefix(b"#!") else {
            return is_program(&start).then_some(name);
        };
        let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
        let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
        let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
        let mut before = vec![CString::new(interpreter).ok()?];
        if !argument.is_empty() {
            before.push(CString::new(argument).ok()?);
        }
        before.push(name);
        let named = arguments.len().min(1);
        arguments.splice(..named, before);
        path = std::ffi::OsString::from_vec(interpreter.to_vec()).into();
    }
    None
}

/// ELF, 64 bits, little-endian, a program or position-independent, for x86-64.
fn is_program(start: &[u8]) -> bool {
    start.starts_with(b"\x7fELF\x02\x01")
        && matches!(start.get(16..18), Some([2 | 3, 0]))
        && start.get(18..20) == Some(&MACHINE_X86_64)
}

/// A list of strings of the program; a null pointer is an empty list.
fn texts(mut list: u64) -> Option<Vec<CString>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while list != 0 {
        let mut pointer = [0; 8];
        if read_memory(list, &mut pointer) < pointer.len() {
            return None;
        }
        let address = u64::from_ne_bytes(pointer);
        if address == 0 {
            break;
        }
        let text = text(address)?;
        bytes += text.len() + 1 + pointer.len();
        if bytes > MAX_ARGUMENT_BYTES {
            return None;
        }
        found.push(CString::new(text).ok()?);
        list += 8;
    }
    Some(found)
}

/// A string of the program, without its end; none if it lies in memory that is not there.
fn text(address: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut piece = [0; 256];
    loop {
        let length = read_memory(address.checked_add(text.len() as u64)?, &mut piece);
        if length == 0 || text.len() > MAX_ARGUMENT_BYTES {
            return None;
        }
        match CStr::from_bytes_until_nul(&piece[..length]) {
            Ok(end) => {
                text.extend_from_slice(end.to_bytes());
                return Some(text);
            }
            Err(_) => text.extend_from_slice(&piece[..length]),
        }
    }
}

/// Copies memory of the program, whose addresses are those of this process; returns how many
/// bytes there are up to the next page that is not there.
fn read_memory(address: u64, to: &mut [u8]) -> usize {
    let until_page_end = 4096 - (address % 4096) as usize;
    let first = to.len().min(until_page_end);
    let length = [to.len(), first].into_iter().find_map(|length| {
        let into = IoVector { start: to.as_mut_ptr().cast(), length };
        let from = IoVector { start: address as *mut c_void, length };
        let own = std::process::id() as i32;
        // SAFETY: the kernel checks the source; the target is `to`.
        let copied = unsafe { qemu::process_vm_readv(own, &into, 1, &from, 1, 0) };
        usize::try_from(copied).ok().filter(|copied| *copied > 0)
    });
    length.unwrap_or(0)
}
