"""Which files a command's program may change without new trust, and what nobody can declare to be data."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from workspace_server.config.model import EntryOrigin, StdioServer
from workspace_server.trust.command_files import data_arguments, why_not_data
from workspace_server.trust.item import TrustItem
from workspace_server.trust.items import TrustItemFactory


@pytest.mark.parametrize(
    "command",
    [
        "serve --db-path=t.db",
        "npx -y @x/notes --db-path=t.db",
        "mcp-server-sqlite --db-path t.db",
        "my-server --port 1 --verbose --DATABASE_FILE t.db --verbose",
        "python -m mcp_server_sqlite --sqlite t.db",
        "python -u index.py --log-file t.db",
        "node dist/index.js --storage-path t.db",
        "npx -y @x/server-memory --memory-file-path t.db",
        "uvx mcp-notes --db-path t.db",
        "uv run --directory x mcp-notes --db t.db",
        "pipx run -- mcp-notes --db t.db",
    ],
)
def test_the_value_of_an_option_that_names_a_store_may_be_data(command: str) -> None:
    assert list(data_arguments(command.split()).values()) == ["t.db"]


@pytest.mark.parametrize(
    "command",
    [
        "t.db",
        "python t.db",
        "python -X utf8 t.db",
        "env A=b python t.db",
        "node --require t.db server.js",
        "node --import=t.db server.js",
        "serve -c t.db",
        "serve -db t.db",
        "serve --config t.db",
        "serve --config-db t.db",
        "serve --db-module t.db",
        "serve --load t.db",
        "serve t.db",
        "serve --db-path --evil t.db",
        "serve --db-path t.db",
        "mcp-server --mode x --db-path t.db",
        "npx --db-path t.db",
        "npx -y --db-path t.db mcp-server",
        "npx --foo mcp-server --db-path t.db",
        "/usr/bin/env /usr/bin/npx --db-path t.db",
        "env MCP_SERVER=1 --db-path t.db",
        "env -u mcp-server electron --db-path t.db",
        "mcp-proxy --stateless npx --db-path t.db",
        "npx zx --db-path t.db",
        "ipython --profile server.py --db-path t.db",
        "nodemon -s mcp-server --db-path t.db",
        "Rscript --db-path t.db",
        "uv tool run --db-path t.db",
    ],
)
def test_what_may_be_run_is_never_data(command: str) -> None:
    assert not data_arguments(command.split())


INTERPRETERS = {
    "python3": "print('RAN')",
    "node": "console.log('RAN')",
    "bash": "echo RAN",
    "sh": "echo RAN",
    "perl": "print 'RAN'",
    "ruby": "puts 'RAN'",
    "awk": 'BEGIN { print "RAN" }',
    "env": "#!/bin/echo RAN",
}


@pytest.mark.parametrize("program", INTERPRETERS)
def test_an_interpreter_does_not_run_the_end_of_a_word(program: str, tmp_path: Path) -> None:
    """The rule rests on this: no program runs a part of a word."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    (tmp_path / "t.db").write_text(INTERPRETERS[program])
    (tmp_path / "t.db").chmod(0o755)
    ended = subprocess.run(
        [program, "--db-path=t.db"], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert b"RAN" not in ended.stdout


def _link(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


NOT_DATA: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a script": ("t.py", lambda path: path.write_text(""), "must end in"),
    "a file without an ending": ("data", lambda path: path.write_text(""), "must end in"),
    "an executable file": ("t.db", lambda path: (path.write_text(""), path.chmod(0o744)), "executable"),
    "a folder": ("t.db", lambda path: path.mkdir(), "plain file"),
    "a pipe": ("t.db", os.mkfifo, "plain file"),
    "a link to a script": ("t.db", _link("server.py"), "link"),
    "a link to a missing file": ("t.db", _link("later.py"), "link"),
    "a file in a linked folder": ("sub/t.db", lambda path: path.parent.symlink_to("."), "link"),
    "a way through a linked folder": ("sub/../t.db", lambda path: path.parents[1].symlink_to("/"), "link"),
    "a file outside": ("../t.db", lambda path: path.write_text(""), "outside"),
    "an absolute path outside": ("/t.db", lambda path: None, "outside"),
}


@pytest.mark.parametrize("name", NOT_DATA)
def test_only_a_plain_file_of_the_project_is_data(name: str, tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "server.py").write_text("serve()\n")
    written, make, reason = NOT_DATA[name]
    make(root / written)
    assert reason in (why_not_data(written, str(root), str(root)) or "")


def test_a_missing_file_may_be_data(tmp_path: Path) -> None:
    assert why_not_data("new/t.db", str(tmp_path), str(tmp_path)) is None


# -- what the digest depends on ------------------------------------------------------------------------------


def _item(root: Path, *arguments: str, data: tuple[str, ...] = (), marked: tuple[str, ...] = ()) -> TrustItem:
    command = ("python3", "server.py", *arguments)
    raw = {"command": list(command), "data": list(data)}
    origin = EntryOrigin(root / ".mcp.json", "workspace")
    server = StdioServer("notes", command, origin, cwd=str(root), raw=raw, data=data)
    return TrustItemFactory(root).stdio(server, "/usr/bin:/bin", marked=marked)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text("serve()\n")
    return tmp_path


def test_a_data_file_may_appear_and_change(root: Path) -> None:
    def digests() -> set[str]:
        declared = _item(root, "--db", "t.db", data=("t.db",)).digest()
        return {declared, _item(root, "--db", "t.db", marked=("t.db",)).digest()}

    before = digests()
    (root / "t.db").write_bytes(b"one")
    assert digests() == before
    (root / "t.db").write_bytes(b"two")
    assert digests() == before


def test_without_a_decision_a_data_file_is_compared_and_named(root: Path) -> None:
    before = _item(root, "--db", "t.db")
    (root / "t.db").write_bytes(b"one")
    after = _item(root, "--db", "t.db")
    assert before.digest() != after.digest()
    assert before.may_be_data == after.may_be_data == ("t.db",)


ATTACKS: dict[str, Callable[[Path], object]] = {
    "it becomes executable": lambda root: (root / "t.db").chmod(0o755),
    "it becomes a link": lambda root: ((root / "t.db").unlink(), (root / "t.db").symlink_to("server.py")),
    "it becomes a folder": lambda root: ((root / "t.db").unlink(), (root / "t.db").mkdir()),
    "it replaces the program": lambda root: (root / "t.db").replace(root / "server.py"),
    "the program is linked to it": lambda root: (
        (root / "server.py").unlink(),
        (root / "server.py").symlink_to("t.db"),
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_data_file_that_could_be_run_asks_again(root: Path, name: str) -> None:
    (root / "t.db").write_bytes(b"evil()")
    before = _item(root, "--db", "t.db", data=("t.db",)).digest()
    ATTACKS[name](root)
    assert _item(root, "--db", "t.db", data=("t.db",)).digest() != before


def test_a_file_that_is_also_run_is_compared(root: Path) -> None:
    for twice in ("t.db", "./t.db", f"{root}/t.db"):
        (root / "t.db").write_bytes(b"one")
        before = _item(root, twice, "--db", "t.db", data=("t.db", twice)).digest()
        (root / "t.db").write_bytes(b"evil()")
        assert _item(root, twice, "--db", "t.db", data=("t.db", twice)).digest() != before


@pytest.mark.parametrize("named", ["server.py", "./server.py", "t.db:server.py", "*", "."])
def test_the_program_cannot_be_declared_to_be_data(root: Path, named: str) -> None:
    arguments, data = ("--db", named), (named, "server.py", "python3")
    before = _item(root, *arguments, data=data)
    assert "server.py" in before.not_data
    (root / "server.py").write_text("evil()\n")
    assert _item(root, *arguments, data=data).digest() != before.digest()


def test_an_item_without_data_keeps_the_digest_of_earlier_versions(root: Path) -> None:
    assert "data" not in _item(root, "--db", "t.db").facts
