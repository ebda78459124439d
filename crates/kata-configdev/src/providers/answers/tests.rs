use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use credential_sources::kubelet::protocol::Version;
use tempfile::TempDir;

use super::*;

const SECRET: &str = "hunter2-kept";

const HOUR: Duration = Duration::from_secs(3600);

const HUNG: &str = "it took longer";

/// A directory in memory; on machines without one nothing is ever kept and nothing here can be
/// tried.
fn in_memory() -> Option<TempDir> {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").ok();
    let usable = dir.filter(|dir| Answers::open(dir.path(), true).is_some());
    if usable.is_none() {
        test_command::skip("/dev/shm is no tmpfs");
    }
    usable
}

fn response(kind: &str, duration: &str) -> Response {
    let text = format!(
        "{{\"kind\":\"CredentialProviderResponse\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
         \"cacheKeyType\":\"{kind}\",{duration}\
         \"auth\":{{\"*.corp\":{{\"username\":\"u\",\"password\":\"{SECRET}\"}}}}}}"
    );
    Response::parse(text.as_bytes(), Version::V1).unwrap()
}

fn host(text: &str) -> RegistryHost {
    RegistryHost::parse(text).unwrap()
}

fn at(dir: &TempDir, seconds: u64) -> Answers {
    Answers::open_at(dir.path(), Duration::from_secs(seconds), true).unwrap()
}

/// Changes what is kept, as at this second; says whether it could be written.
fn change(dir: &TempDir, seconds: u64, change: impl FnOnce(&mut Answers)) -> bool {
    let mut answers = at(dir, seconds).locked().unwrap();
    change(&mut answers);
    answers.write()
}

/// Keeps an answer of the plugin "a" for an hour.
fn keep(dir: &TempDir, seconds: u64, name: &str, kind: &str) -> bool {
    change(dir, seconds, |answers| {
        answers.keep("a", &host(name), &response(kind, ""), Some(HOUR));
    })
}

fn fail(dir: &TempDir, seconds: u64, hung: bool) {
    let failure = Failure { why: HUNG.into(), hung };
    assert!(change(dir, seconds, |answers| answers.fail("a", &host("reg.corp"), &failure)));
}

fn finds(dir: &TempDir, seconds: u64, name: &str) -> bool {
    let found = at(dir, seconds).answer("a", &host(name));
    found.is_some_and(|(response, _)| *response.auth["*.corp"].password == SECRET)
}

fn file(dir: &TempDir) -> PathBuf {
    dir.path().join("kata-configdev").join(NAME).join(FILE)
}

#[test]
fn an_answer_holds_as_long_as_it_says() {
    let Some(dir) = in_memory() else { return };
    let never = "\"cacheDuration\":\"0s\",";
    for (kind, duration, default, lasts) in [
        ("Registry", "\"cacheDuration\":\"10s\",", 3600, Ok(10)),
        ("Registry", "", 20, Ok(20)),
        ("Registry", never, 3600, Err(NotKept::NoTime)),
        ("Registry", "\"cacheDuration\":\"-1s\",", 3600, Err(NotKept::NoTime)),
        ("Registry", "", 0, Err(NotKept::NoTime)),
        // Nothing is kept for longer than half a day.
        ("Global", "\"cacheDuration\":\"100h\",", 3600, Ok(12 * 3600)),
        ("Image", "", 3600, Err(NotKept::ForAnImage)),
        ("Image", never, 3600, Err(NotKept::ForAnImage)),
    ] {
        let response = response(kind, duration);
        let kept = kept_for(&response, Duration::from_secs(default));
        assert_eq!(kept, lasts.map(Duration::from_secs), "{kind} {duration} {default}");
        assert!(change(&dir, 1000, |answers| {
            answers.keep("a", &host("reg.corp"), &response, kept.ok());
        }));
        let lasts = lasts.unwrap_or(0);
        // By a clock that is earlier, as after another boot, at once, just before and then.
        for (moment, holds) in
            [(999, false), (1000, lasts > 0), (999 + lasts, lasts > 0), (1000 + lasts, false)]
        {
            assert_eq!(finds(&dir, moment, "reg.corp"), holds, "{kind} {duration} {moment}");
        }
        // The next one who writes leaves it out.
        assert!(change(&dir, 1000 + lasts, |_| ()));
        assert!(!file(&dir).exists(), "{kind} {duration}");
    }
}

