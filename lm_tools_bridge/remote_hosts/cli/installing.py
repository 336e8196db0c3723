"""Installs this program on another host with uv: its wheel is carried over, and compared by digest there.

The host gets exactly the program that runs here: an installation is packed from its own files; sources that
are used in place are built.
"""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Final

from lm_tools_bridge.machine.own_distribution import DISTRIBUTION, own_distribution
from lm_tools_bridge.remote_hosts.known_hosts import KnownHost
from lm_tools_bridge.remote_hosts.transports import background, interactive
from lm_tools_bridge.terminal.command_line import Failure
from manager import exit_codes

_BUILD_S: Final = 300.0
"""A build may fetch its build tool first."""
_OF_INSTALLERS: Final = frozenset(
    {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"}
)
"""What an installer adds beside the metadata. A wheel has only RECORD of them, which is written anew."""


def make_own_wheel(folder: Path) -> Path:
    """Make the wheel of this installation in a folder, and return it. Blocks.

    Raises:
        Failure: it cannot be made.
    """
    sources = own_distribution().editable_folder
    return _pack(distribution(DISTRIBUTION), folder) if sources is None else _build(sources, folder)


def _build(sources: Path, folder: Path) -> Path:
    if uv := shutil.which("uv"):
        command = [uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(sources)]
    else:
        options = ("--quiet", "--no-deps", "--wheel-dir", str(folder))
        command = [sys.executable, "-I", "-m", "pip", "wheel", *options, str(sources)]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_BUILD_S)
    except (OSError, subprocess.SubprocessError) as error:
        step = f"build it yourself, and name its folder: uv build --wheel {sources}; then --wheels"
        raise Failure(f"the wheel of {sources} cannot be built: {error}", step) from error
    return next(folder.glob("lm_tools_bridge-*.whl"))


def _pack(installed: Distribution, folder: Path) -> Path:
    """Write the files of an installation as a wheel (the binary distribution format, with its RECORD)."""
    info = f"lm_tools_bridge-{installed.version}.dist-info"
    wheel = folder / f"lm_tools_bridge-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _files(installed):
            archive.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        archive.writestr(f"{info}/RECORD", f"{''.join(record)}{info}/RECORD,,\n")
    return wheel


def _files(installed: Distribution) -> Iterator[tuple[str, bytes]]:
    for file in installed.files or ():
        if _is_of_the_wheel(file):
            yield file.as_posix(), Path(str(installed.locate_file(file))).read_bytes()


def _is_of_the_wheel(file: PurePath) -> bool:
    """Whether a file came with the wheel: programs are made by the installer, bytecode by Python."""
    if file.parts[0] == ".." or "__pycache__" in file.parts:
        return False
    return not (file.parts[0].endswith(".dist-info") and file.name in _OF_INSTALLERS)


# Exit codes of the script there: not 1 and 2, by which its commands fail, nor 126 and more of shells and ssh.
_NO_UV: Final = 3
_OTHER_DIGEST: Final = 4
_NO_DIGEST: Final = 5
_FIND_UV: Final = f"command -v uv >/dev/null 2>&1 || exit {_NO_UV}"
_FIND_DIGEST: Final = (
    "if command -v sha256sum >/dev/null 2>&1; then digest=sha256sum; "
    "elif command -v shasum >/dev/null 2>&1; then digest='shasum -a 256'; "
    "elif command -v openssl >/dev/null 2>&1; then digest='openssl dgst -sha256 -r'; "
    f"else exit {_NO_DIGEST}; fi"
)
"""Linux, macOS and most others."""
_INSTALL: Final = (
    f'{_FIND_UV}; folder=$(mktemp -d) && trap \'rm -rf "$folder"\' EXIT && cat >"$folder/wheels.tar" && '
    f"{_FIND_DIGEST} && "
    f'{{ [ "$($digest <"$folder/wheels.tar" | cut -d " " -f 1)" = "$1" ] || exit {_OTHER_DIGEST}; }} && '
    'tar -C "$folder" -xf "$folder/wheels.tar" && cd "$folder" && '
    'target="lm-tools-bridge @ file://$folder/$2" && shift 2 && '
    'uv tool install --force "$@" "$target"'
)
"""The wheel is named by its file: by its name alone, an index could give another one."""
_NO_INDEX: Final = ("--no-index", "--find-links", ".")
_RESTART: Final = '"$@" status >/dev/null 2>&1 || exit 0; exec "$@" restart'
"""Only a manager that runs: `restart` would start one, with a port."""
_UNINSTALL: Final = f"{_FIND_UV}; exec uv tool uninstall lm-tools-bridge"


def install_there(entry: KnownHost, login: str | None, version: str, wheels: Path | None) -> None:
    """Install this program on a host. What it needs comes from the index of that host, or from `wheels`.

    Args:
        login: the socket of a login of ssh.
        version: the one that runs here.
        wheels: a folder with the wheel of this version and all that it needs; None: the wheel is made here.

    Raises:
        Failure: that is impossible.
    """
    with TemporaryDirectory() as folder:
        wheel = make_own_wheel(Path(folder)) if wheels is None else _wheel_of(version, wheels)
        packed = _packed([wheel] if wheels is None else sorted(wheels.glob("*.whl")))
    digest = hashlib.sha256(packed).hexdigest()
    options = () if wheels is None else _NO_INDEX
    words = ["sh", "-c", _INSTALL, "sh", digest, wheel.name, *options]
    _judge(entry, subprocess.run(background(entry.host, words, login), input=packed, check=False).returncode)


def restart_there(entry: KnownHost, login: str | None) -> bool:
    """Let the manager on a host become the installed version, if one runs; returns whether that is done."""
    command = interactive(entry.host, ["sh", "-c", _RESTART, "sh", *entry.command], login)
    return subprocess.run(command, check=False).returncode == 0


def uninstall_there(entry: KnownHost, login: str | None) -> None:
    """Remove the program from a host.

    Raises:
        Failure: that is impossible.
    """
    command = interactive(entry.host, ["sh", "-c", _UNINSTALL], login)
    _judge(entry, subprocess.run(command, check=False).returncode)


def _wheel_of(version: str, wheels: Path) -> Path:
    wheel = next(wheels.glob(f"lm_tools_bridge-{version}-*.whl"), None)
    if wheel is None:
        step = "fill it with: uv build --wheel, and pip download of what that needs"
        raise Failure(f"{wheels} has no wheel of lm-tools-bridge {version}", step)
    return wheel


def _packed(files: Iterable[Path]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for file in files:
            archive.add(file, arcname=file.name)
    return target.getvalue()


def _judge(entry: KnownHost, code: int) -> None:
    if code == 0:
        return
    if code == _NO_UV:
        step = f"install uv there (https://docs.astral.sh/uv), then: lmtb remote install {entry.name}"
        raise Failure(f"uv is not installed on {entry.host}", step, reason="no_uv")
    if code == _NO_DIGEST:
        step = "install one of sha256sum, shasum and openssl there, then run it again"
        raise Failure(f"nothing on {entry.host} can compare the wheels' digest", step, reason="no_digest")
    if code == _OTHER_DIGEST:
        raise Failure("the wheels arrived damaged", "run it again", reason="damaged")
    text = f"the command on {entry.host} ended with {code}"
    raise Failure(text, "correct what it says", exit_code=exit_codes.FAILED, reason="not_installed")
