use std::os::unix::fs::symlink;

use super::*;

const NAME: &str = "measured-cfg";

fn with<T>(files: &[(&str, &str)], work: impl FnOnce(Files<'_>) -> T) -> T {
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    work(&files)
}

fn prepare(run: &Path, files: &[(&str, &str)]) -> Result<Swap, Error> {
    with(files, |files| Swap::prepare(run, NAME, files))
}

fn list(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_and_modes() {
    let run = tempfile::tempdir().unwrap();
    let target = run.path().join(NAME);
    let swap = prepare(run.path(), &[("first", "1")]).unwrap();
    assert_eq!(list(&target), ["first"]);
    let files = [("policy.rego", "text"), ("aa.toml", "")];
    with(&files, |files| swap.place(files)).unwrap();
    assert_eq!(list(&target), ["aa.toml", "policy.rego"]);
    assert_eq!(fs::read_to_string(target.join("policy.rego")).unwrap(), "text");
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o7777, 0o755);
    let policy = fs::metadata(target.join("policy.rego")).unwrap();
    assert_eq!(policy.permissions().mode() & 0o7777, 0o644);
    with(&[("third", "")], |files| swap.place(files)).unwrap();
    assert_eq!(list(&target), ["third"]);
    drop(swap);
    assert_eq!(list(run.path()), [".measured-cfg", NAME]);
    let home = run.path().join(".measured-cfg");
    assert_eq!(list(&home), ["current"], "nothing spare is left");
    assert_eq!(list(&target), ["third"]);
}

#[test]
fn what_was_there_is_replaced_whole() {
    let run = tempfile::tempdir().unwrap();
    let target = run.path().join(NAME);
    fs::create_dir_all(target.join("sub/directory")).unwrap();
    drop(prepare(run.path(), &[("old", "1"), ("both", "1")]).unwrap());
    assert_eq!(list(&target), ["both", "old"]);
    drop(prepare(run.path(), &[("new", "2"), ("both", "2")]).unwrap());
    assert_eq!(list(&target), ["both", "new"]);
    assert_eq!(fs::read_to_string(target.join("both")).unwrap(), "2");
    drop(prepare(run.path(), &[]).unwrap());
    assert_eq!(list(&target), [""; 0]);
    assert_eq!(list(run.path()), [".measured-cfg", NAME]);
}

#[test]
fn a_link_in_the_way_is_replaced_and_not_followed() {
    let run = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("kept"), "").unwrap();
    symlink(elsewhere.path(), run.path().join(NAME)).unwrap();
    drop(prepare(run.path(), &[("new", "")]).unwrap());
    assert_eq!(list(elsewhere.path()), ["kept"]);
    assert_eq!(list(&run.path().join(NAME)), ["new"]);
    // The same where our own directory should be.
    fs::remove_dir_all(run.path().join(".measured-cfg")).unwrap();
    symlink(elsewhere.path(), run.path().join(".measured-cfg")).unwrap();
    drop(prepare(run.path(), &[("newer", "")]).unwrap());
    assert_eq!(list(elsewhere.path()), ["kept"]);
    assert_eq!(list(&run.path().join(NAME)), ["newer"]);
    assert_eq!(list(run.path()), [".measured-cfg", NAME]);
}

#[test]
fn a_reader_sees_all_or_nothing() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let run = tempfile::tempdir().unwrap();
    let target = run.path().join(NAME);
    drop(prepare(run.path(), &[("a", "0"), ("b", "0")]).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !stop.load(Ordering::Relaxed) {
                // One directory, held open: both files of it are of one generation or gone.
                let directory = File::open(&target).expect("the name always exists");
                let read = |name: &str| {
                    openat(&directory, name, OFlags::RDONLY, Mode::empty())
                        .map(File::from)
                        .and_then(|file| io::read_to_string(file).map_err(|_| Errno::IO))
                };
                if let (Ok(a), Ok(b)) = (read("a"), read("b")) {
                    assert_eq!(a, b);
                    assert!(!a.is_empty());
                    seen += 1;
                }
            }
            seen
        });
        // As a run does: what stands there first, then the outcome.
        for generation in (2..400).step_by(2) {
            let (first, second) = (generation.to_string(), (generation + 1).to_string());
            let swap = prepare(run.path(), &[("a", &first), ("b", &first)]).unwrap();
            let files = [("a", second.as_str()), ("b", &second)];
            with(&files, |files| swap.place(files)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn a_failure_leaves_the_old_state() {
    let run = tempfile::tempdir().unwrap();
    let target = run.path().join(NAME);
    let swap = prepare(run.path(), &[("old", "1")]).unwrap();
    // The same name twice cannot come from a map; here it stands for any write that fails half-way.
    let twice = [("new", "2"), ("new", "3")];
    let error = with(&twice, |files| swap.place(files)).unwrap_err();
    assert!(error.chain().starts_with("write "));
    assert_eq!(list(&target), ["old"]);
    // And the way to go on is open.
    with(&[("new", "2")], |files| swap.place(files)).unwrap();
    assert_eq!(list(&target), ["new"]);
    drop(swap);
    let error = prepare(run.path(), &twice).unwrap_err();
    assert!(error.chain().starts_with("write "));
    assert_eq!(list(&target), ["new"]);
}
