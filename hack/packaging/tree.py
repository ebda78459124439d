"""Files that a package is made of, and archives of them: the same files give the same bytes.

Every owner is root, every time is one, names are sorted, modes do not depend on an umask.
"""

import gzip
import io
import os
import subprocess
import tarfile
from pathlib import Path


class Tree:
    """Paths without a leading slash; each is a file (mode, bytes) or a link (target)."""

    def __init__(self):
        self.files = {}
        self.links = {}

    def add(self, path, content, mode=0o644):
        """Adds a file of this content."""
        if path in self.files or path.startswith("/"):
            raise ValueError(f"{path}: there already, or not relative")
        self.files[path] = (mode, content if isinstance(content, bytes) else content.encode())

    def add_file(self, path, source, mode=0o644):
        """Adds a file of this machine."""
        self.add(path, Path(source).read_bytes(), mode)

    def add_folder(self, path, source, mode=0o644):
        """Adds all files below a folder of this machine."""
        for file in sorted(Path(source).rglob("*")):
            if file.is_file():
                self.add_file(f"{path}/{file.relative_to(source)}", file, mode)

    def link(self, path, target):
        """Adds a symbolic link."""
        self.links[path] = target

    def folders(self):
        """Every folder that the files are in, outer ones first."""
        found = set()
        for path in [*self.files, *self.links]:
            found.update(str(parent) for parent in Path(path).parents if str(parent) != ".")
        return sorted(found)

    def write(self, root, time):
        """Writes it below a directory of this machine."""
        root = Path(root)
        for folder in self.folders():
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder).chmod(0o755)
        for path, (mode, content) in self.files.items():
            (root / path).write_bytes(content)
            (root / path).chmod(mode)
        for path, target in self.links.items():
            (root / path).symlink_to(target)
        for path in [*self.files, *self.links, *reversed(self.folders())]:
            os.utime(root / path, (time, time), follow_symlinks=False)

    def tar(self, time):
        """It as a tar archive (GNU's format, which needs no header of its own for a time)."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted([*self.folders(), *self.files, *self.links]):
                member = tarfile.TarInfo(path)
                member.mtime, member.uname, member.gname = time, "root", "root"
                content = b""
                if path in self.files:
                    member.mode, content = self.files[path]
                    member.size = len(content)
                elif path in self.links:
                    member.type, member.linkname = tarfile.SYMTYPE, self.links[path]
                    member.mode = 0o777
                else:
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member, io.BytesIO(content))
        return out.getvalue()


def zstd(content):
    """Compressed by Debian's zstd; one thread, because several would divide the content."""
    command = ["zstd", "-15", "--single-thread", "--quiet", "--stdout"]
    return subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout


def gz(content):
    """Compressed without name and time."""
    return gzip.compress(content, compresslevel=9, mtime=0)
