"""Every verb at terminals of 80×24 and 200×50, against one manager: nothing is broken or cut in the wrong place."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from wcwidth import wcswidth

from manager.cli.verbs import cli, lines_of_verbs
from manager.status_reading import project_names
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.terminal_captures import Capture, Run, all_verbs, captured, keep
from support.servers.mcp_sources.stdio_servers import program

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals"),
    pytest.mark.walkthroughs,
]

SIZES = ((80, 24), (200, 50))
VERBS: dict[str, list[tuple[str, ...]]] = {
    "up": [()],
    "serve": [()],
    "stop": [],
    "restart": [],
    "service install": [()],
    "service status": [()],
    "service uninstall": [()],
    "status": [(), ("--json",)],
    "top": [("--once",)],
    "ui": [("--print",), ("--list",), ("--revoke",)],
    "token create": [("laptop", "--expires", "30d")],
    "token list": [()],
    "token revoke": [("laptop",)],
    "approvals": [()],
    "approvals approve": [("abcd1234", "--yes")],
    "approvals deny": [("abcd1234",)],
    "workspaces": [()],
    "clients": [()],
    "sessions": [()],
    "whoami": [()],
    "calls": [(), ("--errors",)],
    "calls show": [("999999",)],
    "calls stats": [()],
    "calls export": [],
    "record on": [("--contents", "--for", "1h")],
    "record status": [()],
    "record off": [()],
    "record purge": [()],
    "replay": [("999999",)],
    "log": [("-n", "20"), ("--cwd", ".", "-n", "20")],
    "trust": [(), ("--list",), ("--diff",)],
    "untrust": [],
    "adopt": [("--dry-run",)],
    "add": [("https://mcp.example.com/mcp", "--dry-run"), ("npm:--eval",)],
    "outdated": [()],
    "tools": [(), ("--all",)],
    "tools allow": [("datetime",)],
    "tools ask": [("datetime",)],
    "tools deny": [("mistyped",)],
    "tools disable": [("lm_findFile",)],
    "tools expose": [("lm_findFile",)],
    "tools unexpose": [("lm_findFile",)],
    "tools enable": [("lm_findFiles",)],
    "tools visibility": [("datetime", "always"), ("--source", "bulitin", "ondemand")],
    "tools why": [("lm_findFiles",), ("broken__x",)],
    "servers": [()],
    "servers restart": [("broken",)],
    "servers login": [("nobody",)],
    "servers sandbox": [("nobody", "off")],
    "servers allow-write": [("nobody", "/data")],
    "call": [
        ("calculator", '{"expression": "6*7"}'),
        ("datetime",),
        ("lm_findFiles", '{"query": "*.py"}'),
        ("unknown",),
    ],
    "connect": [],
    "hook post-edit": [],
    "remote add": [("build", "ssh://build/"), ("ssh", "ssh://build/")],
    "remote list": [()],
    "remote remove": [("nobody",)],
    "remote status": [()],
    "remote connect": [],
    "remote install": [],
    "remote serve": [],
    "client add": [("claude-code",)],
    "client list": [()],
    "client update": [()],
    "client remove": [("claude-code",)],
    "client show": [("codex",), ("other",)],
    "team join": [("http://127.0.0.1:1",)],
    "team leave": [()],
    "team status": [()],
    "team offers": [()],
    "team offer": [("--yes",)],
    "team withdraw": [("nothing",)],
    "team use": [("nothing",)],
    "team unuse": [("nothing",)],
    "secrets set": [("TOKEN",)],
    "secrets list": [()],
    "secrets delete": [("NO_TOKEN",)],
    "languages": [()],
    "languages install": [("nothing",)],
    "languages update": [("nothing",)],
    "languages remove": [("nothing",)],
    "doctor": [()],
    "doctor env": [()],
    "completion": [("bash",)],
    "uninstall": [()],
    "demo": [],
    "agent": [],
    "agent serve": [],
    "agent acp": [],
    "agent config": [],
    "agent list": [],
}
"""Each verb with the arguments it is captured with."""
OF_PROJECTS = {"trust", "tools", "servers", "adopt", "doctor"}
"""Verbs that show the second project in another way."""
ELSEWHERE = {
    "stop": "would end the manager of all captures: the same words as up",
    "restart": "would restart the manager of all captures, which then knows no clients",
    "untrust": "would stop the servers of all captures",
    "calls export": "prints JSON for programs",
    "connect": "speaks MCP, not to people",
    "hook post-edit": "speaks to an agent, not to people",
    "demo": "takes as long as all the others",
    "agent": "has tests at a terminal of its own",
    "agent serve": "the same",
    "agent acp": "speaks the Agent Client Protocol, not to people",
    "agent config": "the same",
    "agent list": "the same",
    "remote connect": "ssh speaks at the terminal",
    "remote install": "uv speaks at the terminal, on another host",
    "remote serve": "speaks HTTP/2, not to people",
}
"""Verbs without a capture here, with the reason."""


VERBATIM = {
    "adopt": "a diff",
    "add": "a diff",
    "completion": "a script",
    "trust": "what would run",
    "serve": "log lines as they are",
}
"""Verbs that show what somebody else wrote, as it is."""
FOLDERS = ["shop-with-a-name-that-is-long-as-well", "顧客ポータル"]


def project(folder: Path, **servers: object) -> Path:
    """A workspace that brings servers along."""
    (folder / ".git").mkdir(parents=True)
    (folder / "README.py").write_text("print('hello')\n")
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return folder


def server(body: str) -> dict[str, object]:
    command, *arguments = program(body)
    return {"command": command, "args": arguments}


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("terminal")) as running:
        yield running


@pytest.fixture(scope="module")
def projects(manager: ManagerProcess) -> tuple[Path, Path]:
    """A trusted project with a server that fails and a long name, and one with a wide name that waits for trust."""
    work = (
        Path(manager.environ["HOME"]) / "work" / "customers-of-the-north" / "a-rather-long-name-for-a-project"
    )
    good = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
    broken = {
        "command": "sh",
        "args": ["-c", "echo 'cannot reach the database at db.example.org' >&2; exit 3"],
    }
    failed = project(work / FOLDERS[0], broken=broken, working=server("serve(echo)"))
    pending = project(work / FOLDERS[1], portal=good)
    for folder, client in ((failed, "claude-code"), (pending, "gemini-cli-mcp-client")):
        if folder == failed:
            assert manager.lmtb("trust", "--yes", cwd=folder).returncode == 0
        connect(f"{manager.address}?cwd={urllib.request.quote(str(folder))}", client)
        assert manager.lmtb("call", "datetime", cwd=folder).returncode == 0
    return failed, pending


def connect(url: str, client: str) -> None:
    """A client with a session."""
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": client, "version": "2.1.330"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30).read()


@pytest.fixture(scope="module")
def captures(manager: ManagerProcess, projects: tuple[Path, Path]) -> list[Capture]:
    runs = [
        Run((*verb.split(), *arguments), *size, folder, typed="n\n")
        for size in SIZES
        for verb, every in VERBS.items()
        for arguments in every
        for folder in (projects if size == SIZES[0] and verb in OF_PROJECTS else projects[:1])
    ]
    found = captured(manager.environ, runs)
    if folder := os.environ.get("LMTB_KEEP_CAPTURES"):  # to look at them
        keep(found, Path(folder))
    return found


def shown(captures: list[Capture], *words: str, columns: int, project: int = 0) -> Capture:
    folders = list(dict.fromkeys(one.run.cwd for one in captures))
    wanted = (words, columns, folders[project])
    return next(one for one in captures if (one.run.words, one.run.columns, one.run.cwd) == wanted)


@pytest.mark.always
def test_every_verb_is_captured_or_says_why_not() -> None:
    verbs = {" ".join(words) for words in all_verbs()} | {"sessions", "whoami"}
    assert verbs == VERBS.keys()
    assert {verb for verb, runs in VERBS.items() if not runs} == ELSEWHERE.keys()


def test_no_line_is_wider_than_the_terminal(captures: list[Capture]) -> None:
    for capture in captures:
        assert capture.run.words[0] in VERBATIM or "--json" in capture.run.words or not capture.too_long
        assert capture.code in {0, 1, 2} and "Traceback" not in capture.output, capture.output


@pytest.mark.parametrize("columns", [80, 200])
def test_cells_stand_below_their_heads_and_states_have_marks(captures: list[Capture], columns: int) -> None:
    for words in (("status",), ("workspaces",), ("clients",), ("servers",), ("tools",), ("client", "list")):
        lines = shown(captures, *words, columns=columns).lines
        head = next(number for number, line in enumerate(lines) if "STATE " in line or "FOUND " in line)
        place = max(lines[head].find("STATE"), lines[head].find("FOUND"))
        rows = [
            line
            for line in lines[head + 1 :]
            if line and not line.startswith((" ", "/", "add one", "no project"))
        ]
        rows = rows[: rows.index("")] if "" in rows else rows
        ends = [number for number, row in enumerate(rows) if "tools listed" in row]  # sentences follow
        rows = rows[: ends[0]] if ends else rows
        marks = {at_column(row, place) for row in rows if "error:" not in row}
        assert marks and marks <= set("✓✗!…–"), (words, lines)


def at_column(line: str, column: int) -> str:
    """The character at a column of a terminal, where some take two."""
    return next((one for number, one in enumerate(line) if wcswidth(line[:number]) == column), "")


@pytest.mark.parametrize("columns", [80, 200])
def test_what_is_to_be_copied_is_whole(
    captures: list[Capture], manager: ManagerProcess, columns: int
) -> None:
    names = list(project_names(one["id"] for one in manager.status()["workspaceDetails"]).values())
    assert len(names) == 2
    for words in (("status",), ("workspaces",), ("clients",)):
        text = "\n".join(shown(captures, *words, columns=columns).lines)
        assert all(one in text for one in names), text
    for words in (("status",), ("workspaces",)):
        lines = shown(captures, *words, columns=columns).lines
        assert [line.rpartition("/")[2] for line in lines if "/" in line and "mcp" not in line] == FOLDERS
    assert "stdio:broken " in "\n".join(shown(captures, "servers", columns=columns).lines)
    lines = shown(captures, "servers", columns=80, project=1).lines
    assert any(line.startswith("lmtb trust ") and line.endswith("顧客ポータル'") for line in lines), lines


def test_a_wide_terminal_shows_more(captures: list[Capture]) -> None:
    assert "…" not in "".join(shown(captures, "status", columns=200).lines).replace("… ", "")
    heads = [shown(captures, "servers", columns=columns).lines[0].split() for columns in (80, 200)]
    more = set(heads[1]) - set(heads[0])
    assert more - {"PID"} == {"ERROR"}, "which is below its row otherwise; the process is left out first"


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_verb_writes_escapes_where_none_are_wanted(
    manager: ManagerProcess, projects: tuple[Path, Path], environ: dict[str, str]
) -> None:
    verbs = ("status", "doctor", "serve", "tools", "trust", "client add codex", "nonsense")
    runs = [Run(tuple(verb.split()), 80, 24, projects[1], environ, "n\n") for verb in verbs]
    for capture in captured(manager.environ, runs):
        assert "\x1b" not in capture.output and capture.output.strip(), capture.output


def test_colours_are_there_otherwise(captures: list[Capture]) -> None:
    for words in (("status",), ("doctor",), ("serve",), ("client", "add", "claude-code")):
        assert "\x1b[3" in shown(captures, *words, columns=80).output


@pytest.mark.always
@pytest.mark.parametrize("words", [(), *all_verbs()], ids=" ".join)
def test_help_fits_80_columns(words: tuple[str, ...]) -> None:
    said = CliRunner().invoke(cli, [*words, "--help"], terminal_width=80)
    assert said.exit_code == 0
    assert max(map(wcswidth, said.stdout.splitlines())) <= 80


def test_help_says_where_to_start_with_verbs_that_exist() -> None:
    text = " ".join(CliRunner().invoke(cli, ["--help"]).output.split())
    steps = text.partition("Start here: ")[2].partition(". Then")[0].split(", ")
    assert [step.split()[:2] for step in steps] == [
        ["lmtb", verb] for verb in ("up", "client", "adopt", "trust")
    ]
    assert {step.split()[1] for step in steps} <= set(lines_of_verbs())


@pytest.mark.parametrize("words", [(), ("trust",), ("client", "add")])
def test_help_of_a_verb_is_its_own_help(words: tuple[str, ...]) -> None:
    asked, usual = (CliRunner().invoke(cli, given) for given in (["help", *words], [*words, "--help"]))
    assert asked.output == usual.output
    assert asked.exit_code == 0
