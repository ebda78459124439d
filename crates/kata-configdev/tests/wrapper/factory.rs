//! VMs that are no sandbox's own: a template, its clones, and those of a cache, as Kata's Go
//! runtime starts them.

use std::ffi::OsString;

use crate::wrapper::node::{Node, PASSWORD};
use crate::wrapper::process::{WAITING_PROGRAM, Waiting};
use crate::wrapper::vectors::vector;

/// Keys of the settings, one line each.
const NOTHING: &str = "";
const DOCUMENT: &str = "document = \"/dev/null\"";
const ALLOW: &str = "annotation-allow = [\"/etc\"]";
const PROVIDERS: &str = "credential-providers = {config = \"/x\", bin-dir = \"/x\", registries = \
    [\"a.corp\"]}";

/// What stands in the bundle's spec; `None` for a directory without one.
const NO_SPEC: Option<&str> = None;
const SILENT: Option<&str> = Some("{}");
const EMPTY: Option<&str> = Some(r#"{"io.katacontainers.config.runtime.imagepuller_config": ""}"#);
const NAMES: Option<&str> =
    Some(r#"{"io.katacontainers.config.runtime.imagepuller_config": "/x"}"#);

/// The wrapper with the vector `name`; the spec's annotations, the settings, and a word of what
/// stands on standard error: `Ok` where QEMU starts with the arguments as they are.
#[test]
fn only_a_sandbox_gets_a_document_and_no_pod_loses_one_unheard() {
    const TEMPLATE: Result<&str, &str> = Ok("this VM is a template");
    const UNHEARD: Result<&str, &str> = Ok("");
    const CACHE: Result<&str, &str> = Err("before its pod is known");
    for (name, annotations, settings, expected) in [
        ("go-template", NO_SPEC, NOTHING, UNHEARD),
        ("go-template", NO_SPEC, DOCUMENT, TEMPLATE),
        ("go-template", NO_SPEC, ALLOW, TEMPLATE),
        // Wherever somebody stands who makes one.
        ("go-template", NAMES, PROVIDERS, TEMPLATE),
        ("go-template-clone", SILENT, NOTHING, UNHEARD),
        ("go-template-clone", SILENT, ALLOW, UNHEARD),
        ("go-template-clone", EMPTY, DOCUMENT, UNHEARD),
        ("go-template-clone", SILENT, DOCUMENT, Err("the settings name a document")),
        ("go-template-clone", SILENT, PROVIDERS, Err("the settings ask credential providers")),
        ("go-template-clone", NAMES, NOTHING, Err("the annotation names a document")),
        ("go-template-clone", NAMES, ALLOW, Err("runtime class without VM templates")),
        ("go-template-clone", NO_SPEC, NOTHING, UNHEARD),
        ("go-template-clone", NO_SPEC, ALLOW, CACHE),
        ("go-vmcache", NO_SPEC, NOTHING, UNHEARD),
        ("go-vmcache", NO_SPEC, DOCUMENT, CACHE),
        ("go-vmcache", NO_SPEC, PROVIDERS, CACHE),
        ("go-vmcache", NO_SPEC, ALLOW, Err("vm_cache_number = 0")),
        ("go-vmcache", EMPTY, ALLOW, CACHE),
    ] {
        let node = Node::new("/bin/true");
        node.program("qemu", "700", WAITING_PROGRAM);
        let qemu = node.path("qemu");
        // A missing spec means something only for a sandbox.
        for rule in ["fail", "node", "none"] {
            let settings = format!("qemu = {qemu:?}\nwithout-spec = \"{rule}\"\n{settings}\n");
            node.write("settings.toml", &settings);
            match annotations {
                Some(list) => {
                    node.write("bundle/config.json", format!("{{\"annotations\": {list}}}"));
                }
                None => std::fs::remove_file(node.path("bundle/config.json")).unwrap_or_default(),
            }
            let case = format!("{name} {annotations:?} {settings}");
            let arguments: Vec<_> = vector(name).into_iter().map(OsString::from).collect();
            let mut command = node.wrapper();
            command.args(&arguments);
            let stderr = if expected.is_ok() {
                let waiting = Waiting::start(command);
                assert_eq!(waiting.arguments(), arguments, "{case}");
                waiting.finish().1
            } else {
                let output = command.output().unwrap();
                assert_eq!(output.status.code(), Some(65), "{case}");
                String::from_utf8(output.stderr).unwrap()
            };
            let words = expected.unwrap_or_else(|words| words);
            assert!(stderr.contains(words), "{case}: {stderr}");
            assert_eq!(stderr.lines().count(), usize::from(!words.is_empty()), "{case}: {stderr}");
            assert!(!stderr.contains(PASSWORD));
        }
    }
}

/// Where its factory has no VM that fits a pod, the Go runtime starts one for it, in the bundle,
/// and names it like a cache's.
#[test]
fn a_sandbox_may_be_named_like_a_factorys_vm() {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", WAITING_PROGRAM);
    node.set_qemu(node.path("qemu"));
    let mut theirs = vector("go-vmcache");
    for argument in &mut theirs {
        if argument.ends_with("/pid") {
            *argument = format!("/run/vc/vm/{argument}");
        }
    }
    let mut command = node.wrapper();
    command.args(&theirs);
    let waiting = Waiting::start(command);
    assert_eq!(waiting.arguments().len(), theirs.len() + 6);
    assert_eq!(waiting.finish().1, "");
}
