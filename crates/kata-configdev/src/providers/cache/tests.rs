use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use credential_sources::kubelet::config::Providers;
use tempfile::TempDir;

use super::*;

const SECRET: &str = "hunter2-kept";

/// [`keep`] for those who do not ask why not.
trait Keeping {
    fn keep(
        &mut self,
        fingerprint: &Fingerprint,
        host: &RegistryHost,
        answer: &Answer,
        default: Duration,
    ) -> Option<Duration>;
}

impl Keeping for Cache {
    fn keep(
        &mut self,
        fingerprint: &Fingerprint,
        host: &RegistryHost,
        answer: &Answer,
        default: Duration,
    ) -> Option<Duration> {
        keep(Some(self), fingerprint, host, answer, default).ok()
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// A directory in memory; on machines without one the cache is never used and nothing here can be
/// tried.
fn in_memory() -> Option<TempDir> {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").ok();
    let usable = dir.filter(|dir| Cache::open(dir.path()).is_some());
    if usable.is_none() {
        test_command::skip("/dev/shm is no tmpfs");
    }
    usable
}

fn fingerprint(argument: &str) -> Fingerprint {
    let mut providers = Providers::default();
    let text = format!(
        r#"{{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1",
        "providers":[{{"name":"x","matchImages":["*.corp"],"defaultCacheDuration":"1m",
        "apiVersion":"credentialprovider.kubelet.k8s.io/v1",
        "args":["{argument}"]}}]}}"#
    );
    providers.add(text.as_bytes()).unwrap();
    let metadata = std::fs::metadata("/").unwrap();
    Fingerprint::of(&providers.list()[0], &metadata)
}

fn answer(kind: &str, duration: &str) -> Answer {
    let text = format!(
        "{{\"kind\":\"CredentialProviderResponse\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
         \"cacheKeyType\":\"{kind}\",{duration}\
         \"auth\":{{\"*.corp\":{{\"username\":\"u\",\"password\":\"{SECRET}\"}}}}}}"
    );
    let text = Zeroizing::new(text.into_bytes());
    let response = Response::parse(&text, Version::V1).unwrap();
    Answer { text, response }
}

fn host(text: &str) -> RegistryHost {
    RegistryHost::parse(text).unwrap()
}

fn at(dir: &TempDir, seconds: u64) -> Cache {
    Cache::open_at(dir.path(), Duration::from_secs(seconds), true).unwrap()
}

fn finds(cache: &Cache, name: &str) -> bool {
    let found = cache.find(&fingerprint("a"), &host(name), Version::V1);
    found.is_some_and(|found| found.response.auth["*.corp"].password.expose() == SECRET)
}

