//! Who reads the TOML and YAML of the pages.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use end_to_end::pages::{read, root};
use serde_json::Value;
use vm_harness::{Program, Scratch, program};

/// Takes a text, or says what is wrong with it.
type Reader = fn(&str, &Scratch) -> Result<()>;

/// The readers of TOML.
const READERS: &[(&str, Reader)] = &[
    ("a document", document),
    ("a measured document", measured),
    ("settings of the node", settings),
    ("settings of initdata-processor", processor),
    ("initdata", initdata),
    ("a drop-in of Kata", drop_in),
];

/// Tries all readers. They have no key in common, so the one that takes it is the one it is for.
pub fn toml(text: &str, scratch: &Scratch) -> Result<()> {
    let mut refusals = String::new();
    for (what, reader) in READERS {
        match reader(text, scratch) {
            Ok(()) => return Ok(()),
            Err(error) => refusals += &format!("\n  as {what}: {error:#}"),
        }
    }
    bail!("nobody takes it{refusals}")
}

/// What a program says about a file with this text; nothing where it ends with 0.
fn said(program: Program, arguments: &[&str], text: &str, scratch: &Scratch) -> Result<String> {
    let file = scratch.path().join("block.toml");
    fs::write(&file, text)?;
    let output = Command::new(program.path()?).args(arguments).arg(&file).output()?;
    if output.status.success() {
        return Ok(String::new());
    }
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn document(text: &str, scratch: &Scratch) -> Result<()> {
    let said = said(Program::KataConfigdev, &["check"], text, scratch)?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}

fn measured(text: &str, scratch: &Scratch) -> Result<()> {
    let arguments = ["check", "--measured"];
    let said = said(Program::KataConfigdev, &arguments, text, scratch)?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}

/// The files that settings name are not there, which is another error.
fn settings(text: &str, scratch: &Scratch) -> Result<()> {
    let arguments = ["config", "--settings"];
    let said = said(Program::KataConfigdev, &arguments, text, scratch)?;
    ensure!(!said.contains("failed to read the settings"), "{said}");
    Ok(())
}

/// In an image that has nothing else, which is another error.
fn processor(text: &str, scratch: &Scratch) -> Result<()> {
    let etc = scratch.path().join("root/etc");
    fs::create_dir_all(&etc)?;
    fs::write(etc.join("initdata-processor.toml"), text)?;
    let output = Command::new(program("configdev-smoke")?)
        .arg("--no-boot")
        .arg(scratch.path().join("root"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.contains("there is no agent"), "{said}");
    ensure!(!said.contains("initdata-processor.toml"), "{said}");
    Ok(())
}

/// On a node that has nothing else.
fn drop_in(text: &str, scratch: &Scratch) -> Result<()> {
    ensure!(text.starts_with("[hypervisor."), "is of no hypervisor");
    let node = scratch.path().join("node");
    let handler = node.join("opt/kata/share/defaults/kata-containers/runtimes/qemu-snp");
    fs::create_dir_all(handler.join("config.d"))?;
    let main = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n";
    fs::write(handler.join("configuration-qemu-snp.toml"), main)?;
    fs::write(handler.join("config.d/zz-block.toml"), text)?;
    let output = Command::new(Program::KataConfigdev.path()?)
        .args(["doctor", "--host-root"])
        .arg(&node)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.contains("qemu-snp"), "doctor did not find it: {said}");
    ensure!(!said.contains("kata-file"), "{said}");
    Ok(())
}

fn initdata(text: &str, _: &Scratch) -> Result<()> {
    let parsed = initdata::Document::parse(text.as_bytes());
    parsed.map(drop).map_err(|refusal| anyhow!("{refusal}"))
}

/// Well-formed, and where it is for the chart, with keys that the chart knows.
pub fn yaml(text: &str) -> Result<()> {
    for document in serde_saphyr::from_multiple::<Value>(text)? {
        if document.get("sets").is_some() {
            let schema = read(&root().join("deploy/chart/kata-configdev/values.schema.json"))?;
            let schema: Value = serde_json::from_str(&schema)?;
            known(&document, &schema, &schema["definitions"])?;
        }
    }
    Ok(())
}

/// Whether a schema knows all keys of a value; `deploy/check` looks at the rest of the schema.
fn known(value: &Value, schema: &Value, definitions: &Value) -> Result<()> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        return known(value, &definitions[name], definitions);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let own = schema["properties"].get(key);
        let other = schema.get("additionalProperties");
        let open = &Value::Bool(true);
        let schema = own.or(other).unwrap_or(open);
        ensure!(*schema != Value::Bool(false), "the chart has no key {key}");
        known(value, schema, definitions).with_context(|| key.clone())?;
    }
    for value in value.as_array().into_iter().flatten() {
        known(value, &schema["items"], definitions)?;
    }
    Ok(())
}
