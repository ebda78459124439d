//! The tools of the containers project, and umoci.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::encryption;
use crate::job::Job;
use crate::measure::Cost;

/// Where skopeo puts the image, and `TAG` there.
fn layout(job: Job<'_>) -> String {
    format!("{}:image", job.ground.join("layout").display())
}

pub(super) fn skopeo(job: Job<'_>) -> Result<Cost> {
    let mut copy = Command::new("skopeo");
    copy.args(["--insecure-policy", "copy", "--quiet"]);
    if job.has_tls() {
        copy.arg("--src-cert-dir").arg(trust(job));
    } else {
        copy.arg("--src-tls-verify=false");
    }
    copy.arg(format!("docker://{}", job.tagged()))
        .arg(format!("oci:{}", layout(job)))
        .env("TMPDIR", job.ground);
    if job.image.is_encrypted {
        copy.arg("--decryption-key").arg(encryption::key());
    }
    job.cost(&copy)
}

pub(super) fn skopeo_umoci(job: Job<'_>) -> Result<Cost> {
    let mut unpack = Command::new("umoci");
    unpack.args(["raw", "unpack", "--image", &layout(job)]).arg(job.ground.join("rootfs"));
    let (copy, unpack) = (skopeo(job)?, job.cost(&unpack)?);
    Ok(Cost {
        wall_secs: copy.wall_secs + unpack.wall_secs,
        cpu_secs: copy.cpu_secs + unpack.cpu_secs,
        peak_kib: copy.peak_kib.max(unpack.peak_kib),
    })
}

/// podman and buildah, which share their library.
pub(super) fn pull(program: &str, arguments: &[&str], job: Job<'_>) -> Result<Cost> {
    let policy = job.work.join("policy.json");
    fs::write(&policy, r#"{"default": [{"type": "insecureAcceptAnything"}]}"#)?;
    let registries = job.work.join("registries.conf");
    fs::write(&registries, "")?;
    let temporary = job.ground.join("tmp");
    fs::create_dir(&temporary)?;
    let mut pull = Command::new(program);
    pull.arg("--root").arg(job.ground.join("root")).arg("--runroot").arg(job.ground.join("run"));
    pull.args(["--storage-driver", "overlay"]).args(arguments);
    pull.args(["pull", "--quiet", "--signature-policy"]).arg(&policy);
    if job.has_tls() {
        pull.arg("--cert-dir").arg(trust(job));
    } else {
        pull.arg("--tls-verify=false");
    }
    pull.arg(format!("docker://{}", job.tagged()));
    pull.env("TMPDIR", &temporary).env("CONTAINERS_REGISTRIES_CONF", &registries);
    job.cost(&pull)
}

/// The directory with the certificate to trust.
fn trust<'a>(job: Job<'a>) -> &'a Path {
    job.authority.parent().unwrap_or(job.authority)
}
