//! Sources read one after the other: keys counted, read and told.

use std::collections::BTreeMap;

use keys::KeyError;
use registry_config::{DecryptionKey, MAX_DECRYPTION_KEYS, RegistryName, Rule, Secret};
use zeroize::Zeroizing;

use super::images::{self, Images};
use super::value::{self, Candidate, Written};
use super::{Imported, Key, MAX_PASSWORDS, MAX_VALUES, kind_of};
use crate::secret_manifest::{self, MAX_MANIFEST_BYTES, ManifestError, Object, SecretManifest};
use crate::{Finding, Loss, printable};

/// What follows the name of a key in the name of its password.
const PASSWORD: &str = ".password";

/// Types of secrets that hold something else, whose keys are for something else.
const OTHER_TYPES: [&str; 6] = [
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/dockercfg",
    "kubernetes.io/service-account-token",
    "kubernetes.io/basic-auth",
    "kubernetes.io/ssh-auth",
    "bootstrap.kubernetes.io/token",
];

/// Values that stand beside a key in a secret of the type `kubernetes.io/tls`.
const CERTIFICATES: [&str; 2] = ["tls.crt", "ca.crt"];

/// What was read so far.
pub(super) struct Reading<'i> {
    pub(super) imported: Imported,
    /// What the keys are for, whatever the secrets say; none for what those say.
    only: &'i [RegistryName],
    /// What the keys of the present source are for.
    images: Images,
    /// How many items were counted.
    items: usize,
    /// How many keys with passwords were tried.
    passwords: usize,
}

impl<'i> Reading<'i> {
    pub(super) fn new(only: &'i [RegistryName]) -> Self {
        Self { imported: Imported::default(), only, images: only.to_vec(), items: 0, passwords: 0 }
    }

