//! `imagepuller serve` on a hub's socket, and the program behind it: a real ttrpc server whose
//! methods take any bytes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use imagepuller_api::message::ImagePullRequest;
use tokio::sync::watch;
use ttrpc::r#async::{Client, MethodHandler, Server, Service, TtrpcContext};
use ttrpc::proto::Codec as _;
use ttrpc::{Code, Request, Response, Status};

use crate::served::Served;
use crate::support::LIMIT;

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The service under test, with one socket that is a hub's and one that is none.
pub struct Program(Served);

impl Program {
    pub fn start(has_upstream: bool) -> Self {
        let mut served = Served::new();
        let mut command = served.command(&["cdh.sock", "other.socket"]);
        if has_upstream {
            command.args(["--upstream", &served.address("upstream.sock")]);
        }
        served.start(&mut command);
        served.wait_for("other.socket");
        Self(served)
    }

    pub fn hub_socket(&self) -> PathBuf {
        self.0.path("cdh.sock")
    }

    pub fn upstream(&self) -> PathBuf {
        self.0.path("upstream.sock")
    }

    pub async fn client(&self) -> Client {
        self.client_at("cdh.sock").await
    }

    pub async fn client_at(&self, name: &str) -> Client {
        let stream = tokio::net::UnixStream::connect(self.0.path(name)).await;
        Client::new(stream.unwrap().into())
    }

    /// A call for an image.
    pub fn pull(&self, image: &str) -> Request {
        pull(&self.0, image)
    }
}

/// A call for an image, into a bundle in the service's directory.
pub fn pull(served: &Served, image: &str) -> Request {
    let message = ImagePullRequest {
        image_url: image.to_owned(),
        bundle_path: served.path("bundle").display().to_string(),
        ..Default::default()
    };
    let payload = message.encode().unwrap();
    request("api.ImagePullService", "PullImage", &payload)
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
            ("api.GetResourceService", methods(&["GetResource", "Refuse", "Hang"])),
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
