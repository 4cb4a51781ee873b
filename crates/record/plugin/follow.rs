//! Recording across execve. The emulator would run the new program natively, so the plugin replaces the
//! emulator by another one, with the same plugin and the new program.

use std::ffi::{CStr, CString, OsString, c_char, c_void};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use super::qemu::{self, IoVector};
use super::{attach, ring};
use crate::environment::{self, MASKED, NAMES};
use crate::file_kind::{FileKind, MAX_INTERPRETERS, START_BYTES, identify};
use crate::system_calls::number;

/// Directory descriptor that stands for the current directory.
const AT_FDCWD: i32 = -100;
/// Flag of execveat: an empty path means the descriptor itself.
const AT_EMPTY_PATH: u64 = 0x1000;
/// Lowest descriptor number for a copy of a nameless (deleted or in-memory) program, out of the program's
/// way.
const FIRST_COPY: i32 = 900;
/// Path prefix by which the emulator is given nameless programs; the double slash distinguishes it from paths
/// of other programs.
const COPIES: &str = "/proc/self//fd/";
/// Size limit of all arguments together in bytes, Linux's default.
const MAX_ARGUMENT_BYTES: usize = 2 << 20;
/// Last option of the emulator, which sets the program's argument 0; the path of the program follows.
const NAME_OPTION: &[u8] = b"-0";
const PAGE_BYTES: u64 = 4096;

/// Command line of the emulator that runs in this process.
struct Emulator {
    path: CString,
    /// Name and options of the emulator, without the program.
    options: Vec<CString>,
    program: PathBuf,
}

static EMULATOR: OnceLock<Option<Emulator>> = OnceLock::new();

/// Stores the emulator's command line, with which programs that this program executes are emulated, too.
pub fn install() {
    EMULATOR.get_or_init(own_command_line);
}

fn own_command_line() -> Option<Emulator> {
    let path = fs::read_link("/proc/self/exe").ok()?;
    let line = fs::read("/proc/self/cmdline").ok()?;
    let words: Vec<&[u8]> = line.strip_suffix(&[0])?.split(|byte| *byte == 0).collect();
    let end = words.iter().position(|word| *word == NAME_OPTION)?;
    let options: Result<Vec<_>, _> = words[..end].iter().map(|word| CString::new(*word)).collect();
    let program = OsString::from_vec(words.get(end + 2)?.to_vec()).into();
    Some(Emulator { path: c_path(path)?, options: options.ok()?, program })
}

fn c_path(path: impl Into<PathBuf>) -> Option<CString> {
    CString::new(path.into().into_os_string().into_vec()).ok()
}

/// Performs a call of execve or execveat. Returns only if the new program cannot be recorded or the
/// call is invalid; then the emulator handles the call.
pub fn execute(number: u64, arguments: [u64; 5]) {
    let _ = try_execute(number, arguments);
}

fn try_execute(number: u64, arguments: [u64; 5]) -> Option<()> {
    let emulator = EMULATOR.get()?.as_ref()?;
    let [first, second, third, fourth, flags] = arguments;
    let (Found { path, copy: _copy }, list, environment) = match number {
        number::EXECVE => (Found::path(OsString::from_vec(text(first)?)), second, third),
        _ => (at_folder(first as i32, text(second)?, flags)?, third, fourth),
    };
    let (path, _own_copy) = match resolve_own_image(path, emulator) {
        path if path == emulator.program => match copy_of(&path) {
            Some(descriptor) => copied(descriptor).map(|found| (found.path, found.copy))?,
            None => (path, None),
        },
        path => (path, None),
    };
    let mut program: Vec<CString> = texts(list)?;
    let file = path.clone();
    let path = interpreted(path, &mut program);
    if path.is_none() && is_other_program(&file) || path.is_some() && !attach::is_possible() {
        ring::shared().unrecorded.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let path = path?;
    let name = program.first().cloned().unwrap_or_else(|| path.clone());
    let environment = texts(environment)?.into_iter();
    let masked = environment.map(|variable| CString::new(environment::masked(variable.as_bytes())));
    let environment = masked.collect::<Result<Vec<_>, _>>().ok()?;

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

/// File that execve or execveat names, which a new emulator executes.
struct Found {
    path: PathBuf,
    /// Descriptor through which the next program finds a nameless (deleted or in-memory) file. It is closed
    /// if the program does not start.
    copy: Option<OwnedFd>,
}

impl Found {
    fn path(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), copy: None }
    }
}

/// File that the arguments of execveat name.
fn at_folder(folder: i32, path: Vec<u8>, flags: u64) -> Option<Found> {
    let path = PathBuf::from(OsString::from_vec(path));
    let is_empty = path.as_os_str().is_empty();
    if is_empty && flags & AT_EMPTY_PATH == 0 {
        return None;
    }
    if path.is_absolute() || folder == AT_FDCWD {
        return Some(Found::path(path));
    }
    // The descriptor may be closed when the program is replaced, but the name of its file stays.
    let link = format!("/proc/self/fd/{folder}");
    let name = fs::read_link(&link).ok()?;
    if !is_empty {
        return Some(Found::path(name.join(path)));
    }
    let file = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    if file(&name).is_some() && file(&name) == file(Path::new(&link)) {
        return Some(Found::path(name));
    }
    copied(folder)
}

