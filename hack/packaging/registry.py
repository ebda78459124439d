"""Debian's docker-registry on loopback, with TLS of a private CA and a password."""

import json
import secrets
import subprocess
import time
import urllib.request
import ssl


class Registry:
    """A registry that runs while this is open."""

    user = "puller"

    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.password = secrets.token_hex(16)
        self.process = None
        self.name = ""
        self.in_guest = ""
        self.ca = ""

    def __enter__(self):
        self._certificates()
        self.ca = (self.folder / "ca.pem").read_text(encoding="utf-8")
        hashed = subprocess.run(
            ["htpasswd", "-niB", self.user], input=self.password, stdout=subprocess.PIPE,
            check=True, text=True).stdout
        (self.folder / "htpasswd").write_text(hashed, encoding="utf-8")
        for port in range(47000, 47050):
            if self._start(port):
                return self
        raise SystemExit("no port is free for the registry")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def push(self, archive):
        """Pushes an archive of an OCI layout; returns the image's reference by digest."""
        target = f"{self.name}/kata-configdev:test"
        (self.folder / "auth.json").write_text(json.dumps({"auths": {self.name: {}}}))
        subprocess.run(
            ["skopeo", "login", "--authfile", self.folder / "auth.json", "--cert-dir",
             self._certs(), "--username", self.user, "--password-stdin", self.name],
            input=self.password, stdout=subprocess.DEVNULL, check=True, text=True)
        subprocess.run(
            ["skopeo", "copy", "--quiet", "--insecure-policy", "--preserve-digests",
             "--dest-authfile", self.folder / "auth.json", "--dest-cert-dir", self._certs(),
             "--digestfile", self.folder / "digest", f"oci-archive:{archive}",
             f"docker://{target}"], check=True)
        digest = (self.folder / "digest").read_text(encoding="utf-8").strip()
        return f"{self.name}/kata-configdev@{digest}"

    def _certs(self):
        folder = self.folder / "certs.d"
        folder.mkdir(exist_ok=True)
        (folder / "ca.crt").write_text(self.ca, encoding="utf-8")
        return folder

    def _start(self, port):
        self.name = f"127.0.0.1:{port}"
        # QEMU's own network leads from there to this machine.
        self.in_guest = f"10.0.2.2:{port}"
        (self.folder / "config.yml").write_text(f"""version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {self.folder}/data}}}}
http:
  addr: {self.name}
  tls: {{certificate: {self.folder}/leaf.pem, key: {self.folder}/leaf.key}}
auth: {{htpasswd: {{realm: test, path: {self.folder}/htpasswd}}}}
""", encoding="utf-8")
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["docker-registry", "serve", self.folder / "config.yml"], stdout=log, stderr=log)
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        for _ in range(600):
            if self.process.poll() is not None:
                return False
            try:
                urllib.request.urlopen(f"https://{self.name}/", context=context).close()
                return True
            except OSError:
                time.sleep(0.1)
        raise SystemExit((self.folder / "log").read_text(errors="replace"))

    def _certificates(self):
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], cwd=self.folder, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "90",
                "-subj", "/CN=test CA", "-addext", "keyUsage=keyCertSign")
        openssl("req", *key, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=registry")
        (self.folder / "leaf.cnf").write_text(
            "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,IP:10.0.2.2\n",
            encoding="utf-8")
        openssl("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "90", "-extfile", "leaf.cnf", "-out", "leaf.pem")
