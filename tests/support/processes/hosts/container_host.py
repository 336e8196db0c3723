"""A real container that stands for another host, run by podman without a network, from the files of this machine.

docker's own command line speaks to podman's service. kubectl and wsl.exe are played: two scripts that pass what they
are given on to the container as the real ones do, because a cluster and Windows are not to be had in tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil

import manager
from support.processes.managers.manager_home import ManagerHome, manager_home

CONTAINER: Final = "lmtb-box"
IMAGE: Final = "localhost/lmtb-test"
ADDRESSES: Final[Mapping[str, str]] = {
    "podman": f"podman://{CONTAINER}",
    "docker": f"docker://{CONTAINER}",
    "kubectl": f"kubectl://team/{CONTAINER}",
    "wsl": f"wsl://{CONTAINER}",
}
"""By the kind of host."""
PLAYED: Final = frozenset({"kubectl", "wsl"})
_ROOT: Final = Path(manager.__file__).parents[1]
_STEP_S: Final = 60
_KUBECTL: Final = """#!/bin/sh
# kubectl --namespace NAMESPACE exec -i POD -- WORD…
[ "$1 $2 $3 $4" = "--namespace team exec -i" ] && [ "$6" = -- ] || { echo "error: unknown command" >&2; exit 1; }
pod=$5
shift 6
podman exec -i "$pod" "$@"
code=$?
[ "$code" = 0 ] || echo "command terminated with exit code $code" >&2
exit "$code"
"""
_WSL: Final = """#!/bin/sh
# wsl.exe -d DISTRIBUTION --exec WORD…
[ "$1" = -d ] && [ "$3" = --exec ] || { echo "Invalid command line argument" >&2; exit 1; }
distribution=$2
shift 3
exec podman exec -i "$distribution" "$@"
"""


class NoContainers(Exception):
    """This machine runs no containers; the message says why."""


class ContainerHost:
    """The near folders, and the folders of a far user that are seen in the container only.

    Attributes:
        near: has the programs `podman`, `docker`, `kubectl` and `wsl.exe` on its PATH.
        kinds: of hosts as which the container can be reached.
    """

    def __init__(self, near: ManagerHome, far: ManagerHome, podman: Path, kinds: list[str]) -> None:
        self.near = near
        self.far = far
        self.kinds = kinds
        self._podman = podman

    def project(self, name: str = "app") -> Path:
        """A project in the container with one file."""
        root = self.far.folder / name
        (root / ".git").mkdir(parents=True)
        (root / "where.txt").write_text(f"{name} of the container\n")
        return root

    async def add(self, kind: str) -> None:
        """Add the container on the near host, by a name that is its kind."""
        program = f"{sys.executable} -I -m manager"
        done = await self.near.lmtb(
            "remote", "add", f"by-{kind}", f"{ADDRESSES[kind]}/", "--command", program
        )
        assert done.code == 0, done.err

    async def run(self) -> None:
        """Start the container.

        Raises:
            NoContainers: that is impossible here.
        """
        mounted = {"/usr", sys.base_prefix, sys.prefix, str(_ROOT)}
        outer = {one for one in mounted if not any(one.startswith(f"{other}/") for other in mounted)}
        mounts = [f"--volume={path}:{path}:ro" for path in sorted(outer)]
        variables = [f"--env={name}={value}" for name, value in self.far.environ.items()]
        await self.podman(
            "run", "--detach", "--name", CONTAINER, "--network=none", "--ulimit=nofile=4096:4096",
            "--ulimit=nproc=1000:1000", *mounts, f"--volume={self.far.folder}:{self.far.folder}", *variables,
            IMAGE, "/usr/bin/sleep", "infinity",
        )  # fmt: skip

    async def remove(self) -> None:
        """Remove the container, and with it all that runs there."""
        await self.podman("rm", "--force", "--time=0", "--ignore", CONTAINER)

    async def podman(self, *words: str) -> None:
        """Run podman.

        Raises:
            NoContainers: it failed.
        """
        await asyncio.to_thread(_run, str(self._podman), *words)


@contextlib.asynccontextmanager
async def container_host(folder: Path) -> AsyncIterator[ContainerHost]:
    """A running container and the folders of both users. Nothing of it is left at the end.

    Raises:
        NoContainers: this machine runs none.
    """
    tools = folder / "bin"
    tools.mkdir(parents=True)
    path = {"PATH": f"{tools}:/usr/bin:/bin"}
    with tempfile.TemporaryDirectory(
        prefix="lmtb-box-", dir="/tmp"
    ) as short:  # podman's sockets have long names
        podman = _install_tools(Path(short), tools)
        async with manager_home(folder / "far", environ={"PATH": "/usr/bin:/bin"}) as far:
            with _docker(podman, Path(short), tools) as has_docker:
                async with manager_home(folder / "near", environ=path) as near:
                    kinds = [kind for kind in ADDRESSES if kind != "docker" or has_docker]
                    host = ContainerHost(near, far, podman, kinds)
                    await asyncio.to_thread(_import_image, podman)
                    try:
                        await host.run()
                        yield host
                        await near.close()
                    finally:
                        await host.remove()
                        await host.podman("rmi", "--force", IMAGE)
                        _end_monitors(Path(short))


def _install_tools(folder: Path, tools: Path) -> Path:
    program = shutil.which("podman")
    runtime = shutil.which("runc") or shutil.which("crun")
    if program is None or runtime is None or os.geteuid() != 0:
        raise NoContainers("podman and runc are not installed, or this is not root")
    podman = tools / "podman"
    podman.write_text(
        f"#!/bin/sh\nexec {program} --root {folder}/store --runroot {folder}/podman --storage-driver vfs "
        f'--cgroup-manager cgroupfs --runtime {runtime} --tmpdir {folder}/podman-tmp "$@"\n'
    )
    for name, text in (("kubectl", _KUBECTL), ("wsl.exe", _WSL)):
        (tools / name).write_text(text)
    for file in tools.iterdir():
        file.chmod(0o755)
    return podman


def _import_image(podman: Path) -> None:
    """Make an image with the folders into which this machine's files are mounted."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("usr", "tmp", "etc", "proc", "dev", "root"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name in ("bin", "lib", "lib64", "sbin"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(entry)
    _run(str(podman), "import", "-", IMAGE, given=packed.getvalue())


@contextlib.contextmanager
def _docker(podman: Path, folder: Path, tools: Path) -> Iterator[bool]:
    """Whether there is docker's command line; it speaks to a service of podman until the block ends."""
    program = shutil.which("docker")
    if program is None:
        yield False
        return
    address = f"unix://{folder}/docker.sock"
    docker = tools / "docker"
    docker.write_text(f'#!/bin/sh\nexec {program} --host {address} "$@"\n')
    docker.chmod(0o755)
    with subprocess.Popen([str(podman), "system", "service", "--time=0", address]) as service:
        try:
            yield True
        finally:
            service.terminate()


def _end_monitors(folder: Path) -> None:
    """End podman's monitors of programs that docker started: they stay for five minutes."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "conmon" and str(folder) in " ".join(process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.Error):
                process.kill()


def _run(*command: str, given: bytes = b"") -> None:
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=_STEP_S)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
        raise NoContainers(f"podman runs no containers here: {last[0]}")