#[test]
fn answers_are_found_by_what_they_are_about() {
    let Some(dir) = in_memory() else { return };
    keep(&dir, 0, "reg.corp", "Image");
    assert!(!file(&dir).exists(), "single images are not kept");
    keep(&dir, 0, "reg.corp:5000", "Registry");
    assert!(finds(&dir, 0, "reg.corp:5000") && !finds(&dir, 0, "reg.corp"));
    assert!(at(&dir, 0).answer("b", &host("reg.corp:5000")).is_none(), "another plugin");
    // One for everything is none about a registry that it does not name: that one silently lost its
    // password.
    keep(&dir, 0, "one.corp", "Global");
    assert!(finds(&dir, 0, "two.corp") && finds(&dir, 0, "one.corp"), "its key is *.corp");
    assert!(!finds(&dir, 0, "reg.example") && !finds(&dir, 0, "reg.corp:5001"));
    for (path, mode) in [(file(&dir), 0o600), (file(&dir).parent().unwrap().into(), 0o700)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, mode);
    }
}

#[test]
fn a_file_that_is_not_ours_is_as_good_as_none() {
    let Some(dir) = in_memory() else { return };
    keep(&dir, 1000, "reg.corp", "Registry");
    let path = file(&dir);
    let good = fs::read_to_string(&path).unwrap();
    let until = format!("\"until\":{{\"secs\":{}", 1000 + 3600);
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        good.replace(from, to).into_bytes()
    };
    let huge = " ".repeat(MAX_FILE_BYTES);
    for bytes in [
        Vec::new(),
        good.as_bytes()[..good.len() - 1].to_vec(),
        changed("}}}", "}}}x"),
        changed("\"written\"", "\"wrote\""),
        changed("\"written\":{\"secs\":1000", "\"written\":{\"secs\":2000"),
        changed("\"written\":{\"secs\":1000", "\"written\":{\"secs\":18446744073709551615"),
        changed(&until, "\"until\":{\"secs\":18446744073709551615"),
        changed(&until, "\"until\":{\"secs\":0"),
        changed("Registry", "Others"),
        (good.clone() + &huge).into_bytes(),
    ] {
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        fs::write(&path, bytes).unwrap();
        assert!(!finds(&dir, 1000, "reg.corp"), "{text}");
        assert!(at(&dir, 1000).failure("a", &host("reg.corp")).is_none());
        // Whatever it is, one is kept beside it or in its place.
        assert!(keep(&dir, 1000, "other.corp", "Registry"), "{text}");
        assert!(finds(&dir, 1000, "other.corp"), "{text}");
        fs::remove_file(&path).unwrap();
    }
    fs::write(&path, &good).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    assert!(!finds(&dir, 1000, "reg.corp"), "writable for everybody");
    // No link is followed.
    let elsewhere = dir.path().join("elsewhere");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(!finds(&dir, 1000, "reg.corp"), "a link");
    keep(&dir, 1000, "other.corp", "Registry");
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), good);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!keep(&dir, 1000, "reg.corp", "Registry") && path.is_dir(), "a directory");
}

#[test]
fn a_directory_that_is_not_ours_keeps_nothing() {
    let Some(dir) = in_memory() else { return };
    let place = dir.path().join("kata-configdev");
    let is_open = |path: &std::path::Path| Answers::open(path, true).is_some();
    fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(!is_open(dir.path()), "writable for everybody");
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir(dir.path().join("other")).unwrap();
    symlink(dir.path().join("other"), &place).unwrap();
    assert!(!is_open(dir.path()), "a link");
    assert!(!is_open(&dir.path().join("absent")));
    // A disk: the repository's own directory is never in memory.
    let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    assert!(!is_open(disk.path()), "on a disk");
}

/// Two sandboxes start at the same moment, and one of them wrote over what the other one kept.
#[test]
fn who_writes_has_the_lock_and_takes_nothing_away() {
    let Some(dir) = in_memory() else { return };
    let early = at(&dir, 1000);
    keep(&dir, 1001, "one.corp", "Registry");
    let mut late = early.locked().unwrap();
    assert!(at(&dir, 1000).locked().is_none(), "somebody else has it");
    late.keep("a", &host("two.corp"), &response("Registry", ""), Some(HOUR));
    assert!(late.write());
    drop(late);
    assert!(finds(&dir, 1001, "one.corp") && finds(&dir, 1001, "two.corp"));
}

