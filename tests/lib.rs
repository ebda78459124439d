//! What the end-to-end tests share: a site, and the questions they put to a guest's report.
//!
//! Each test boots real VMs with QEMU's own CPU emulation and talks to a real registry
//! on 127.0.0.1. They need root only for `hack/packages`, no KVM, no network.

pub mod fenced;
mod host_pull;
pub mod pages;

pub use host_pull::{HostPull, Outcome, tree};

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
pub use vm_harness::run;
use vm_harness::{Report, Scratch, Site};

/// A running site in a directory of its own.
///
/// # Errors
///
/// Where a program is missing; `hack/packages test` installs it, or cargo builds it.
pub fn site() -> Result<Site> {
    Site::start(&Scratch::new()?)
}

/// Checks several cases, two at a time: most of them wait for a guest.
///
/// # Errors
///
/// The first that a check gives, with the case's name, after all checks have ended.
pub fn side_by_side<C: Sync>(
    cases: &[(&str, C)],
    check: impl Fn(&C) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut all = Ok(());
        while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
            println!("{name}");
            let outcome = check(case).with_context(|| (*name).to_owned());
            all = all.and(outcome);
        }
        all
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        let mine = work();
        mine.and(other.join().map_err(|_| anyhow!("a check panicked"))?)
    })
}

/// Begins a job whose host changes the document: the processor reads the disk again when the puller
/// asks, the puller serves, and `pull` asks it for `$IMAGE` with another bundle each time.
///
/// Both run once and are never told anything. What leads to a stored image is forgotten before each
/// pull: a stored image needs no registry.
pub const SERVED_PULLS: &str = r#"
insmod /modules/tee_fixture.ko $TEE
initdata-processor
mark processor "exit $?"
refresher=unix:/run/initdata-processor/imagepuller.socket
initdata-processor refresh --listen $refresher 2>/tmp/log &
socket=/run/guest-services/imagepull.socket
imagepuller serve --listen "unix:$socket" --store /run/image-store --config \
    /run/insecure-cfg/imagepuller.toml --refresher $refresher &
service=$!
tries=0
until [ -S "$socket" ] || [ $tries -ge 2400 ]; do tries=$((tries + 1)); usleep 50000; done

number=0
pull() {
    rm -rf /run/image-store/images
    number=$((number + 1))
    imagepuller request --socket "$socket" "$IMAGE" "$BUNDLE.$number" >/tmp/answer 2>/tmp/error
}
"#;

/// After [`SERVED_PULLS`]: each pull is a try of the kubelet's, until one ends as it should. The
/// host sees the mark, and only then goes on.
pub const TRIES: &str = r#"
fails() {
    until ! pull && grep -q "$2" /tmp/error || [ $number -ge 3000 ]; do usleep 200000; done
    mark "$1" "$(cat /tmp/error)"
}
works() {
    until pull || [ $number -ge 3000 ]; do usleep 200000; done
    mark "$1" "$(cat /tmp/answer)"
}
"#;

/// Puts a file into the directory of a mounted secret. It appears as a whole.
///
/// # Errors
///
/// Those of the file system.
pub fn mount(directory: &Path, key: &str, text: &str) -> Result<()> {
    fs::create_dir_all(directory)?;
    let new = directory.join("..new");
    fs::write(&new, text)?;
    Ok(fs::rename(new, directory.join(key))?)
}

/// The files of a guest that pulls these images after its own, by the same puller: each with a
/// document that is put in place first, or with the one that is there. The marks of the first pull
/// of them end in 1.
#[must_use]
pub fn further_pulls(pulls: &[(Option<&str>, &str)]) -> Vec<(String, Vec<u8>)> {
    let more = include_str!("../qemu-fixtures/guest/more");
    let mut files = vec![("job/more".to_owned(), more.into())];
    let mut list = String::new();
    for (number, (document, image)) in pulls.iter().enumerate() {
        let place = match document {
            None => "-".to_owned(),
            Some(document) => {
                let name = format!("job/document{number}.toml");
                files.push((name.clone(), document.as_bytes().to_vec()));
                format!("/{name}")
            }
        };
        list.push_str(&format!("{place} {image}\n"));
    }
    files.push(("job/images".to_owned(), list.into()));
    files
}

/// Where a guest's CDH listens, if it has [`hub_of`].
pub const HUB: &str = "/run/hub.sock";

/// The files of a guest in which `guest-resources` gives the secrets of a file as a CDH would.
#[must_use]
pub fn hub_of(resources: String) -> [(String, Vec<u8>); 2] {
    let services = format!(
        "guest-resources /job/hub.json {HUB} &\nuntil [ -S {HUB} ]; do usleep 20000; done\n"
    );
    let files = [("job/hub.json", resources), ("job/services", services)];
    files.map(|(name, text)| (name.to_owned(), text.into_bytes()))
}

/// The puller's error, and the proof that the refused pull left no root file system.
///
/// # Errors
///
/// Where the pull was not refused.
pub fn refusal(report: &Report) -> Result<String> {
    nth_refusal(report, "")
}

/// The same of a further pull, by the number at the end of its marks.
///
/// # Errors
///
/// Where the pull was not refused.
pub fn nth_refusal(report: &Report, number: &str) -> Result<String> {
    let error: Vec<&str> = report.values(&format!("error{number}")).collect();
    let error = error.join(" ");
    let (pull, console) = (report.value(&format!("pull{number}")), &report.console);
    ensure!(pull.is_some_and(|pull| pull != "exit 0"), "the pull succeeded:\n{console}");
    ensure!(
        report.value(&format!("mount{number}")) == Some("0"),
        "a root file system is mounted:\n{console}"
    );
    ensure!(!error.is_empty(), "the refusal gives no reason:\n{console}");
    println!("{error}");
    Ok(error)
}

/// Fails with the whole text where `text` lacks one of `words`.
///
/// # Panics
///
/// Then.
#[track_caller]
pub fn assert_tells(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "\"{word}\" is missing in: {text}");
    }
}

/// Fails where a secret of the site shows in `text`.
///
/// # Panics
///
/// Then.
#[track_caller]
pub fn assert_no_secret(site: &Site, text: &str) {
    for secret in [&site.password, &Site::auth(&site.password)] {
        assert!(!text.contains(secret.as_str()), "a secret shows in: {text}");
    }
}
