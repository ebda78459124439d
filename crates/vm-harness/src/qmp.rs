//! QEMU's control socket, as far as disks of a running guest need it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// QEMU answers at once; this much only where it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A connection that has said hello.
#[derive(Debug)]
pub struct Qmp(BufReader<UnixStream>);

impl Qmp {
    /// Connects to the socket at `path`; [`crate::Guest::qmp`] does it for a guest.
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path)
            .with_context(|| format!("failed to connect to {}", path.display()))?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut qmp = Self(BufReader::new(stream));
        qmp.line()?;
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Plugs a raw disk into the running guest, read-only, at `bus`: Kata's command line has the
    /// bridge `pci-bridge-0`.
    ///
    /// # Errors
    ///
    /// Where QEMU refuses; with its words.
    pub fn plug(&mut self, image: &Path, serial: &str, bus: &str) -> Result<()> {
        self.execute(
            "blockdev-add",
            json!({"node-name": serial, "driver": "raw", "read-only": true,
                "file": {"driver": "file", "filename": image, "read-only": true}}),
        )?;
        self.execute(
            "device_add",
            json!({"driver": "virtio-blk-pci", "id": format!("{serial}-disk"), "drive": serial, "serial": serial,
                "bus": bus, "disable-legacy": "on"}),
        )
    }

    /// Lets the drive `id` read one byte in a second after its next request; all of them again
    /// where `is_slow` is false.
    ///
    /// # Errors
    ///
    /// As [`Qmp::plug`].
    pub fn throttle(&mut self, id: &str, is_slow: bool) -> Result<()> {
        self.execute(
            "block_set_io_throttle",
            json!({"device": id, "bps": u8::from(is_slow), "bps_rd": 0, "bps_wr": 0,
                "iops": 0, "iops_rd": 0, "iops_wr": 0}),
        )
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<()> {
        let line = json!({"execute": command, "arguments": arguments});
        self.0
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .with_context(|| format!("failed to send {command}"))?;
        loop {
            let answer = self.line()?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {command}: {error}");
            }
            if answer.get("return").is_some() {
                return Ok(());
            }
            // Anything else is an event.
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).context("failed to hear QEMU")?;
        if length == 0 {
            bail!("QEMU closed its control socket");
        }
        serde_json::from_str(&line).with_context(|| format!("failed to understand QEMU: {line}"))
    }
}