    pub(super) fn file(&mut self, name: &str, text: &[u8]) -> Result<(), String> {
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLong.to_string());
        }
        if text.trim_ascii().is_empty() {
            self.find(name, "", Loss::Lost, "it is empty, and adds no key");
            return Ok(());
        }
        if !value::may_be_manifest(text) {
            self.value(name, "", text, None);
            return Ok(());
        }
        let objects = secret_manifest::parse(text).map_err(|error| {
            format!(
                "it is no private key in PEM, DER or as JWK, no list of keys in base64, and {error}"
            )
        })?;
        for object in objects {
            match object {
                Object::Secret(secret) => self.secret(name, &secret),
                Object::Other(kind) => {
                    let text = "an object of another kind, which is not looked at";
                    self.find(name, &printable(&kind), Loss::Note, text);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn secret(&mut self, origin: &str, secret: &SecretManifest) {
        let name = printable(&secret.metadata.full_name());
        let source = format!("{origin}: secret {name}");
        if OTHER_TYPES.contains(&secret.kind.as_str()) {
            let text = format!("a secret of the type {} has no decryption keys", secret.kind);
            return self.find(&source, "", Loss::Note, &text);
        }
        match images::of_secret(secret) {
            Ok(named) if self.only.is_empty() => self.images = named,
            Ok(named) if !named.is_empty() && named != self.only => {
                let text = format!(
                    "the secret says {}; its keys are for what this import was told",
                    images::shown(&named)
                );
                self.find(&source, "", Loss::Note, &text);
            }
            Ok(_) => {}
            Err(why) => {
                let text = format!("its keys are left out: its annotation {why}");
                return self.find(&source, "", Loss::Lost, &text);
            }
        }
        self.values(&source, &secret.values());
        self.images = self.only.to_vec();
    }

    /// Reads the values of one secret.
    pub(super) fn values(
        &mut self,
        source: &str,
        values: &BTreeMap<&str, Option<Zeroizing<Vec<u8>>>>,
    ) {
        let is_key = |key: &&str| !CERTIFICATES.contains(key) && !key.ends_with(PASSWORD);
        if !values.keys().any(is_key) {
            let text = "it has no key in it, and adds none: a key is a value with a private key \
                in PEM, DER or as JWK, or with a list base64(key)[:password]";
            self.find(source, "", Loss::Lost, text);
        }
        for (key, value) in values {
            let shown = printable(key);
            if CERTIFICATES.contains(key) {
                let text = "a certificate, which is not looked at";
                self.find(source, &shown, Loss::Note, text);
                continue;
            }
            if let Some(of) = key.strip_suffix(PASSWORD) {
                if !values.contains_key(of) {
                    let why = format!(
                        "it is the password of a value {:?}, which is not there",
                        printable(of)
                    );
                    self.left_out(source, &shown, &why);
                }
                continue;
            }
            let Some(value) = value else {
                self.left_out(source, &shown, "it is not base64");
                continue;
            };
            match values.get(format!("{key}{PASSWORD}").as_str()) {
                Some(None) => self.left_out(source, &shown, "its password is not base64"),
                Some(Some(password)) => {
                    let password = ::docker_config::without_line_end(password);
                    self.value(source, &shown, value, Some(password));
                }
                None => self.value(source, &shown, value, None),
            }
        }
    }

    /// Reads one value, which may be a list.
    fn value(&mut self, source: &str, key: &str, value: &[u8], password: Option<&[u8]>) {
        if self.items > MAX_VALUES {
            return;
        }
        let candidates = match value::candidates(value, password) {
            Ok(candidates) => candidates,
            Err(why) => {
                if self.count(source, key) {
                    self.left_out(source, key, &why);
                }
                return;
            }
        };
        let is_list = candidates.len() > 1;
        for (index, candidate) in candidates.into_iter().enumerate() {
            let place = match (is_list, key) {
                (false, key) => key.to_owned(),
                (true, "") => format!("item {}", index + 1),
                (true, key) => format!("{key}, item {}", index + 1),
            };
            if !self.count(source, &place) {
                return;
            }
            self.candidate(source, &place, candidate);
        }
    }

    /// Counts an item, whatever it is. The first beyond [`MAX_VALUES`] is told, and nothing is done
    /// with any of them.
    fn count(&mut self, source: &str, place: &str) -> bool {
        self.items += 1;
        if self.items == MAX_VALUES + 1 {
            let text = format!(
                "left out with all that follow: there are more than {MAX_VALUES} keys, readable or \
                not"
            );
            self.find(source, place, Loss::Lost, &text);
        }
        self.items <= MAX_VALUES
    }

    fn candidate(&mut self, source: &str, place: &str, candidate: Candidate) {
        let is_known = |key: &&Key| {
            let mut readings = candidate.readings.iter();
            readings.any(|(item, _)| key.item.expose() == item.as_str())
        };
        let known = self.imported.keys.iter().filter(is_known);
        if let Some(same) = known.clone().find(|same| same.images == self.images) {
            let text = format!("{}, the same as that of {}", same.what, same.source);
            return self.find(source, place, Loss::Note, &text);
        }
        let read = match known.clone().next() {
            // For other images; what it is, is known.
            Some(same) => Ok((same.item.clone(), same.what.clone(), "")),
            None => self.read(candidate),
        };
        let (item, what, how) = match read.and_then(|read| self.with_room(read)) {
            Ok(read) => read,
            Err(why) => return self.left_out(source, place, &why),
        };
        let shown = if place.is_empty() { source.to_owned() } else { format!("{source}: {place}") };
        let told = match self.images.as_slice() {
            [] => format!("{what}{how}"),
            images => format!("{what}{how}, for {}", images::shown(images)),
        };
        self.find(source, place, Loss::Note, &told);
        self.imported.keys.push(Key { source: shown, images: self.images.clone(), item, what });
    }

    fn with_room<T>(&self, read: T) -> Result<T, String> {
        let keys = self.imported.keys.iter();
        let beside = keys.filter(|key| key.images == self.images).count();
        match beside < MAX_DECRYPTION_KEYS {
            true => Ok(read),
            false => Err(format!("a document has at most {MAX_DECRYPTION_KEYS} decryption keys")),
        }
    }

    /// A key as the document has it, what it is, and how its password was written, or why it is
    /// left out; what costs least to find out comes first.
    fn read(&mut self, candidate: Candidate) -> Result<(Secret, String, &'static str), String> {
        self.with_room(())?;
        if let Some((item, what)) = candidate.without_password() {
            return Ok((item.into(), what, "; it needs no password"));
        }
        let mut readings = candidate.readings.into_iter().peekable();
        let mut counted = false;
        while let Some((item, written)) = readings.next() {
            let key = DecryptionKey::parse(&item).map_err(|rule| rule.to_string())?;
            match &key {
                DecryptionKey::Reference(reference) if reference.names_plugin() => {
                    return Err(Rule::PluginOfHost.to_string());
                }
                DecryptionKey::Given { password: Some(_), .. } if !counted => {
                    self.count_password()?;
                    counted = true;
                }
                _ => {}
            }
            match kind_of(&key) {
                Ok(what) => return Ok((item.into(), what, how(written))),
                Err(KeyError::Password) if readings.peek().is_some() => {}
                Err(KeyError::Password) if counted && written == Some(Written::Clear) => {
                    let why = "its password opens it neither as base64 nor as it stands, or it is \
                        damaged";
                    return Err(why.to_owned());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("it has no reading".to_owned())
    }

    fn count_password(&mut self) -> Result<(), String> {
        if self.passwords == MAX_PASSWORDS {
            return Err(format!(
                "it has a password, and of such keys {MAX_PASSWORDS} are tried, here and in the \
                guest; store it without one"
            ));
        }
        self.passwords += 1;
        Ok(())
    }

    fn left_out(&mut self, source: &str, key: &str, why: &str) {
        self.find(source, key, Loss::Lost, &format!("left out: {why}"));
    }

    fn find(&mut self, source: &str, key: &str, loss: Loss, text: &str) {
        let finding = Finding::new(source, key, loss, text);
        self.imported.findings.push(finding);
    }
}

/// What is told of a password that could be read in two ways.
const fn how(written: Option<Written>) -> &'static str {
    match written {
        None => "",
        Some(Written::Base64) => "; its password is written in base64",
        Some(Written::Clear) => "; its password is written as it is",
    }
}
