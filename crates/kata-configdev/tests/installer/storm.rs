//! The agent under kill -9 and full disks, over many rotations and with many living sandboxes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use config_image::{Magic, decode, encode};
use kata_configdev::capacity::{DEFAULT_CAPACITY_BYTES, pad};
use kata_configdev::sandbox_id::SandboxId;
use kata_configdev::shared_image;
use kata_configdev::shared_image::record::{self, Hold, Record};
use test_command::{skipped_without_root, wait_until};

use crate::installer::agent::{Agent, Node};
use crate::installer::machine::document;

const SANDBOXES: usize = 24;
const ROTATIONS: usize = 40;

/// A small file system in memory, unmounted when this is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, size: &str) -> Self {
        fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("mode=755,size={size}"))
            .arg("none")
            .arg(&path)
            .status();
        assert!(mounted.unwrap().success());
        Self(path)
    }

    /// Leaves no byte free until [`Small::empty`].
    fn fill(&self) {
        let mut file = File::create(self.0.join("filler")).unwrap();
        let error =
            std::iter::repeat_with(|| file.write_all(&[0; 4096])).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    fn empty(&self) {
        let _ = fs::remove_file(self.0.join("filler"));
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What a hypervisor has of its sandbox: the lock, and the image open.
struct Living {
    id: SandboxId,
    _hold: Hold,
    image: File,
}

impl Living {
    fn start(run: &Path, id: &str, document: &Path, text: &[u8]) -> Self {
        let id = SandboxId::parse(id).unwrap();
        let record = Record { document: Some(document.into()), held: true, ..Record::default() };
        let hold = record::put(run, &id, &record).unwrap();
        let image = pad(encode(Magic::IMAGEPULLER, text).unwrap(), DEFAULT_CAPACITY_BYTES);
        let path = shared_image::put(run, &id, &image).unwrap();
        Self { id, _hold: hold, image: File::open(path).unwrap() }
    }

    /// What a guest reads now; `None` where it refuses the disk and reads again.
    fn read(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; DEFAULT_CAPACITY_BYTES];
        self.image.read_exact_at(&mut bytes, 0).unwrap();
        let found = decode(bytes.as_slice(), Magic::IMAGEPULLER).ok()?;
        Some(found.document.to_vec())
    }
}

/// The document of a rotation, of a length of its own.
fn rotated(number: usize) -> String {
    let length = fastrand::usize(0..40_000);
    format!("{}# {}\n", document(&format!("r{number}")), "x".repeat(length))
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn descriptors(agent: &Agent) -> usize {
    names(Path::new(&format!("/proc/{}/fd", agent.process.id()))).len()
}

#[test]
fn privileged_no_sandbox_has_half_a_document_and_nothing_is_left() {
    if skipped_without_root("small file systems") {
        return;
    }
    let mut node = Node::new();
    let run = Small::mount(node.path("run"), "4m");
    let prefix = Small::mount(node.path("prefix"), "256k");
    // What is copied onto the small disk.
    fs::write(node.path("wrapper"), "#!/bin/sh\n").unwrap();
    node.wrapper = node.path("wrapper");
    node.without_program();
    let installed = node.path("prefix/default/etc/host-config/imagepuller.toml");
    let mut text = rotated(0);
    node.mount_document(&text);
    let start = |number: usize, text: &str| {
        Living::start(&run.0, &format!("box-{number}"), &installed, text.as_bytes())
    };
    let known = Mutex::new(BTreeSet::from([text.clone().into_bytes()]));
    let living: Mutex<Vec<Living>> =
        Mutex::new((0..SANDBOXES).map(|number| start(number, &text)).collect());
    let (ended, whole, refused) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let agent = scope(|scope| {
        // The guests: whatever happens, they read a document as a whole, or none.
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                for one in living.lock().unwrap().iter() {
                    match one.read() {
                        Some(read) if known.lock().unwrap().contains(&read) => {
                            whole.fetch_add(1, Ordering::SeqCst);
                        }
                        Some(read) => {
                            ended.store(true, Ordering::SeqCst);
                            panic!("{}: {} unknown bytes", one.id, read.len());
                        }
                        None => {
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
                sleep(Duration::from_millis(1));
            }
        });
        let mut agent = Agent::start(&node);
        for number in 1..=ROTATIONS {
            text = rotated(number);
            known.lock().unwrap().insert(text.clone().into_bytes());
            match number % 5 {
                1 => prefix.fill(),
                3 => run.fill(),
                _ => {}
            }
            node.mount_document(&text);
            sleep(Duration::from_millis(fastrand::u64(0..400)));
            if number % 3 != 0 {
                agent.process.kill().unwrap();
                agent.process.wait().unwrap();
                agent = Agent::start(&node);
            }
            prefix.empty();
            run.empty();
            // One ends, one starts.
            let mut living = living.lock().unwrap();
            let gone = fastrand::usize(..living.len());
            living.swap_remove(gone);
            living.push(start(SANDBOXES + number, &text));
            assert!(!ended.load(Ordering::SeqCst), "a guest read a mixture");
        }
        // A pass for what a full disk kept it from.
        text = rotated(ROTATIONS + 1);
        known.lock().unwrap().insert(text.clone().into_bytes());
        node.mount_document(&text);
        wait_until("the last document everywhere", || {
            let living = living.lock().unwrap();
            living.iter().all(|one| one.read().as_deref() == Some(text.as_bytes()))
        });
        ended.store(true, Ordering::SeqCst);
        agent
    });
    println!("{whole:?} read as a whole, {refused:?} refused");
    assert!(whole.into_inner() > 0);

    let living = living.into_inner().unwrap();
    let sandboxes = run.0.join("kata-containers/shared/initdata");
    let ids: BTreeSet<String> = living.iter().map(|one| one.id.to_string()).collect();
    wait_until("the sweep", || names(&sandboxes) == ids);
    for id in &ids {
        let files = names(&sandboxes.join(id));
        assert_eq!(files, ["imagepuller.img", "imagepuller.json"].map(String::from).into());
    }
    let beside = names(installed.parent().unwrap());
    assert_eq!(beside, ["imagepuller.toml".to_owned()].into());
    let of_kata = names(&node.path("kata/qemu-snp"));
    assert!(of_kata.iter().all(|name| !name.starts_with('.')), "{of_kata:?}");

    // After the first of these passes it has all that it ever has.
    let mut before = None;
    for number in 0..20 {
        text = rotated(number);
        node.mount_document(&text);
        wait_until("the document", || {
            living.iter().all(|one| one.read().as_deref() == Some(text.as_bytes()))
        });
        wait_until("readiness", || node.probe("ready").0);
        let now = before.get_or_insert_with(|| descriptors(&agent)).to_owned();
        wait_until("no descriptor more", || descriptors(&agent) <= now);
    }
}
