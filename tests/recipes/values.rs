//! The values that a page gives to the chart, and the installer's configuration that the chart
//! makes of them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::recipes::follow::{CLUSTER, HANDLER, SETTINGS};
use crate::recipes::world::OWN;

/// The namespace of the chart on all pages.
const NAMESPACE: &str = "kata-configdev";

/// How `helm` is called on all pages.
const CALL: &str = "install kata deploy/chart/kata-configdev -n kata-configdev";

/// The configuration for the values that the stand-in for `helm` was given. That the chart writes
/// such a configuration is checked by `deploy/check`.
pub fn configuration() -> Result<String> {
    let told = fs::read_to_string(format!("{CLUSTER}/helm")).context("helm was not called")?;
    let mut arguments = told.lines();
    let start: Vec<_> = arguments.by_ref().take(CALL.split(' ').count()).collect();
    ensure!(start.join(" ") == CALL, "another chart: {start:?}");
    let mut values = json!({"sets": {"default": {}}});
    while let Some(flag) = arguments.next() {
        match (flag, arguments.next().context("a flag without a value")?) {
            ("--set", value) => set(&mut values, value)?,
            ("--values", "-") => {
                let text = fs::read_to_string(format!("{CLUSTER}/values"))?;
                values = serde_saphyr::from_str(&text)?;
            }
            (flag, value) => bail!("this test does not know {flag} {value}"),
        }
    }
    let mut set = String::new();
    let mut secret = "kata-configdev-imagepuller";
    for (key, value) in values["sets"]["default"].as_object().context("no set")? {
        let mounted = || -> Result<Value> {
            let names = value.as_array().context("no list")?.iter();
            names.map(|name| mount(name.as_str().unwrap_or_default())).collect()
        };
        let (key, value) = match key.as_str() {
            "existingSecret" => {
                secret = value.as_str().context("no name")?;
                continue;
            }
            "dockerConfigSecrets" => ("docker-configs", mounted()?),
            "decryptionKeySecrets" => ("decryption-keys", mounted()?),
            "required" => ("required", value.clone()),
            "settings" => ("settings", value.clone()),
            key => bail!("this test does not know the value {key} of a set"),
        };
        set.push_str(&format!("{key} = {}\n", toml(&value)));
    }
    if !set.contains("required") {
        // The chart's default.
        set.push_str("required = true\n");
    }
    Ok(format!(
        "host = \"/\"\nowner = \"{NAMESPACE}/kata\"\nprefix = \"/opt/kata-configdev\"\n\
         document-dir = \"/run/kata-configdev/{NAMESPACE}.kata\"\nbinaries = [\"/opt/kata/bin\"]\n\
         wrapper = \"/usr/local/bin/kata-configdev-qemu\"\n\
         program = \"/usr/local/bin/kata-configdev\"\nsandboxes = true\n\
         [sets.default]\nsettings-file = {SETTINGS:?}\nsecret = {}\nhandlers = [{HANDLER:?}]\n{set}",
        toml(&mount(secret)?)
    ))
}

/// Takes a value of `--set KEY.KEY=VALUE`, where VALUE is a word or a list of words.
fn set(values: &mut Value, word: &str) -> Result<()> {
    let (path, value) = word.split_once('=').context("no value")?;
    let value = match value.strip_prefix('{') {
        Some(list) => json!(list.trim_end_matches('}').split(',').collect::<Vec<_>>()),
        None => json!(value),
    };
    let place = path.split('.').fold(values, |place, key| &mut place[key]);
    *place = value;
    Ok(())
}

/// Mounts a secret as the kubelet does, where it is there, and says where.
fn mount(name: &str) -> Result<Value> {
    let directory = format!("{OWN}/secrets/{name}");
    fs::create_dir_all(&directory)?;
    if let Ok(text) = fs::read_to_string(format!("{CLUSTER}/{NAMESPACE}/{name}.json")) {
        let secret: Value = serde_json::from_str(&text)?;
        for (key, value) in secret["data"].as_object().context("no data")? {
            let value = STANDARD.decode(value.as_str().unwrap_or_default())?;
            fs::write(Path::new(&directory).join(key), value)?;
        }
    }
    Ok(directory.into())
}

/// A value as TOML has it, on one line.
fn toml(value: &Value) -> String {
    let join = |items: Vec<String>| items.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", join(items.iter().map(toml).collect())),
        Value::Object(table) => {
            let items = table.iter();
            let items = items.map(|(key, value)| format!("{key:?} = {}", toml(value)));
            format!("{{{}}}", join(items.collect()))
        }
        other => other.to_string(),
    }
}
