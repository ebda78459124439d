//! The document that says the same.

use foreign_text::toml::join;
use registry_config::{
    Document, Effect, ImagePolicy, Mirror, PolicySource, Registry, RegistryName, ResourceUri, Roots,
};

use crate::finding::{Findings, Place};
use crate::owner::{Owner, Policy};
use crate::registries::{Rule, Target, Way};

/// A document in the making.
#[derive(Default)]
pub(crate) struct Draft<'o> {
    config: Document,
    /// Where the owner's file says what a key, or the keys below it, say.
    places: Vec<(String, &'o Place)>,
}

/// What was said. What a document cannot say is a problem.
pub(crate) fn draft<'o>(owner: &'o Owner, findings: &mut Findings) -> Draft<'o> {
    let mut draft = Draft::default();
    if let Some(proxies) = &owner.proxies {
        draft.config.has_extra_env = true;
        for (variable, (text, place)) in proxies.iter().filter(|(_, (text, _))| !text.is_empty()) {
            if let Err(rule) = draft.config.extra_env.set(variable, text) {
                findings.problem(place.clone(), rule.to_string());
            }
            draft.places.push((join("extra-env", variable), place));
        }
    }
    let credentials_uri = credentials(owner, findings);
    if let Some(policy) = &owner.policy {
        draft.set_policy(policy, findings);
    }
    let base = Registry {
        credentials_optional: credentials_uri.is_some(),
        credentials_uri,
        ca_certs: roots(owner, findings),
        ..Registry::default()
    };
    if (base.credentials_uri.is_some() || base.ca_certs.is_some())
        && let Ok(all) = RegistryName::parse(".")
    {
        draft.set(&all, base.clone(), owner.roots.first().map(|(_, place)| place));
    }
    for rule in &owner.rules {
        draft.add_rule(rule, &base, owner, findings);
    }
    draft.add_plain_mirrors(&base, owner, findings);
    draft
}

/// What a text refers to. The hub takes files of the guest too, for which there is `of_file`.
fn reference(
    (text, place): &(String, Place),
    of_file: &str,
    findings: &mut Findings,
) -> Option<ResourceUri> {
    if !text.starts_with("kbs://") && !text.starts_with("kbs+") {
        findings.problem(place.clone(), of_file);
        return None;
    }
    let uri = ResourceUri::parse(text);
    uri.map_err(|rule| findings.problem(place.clone(), rule.to_string())).ok()
}

fn credentials(owner: &Owner, findings: &mut Findings) -> Option<ResourceUri> {
    let placed @ (text, place) = owner.credentials.as_ref()?;
    let of_file = "the document has credentials by \"kbs:///repository/type/tag\" only, and none \
        from a file of the guest";
    let uri = reference(placed, of_file, findings)?;
    if ResourceUri::names_host(text) {
        findings.note(place.clone(), Effect::HostOfBroker.to_string());
    }
    Some(uri)
}

/// All certificates, beside the web's.
fn roots(owner: &Owner, findings: &mut Findings) -> Option<Roots> {
    let mut all = Roots::default();
    for (text, place) in &owner.roots {
        match Roots::parse(text) {
            Ok(roots) if roots.trusts_nobody() => {
                findings.problem(place.clone(), "has no PEM certificate");
            }
            Ok(roots) => all.extend(&roots),
            Err(rules) => {
                for rule in rules {
                    findings.problem(place.clone(), rule.to_string());
                }
            }
        }
    }
    (!all.trusts_nobody()).then(|| all.beside_web())
}

/// Whether a place can be asked over plain HTTP.
fn check_plain(place: &Place, owner: &Owner, findings: &mut Findings) {
    if owner.credentials.is_some() {
        let text = "is asked over plain HTTP, which no pull with fetched credentials is; take \
            \"insecure\" or the credentials out";
        findings.problem(place.clone(), text);
    }
}

/// A mirror, if it can be asked as it is meant.
fn mirror(target: &Target, owner: &Owner, findings: &mut Findings) -> Option<Mirror> {
    if target.is_plain {
        check_plain(&target.place, owner, findings);
    }
    if let Some(own) = own_rule(target, owner)
        && matches!(own.way, Way::Blocked)
    {
        let text = format!("its host is blocked by {}", own.place.key);
        findings.problem(target.place.clone(), text);
    }
    let mirror = Mirror::new(&target.url(), None, target.name.as_deref(), None);
    let told = |rule| findings.problem(target.place.clone(), format!("its location: {rule}"));
    mirror.map_err(told).ok()
}

/// The rule about images of a mirror's own host.
fn own_rule<'o>(target: &Target, owner: &'o Owner) -> Option<&'o Rule> {
    let rule = |name: String| {
        let name = RegistryName::parse(&name).ok()?;
        owner.rules.iter().find(|rule| rule.name == name)
    };
    let wide = || rule(target.host.name()).filter(|_| !target.is_plain);
    rule(target.entry_name()).or_else(wide)
}

