"""A small program, built with what hack/environment and hack/reproducible set: in seconds it shows
what the programs that are shipped show after a quarter of an hour.

It is built in two folders, with two homes of cargo, and the second time by somebody whose
environment names another compiler and another profile. It contains a path of each kind: of code
that a build script made, of a crate, and of a C file.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = "x86_64-unknown-linux-gnu"
# Without a dependency of its own, and with a message of a panic that is not generic.
CRATE = "bytes"
# The number of arguments is unknown to the compiler, and so both paths stay.
SOURCE = """//! Panics name the files that they are in.
include!(concat!(env!("OUT_DIR"), "/made.rs"));
"""
SCRIPT = '''//! Makes the program's only function.
fn main() {
    let path = std::env::var("OUT_DIR").unwrap() + "/made.rs";
    let made = "fn main() {
        use bytes::Buf as _;
        let count = std::env::args().count();
        let mut rest = bytes::Bytes::from(vec![0; 4]);
        rest.advance(count);
        assert_ne!(rest.len(), count);
    }";
    std::fs::write(path, made).unwrap();
}
'''
C_SOURCE = "const char *name(void) { return __FILE__; }\n"
HOSTILE = {
    "RUSTC": "/nowhere/rustc", "RUSTC_WRAPPER": "/bin/false", "RUSTUP_TOOLCHAIN": "nightly",
    "RUSTFLAGS": "-C debuginfo=2", "CARGO_BUILD_RUSTFLAGS": "-C debuginfo=2",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0", "CARGO_PROFILE_RELEASE_STRIP": "false",
    "CFLAGS": "-g", "TZ": "Asia/Tokyo",
}


def fail(what):
    """Ends."""
    sys.exit(f"hack/packaging/quick: {what}")


def builders_path(content, home):
    """The first path of the builder that a file has; none where it has none."""
    wanted = {f"{place}/".encode() for place in (home, Path.home(), ROOT) if str(place) != "/"}
    wanted |= {b"/.cargo/", b"/.rustup/", b"index.crates.io", b"/rustlib/src/"}
    for word in sorted(wanted):
        if found := re.search(rb"[ -~]{0,80}" + re.escape(word) + rb"[ -~]{0,80}", content):
            return found[0].decode()
    return None


def cargo_home():
    """Where crates are."""
    return Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))


def _crate(folder):
    """Writes the program's sources, as a checkout of its own."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    crate = next(each for each in locked if each["name"] == CRATE)
    profile = [f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n"
               for key, value in manifest["profile"]["release"].items()]
    (folder / "src").mkdir(parents=True)
    (folder / "src/main.rs").write_text(SOURCE, encoding="utf-8")
    (folder / "build.rs").write_text(SCRIPT, encoding="utf-8")
    (folder / "part.c").write_text(C_SOURCE, encoding="utf-8")
    (folder / "Cargo.toml").write_text(
        "[package]\nname = 'probe'\nversion = '0.0.0'\nedition = '2024'\n"
        f"[dependencies]\n{CRATE} = '={crate['version']}'\n[profile.release]\n"
        + "".join(profile), encoding="utf-8")
    (folder / "Cargo.lock").write_text(
        "version = 4\n[[package]]\n"
        + "".join(f'{key} = "{value}"\n' for key, value in crate.items())
        + f'[[package]]\nname = "probe"\nversion = "0.0.0"\ndependencies = ["{CRATE}"]\n',
        encoding="utf-8")
    (folder / ".cargo").mkdir()
    for name in ("rust-toolchain.toml", ".cargo/config.toml"):
        shutil.copy(ROOT / name, folder / name)


def build(folder, flags, home, environment):
    """Builds it; returns the program and the C file's object."""
    _crate(folder)
    script = (f'set -euo pipefail; . "{ROOT}/hack/environment"; . "{ROOT}/hack/reproducible"; '
              f'cargo build {flags} --quiet --release --locked --offline; '
              f'gcc $CFLAGS_x86_64_unknown_linux_gnu -c "$PWD/part.c" -o part.o')
    subprocess.run(["bash", "-c", script], cwd=folder, check=True, stdin=subprocess.DEVNULL,
                   env={**os.environ, **environment, "CARGO_HOME": str(home)})
    return [(folder / place).read_bytes()
            for place in (f"target/{TARGET}/release/probe", "part.o")]


def same_program(folder):
    """Whether both builds give the same bytes, without a path of whoever built them."""
    flags, home = '"${reproducible[@]}"', folder / "home"
    home.mkdir()
    (home / "registry").symlink_to(cargo_home() / "registry")
    # Where crates come from, if that is a mirror.
    for name in ("config.toml", "config"):
        if (cargo_home() / name).is_file():
            shutil.copy2(cargo_home() / name, home / name)
    first = build(folder / "one", flags, cargo_home(), {})
    second = build(folder / "two/of-somebody-else", flags, home, HOSTILE)
    for name, content in zip(("the small program", "the object of a C file"), first):
        if found := builders_path(content, folder):
            fail(f"hack/reproducible leaves the builder's path {found} in {name}")
    if first != second:
        fail("hack/reproducible: two builds of a small program differ")
    for word in (b"/kata-configdev/target/", b"/cargo/registry/" + CRATE.encode()):
        if word not in first[0]:
            fail(f"the small program has no {word.decode()}, and so shows nothing")
    plain, _ = build(folder / "plain", "", cargo_home(), {})
    if not builders_path(plain, folder):
        fail("the small program names no path without hack/reproducible, and so shows nothing")