fn files(dir: &TempDir) -> Vec<PathBuf> {
    let place = dir.path().join("kata-configdev/credential-providers");
    let entries = std::fs::read_dir(place).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn an_answer_holds_as_long_as_it_says() {
    let Some(dir) = in_memory() else { return };
    for (duration, default, lasts) in [
        ("\"cacheDuration\":\"10s\",", HOUR, 10),
        ("", Duration::from_secs(20), 20),
        ("\"cacheDuration\":\"0s\",", HOUR, 0),
        ("\"cacheDuration\":\"-1s\",", HOUR, 0),
        ("", Duration::ZERO, 0),
        // Nothing is kept for longer than half a day.
        ("\"cacheDuration\":\"100h\",", HOUR, 12 * 3600),
    ] {
        let mut cache = at(&dir, 1000);
        cache.keep(&fingerprint("a"), &host("reg.corp"), &answer("Registry", duration), default);
        assert_eq!(files(&dir).len(), usize::from(lasts > 0), "{duration}");
        assert_eq!(finds(&at(&dir, 1000), "reg.corp"), lasts > 0, "{duration}");
        if lasts > 0 {
            assert!(finds(&at(&dir, 1000 + lasts - 1), "reg.corp"), "{duration}");
        }
        let kept: Vec<_> = files(&dir)
            .into_iter()
            .map(|file| {
                let mode = std::fs::metadata(&file).unwrap().permissions().mode();
                assert_eq!(mode & 0o7777, 0o600);
                let content = std::fs::read(&file).unwrap();
                (file, content)
            })
            .collect();
        // Then, and by a clock that is earlier than the file, as after another boot.
        for moment in [1000 + lasts, 999] {
            for (file, content) in &kept {
                std::fs::write(file, content).unwrap();
            }
            assert!(!finds(&at(&dir, moment), "reg.corp"), "{duration}");
            assert!(files(&dir).is_empty(), "{duration}");
        }
    }
    let directory = dir.path().join("kata-configdev/credential-providers");
    let mode = std::fs::metadata(directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn answers_are_found_by_what_they_are_about() {
    let Some(dir) = in_memory() else { return };
    let mut cache = at(&dir, 0);
    cache.keep(&fingerprint("a"), &host("reg.corp"), &answer("Image", ""), HOUR);
    assert!(files(&dir).is_empty(), "single images are not kept");
    cache.keep(&fingerprint("a"), &host("reg.corp:5000"), &answer("Registry", ""), HOUR);
    assert!(finds(&cache, "reg.corp:5000"));
    assert!(!finds(&cache, "reg.corp"));
    let other = cache.find(&fingerprint("b"), &host("reg.corp:5000"), Version::V1);
    assert!(other.is_none(), "another plugin");
    let other = cache.find(&fingerprint("a"), &host("reg.corp:5000"), Version::V1Beta1);
    assert!(other.is_none(), "another version");
    let other = fingerprint("a").about(Some("team"));
    let found = cache.find(&other, &host("reg.corp:5000"), Version::V1);
    assert!(found.is_none(), "other repositories");
    cache.keep(&fingerprint("a"), &host("reg.corp"), &answer("Global", ""), HOUR);
    assert!(finds(&cache, "other.corp"));
}

#[test]
fn a_file_that_is_not_ours_is_as_good_as_none() {
    let Some(dir) = in_memory() else { return };
    at(&dir, 1000).keep(&fingerprint("a"), &host("reg.corp"), &answer("Registry", ""), HOUR);
    let [file] = files(&dir).try_into().unwrap();
    let good = std::fs::read(&file).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let number = |value: u64| value.to_le_bytes();
    let second = 1_000_000_000;
    let hostile = [
        ("empty", Vec::new()),
        ("short", good[..HEADER_BYTES - 1].to_vec()),
        ("no answer", good[..HEADER_BYTES].to_vec()),
        ("cut off", good[..good.len() - 1].to_vec()),
        ("longer", changed(&|bytes| bytes.push(b'x'))),
        ("other magic", changed(&|bytes| bytes[7] = b'2')),
        ("from the future", changed(&|bytes| bytes[8..16].copy_from_slice(&number(2000 * second)))),
        ("for ever", changed(&|bytes| bytes[16..24].copy_from_slice(&number(u64::MAX)))),
        (
            "expires before it was written",
            changed(&|bytes| {
                bytes[8..16].copy_from_slice(&number(u64::MAX));
                bytes[16..24].copy_from_slice(&number(0));
            }),
        ),
        (
            "of an image",
            changed(&|bytes| {
                let text =
                    String::from_utf8_lossy(&bytes[HEADER_BYTES..]).replace("Registry", "Image");
                bytes.truncate(HEADER_BYTES);
                bytes.extend_from_slice(text.as_bytes());
            }),
        ),
        (
            "global under a registry's name",
            changed(&|bytes| {
                let text =
                    String::from_utf8_lossy(&bytes[HEADER_BYTES..]).replace("Registry", "Global");
                bytes.truncate(HEADER_BYTES);
                bytes.extend_from_slice(text.as_bytes());
            }),
        ),
        ("huge", vec![b' '; 2 * MAX_MESSAGE_BYTES]),
    ];
    for (what, bytes) in hostile {
        std::fs::write(&file, bytes).unwrap();
        assert!(!finds(&at(&dir, 1000), "reg.corp"), "{what}");
    }
    // Replaced by a good one, also where it is open for others now.
    let set_mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    std::fs::write(&file, &good).unwrap();
    set_mode(0o666);
    assert!(!finds(&at(&dir, 1000), "reg.corp"), "writable for everybody");
    at(&dir, 1000).keep(&fingerprint("a"), &host("reg.corp"), &answer("Registry", ""), HOUR);
    assert!(finds(&at(&dir, 1000), "reg.corp"));
    // No link is followed, and none is replaced.
    let elsewhere = dir.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert!(!finds(&at(&dir, 1000), "reg.corp"), "a link");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(!finds(&at(&dir, 1000), "reg.corp"), "a directory");
    at(&dir, 1000).keep(&fingerprint("a"), &host("reg.corp"), &answer("Registry", ""), HOUR);
    assert!(file.is_dir());
}

#[test]
fn a_directory_that_is_not_ours_is_no_cache() {
    let Some(dir) = in_memory() else { return };
    let place = dir.path().join("kata-configdev");
    std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(Cache::open(dir.path()).is_none(), "writable for everybody");
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::create_dir(dir.path().join("other")).unwrap();
    symlink(dir.path().join("other"), &place).unwrap();
    assert!(Cache::open(dir.path()).is_none(), "a link");
    assert!(Cache::open(&dir.path().join("absent")).is_none());
    // A disk: the repository's own directory is never in memory.
    let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    assert!(Cache::open(disk.path()).is_none(), "on a disk");
}

#[test]
fn what_killed_processes_and_time_leave_is_removed() {
    let Some(dir) = in_memory() else { return };
    at(&dir, 1000).keep(&fingerprint("a"), &host("old.corp"), &answer("Registry", ""), HOUR);
    let place = dir.path().join("kata-configdev/credential-providers");
    // What a process leaves that is killed between the first byte and the name.
    let [fresh, stale] =
        [".kata-configdev.1.0", ".kata-configdev.2.0"].map(|name| place.join(name));
    std::fs::write(&fresh, SECRET).unwrap();
    std::fs::write(&stale, SECRET).unwrap();
    let past = std::time::SystemTime::now() - 2 * TEMPORARY_FOR;
    std::fs::File::options().write(true).open(&stale).unwrap().set_modified(past).unwrap();
    assert!(!finds(&at(&dir, 1000), "reg.corp"), "half a file is no answer");
    let later = 1000 + HOUR.as_secs();
    at(&dir, later).keep(&fingerprint("a"), &host("reg.corp"), &answer("Registry", ""), HOUR);
    assert!(finds(&at(&dir, later), "reg.corp"));
    let left = files(&dir);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(fresh.exists() && !stale.exists());
}

#[test]
fn a_full_directory_takes_nothing_more() {
    let Some(dir) = in_memory() else { return };
    let place = dir.path().join("kata-configdev/credential-providers");
    for number in 0..MAX_FILES {
        std::fs::write(place.join(format!(".kata-configdev.{number}")), "").unwrap();
    }
    at(&dir, 0).keep(&fingerprint("a"), &host("reg.corp"), &answer("Registry", ""), HOUR);
    assert!(!finds(&at(&dir, 0), "reg.corp"));
}

/// A plugin is asked about one registry and answers for everything, with the pair of that registry
/// alone. The second sandbox took this for its answer about another registry, too, and that one
/// silently lost its password.
#[test]
fn an_answer_for_everything_is_none_about_a_registry_that_it_does_not_name() {
    let Some(dir) = in_memory() else { return };
    let mut cache = at(&dir, 0);
    cache.keep(&fingerprint("a"), &host("one.corp"), &answer("Global", ""), HOUR);
    assert!(finds(&cache, "two.corp"), "its key is *.corp");
    let find = |name| cache.find(&fingerprint("a"), &host(name), Version::V1);
    assert!(find("reg.example").is_none());
    assert!(find("reg.corp:5000").is_none());
    assert!(finds(&cache, "one.corp"), "it is still there");
}

/// A node starts no further sandbox, or none whose plugins may be kept. Expired passwords stood in
/// its memory until the next boot.
#[test]
fn sweep_forgets_what_has_expired() {
    let Some(dir) = in_memory() else { return };
    let now = since_boot();
    for (argument, written) in [("old", Duration::ZERO), ("new", now)] {
        let mut cache = Cache::open_at(dir.path(), written, true).unwrap();
        cache.files = Some(0);
        let duration = if argument == "old" { "\"cacheDuration\":\"1ns\"," } else { "" };
        cache.keep(&fingerprint(argument), &host("reg.corp"), &answer("Registry", duration), HOUR);
    }
    assert_eq!(files(&dir).len(), 2);
    crate::sweep::sweep(dir.path(), Duration::ZERO).unwrap();
    assert_eq!(files(&dir).len(), 1);
    let found =
        Cache::open(dir.path()).unwrap().find(&fingerprint("new"), &host("reg.corp"), Version::V1);
    assert!(found.is_some());
    // Where nothing was ever kept, nothing is made.
    let empty = tempfile::tempdir_in("/dev/shm").unwrap();
    crate::sweep::sweep(empty.path(), Duration::ZERO).unwrap();
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

/// After a removal nobody asks for the answers, and nobody would remove them.
#[test]
fn everything_can_be_forgotten() {
    let Some(dir) = in_memory() else { return };
    let answer = answer("Registry", "");
    let kept = at(&dir, 1000).keep(&fingerprint("a"), &host("reg.corp"), &answer, HOUR);
    assert!(kept.is_some());
    assert_eq!(files(&dir).len(), 1);
    crate::providers::forget_all(dir.path());
    assert!(files(&dir).is_empty());
}

#[test]
fn why_an_answer_is_not_kept_is_known() {
    let Some(dir) = in_memory() else { return };
    let (plugin, reg) = (fingerprint("a"), host("reg.corp"));
    let never = "\"cacheDuration\":\"0s\",";
    for (kind, duration, expected) in [
        ("Image", "", Err(NotKept::ForAnImage)),
        ("Image", never, Err(NotKept::ForAnImage)),
        ("Registry", never, Err(NotKept::NoTime)),
        ("Registry", "", Ok(HOUR)),
    ] {
        let answer = answer(kind, duration);
        let cache = &mut at(&dir, 1000);
        assert_eq!(keep(Some(cache), &plugin, &reg, &answer, HOUR), expected);
        let nowhere = expected.and(Err(NotKept::NoPlace));
        assert_eq!(keep(None, &plugin, &reg, &answer, HOUR), nowhere);
    }
}

/// A metadata service was down, and every sandbox of the node waited for the whole deadline.
#[test]
fn a_failure_is_remembered_for_a_short_time() {
    let Some(dir) = in_memory() else { return };
    let (plugin, reg) = (fingerprint("a"), host("reg.corp"));
    let left = |seconds| {
        let known = at(&dir, seconds).failure(&plugin, &reg);
        known.map(|known| {
            assert_eq!(known.why, "it took longer");
            known.left.as_secs()
        })
    };
    let fail = |seconds, hung| {
        at(&dir, seconds).remember_failure(&plugin, &reg, "it took longer", hung);
    };
    assert_eq!(left(1000), None);
    // Twice as long each time that it hangs again, up to a limit.
    for (moment, lasts) in [(1000, 30), (1030, 60), (1100, 120), (1220, 240), (1500, 240)] {
        fail(moment, true);
        assert_eq!(left(moment), Some(lasts), "{moment}");
        assert_eq!(left(moment + lasts - 1), Some(1));
        assert_eq!(left(moment + lasts), None);
    }
    // By a clock that is earlier than the file, as after another boot.
    assert_eq!(left(999), None);
    // Long after that it begins anew.
    fail(5000, true);
    assert_eq!(left(5000), Some(30));
    // Who fails at once costs nobody time.
    fail(5030, false);
    assert_eq!(left(5030), Some(5));
    // Another registry and another plugin are not meant.
    let cache = at(&dir, 5030);
    assert!(cache.failure(&plugin, &host("other.corp")).is_none());
    assert!(cache.failure(&fingerprint("b"), &reg).is_none());
    let team = plugin.clone().about(Some("team"));
    assert!(cache.failure(&team, &reg).is_none());
    cache.forget_failure(&team, &reg);
    assert_eq!(left(5030), Some(5));
    // An answer ends it.
    at(&dir, 5031).forget_failure(&plugin, &reg);
    assert_eq!(left(5031), None);
    fail(6000, true);
    at(&dir, 6500).tidy();
    let failures = files(&dir).into_iter().filter(|file| {
        let content = std::fs::read(file).unwrap();
        content.starts_with(b"kcdfail1")
    });
    assert_eq!(failures.count(), 0, "nobody needs it any more");
}

#[test]
fn a_file_of_a_failure_that_is_not_ours_is_as_good_as_none() {
    let Some(dir) = in_memory() else { return };
    let (plugin, reg) = (fingerprint("a"), host("reg.corp"));
    at(&dir, 1000).remember_failure(&plugin, &reg, &"x".repeat(5000), true);
    let [file] = files(&dir).try_into().unwrap();
    let good = std::fs::read(&file).unwrap();
    assert!(good.len() < 1000, "a reason is short");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    for bytes in [
        Vec::new(),
        good[..20].to_vec(),
        changed(&|bytes| bytes[0] = b'x'),
        changed(&|bytes| bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes())),
        changed(&|bytes| bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes())),
        changed(&|bytes| bytes[HEADER_BYTES] = 0xff),
    ] {
        std::fs::write(&file, bytes).unwrap();
        assert!(at(&dir, 1000).failure(&plugin, &reg).is_none());
    }
}
