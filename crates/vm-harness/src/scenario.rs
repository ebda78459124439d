//! What a VM that runs the guest's job is started with.

use std::ffi::OsString;
use std::path::PathBuf;

use sha2::{Digest, Sha256, Sha384};

use crate::fixture::Kernel;
use crate::layout::hex;
use crate::{Network, Program};

/// What a sandbox is started with.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The sandbox's id.
    pub id: String,
    /// The guest's kernel.
    pub kernel: Kernel,
    /// The image to ask for.
    pub image: String,
    /// The node's default document; none: the wrapper attaches no disk.
    pub document: Option<String>,
    /// The initdata document; none: no initdata disk.
    pub initdata: Option<String>,
    /// What the guest's TEE says about it.
    pub evidence: Evidence,
    /// More kernel parameters.
    pub kernel_parameters: Vec<String>,
    /// Contents of further read-only disks.
    pub disks: Vec<Vec<u8>>,
    /// Further lines of the wrapper's settings.
    pub settings: String,
    /// Directories from which a pod may choose a document.
    pub annotation_allow: Vec<PathBuf>,
    /// Annotations of the pod.
    pub annotations: Vec<(String, String)>,
    /// What the guest can reach.
    pub network: Network,
    /// Further lines of the guest's `/etc/hosts`.
    pub hosts: String,
    /// A shell script in the place of `qemu-fixtures/guest/job`.
    pub job: Option<String>,
    /// An initrd that was made elsewhere. It has all that the guest needs; `job`, `files`,
    /// `programs` and `hosts` are for those that are made here.
    pub initrd: Option<PathBuf>,
    /// Further files of the guest: path without the leading slash, content.
    pub files: Vec<(String, Vec<u8>)>,
    /// Further programs in the guest's `/bin`.
    pub programs: Vec<Program>,
    /// Further arguments of QEMU.
    pub arguments: Vec<OsString>,
    /// The hypervisor behind the wrapper.
    pub qemu: PathBuf,
    /// A wrapper that somebody installed, with settings of its own: `qemu`, `document`, `settings`
    /// and `annotation_allow` are for the one that was built.
    pub wrapper: Option<PathBuf>,
    /// A part of the one line on standard error, where the wrapper refuses and the VM runs.
    pub says: Option<String>,
}

impl Scenario {
    /// A guest that runs only `job`: no disks of ours, no TEE, nothing to pull.
    #[must_use]
    pub fn bare(job: impl Into<String>) -> Self {
        Self {
            id: "5d1c7e90ab".to_owned(),
            kernel: Kernel::default(),
            image: String::new(),
            document: None,
            initdata: None,
            evidence: Evidence::None,
            kernel_parameters: Vec::new(),
            disks: Vec::new(),
            settings: String::new(),
            annotation_allow: Vec::new(),
            annotations: Vec::new(),
            network: Network::Open,
            hosts: String::new(),
            job: Some(job.into()),
            initrd: None,
            files: Vec::new(),
            programs: Vec::new(),
            arguments: Vec::new(),
            qemu: "/usr/bin/qemu-system-x86_64".into(),
            wrapper: None,
            says: None,
        }
    }
}

impl Scenario {
    /// What the guest's scripts find in `job/parameters`.
    #[must_use]
    pub fn parameters(&self) -> String {
        let (image, id) = (&self.image, &self.id);
        let tee = self.evidence.module_arguments();
        format!("IMAGE='{image}'\nBUNDLE='/run/kata-containers/{id}'\nTEE='{tee}'\n")
    }
}

/// What the guest's TEE reports as the initdata digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// There is no TEE.
    None,
    /// AMD SEV-SNP with this HOSTDATA.
    Snp([u8; 32]),
    /// Intel TDX with this MRCONFIGID.
    Tdx([u8; 48]),
}

impl Evidence {
    /// SNP evidence for a document that names `sha256` as its algorithm.
    #[must_use]
    pub fn snp(initdata: &str) -> Self {
        Self::Snp(Sha256::digest(initdata).into())
    }

    /// TDX evidence for a document that names `sha384` as its algorithm.
    #[must_use]
    pub fn tdx(initdata: &str) -> Self {
        Self::Tdx(Sha384::digest(initdata).into())
    }

    /// The arguments of the fixture's kernel module, in the job's `TEE`.
    fn module_arguments(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Snp(data) => format!("platform=snp hostdata={}", hex(data)),
            Self::Tdx(data) => format!("platform=tdx hostdata={}", hex(data)),
        }
    }
}
