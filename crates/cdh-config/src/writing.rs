//! The document that says the same.

use registry_config::{Document, MAX_DOCUMENT_BYTES, RegistryName, Roots};
use toml::Value;

use crate::finding::{Findings, Place};
use crate::owner::{Owner, Policy};
use crate::registries::{Rule, Target, Way};

/// The text of a document, and which place of the owner's file each of its lines comes from.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) text: String,
    /// The first line of each, from 0.
    places: Vec<(usize, Place)>,
    lines: usize,
}

/// What every entry has.
struct Base<'o> {
    owner: &'o Owner,
    roots: String,
}

/// Writes what was said. What the document cannot say is a problem.
pub(crate) fn write(owner: &Owner, findings: &mut Findings) -> Written {
    let mut out = Written::default();
    if let Some(proxies) = &owner.proxies {
        out.table("[extra-env]", &Place::of_file());
        for (variable, (text, place)) in proxies {
            out.key(variable, text.as_str(), place);
        }
    }
    check_credentials(owner, findings);
    if let Some(policy) = &owner.policy {
        write_policy(policy, &mut out, findings);
    }
    let base = Base { owner, roots: roots(owner, findings) };
    if owner.credentials.is_some() || !base.roots.is_empty() {
        out.entry(".", &Place::of_file());
        base.write(&mut out, true);
    }
    for rule in &owner.rules {
        base.write_rule(rule, &mut out, findings);
    }
    base.write_plain_mirrors(&mut out, findings);
    out
}

/// Writes the image policy, whose text or reference counts as it stands.
fn write_policy(policy: &Policy, out: &mut Written, findings: &mut Findings) {
    let (key, (text, place)) = match policy {
        Policy::Text(placed) => ("text", placed),
        Policy::Reference(placed) => ("uri", placed),
    };
    if key == "uri" && !is_reference(text) {
        let rule = "the document has a policy by \"kbs:///repository/type/tag\" only, and none \
            from a file of the guest; or write the policy itself into image_security_policy of \
            cdh.toml";
        findings.problem(place.clone(), rule);
        return;
    }
    if key == "uri" {
        let note = "a signature of that policy without signedIdentity means matchRepository here; \
            by the uri of an [image-policy] it does so only where all keys are kbs: URIs, so write \
            it into the policy";
        findings.note(place.clone(), note);
    }
    out.table("[image-policy]", place);
    out.key(key, text.as_str(), place);
}

/// Whether a text names a resource of the broker.
fn is_reference(text: &str) -> bool {
    text.starts_with("kbs://") || text.starts_with("kbs+")
}

/// The hub takes files of the guest too.
fn check_credentials(owner: &Owner, findings: &mut Findings) {
    let Some((text, place)) = &owner.credentials else {
        return;
    };
    if !is_reference(text) {
        let text = "the document has credentials by \"kbs:///repository/type/tag\" only, and none \
            from a file of the guest";
        findings.problem(place.clone(), text);
    }
}

/// All certificates in one text.
fn roots(owner: &Owner, findings: &mut Findings) -> String {
    let mut all = String::new();
    for (text, place) in &owner.roots {
        match Roots::parse(text) {
            Ok(roots) if roots.trusts_nobody() => {
                findings.problem(place.clone(), "has no PEM certificate");
            }
            Ok(_) => {
                all.push_str(text.trim());
                all.push('\n');
            }
            Err(rules) => {
                for rule in rules {
                    findings.problem(place.clone(), rule.to_string());
                }
            }
        }
    }
    all
}

