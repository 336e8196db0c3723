"""The program on another host: its wheel is carried over, installed, upgraded, trusted, and removed."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from aiohttp import ClientSession

from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.known_hosts import login_socket
from manager import __version__
from scripts.benchmarks.startup.first_use import NotInstallable, installer
from support.clients.raw_clients import SessionClient
from support.processes.hosts.ssh_hosts import ADDRESS, NAME, SshHosts, ssh_hosts
from support.processes.installations.versions_of_wheels import OLD, needed_wheels, newer_wheel, old_wheel
from support.processes.installations.wheel import build_wheel
from support.processes.managers.manager_home import until
from support.projects.script_tools import write_tool

pytestmark = [pytest.mark.timeout(600)]
READ = {"filePath": "src/where.txt"}


@pytest.fixture(scope="session")
def uv() -> Path:
    """The folder of the program uv."""
    try:
        return installer("uv")
    except NotInstallable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of these sources and all that it needs."""
    folder = tmp_path_factory.mktemp("wheels")
    needed_wheels(build_wheel(folder), folder)
    return folder


@pytest.fixture
async def hosts(tmp_path: Path, uv: Path) -> AsyncIterator[SshHosts]:
    async with ssh_hosts(tmp_path, programs=[uv]) as made:
        await made.near.start()
        await made.add()
        yield made


def install_there(hosts: SshHosts, wheel: Path, wheels: Path) -> None:
    """Install a wheel as the far user would."""
    command = ["uv", "tool", "install", "--no-index", "--find-links", str(wheels), str(wheel)]
    subprocess.run(command, env=hosts.far.environ, cwd=hosts.far_home, check=True, capture_output=True)


async def first_read(hosts: SshHosts) -> str:
    """What a session reads of a project on the far host."""
    root = hosts.project()
    address = (await hosts.near.status())["address"]
    async with ClientSession() as http:
        client = await SessionClient.connect(http, address)
        assert (await client.handshake(f"{ADDRESS}{root}")).payload["ok"]
        return str((await client.call("lm_readFile", READ)).result)


def logins(hosts: SshHosts) -> list[int]:
    """The processes of ssh that keep a login of the near user; they write over their environment."""
    socket = str(login_socket(hosts.near.paths.runtime_dir, Host("ssh", NAME)))
    return [
        one.pid for one in psutil.process_iter(["cmdline"]) if socket in " ".join(one.info["cmdline"] or [])
    ]


async def test_a_host_gets_this_program_after_a_question_whatever_its_index_offers(
    hosts: SshHosts, tmp_path: Path
) -> None:
    offered = hosts.far.folder / "offered"
    newer_wheel(offered)
    await hosts.server.restart(UV_FIND_LINKS=str(offered))
    assert (await hosts.status())["cause"] == "not_installed"
    refused = await hosts.at_terminal(["remote", "install", NAME], ("[y/N]", "n"))
    assert refused.code != 0
    assert (await hosts.status())["cause"] == "not_installed"
    installed = await hosts.at_terminal(["remote", "install", NAME], ("[y/N]", "y"))
    assert installed.code == 0, installed.out
    line = await hosts.status()
    assert (line["state"], line["version"]) == ("connected", __version__)
    assert "app of the far host" in await first_read(hosts)
    removed = await hosts.remote("remove", NAME, "--uninstall")
    assert removed.code == 0, removed.err
    assert not (hosts.far_home / ".local" / "bin" / "lmtb").exists()
    await until(lambda: not hosts.far.processes("remote serve"))


async def test_carried_wheels_upgrade_an_older_version_without_an_index(
    hosts: SshHosts, wheels: Path, tmp_path: Path
) -> None:
    install_there(hosts, old_wheel(tmp_path / "older"), wheels)
    line = await hosts.status()
    assert line["cause"] == "other_protocol"
    assert OLD in str(line["said"])
    done = await hosts.remote("install", NAME, "--wheels", str(wheels), "--yes")
    assert done.code == 0, done.out + done.err
    line = await hosts.status()
    assert (line["state"], line["version"]) == ("connected", __version__)
    there = await asyncio.to_thread(hosts.far.control.get, "/status")
    assert (there["version"], there["address"]) == (__version__, None)
    assert "app of the far host" in await first_read(hosts)
    assert not list(Path("/tmp").glob("tmp.*/wheels.tar")), "wheels were left there"


async def test_wheels_that_arrive_damaged_are_not_installed(
    hosts: SshHosts, wheels: Path, tmp_path: Path
) -> None:
    ssh = tmp_path / "bin" / "ssh"
    real = ssh.read_text().replace("exec ", "head -c 200000 | ")
    ssh.write_text(real)
    done = await hosts.remote("install", NAME, "--wheels", str(wheels), "--yes")
    assert done.code != 0
    assert "damaged" in done.err
    assert not (hosts.far_home / ".local" / "bin" / "lmtb").exists()


async def test_a_host_without_uv_is_told(tmp_path: Path) -> None:
    async with ssh_hosts(tmp_path) as hosts:
        await hosts.add()
        done = await hosts.remote("install", NAME, "--yes")
    assert done.code != 0
    assert "uv is not installed on ssh://build" in done.err


async def test_trust_is_asked_by_the_other_host_at_this_terminal(tmp_path: Path) -> None:
    async with ssh_hosts(tmp_path) as hosts, ClientSession() as http:
        manager = await hosts.near.start()
        await hosts.add_these_sources()
        root = hosts.project()
        script = 'import lmtb_tool\nlmtb_tool.return_string("hello from there")\n'
        write_tool(root / ".lm-tools-bridge" / "tools", "greet", script)
        client = await SessionClient.connect(http, manager.address)
        await client.handshake(f"{ADDRESS}{root}")
        assert (await client.call("greet", {})).result["isError"]
        refused = await hosts.at_terminal(["trust", f"{ADDRESS}{root}"], ("[y/N]", "n"))
        assert refused.code != 0, refused.out
        assert (await client.call("greet", {})).result["isError"]
        trusted = await hosts.at_terminal(["trust", f"{NAME}:{root}"], ("[y/N]", "y"))
        assert trusted.code == 0, trusted.out
        assert "hello from there" in str((await client.call("greet", {})).result)
        near_trust = hosts.near.paths.config_dir, hosts.near.paths.state_dir
        assert not [one for folder in near_trust for one in folder.rglob("*trust*")]


async def test_a_login_that_asks_is_made_by_a_person_and_ends_with_the_host(tmp_path: Path) -> None:
    async with ssh_hosts(tmp_path, passphrase="open sesame") as hosts, ClientSession() as http:
        manager = await hosts.near.start()
        await hosts.add_these_sources()
        root = hosts.project()
        client = await SessionClient.connect(http, manager.address)
        refused = (await client.handshake(f"{ADDRESS}{root}")).refusal
        assert refused["details"]["cause"] == "login_needs_person"
        assert "passphrase" not in str(refused)
        done = await hosts.at_terminal(["remote", "connect", NAME], ("Enter passphrase", "open sesame"))
        assert done.code == 0, done.out
        assert (await hosts.status())["state"] == "connected"
        assert (await client.handshake(f"{ADDRESS}{root}")).payload["ok"]
        assert logins(hosts)
        assert (await hosts.remote("remove", NAME)).code == 0
        await until(lambda: not logins(hosts))
