//! Serves an image file to one VM: `serve SOCKET IMAGE [--once SECS] [--connect SECS] [--escape]`
//!
//! The tests drive it; it is also the shortest way to try the device by hand. With `--escape` it
//! tries, from inside, what the sandbox forbids, and tells what became of it.

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use memory_disk::{Event, Options, Totals, serve};
use zeroize::Zeroizing;

fn main() -> ExitCode {
    match run() {
        Ok(served) => {
            println!(
                "served: {} requests, {} refused, {} bytes, complete: {}",
                served.requests, served.refused, served.bytes, served.complete
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("error: failed to {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Totals, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(image)) = (arguments.next(), arguments.next()) else {
        return Err("read the arguments: SOCKET IMAGE".into());
    };
    let mut options = Options::default();
    let mut prisoner = None;
    while let Some(option) = arguments.next() {
        if option == "--escape" {
            prisoner = Some(Prisoner::start());
            continue;
        }
        let value = arguments.next().unwrap_or_default().parse()?;
        let value = Duration::try_from_secs_f64(value)?;
        match option.as_str() {
            "--once" => options.once = Some(value),
            "--connect" => options.connect_within = Some(value),
            _ => return Err(format!("read the arguments: {option}").into()),
        }
    }
    let image = Zeroizing::new(fs::read(image)?);
    Ok(serve(UnixListener::bind(&socket)?, image, &options, |event| {
        println!("info: {event}");
        if let (Event::Sandboxed { .. }, Some(prisoner)) = (event, &prisoner) {
            try_everything(&socket, "caller");
            prisoner.try_everything(&socket);
        }
    })?)
}

/// A thread from before the sandbox.
struct Prisoner {
    orders: Sender<String>,
    done: Receiver<()>,
}

impl Prisoner {
    fn start() -> Self {
        let (orders, receiver) = channel::<String>();
        let (report, done) = channel();
        thread::spawn(move || {
            for socket in receiver {
                try_everything(&socket, "older thread");
                let _ = report.send(());
            }
        });
        Self { orders, done }
    }

    fn try_everything(&self, socket: &str) {
        let _ = self.orders.send(socket.to_owned());
        let _ = self.done.recv();
    }
}

fn try_everything(socket: &str, who: &str) {
    let tell = |what: &str, result: Result<(), std::io::Error>| match result {
        Ok(()) => println!("escape: {who}: {what} works"),
        Err(error) => println!("escape: {who}: {what}: {:?}", error.kind()),
    };
    let file = "/tmp/memory-disk-escape";
    let here = "127.0.0.1:0";
    tell("read a file", fs::read("/etc/hostname").map(drop));
    tell("list a folder", fs::read_dir("/").map(drop));
    tell("look at a file", fs::metadata("/").map(drop));
    tell("make a file", fs::write(file, ""));
    tell("remove a file", fs::remove_file(socket));
    tell("connect a socket", UnixStream::connect(socket).map(drop));
    tell("connect over TCP", TcpStream::connect(here).map(drop));
    tell("listen on TCP", TcpListener::bind(here).map(drop));
    tell("bind over UDP", UdpSocket::bind(here).map(drop));
    let ran = Command::new("/bin/true").status();
    tell("run a program", ran.map(drop));
}
