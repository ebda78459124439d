//! Real proxies in a network of their own, in as far as they alone know where `registry.corp` is.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vm_harness::{Port, Scratch};

/// A proxy that ends with the test.
pub struct Running {
    process: Child,
    pub port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// tinyproxy with a user, letting everyone connect to every port, or to none but 443.
pub fn tinyproxy(scratch: &Scratch, user: &str, password: &str, is_strict: bool) -> Running {
    start(scratch, |port| {
        let strict = if is_strict { "ConnectPort 443\n" } else { "" };
        let config = format!(
            "Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nBasicAuth {user} \
            {password}\nMaxClients 20\n{strict}"
        );
        let path = scratch
            .write(&format!("tinyproxy-{port}.conf"), config)
            .unwrap();
        format!("tinyproxy -d -c {}", path.display())
    })
}

/// A SOCKS5 proxy with a user.
pub fn microsocks(scratch: &Scratch, user: &str, password: &str) -> Running {
    start(scratch, |port| {
        format!("microsocks -i 127.0.0.1 -p {port} -u {user} -P {password}")
    })
}

/// TLS in front of a port, with a certificate and key in one file.
pub fn tls_front(scratch: &Scratch, identity: &vm_harness::pki::Identity, to: u16) -> Running {
    let text = format!("{}{}", identity.certificate, identity.key);
    start(scratch, |port| {
        let path = scratch.write(&format!("front-{port}.pem"), &text).unwrap();
        let path = path.display();
        format!(
            "socat OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,verify=0,cert={path} \
            TCP:127.0.0.1:{to}"
        )
    })
}

fn start(scratch: &Scratch, command: impl Fn(u16) -> String) -> Running {
    let hosts = scratch
        .write("hosts", "127.0.0.1 localhost registry.corp\n")
        .unwrap();
    let reserved = Port::reserve().unwrap();
    let port = reserved.number();
    let script = format!(
        "mount --bind {} /etc/hosts && exec {}",
        hosts.display(),
        command(port)
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let silent = unshare.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running {
        process: silent.spawn().unwrap(),
        port,
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while running.process.try_wait().unwrap().is_none() && Instant::now() < deadline {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return running;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the proxy did not start: {}", command(0));
}
