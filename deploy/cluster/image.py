"""The installer's image as a directory: what the instructions of deploy/Containerfile say."""
import json
import shutil
from pathlib import Path


def unpack(containerfile, programs, root):
    """Does COPY with the files in `programs`, and returns the ENTRYPOINT. Knows no other
    instruction but FROM scratch, and fails for one."""
    entry = None
    for line in Path(containerfile).read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        instruction, rest = line.split(" ", 1)
        if instruction == "COPY":
            *names, destination = rest.split()
            (root / destination.strip("/")).mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copy2(Path(programs) / name, root / destination.strip("/") / name)
        elif instruction == "ENTRYPOINT":
            entry = json.loads(rest)
        elif line != "FROM scratch":
            raise SystemExit(f"{containerfile}: not understood: {line}")
    return entry