impl Base<'_> {
    /// The keys that every entry has.
    fn write(&self, out: &mut Written, with_credentials: bool) {
        if let Some((text, place)) = self.owner.credentials.as_ref().filter(|_| with_credentials) {
            out.key("credentials-uri", text.as_str(), place);
            out.key("credentials-optional", true, place);
        }
        if let Some((_, place)) = self.owner.roots.first() {
            out.key("ca-certs", self.roots.as_str(), place);
            out.key("web-roots", true, place);
        }
    }

    fn write_rule(&self, rule: &Rule, out: &mut Written, findings: &mut Findings) {
        let Rule { place, name, way, .. } = rule;
        out.entry(name, place);
        match way {
            Way::Blocked => out.key("ca-certs", "blocked by registry_config", place),
            Way::Direct { is_plain: false } => self.write(out, true),
            Way::Direct { is_plain: true } => {
                if self.owner.credentials.is_some() {
                    let text = "is asked over plain HTTP, and therefore without the credentials \
                        that are fetched";
                    findings.note(place.clone(), text);
                }
                self.write(out, false);
                out.key("plain-http", true, place);
            }
            Way::Elsewhere { targets, has_fallback, is_plain } => {
                for target in targets {
                    self.check(target, findings);
                }
                self.write(out, true);
                out.mirrors(targets);
                out.key("mirror-fallback", *has_fallback, place);
                if *is_plain {
                    self.check_plain(place, findings);
                    out.key("plain-http", true, place);
                }
            }
        }
    }

    /// Whether a mirror can be asked as it is meant.
    fn check(&self, target: &Target, findings: &mut Findings) {
        if target.is_plain {
            self.check_plain(&target.place, findings);
        }
        if let Some(own) = self.own_rule(target)
            && matches!(own.way, Way::Blocked)
        {
            let text = format!("its host is blocked by {}", own.place.key);
            findings.problem(target.place.clone(), text);
        }
    }

    fn check_plain(&self, place: &Place, findings: &mut Findings) {
        if self.owner.credentials.is_some() {
            let text = "is asked over plain HTTP, which no pull with fetched credentials is; take \
                \"insecure\" or the credentials out";
            findings.problem(place.clone(), text);
        }
    }

    /// The rule about images of a mirror's own host.
    fn own_rule(&self, target: &Target) -> Option<&Rule> {
        let rule = |name: String| {
            let name = RegistryName::parse(&name).ok()?;
            self.owner.rules.iter().find(|rule| rule.key == name)
        };
        let wide = || rule(target.host.name()).filter(|_| !target.is_plain);
        rule(target.entry_name()).or_else(wide)
    }

    /// The entries that mirrors at plain HTTP need.
    fn write_plain_mirrors(&self, out: &mut Written, findings: &mut Findings) {
        let targets = self.owner.rules.iter().flat_map(|rule| match &rule.way {
            Way::Elsewhere { targets, .. } => targets.as_slice(),
            _ => &[],
        });
        let mut written = Vec::new();
        for target in targets.filter(|target| target.is_plain) {
            if self.own_rule(target).is_some() || written.contains(&&target.host) {
                continue;
            }
            if target.host.port().is_some() {
                let text = "images of this very host and port may come over plain HTTP too";
                findings.note(target.place.clone(), text);
            }
            out.entry(&target.entry_name(), &target.place);
            self.write(out, false);
            out.key("plain-http", true, &target.place);
            written.push(&target.host);
        }
    }
}

impl Written {
    fn entry(&mut self, name: &str, place: &Place) {
        self.table(&format!("[registries.{}]", Value::from(name)), place);
    }

    fn table(&mut self, header: &str, place: &Place) {
        let separator = if self.text.is_empty() { "" } else { "\n" };
        self.push(&format!("{separator}{header}\n"), place);
    }

    fn key(&mut self, key: &str, value: impl Into<Value>, place: &Place) {
        self.push(&format!("{key} = {}\n", value.into()), place);
    }

    /// One mirror as people write it, several or other names as a list.
    fn mirrors(&mut self, targets: &[Target]) {
        if let [target] = targets
            && target.rewrite.is_none()
        {
            return self.key("mirror", target.url(), &target.place);
        }
        let Some(first) = targets.first() else {
            return;
        };
        self.push("mirrors = [\n", &first.place);
        for target in targets {
            let url = Value::from(target.url());
            let item = match &target.rewrite {
                None => url.to_string(),
                Some(rule) => format!(
                    "{{ url = {url}, rewrite = [{{ from = {}, to = {} }}] }}",
                    Value::from(rule.from()),
                    Value::from(rule.to())
                ),
            };
            self.push(&format!("    {item},\n"), &target.place);
        }
        self.push("]\n", &first.place);
    }

    /// Each entry repeats the certificates: what is too long for a document does not grow on.
    fn push(&mut self, lines: &str, place: &Place) {
        if self.text.len() > MAX_DOCUMENT_BYTES {
            return;
        }
        self.places.push((self.lines, place.clone()));
        self.lines += lines.matches('\n').count();
        self.text.push_str(lines);
    }

    /// Reads the text as the guest reads a measured document; what it refuses is a problem, what it
    /// warns of a note, each at its place.
    pub(crate) fn read(&self, findings: &mut Findings) -> Document {
        match Document::parse_measured(self.text.as_bytes()) {
            Ok(checked) => {
                for warning in checked.warnings {
                    findings.note(self.place(warning.line), warning.effect.to_string());
                }
                checked.document
            }
            Err(problems) => {
                for problem in problems.iter() {
                    findings.problem(self.place(problem.line), problem.rule.to_string());
                }
                Document::default()
            }
        }
    }

    fn place(&self, line: usize) -> Place {
        let before = self.places.iter().rev().find(|(first, _)| *first < line);
        before.map_or_else(Place::of_file, |(_, place)| place.clone())
    }
}
