//! Connection of plugins to the recorder: a folder with the plugin's file, and a socket over which the
//! recorder passes the shared memory and process IDs (`plugin/attach.rs`).

use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use memmap2::MmapOptions;
use tempfile::TempDir;

use super::shared::{MemoryFile, SharedMemory};
use crate::RecordError;

/// Folders in which the recorder's folder may be made; on most systems, all users can reach them.
const FOLDERS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Maximum length of a folder's path in bytes; the path of a socket is limited to 107 bytes.
const MAX_FOLDER_BYTES: usize = 80;
/// Maximum time for which the recorder waits for the first message of a plugin, and a plugin for admission.
const PATIENCE: Duration = Duration::from_secs(10);

/// Folder and socket through which plugins get the shared memory, with the thread that replies to plugins.
pub struct Reception {
    folder: TempDir,
    library: PathBuf,
    /// Plugin as a file in memory, if no folder allows the execution of files.
    _memory: Option<MemoryFile>,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// State shared with the thread that replies to plugins.
struct Desk {
    listener: UnixListener,
    shared: Arc<SharedMemory>,
    is_closed: AtomicBool,
    /// IDs of processes that may receive the shared memory.
    known: Mutex<HashSet<u32>>,
    has_known: Condvar,
}

impl Reception {
    /// Makes the recorder's folder, with `plugin` as content of the file of the emulator's plugin, and starts
    /// the thread that replies to plugins.
    pub fn open(shared: Arc<SharedMemory>, plugin: &[u8]) -> Result<Self, RecordError> {
        let (folder, library) = place(plugin)?;
        let (library, memory) = match library {
            Some(library) => (library, None),
            None => {
                let memory = MemoryFile::with_content(c"perforate-plugin", plugin)?;
                (memory.path(), Some(memory))
            }
        };
        let socket = socket(folder.path());
        let failed = |error| RecordError::file(&socket, format!("making a socket: {error}"));
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        fs::set_permissions(&socket, Permissions::from_mode(0o666)).map_err(failed)?;
        let (is_closed, known, has_known) =
            (AtomicBool::new(false), Mutex::default(), Condvar::new());
        let desk = Arc::new(Desk { listener, shared, is_closed, known, has_known });
        let own = Arc::clone(&desk);
        let thread = thread::Builder::new().name("perforate-reception".into());
        let thread = thread.spawn(move || own.run());
        let thread = thread.map_err(RecordError::system("starting a thread"))?;
        Ok(Self { folder, library, _memory: memory, desk, thread: Some(thread) })
    }

    /// Value of the emulator's option `-plugin`, which names the plugin's file.
    pub fn plugin_option(&self) -> String {
        let (library, socket) = (self.library.display(), socket(self.folder.path()));
        format!("{library},socket={},library={library}", socket.display())
    }

