//! What the agent listens on, before anything else that a host could ask for.

use std::path::Path;

use vsock::{VMADDR_CID_ANY, VsockListener};

use super::{late, modprobe};
use crate::seen::Seen;

/// The agent's port.
const PORT: u32 = 1024;

const MODULE: &str = "vmw_vsock_virtio_transport";

/// Listens, for as long as the listener lives. No host is there to connect: this machine may have no
/// vhost, so what carries the connections is looked for among the kernel's drivers.
pub fn listen() -> (Option<VsockListener>, Seen) {
    let listener = match VsockListener::bind_with_cid_port(VMADDR_CID_ANY, PORT) {
        Ok(listener) => listener,
        Err(error) => {
            let error = Some(format!("it cannot listen on port {PORT}: {error}"));
            return (None, Seen::Vsock { loaded: false, error });
        }
    };
    let has_transport = || Path::new("/sys/bus/virtio/drivers").join(MODULE).exists();
    let loaded = !has_transport() && modprobe(MODULE) && late(has_transport).is_some();
    let error = (!has_transport()).then(|| "no virtio transport: no host reaches it".to_owned());
    (Some(listener), Seen::Vsock { loaded, error })
}
