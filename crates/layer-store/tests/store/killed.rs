//! A service killed at any moment leaves nothing that a later one trusts, and nothing that stays.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use layer_store::layer::Layer;
use layer_store::mount::overlay;
use layer_store::store::Store;
use rustix::mount::{UnmountFlags, unmount};
use vm_harness::archive::Tar;

use crate::fixture::{Place, count, publish, reopen, wait_until};

/// Where the child works; it is this test program once more.
const DIRECTORY: &str = "LAYER_STORE_TEST_DIRECTORY";

/// A file that the child makes when it begins.
const WORKING: &str = "working";

const ROUNDS: u32 = 40;

const FILES: usize = 20;

fn tar(number: usize) -> Tar {
    (0..FILES).fold(Tar::default(), |tar, file| {
        let text = format!("{number}-{file}");
        tar.file(format!("{number}/{file}"), &text)
    })
}

/// The layers that have a name are whole.
fn assert_whole(layer: &Path) {
    let tops = fs::read_dir(layer.join("root")).unwrap();
    let top = tops.map(|top| top.unwrap().path()).next().unwrap();
    let number = top.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(count(&top), FILES);
    for file in 0..FILES {
        let text = fs::read_to_string(top.join(file.to_string())).unwrap();
        assert_eq!(text, format!("{number}-{file}"));
    }
    assert_eq!(fs::read(layer.join("implied")).unwrap().len(), 3);
}

/// The child: everything that a store does, again and again, until it is killed.
#[test]
#[ignore = "a part of the test below"]
fn work() {
    let Some(directory) = env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let store = reopen(&directory.join("store"));
    fs::write(directory.join(WORKING), "").unwrap();
    let mut number = 0;
    loop {
        number = (number + 1) % 8;
        let layers: Vec<Layer> = [number, number + 1].map(|one| publish(tar(one), &store)).into();
        let rootfs = directory.join(format!("rootfs-{}", number % 3));
        fs::create_dir_all(&rootfs).unwrap();
        // Of this child's predecessor, maybe.
        while unmount(&rootfs, UnmountFlags::empty()).is_ok() {}
        let mounted = overlay(store.container(layers).unwrap(), rootfs).unwrap();
        if number % 4 != 0 {
            fs::write(mounted.keep().join("written"), "x").unwrap();
        }
        if number % 2 == 0 {
            store.collect().unwrap();
        }
    }
}

#[test]
fn privileged_killed_at_any_moment() {
    vm_harness::needs_root!();
    let directory = Place::new();
    let path = directory.path().join("store");
    let mut seen_waste = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "killed::work"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let random = u64::from(fs::File::open("/dev/urandom").map_or(0, |file| {
            let mut byte = [0];
            let _ = std::io::Read::read_exact(&mut &file, &mut byte);
            byte[0]
        }));
        let working = directory.path().join(WORKING);
        wait_until(|| working.exists());
        fs::remove_file(&working).unwrap();
        sleep(Duration::from_micros(random * 400));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success() && status.code().is_none(), "{status}");

        let mounts: Vec<_> = (0..3)
            .map(|number| directory.path().join(format!("rootfs-{number}")))
            .filter(|rootfs| rootfs.join("1").exists() || count_or_none(rootfs) > 0)
            .collect();
        let store = reopen(&path);
        for layer in fs::read_dir(path.join("layers")).unwrap() {
            assert_whole(&layer.unwrap().path());
        }
        seen_waste += count(&path.join("waste"));
        collect_until(&store, &path, mounts.len());
        // What is mounted is still all there.
        for rootfs in &mounts {
            let names = fs::read_dir(rootfs).unwrap();
            let names: Vec<_> = names.map(|name| name.unwrap().path()).collect();
            let tops = names.iter().filter(|path| path.is_dir());
            assert_eq!(tops.map(|top| count(top)).sum::<usize>(), 2 * FILES);
        }
        if round % 4 == 3 {
            for rootfs in &mounts {
                unmount(rootfs, UnmountFlags::empty()).unwrap();
            }
            collect_until(&store, &path, 0);
            for name in ["layers", "containers", "waste", "staging"] {
                assert_eq!(count(&path.join(name)), 0, "{name}");
            }
        }
    }
    assert!(seen_waste > 0, "no child was killed in the middle of its work");
}

/// Another test may have our mounts in its own mount namespace for a moment.
fn collect_until(store: &Store, path: &Path, containers: usize) {
    wait_until(|| {
        store.collect().unwrap();
        count(&path.join("containers")) <= containers
    });
    assert_eq!(count(&path.join("containers")), containers);
    assert_eq!(count(&path.join("waste")), 0);
}

fn count_or_none(path: &Path) -> usize {
    fs::read_dir(path).map_or(0, Iterator::count)
}
