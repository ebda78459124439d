//! `imagepuller serve` on a hub's socket, and the program behind it: a real ttrpc server whose
//! methods take any bytes.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use imagepuller_api::message::ImagePullRequest;
use tempfile::TempDir;
use tokio::sync::watch;
use ttrpc::r#async::{Client, MethodHandler, Server, Service, TtrpcContext};
use ttrpc::proto::Codec as _;
use ttrpc::{Code, Request, Response, Status};

/// Longer than any start takes.
const LIMIT: Duration = Duration::from_secs(60);

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// The service under test, with one socket that is a hub's and one that is none.
pub struct Program {
    process: Child,
    directory: TempDir,
}

impl Program {
    pub fn start(has_upstream: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_imagepuller"));
        command
            .args(["serve", "--listen", &format!("unix:{}", path("cdh.sock"))])
            .args(["--listen", &format!("unix:{}", path("other.socket"))])
            .args(["--store", &path("store")])
            .args(["--config", &path("imagepuller.toml")])
            .stdin(Stdio::null())
            .stderr(File::create(path("log")).unwrap());
        if has_upstream {
            command.args(["--upstream", &format!("unix:{}", path("upstream.sock"))]);
        }
        let program = Self {
            process: command.spawn().unwrap(),
            directory,
        };
        let start = Instant::now();
        while std::os::unix::net::UnixStream::connect(program.path("other.socket")).is_err() {
            assert!(start.elapsed() < LIMIT, "{}", program.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        program
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    pub fn hub_socket(&self) -> PathBuf {
        self.path("cdh.sock")
    }

    pub fn upstream(&self) -> PathBuf {
        self.path("upstream.sock")
    }

    pub async fn client(&self) -> Client {
        self.client_at("cdh.sock").await
    }

    pub async fn client_at(&self, name: &str) -> Client {
        let stream = tokio::net::UnixStream::connect(self.path(name)).await;
        Client::new(stream.unwrap().into())
    }

    /// A call for an image.
    pub fn pull(&self, image: &str) -> Request {
        let message = ImagePullRequest {
            image_url: image.to_owned(),
            bundle_path: self.path("bundle").display().to_string(),
            ..Default::default()
        };
        request(
            "api.ImagePullService",
            "PullImage",
            &message.encode().unwrap(),
        )
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn request(service: &str, method: &str, payload: &[u8]) -> Request {
    Request {
        service: service.to_owned(),
        method: method.to_owned(),
        payload: payload.to_vec(),
        ..Default::default()
    }
}

/// A call with a client of its own, for tasks.
pub fn call(
    client: &Client,
    service: &str,
    method: &str,
    payload: Vec<u8>,
) -> impl Future<Output = ttrpc::Result<Response>> + Send + 'static {
    let (client, asked) = (client.clone(), request(service, method, &payload));
    async move { client.request(asked).await }
}

pub fn failure(answer: ttrpc::Result<Response>) -> Status {
    match answer {
        Err(ttrpc::Error::RpcStatus(status)) => status,
        other => panic!("no status: {other:?}"),
    }
}

/// What the other program refuses with.
pub fn status_of(code: Code) -> Status {
    let mut status = ttrpc::get_status(code, "no, says\nthe hub");
    status.details.push(ttrpc::proto::Any {
        type_url: "type.example/detail".to_owned(),
        value: vec![0, 255, 1],
        ..Default::default()
    });
    status
}

/// The program behind it.
pub struct Hub {
    server: Server,
    path: PathBuf,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    last: Mutex<Request>,
    hanging: watch::Sender<usize>,
}

impl Hub {
    pub async fn start(path: &Path) -> Self {
        let seen = Arc::new(Seen::default());
        let methods = |names: &[&str]| {
            let handler = |name: &&str| {
                let handler: Box<dyn MethodHandler + Send + Sync> = Box::new(Handler(seen.clone()));
                ((*name).to_owned(), handler)
            };
            let methods = names.iter().map(handler).collect();
            let streams = HashMap::new();
            Service { methods, streams }
        };
        let services = [
            ("api.SealedSecretService", methods(&["UnsealSecret"])),
            ("api.SecureMountService", methods(&["SecureMount"])),
            (
                "api.GetResourceService",
                methods(&["GetResource", "Refuse", "Hang"]),
            ),
            ("keyprovider.KeyProviderService", methods(&["UnWrapKey"])),
            ("api.ImagePullService", methods(&["PullImage"])),
        ];
        let services = services.map(|(name, service)| (name.to_owned(), service));
        let mut server = Server::new()
            .bind(&format!("unix://{}", path.display()))
            .unwrap()
            .register_service(services.into());
        server.start().await.unwrap();
        let path = path.to_owned();
        Self { server, path, seen }
    }

    pub fn last_request(&self) -> Request {
        self.seen.last.lock().unwrap().clone()
    }

    /// Waits until so many calls hang.
    pub async fn wait_for_hanging(&self, count: usize) {
        let mut hanging = self.seen.hanging.subscribe();
        let reached = hanging.wait_for(|now| *now == count);
        tokio::time::timeout(LIMIT, reached).await.unwrap().unwrap();
    }

    pub async fn stop(&mut self) {
        self.server.shutdown().await.unwrap();
        std::fs::remove_file(&self.path).unwrap();
    }
}

struct Handler(Arc<Seen>);

struct Hanging(Arc<Seen>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.hanging.send_modify(|count| *count -= 1);
    }
}

#[async_trait]
impl MethodHandler for Handler {
    async fn handler(&self, _: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        *self.0.last.lock().unwrap() = request.clone();
        let mut response = Response::default();
        match request.method.as_str() {
            "Refuse" => response.set_status(status_of(Code::PERMISSION_DENIED)),
            "Hang" => {
                self.0.hanging.send_modify(|count| *count += 1);
                let _until_dropped = Hanging(self.0.clone());
                std::future::pending::<()>().await;
            }
            _ => {
                response.set_status(ttrpc::get_status(Code::OK, ""));
                response.payload = [b"answer: ", &request.payload[..]].concat();
            }
        }
        Ok(response)
    }
}
