//! Test only: reports built from the published tables of their fields, every field with bytes of
//! its own.
//!
//! The offsets here come from the tables, not from the parsers: adding up the sizes must give them.

use linux_sys::sev_guest::RESPONSE_BYTES;
use linux_sys::tdx_guest::TDREPORT_BYTES;

use super::LABEL;

/// Name, published offset, size.
type Row = (&'static str, usize, usize);

/// AMD 56860, ATTESTATION_REPORT: up to what versions differ in.
const SNP_START: &[Row] = &[
    ("VERSION", 0x000, 4),
    ("GUEST_SVN", 0x004, 4),
    ("POLICY", 0x008, 8),
    ("FAMILY_ID", 0x010, 16),
    ("IMAGE_ID", 0x020, 16),
    ("VMPL", 0x030, 4),
    ("SIGNATURE_ALGO", 0x034, 4),
    ("CURRENT_TCB", 0x038, 8),
    ("PLATFORM_INFO", 0x040, 8),
    ("SIGNING_KEY, MASK_CHIP_KEY, AUTHOR_KEY_EN", 0x048, 4),
    ("reserved", 0x04c, 4),
    ("REPORT_DATA", 0x050, 64),
    ("MEASUREMENT", 0x090, 48),
    ("HOST_DATA", 0x0c0, 32),
    ("ID_KEY_DIGEST", 0x0e0, 48),
    ("AUTHOR_KEY_DIGEST", 0x110, 48),
    ("REPORT_ID", 0x140, 32),
    ("REPORT_ID_MA", 0x160, 32),
    ("REPORTED_TCB", 0x180, 8),
];

const SNP_2: &[Row] = &[("reserved", 0x188, 24)];

const SNP_3: &[Row] = &[
    ("CPUID_FAM_ID", 0x188, 1),
    ("CPUID_MOD_ID", 0x189, 1),
    ("CPUID_STEP", 0x18a, 1),
    ("reserved", 0x18b, 21),
];

const SNP_MIDDLE: &[Row] = &[
    ("CHIP_ID", 0x1a0, 64),
    ("COMMITTED_TCB", 0x1e0, 8),
    ("CURRENT_BUILD", 0x1e8, 1),
    ("CURRENT_MINOR", 0x1e9, 1),
    ("CURRENT_MAJOR", 0x1ea, 1),
    ("reserved", 0x1eb, 1),
    ("COMMITTED_BUILD", 0x1ec, 1),
    ("COMMITTED_MINOR", 0x1ed, 1),
    ("COMMITTED_MAJOR", 0x1ee, 1),
    ("reserved", 0x1ef, 1),
    ("LAUNCH_TCB", 0x1f0, 8),
];

const SNP_BEFORE_5: &[Row] = &[("reserved", 0x1f8, 168)];

const SNP_5: &[Row] =
    &[("LAUNCH_MIT_VECTOR", 0x1f8, 8), ("CURRENT_MIT_VECTOR", 0x200, 8), ("reserved", 0x208, 152)];

const SNP_END: &[Row] = &[("SIGNATURE", 0x2a0, 512)];

/// Intel TDX module ABI, TDREPORT_STRUCT, with the fields of TDX 1.5.
const TDX: &[Row] = &[
    // REPORTMACSTRUCT
    ("REPORTTYPE", 0, 4),
    ("reserved", 4, 12),
    ("CPUSVN", 16, 16),
    ("TEE_TCB_INFO_HASH", 32, 48),
    ("TEE_INFO_HASH", 80, 48),
    ("REPORTDATA", 128, 64),
    ("reserved", 192, 32),
    ("MAC", 224, 32),
    // TEE_TCB_INFO
    ("VALID", 256, 8),
    ("TEE_TCB_SVN", 264, 16),
    ("MRSEAM", 280, 48),
    ("MRSIGNERSEAM", 328, 48),
    ("SEAM ATTRIBUTES", 376, 8),
    ("TEE_TCB_SVN2", 384, 16),
    ("reserved", 400, 95),
    ("reserved", 495, 17),
    // TDINFO_STRUCT
    ("ATTRIBUTES", 512, 8),
    ("XFAM", 520, 8),
    ("MRTD", 528, 48),
    ("MRCONFIGID", 576, 48),
    ("MROWNER", 624, 48),
    ("MROWNERCONFIG", 672, 48),
    ("RTMR0", 720, 48),
    ("RTMR1", 768, 48),
    ("RTMR2", 816, 48),
    ("RTMR3", 864, 48),
    ("SERVTD_HASH", 912, 48),
    ("reserved", 960, 64),
];

/// A report and where its fields are.
pub struct Sample {
    pub bytes: Vec<u8>,
    rows: Vec<Row>,
}

impl Sample {
    fn new(parts: &[&[Row]]) -> Self {
        let rows = parts.concat();
        let mut bytes = Vec::new();
        for (number, (name, offset, size)) in rows.iter().enumerate() {
            assert_eq!(bytes.len(), *offset, "{name}");
            bytes.extend((0..*size).map(|position| (number * 41 + position * 3 + 1) as u8));
        }
        Self { bytes, rows }
    }

    pub fn field(&self, name: &str) -> &[u8] {
        let (_, offset, size) = self.row(name);
        &self.bytes[offset..offset + size]
    }

    pub fn set(&mut self, name: &str, value: &[u8]) {
        let (_, offset, size) = self.row(name);
        self.bytes[offset..offset + size].copy_from_slice(value);
    }

    /// The field that the byte at `offset` belongs to.
    pub fn name_at(&self, offset: usize) -> &'static str {
        let holds = |row: &&Row| (row.1..row.1 + row.2).contains(&offset);
        self.rows.iter().find(holds).unwrap().0
    }

    fn row(&self, name: &str) -> Row {
        *self.rows.iter().find(|row| row.0 == name).unwrap()
    }
}

