//! The recorded vectors of Kata's runtimes boot through the wrapper, and the sandbox finds the
//! disk.
//!
//! `hack/vectors` runs it, not `hack/test`: it takes QEMU 10 and ten minutes. The vectors run as
//! they are, `accel=kvm`, vhost and taps included, but for what [`startable`] says.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};
use vm_harness::layout::hex;
use vm_harness::node::{self, End, ROOT_CONTENT, SHARED_CONTENT};
use vm_harness::vector::{self, Vector};

const DOCUMENT: &str =
    "[registries.\"registry.corp.\"]\nusername = \"puller\"\npassword = \"pw\"\n";

/// VMs that are no sandbox's own: they get no disk.
const FACTORY: [&str; 3] = ["go-template", "go-template-clone", "go-vmcache"];

/// What is changed in a vector:
///
/// - No TEE is there, so `sev-snp-guest` or `tdx-guest`, `confidential-guest-support` and `-bios`
///   go.
/// - `-pflash` goes: QEMU 10.0.2 aborts ("assertion failed: (bql_locked())") while it emulates the
///   processor for a VM in a VM that runs this firmware.
/// - A root image gets an initrd beside it: the drivers of its disk are modules in Debian's kernel.
fn startable(mut vector: Vector) -> Vector {
    let mut arguments = Vec::new();
    let mut rest = std::mem::take(&mut vector.arguments).into_iter().peekable();
    while let Some(option) = rest.next() {
        let value = rest.next_if(|next| !next.starts_with('-'));
        match (option.as_str(), value) {
            ("-bios" | "-pflash", _) => {}
            ("-object", Some(value))
                if value.starts_with("sev-snp-guest,") || value.contains("\"tdx-guest\"") => {}
            ("-machine", Some(value)) => {
                let words = value
                    .split(',')
                    .filter(|word| !word.starts_with("confidential-guest-support="));
                arguments.extend([option, words.collect::<Vec<_>>().join(",")]);
            }
            (_, value) => arguments.extend([Some(option), value].into_iter().flatten()),
        }
    }
    if !arguments.iter().any(|argument| argument == "-initrd") {
        let initrd = "/opt/kata/share/kata-containers/kata-containers-initrd.img";
        arguments.extend(["-initrd", initrd].map(Into::into));
    }
    vector.arguments = arguments;
    vector
}

#[test]
#[ignore = "takes many minutes and QEMU 10: hack/vectors"]
fn every_recorded_vector_boots_with_the_disk() -> Result<()> {
    let wanted = std::env::var("VECTORS").unwrap_or_default();
    let wanted: BTreeSet<&str> = wanted.split_whitespace().collect();
    let mut left: Vec<Vector> = Vector::all(&vector::folder())?
        .into_iter()
        .filter(|vector| !FACTORY.contains(&vector.name.as_str()))
        .filter(|vector| wanted.is_empty() || wanted.contains(vector.name.as_str()))
        .map(startable)
        .collect();
    ensure!(!left.is_empty(), "no vector has one of these names: {wanted:?}");

    let mut failed = Vec::new();
    let mut culprit = None;
    while !left.is_empty() {
        let mut done = BTreeSet::new();
        let end = node::run(&left, DOCUMENT, |end| {
            let is_last = end.attempt > 1 || end.report().is_complete();
            let vector = left.iter().find(|vector| vector.name == end.vector);
            match vector.map_or(Ok(()), |vector| check(vector, &end)) {
                Ok(()) => println!("{:38}booted, disk found, {:.0} s", end.vector, end.seconds),
                Err(error) if is_last => {
                    println!("{:38}FAILED: {error:#}\n{}", end.vector, end.console);
                    failed.push(end.vector.clone());
                }
                Err(error) => println!("{:38}first attempt: {error:#}", end.vector),
            }
            if is_last {
                done.insert(end.vector);
            }
        });
        left.retain(|vector| !done.contains(&vector.name));
        let end = end.and_then(|()| {
            ensure!(left.is_empty(), "the node ended before its time");
            Ok(())
        });
        // The node itself may die of a sandbox: that one is tried once more, and then left out.
        if let Err(error) = end {
            let name = left.first().map(|vector| vector.name.clone());
            println!("{:38}{error:#}", name.as_deref().unwrap_or("the node"));
            if name == culprit {
                failed.extend(name.clone());
                left = left.split_off(1);
            }
            culprit = name;
        }
    }
    ensure!(failed.is_empty(), "failed: {failed:?}");
    Ok(())
}

/// Requires that the sandbox ran to its end and found all that its vector gives it.
fn check(vector: &Vector, end: &End) -> Result<()> {
    let report = end.report();
    ensure!(
        report.is_complete() && end.status == "exit status: 0",
        "{}: {} {}",
        end.status,
        end.stderr,
        if report.is_complete() { "" } else { "(not booted to its end)" }
    );
    let found = |name: &str| report.values(name).collect::<Vec<_>>();

    let digest = hex(&Sha256::digest(DOCUMENT));
    let disk = format!("ro 1 serial imagepuller {digest}");
    ensure!(found("imgpullr") == [disk.as_str()], "the disk: {:?}", found("imgpullr"));

    let has = |word: &str| vector.arguments.iter().any(|argument| argument.contains(word));
    let inherits = |word: &str| vector.descriptors.iter().any(|one| one.target.ends_with(word));
    let initdata = usize::from(has("drive=initdata") || inherits("/initdata.image"));
    ensure!(found("initdata").len() == initdata, "initdata: {:?}", found("initdata"));
    let append = vector.values("-append").next().unwrap_or_default();
    let root = append.split(' ').find_map(|word| word.strip_prefix("root="));
    let root: Vec<_> = root.into_iter().map(|root| format!("{root} {ROOT_CONTENT}")).collect();
    ensure!(found("root") == root, "the root device: {:?}, not {root:?}", found("root"));
    let interfaces = vector.values("-netdev").count().to_string();
    ensure!(found("interfaces") == [interfaces.as_str()], "interfaces: {:?}", found("interfaces"));
    let shared = has("vhost-user-fs-pci").then_some(SHARED_CONTENT);
    ensure!(found("shared") == Vec::from_iter(shared), "shared: {:?}", found("shared"));
    Ok(())
}
