use super::*;
use std::cell::Cell;

use futures_util::FutureExt as _;

const HASTY: Duration = Duration::from_secs(1);

fn reset() -> Failure {
    Failure::passing(Error::unreachable("a", "", "reset"))
}

fn busy(after_secs: u64) -> Failure {
    Failure { again: Again::After(Duration::from_secs(after_secs)), ..reset() }
}

/// Runs under tokio's own clock, which jumps to the next timer instead of waiting.
fn run(failures: Vec<Failure>, budget: Duration) -> (Result<&'static str, String>, u32, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let asked = Cell::new(0);
    let mut failures = failures.into_iter();
    runtime.block_on(async {
        let started = Instant::now();
        let patience = Patience { attempts: Some(4), ..Patience::default() };
        let attempts = Attempts::new(&patience, budget);
        let answer = attempts.run("answer", "a", || {
            asked.set(asked.get() + 1);
            let next = failures.next();
            async { next.map_or(Ok("content"), Err) }
        });
        let answer = answer.await.map_err(|error| error.to_string());
        (answer, asked.get(), started.elapsed())
    })
}

#[test]
fn what_can_get_better_is_asked_for_again() {
    let minute = Duration::from_secs(60);
    let (answer, asked, _) = run(vec![reset(), reset(), reset()], minute);
    assert_eq!((answer, asked), (Ok("content"), 4));
    let (answer, asked, _) = run(vec![reset(), reset(), reset(), reset()], minute);
    assert_eq!(answer.unwrap_err(), "4 attempts: cannot reach a: reset");
    assert_eq!(asked, 4);
    let forbidden = || Failure::from(Error::unreachable("a", "", "forbidden"));
    let (answer, asked, waited) = run(vec![forbidden()], minute);
    assert_eq!(answer.unwrap_err(), "cannot reach a: forbidden");
    assert_eq!((asked, waited), (1, Duration::ZERO));
    let (answer, _, _) = run(vec![reset(), reset(), forbidden()], minute);
    assert_eq!(
        answer.unwrap_err(),
        "3 attempts: cannot reach a: reset (twice); cannot reach a: forbidden"
    );
}

#[test]
fn the_servers_word_is_kept_to() {
    let minute = Duration::from_secs(60);
    let (answer, asked, waited) = run(vec![busy(7)], minute);
    assert_eq!((answer, asked), (Ok("content"), 2));
    assert!(waited >= Duration::from_secs(7) && waited < Duration::from_secs(8), "{waited:?}");
    let (answer, asked, waited) = run(vec![busy(3600)], minute);
    assert_eq!(answer.unwrap_err(), "cannot reach a: reset; it asks to be tried again in 3600 s");
    assert_eq!((asked, waited), (1, Duration::ZERO));
}

#[test]
fn the_budget_ends_attempts() {
    let (answer, _, waited) = run(vec![busy(0), busy(0), busy(2)], HASTY);
    assert!(answer.unwrap_err().contains("tried again in 2 s"));
    assert!(waited <= HASTY);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let hanging = Attempts::new(&Patience::default(), HASTY).run(
        "manifest",
        "a",
        std::future::pending::<Result<(), Failure>>,
    );
    let error = runtime.block_on(hanging).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot reach a: no manifest within the 1 s that this source is given"
    );
}

#[test]
fn progress_starts_anew_but_not_for_ever() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let patience = Patience { attempts: Some(2), resumptions: 10, ..Patience::default() };
    let failures = runtime.block_on(async {
        let mut attempts = Attempts::new(&patience, HASTY);
        let mut failures = 0;
        while attempts.failed(reset()).await.is_ok() {
            attempts.progress();
            failures += 1;
        }
        failures
    });
    assert_eq!(failures, 10);
}

/// Who waited for a layer of another pull was told that pull's failure until the end, and for ever
/// where the waiting itself was given up.
#[test]
fn only_what_is_waited_for_is_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (own, other) = (LastFailure::default(), LastFailure::default());
    runtime.block_on(async {
        let note = async || LastFailure::note(Some(&reset().error));
        other.of(note()).await;
        let waiting = async {
            let first = LastFailure::follow(&other);
            let given_up = async {
                let _second = LastFailure::follow(&other);
                std::future::pending::<()>().await;
            };
            assert!(given_up.now_or_never().is_none());
            assert_eq!(own.text().as_deref(), Some("cannot reach a: reset"));
            drop(first);
            assert_eq!(own.text(), None);
        };
        own.of(waiting).await;
    });
}

/// Keeps the lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl std::io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line).into_owned();
        self.0.lock().unwrap().push(text);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A line for each attempt would fill the console of a guest that waits for its network, and
/// none at all would look like a pull that hangs.
#[test]
fn what_is_waited_for_is_said_at_first_and_each_minute() {
    let name = "retry::tests::what_is_waited_for_is_said_at_first_and_each_minute";
    test_command::alone(name, || {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(async {
                let begun = Instant::now();
                let patience = Patience::default();
                let mut attempts = Attempts::new(&patience, Duration::from_secs(600));
                while begun.elapsed() < Duration::from_secs(301) {
                    attempts.failed(reset()).await.unwrap();
                }
            });
        });
        let lines = lines.0.lock().unwrap();
        // A pause of at most ten seconds may lie between a minute's end and the next failure.
        assert!((5..=6).contains(&lines.len()), "{lines:?}");
        for (at, line) in lines.iter().enumerate() {
            assert!(line.contains("cannot reach a: reset"), "{line}");
            let (_, waited) = line.split_once("waited_s=").unwrap();
            let waited: usize = waited.split(' ').next().unwrap().parse().unwrap();
            assert!((60 * at..60 * at + 60).contains(&waited), "{lines:?}");
        }
    });
}