/// An SNP report to our request.
pub fn snp_report(version: u32) -> Sample {
    let mut sample = Sample::new(&[
        SNP_START,
        if version >= 3 { SNP_3 } else { SNP_2 },
        SNP_MIDDLE,
        if version >= 5 { SNP_5 } else { SNP_BEFORE_5 },
        SNP_END,
    ]);
    assert_eq!(sample.bytes.len(), 0x4a0);
    sample.set("VERSION", &version.to_le_bytes());
    sample.set("REPORT_DATA", LABEL);
    sample
}

/// MSG_REPORT_RSP with that report: status, size, 24 reserved bytes.
pub fn snp_response(report: &Sample) -> Box<[u8; RESPONSE_BYTES]> {
    let mut bytes = Box::new([0; RESPONSE_BYTES]);
    bytes[4..8].copy_from_slice(&1184_u32.to_le_bytes());
    bytes[8..32].fill(0xee);
    bytes[32..32 + 1184].copy_from_slice(&report.bytes);
    bytes[32 + 1184..].fill(0xdd);
    bytes
}

/// A TDREPORT to our request. `version` is REPORTTYPE's: 0, or 1 where a service TD is bound.
pub fn tdx_report(version: u8) -> Sample {
    let mut sample = Sample::new(&[TDX]);
    assert_eq!(sample.bytes.len(), TDREPORT_BYTES);
    sample.set("REPORTTYPE", &[0x81, 0, version, 0]);
    sample.set("REPORTDATA", LABEL);
    sample
}

/// The seeds of the fuzz target `evidence`: what it is to be read as, then the bytes.
fn seeds() -> [(&'static str, Vec<u8>); 5] {
    let snp = snp_report(2);
    let with = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    [
        ("snp-response", with(0, &snp_response(&snp)[..])),
        ("snp-report-2", with(1, &snp.bytes)),
        ("snp-report-3", with(1, &snp_report(3).bytes)),
        ("snp-report-5", with(1, &snp_report(5).bytes)),
        ("tdx-report", with(2, &tdx_report(0).bytes)),
    ]
}

/// The seeds are kept as files for the fuzzer; `WRITE_SEEDS=1 cargo test -p
/// initdata-processor --lib seeds` writes them anew.
#[test]
fn the_seeds_of_the_fuzz_target_are_these_samples() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/evidence");
    for (name, bytes) in seeds() {
        let path = folder.join(name);
        if std::env::var_os("WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
    }
}
