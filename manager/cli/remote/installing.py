"""Installs this program on another host with uv, from the index or from wheels that are carried over."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from host.command_line import Failure
from manager import exit_codes
from manager.routing.remote.transports import background, interactive
from manager.tunnel.known_hosts import KnownHost

_NO_UV: Final = 3
_OTHER_DIGEST: Final = 4
_NO_DIGEST: Final = 5
_FIND_UV: Final = f"command -v uv >/dev/null 2>&1 || exit {_NO_UV}"
_FROM_INDEX: Final = f'{_FIND_UV}; exec uv tool install --force "lm-tools-bridge[remote]==$1"'
_FIND_DIGEST: Final = (
    "if command -v sha256sum >/dev/null 2>&1; then digest=sha256sum; "
    "elif command -v shasum >/dev/null 2>&1; then digest='shasum -a 256'; "
    "elif command -v openssl >/dev/null 2>&1; then digest='openssl dgst -sha256 -r'; "
    f"else exit {_NO_DIGEST}; fi"
)
"""Linux, macOS and most others."""
_FROM_WHEELS: Final = (
    f'{_FIND_UV}; folder=$(mktemp -d) && trap \'rm -rf "$folder"\' EXIT && cat >"$folder/wheels.tar" && '
    f"{_FIND_DIGEST} && "
    f'{{ [ "$($digest <"$folder/wheels.tar" | cut -d " " -f 1)" = "$2" ] || exit {_OTHER_DIGEST}; }} && '
    'tar -C "$folder" -xf "$folder/wheels.tar" && '
    'uv tool install --force --no-index --find-links "$folder" "lm-tools-bridge[remote]==$1"'
)
_RESTART: Final = '"$@" status >/dev/null 2>&1 || exit 0; exec "$@" restart'
"""Only a manager that runs: `restart` would start one, with a port."""
_UNINSTALL: Final = f"{_FIND_UV}; exec uv tool uninstall lm-tools-bridge"


def install_there(one: KnownHost, login: str | None, version: str, wheels: Path | None) -> None:
    """Install a version on a host.

    Args:
        login: the socket of a login of ssh.
        wheels: a folder of wheels to carry over; they are compared by digest there.

    Raises:
        Failure: that is impossible.
    """
    if wheels is None:
        command = interactive(one.host, ["sh", "-c", _FROM_INDEX, "sh", version], login)
        _judge(one, subprocess.run(command, check=False).returncode)
        return
    packed = _packed(wheels)
    digest = hashlib.sha256(packed).hexdigest()
    command = background(one.host, ["sh", "-c", _FROM_WHEELS, "sh", version, digest], login)
    _judge(one, subprocess.run(command, input=packed, check=False).returncode)


def restart_there(one: KnownHost, login: str | None) -> bool:
    """Let the manager on a host become the installed version, if one runs; returns whether that is done."""
    command = interactive(one.host, ["sh", "-c", _RESTART, "sh", *one.command], login)
    return subprocess.run(command, check=False).returncode == 0


def uninstall_there(one: KnownHost, login: str | None) -> None:
    """Remove the program from a host.

    Raises:
        Failure: that is impossible.
    """
    command = interactive(one.host, ["sh", "-c", _UNINSTALL], login)
    _judge(one, subprocess.run(command, check=False).returncode)


def _packed(wheels: Path) -> bytes:
    files = sorted(wheels.glob("*.whl"))
    if not any(file.name.startswith("lm_tools_bridge-") for file in files):
        step = "fill it with: uv build --wheel, and pip download of what that needs"
        raise Failure(f"{wheels} has no wheel of lm-tools-bridge", step)
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for file in files:
            archive.add(file, arcname=file.name)
    return target.getvalue()


def _judge(one: KnownHost, code: int) -> None:
    if code == 0:
        return
    if code == _NO_UV:
        step = f"install uv there (https://docs.astral.sh/uv), then: lmtb remote install {one.name}"
        raise Failure(f"uv is not installed on {one.host}", step, reason="no_uv")
    if code == _NO_DIGEST:
        step = "install one of sha256sum, shasum and openssl there, then run it again"
        raise Failure(f"nothing on {one.host} can compare the wheels' digest", step, reason="no_digest")
    if code == _OTHER_DIGEST:
        raise Failure("the wheels arrived damaged", "run it again", reason="damaged")
    text = f"the command on {one.host} ended with {code}"
    raise Failure(text, "correct what it says", exit_code=exit_codes.FAILED, reason="not_installed")
