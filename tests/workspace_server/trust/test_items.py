"""Which parts of a configuration need trust, and which changes revoke it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workspace_server.config.model import Configuration, EntryOrigin, PolicyDeltas, RemoteServer, StdioServer
from workspace_server.trust import command_files
from workspace_server.trust.item import TrustItem, file_name
from workspace_server.trust.items import TrustItemFactory, remote_key, stdio_key

SECRET = "hunter2-canary-value"


class ServerSetup:
    """A workspace whose stdio server uses a script of the workspace and a program outside."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ws"
        self.bin = folder / "bin"
        for one in (self.root, self.bin):
            one.mkdir()
        self.path = str(self.bin)
        self.script = self.root / "server.js"
        self.script.write_text("serve()\n")
        self.program("node")
        self.raw: dict[str, Any] = {
            "command": "node",
            "args": ["./server.js", "--port", "1"],
            "env": {"A": "1"},
        }
        self.server = StdioServer(
            "gh",
            ("node", "./server.js", "--port", "1"),
            EntryOrigin(self.root / ".mcp.json", "workspace"),
            env={"A": "1"},
            cwd=str(self.root),
            raw=self.raw,
        )

    def program(self, name: str, folder: Path | None = None) -> Path:
        path = (folder or self.bin) / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def item(self) -> TrustItem:
        return TrustItemFactory(self.root).stdio(self.server, self.path)

    def rewrite(self, **raw: Any) -> None:
        self.raw = {**self.raw, **raw}
        words = (self.raw["command"], *self.raw["args"])
        self.server = replace(self.server, raw=self.raw, command=words, env=self.raw["env"])


@pytest.fixture
def setup(tmp_path: Path) -> ServerSetup:
    return ServerSetup(tmp_path)


def _shadow(setup: ServerSetup) -> None:
    other = setup.bin.parent / "other"
    other.mkdir()
    setup.program("node", other)
    setup.path = f"{other}:{setup.path}"


def _link(target: str) -> Callable[[ServerSetup], None]:
    def make(setup: ServerSetup) -> None:
        setup.script.unlink()
        (setup.root / target).write_text("serve()\n")
        setup.script.symlink_to(target)

    return make


CHANGES: dict[str, Callable[[ServerSetup], object]] = {
    "the program": lambda setup: setup.rewrite(command="node2"),
    "an argument": lambda setup: setup.rewrite(args=["./server.js", "--port", "2"]),
    "an argument more": lambda setup: setup.rewrite(args=[*setup.raw["args"], ""]),
    "a value of a variable": lambda setup: setup.rewrite(env={"A": "2"}),
    "a variable more": lambda setup: setup.rewrite(env={"A": "1", "NODE_OPTIONS": "-r ./x.js"}),
    "a secret that it gets": lambda setup: setattr(
        setup, "server", replace(setup.server, env_secrets={"TOKEN": "bank-token"})
    ),
    "a word nobody knows yet": lambda setup: setup.rewrite(autoApprove=True),
    "the folder it starts in": lambda setup: setattr(
        setup, "server", replace(setup.server, cwd=str(setup.root.parent))
    ),
    "the file it comes from": lambda setup: setattr(
        setup, "server", replace(setup.server, origin=EntryOrigin(setup.root / "x.json", "workspace"))
    ),
    "an environment file": lambda setup: setattr(
        setup, "server", replace(setup.server, files={".env": b"A=2"})
    ),
    "a byte of a file it names": lambda setup: setup.script.write_text("serve();"),
    "the mode of a file it names": lambda setup: setup.script.chmod(0o755),
    "a file it names is gone": lambda setup: setup.script.unlink(),
    "a file it names is a link now": _link("other.js"),
    "a file that an argument names now": lambda setup: (setup.root / "1").write_text(""),
    "another program of this name": _shadow,
    "the program is gone": lambda setup: (setup.bin / "node").unlink(),
}


def test_the_names_of_secrets_that_a_server_gets_are_told(setup: ServerSetup) -> None:
    secrets = {"TOKEN": "bank-token", "KEY": "a.key"}
    setup.server = replace(setup.server, env_secrets=secrets, raw={**setup.raw, "env_secrets": secrets})
    facts = setup.item().facts
    assert facts["secrets"] == ["a.key as KEY", "bank-token as TOKEN"]
    assert facts["written"]["env_secrets"] == secrets


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_of_a_stdio_server_is_another_digest(setup: ServerSetup, name: str) -> None:
    before = setup.item().digest()
    assert setup.item().digest() == before
    CHANGES[name](setup)
    assert setup.item().digest() != before


