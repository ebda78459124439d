//! What the hub does by a registries.conf: `image.registry_config`.
//!
//! It replaces a prefix of the image's name by a mirror's location, then by the registry's own. So
//! locations with a path give repositories another name, and `insecure` means plain HTTP, for a
//! location only.

use foreign_text::shown;
use foreign_text::toml::{Field, Table};
use registry_config::{MAX_REGISTRIES, MAX_REPOSITORY_MIRRORS, RegistryHost, RegistryName};

use crate::finding::{Findings, Place};
use crate::image::UNKNOWN;
use crate::registries_conf::{self, Registry};

/// The only list of them that keeps every image at one registry.
const DOCKER_HUB: &str = "docker.io";

/// What holds for the hosts of a name.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Where it stands.
    pub(crate) place: Place,
    /// The name as the document writes it.
    pub(crate) name: RegistryName,
    /// What to do.
    pub(crate) way: Way,
}

#[derive(Debug)]
pub(crate) enum Way {
    /// Its images may not be pulled.
    Blocked,
    /// Its images are asked for at the registry itself.
    Direct { is_plain: bool },
    /// Its images are asked for there first.
    Elsewhere {
        /// At least one.
        targets: Vec<Target>,
        /// Whether the registry itself is asked then.
        has_fallback: bool,
        /// Whether that is over plain HTTP.
        is_plain: bool,
    },
}

/// A place that has images of another registry.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) host: RegistryHost,
    pub(crate) is_plain: bool,
    /// What stands before the names of repositories there.
    pub(crate) name: Option<String>,
    pub(crate) place: Place,
}

impl Target {
    /// The name of the entry that is its own. With a port, one about plain HTTP holds for no images
    /// that the host has itself, unless they name that port.
    pub(crate) fn entry_name(&self) -> String {
        match (self.is_plain, self.host.port()) {
            (true, None) => format!("{}:80", self.host),
            _ => self.host.to_string(),
        }
    }

    /// Its address. Docker Hub is served under another name than its own.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_plain { "http" } else { "https" };
        match self.host.is_docker_hub() {
            true => format!("{scheme}://index.docker.io"),
            false => format!("{scheme}://{}", self.host),
        }
    }
}

/// Reads the rules; what has no counterpart is a problem.
pub(crate) fn read(keys: Table<'_, '_>, findings: &mut Findings) -> Vec<Rule> {
    let conf = registries_conf::read(keys);
    for odd in conf.odd {
        let (line, key) = (odd.line, odd.path);
        let text = odd.wrong.map_or_else(|| UNKNOWN.to_owned(), |wrong| wrong.to_string());
        findings.problem(Place { line, key }, text);
    }
    for field in conf.others {
        match field.key {
            "unqualified-search-registries" => check_search(&field, findings),
            _ => findings.problem(&field, UNKNOWN),
        }
    }
    if conf.registries.len() > MAX_REGISTRIES {
        let text = format!("registry_config has more than {MAX_REGISTRIES} registries");
        findings.problem(Place::of_file(), text);
        return Vec::new();
    }
    let mut rules: Vec<Rule> = Vec::new();
    for registry in &conf.registries {
        let place = Place { line: registry.line, key: registry.path.clone() };
        let Some(rule) = rule(registry, &place, findings) else {
            continue;
        };
        match rules.iter().find(|known| known.name == rule.name) {
            Some(known) => {
                let text = format!("is about the same images as {}", known.place.key);
                findings.problem(place, text);
            }
            None => rules.push(rule),
        }
    }
    rules
}

/// Images of Docker Hub would be looked for at each of the list's registries.
fn check_search(field: &Field<'_, '_>, findings: &mut Findings) {
    let items = findings.typed(field, field.items()).unwrap_or_default();
    let is_usual = matches!(&items[..], [only] if only.text() == Ok(DOCKER_HUB));
    if !is_usual {
        let text = "this version asks for images of Docker Hub nowhere else; write [\"docker.io\"] \
            or take it out";
        findings.problem(field, text);
    }
}

fn rule(registry: &Registry<'_>, place: &Place, findings: &mut Findings) -> Option<Rule> {
    let prefix = match registry.prefix {
        "" => registry.location,
        prefix => prefix,
    };
    let mut refuse = |text: String| {
        findings.problem(place.clone(), text);
        None
    };
    if prefix.contains(['/', '@']) {
        return refuse(
            "is for some repositories only, and this version has rules for whole \
            registries"
                .to_owned(),
        );
    }
    let (name, own) = match prefix.strip_prefix("*.") {
        Some(_) if registry.location.is_empty() => {
            return refuse("has a wildcard and no location, which the hub refuses too".to_owned());
        }
        Some(domain) => (format!(".{domain}"), None),
        None => match RegistryHost::parse(prefix) {
            Ok(host) => (prefix.to_owned(), Some(host)),
            Err(error) => return refuse(format!("its images are those of no host: {error}")),
        },
    };
    let name = match RegistryName::parse(&name) {
        Ok(name) => name,
        Err(error) => return refuse(format!("its images are those of no host: {error}")),
    };
    let way = match registry.blocked {
        true => Some(Way::Blocked),
        false => way(registry, own.as_ref(), place, findings),
    };
    way.map(|way| Rule { place: place.clone(), name, way })
}

fn way(
    registry: &Registry<'_>,
    own: Option<&RegistryHost>,
    place: &Place,
    findings: &mut Findings,
) -> Option<Way> {
    let mut targets = Vec::new();
    for mirror in &registry.mirrors {
        let place = Place { line: mirror.line, key: mirror.path.clone() };
        if !mirror.pull_from_mirror.is_empty() {
            findings.problem(place.clone(), "\"pull-from-mirror\": the hub knows no such key");
        }
        targets.push(target(mirror.location, mirror.insecure, place, findings)?);
    }
    if registry.mirror_by_digest_only {
        findings.problem(place.clone(), "\"mirror-by-digest-only\": the hub knows no such key");
    }
    let mut is_plain = false;
    let mut has_fallback = true;
    if registry.location.is_empty() {
        if registry.insecure {
            let text = "\"insecure\" has no effect, because it is about the location, and there is \
                none";
            findings.note(place.clone(), text);
        }
    } else {
        let location = target(registry.location, registry.insecure, place.clone(), findings)?;
        if Some(&location.host) == own && location.name.is_none() {
            is_plain = location.is_plain;
        } else {
            has_fallback = false;
            targets.push(location);
        }
    }
    // A last mirror that is the registry itself is asked next anyway.
    let is_next = |target: &mut Target| {
        Some(&target.host) == own && target.name.is_none() && target.is_plain == is_plain
    };
    while has_fallback && targets.pop_if(is_next).is_some() {}
    if let Some(excess) = targets.get(MAX_REPOSITORY_MIRRORS) {
        let text =
            format!("is one of more than {MAX_REPOSITORY_MIRRORS} places beside the registry");
        findings.problem(excess.place.clone(), text);
        return None;
    }
    Some(match targets.is_empty() {
        true => Way::Direct { is_plain },
        false => Way::Elsewhere { targets, has_fallback, is_plain },
    })
}

fn target(location: &str, is_plain: bool, place: Place, findings: &mut Findings) -> Option<Target> {
    let (address, path) = registries_conf::split(location);
    let name = Some(path.to_owned()).filter(|path| !path.is_empty());
    match RegistryHost::parse(address) {
        Ok(host) => Some(Target { host, is_plain, name, place }),
        Err(error) => {
            let location = shown(location).without_user().quoted();
            findings.problem(place, format!("its location is no host: {location}: {error}"));
            None
        }
    }
}