    /// Path of the folder with the plugin and the socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Permits a process to receive the shared memory.
    pub fn admit(&self, process: u32) {
        self.desk.admit(process);
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.desk.is_closed.store(true, Ordering::Relaxed);
        // Wakes the thread. If this fails, the thread is left behind.
        if UnixStream::connect(socket(self.folder.path())).is_ok()
            && let Some(thread) = self.thread.take()
        {
            // A panic of the thread leaves nothing to clean up.
            let _ = thread.join();
        }
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// Makes the folder for plugin and socket. It contains the plugin's file unless programs cannot be executed
/// there. Folders that all users can reach are preferred, for programs that drop their rights.
fn place(plugin: &[u8]) -> Result<(TempDir, Option<PathBuf>), RecordError> {
    let mut second_best = None;
    let own = std::env::temp_dir();
    let mut problem = None;
    for parent in [own.as_path()].into_iter().chain(FOLDERS.map(Path::new)) {
        match place_in(parent, plugin) {
            Ok((folder, Some(library))) if is_reachable(parent) => {
                return Ok((folder, Some(library)));
            }
            Ok(found) => second_best = second_best.or(Some(found)),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    second_best.ok_or_else(|| {
        let problem = problem.map_or("its path is too long".into(), |error| error.to_string());
        RecordError::file(own, format!("cannot hold the recorder's files: {problem}"))
    })
}

fn place_in(parent: &Path, plugin: &[u8]) -> io::Result<(TempDir, Option<PathBuf>)> {
    let parent = parent.canonicalize()?;
    let text = parent.to_str().unwrap_or(",");
    // Commas separate the emulator's options.
    if text.len() > MAX_FOLDER_BYTES || text.contains(',') {
        return Err(io::Error::other("its path is too long or has a comma"));
    }
    let folder = tempfile::Builder::new().prefix("perforate-").tempdir_in(parent)?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
    let library = folder.path().join("plugin.so");
    fs::write(&library, plugin)?;
    fs::set_permissions(&library, Permissions::from_mode(0o644))?;
    let file = File::open(&library)?;
    // SAFETY: the mapping is not read, and the file is ours.
    let is_executable = unsafe { MmapOptions::new().map_exec(&file) }.is_ok();
    Ok((folder, is_executable.then_some(library)))
}

/// True if every user can open files in the folder.
fn is_reachable(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    folder
        .ancestors()
        .all(|folder| folder.metadata().is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
}

impl Desk {
    fn known(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, process: u32) {
        self.known().insert(process);
        self.has_known.notify_all();
    }

    fn run(self: &Arc<Self>) {
        while !self.is_closed.load(Ordering::Relaxed) {
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(Duration::from_millis(1)); // perhaps no descriptors are left
                continue;
            };
            // Reply in a separate thread, because a process may connect and never send anything.
            let own = Arc::clone(self);
            let thread = thread::Builder::new().name("perforate-reply".into());
            let _ = thread.spawn(move || own.reply(stream));
        }
    }

    /// Replies to one plugin with the shared memory's descriptor, if its process is admitted. Errors are
    /// ignored: the plugin may have ended, or the peer may not be a plugin.
    fn reply(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut number = [0; 8];
        stream.read_exact(&mut number)?;
        let process = peer(&stream)?;
        let token = self.shared.header().token.load(Ordering::Relaxed);
        let reply = u64::from(process).to_le_bytes();
        match u64::from_le_bytes(number) {
            0 if self.is_known(process) => send(&stream, &reply, self.shared.file().as_raw_fd()),
            number if number == token => {
                self.admit(process);
                stream.write_all(&reply)
            }
            _ => Ok(()),
        }
    }

    /// True if the process is the first recorded one or its descendant. The first process may ask before the
    /// recorder knows its ID, so this function waits.
    fn is_known(&self, process: u32) -> bool {
        let known = self.known();
        let waited = self.has_known.wait_timeout_while(known, PATIENCE, |known| known.is_empty());
        waited.is_ok_and(|(known, _)| known.contains(&process))
    }
}

/// ID of the process at the other end of the socket, in the recorder's PID namespace.
fn peer(stream: &UnixStream) -> io::Result<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `found` has room for the structure, whose size is passed.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(found.pid).map_err(|_| io::ErrorKind::NotFound.into())
}

/// Sends bytes over the socket, together with a file descriptor.
fn send(stream: &UnixStream, bytes: &[u8], descriptor: RawFd) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 4];
    // SAFETY: all zeros are a valid message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: `control` has room for a header and a descriptor, and is aligned for both; the message
    // describes memory that outlives the call.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(reception: &Reception, number: u64) -> Option<u64> {
        let mut stream = UnixStream::connect(socket(reception.folder())).unwrap();
        stream.write_all(&number.to_le_bytes()).unwrap();
        let mut reply = [0; 8];
        stream.read_exact(&mut reply).ok()?;
        Some(u64::from_le_bytes(reply))
    }

    #[test]
    fn only_processes_of_the_recording_get_a_reply() {
        let shared = Arc::new(SharedMemory::new().unwrap());
        let token = shared.header().token.load(Ordering::Relaxed);
        let reception = Reception::open(shared, b"plugin").unwrap();
        reception.admit(1); // not this process
        assert_eq!(ask(&reception, 0), None);
        assert_eq!(ask(&reception, token ^ 1), None);
        let own = std::process::id();
        assert_eq!(ask(&reception, token), Some(own.into()));
        assert_eq!(ask(&reception, 0), Some(own.into()), "known from now on");
        let folder = reception.folder().to_owned();
        drop(reception);
        assert!(!folder.exists());
    }

    #[test]
    fn a_process_that_the_recorder_starts_is_known() {
        let reception = Reception::open(Arc::new(SharedMemory::new().unwrap()), b"plugin").unwrap();
        let own = std::process::id();
        reception.admit(own);
        assert_eq!(ask(&reception, 0), Some(own.into()));
        let (folder, option) =
            (reception.folder().display().to_string(), reception.plugin_option());
        let library = option.split(',').next().unwrap().to_owned();
        assert_eq!(option, format!("{library},socket={folder}/socket,library={library}"));
        assert_eq!(fs::read(&library).unwrap(), b"plugin");
        // Programs of other users connect and load, but do not list or change.
        let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes = [folder.clone(), format!("{folder}/socket"), library].map(|path| mode(&path));
        assert_eq!(modes, [0o711, 0o666, 0o644]);
    }

    #[test]
    fn the_folder_is_reachable_for_all_users() {
        let reception = Reception::open(Arc::new(SharedMemory::new().unwrap()), b"plugin").unwrap();
        if FOLDERS.iter().any(|folder| is_reachable(Path::new(folder))) {
            assert!(is_reachable(reception.folder()));
        }
        let private = tempfile::tempdir().unwrap();
        fs::set_permissions(private.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(!is_reachable(private.path()));
    }
}
