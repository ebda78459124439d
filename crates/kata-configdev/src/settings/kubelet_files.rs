//! Where the kubelet's configuration of its plugins is, by itself: the flags that it was given,
//! then the places of kubeadm, k3s and the managed clusters.

use std::path::Path;

use credential_sources::kubelet::flags::PluginFlags;

use super::credential_providers::Sources;
use super::node_path;
use crate::host_file::HostFile;

/// Files with the kubelet's flags, the later ones later in its arguments: kubeadm's own, then those
/// of the node's administrator for Debian's and for Red Hat's kin. GKE has its flags there, too.
pub const FLAG_FILES: [&str; 3] =
    ["/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"];

/// The longest such file. Free to change; real ones have a few KiB.
const MAX_FLAGS_BYTES: usize = 64 << 10;

/// Where those have them that need no flag, or keep theirs in a unit: configuration and programs.
const PLACES: [(&str, &str); 5] = [
    // EKS.
    ("/etc/eks/image-credential-provider/config.json", "/etc/eks/image-credential-provider"),
    // GKE.
    ("/etc/srv/kubernetes/cri_auth_config.yaml", "/home/kubernetes/bin"),
    // AKS.
    ("/var/lib/kubelet/credential-provider-config.yaml", "/var/lib/kubelet/credential-provider"),
    // k3s and RKE2: the defaults of their own flags.
    ("/var/lib/rancher/credentialprovider/config.yaml", "/var/lib/rancher/credentialprovider/bin"),
    // Bottlerocket.
    (
        "/etc/kubernetes/kubelet/credential-provider-config.yaml",
        "/usr/libexec/kubernetes/kubelet/plugins",
    ),
];

/// The kubelet's files of the node whose root is `root`, as they are seen from here.
pub fn find(root: &Path) -> Option<Sources> {
    let seen = |path: &str| node_path::seen(root, path.as_ref());
    let pair = |config: &str, bin_dir: &str| {
        Some(Sources { config: seen(config)?, bin_dir: seen(bin_dir)? })
    };
    let mut flags = PluginFlags::default();
    for file in FLAG_FILES {
        if let Some(text) = seen(file).and_then(|file| read(&file)) {
            flags.read(&text);
        }
    }
    if let (Some(config), Some(bin_dir)) = (&flags.config, &flags.bin_dir) {
        return pair(config, bin_dir);
    }
    let mut places = PLACES.iter().filter_map(|(config, bin_dir)| pair(config, bin_dir));
    places.find(|found| found.config.exists() && found.bin_dir.is_dir())
}

