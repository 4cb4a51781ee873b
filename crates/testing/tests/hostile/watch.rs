//! What sees an input go wrong: a panic, a hang, or the end of the whole process.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// An input that takes so long hangs; machines that are busy take seconds, not this.
const HANG: Duration = Duration::from_secs(20);

/// The file that holds the input that ran when the process was ended from outside, or by a stack
/// that was too small.
const LAST_INPUT: &str = "last-input";

thread_local! {
    /// The message of the last panic, while an input runs.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The input that runs.
struct Running {
    since: Instant,
    target: &'static str,
    name: String,
    input: Vec<u8>,
}

/// Keeps the input that runs where it can be found whatever becomes of the process.
pub struct Watch {
    folder: PathBuf,
    seed: u64,
    running: Arc<Mutex<Option<Running>>>,
    last: File,
}

impl Watch {
    /// Keeps inputs in a folder. A thread ends the process when one hangs.
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

    /// An input begins.
    pub fn start(&self, target: &'static str, name: &str, input: &[u8]) {
        self.last.write_all_at(input, 0).expect("inputs can be written");
        self.last.set_len(input.len() as u64).expect("inputs can be written");
        let (since, name, input) = (Instant::now(), name.to_owned(), input.to_owned());
        *self.lock() = Some(Running { since, target, name, input });
    }

    /// It has ended.
    pub fn stop(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().expect("nothing panics with it")
    }

    /// Keeps an input in a file.
    pub fn keep(&self, target: &str, name: &str, input: &[u8]) -> PathBuf {
        keep(&self.folder, target, self.seed, name, input)
    }
}

fn keep(folder: &Path, target: &str, seed: u64, name: &str, input: &[u8]) -> PathBuf {
    let path = folder.join(format!("{target}-{seed}-{}", name.replace([' ', '/'], "-")));
    fs::write(&path, input).expect("inputs can be written");
    path
}

/// Messages of panics go into outcomes while an input runs.
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

/// Whether something ran to its end; if not, the place and message of its panic.
pub fn outcome_of(run: impl FnOnce()) -> Result<(), String> {
    MESSAGE.set(Some(String::new()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(run));
    let message = MESSAGE.take().unwrap_or_default();
    outcome.map_err(|_| message)
}

/// The most resident memory of this process so far, where the system tells.
pub fn peak_resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
