"""Builds the files of a release, and checks each as its users will use it: installed elsewhere, and run."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.releasing import release_texts as texts

ROOT: Final = Path(__file__).resolve().parents[2]
PLACE: Final = "usr/lib/lm-tools-bridge"
"""Where the `.deb` has the program: an environment of its own, as Debian has not all that it needs."""
LONGEST_S: Final = 600
"""A step downloads a hundred megabytes at most."""
ANSWER_S: Final = 60
"""A first start compiles a thousand modules, and starts a manager."""
_HELLO: Final[dict[str, Any]] = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "release", "version": "1"},
    },
}  # fmt: skip


class BuildProblem(Exception):
    """A step failed; the text says which, and what it printed."""


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Run a program, and return what it printed.

    Raises:
        BuildProblem: it failed.
    """
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=LONGEST_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BuildProblem(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build_python(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, so that the sdist is known to be whole."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as place, tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
        (sources,) = Path(place).iterdir()
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=sources)
    (wheel,) = folder.glob("*.whl")
    return wheel, sdist


def check_wheel(wheel: Path, version: str) -> None:
    """Install the wheel into a new environment, and run what it installs."""
    with tempfile.TemporaryDirectory() as place:
        run(sys.executable, "-m", "venv", place)
        run(f"{place}/bin/python", "-m", "pip", "-q", "install", "--disable-pip-version-check", wheel)
        check_version([f"{place}/bin/lmtb"], version)
        check_connect(
            [f"{place}/bin/lmtb", "connect", "--cwd", place], Path(place), Path(f"{place}/bin/lmtb")
        )


def check_version(program: list[str], version: str) -> None:
    """Check that a program says this version.

    Raises:
        BuildProblem: it says another.
    """
    said = run(*program, "--version")
    if version not in said:
        raise BuildProblem(f"{' '.join(program)} --version says {said.strip()!r}, not {version}")


def check_connect(command: list[str], home: Path, lmtb: Path) -> None:
    """Check that a command is an MCP server, with a manager in folders of its own, which is stopped.

    Raises:
        BuildProblem: it did not answer.
    """
    env = private_environment(home, lmtb)
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, cwd=home, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as server:
            said = _answer_to_hello(server)
            server.terminate()
            _, errors = server.communicate()
        if b'"serverInfo"' not in said:
            raise BuildProblem(f"{' '.join(command)} is no MCP server: {(said + errors).decode()[:500]}")
    finally:
        subprocess.run([lmtb, "stop"], env=env, cwd=home, capture_output=True, timeout=LONGEST_S, check=False)


def _answer_to_hello(server: subprocess.Popen[bytes]) -> bytes:
    """Its first line; nothing if it ends or takes too long. Its input stays open: the end would end it."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(_HELLO).encode() + b"\n")
    server.stdin.flush()
    is_answered, _, _ = select.select([server.stdout], [], [], ANSWER_S)
    return server.stdout.readline() if is_answered else b""


def private_environment(home: Path, lmtb: Path) -> dict[str, str]:
    """Variables of a user with an empty home, a manager on a free port, and this `lmtb` on the PATH."""
    places = {
        f"LMTB_{name}_DIR": str(home / f"lmtb-{name.lower()}") for name in ("CONFIG", "STATE", "RUNTIME")
    }
    return {"HOME": str(home), "PATH": f"{lmtb.parent}:/usr/bin:/bin", "LMTB_HTTP_PORT": "0", **places}


def build_bundle(folder: Path, wheel: Path, version: str, summary: str) -> Path:
    """Build the `.mcpb`."""
    bundle = folder / f"{texts.NAME}-{version}.mcpb"
    program = zipfile.ZipInfo("server/connect")
    program.external_attr = 0o100755 << 16
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "manifest.json", json.dumps(texts.bundle_manifest(version, summary), indent=2) + "\n"
        )
        archive.writestr(program, texts.bundle_program(wheel.name))
        archive.write(wheel, f"server/{wheel.name}")
    return bundle


def check_bundle(bundle: Path, lmtb: Path) -> None:
    """Unpack the bundle, and run its program as its manifest says."""
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(bundle) as archive:
        archive.extractall(place)
        config = json.loads(archive.read("manifest.json"))["server"]["mcp_config"]
        program = config["command"].replace("${__dirname}", place)
        os.chmod(program, 0o755)  # noqa: PTH101  as the mode in the archive says, which Python ignores
        words = [word.replace("${user_config.project}", place) for word in config["args"]]
        check_connect([program, *words], Path(place), lmtb)


def build_deb(folder: Path, wheel: Path, version: str, summary: str) -> Path:
    """Build the `.deb`: an environment with the wheel, programs, user units and man pages."""
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        environment = root / PLACE
        run(python, "-m", "venv", "--without-pip", environment)
        pip = (
            sys.executable,
            "-m",
            "pip",
            "-q",
            "--disable-pip-version-check",
            "--python",
            environment / "bin/python",
        )
        run(*pip, "install", "--no-compile", wheel)
        _move_programs(root, environment)
        _write_units(root / "usr/lib/systemd/user")
        write_man_pages(root / "usr/share/man/man1", wheel_program(environment), version)
        copyright_file = root / f"usr/share/doc/{texts.NAME}/copyright"
        copyright_file.parent.mkdir(parents=True)
        shutil.copy(ROOT / "LICENSE", copyright_file)
        architecture = run("dpkg", "--print-architecture").strip()
        kib = sum(file.lstat().st_size for file in root.rglob("*")) // 1024
        control = texts.debian_control(version, architecture, kib, sys.version_info[:2], summary)
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(control)
        package = folder / f"{texts.NAME}_{version}_{architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "--build", root, package)
    return package


def wheel_program(environment: Path) -> list[str]:
    """The command that runs the program of an environment, wherever that stands now."""
    return [str(environment / "bin/python"), "-I", "-m", "manager"]


def _move_programs(root: Path, environment: Path) -> None:
    """Let programs say where they will be, and link to ours from /usr/bin."""
    bin_folder = environment / "bin"
    for file in bin_folder.iterdir():
        if file.is_file() and not file.is_symlink() and file.read_bytes().startswith(b"#!"):
            text = file.read_text()
            file.write_text(text.replace(str(root), ""))
    configuration = environment / "pyvenv.cfg"
    configuration.write_text(configuration.read_text().replace(str(root), ""))
    (root / "usr/bin").mkdir()
    for name in ("lmtb", "lm-tools-bridge"):
        (root / "usr/bin" / name).symlink_to(f"../lib/{texts.NAME}/bin/{name}")


def _write_units(folder: Path) -> None:
    folder.mkdir(parents=True)
    for unit in (ROOT / "systemd").glob("*.s*"):
        (folder / unit.name).write_text(texts.user_unit(unit.read_text()))


def write_man_pages(folder: Path, program: list[str], version: str) -> None:
    """Write the page of the program and of each of its verbs, from their `--help`."""
    folder.mkdir(parents=True)
    overview = run(*program, "--help")
    for words in ((), *((verb,) for verb in verbs_of(overview))):
        page = texts.man_page(
            ("lmtb", *words), overview if not words else run(*program, *words, "--help"), version
        )
        (folder / f"{'-'.join(('lmtb', *words))}.1").write_text(page)


def verbs_of(overview: str) -> Iterator[str]:
    """The verbs that an overview lists: behind two blanks, below a heading that is not that of options."""
    is_verbs = False
    for line in overview.splitlines():
        if line and not line.startswith(" "):
            is_verbs = line.endswith(":") and line != "Options:"
        elif is_verbs and line.startswith("  ") and line[2:3].isalpha():
            yield line.split()[0]


def check_deb(package: Path, version: str) -> None:
    """Install the package with dpkg into a root of its own, and run the program from there."""
    with tempfile.TemporaryDirectory() as place:
        state = Path(place) / "var/lib/dpkg"
        for name in ("info", "updates"):
            (state / name).mkdir(parents=True)
        (state / "status").touch()
        run("dpkg", f"--root={place}", "--force-depends", "--force-not-root", "--install", package)
        environment = Path(place) / PLACE
        check_version(wheel_program(environment), version)
        unit = Path(place) / "usr/lib/systemd/user/lm-tools-bridge.service"
        if "ExecStart=/usr/bin/lm-tools-bridge serve" not in unit.read_text():
            raise BuildProblem(f"{unit.name} does not start the program of the package")
