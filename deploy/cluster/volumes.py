"""The volumes of a pod, as the kubelet makes them."""
import base64
import itertools
import os
import shutil
from pathlib import Path

from api_server import Refused

GENERATION = itertools.count()


def write_atomically(directory, files, mode):
    """A new directory, the exchange of `..data`, then the links of the keys. Nothing happens where
    nothing changed."""
    data = directory / "..data"
    if data.is_symlink() and files_below(data.resolve()) == files:
        return
    payload = directory / f"..2026_01_01_00_00_00.{next(GENERATION)}"
    payload.mkdir(parents=True)
    for name, content in files.items():
        (payload / name).parent.mkdir(parents=True, exist_ok=True)
        (payload / name).write_bytes(content)
        (payload / name).chmod(mode)
    old = data.resolve() if data.is_symlink() else None
    (directory / "..data_tmp").symlink_to(payload.name)
    os.replace(directory / "..data_tmp", data)
    names = {name.split("/")[0] for name in files}
    for name in names:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    if old:
        shutil.rmtree(old)


def files_below(directory):
    """The files below a directory, by relative path."""
    return {str(path.relative_to(directory)): path.read_bytes()
            for path in directory.rglob("*") if path.is_file()}


class Volumes:
    """The volumes of one pod, below `directory`; those of the node are below `node`."""

    def __init__(self, api, node, directory, pod):
        self.api, self.node, self.directory, self.pod = api, node, directory, pod
        self.namespace = pod["metadata"]["namespace"]

    def source(self, volume):
        """The directory to mount for a volume."""
        if "hostPath" in volume:
            path = self.node / volume["hostPath"]["path"].strip("/")
            if volume["hostPath"].get("type") == "DirectoryOrCreate":
                path.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                raise OSError(f"hostPath type check failed: {path} is not a directory")
            return path
        return self.directory / volume["name"]

    def sync(self):
        """Brings what the API server has into the volumes."""
        for volume in self.pod["spec"].get("volumes", []):
            directory = self.directory / volume["name"]
            if "secret" in volume:
                wanted = volume["secret"]
                files = self._data("secrets", wanted["secretName"], wanted.get("optional"))
                files = {name: base64.b64decode(text) for name, text in files.items()}
                write_atomically(directory, files, wanted.get("defaultMode", 0o644))
            elif "configMap" in volume:
                # One that is deleted under a running pod stays as it was.
                wanted = volume["configMap"]["name"]
                files = self._data("configmaps", wanted, directory.exists())
                if not files:
                    continue
                files = {name: text.encode() for name, text in files.items()}
                write_atomically(directory, files, 0o644)
            elif "projected" in volume and "secret" in volume["projected"]["sources"][0]:
                wanted = volume["projected"]
                files = self._projected(wanted["sources"])
                write_atomically(directory, files, wanted.get("defaultMode", 0o644))
            elif "projected" in volume and not directory.exists():
                write_atomically(directory, self._account(volume["projected"]["sources"]), 0o644)
            elif "projected" not in volume and "hostPath" not in volume:
                raise ValueError(f"a volume that the stand-in does not know: {volume}")

    def _projected(self, sources):
        """What secrets give to one volume, each key at a path of its own."""
        files = {}
        for source in sources:
            wanted = source["secret"]
            found = self._data("secrets", wanted["name"], wanted.get("optional"))
            for item in wanted["items"]:
                if item["key"] in found:
                    files[item["path"]] = base64.b64decode(found[item["key"]])
                elif not wanted.get("optional"):
                    raise OSError(f"references non-existent secret key: {item['key']}")
        return files

    def _data(self, kind, name, optional):
        try:
            found = self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")
            return found.get("data", {})
        except Refused as error:
            if error.status == 404 and optional:
                return {}
            raise

    def _account(self, sources):
        """Token, authorities and namespace of the pod's service account."""
        files = {"namespace": self.namespace.encode()}
        for source in sources:
            if "serviceAccountToken" in source:
                account = self.pod["spec"]["serviceAccountName"]
                path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
                metadata = self.pod["metadata"]
                bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"],
                         "uid": metadata["uid"]}
                token = self.api.call("POST", path, {"spec": {
                    "expirationSeconds": 3607, "boundObjectRef": bound}})
                files["token"] = token["status"]["token"].encode()
            elif "configMap" in source:
                found = self._data("configmaps", source["configMap"]["name"], False)
                files["ca.crt"] = found["ca.crt"].encode()
        return files
