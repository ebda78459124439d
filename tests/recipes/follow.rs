//! What a page tells people to do, done; and the pull of the pod's image that comes of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use config_image::Magic;
use end_to_end::{HostPull, Outcome};
use serde_json::Value;

use crate::recipes::page::{Page, Way};
use crate::recipes::values;
use crate::recipes::world::{OWN, PLACE, World};

/// Where the stand-ins for `kubectl` and `helm` keep what they were told.
pub const CLUSTER: &str = "/mnt/cluster";

/// What stands for the digest of the image on all pages.
const DIGEST: &str = "sha256:DIGEST";

/// Kata's directory of the handler on all pages.
pub const HANDLER: &str = "/opt/kata/share/defaults/kata-containers/runtimes/qemu-snp";

/// The settings of the chart's set.
pub const SETTINGS: &str = "/opt/kata-configdev/default/etc/kata-configdev/config.toml";

/// What following a page led to.
#[derive(Debug)]
pub struct Followed {
    /// The document on the disk of a sandbox that starts now.
    pub document: String,
    /// The image of the page's pod.
    pub image: String,
    /// What the commands printed.
    pub printed: String,
}

impl Followed {
    /// The guest's pull of the pod's image.
    pub fn pull(&self) -> Result<HostPull> {
        HostPull::new(&self.document)
    }

    /// The same in a guest that trusts the web of this node.
    pub fn pull_from(&self, world: &World) -> Result<Outcome> {
        self.pull()?.measured(&world.measured_roots()).run(&self.image)
    }
}

/// Runs the commands of a page and starts a sandbox. `digest` is that of the image.
pub fn follow(page: &Page, way: Way, digest: &str) -> Result<Followed> {
    let commands = page.blocks(way).concat().replace(DIGEST, digest);
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &commands])
        .current_dir(PLACE)
        .output()?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    println!("{printed}");
    ensure!(output.status.success(), "the commands failed");
    let settings = match way {
        Way::Node => "/etc/kata-configdev/config.toml".to_owned(),
        Way::Fleet => install_as_the_chart()?,
    };
    let drop_in = fs::read_to_string(Path::new(HANDLER).join("config.d/zz-kata-configdev.toml"))?;
    ensure!(drop_in.contains("bin/kata-configdev-qemu\""), "Kata starts no wrapper: {drop_in}");
    let image = fs::read_to_string(format!("{CLUSTER}/image")).context("no pod was made")?;
    Ok(Followed {
        document: start_sandbox(&settings)?,
        image: image.trim_end().to_owned(),
        printed,
    })
}

/// Does what a pod of the chart does on a node. Returns where the settings are.
fn install_as_the_chart() -> Result<String> {
    let text = values::configuration()?;
    let file = Path::new(OWN).join("installer.toml");
    fs::write(&file, &text)?;
    let mut command = Command::new("kata-configdev");
    checked(command.args(["install", "--config"]).arg(file)).context(text)?;
    Ok(SETTINGS.to_owned())
}

/// Starts a sandbox as the wrapper does, and reads what its guest gets.
fn start_sandbox(settings: &str) -> Result<String> {
    let bundle = format!("{OWN}/bundle");
    fs::create_dir_all(&bundle)?;
    fs::write(format!("{bundle}/config.json"), "{\"annotations\":{}}")?;
    let mut command = Command::new("kata-configdev");
    command.args(["attach", "--transport", "file", "--sandbox-id", "recipe"]);
    let attached = checked(command.args(["--bundle", &bundle, "--settings", settings]))?;
    let attached: Value = serde_json::from_str(&attached)?;
    let path = attached["path"].as_str().context("no disk")?;
    let image = fs::read(path)?;
    let image = config_image::decode(image.as_slice(), Magic::IMAGEPULLER)?;
    Ok(String::from_utf8(image.document.to_vec())?)
}

/// Runs a command that has to succeed, and returns what it printed.
fn checked(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    print!("{said}");
    ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(String::from_utf8(output.stdout)?)
}
