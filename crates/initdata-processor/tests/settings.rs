//! Another owner, and Kata's layout: what the guest image's author decides.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::machine;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use config_image::MAX_DOCUMENT_BYTES;
use machine::{
    CONFIGURATION, DOCUMENT, Machine, Platform, Refresher, UNVERIFIED, configuration, initdata,
    program,
};

fn with_settings(text: &str) -> Machine {
    Machine::new().cmdline(UNVERIFIED).settings(text)
}

/// An agent that is told to read the policy, and finds no file, ends and takes the guest with it.
#[test]
fn where_initdata_brings_no_policy_the_images_own_is_placed_or_one_that_denies() {
    const KATAS: &str = "etc/kata-opa/default-policy.rego";
    const IMAGES: &[u8] = b"package agent_policy # the image's";
    let without = DOCUMENT.replace("policy.rego", "cdh.toml");
    let set = "default-policy = \"/opt/policy.rego\"\n";
    let long = vec![b'#'; MAX_DOCUMENT_BYTES + 1];
    for (settings, file, content, denied) in [
        ("", KATAS, IMAGES, ""),
        (set, "opt/policy.rego", IMAGES, ""),
        (set, KATAS, IMAGES, "policy /opt/policy.rego cannot be used"),
        ("", "opt/policy.rego", IMAGES, "No such file"),
        ("", "etc/kata-opa/default-policy.rego/x", IMAGES, "regular"),
        ("", KATAS, b"\xff", "it is not UTF-8"),
        ("", KATAS, &long, "more than 4194304"),
    ] {
        for (document, entries) in [(None, 0), (Some(&*without), 2), (Some(DOCUMENT), 2)] {
            let mut machine = with_settings(settings).disk("vdb", &configuration(CONFIGURATION));
            if let Some(document) = document {
                machine = machine.disk("vda", &initdata(document));
            }
            let file = machine.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
            // In the sandbox, in which the file could not be read.
            let output = program(&machine, &[]);
            let log = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{log}");
            let mut files = machine.measured().unwrap();
            let policy = files.remove("policy.rego").unwrap();
            if document == Some(DOCUMENT) {
                assert_eq!((policy.as_str(), files.len()), ("package agent_policy", 1));
                continue;
            }
            assert_eq!(files.len(), entries, "{files:?}");
            if denied.is_empty() {
                assert_eq!(policy.as_bytes(), content);
            } else {
                assert!(policy.contains("default CreateContainerRequest := false"));
                assert!(policy.contains(denied), "{policy}");
                assert!(log.contains(denied), "{log}");
            }
            // It is no refusal: an agent that knows no policies has its pulls.
            assert!(!machine.is_marked_refused());
            assert!(machine.insecure().unwrap().contains_key("imagepuller.toml"));
        }
    }
}

#[test]
fn a_mistake_in_the_settings_closes_the_guest() {
    let mut machine = with_settings("[files]\ntimesync = \"x\"\n")
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &configuration(CONFIGURATION));
    let outcome = machine.run(Platform::none());
    assert!(outcome.initdata.unwrap_err().contains("use the settings in "));
    assert!(machine.deny_policy().contains("unknown field `files`"));
    assert!(outcome.puller.is_err());
    let files = machine.insecure().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["imagepuller.error"]);
}

#[test]
fn privileged_another_owner_gets_the_directory_and_the_files() {
    if !rustix::process::geteuid().is_root() {
        return machine::skip("only root can give files away");
    }
    let machine =
        with_settings("owner = \"1234:4321\"\n").disk("vda", &configuration(CONFIGURATION));
    let owners = || -> BTreeMap<String, (u32, u32, u32)> {
        let directory = machine.path().join("run/insecure-cfg");
        let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        entries
            .chain([directory.clone()])
            .map(|path| {
                let metadata = path.metadata().unwrap();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777))
            })
            .collect()
    };
    let expected = BTreeMap::from([
        ("imagepuller.toml".to_owned(), (1234, 4321, 0o600)),
        ("insecure-cfg".to_owned(), (1234, 4321, 0o700)),
    ]);
    // In the sandbox, which leaves it the right to give files away; and a refresh writes as that
    // owner's too.
    let output = program(&machine, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(owners(), expected);
    let refresher = Refresher::start(&machine);
    fs::write(machine.node("vda"), configuration("[registries]\n")).unwrap();
    assert_eq!(refresher.ask(), "replaced", "{}", refresher.log());
    assert_eq!(owners(), expected);
    let socket = refresher.socket().metadata().unwrap();
    assert_eq!((socket.uid(), socket.gid(), socket.mode() & 0o777), (1234, 4321, 0o600));
    assert_eq!(machine.insecure().unwrap()["imagepuller.toml"], "[registries]\n");
}