impl<'o> Draft<'o> {
    /// Sets the policy, whose text or reference counts as it stands.
    fn set_policy(&mut self, policy: &'o Policy, findings: &mut Findings) {
        let (source, place) = match policy {
            Policy::Text((text, place)) => (PolicySource::Text(text.clone()), place),
            Policy::Reference(placed @ (_, place)) => {
                let of_file = "the document has a policy by \"kbs:///repository/type/tag\" only, \
                    and none from a file of the guest; or write the policy itself into \
                    image_security_policy of cdh.toml";
                let Some(uri) = reference(placed, of_file, findings) else {
                    return;
                };
                let note = "a signature of that policy without signedIdentity means \
                    matchRepository here; by the uri of an [image-policy] it does so only where \
                    all keys are kbs: URIs, so write it into the policy";
                findings.note(place.clone(), note);
                (PolicySource::Uri(uri), place)
            }
        };
        self.config.image_policy = Some(ImagePolicy::new(source));
        self.places.push(("image-policy".to_owned(), place));
    }

    /// Sets an entry. Returns its key.
    fn set(
        &mut self,
        name: &RegistryName,
        entry: Registry,
        place: impl Into<Option<&'o Place>>,
    ) -> String {
        let key = join("registries", &name.written());
        self.places.extend(place.into().map(|place| (key.clone(), place)));
        self.config.registries.set(name.clone(), entry);
        key
    }

    fn add_rule(
        &mut self,
        rule: &'o Rule,
        base: &Registry,
        owner: &'o Owner,
        findings: &mut Findings,
    ) {
        let Rule { place, name, way } = rule;
        let entry = match way {
            Way::Blocked => {
                let ca_certs = Some(Roots::nobody("blocked by registry_config"));
                Registry { ca_certs, ..Registry::default() }
            }
            Way::Direct { is_plain: false } => base.clone(),
            Way::Direct { is_plain: true } => {
                if base.credentials_uri.is_some() {
                    let text = "is asked over plain HTTP, and therefore without the credentials \
                        that are fetched";
                    findings.note(place.clone(), text);
                }
                plain(base)
            }
            Way::Elsewhere { targets, has_fallback, is_plain } => {
                let mirrors = targets.iter().filter_map(|target| mirror(target, owner, findings));
                let mirrors = mirrors.collect();
                if *is_plain {
                    check_plain(place, owner, findings);
                }
                Registry {
                    mirrors,
                    mirror_fallback: *has_fallback,
                    plain_http: *is_plain,
                    ..base.clone()
                }
            }
        };
        let key = self.set(name, entry, place);
        if let Way::Elsewhere { targets, .. } = way {
            // One without other names stands alone.
            self.places.extend(targets.first().map(|only| (join(&key, "mirror"), &only.place)));
            let items = targets.iter().zip(1..);
            let items = items.map(|(target, number): (_, usize)| {
                (format!("{key}.mirrors, item {number}"), &target.place)
            });
            self.places.extend(items);
        }
    }

    /// Adds the entries that mirrors at plain HTTP need.
    fn add_plain_mirrors(&mut self, base: &Registry, owner: &'o Owner, findings: &mut Findings) {
        let targets = owner.rules.iter().flat_map(|rule| match &rule.way {
            Way::Elsewhere { targets, .. } => targets.as_slice(),
            _ => &[],
        });
        for target in targets.filter(|target| target.is_plain) {
            let Ok(name) = RegistryName::parse(&target.entry_name()) else {
                continue;
            };
            if own_rule(target, owner).is_some() || self.config.registries.get(&name).is_some() {
                continue;
            }
            if target.host.port().is_some() {
                let text = "images of this very host and port may come over plain HTTP too";
                findings.note(target.place.clone(), text);
            }
            self.set(&name, plain(base), &target.place);
        }
    }

    /// The document as the guest reads it. What it refuses is a problem, what it warns of a note.
    pub(crate) fn read(&self, findings: &mut Findings) -> Document {
        let text = match self.config.to_toml() {
            Ok(text) => text,
            Err(rule) => {
                findings.problem(Place::of_file(), rule.to_string());
                return Document::default();
            }
        };
        match Document::parse_measured(text.as_bytes()) {
            Ok(checked) => {
                for warning in checked.warnings {
                    findings.note(self.place(&warning.key), warning.effect.to_string());
                }
                checked.document
            }
            Err(problems) => {
                for problem in problems.iter() {
                    findings.problem(self.place(&problem.key), problem.rule.to_string());
                }
                Document::default()
            }
        }
    }

    fn place(&self, key: &str) -> Place {
        let above = self.places.iter().filter(|(above, _)| key.starts_with(above.as_str()));
        let nearest = above.max_by_key(|(above, _)| above.len());
        nearest.map_or_else(Place::of_file, |(_, place)| (*place).clone())
    }
}

/// How a host is asked over plain HTTP: never with credentials that are fetched.
fn plain(base: &Registry) -> Registry {
    Registry { ca_certs: base.ca_certs.clone(), plain_http: true, ..Registry::default() }
}
