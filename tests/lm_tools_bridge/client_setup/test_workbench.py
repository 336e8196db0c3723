"""Tests adding, removing and undoing in the files of every client, and that refused files stay as they are."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_tools_bridge.client_setup.change import ENTRY_NAME, Unchanged
from lm_tools_bridge.client_setup.clients import CLIENTS, Client, Machine, client_named
from lm_tools_bridge.client_setup.editing.yaml_servers import value_at
from lm_tools_bridge.client_setup.entries import Endpoint
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import ClientFiles, Planned

EVERY = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.id)
CREATED = pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.form.yaml is None], ids=lambda client: client.id
)
"""Those whose file we make; with servers alone, a YAML file is no configuration."""


@pytest.fixture
def files(tmp_path: Path) -> ClientFiles:
    (tmp_path / "home").mkdir()
    return made(tmp_path)


def made(folder: Path, port: int = 48123, **environ: str) -> ClientFiles:
    machine = Machine({"PATH": str(folder / "bin"), **environ}, folder / "home", "linux")
    return ClientFiles(machine, folder / "state", Endpoint(port, "/opt/lmtb"))


def named(name: str) -> Client:
    client = client_named(name)
    assert client is not None
    return client


def place(files: ClientFiles, client: Client, content: bytes = b"") -> Path:
    """The client's file, written."""
    path = client.candidates(files.machine)[-1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def do(
    files: ClientFiles, client: Client, planned: Planned | Unchanged | Refusal, *, undo: bool = False
) -> None:
    assert isinstance(planned, Planned), planned
    assert files.carry_out(client, planned, undo=undo) is None


def parsed(client: Client, path: Path) -> Any:
    """The file as the standard library reads it; it has no comments here."""
    text = path.read_text("utf-8-sig")
    if client.form.yaml is not None:
        return {key: value_at(text, (key,), client.form.yaml) for key in yaml.safe_load(text)}
    return tomllib.loads(text) if client.form.dialect is None else json.loads(text)


def existing(client: Client) -> bytes:
    """A file with a server of somebody else, in an unusual layout."""
    if client.form.yaml is not None and not client.form.yaml.is_list:
        return b"# mine\r\nx: 1   # why\r\n\r\nextensions:\r\n    # of others\r\n    other:\r\n      uri:   y\r\nz: 2\r\n"
    if client.form.yaml is not None:
        return b"# mine\r\nx: 1   # why\r\n\r\nmcpServers:\r\n    # of others\r\n    - name: other\r\n      url:   y\r\n"
    if client.form.dialect is None:
        return b'# mine\r\nx = 1   # why\r\n\r\n[mcp_servers.other]\r\nurl   = "y"\r\n\r\n[z]\r\n'
    text = '{\n\t"first" : [1,  2],\n\t"%s": {\n\t\t"other": {"url": "y"}\n\t},\n\t"é": null }'
    return b"\xef\xbb\xbf" + (text % client.form.container).encode()


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@CREATED
def test_a_missing_file_is_made_and_undo_removes_it_with_its_folders(
    files: ClientFiles, client: Client
) -> None:
    path = client.candidates(files.machine)[-1]
    before = snapshot(files.machine.home)
    do(files, client, files.plan_addition(client))
    assert parsed(client, path) == {client.form.container: {ENTRY_NAME: client.entry(files.endpoint)}}
    assert files.overview(client).state == "current"
    do(files, client, files.plan_undo(client), undo=True)
    assert snapshot(files.machine.home) == before


@CREATED
def test_an_empty_file_gets_the_entry_and_undo_empties_it(files: ClientFiles, client: Client) -> None:
    path = place(files, client)
    do(files, client, files.plan_addition(client))
    assert parsed(client, path) == {client.form.container: {ENTRY_NAME: client.entry(files.endpoint)}}
    do(files, client, files.plan_undo(client), undo=True)
    assert path.read_bytes() == b""


@EVERY
def test_an_existing_file_keeps_the_rest_and_undo_is_byte_exact(files: ClientFiles, client: Client) -> None:
    path = place(files, client, existing(client))
    value = parsed(client, path)
    do(files, client, files.plan_addition(client))
    value[client.form.container][ENTRY_NAME] = client.entry(files.endpoint)
    assert parsed(client, path) == value
    do(files, client, files.plan_undo(client), undo=True)
    assert path.read_bytes() == existing(client)
    again = files.plan_undo(client)
    assert isinstance(again, Refusal)
    assert again.reason == "no_undo"


@EVERY
def test_adding_twice_changes_nothing(files: ClientFiles, client: Client) -> None:
    path = place(files, client, existing(client))
    do(files, client, files.plan_addition(client))
    once = path.read_bytes()
    assert isinstance(files.plan_addition(client), Unchanged)
    assert path.read_bytes() == once


@EVERY
def test_removing_leaves_the_others_and_can_be_undone(files: ClientFiles, client: Client) -> None:
    path = place(files, client, existing(client))
    value = parsed(client, path)
    do(files, client, files.plan_addition(client))
    with_entry = path.read_bytes()
    do(files, client, files.plan_removal(client))
    assert parsed(client, path) == value
    assert isinstance(files.plan_removal(client), Unchanged)
    do(files, client, files.plan_undo(client), undo=True)
    assert path.read_bytes() == with_entry


@CREATED
def test_uninstalling_leaves_no_file_that_was_made(files: ClientFiles, client: Client) -> None:
    before = snapshot(files.machine.home)
    do(files, client, files.plan_addition(client))
    plan, is_undo = files.plan_uninstallation(client)
    do(files, client, plan, undo=is_undo)
    assert snapshot(files.machine.home) == before


@EVERY
def test_uninstalling_takes_only_the_entry_from_a_file_that_was_changed_twice(
    files: ClientFiles, client: Client
) -> None:
    path = place(files, client, existing(client))
    value = parsed(client, path)
    do(files, client, files.plan_addition(client))
    moved = replace(files, endpoint=Endpoint(48124, "/opt/elsewhere/lmtb"))
    do(moved, client, moved.plan_addition(client))
    plan, is_undo = files.plan_uninstallation(client)
    assert not is_undo, "undo would bring back the first entry"
    do(files, client, plan, undo=is_undo)
    assert parsed(client, path) == value


@CREATED
def test_another_port_makes_an_entry_outdated_and_add_corrects_it(
    files: ClientFiles, client: Client, tmp_path: Path
) -> None:
    do(files, client, files.plan_addition(client))
    moved = made(tmp_path, 48999)
    path = client.candidates(files.machine)[-1]
    if "command" in client.entry(files.endpoint):  # the program finds the port by itself
        assert moved.overview(client).state == "current"
        return
    assert moved.overview(client).state == "outdated"
    do(moved, client, moved.plan_addition(client))
    assert b"127.0.0.1:48999/mcp" in path.read_bytes()
    assert b"48123" not in path.read_bytes()


@pytest.mark.parametrize("name", ["codex", "opencode"])
def test_an_older_entry_is_updated_and_what_the_user_added_stays(files: ClientFiles, name: str) -> None:
    client = named(name)
    entry = b'{"type": "remote", "url": "http://127.0.0.1:48123/mcp", // mine\n"enabled": false}'
    before = b'{"mcp": {"lm-tools-bridge": ' + entry + b"}}"
    if name == "codex":
        before = (
            b'[mcp_servers.lm-tools-bridge]\nurl = "http://127.0.0.1:48123/mcp"\n# mine\n'
            b'env_http_headers = { "X-Workspace-Cwd" = "PWD" }\nenabled = false\n'
        )
    path = place(files, client, before)
    do(files, client, files.plan_update(client))
    assert b"mine" in path.read_bytes()
    found = files.overview(client)
    assert (found.state, found.entry) == ("current", {**client.entry(files.endpoint), "enabled": False})
    assert isinstance(files.plan_update(client), Unchanged)
    do(files, client, files.plan_undo(client), undo=True)
    assert path.read_bytes() == before


def test_a_client_without_our_entry_is_not_updated(files: ClientFiles) -> None:
    refused = files.plan_update(named("cursor"))
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.next_step) == ("not_configured", "lmtb client add cursor")