def test_another_target_of_a_link_is_another_digest(setup: ServerSetup) -> None:
    _link("one.js")(setup)
    before = setup.item().digest()
    _link("two.js")(setup)
    assert setup.item().digest() != before


def test_a_linked_interpreter_is_compared_by_its_target(setup: ServerSetup) -> None:
    inside = setup.root / "bin"
    inside.mkdir()
    (inside / "node").symlink_to(setup.bin / "node")
    setup.rewrite(command="bin/node")
    before = setup.item()
    assert before.facts["program"] == str(inside / "node")
    setup.program("node20")
    (inside / "node").unlink()
    (inside / "node").symlink_to(setup.bin / "node20")
    assert setup.item().digest() != before.digest()


def test_a_program_of_the_workspace_is_compared_by_its_bytes(setup: ServerSetup) -> None:
    setup.program("serve", setup.root)
    setup.rewrite(command="./serve")
    before = setup.item()
    assert before.files[file_name("serve", executable=True)] == b"#!/bin/sh\n"
    (setup.root / "serve").write_text("#!/bin/sh\nevil\n")
    assert setup.item().digest() != before.digest()


@pytest.mark.parametrize(
    "argument",
    ["server.js", "--require=./server.js", "lib:./server.js", "sub/../server.js", "{root}/server.js"],
)
def test_a_file_is_found_in_every_spelling_of_its_path(setup: ServerSetup, argument: str) -> None:
    (setup.root / "sub").mkdir()
    setup.rewrite(args=[argument.format(root=setup.root)])
    before = setup.item()
    assert before.files == {"server.js": b"serve()\n"}


def test_folders_and_files_outside_are_not_content_of_the_workspace(setup: ServerSetup) -> None:
    outside = setup.root.parent / "data.db"
    outside.write_text("1")
    setup.rewrite(args=[".", str(outside)])
    before = setup.item()
    outside.write_text("2")
    assert before.files == {} and setup.item().digest() == before.digest()