#[test]
fn katas_companions_find_what_they_look_for() {
    let whole = format!("{DOCUMENT}\"cdh.toml\" = \"y = 2\"\n");
    let mut machine = Machine::new().disk("vda", &initdata(&whole));
    let place = machine.path().join("run/confidential-containers/initdata");
    let files = || machine::files(&place).unwrap();
    machine.run(Platform::snp(&whole)).initdata.unwrap();
    let expected = [("aa.toml", "x = 1"), ("cdh.toml", "y = 2"), ("initdata.toml", whole.as_str())];
    let expected = expected.map(|(name, content)| (name.to_owned(), content.to_owned()));
    assert_eq!(files(), expected.into());
    assert_eq!(machine.measured().unwrap().len(), 3);

    // What stood there from a good run goes with a refusal, and other files beside it stay.
    fs::write(place.parent().unwrap().join("cdh.sock"), "").unwrap();
    machine.refused(Platform::snp("other"));
    assert_eq!(files().len(), 0);
    assert!(place.parent().unwrap().join("cdh.sock").exists());

    // The program itself, in its sandbox.
    let machine = machine.plug("vda", &initdata(&whole));
    assert_eq!(program(&machine, &[]).status.code(), Some(65));
    assert_eq!(files().len(), 0, "refused without evidence");
    let machine = machine.plug("vda", &initdata(&whole)).cmdline(UNVERIFIED);
    let output = program(&machine, &[]);
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(files().len(), 3, "{log}");
    assert_eq!(
        fs::read_dir(place.parent().unwrap()).unwrap().count(),
        3,
        "nothing but the link, what it leads to, and the socket"
    );
}

/// Nothing became read-only after a refusal in such an image, so an agent with initdata processing
/// of its own took its policy from a disk that the host plugged in late.
#[test]
fn only_where_initdata_is_accepted_the_agents_own_directory_is_left_to_it() {
    let mut machine = with_settings("accepted-disk = \"keep\"").disk("vda", &initdata(DOCUMENT));
    let parent = machine.path().join("run/confidential-containers");
    let names = || {
        let entries = fs::read_dir(&parent).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let closed = |machine: &Machine| {
        machine.deny_policy();
        assert_eq!(names(), [".initdata", "initdata"]);
        assert_eq!(machine::files(&parent.join("initdata")).unwrap().len(), 0);
    };
    machine.refused(Platform::snp("other"));
    closed(&machine);

    let mut machine = machine.plug("vda", &initdata(DOCUMENT));
    machine.run(Platform::none()).initdata.unwrap();
    assert_eq!(names(), [""; 0]);

    // What the agent has written goes with a refusal.
    fs::create_dir(parent.join("initdata")).unwrap();
    fs::write(parent.join("initdata/initdata.toml"), DOCUMENT).unwrap();
    // The program itself, in its sandbox.
    let machine = machine.plug("vda", b"initdata, and no length");
    assert_eq!(program(&machine, &[]).status.code(), Some(65));
    closed(&machine);
    let machine = machine.plug("vda", &initdata(DOCUMENT));
    let output = program(&machine, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names(), [""; 0]);

    // Where there is none, nobody has to write there either.
    machine.unplug("vda");
    assert!(program(&machine, &[]).status.success());
    assert_eq!(names(), [".initdata", "initdata"]);
}
