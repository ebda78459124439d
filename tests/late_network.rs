//! A guest whose network comes after its agent asks for the image.

use anyhow::Result;
use end_to_end::{assert_tells, site};
use vm_harness::{Guest, Scenario, despite_crash};

/// The service as it is shipped; nothing is told it when the interface is there.
const JOB: &str = r#"
ifconfig eth0 down
insmod /modules/tee_fixture.ko $TEE
initdata-processor
socket=/run/guest-services/imagepull.socket
imagepuller serve --listen "unix:$socket" --store /run/image-store \
    --config /run/insecure-cfg/imagepuller.toml 2>/tmp/log &
tries=0
until [ -S "$socket" ] || [ $tries -ge 2400 ]; do tries=$((tries + 1)); usleep 50000; done
imagepuller request --socket "$socket" "$IMAGE" "$BUNDLE" >/tmp/answer 2>/tmp/error &
request=$!
until grep -q unreachable /tmp/log || [ $tries -ge 4800 ]; do tries=$((tries + 1)); usleep 50000; done
mark waits "$(grep unreachable /tmp/log)"
sleep 40
kill -0 $request && mark patient yes
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
wait $request
mark pull "exit $?"
mark answer "$(cat /tmp/answer /tmp/error)"
"#;

#[test]
fn an_interface_that_comes_late_is_waited_for() -> Result<()> {
    let site = site()?;
    let scenario =
        Scenario { document: Some(site.document()), job: Some(JOB.to_owned()), ..site.scenario() };
    let report = despite_crash(|| Guest::boot(&scenario)?.finish(|_| ()))?;
    let told = |name: &str| report.value(name).unwrap_or_default();
    assert_tells(told("waits"), &["registry.corp", "unreachable"]);
    assert_eq!(told("patient"), "yes", "{}", report.console);
    assert_eq!(told("pull"), "exit 0", "{}", report.console);
    assert_eq!(told("answer"), site.layout.manifest);
    Ok(())
}
