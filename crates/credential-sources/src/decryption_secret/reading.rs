//! Sources read one after the other: keys counted, read and told.

use std::collections::BTreeMap;

use puller_config::{DecryptionKey, MAX_DECRYPTION_KEYS, Rule};
use zeroize::Zeroizing;

use super::value::{self, Item};
use super::{Imported, Key, MAX_PASSWORDS, MAX_VALUES, describe};
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
#[derive(Default)]
pub(super) struct Reading {
    pub(super) imported: Imported,
    /// How many items were counted.
    items: usize,
    /// How many keys with passwords were tried.
    passwords: usize,
}

impl Reading {
    pub(super) fn file(&mut self, name: &str, text: &[u8]) -> Result<(), String> {
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLong.to_string());
        }
        if text.trim_ascii().is_empty() {
            self.find(name, "", Loss::Note, "it is empty");
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
            let text = format!(
                "a secret of the type {} has no decryption keys",
                secret.kind
            );
            return self.find(&source, "", Loss::Note, &text);
        }
        self.values(&source, &secret.values());
    }

    /// Reads the values of one secret.
    pub(super) fn values(
        &mut self,
        source: &str,
        values: &BTreeMap<&str, Option<Zeroizing<Vec<u8>>>>,
    ) {
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
        let items = match value::items(value, password) {
            Ok(items) => items,
            Err(why) => {
                if self.count(source, key) {
                    self.left_out(source, key, &why);
                }
                return;
            }
        };
        let is_list = items.len() > 1;
        for (index, item) in items.into_iter().enumerate() {
            let place = match (is_list, key) {
                (false, key) => key.to_owned(),
                (true, "") => format!("item {}", index + 1),
                (true, key) => format!("{key}, item {}", index + 1),
            };
            if !self.count(source, &place) {
                return;
            }
            self.item(source, &place, item);
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

    fn item(&mut self, source: &str, place: &str, item: Item) {
        let keys = &self.imported.keys;
        if let Some(same) = keys.iter().find(|key| key.item.expose() == item.as_str()) {
            let text = format!("{}, the same as that of {}", same.what, same.source);
            return self.find(source, place, Loss::Note, &text);
        }
        let what = match self.read(&item) {
            Ok(what) => what,
            Err(why) => return self.left_out(source, place, &why),
        };
        let shown = if place.is_empty() {
            source.to_owned()
        } else {
            format!("{source}: {place}")
        };
        self.find(source, place, Loss::Note, &what);
        self.imported.keys.push(Key {
            source: shown,
            item: item.into(),
            what,
        });
    }

    /// What an item is, or why it is left out; what costs least to find out comes first.
    fn read(&mut self, item: &Item) -> Result<String, String> {
        if self.imported.keys.len() == MAX_DECRYPTION_KEYS {
            return Err(format!(
                "a document has at most {MAX_DECRYPTION_KEYS} decryption keys"
            ));
        }
        let key = DecryptionKey::parse(item).map_err(|rule| rule.to_string())?;
        match &key {
            DecryptionKey::Reference(reference) if reference.names_plugin() => {
                return Err(Rule::PluginOfHost.to_string());
            }
            DecryptionKey::Given {
                password: Some(_), ..
            } => {
                if self.passwords == MAX_PASSWORDS {
                    return Err(format!(
                        "it has a password, and of such keys {MAX_PASSWORDS} are tried, here and \
                        in the guest; store it without one"
                    ));
                }
                self.passwords += 1;
            }
            _ => {}
        }
        describe(&key)
    }

    fn left_out(&mut self, source: &str, key: &str, why: &str) {
        self.find(source, key, Loss::Lost, &format!("left out: {why}"));
    }

    fn find(&mut self, source: &str, key: &str, loss: Loss, text: &str) {
        let finding = Finding::new(source, key, loss, text);
        self.imported.findings.push(finding);
    }
}
