//! The tools, each called as its manual says, with all that it keeps on the measured file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::corpus::Image;
use crate::daemon::Daemon;
use crate::encryption;
use crate::measure::{Cost, checked, cost};
use crate::options::Mode;
use crate::server::Server;

/// Something that pulls images.
#[derive(Clone, Debug)]
pub enum Peer {
    /// This project's.
    Ours(Ours),
    /// `ctr images pull` to a running containerd, which unpacks for its overlayfs snapshotter.
    Containerd,
    /// `skopeo copy` to an OCI layout, which unpacks nothing.
    Skopeo,
    /// `skopeo copy` to an OCI layout, then `umoci raw unpack`.
    SkopeoUmoci,
    /// `podman pull`, overlay driver.
    Podman,
    /// `buildah pull`, overlay driver.
    Buildah,
}

/// A build of this project's puller.
#[derive(Clone, Debug)]
pub struct Ours {
    /// Its name in the table.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// How it is called.
    pub mode: Mode,
}

/// One pull to be done.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// From here.
    pub server: &'a Server,
    /// This image.
    pub image: &'a Image,
    /// The measured file system.
    pub ground: &'a Path,
    /// For sockets, logs and configuration.
    pub work: &'a Path,
}

impl Peer {
    /// Its name in the table.
    pub fn name(&self) -> &str {
        match self {
            Self::Ours(ours) => &ours.name,
            Self::Containerd => "containerd",
            Self::Skopeo => "skopeo (no unpacking)",
            Self::SkopeoUmoci => "skopeo + umoci",
            Self::Podman => "podman",
            Self::Buildah => "buildah",
        }
    }

    /// Whether it is this project's.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Whether it makes files of the image.
    pub const fn unpacks(&self) -> bool {
        !matches!(self, Self::Skopeo)
    }

    /// Whether it can pull the image: not everybody can decrypt.
    pub const fn takes(&self, image: &Image) -> bool {
        !image.is_encrypted || matches!(self, Self::Ours(_) | Self::Skopeo | Self::SkopeoUmoci)
    }

    /// The Debian packages it consists of, with versions.
    pub fn version(&self) -> String {
        let packages: &[&str] = match self {
            Self::Ours(ours) => {
                return match ours.mode {
                    Mode::Service => format!("{}: serve + request, with the mount", ours.name),
                    Mode::Pull => format!("{}: without a service", ours.name),
                };
            }
            Self::Containerd => &["containerd", "pigz"],
            Self::Skopeo => &["skopeo"],
            Self::SkopeoUmoci => &["skopeo", "umoci"],
            Self::Podman => &["podman"],
            Self::Buildah => &["buildah"],
        };
        let versions: Vec<String> = packages
            .iter()
            .map(|package| {
                let asked = Command::new("dpkg-query")
                    .args(["-W", "-f", "${Version}", package])
                    .output();
                let version =
                    asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
                format!("{package} {}", version.unwrap_or_default())
            })
            .collect();
        versions.join(", ")
    }

    /// Pulls and unpacks; daemons are started before the clock is.
    pub fn pull(&self, job: Job<'_>) -> Result<Cost> {
        match self {
            Self::Ours(ours) => match ours.mode {
                Mode::Service => ours.ask(job),
                Mode::Pull => ours.pull(job),
            },
            Self::Containerd => containerd(job),
            Self::Skopeo => skopeo(job),
            Self::SkopeoUmoci => skopeo_umoci(job),
            Self::Podman => containers(
                "podman",
                &["--events-backend", "none", "--cgroup-manager", "cgroupfs"],
                job,
            ),
            Self::Buildah => containers("buildah", &[], job),
        }
    }
}

impl Ours {
    /// Writes the document that lets it talk to the registry.
    pub fn document(&self, job: Job<'_>) -> Result<PathBuf> {
        let path = job.work.join("imagepuller.toml");
        let address = job.server.address();
        let mut document = format!("[registries.\"{address}\"]\nplain-http = true\n");
        if job.image.is_encrypted {
            let key = STANDARD.encode(fs::read(encryption::key())?);
            document.push_str(&format!("[decryption-keys]\nkeys = [\"{key}\"]\n"));
        }
        fs::write(&path, document)?;
        Ok(path)
    }

