//! Detection of failing inputs: a panic, a hang, or the death of the process.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which an input counts as hanging. It is far longer than the seconds that inputs take
/// on a busy machine.
const HANG: Duration = Duration::from_secs(20);

/// Name of the file with the current input. It remains if the process is killed or overflows its
/// stack.
const LAST_INPUT: &str = "last-input";

thread_local! {
    /// Message of the last panic. `None` unless an input is running.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The current input, its name and its start time.
struct Running {
    since: Instant,
    target: &'static str,
    name: String,
    input: Vec<u8>,
}

/// Stores the current input in a file, so that it survives the death of the process.
pub struct Watch {
    folder: PathBuf,
    seed: u64,
    running: Arc<Mutex<Option<Running>>>,
    last: File,
}

impl Watch {
    /// Creates a watch that stores inputs in a folder. Its thread ends the process if an input
    /// hangs.
    pub fn new(folder: &Path, seed: u64) -> Self {
        let folder = folder.join("hostile");
        fs::create_dir_all(&folder).expect("the folder for inputs can be made");
        let running: Arc<Mutex<Option<Running>>> = Arc::default();
        let watched = Arc::clone(&running);
        let kept = folder.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(HANG / 10);
                let running = watched.lock().expect("nothing panics with it");
                if let Some(hung) = running.as_ref().filter(|one| one.since.elapsed() > HANG) {
                    let path = keep(&kept, hung.target, seed, &hung.name, &hung.input);
                    let (target, name, path) = (hung.target, &hung.name, path.display());
                    eprintln!("{target} of seed {seed}: {name} hangs; it is kept as {path}");
                    std::process::exit(1);
                }
            }
        });
        catch_messages();
        let last = File::create(folder.join(format!("{LAST_INPUT}-{seed}")))
            .expect("a file for inputs can be made");
        Self { folder, seed, running, last }
    }

    /// Records the start of an input.
    pub fn start(&self, target: &'static str, name: &str, input: &[u8]) {
        self.last.write_all_at(input, 0).expect("inputs can be written");
        self.last.set_len(input.len() as u64).expect("inputs can be written");
        let (since, name, input) = (Instant::now(), name.to_owned(), input.to_owned());
        *self.lock() = Some(Running { since, target, name, input });
    }

    /// Records the end of the current input.
    pub fn stop(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().expect("nothing panics with it")
    }

    /// Stores an input in a file, and returns the path.
    pub fn keep(&self, target: &str, name: &str, input: &[u8]) -> PathBuf {
        keep(&self.folder, target, self.seed, name, input)
    }
}

fn keep(folder: &Path, target: &str, seed: u64, name: &str, input: &[u8]) -> PathBuf {
    let path = folder.join(format!("{target}-{seed}-{}", name.replace([' ', '/'], "-")));
    fs::write(&path, input).expect("inputs can be written");
    path
}

/// Installs a panic hook that captures the messages of panics while an input runs.
fn catch_messages() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_kept = MESSAGE.with_borrow_mut(|message| {
            let is_wanted = message.is_some();
            if is_wanted {
                let text = panic.payload_as_str().unwrap_or("a panic without a message");
                let text: String = text.lines().take(3).collect::<Vec<_>>().join(" | ");
                let place = panic.location().map(ToString::to_string).unwrap_or_default();
                *message = Some(format!("{place}: {}", text.chars().take(300).collect::<String>()));
            }
            is_wanted
        });
        if !is_kept {
            usual(panic);
        }
    }));
}

/// Runs a function. The error is the place and message of its panic.
pub fn outcome_of(run: impl FnOnce()) -> Result<(), String> {
    MESSAGE.set(Some(String::new()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(run));
    let message = MESSAGE.take().unwrap_or_default();
    outcome.map_err(|_| message)
}

/// Peak resident memory of this process in bytes; `None` if the system does not report it.
pub fn peak_resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
