"""What one build's service in the guest pulled, served by another build's."""

import hashlib
import io
import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path

from builds import fail, require
from registry import Registry


def _blob(folder, content):
    """Writes a blob of an OCI layout; returns its descriptor without a type."""
    digest = hashlib.sha256(content).hexdigest()
    place = folder / "blobs/sha256" / digest
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def _archive(folder):
    """An image with one file, as an archive of an OCI layout."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("hello")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"world"))
    layout, kind = folder / "layout", "application/vnd.oci.image."
    first = _blob(layout, layer.getvalue())
    config = _blob(layout, json.dumps({
        "architecture": "amd64", "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [first["digest"]]}}).encode())
    manifest = _blob(layout, json.dumps({
        "schemaVersion": 2, "mediaType": f"{kind}manifest.v1+json",
        "config": {"mediaType": f"{kind}config.v1+json", **config},
        "layers": [{"mediaType": f"{kind}layer.v1.tar", **first}]}).encode())
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    (layout / "index.json").write_text(json.dumps({
        "schemaVersion": 2,
        "manifests": [{"mediaType": f"{kind}manifest.v1+json", **manifest}]}), encoding="utf-8")
    with tarfile.open(folder / "image.tar", "w") as tar:
        for path in sorted(layout.rglob("*")):
            tar.add(path, path.relative_to(layout))
    return folder / "image.tar"


def _serve(build, folder, document, image):
    """Serves one request by a service of its own, which then ends."""
    socket = folder / "service.socket"
    socket.unlink(missing_ok=True)
    bundle = folder / f"bundle-{build.name}"
    bundle.mkdir(exist_ok=True)
    log = folder / f"log-{build.name}"
    with log.open("w", encoding="utf-8") as out, subprocess.Popen(
            # Its mounts go with it.
            ["unshare", "--mount", "--propagation", "private", build.path("imagepuller"), "serve",
             "--listen", f"unix:{socket}", "--store", folder / "store", "--config", document,
             # The registry is on this machine, which takes the owner's word.
             "--measured", document],
            stdout=out, stderr=out) as service:
        try:
            deadline = time.monotonic() + 30
            while not socket.exists():
                require(service.poll() is None and time.monotonic() < deadline,
                        f"{build.name}: no service: {log.read_text(encoding='utf-8')}")
                time.sleep(0.05)
            told = build.run("imagepuller", "request", "--socket", socket, "--timeout", "60",
                             image, bundle)
        finally:
            service.send_signal(signal.SIGTERM)
            try:
                service.wait(timeout=30)
            except subprocess.TimeoutExpired:
                service.kill()
                fail(f"{build.name}: the service does not end")
    require(image.rsplit("@", 1)[1] in told, f"{build.name}: {told}")


def served_by_the_other(first, second, folder):
    """What `first` pulled, `second` serves from the store, without the registry."""
    # The file system of a store has overlays and trusted attributes.
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    try:
        with Registry(folder / "registry") as registry:
            image = registry.push(_archive(folder))
            document = Path(folder / "document.toml")
            (folder / "ca.pem").write_text(registry.ca, encoding="utf-8")
            document.write_text(
                f"[registries.\"{registry.name}\"]\nusername = \"{registry.user}\"\n"
                f"password = \"{registry.password}\"\nca-certs = '''\n{registry.ca}'''\n",
                encoding="utf-8")
            os.chmod(document, 0o600)
            _serve(first, folder, document, image)
        _serve(second, folder, document, image)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
