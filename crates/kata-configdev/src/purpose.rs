//! What a VM that Kata starts is for. Only a sandbox's VM gets a document.

use std::path::Path;

use crate::invocation::Invocation;
use crate::sandbox_spec;

/// What a VM is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A pod, from the start. Also where Kata's Go runtime names it after no sandbox, because its
    /// factory had no VM that fits the pod.
    Sandbox,
    /// To be saved, for clones to be made from it. They have the devices that it has, and what its
    /// guest reads is in the memory of each.
    Template,
    /// A pod, as a copy of another VM: a clone of a template, or a VM that is migrated.
    Copy,
    /// A pod that is not known yet: a cache keeps the VM, and this program is not asked when a pod
    /// takes it.
    Cache,
}

impl Purpose {
    /// Tells by the command line and by the directory in which the program was started: the bundle
    /// where there is a pod. `docs/runtime-integration.md` has what Kata's runtimes do, and where
    /// each sign comes from.
    ///
    /// Whoever makes a sandbox look like a template's or a cache's VM gets less than before: no
    /// disk, or no VM.
    #[must_use]
    pub fn of(invocation: &Invocation, bundle: &Path) -> Self {
        let pidfile = invocation.pidfile.as_deref();
        let has_spec = sandbox_spec::exists(bundle);
        if pidfile.is_some_and(Path::is_relative) || (invocation.incoming && !has_spec) {
            return Self::Cache;
        }
        if invocation.incoming {
            return Self::Copy;
        }
        if shares_memory_beside(pidfile, invocation.shared_memory.as_deref()) {
            return Self::Template;
        }
        let id = invocation.sandbox.as_deref();
        match id.filter(|id| !invocation.network && is_uuid(id)) {
            // Whoever makes these VMs may stand anywhere, also beside some `config.json`.
            Some(_) if pidfile.is_some() && !sandbox_spec::is_oci(bundle) => Self::Cache,
            Some(id) if pidfile.is_none() && !(has_spec && is_bundle_of(id, bundle)) => {
                Self::Template
            }
            _ => Self::Sandbox,
        }
    }
}

/// Whether the memory's file stands beside the directory of the VM, as in `DIR/memory` and
/// `DIR/ID/pid`.
fn shares_memory_beside(pidfile: Option<&Path>, memory: Option<&Path>) -> bool {
    let above = pidfile.and_then(|path| path.parent()?.parent());
    above.is_some() && above == memory.and_then(Path::parent)
}

/// Whether the directory is the bundle of the sandbox `id`, as container engines name bundles: the
/// id is a part of the path.
fn is_bundle_of(id: &str, directory: &Path) -> bool {
    let real = std::fs::canonicalize(directory);
    real.is_ok_and(|path| path.components().any(|part| part.as_os_str() == id))
}

fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    const TEMPLATE: &str = include_str!("../../../qemu-fixtures/arguments/go-template");
    const CLONE: &str = include_str!("../../../qemu-fixtures/arguments/go-template-clone");
    const CACHE: &str = include_str!("../../../qemu-fixtures/arguments/go-vmcache");
    const UUID: &str = "1dbe523b-dfb9-4cb6-a2b5-54c52a95c3b0";

    /// What the vector is for in a directory without a spec, in one with somebody's `config.json`,
    /// and in a bundle.
    fn purposes(vector: &str) -> [Purpose; 3] {
        let arguments: Vec<OsString> = vector.lines().map(OsString::from).collect();
        let invocation = Invocation::read(&arguments);
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join(UUID);
        std::fs::create_dir(&bundle).unwrap();
        let with = |directory: &Path, spec| {
            std::fs::write(directory.join(sandbox_spec::FILE_NAME), spec).unwrap();
            Purpose::of(&invocation, directory)
        };
        [
            Purpose::of(&invocation, directory.path()),
            with(directory.path(), r#"{"auths":{}}"#),
            with(&bundle, r#"{"ociVersion":"1.1.0"}"#),
        ]
    }

    #[test]
    fn what_kata_starts_is_told_apart() {
        use Purpose::{Cache, Copy, Sandbox, Template};

        // Kata's Rust runtime: nothing but the name and the missing network tell a template.
        let rust = "-name\nsandbox-ID\n-machine\nq35\n-object\n\
            memory-backend-file,id=a,mem-path=/dev/shm,size=1M,share=on,prealloc=off,readonly=off";
        let rust_uuid = rust.replace("ID", UUID);
        let absolute = CACHE.replace(&format!("{UUID}/pid"), &format!("/run/vc/vm/{UUID}/pid"));
        let with_network = format!("{absolute}\n-netdev\ntap,id=a");
        let elsewhere = TEMPLATE.replace("/run/vc/vm/template/", "/x/");
        let private = TEMPLATE.replace("memory,share=on", "memory");
        let other_memory = TEMPLATE.replace("template/memory", "memory");
        let cached_clone = CLONE.replace("/run/vc/vm/", "");
        for (vector, expected) in [
            (TEMPLATE, [Template; 3]),
            (&elsewhere, [Template; 3]),
            (CLONE, [Cache, Copy, Copy]),
            (&cached_clone, [Cache; 3]),
            (CACHE, [Cache; 3]),
            (&absolute, [Cache, Cache, Sandbox]),
            (&with_network, [Sandbox; 3]),
            (&private, [Cache, Cache, Sandbox]),
            (&other_memory, [Cache, Cache, Sandbox]),
            (&rust_uuid, [Template, Template, Sandbox]),
            (&format!("{rust_uuid}\n-netdev\ntap,id=a"), [Sandbox; 3]),
            (&format!("{rust_uuid}\n-incoming\ndefer"), [Cache, Copy, Copy]),
            (&rust.replace("ID", &"59f688fcc63406ed".repeat(4)), [Sandbox; 3]),
            (&rust.replace("ID", &UUID.replace('b', "g")), [Sandbox; 3]),
            (&rust.replace("ID", &UUID[1..]), [Sandbox; 3]),
        ] {
            assert_eq!(purposes(vector), expected, "{vector}");
        }
    }
}
