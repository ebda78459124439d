//! Rotated roots and credentials reach a running guest: a registry has another CA, or a token ends,
//! the host rewrites the disk, and the next pull that fails for it reads the disk again. Before the
//! host has a new token, it says why it has none.

use std::cell::RefCell;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail, ensure};
use end_to_end::{SERVED_PULLS, assert_tells, site};
use test_http::pki::Authority;
use vm_harness::site::REGISTRY_NAME;
use vm_harness::{Guest, Program, Scenario, Scratch, Site, TokenSigner, despite_crash, has_mark};

/// How long the first token lasts. The guest has to boot and to pull within it, and the test takes
/// about as long; where the machine was too busy for that, the next one is tried.
const FIRST_TOKEN_SECS: [u64; 3] = [45, 180, 900];

/// Where nobody listens: a token in the document must not be replaced by another from elsewhere.
const REALM: &str = "https://127.0.0.1:9/token";

/// After [`SERVED_PULLS`].
const JOB: &str = r#"
untrusted() { ! pull && grep -q 'is not trusted' /tmp/error; }
until untrusted || [ $number -ge 300 ]; do usleep 200000; done
mark untrusted "$(cat /tmp/error)"
while untrusted && [ $number -lt 300 ]; do usleep 200000; done
pull
mark first "exit $?"
until ! pull || [ $number -ge 300 ]; do usleep 500000; done
# The host sees these lines, and only then updates the disk.
mark expired "$(cat /tmp/error)"
until ! pull && grep -q 'the node says' /tmp/error || [ $number -ge 600 ]; do usleep 200000; done
mark stopped "$(cat /tmp/error)"
until pull || [ $number -ge 900 ]; do usleep 200000; done
mark answer "$(cat /tmp/answer)"
while read -r line; do mark refresh "$line"; done </tmp/log
kill -0 $service && mark service "the same"
"#;

#[test]
fn the_next_pull_after_an_update_works_without_a_restart() -> Result<()> {
    let site = site()?;
    for seconds in FIRST_TOKEN_SECS {
        if despite_crash(|| rotated(&site, Duration::from_secs(seconds)))? {
            return Ok(());
        }
        println!("the first token ended within {seconds} s, before the first pull");
    }
    bail!("no token lasted until the first pull")
}

/// Whether the first token lasted long enough for the first pull; all else is checked then.
fn rotated(site: &Site, lifetime: Duration) -> Result<bool> {
    let scratch = Scratch::new()?;
    let signer = TokenSigner::new(&scratch)?;
    let names = [REGISTRY_NAME];
    let registry = site.registry.with_tokens(&scratch, &site.authority, &names, &signer, REALM)?;
    let port = registry.port();
    let token = |lifetime| signer.sign("team/app", SystemTime::now() + lifetime);
    let document = |token: &str, authority: &Authority| {
        format!(
            "[registries.\"{REGISTRY_NAME}:{port}\"]\nregistrytoken = \"{token}\"\nca-certs = \
            '''\n{}'''\n",
            authority.certificate()
        )
    };
    let former = Authority::new("former authority")?;
    let tokens = [token(lifetime)?, token(lifetime + Duration::from_secs(1200))?];
    let run_root = scratch.path().join("run");
    std::fs::create_dir(&run_root)?;
    let scenario = Scenario {
        image: format!("{REGISTRY_NAME}:{port}/team/app@{}", site.layout.manifest),
        document: Some(document(&tokens[0], &former)),
        settings: format!("transport = \"file\"\nrun-root = \"{}\"\n", run_root.display()),
        job: Some(format!("{SERVED_PULLS}{JOB}")),
        ..site.scenario()
    };
    let update = |document: String| -> Result<()> {
        let file = scratch.write("rotated.toml", document)?;
        let output = Command::new(Program::KataConfigdev.path()?)
            .args(["update", "--sandbox-id", &scenario.id, "--json", "--config"])
            .arg(file)
            .arg("--run-root")
            .arg(&run_root)
            .output()?;
        let told =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the update failed: {told}");
        assert_tells(&told, &["\"changed\": true"]);
        assert!(tokens.iter().all(|token| !told.contains(token)));
        Ok(())
    };
    let updates = RefCell::new(Vec::new());
    let report = Guest::boot(&scenario)?.finish(|console| {
        let mut updates = updates.borrow_mut();
        match updates.len() {
            0 if has_mark(console, "untrusted") => {
                updates.push(update(document(&tokens[0], &site.authority)));
            }
            1 if has_mark(console, "expired") => {
                updates.push(update("node-error = 'no token yet'".to_owned()));
            }
            2 if has_mark(console, "stopped") => {
                updates.push(update(document(&tokens[1], &site.authority)));
            }
            _ => (),
        }
    })?;
    let updates: Vec<()> = updates.into_inner().into_iter().collect::<Result<_>>()?;
    let untrusted = report.value("untrusted").unwrap_or_default();
    assert_tells(untrusted, &[REGISTRY_NAME, "is not trusted"]);
    ensure!(updates.len() == 3, "the token never ended");
    let expired = report.value("expired").unwrap_or_default();
    assert_tells(expired, &["401", REGISTRY_NAME]);
    if report.value("first") != Some("exit 0") {
        return Ok(false);
    }
    let stopped = report.value("stopped").unwrap_or_default();
    assert_tells(stopped, &["nothing is pulled", "the node says: no token yet"]);
    let log: Vec<_> = report.values("refresh").collect();
    assert_tells(&log.join(" "), &["insecure-cfg/imagepuller.toml replaced"]);
    let answer = report.value("answer");
    assert_eq!(answer, Some(site.layout.manifest.as_str()), "{}", report.console);
    assert_eq!(report.value("service"), Some("the same"));
    for token in &tokens {
        assert!(!report.console.contains(token), "a token on the console");
    }
    Ok(true)
}