#[test]
fn a_full_file_takes_nothing_more() {
    let Some(dir) = in_memory() else { return };
    let response = response("Registry", "");
    let many = |answers: &mut Answers, count| {
        for number in 0..count {
            answers.keep("a", &host(&format!("r{number}.corp")), &response, Some(HOUR));
        }
    };
    assert!(change(&dir, 0, |answers| many(answers, MAX_ROWS)));
    assert!(!keep(&dir, 0, "reg.corp", "Registry"));
    assert!(finds(&dir, 0, "r0.corp") && !finds(&dir, 0, "reg.corp"));
    let mut long = response.clone();
    long.auth.insert("x".repeat(MAX_FILE_BYTES), long.auth["*.corp"].clone());
    let keep_long = |answers: &mut Answers| answers.keep("b", &host("a.b"), &long, Some(HOUR));
    assert!(change(&dir, 9000, |_| ()) && !change(&dir, 9000, keep_long));
}

/// A node starts no further sandbox, or none whose plugins may be kept. Expired passwords stood in
/// its memory until the next boot. After a removal nobody asks for the answers at all.
#[test]
fn sweep_forgets_what_has_expired_and_a_removal_everything() {
    let Some(dir) = in_memory() else { return };
    let now = since_boot();
    let mut answers = Answers::open(dir.path(), true).and_then(Answers::locked).unwrap();
    let response = response("Registry", "");
    answers.keep("a", &host("new.corp"), &response, Some(HOUR));
    answers.now = Duration::ZERO;
    answers.keep("a", &host("old.corp"), &response, Some(Duration::from_nanos(1)));
    assert!(answers.write());
    drop(answers);
    crate::sweep::sweep(dir.path(), Duration::ZERO).unwrap();
    let text = fs::read_to_string(file(&dir)).unwrap();
    assert!(text.contains("new.corp") && !text.contains("old.corp"));
    assert!(finds(&dir, now.as_secs() + 60, "new.corp"));
    fs::write(file(&dir).with_file_name(format!(".{FILE}")), SECRET).unwrap();
    crate::providers::forget_all(dir.path());
    assert_eq!(fs::read_dir(file(&dir).parent().unwrap()).unwrap().count(), 0);
    // Where nothing was ever kept, nothing is made.
    let empty = tempfile::tempdir_in("/dev/shm").unwrap();
    crate::sweep::sweep(empty.path(), Duration::ZERO).unwrap();
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}

/// A metadata service was down, and every sandbox of the node waited for the whole deadline.
#[test]
fn a_failure_is_remembered_for_a_short_time() {
    let Some(dir) = in_memory() else { return };
    let reg = host("reg.corp");
    let left = |seconds| {
        let answers = at(&dir, seconds);
        let (why, left) = answers.failure("a", &reg)?;
        assert_eq!(why, HUNG);
        Some(left.as_secs())
    };
    assert_eq!(left(1000), None);
    // Twice as long each time that it hangs again, up to a limit; long after that it begins anew;
    // and who fails at once costs nobody time.
    for (moment, hung, lasts) in [
        (1000, true, 30),
        (1030, true, 60),
        (1100, true, 120),
        (1220, true, 240),
        (1500, true, 240),
        (5000, true, 30),
        (5030, false, 5),
    ] {
        fail(&dir, moment, hung);
        assert_eq!(left(moment), Some(lasts), "{moment}");
        assert_eq!(left(moment + lasts - 1), Some(1));
        assert_eq!(left(moment + lasts), None);
        // By a clock that is earlier than the file, as after another boot.
        assert_eq!(left(moment - 1), None);
    }
    // Another registry and another plugin are not meant.
    assert!(at(&dir, 5030).failure("a", &host("other.corp")).is_none());
    assert!(at(&dir, 5030).failure("b", &reg).is_none());
    // An answer ends it, also one that is not kept; not that of another plugin.
    change(&dir, 5030, |answers| answers.keep("b", &reg, &response("Image", ""), None));
    assert_eq!(left(5030), Some(5));
    change(&dir, 5031, |answers| answers.keep("a", &reg, &response("Image", ""), None));
    assert_eq!(left(5031), None);
    // An answer that still holds counts beside a later failure.
    keep(&dir, 6000, "reg.corp", "Registry");
    fail(&dir, 6000, true);
    assert!(finds(&dir, 6000, "reg.corp") && left(6000) == Some(30));
    change(&dir, 9600, |_| ());
    assert!(!file(&dir).exists(), "nobody needs it any more");
}
