"""The installer's image as an archive of an OCI layout, made without a daemon: the instructions of
deploy/Containerfile and the licences, one layer, no time but that of the sources."""

import hashlib
import json
import sys
import tempfile
import time as clock
from pathlib import Path

from contents import documents
from tree import Tree, gz

sys.path.insert(0, "deploy/cluster")
import image  # pylint: disable=wrong-import-position


def layout(release):
    """The files of the layout."""
    files = Tree()
    layer = documents(release, "kata-configdev")
    with tempfile.TemporaryDirectory() as folder:
        entry = image.unpack("deploy/Containerfile", release.programs, Path(folder))
        layer.add_folder("usr", Path(folder) / "usr", 0o755)
    plain = layer.tar(release.time)
    packed = gz(plain)
    created = clock.strftime("%Y-%m-%dT%H:%M:%SZ", clock.gmtime(release.time))
    labels = {
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.revision": release.commit,
        "org.opencontainers.image.source": release.publisher["homepage"],
        "org.opencontainers.image.title": "kata-configdev",
        "org.opencontainers.image.version": release.name,
    }
    configuration = _blob(files, {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": entry, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [_digest(plain)]},
        "history": [{"created": created, "created_by": "deploy/Containerfile"}],
    })
    manifest = _blob(files, {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **configuration},
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            **_blob(files, packed),
        }],
        "annotations": labels,
    })
    files.add("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    files.add("index.json", _json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            **manifest,
            "annotations": {"org.opencontainers.image.ref.name": release.name},
        }],
    }))
    return files


def _blob(files, content):
    """Adds a blob; returns what names it."""
    content = content if isinstance(content, bytes) else _json(content)
    digest = _digest(content)
    files.add(f"blobs/{digest.replace(':', '/')}", content)
    return {"digest": digest, "size": len(content)}


def _digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _json(value):
    return json.dumps(value, separators=(",", ":")).encode()
