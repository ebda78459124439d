//! The platform that images run on, and the choice among those that an index offers.

use std::fmt;

use serde::Deserialize;

/// An operating system and processor architecture, in the spelling of Go that image formats use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// The operating system, such as `linux`.
    #[serde(default)]
    pub os: String,
    /// The architecture, such as `amd64`.
    #[serde(default)]
    pub architecture: String,
    /// The variant of the architecture, such as `v8`.
    #[serde(default)]
    pub variant: Option<String>,
}

impl Platform {
    /// The platform of this guest.
    pub fn of_guest() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self {
            os: std::env::consts::OS.to_owned(),
            architecture: architecture.to_owned(),
            variant: None,
        }
    }

    /// How well an image for `offered` runs here, or that it does not. Less is better.
    fn rank(&self, offered: &Self) -> Option<u8> {
        if self.os != offered.os || self.architecture != offered.architecture {
            return None;
        }
        match (self.architecture.as_str(), offered.variant.as_deref()) {
            (_, None | Some("")) => Some(0),
            // The variants that name what every processor of the architecture can do.
            ("amd64", Some("v1")) | ("arm64", Some("v8")) => Some(0),
            // Others may need instructions that this guest lacks, so they are the last resort.
            _ => Some(1),
        }
    }

    /// Whether an image whose configuration says `offered` runs here; a field that is not filled in objects to nothing.
    pub fn accepts(&self, offered: &Self) -> bool {
        let agrees = |ours: &str, theirs: &str| theirs.is_empty() || ours == theirs;
        agrees(&self.os, &offered.os) && agrees(&self.architecture, &offered.architecture)
    }

    /// The position of the best of the platforms offered; of equals, the first. Entries without a platform are skipped.
    pub fn choose<'a>(&self, offered: impl Iterator<Item = Option<&'a Self>>) -> Option<usize> {
        let ranked = offered
            .enumerate()
            .filter_map(|(at, platform)| Some((self.rank(platform?)?, at)));
        ranked.min().map(|(_, at)| at)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant
            .as_ref()
            .map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Option<Platform> {
        let mut parts = text.split('/').map(str::to_owned);
        let os = parts.next().filter(|os| !os.is_empty())?;
        Some(Platform {
            os,
            architecture: parts.next().unwrap_or_default(),
            variant: parts.next(),
        })
    }

    #[test]
    fn the_guest_gets_its_own_platform() {
        for (guest, offered, chosen) in [
            ("linux/amd64", vec!["linux/arm64", "linux/amd64"], Some(1)),
            (
                "linux/amd64",
                vec!["windows/amd64", "linux/amd64/v3", "linux/amd64"],
                Some(2),
            ),
            ("linux/amd64", vec!["linux/amd64/v2"], Some(0)),
            (
                "linux/amd64",
                vec!["", "unknown/unknown", "linux/amd64"],
                Some(2),
            ),
            ("linux/amd64", vec!["linux/amd64", "linux/amd64"], Some(0)),
            (
                "linux/arm64",
                vec!["linux/arm/v7", "linux/arm64/v8"],
                Some(1),
            ),
            ("linux/arm64", vec!["linux/arm/v7", "unknown/unknown"], None),
            ("linux/amd64", vec![], None),
        ] {
            let guest = platform(guest).unwrap();
            let platforms: Vec<_> = offered.iter().map(|text| platform(text)).collect();
            assert_eq!(
                guest.choose(platforms.iter().map(Option::as_ref)),
                chosen,
                "{offered:?}"
            );
        }
    }

    #[test]
    fn an_image_for_another_platform_is_not_accepted() {
        let guest = Platform::of_guest();
        assert!(guest.accepts(&Platform::default()));
        assert!(guest.accepts(&guest));
        assert!(!guest.accepts(&Platform {
            architecture: "mips".to_owned(),
            ..guest.clone()
        }));
        assert!(!guest.accepts(&Platform {
            os: "windows".to_owned(),
            ..guest.clone()
        }));
    }
}