    /// Starts the service, with its store on the measured file system; returns it with its socket.
    pub fn serve(&self, job: Job<'_>) -> Result<(Daemon, PathBuf)> {
        let socket = job.work.join("imagepuller.socket");
        let mut serve = Command::new(&self.program);
        serve
            .arg("serve")
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()));
        serve
            .arg("--store")
            .arg(job.ground.join("store"))
            .arg("--config")
            .arg(self.document(job)?);
        let mut daemon = Daemon::start(&self.name, &serve, &job.work.join("imagepuller.log"))?;
        daemon.wait_for_socket(&socket)?;
        Ok((daemon, socket))
    }

    /// The client's command for a bundle below the measured file system.
    pub fn request(&self, job: Job<'_>, socket: &Path, bundle: &str) -> Result<Command> {
        let bundle = job.ground.join(bundle);
        fs::create_dir_all(&bundle)?;
        let mut request = Command::new(&self.program);
        request
            .arg("request")
            .arg("--socket")
            .arg(socket)
            .arg(job.server.pinned(job.image))
            .arg(bundle);
        Ok(request)
    }

    fn ask(&self, job: Job<'_>) -> Result<Cost> {
        let (daemon, socket) = self.serve(job)?;
        with_daemon(&daemon, &self.request(job, &socket, "bundle")?, job.work)
    }

    fn pull(&self, job: Job<'_>) -> Result<Cost> {
        let mut pull = Command::new(&self.program);
        pull.arg("pull").arg("--config").arg(self.document(job)?);
        pull.arg("--output")
            .arg(job.ground.join("image"))
            .arg(job.server.pinned(job.image));
        cost(&pull, job.work)
    }
}

/// The cost of a client's command, and of what its daemon did for it.
fn with_daemon(daemon: &Daemon, client: &Command, work: &Path) -> Result<Cost> {
    daemon.forget_peak()?;
    let before = daemon.cpu_secs();
    let client = cost(client, work)?;
    Ok(Cost {
        wall_secs: client.wall_secs,
        cpu_secs: client.cpu_secs + daemon.cpu_secs() - before,
        peak_kib: client.peak_kib.max(daemon.peak_kib()),
    })
}

fn containerd(job: Job<'_>) -> Result<Cost> {
    let config = job.work.join("containerd.toml");
    let socket = job.work.join("containerd.socket");
    let (root, state) = (job.ground.join("root"), job.ground.join("state"));
    let text = format!(
        "version = 2\nroot = {root:?}\nstate = {state:?}\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
         [grpc]\naddress = {socket:?}\n",
    );
    fs::write(&config, text)?;
    let mut command = Command::new("containerd");
    command.arg("--config").arg(&config);
    let mut daemon = Daemon::start("containerd", &command, &job.work.join("containerd.log"))?;
    daemon.wait_for_socket(&socket)?;
    let ctr = || {
        let mut ctr = Command::new("ctr");
        ctr.arg("--address")
            .arg(&socket)
            .args(["--namespace", "bench"]);
        ctr
    };
    // An answer means that all of it is up; the socket alone does not.
    checked(ctr().arg("version"))?;
    let mut pull = ctr();
    pull.args(["images", "pull", "--plain-http"])
        .arg(job.server.tagged(job.image));
    with_daemon(&daemon, &pull, job.work)
}

/// Where skopeo puts the image, and `TAG` there.
fn layout(job: Job<'_>) -> String {
    format!("{}:image", job.ground.join("layout").display())
}

fn skopeo(job: Job<'_>) -> Result<Cost> {
    let mut copy = Command::new("skopeo");
    copy.args([
        "--insecure-policy",
        "copy",
        "--quiet",
        "--src-tls-verify=false",
    ])
    .arg(format!("docker://{}", job.server.tagged(job.image)))
    .arg(format!("oci:{}", layout(job)))
    .env("TMPDIR", job.ground);
    if job.image.is_encrypted {
        copy.arg("--decryption-key").arg(encryption::key());
    }
    cost(&copy, job.work)
}

fn skopeo_umoci(job: Job<'_>) -> Result<Cost> {
    let mut unpack = Command::new("umoci");
    unpack
        .args(["raw", "unpack", "--image", &layout(job)])
        .arg(job.ground.join("rootfs"));
    let (copy, unpack) = (skopeo(job)?, cost(&unpack, job.work)?);
    Ok(Cost {
        wall_secs: copy.wall_secs + unpack.wall_secs,
        cpu_secs: copy.cpu_secs + unpack.cpu_secs,
        peak_kib: copy.peak_kib.max(unpack.peak_kib),
    })
}

/// podman and buildah, which share their library.
fn containers(program: &str, arguments: &[&str], job: Job<'_>) -> Result<Cost> {
    let policy = job.work.join("policy.json");
    fs::write(
        &policy,
        r#"{"default": [{"type": "insecureAcceptAnything"}]}"#,
    )?;
    let registries = job.work.join("registries.conf");
    fs::write(&registries, "")?;
    let temporary = job.ground.join("tmp");
    fs::create_dir(&temporary)?;
    let mut pull = Command::new(program);
    pull.arg("--root")
        .arg(job.ground.join("root"))
        .arg("--runroot")
        .arg(job.ground.join("run"));
    pull.args(["--storage-driver", "overlay"]).args(arguments);
    pull.args([
        "pull",
        "--quiet",
        "--tls-verify=false",
        "--signature-policy",
    ])
    .arg(&policy);
    pull.arg(format!("docker://{}", job.server.tagged(job.image)));
    pull.env("TMPDIR", &temporary)
        .env("CONTAINERS_REGISTRIES_CONF", &registries);
    cost(&pull, job.work)
}
