//! What is logged. A file of its own, because a subscriber for one thread misses events that other
//! threads meet first.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use std::sync::{Arc, Mutex};

use confidential_fixtures::{DataHub, Vault};
use support::{PATIENT, PLANTED, TAG, ask, assert_clean, run, source, uri};

const SECRET: &str = "hunter2 and more";

fn vault() -> Vault {
    Vault::new().with(TAG, SECRET)
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
        // Twice, which is worth a line.
        let twice = vault().offline_file().replace('}', ",") + &vault().offline_file()[1..];
        std::fs::write(&file, twice).unwrap();
        let hub = DataHub::start(&dir.path().join("cdh.sock"), vault()).unwrap();
        let socket = format!("cdh=unix:{}", hub.socket().display());
        for source in [format!("file={}", file.display()), socket.clone()] {
            ask(&source, &uri(TAG), PATIENT).unwrap();
            ask(&source, &uri("repo/type/absent"), PATIENT).unwrap_err();
        }
        let hub = source(&socket);
        let packet = b"{\"kid\":\"hunter2\"}";
        run(cdh_client::unwrap_packet(Some(&hub), packet, PATIENT)).unwrap_err();
    });
    let log = String::from_utf8(log.lock().unwrap().clone()).unwrap();
    // The host reads the console: no line of this room names a resource.
    let own: Vec<_> = log.lines().filter(|line| line.contains("cdh_client")).collect();
    assert!(own.iter().any(|line| line.contains("more than once")), "{log}");
    assert!(!own.iter().any(|line| line.contains("kbs:///") || line.contains(TAG)), "{log}");
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
