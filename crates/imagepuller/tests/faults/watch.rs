//! What this process logs, and how much memory it takes.

use std::fs;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How much of a row's log is kept.
const MAX_LOG: usize = 4 << 20;

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at this process's memory until it is asked how much it grew.
///
/// Anonymous memory only, and looked at again and again: the kernel's own peak counts pages of the
/// program too, which a machine that is short of memory takes away and reads again, and then a row
/// has grown by the size of the program.
pub struct Growth {
    before_kib: u64,
    is_over: Arc<AtomicBool>,
    looking: JoinHandle<u64>,
}

/// How long a growth may last unseen.
const PAUSE: Duration = Duration::from_millis(1);

impl Growth {
    pub fn watch() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        let looking = thread::spawn(move || {
            let mut peak_kib = 0;
            while !stop.load(Ordering::Relaxed) {
                peak_kib = peak_kib.max(anonymous_kib());
                thread::sleep(PAUSE);
            }
            peak_kib.max(anonymous_kib())
        });
        Self { before_kib: anonymous_kib(), is_over, looking }
    }

    pub fn kib(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.looking.join().unwrap().saturating_sub(self.before_kib)
    }
}

fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Everything logged since it was cleared, at the most talkative level.
pub fn log() -> &'static Mutex<Vec<u8>> {
    static LOG: OnceLock<Mutex<Vec<u8>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(|| LogWriter)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        Mutex::default()
    })
}

struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = lock(log());
        // A flood of frames is a flood of lines, and that is not what the puller is measured by.
        if log.len() < MAX_LOG {
            log.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