/// A file that only the administrator can have written, if it is there.
fn read(path: &Path) -> Option<String> {
    let opened = HostFile::open(path).and_then(HostFile::require_administered);
    let text = opened.and_then(|file| file.read(MAX_FLAGS_BYTES)).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::credential_providers::{AskedRegistries, CredentialProviders};
    use super::*;

    fn node(files: &[(&str, &str)], directories: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir_in(std::env::temp_dir().canonicalize().unwrap()).unwrap();
        for directory in directories {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        }
        root
    }

    #[test]
    fn the_files_are_found_where_each_kind_of_node_keeps_them() {
        let flags = "KUBELET_KUBEADM_ARGS=\"--image-credential-provider-config=/etc/k/c.yaml \
            --image-credential-provider-bin-dir=/opt/k/bin --max-pods=110\"\n";
        let gke = "KUBELET_OPTS=\"--v=2 --image-credential-provider-config=\
            /etc/srv/kubernetes/cri_auth_config.yaml --image-credential-provider-bin-dir=\
            /home/kubernetes/bin --max-pods=110\"\n";
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str, &'a str);
        let rows: [Row<'_>; 7] = [
            (&[("var/lib/kubelet/kubeadm-flags.env", flags)], &[], "etc/k/c.yaml", "opt/k/bin"),
            // The administrator's arguments come after kubeadm's.
            (
                &[
                    ("var/lib/kubelet/kubeadm-flags.env", flags),
                    (
                        "etc/default/kubelet",
                        "KUBELET_EXTRA_ARGS=--image-credential-provider-config=/etc/own.yaml\n",
                    ),
                ],
                &[],
                "etc/own.yaml",
                "opt/k/bin",
            ),
            (
                &[("etc/default/kubelet", gke)],
                &[],
                "etc/srv/kubernetes/cri_auth_config.yaml",
                "home/kubernetes/bin",
            ),
            (
                &[("etc/eks/image-credential-provider/config.json", "")],
                &[],
                "etc/eks/image-credential-provider/config.json",
                "etc/eks/image-credential-provider",
            ),
            (
                &[("var/lib/kubelet/credential-provider-config.yaml", "")],
                &["var/lib/kubelet/credential-provider"],
                "var/lib/kubelet/credential-provider-config.yaml",
                "var/lib/kubelet/credential-provider",
            ),
            (
                &[("var/lib/rancher/credentialprovider/config.yaml", "")],
                &["var/lib/rancher/credentialprovider/bin"],
                "var/lib/rancher/credentialprovider/config.yaml",
                "var/lib/rancher/credentialprovider/bin",
            ),
            (
                &[("etc/kubernetes/kubelet/credential-provider-config.yaml", "")],
                &["usr/libexec/kubernetes/kubelet/plugins"],
                "etc/kubernetes/kubelet/credential-provider-config.yaml",
                "usr/libexec/kubernetes/kubelet/plugins",
            ),
        ];
        for (files, directories, config, bin_dir) in rows {
            let root = node(files, directories);
            let expected =
                Sources { config: root.path().join(config), bin_dir: root.path().join(bin_dir) };
            assert_eq!(find(root.path()), Some(expected), "{files:?}");
        }
    }

    #[test]
    fn what_anybody_could_have_written_and_half_of_a_pair_say_nothing() {
        let half = "X=--image-credential-provider-config=/c.yaml\n";
        let root = node(&[("etc/default/kubelet", half)], &[]);
        assert_eq!(find(root.path()), None);
        let whole = format!("{half}Y=--image-credential-provider-bin-dir=/b\n");
        let root = node(&[("etc/default/kubelet", &whole)], &[]);
        assert!(find(root.path()).is_some());
        let file = root.path().join("etc/default/kubelet");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        assert_eq!(find(root.path()), None);
    }

    /// The agent sees its node's root as `/host`. Where the node has a link to an absolute path,
    /// the agent read what its own container has there.
    #[test]
    fn links_are_followed_as_the_node_follows_them() {
        let here = node(&[("c.yaml", "")], &["bin"]);
        let inside = here.path().to_str().unwrap();
        let flags = "X=--image-credential-provider-config=/etc/k/c.yaml \
                     --image-credential-provider-bin-dir=/opt/k/bin\n";
        let root = node(&[("usr/etc/flags", flags)], &["etc/default", "opt/k"]);
        let at = |path: &str| root.path().join(path);
        symlink("/usr/etc/flags", at("etc/default/kubelet")).unwrap();
        symlink(inside, at("etc/k")).unwrap();
        symlink(format!("{inside}/bin"), at("opt/k/bin")).unwrap();
        assert_eq!(find(root.path()), None, "the node has nothing at that path");
        let own = CredentialProviders {
            config: Some("/etc/k/c.yaml".into()),
            bin_dir: Some("/opt/k/bin".into()),
            registries: AskedRegistries { named: Vec::new(), match_images: true },
            ..CredentialProviders::default()
        };
        assert_eq!(own.sources(root.path()), None);
        let real = at(inside.trim_start_matches('/'));
        std::fs::create_dir_all(real.join("bin")).unwrap();
        std::fs::write(real.join("c.yaml"), "").unwrap();
        let real = real.canonicalize().unwrap();
        let expected = Some(Sources { config: real.join("c.yaml"), bin_dir: real.join("bin") });
        assert_eq!(find(root.path()), expected);
        assert_eq!(own.sources(root.path()), expected);
    }
}