def test_a_search_path_does_not_lead_into_the_workspace(
    setup: ServerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(setup.root)
    setup.program("node", setup.root)
    for path in (f".:{setup.path}", f":{setup.path}", f"{setup.path}:"):
        setup.path = path
        assert setup.item().facts["program"] == str(setup.bin / "node")
    setup.path = "."
    assert setup.item().facts["program"] is None


@pytest.mark.parametrize("word", ["a\0b", "\ud800", "x" * 5000, "/", "", "~", "../" * 200])
def test_odd_arguments_do_not_raise(setup: ServerSetup, word: str) -> None:
    setup.rewrite(command=word or "node", args=[word, f"--x={word}"])
    assert len(setup.item().digest()) == 64


def test_a_pipe_in_place_of_a_file_does_not_block(setup: ServerSetup) -> None:
    os.mkfifo(setup.root / "pipe")
    setup.rewrite(args=["pipe"])
    assert setup.item().files == {}


def test_large_files_are_compared_by_hash(setup: ServerSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_files, "MAX_KEPT", 10)
    setup.script.write_bytes(b"x" * 11)
    before = setup.item()
    assert before.files == {}
    setup.script.write_bytes(b"x" * 10 + b"y")
    hashed = setup.item()
    monkeypatch.setattr(command_files, "MAX_HASHED", 10)
    by_status = setup.item()
    setup.script.write_bytes(b"z" * 11)
    assert len({one.digest() for one in (before, hashed, by_status, setup.item())}) == 4


def test_a_digest_does_not_depend_on_other_servers(
    setup: ServerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that saw other things before come to the same digest."""
    monkeypatch.setattr(command_files, "MAX_KEPT", 12)
    (setup.root / "first").write_text("123456")
    for name in ("first", "server.js"):
        os.utime(setup.root / name, (1, 1))
    both = replace(setup.server, command=("node", "first", "server.js"))
    fresh = TrustItemFactory(setup.root).stdio(both, setup.path)
    maker = TrustItemFactory(setup.root)
    maker.stdio(setup.server, setup.path)
    assert maker.stdio(both, setup.path).digest() == fresh.digest()
    assert list(fresh.files) == ["first"]


def test_the_same_item_is_returned_while_nothing_changes(setup: ServerSetup) -> None:
    maker = TrustItemFactory(setup.root)
    first = maker.stdio(setup.server, setup.path)
    assert maker.stdio(setup.server, setup.path) is first
    setup.script.write_text("serve();")
    assert maker.stdio(setup.server, setup.path) is not first


# -- remote servers and settings -------------------------------------------------------------------------


REMOTE = RemoteServer(
    "linear",
    "https://mcp.example/mcp",
    EntryOrigin(Path("/ws/.mcp.json"), "workspace"),
    token=SECRET,
    headers={"X-Key": SECRET},
)


def remote(server: RemoteServer) -> TrustItem:
    return TrustItemFactory(Path("/ws")).remote(server)


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://evil.example/mcp"},
        {"url": "https://mcp.example/mcp?x=1"},
        {"token": "other"},
        {"token": "", "token_env": "GITHUB_TOKEN"},
        {"token": "", "token_secret": "github"},
        {"auth": "oauth"},
        {"client_id": "x"},
        {"client_secret": "x"},
        {"scope": "all"},
        {"headers": {"X-Key": "other"}},
        {"headers": {"X-Other": SECRET}},
        {"transport": "sse"},
        {"allow_private": True},
        {"raw": {"url": "https://mcp.example/mcp"}},
    ],
    ids=str,
)
def test_every_change_of_a_remote_server_is_another_digest(change: Mapping[str, Any]) -> None:
    """Also what is sent there, and what of the user's it gets to see."""
    changed: RemoteServer = replace(REMOTE, **change)
    assert remote(changed).digest() != remote(REMOTE).digest()


def test_a_variable_that_leads_to_another_host_is_another_digest() -> None:
    raw = {"url": "https://${env:HOST}/mcp"}
    one, two = (replace(REMOTE, raw=raw, url=f"https://{host}/mcp") for host in ("a", "b"))
    assert remote(one).digest() != remote(two).digest()


def test_a_renewed_secret_of_the_user_keeps_the_digest(setup: ServerSetup) -> None:
    setup.rewrite(env={"TOKEN": "${env:TOKEN}"}, args=["--token", "${env:TOKEN}"])
    old, new = (
        replace(setup.server, env={"TOKEN": value}, command=("node", "--token", value))
        for value in ("1", "2")
    )
    maker = TrustItemFactory(setup.root)
    assert maker.stdio(old, setup.path).digest() == maker.stdio(new, setup.path).digest()


def test_values_of_environment_files_change_the_digest(setup: ServerSetup) -> None:
    one, two = (replace(setup.server, env={"A": "1", "B": value}) for value in ("1", "2"))
    maker = TrustItemFactory(setup.root)
    assert maker.stdio(one, setup.path).digest() != maker.stdio(two, setup.path).digest()


def test_settings_are_an_item_only_if_they_allow_more() -> None:
    maker = TrustItemFactory(Path("/ws"))
    assert maker.settings(Configuration(deltas=PolicyDeltas(unexposed=("a",)))) is None
    widenings = [
        Configuration(widening=PolicyDeltas(exposed=("a",))),
        Configuration(widening=PolicyDeltas(enabled=("a",))),
        Configuration(widening=PolicyDeltas(unexposed=("a",))),
        Configuration(widening=PolicyDeltas(disabled=("a",))),
        Configuration(widening_defaults=()),
        Configuration(widening_defaults=(("a", "limit", 7),)),
        Configuration(widening_defaults=(("a", "limit", "7"),)),
    ]
    items = [maker.settings(one) for one in widenings]
    assert len({item.digest() for item in items if item is not None}) == len(widenings)
    assert items[0] is not None and items[0].title == "settings: offer a"


def test_only_enabled_entries_of_the_workspace_need_trust(setup: ServerSetup) -> None:
    user = EntryOrigin(Path("/home/u/.config/lm-tools-bridge/workspace.toml"), "user")
    configuration = Configuration(
        stdio=(
            setup.server,
            replace(setup.server, namespace="mine", origin=user),
            replace(setup.server, namespace="off", enabled=False),
        ),
        remote=(REMOTE, replace(REMOTE, namespace="mine", origin=user)),
        widening=PolicyDeltas(exposed=("a",)),
    )
    keys = [item.key for item in TrustItemFactory(setup.root).all(configuration, setup.path)]
    assert keys == [stdio_key("gh"), remote_key("linear"), "settings"]


def test_items_contain_no_secret(setup: ServerSetup) -> None:
    setup.rewrite(
        args=["--token", SECRET, f"--api-key={SECRET}", "-e", f"GH_TOKEN={SECRET}"],
        env={"A": SECRET},
        headers={"Authorization": f"Bearer {SECRET}"},
        url=f"https://u:{SECRET}@h/?key={SECRET}",
        nested={"clientSecret": SECRET},
    )
    setup.server = replace(setup.server, files={".env": SECRET.encode()})
    for item in (setup.item(), remote(replace(REMOTE, url=f"https://u:{SECRET}@h/?k={SECRET}"))):
        assert SECRET not in f"{item.title} {item.facts} {item.files}"
