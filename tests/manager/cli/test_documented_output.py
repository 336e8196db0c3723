"""Tests docs/cli.md: what it says about `--json` is what the verbs of a running manager print."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from aiohttp import ClientSession

import manager
from manager import exit_codes
from support.clients.raw_clients import SessionClient
from support.commands import commands
from support.processes.managers.manager_process import ManagerProcess, running_manager

pytestmark = pytest.mark.walkthroughs

PAGE: Final = (Path(manager.__file__).parents[1] / "docs" / "cli.md").read_text("utf-8")
NOT_RUN: Final = {
    "lmtb service install": "needs systemd; its own tests have a false one",
    "lmtb service uninstall": "needs systemd; its own tests have a false one",
    "lmtb approvals": "no call waits; tests/lm_tools_bridge/approvals/test_verb.py has some",
    "lmtb approvals approve": "the same",
    "lmtb approvals deny": "the same",
    "lmtb team join": "needs a NATS server, as the next; tests/team has one",
    "lmtb team offer": "the same",
    "lmtb team withdraw": "the same",
    "lmtb team use": "the same",
    "lmtb team unuse": "the same",
    "lmtb outdated": "asks npm and uv; tests/lm_tools_bridge/published_servers/test_outdated_verb.py plays them",
    "lmtb languages install": "needs a registry; tests/languages/test_installing.py asks real ones",
    "lmtb languages remove": "the same",
    "lmtb servers sandbox": "no stdio server is there; tests/workspace_server/command/test_sandbox.py has one",
    "lmtb servers allow-write": "the same",
    "lmtb remote status": "no line is used; tests/lm_tools_bridge/remote_hosts/test_remote_projects.py has one",
    "lmtb agent serve": "serves until it is stopped; tests/lm_tools_bridge/agent/test_agent_scripts.py runs it",
}
SPECIAL: Final = {
    "lmtb calls show": ["1"],
    "lmtb calls export -o": ["calls.jsonl"],
    "lmtb record on": ["--contents", "--for", "1h"],
    "lmtb record purge": ["--yes"],
    "lmtb replay": ["1"],
    "lmtb replay --send": ["1", "--yes"],
    "lmtb token create": ["laptop"],
    "lmtb token revoke": ["laptop"],
    "lmtb trust": ["--yes"],
    "lmtb remote add": ["build", "ssh://build/"],
    "lmtb remote remove": ["build"],
    "lmtb tools why": ["datetime"],
    "lmtb tools enable": ["datetime"],
    "lmtb tools disable": ["calculator"],
    "lmtb tools expose": ["calculator"],
    "lmtb tools unexpose": ["calculator"],
    "lmtb tools allow": ["datetime"],
    "lmtb tools ask": ["calculator"],
    "lmtb tools deny": ["calculator"],
    "lmtb tools visibility": ["datetime", "always"],
    "lmtb tools visibility --source": ["builtin", "native"],
    "lmtb call": ["datetime"],
    "lmtb client add": ["cursor", "--yes"],
    "lmtb client show": ["cursor"],
    "lmtb client remove": ["cursor", "--yes"],
    "lmtb secrets set": ["key", "--stdin"],
    "lmtb secrets delete": ["key"],
    "lmtb adopt": ["--yes"],
    "lmtb add": ["https://mcp.example.com/mcp", "--yes"],
    "lmtb completion": ["bash"],
    "lmtb completion --install": ["zsh", "--yes"],
    "lmtb uninstall": ["--yes"],
}
"""Further words of a command; the others need none."""
LAST: Final = ("lmtb restart", "lmtb stop", "lmtb uninstall")


class Documented(NamedTuple):
    """What a row says: members, those that may be absent, whether there are more, and members of entries."""

    members: set[str]
    optional: set[str]
    is_open: bool
    entries: tuple[str, set[str]] | None


def spans(cell: str) -> list[str]:
    return re.findall(r"`(\w+\??)`", re.sub(r"\([^)]*\)", "", cell))


def rows() -> Iterator[tuple[str, Documented]]:
    table = PAGE.partition("| command | members | of each entry |")[2].partition("\n\n")[0]
    known: dict[str, Documented] = {}
    for line in table.splitlines()[2:]:
        command, members, entries = (cell.strip() for cell in line.strip("|").split("|"))
        name = command.strip("`")
        if as_other := re.match(r"as `(lmtb [^`]+)`", members):
            known[name] = known[as_other[1]]
        else:
            words, further = spans(members), spans(entries)
            always = {word for word in words if not word.endswith("?")}
            optional = {word.removesuffix("?") for word in words} - always
            found = (
                (further[0], {word for word in further[1:] if not word.endswith("?")}) if further else None
            )
            known[name] = Documented(always, optional, "…" in members, found)
        yield name, known[name]


DOCUMENTED: Final = dict(rows())


def outputs(running: ManagerProcess, folder: Path) -> Mapping[str, Any]:
    """What each command prints."""
    found = {}
    others = [command for command in DOCUMENTED if command not in {*NOT_RUN, *LAST}]
    for command in (*others, *LAST):
        words = [*command.split()[1:], *SPECIAL.get(command, ())]
        ended = running.lmtb(*words, "--json", cwd=folder, input="value")
        assert ended.returncode == exit_codes.OK, (command, ended.stdout, ended.stderr)
        assert ended.stdout.count("\n") == 1, command
        found[command] = json.loads(ended.stdout)
    return found


def problems(said: Mapping[str, Any], row: Documented) -> Iterator[str]:
    """Where an output differs from its row."""
    members = said.keys() - {"ok"}
    if said["ok"] is not True:
        yield "it failed"
    yield from (f"{name} is missing" for name in row.members - members)
    if not row.is_open:
        yield from (f"{name} is not on the page" for name in members - row.members - row.optional)
    if row.entries is not None:
        name, wanted = row.entries
        if not said[name]:
            yield f"{name} is empty and shows nothing"
        yield from (f"an entry lacks {word}" for entry in said[name] for word in wanted - entry.keys())


async def open_session(address: str) -> None:
    """A session that its client leaves behind."""
    async with ClientSession() as http:
        await SessionClient.connect(http, address)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "shop"
    (folder / ".git").mkdir(parents=True)
    tool = folder / ".lm-tools-bridge" / "tools" / "greet"
    tool.mkdir(parents=True)
    (tool / "tool.toml").write_text('description = "Greets"\nscript = "run.py"\n')
    (tool / "run.py").write_text("print(1)\n")
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"one": {"command": "true"}}}))
    (folder / "main.lua").write_text("print(1)\n")
    return folder


@pytest.mark.timeout(300)  # fifty programs, one after the other
def test_what_verbs_print_is_what_the_page_says(tmp_path: Path, project: Path) -> None:
    with running_manager(tmp_path, "--json") as running:
        assert running.lmtb("call", "datetime", cwd=project).returncode == exit_codes.OK
        asyncio.run(open_session(running.address))
        printed = outputs(running, project)
        running.process.wait()
    found = {command: list(problems(said, DOCUMENTED[command])) for command, said in printed.items()}
    assert {command: some for command, some in found.items() if some} == {}
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    ready, _restarted = [line for line in lines if "ok" in line]
    assert ready.keys() == {"ok", "address", "pid", "version"}
    assert all({"timestamp", "level", "event"} <= line.keys() for line in lines if "ok" not in line)


@pytest.mark.always
def test_every_command_with_json_is_on_the_page() -> None:
    streaming = {one.strip("`") for one in re.findall(r"^\| (`lmtb [^|]+`) \|", PAGE, re.MULTILINE)}
    with_json = {
        f"lmtb {name}"
        for name, command in commands()
        if not command.hidden
        and "--json" in {option for parameter in command.params for option in parameter.opts}
    }
    assert with_json - streaming == set()
    assert {one for one in streaming if not any(one.startswith(known) for known in with_json)} == set()
