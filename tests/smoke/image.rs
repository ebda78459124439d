//! The tests' own initramfs as a guest image, from which things can be taken away.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use vm_harness::fixture::Fixture;
use vm_harness::initramfs::Initramfs;
use vm_harness::{Program, Scratch};

/// What comes before the example of `deploy/guest`: names of programs, and drivers.
const BEFORE: &str = r#"#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
while read -r module; do insmod "/modules/$module"; done </modules/order
"#;

/// An image in the making.
#[derive(Clone, Debug)]
pub struct Image {
    init: String,
    modules: Vec<PathBuf>,
    has_policy: bool,
    programs: Vec<&'static str>,
}

impl Image {
    /// In which everything is right, but for a default policy.
    pub fn good() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let example = fs::read_to_string(root.join("deploy/guest/init-example"))?;
        Ok(Self {
            init: format!("{BEFORE}{example}"),
            modules: Fixture::find()?.modules.clone(),
            has_policy: false,
            programs: Vec::new(),
        })
    }

    /// With a default policy.
    pub fn with_policy(mut self) -> Self {
        self.has_policy = true;
        self
    }

    /// With a program more, which does nothing.
    pub fn with_program(&self, path: &'static str) -> Self {
        let mut image = self.clone();
        image.programs.push(path);
        image
    }

    /// With other words in its first program.
    pub fn replaced(&self, old: &str, new: &str) -> Result<Self> {
        ensure!(self.init.contains(old), "the example has no {old:?}");
        let init = self.init.replace(old, new);
        Ok(Self { init, ..self.clone() })
    }

    /// Without a driver.
    pub fn without_module(&self, name: &str) -> Self {
        let mut image = self.clone();
        let file = format!("{name}.ko");
        image.modules.retain(|path| !path.ends_with(&file));
        image
    }

    /// The initrd.
    pub fn write(&self, scratch: &Scratch) -> Result<PathBuf> {
        let mut archive = Initramfs::shell(&self.modules)?;
        let init = scratch.write("init", &self.init)?;
        archive.executable("init", &init)?;
        for program in [Program::InitdataProcessor, Program::Imagepuller] {
            let name = format!("usr/bin/{}", program.name());
            archive.executable(&name, &program.path()?)?;
        }
        let nothing = scratch.write("nothing", "#!/bin/sh\n")?;
        for program in &self.programs {
            archive.executable(program, &nothing)?;
        }
        if self.has_policy {
            let policy = b"# policy of the image\npackage agent_policy\n";
            archive.file("etc/kata-opa/default-policy.rego", policy)?;
        }
        scratch.write("image.cpio", archive.finish()?)
    }
}
