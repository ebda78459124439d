//! The one platform that signs and drivers agree on.

use std::fmt;
use std::path::Path;

use super::EvidenceError;
use super::sign::Signs;

/// A TEE that this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// AMD SEV-SNP.
    Snp,
    /// Intel TDX.
    Tdx,
}

impl Platform {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Snp, Self::Tdx];

    /// The name of the driver's device node.
    #[must_use]
    pub const fn device(self) -> &'static str {
        match self {
            Self::Snp => "sev-guest",
            Self::Tdx => "tdx_guest",
        }
    }

    /// The name by which the same driver is a TSM provider.
    #[must_use]
    pub const fn provider(self) -> &'static str {
        match self {
            Self::Snp => "sev_guest",
            Self::Tdx => "tdx_guest",
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snp => "SNP",
            Self::Tdx => "TDX",
        })
    }
}

/// What the kernel shows about what it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The platform that shows it.
    pub platform: Platform,
    /// Its description in messages.
    pub source: String,
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tells of {}", self.source, self.platform)
    }
}

/// A driver of the report, by its device node or as the TSM's provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The platform whose reports it makes; `None` for one that is unknown here, such as Arm's CCA.
    pub platform: Option<Platform>,
    /// Whether it is a device node.
    pub is_device: bool,
    /// Its description in messages.
    pub source: String,
}

impl Driver {
    /// The driver with this device node.
    #[must_use]
    pub fn device(platform: Platform, node: &Path) -> Self {
        Self { platform: Some(platform), is_device: true, source: node.display().to_string() }
    }

    /// The driver that is the TSM provider `name`.
    #[must_use]
    pub fn provider(name: &str) -> Self {
        Self {
            platform: Platform::ALL.into_iter().find(|platform| platform.provider() == name),
            is_device: false,
            source: format!("the TSM provider {name:?}"),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.platform {
            Some(platform) => write!(f, "{} is the driver of {platform}", self.source),
            None => write!(f, "{} is the driver of an unknown platform", self.source),
        }
    }
}

/// The sign of the platform that this machine is, which no other sign and no driver contradicts;
/// `None` without a TEE.
pub fn agreed(signs: Signs, drivers: &[Driver]) -> Result<Option<Sign>, EvidenceError> {
    let sign = match (signs.snp, signs.tdx) {
        (Some(first), Some(second)) => return Err(EvidenceError::TwoPlatforms { first, second }),
        (Some(sign), None) | (None, Some(sign)) => sign,
        (None, None) if drivers.is_empty() => return Ok(None),
        (None, None) => {
            let drivers: Vec<String> = drivers.iter().map(ToString::to_string).collect();
            return Err(EvidenceError::NoSign {
                drivers: drivers.join(" and "),
                snp: signs.snp_place,
                tdx: signs.tdx_place,
            });
        }
    };
    match drivers.iter().find(|driver| driver.platform != Some(sign.platform)) {
        Some(other) => Err(EvidenceError::OtherDriver { driver: other.clone(), sign }),
        None => Ok(Some(sign)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signs and drivers, each a word, and what comes of them.
    fn outcome(signs: &str, drivers: &str) -> String {
        let sign = |platform: Platform| {
            signs
                .split(' ')
                .any(|word| word == platform.to_string())
                .then(|| Sign { platform, source: format!("sign-{platform}") })
        };
        let signs = Signs {
            snp: sign(Platform::Snp),
            tdx: sign(Platform::Tdx),
            snp_place: "/snp".into(),
            tdx_place: "/tdx".into(),
        };
        let drivers: Vec<Driver> = drivers
            .split_whitespace()
            .map(|word| match word {
                "/sev-guest" => Driver::device(Platform::Snp, Path::new(word)),
                "/tdx_guest" => Driver::device(Platform::Tdx, Path::new(word)),
                name => Driver::provider(name),
            })
            .collect();
        match agreed(signs, &drivers) {
            Ok(None) => "no TEE".to_owned(),
            Ok(Some(sign)) => sign.platform.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn signs_decide_and_drivers_agree() {
        for (signs, drivers, expected) in [
            ("", "", "no TEE"),
            ("SNP", "", "SNP"),
            ("SNP", "/sev-guest", "SNP"),
            ("SNP", "sev_guest", "SNP"),
            ("SNP", "/sev-guest sev_guest", "SNP"),
            ("TDX", "/tdx_guest", "TDX"),
            ("TDX", "/tdx_guest tdx_guest", "TDX"),
        ] {
            assert_eq!(outcome(signs, drivers), expected, "{signs}; {drivers}");
        }
    }

    #[test]
    fn every_contradiction_names_both_sides() {
        for (signs, drivers, words) in [
            ("SNP TDX", "", ["sign-SNP tells of SNP", "sign-TDX tells of TDX"]),
            ("SNP TDX", "/sev-guest", ["sign-SNP", "sign-TDX"]),
            ("SNP", "/tdx_guest", ["sign-SNP", "/tdx_guest is the driver of TDX"]),
            ("SNP", "/sev-guest /tdx_guest", ["sign-SNP", "/tdx_guest"]),
            ("SNP", "tdx_guest", ["sign-SNP", "provider \"tdx_guest\""]),
            ("SNP", "/sev-guest tdx_guest", ["sign-SNP", "\"tdx_guest\""]),
            (
                "SNP",
                "/sev-guest arm_cca_guest",
                ["sign-SNP", "\"arm_cca_guest\" is the driver of an unknown platform"],
            ),
            ("TDX", "/sev-guest", ["sign-TDX", "/sev-guest"]),
            ("TDX", "/tdx_guest sev_guest", ["sign-TDX", "\"sev_guest\""]),
            ("", "/sev-guest", ["/sev-guest is the driver of SNP", "no sign"]),
            ("", "sev_guest", ["\"sev_guest\"", "neither /snp nor"]),
            ("", "/sev-guest /tdx_guest", ["/sev-guest", "/tdx_guest"]),
            ("", "another", ["\"another\"", "in /tdx"]),
        ] {
            let text = outcome(signs, drivers);
            for word in words {
                assert!(text.contains(word), "{signs}; {drivers}: {text}");
            }
        }
    }

    #[test]
    fn only_the_exact_name_is_a_known_provider() {
        for name in ["", "sev-guest", "SEV_GUEST", "sev_guest ", "sev_guest2", "tdx"] {
            assert_eq!(Driver::provider(name).platform, None, "{name}");
        }
    }
}
