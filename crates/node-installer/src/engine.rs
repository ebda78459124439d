//! Which container engine runs this pod, and so all pods of the node.
//!
//! The wrapper has to know it: containerd and CRI-O write a pod's namespace under different
//! annotations, and under each the other's can be written by the pod's author.

use std::fmt;
use std::path::Path;

use foreign_text::bounded::read_path;
use serde::{Deserialize, Serialize};

/// The longest list of mounts; a container has some tens, of a few hundred bytes each. Free to
/// change.
pub const MAX_MOUNTS_BYTES: usize = 1 << 20;

/// The mounts of this process, in the form of proc(5).
const MOUNTS: &str = "/proc/self/mountinfo";

/// What an engine mounts from its own directories. Everything else may be the node's or a pod's.
const OWN_MOUNTS: [&str; 2] = ["/etc/hostname", "/etc/resolv.conf"];

/// A container engine, as the wrapper's settings call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// containerd, on its own or as a part of k3s and others.
    Containerd,
    /// CRI-O.
    CriO,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

impl Engine {
    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
        }
    }

    /// Its name as people write it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::CriO => "CRI-O",
        }
    }

    /// The engine that runs this process; `None` where it runs in no pod, or nobody can tell.
    #[must_use]
    pub fn of_this_pod() -> Option<Self> {
        Self::of(&read_path(Path::new(MOUNTS), MAX_MOUNTS_BYTES).ok()?)
    }

    /// The engine that made the mounts of a `mountinfo`; `None` where none or both did.
    #[must_use]
    pub fn of(mounts: &[u8]) -> Option<Self> {
        let mut engines = mounts.split(|byte| *byte == b'\n').filter_map(of_line);
        let first = engines.next()?;
        engines.all(|engine| engine == first).then_some(first)
    }
}

/// The engine that made one mount, by its source: the path of what is mounted in its file system,
/// `root` in proc(5).
fn of_line(line: &[u8]) -> Option<Engine> {
    let mut fields = str::from_utf8(line).ok()?.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let (directory, name) = root.rsplit_once('/')?;
    if !OWN_MOUNTS.contains(&point) || point.rsplit('/').next() != Some(name) {
        return None;
    }
    let mut parts: Vec<&str> = directory.split('/').collect();
    let mut pop = || parts.pop().unwrap_or_default();
    match (pop(), pop(), pop()) {
        // .../io.containerd.grpc.v1.cri/sandboxes/ID/hostname
        (id, "sandboxes", plugin) if is_id(id) && plugin.starts_with("io.containerd.") => {
            Some(Engine::Containerd)
        }
        // .../containers/storage/overlay-containers/ID/userdata/hostname, by the storage's driver.
        ("userdata", id, containers) if is_id(id) && containers.ends_with("-containers") => {
            Some(Engine::CriO)
        }
        _ => None,
    }
}

/// Whether `text` is the identity of a sandbox, as both engines make it.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0a1684351eaf86417b128f18c586151db29363d19bb5b3ffa066be937ed81a0e";

    fn of(lines: &[&str]) -> Option<Engine> {
        Engine::of(lines.join("\n").replace("ID", ID).as_bytes())
    }

    /// Sources of the mounts as the engines make them.
    #[test]
    fn engines_are_told_by_what_they_mount() {
        let hostname = "/sandboxes/ID/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw";
        let cri = "1344 1323 8:1 /var/lib/containerd/io.containerd.grpc.v1.cri";
        let k3s = "1 2 8:1 /var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri";
        // A file system of its own at /var/lib/containerd.
        let own = "1 2 259:1 /io.containerd.grpc.v1.cri";
        for root in [cri, k3s, own] {
            let line = format!("{root}{hostname}");
            assert_eq!(of(&[&line]), Some(Engine::Containerd), "{line}");
        }
        // /run is a file system of its own.
        let storage = "1 2 0:24 /containers/storage/overlay-containers/ID/userdata";
        let vfs = "1 2 8:1 /srv/storage/vfs-containers/ID/userdata";
        for root in [storage, vfs] {
            for name in ["hostname", "resolv.conf"] {
                let line = format!("{root}/{name} /etc/{name} rw,nosuid shared:3 - tmpfs tmpfs rw");
                assert_eq!(of(&[&line]), Some(Engine::CriO), "{line}");
            }
        }
        let containerd = format!("{cri}{hostname}");
        let crio = format!("{storage}/resolv.conf /etc/resolv.conf rw - tmpfs tmpfs rw");
        let docker = "1 2 8:1 /var/lib/docker/containers/ID/hostname /etc/hostname rw - ext4 x rw";
        let node = "1 2 8:1 / / rw - ext4 /dev/sda1 rw";
        assert_eq!(of(&[node, docker]), None);
        assert_eq!(of(&[node, docker, &crio, "", "x"]), Some(Engine::CriO));
        assert_eq!(of(&[&containerd, &crio]), None);
        // A directory of the node that only looks like it.
        for (root, point) in [
            ("io.containerd.grpc.v1.cri/sandboxes/ID/hostname", "/host/x"),
            ("io.containerd.grpc.v1.cri/sandboxes/x/hostname", "/etc/hostname"),
            ("io.containerd.grpc.v1.cri/sandboxes/ID/other", "/etc/hostname"),
            ("overlay-containers/ID/x/hostname", "/etc/hostname"),
        ] {
            let line = format!("1 2 8:1 /var/{root} {point} rw - ext4 x rw");
            assert_eq!(of(&[&line]), None, "{line}");
        }
    }

    #[test]
    fn nothing_is_told_outside_of_a_pod() {
        assert_eq!(Engine::of(b""), None);
        assert_eq!(Engine::of(b"\xff \xff \xff\n1 2 3"), None);
    }
}