@pytest.mark.parametrize("content", [None, b"", b"# nothing yet\n"])
@pytest.mark.parametrize("name", ["continue", "goose"])
def test_a_client_without_a_configuration_of_its_own_gets_no_yaml_file(
    files: ClientFiles, content: bytes | None, name: str
) -> None:
    client = named(name)
    if content is not None:
        place(files, client, content)
    refused = files.plan_addition(client)
    assert isinstance(refused, Refusal)
    assert "start the client once" in refused.message


JSON_DEFECTS = [b'{"a": ', b"[]", b"{'a': 1}", b'{"a": 1, "a": 2}', b"\xff\xfe{\x00}\x00", b"{} {}"]
YAML_DEFECTS = [b"a: [", b"- a", b"a: 1\n\tb: 2", b"mcpServers: x", b"\xff\xfea", b"a: b: c"]
TOML_DEFECTS = [b"a = ", b"mcp_servers = 1", b"a = 1\na = 2", b"[x\n", b"\xff\xfea", b"mcp_servers = 1\n"]


@pytest.mark.parametrize("number", range(len(JSON_DEFECTS)))
@EVERY
def test_a_broken_file_is_refused_and_left_alone(files: ClientFiles, client: Client, number: int) -> None:
    defects = TOML_DEFECTS if client.form.dialect is None else JSON_DEFECTS
    content = (YAML_DEFECTS if client.form.yaml is not None else defects)[number]
    content = content.replace(b"mcpServers", client.form.container.encode())
    place(files, client, content)
    before = snapshot(files.machine.home)
    for refused in (files.plan_addition(client), files.plan_removal(client)):
        assert isinstance(refused, Refusal)
        assert refused.next_step
    overview = files.overview(client)
    assert overview.state is None
    assert overview.refusal is not None
    assert snapshot(files.machine.home) == before


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: path.chmod(0o200), "unreadable"),
        (lambda path: path.chmod(0o400), "read_only"),
        (lambda path: (path.unlink(), path.symlink_to(path.parent / "nowhere")), "dangling_link"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/null")), "not_a_file"),
        (lambda path: path.write_bytes(b" " * (5 * 2**20 + 1)), "too_large"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
@EVERY
def test_a_file_that_cannot_be_used_is_refused_and_left_alone(
    files: ClientFiles, client: Client, harm: Any, reason: str
) -> None:
    path = place(files, client, existing(client))
    harm(path)
    before = path.lstat()
    refused = files.plan_addition(client)
    assert isinstance(refused, Refusal) and refused.next_step
    assert refused.reason == reason
    after = path.lstat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
@EVERY
def test_a_link_to_a_file_of_another_user_is_refused(
    files: ClientFiles, client: Client, tmp_path: Path
) -> None:
    path, theirs = place(files, client), tmp_path / "theirs"
    theirs.write_bytes(existing(client))
    os.chown(theirs, 12345, 12345)
    path.unlink()
    path.symlink_to(theirs)
    refused = files.plan_addition(client)
    assert isinstance(refused, Refusal) and refused.reason == "other_user"


def test_undo_keeps_what_another_program_wrote_meanwhile(files: ClientFiles) -> None:
    client = named("cursor")
    path = place(files, client, b'{"a": 1}')
    do(files, client, files.plan_addition(client))
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    undo = files.plan_undo(client)
    assert isinstance(undo, Planned)
    assert undo.keeps_others
    assert files.carry_out(client, undo, undo=True) is None
    assert path.read_bytes() == b'{"a": 2}'


def test_undo_is_refused_after_another_program_changed_our_entry(files: ClientFiles) -> None:
    client = named("cursor")
    path = place(files, client, b'{"a": 1}')
    do(files, client, files.plan_addition(client))
    theirs = path.read_bytes().replace(b"/mcp", b"/other/mcp", 1)
    path.write_bytes(theirs)
    refused = files.plan_undo(client)
    assert isinstance(refused, Refusal)
    assert refused.reason == "changed_since"
    change = files.changed_since(client)
    assert change is not None
    assert change.after == theirs
    assert not files.overview(client).can_undo
    assert path.read_bytes() == theirs


def test_undo_is_refused_after_the_file_was_deleted(files: ClientFiles) -> None:
    client = named("cursor")
    do(files, client, files.plan_addition(client))
    client.candidates(files.machine)[-1].unlink()
    assert isinstance(files.plan_undo(client), Refusal)


def test_a_file_changed_after_the_plan_is_kept_and_undo_is_unaffected(files: ClientFiles) -> None:
    client = named("cursor")
    path = place(files, client, b'{"a": 1}')
    planned = files.plan_addition(client)
    path.write_bytes(b'{"a": 2}')
    assert isinstance(planned, Planned)
    refused = files.carry_out(client, planned)
    assert refused is not None
    assert refused.reason == "changed_meanwhile"
    assert path.read_bytes() == b'{"a": 2}'
    assert isinstance(files.plan_undo(client), Refusal)


def test_an_unusable_state_folder_is_refused_before_any_write(files: ClientFiles) -> None:
    client = named("cursor")
    path = place(files, client, b"{}")
    files.state_dir.touch()
    planned = files.plan_addition(client)
    assert isinstance(planned, Planned)
    refused = files.carry_out(client, planned)
    assert refused is not None
    assert path.read_bytes() == b"{}"


def test_a_linked_file_stays_a_link_also_after_undo(files: ClientFiles) -> None:
    client = named("gemini-cli")
    path = place(files, client, b"{}")
    target = files.machine.home / "dotfiles.json"
    path.rename(target)
    path.symlink_to(target)
    do(files, client, files.plan_addition(client))
    do(files, client, files.plan_undo(client), undo=True)
    assert path.is_symlink()
    assert target.read_bytes() == b"{}"


def test_opencode_uses_the_file_with_the_entry_else_the_one_with_comments(files: ClientFiles) -> None:
    client = named("opencode")
    relaxed, strict = client.candidates(files.machine)
    place(files, client, b"{}")
    relaxed.write_bytes(b"{\n  // mine\n}\n")
    assert files.overview(client).file == relaxed
    relaxed.unlink()
    do(files, client, files.plan_addition(client))
    relaxed.write_bytes(b"{\n  // mine\n}\n")
    assert files.overview(client).file == strict
    assert isinstance(files.plan_addition(client), Unchanged)


def test_comments_survive_in_a_file_that_may_have_them(files: ClientFiles) -> None:
    client = named("zed")
    path = place(files, client, b'// Zed\n{\n  "a": 1, // one\n  /* none */\n}\n')
    do(files, client, files.plan_addition(client))
    text = path.read_text()
    assert [text.count(comment) for comment in ("// Zed", "// one", "/* none */")] == [1, 1, 1]
    assert files.overview(client).state == "current"


def test_nothing_is_installed_on_a_new_machine(files: ClientFiles) -> None:
    assert [client.id for client in CLIENTS if files.is_installed(client)] == []


@EVERY
def test_a_client_is_found_by_its_program_or_by_its_folder(
    files: ClientFiles, client: Client, tmp_path: Path
) -> None:
    for program in client.programs:
        file = tmp_path / "bin" / program
        file.parent.mkdir(exist_ok=True)
        file.touch(0o755)
        assert files.is_installed(client)
        file.unlink()
    assert not files.is_installed(client)
    client.sign_folder(files.machine).mkdir(parents=True)
    assert files.is_installed(client)


def test_a_refused_link_is_reported_in_the_overview(files: ClientFiles) -> None:
    client = named("cursor")
    path = place(files, client)
    path.unlink()
    path.symlink_to("nowhere")
    overview = files.overview(client)
    assert overview.refusal is not None
    assert overview.refusal.reason == "dangling_link"
    assert os.readlink(path) == "nowhere"
