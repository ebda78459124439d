//! What is logged. A file of its own, because a subscriber for one thread misses events that other
//! threads meet first.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use std::sync::{Arc, Mutex};

use confidential_fixtures::{DataHub, Kbs, Policy, Vault};
use puller_config::Resources;
use support::{PATIENT, PLANTED, ask, assert_clean, client, new_client, run, uri};

const SECRET: &str = "hunter2 and more";

fn vault() -> Vault {
    Vault::new().with("repo/type/tag", SECRET)
}

/// What is logged at the finest level, while secrets come from every source and fail to.
#[test]
fn nothing_is_logged_that_is_secret() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let writer = {
        let log = log.clone();
        move || Log(log.clone())
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(writer)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("resources.json");
        std::fs::write(&file, vault().offline_file()).unwrap();
        let hub = DataHub::start(&dir.path().join("cdh.sock"), vault()).unwrap();
        let kbs = Kbs::start(vault(), Policy::default(), None).unwrap();
        let broker = format!("kbs={}", kbs.base());
        let socket = format!("cdh=unix:{}", hub.socket().display());
        for source in [format!("file={}", file.display()), socket, broker] {
            let client = client(&[&source], PATIENT);
            ask(&client).unwrap();
            run(client.resource(&uri("repo/type/absent"))).unwrap_err();
        }
        let resources = Resources { unwrap: vec![hub.socket().to_owned()], ..Resources::default() };
        run(new_client(&resources, PATIENT).unwrap().unwrap(b"{\"kid\":\"hunter2\"}")).unwrap_err();
    });
    let log = String::from_utf8(log.lock().unwrap().clone()).unwrap();
    // The host reads the console: no line of this room tells what there is of a resource.
    let mut own = log.lines().filter(|line| line.contains("kbs_client"));
    assert!(log.contains("attested"), "{log}");
    assert!(!own.any(|line| line.contains("kbs:///") || line.contains("resource")), "{log}");
    assert!(SECRET.contains(PLANTED));
    assert_clean(&log);
}

struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
