//! The table: runs of `initdata-processor` in one guest, each with other modules, and what has to
//! come of them.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use config_image::{Magic, encode};
use end_to_end::{assert_tells, run};
use sha2::{Digest, Sha256, Sha384, Sha512};
use vm_harness::{Kernel, Report, Scenario, site};

use Expected::{Refused, Unverified, Verified};

/// `try NAME ALGORITHM TEE`: one run, with the module's arguments; "-" leaves the module out.
const SHELL: &str = r#"
disk=/dev/$(grep -lx initdata /sys/block/*/serial | cut -d/ -f4)
mkdir /scratch

try() {
    rm -rf /run/measured-cfg /run/insecure-cfg
    # A refusal takes the node away.
    [ -b "$disk" ] || mknod "$disk" b $(tr : " " <"/sys/block/${disk##*/}/dev")
    dd if="/job/$2.img" of="$disk" conv=fsync 2>/dev/null
    [ "$3" = - ] || insmod /modules/tee_fixture.ko $3
    initdata-processor >/scratch/said 2>&1
    mark run "$1: exit $?"
    while read -r line; do mark said "$1: $line"; done </scratch/said
    mark policy "$1: $(grep -c ':= true' /run/measured-cfg/policy.rego)"
    [ "$3" = - ] || rmmod tee_fixture
}
"#;

/// What comes of a run.
#[derive(Debug)]
pub enum Expected {
    /// Verified, by the algorithm that the document names.
    Verified,
    /// Refused, and the words of the reason.
    Refused(&'static [&'static str]),
    /// No TEE: accepted by the kernel parameter.
    Unverified,
}

/// The job, and what each of its runs has to come to.
pub struct Table {
    job: String,
    rows: Vec<(String, &'static str, Expected)>,
}

impl Table {
    pub fn new() -> Self {
        Self { job: SHELL.to_owned(), rows: Vec::new() }
    }

    /// Between two runs.
    pub fn shell(&mut self, line: &str) {
        writeln!(self.job, "{line}").unwrap_or_default();
    }

    /// A run with the document that names sha256.
    pub fn row(&mut self, name: &str, tee: &str, expected: Expected) {
        self.row_with("sha256", name, tee, expected);
    }

    pub fn row_with(&mut self, algorithm: &'static str, name: &str, tee: &str, expected: Expected) {
        let name = name.replace(' ', "-");
        self.shell(&format!("try {name} {algorithm} '{tee}'"));
        self.rows.push((name, algorithm, expected));
    }

    /// Boots one guest that runs it all, and compares.
    pub fn check(self) -> Result<()> {
        let files = ALGORITHMS
            .iter()
            .map(|algorithm| {
                let image = encode(Magic::INITDATA, document(algorithm).as_bytes())?;
                Ok((format!("job/{algorithm}.img"), image.to_vec()))
            })
            .collect::<Result<_>>()?;
        let report = run(&Scenario {
            kernel: Kernel::Backports,
            initdata: Some(document("sha256")),
            files,
            kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
            ..Scenario::bare(self.job)
        })?;
        assert!(!self.rows.is_empty());
        for (name, algorithm, expected) in &self.rows {
            check_row(&report, name, algorithm, expected)
                .with_context(|| format!("{name}\n{}", report.console))?;
        }
        Ok(())
    }
}

fn check_row(report: &Report, name: &str, algorithm: &str, expected: &Expected) -> Result<()> {
    let prefix = format!("{name}: ");
    let values = |mark: &str| -> Vec<&str> {
        report.values(mark).filter_map(|value| value.strip_prefix(&prefix)).collect()
    };
    let only = |mark: &str| values(mark).first().copied().context("no such mark");
    let said = values("said").join("\n");
    println!("{name}: {}\n{said}\n", only("run")?);
    // The sample document's policy permits something, the deny-all policy nothing.
    let (exit, policy) = match expected {
        Verified => {
            assert_tells(&said, &["initdata verified", algorithm]);
            ("exit 0", "1")
        }
        Unverified => {
            assert_tells(&said, &["initdata NOT verified", "no TEE"]);
            ("exit 0", "1")
        }
        Refused(words) => {
            assert_tells(&said, words);
            assert!(!said.contains("verified,"), "{name}: {said}");
            ("exit 65", "0")
        }
    };
    assert_eq!(only("run")?, exit, "{name}: {said}");
    assert_eq!(only("policy")?, policy, "{name}: {said}");
    Ok(())
}

pub const ALGORITHMS: [&str; 3] = ["sha256", "sha384", "sha512"];

/// The sample document, of one length whatever it names, so that all fit the same disk.
fn document(algorithm: &str) -> String {
    site::sample_initdata().replace("sha256", algorithm)
}

/// The field of `size` bytes that announces that document: cut or padded.
pub fn announced(algorithm: &str, size: usize) -> Vec<u8> {
    let document = document(algorithm);
    let mut digest = match algorithm {
        "sha384" => Sha384::digest(document).to_vec(),
        "sha512" => Sha512::digest(document).to_vec(),
        _ => Sha256::digest(document).to_vec(),
    };
    digest.resize(size, 0);
    digest
}

/// The same with the last byte's last bit changed: in the padding, where there is some.
pub fn almost(algorithm: &str, size: usize) -> Vec<u8> {
    let mut field = announced(algorithm, size);
    if let Some(last) = field.last_mut() {
        *last ^= 1;
    }
    field
}

/// The module's argument.
pub fn hostdata(field: &[u8]) -> String {
    field.iter().fold("hostdata=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