/// Makes a nameless file (deleted or in memory) available to the next program by a descriptor.
fn copied(descriptor: i32) -> Option<Found> {
    let copy = [FIRST_COPY, 0].into_iter().find_map(|first| {
        // SAFETY: only makes a descriptor, which has no other owner.
        let copy = unsafe { qemu::fcntl(descriptor, qemu::COPY_DESCRIPTOR, first) };
        // SAFETY: as above.
        (copy >= 0).then(|| (copy, unsafe { OwnedFd::from_raw_fd(copy) }))
    });
    let (number, copy) = copy?;
    Some(Found { path: format!("{COPIES}{number}").into(), copy: Some(copy) })
}

/// Descriptor of a nameless program (deleted or in memory), by its path; `None` for other programs.
fn copy_of(program: &Path) -> Option<i32> {
    program.to_str()?.strip_prefix(COPIES)?.parse().ok()
}

/// Marks the descriptor of a nameless program, once loaded, to be closed when the process executes another
/// program.
pub fn program_is_loaded() {
    let emulator = EMULATOR.get().and_then(Option::as_ref);
    if let Some(descriptor) = emulator.and_then(|emulator| copy_of(&emulator.program)) {
        let (command, flag) = (qemu::SET_DESCRIPTOR_FLAGS, qemu::CLOSED_ON_EXEC);
        // SAFETY: changes a flag of a descriptor.
        unsafe { qemu::fcntl(descriptor, command, flag) };
    }
}

/// Writes the unmasked names of environment variables into the memory of a program before it runs. The
/// strings are at the end of its stack.
pub fn restore_environment(stack_end: u64) {
    let is_masked = |(name, _): (OsString, OsString)| name.as_bytes().starts_with(MASKED);
    if !std::env::vars_os().any(is_masked) {
        return;
    }
    let mut page = [0; PAGE_BYTES as usize];
    let mut strings = Vec::new();
    let mut start = stack_end;
    while start >= PAGE_BYTES && strings.len() < 2 * MAX_ARGUMENT_BYTES {
        if read_memory(start - PAGE_BYTES, &mut page) < page.len() {
            break;
        }
        start -= PAGE_BYTES;
        strings.splice(..0, page);
    }
    for place in environment::masked_places(&strings) {
        let name = (start + place as u64) as *mut u8;
        // SAFETY: the place is in the program's stack, which was just read and is writable.
        unsafe { name.copy_from_nonoverlapping(NAMES.as_ptr(), NAMES.len()) };
    }
}

/// True for a file that the kernel could execute and the emulator cannot.
fn is_other_program(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    let is_executable = c_path(path).is_some_and(|path| {
        // SAFETY: the path is a C string.
        unsafe { qemu::access(path.as_ptr(), qemu::MAY_EXECUTE) == 0 }
    });
    read.is_ok() && is_executable && (start == *b"\x7fELF" || start.starts_with(b"#!"))
}

/// Replaces `/proc/self/exe`, which the kernel would resolve to the emulator, by the program's path.
fn resolve_own_image(path: PathBuf, emulator: &Emulator) -> PathBuf {
    let own = format!("/proc/{}/exe", std::process::id());
    let is_own = path == Path::new("/proc/self/exe") || path == Path::new(&own);
    if is_own { emulator.program.clone() } else { path }
}

/// File to load for `path`. For a script, this is its interpreter, and the script is inserted before
/// the arguments, as in Linux. `None` if the emulator cannot run the file.
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
        File::open(&path).ok()?.take(START_BYTES).read_to_end(&mut start).ok()?;
        let FileKind::Script { interpreter, argument } = identify(&start).ok()? else {
            return Some(name);
        };
        let mut before = vec![CString::new(interpreter).ok()?];
        if let Some(argument) = argument {
            before.push(CString::new(argument).ok()?);
        }
        before.push(name);
        let named = arguments.len().min(1);
        arguments.splice(..named, before);
        path = OsString::from_vec(interpreter.to_vec()).into();
    }
    None
}

/// Reads a null-terminated list of strings from the program's memory. A null pointer is an empty list.
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

/// Reads a string from the program's memory, without its terminator. `None` if the memory is not
/// mapped.
pub fn text(address: u64) -> Option<Vec<u8>> {
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

/// Copies memory of the program, which has the same addresses as this process, up to the next unmapped
/// page. Returns the number of bytes.
fn read_memory(address: u64, to: &mut [u8]) -> usize {
    let until_page_end = (PAGE_BYTES - address % PAGE_BYTES) as usize;
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
