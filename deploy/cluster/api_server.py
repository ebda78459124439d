"""A real API server over a real etcd, on free ports of 127.0.0.1, gone with its owner."""
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ADMIN = "admin-of-a-test"
START_SECONDS = 120


class Refused(Exception):
    """The API server's answer where it is no success."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class ApiServer:
    """RBAC, Pod Security and service accounts as a cluster has them; no controllers, no nodes."""

    def __init__(self, program, folder):
        self.folder = Path(folder)
        self.port = free_port()
        self._certificates()
        client, peer = free_port(), free_port()
        etcd = f"http://127.0.0.1:{client}"
        self.processes = [self._start("etcd", [
            "etcd", "--data-dir", f"{folder}/etcd", "--listen-client-urls", etcd,
            "--advertise-client-urls", etcd, "--listen-peer-urls", f"http://127.0.0.1:{peer}",
        ])]
        (self.folder / "tokens").write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        self.processes.append(self._start("kube-apiserver", [
            program, f"--etcd-servers={etcd}", f"--secure-port={self.port}",
            "--bind-address=127.0.0.1", "--authorization-mode=RBAC",
            f"--token-auth-file={folder}/tokens", "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://cluster.test",
            f"--service-account-key-file={folder}/server.key",
            f"--service-account-signing-key-file={folder}/server.key",
            f"--tls-cert-file={folder}/server.crt", f"--tls-private-key-file={folder}/server.key",
        ]))
        self.context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        self._write_kubeconfig()
        self._wait()

    def _certificates(self):
        """An authority, and the certificate and key of the server."""
        at = self.folder
        (at / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:kubernetes.default.svc\n")
        new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
        for command in [
            [*new, "-x509", "-days", "2", "-subj", "/CN=test-ca",
             "-keyout", at / "ca.key", "-out", at / "ca.crt"],
            [*new, "-subj", "/CN=kube-apiserver", "-keyout", at / "server.key",
             "-out", at / "server.csr"],
            ["openssl", "x509", "-req", "-days", "2", "-in", at / "server.csr",
             "-CA", at / "ca.crt", "-CAkey", at / "ca.key", "-CAcreateserial",
             "-extfile", at / "names", "-out", at / "server.crt"],
        ]:
            subprocess.run(command, check=True, capture_output=True)

    def _start(self, name, command):
        with open(self.folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def _write_kubeconfig(self):
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": f"https://127.0.0.1:{self.port}",
                "certificate-authority": f"{self.folder}/ca.crt"}}],
            "users": [{"name": "admin", "user": {"token": ADMIN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }))
        os.chmod(self.kubeconfig, 0o600)

    def _wait(self):
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.call("GET", "/api/v1/namespaces/default")
                return
            except (OSError, Refused) as error:
                if time.monotonic() > end or self.processes[1].poll() is not None:
                    raise SystemExit(f"kube-apiserver does not start: {error}; "
                                     f"{self.folder}/kube-apiserver.log") from error
            time.sleep(0.2)

    def call(self, method, path, body=None, kind="application/json"):
        """One request as the administrator. Returns the object."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data, {
            "Authorization": f"Bearer {ADMIN}", "Content-Type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")) from error

    def make_namespace(self, name, labels=None):
        """A namespace with what the controllers, which are not here, make in each."""
        metadata = {"name": name, "labels": labels or {}}
        self.call("POST", "/api/v1/namespaces", {"metadata": metadata})
        self.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts",
                  {"metadata": {"name": "default"}})
        authority = (self.folder / "ca.crt").read_text()
        self.call("POST", f"/api/v1/namespaces/{name}/configmaps",
                  {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": authority}})

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
