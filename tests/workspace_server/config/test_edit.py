"""Edits of `workspace.toml` keep comments and formatting."""

from __future__ import annotations

import os
import stat
import threading
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.projects.config_home import ConfigHome
from workspace_server.config import edit
from workspace_server.config.model import PolicyDeltas
from workspace_server.source import Default

DEFAULTS: dict[str, Default] = {"gh__a": "enabled", "gh__b": "enabled", "foo": "off", "calculator": "enabled"}
WRITTEN = """# my file
debug = "off"  # quiet

[tools]
disabledDelta = [
  # too slow
  "gh__a",
  "zz__gone",  # kept
]

[[mcp.stdio_servers]]
namespace = 'x' # single quotes
command = [ "x" ]
"""


def test_disabling_a_tool_keeps_the_rest_of_the_file(home: ConfigHome) -> None:
    file = home.user(WRITTEN)
    saved = edit.switch_tool(file, "gh__b", "disable", defaults=DEFAULTS)
    assert saved == PolicyDeltas(disabled=("gh__a", "gh__b", "zz__gone"))
    text = file.read_text()
    assert [line for line in text.splitlines() if '"gh__b"' not in line] == WRITTEN.splitlines()
    assert home.current().deltas == saved


@pytest.mark.parametrize("linked", [".lm-tools-bridge", ".lm-tools-bridge/workspace.toml"])
def test_the_file_of_a_project_is_not_written_behind_a_link(tmp_path: Path, linked: str) -> None:
    """Else `lmtb tools enable` for one project would enable the tool in the user's file, for all."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "workspace.toml").write_text(WRITTEN)
    place = tmp_path / "project" / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(own / "workspace.toml" if linked.endswith(".toml") else own)
    file = tmp_path / "project/.lm-tools-bridge/workspace.toml"
    with pytest.raises(edit.ConfigEditError, match="symbolic link"):
        edit.switch_tool(file, "new", "enable", defaults={}, of_project=True)
    assert (own / "workspace.toml").read_text() == WRITTEN


def test_a_tool_is_enabled_again(home: ConfigHome) -> None:
    """A save holds only what differs from the defaults."""
    file = home.user(WRITTEN)
    edit.switch_tool(file, "gh__a", "enable", defaults=DEFAULTS)
    edit.switch_tool(file, "foo", "enable", defaults=DEFAULTS)
    expected = PolicyDeltas(exposed=("foo",), enabled=("foo",), disabled=("zz__gone",))
    assert home.current().deltas == expected
    assert "# too slow" in file.read_text()
    assert "namespace = 'x' # single quotes" in file.read_text()
    edit.switch_tool(file, "foo", "disable", defaults=DEFAULTS)
    edit.switch_tool(file, "zz__gone", "enable", defaults=DEFAULTS)
    document = tomllib.loads(file.read_text())
    assert document["tools"] == {"exposedDelta": ["foo", "zz__gone"], "enabledDelta": ["zz__gone"]}


def test_pruning_saves_the_lists_in_order_and_drops_what_is_obsolete(home: ConfigHome) -> None:
    file = home.user(
        '[tools]\nblacklist = ["x"]\nenabledDelta = ["z", "gh__a", "z", "b", "run_in_terminal"] # mine\n'
    )
    edit.prune(file, defaults=DEFAULTS)
    assert file.read_text() == '[tools]\nenabledDelta = ["b", "z"] # mine\n'


def test_a_new_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "workspace.toml"
    edit.set_approval(file, "a.tool with blanks", "deny")
    assert tomllib.loads(file.read_text()) == {"approvals": {"a.tool with blanks": "deny"}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_an_approval_is_changed_and_removed(home: ConfigHome) -> None:
    file = home.user('[approvals]\nother = "ask" # why\n')
    file.chmod(0o640)
    edit.set_approval(file, "rm", "allow")
    edit.set_approval(file, "rm", "deny")
    assert home.current().approvals == {"other": "ask", "rm": "deny"}
    edit.set_approval(file, "rm", None)
    assert file.read_text() == '[approvals]\nother = "ask" # why\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    edit.unset(file, ["approvals", "other"], ["not", "there"])
    assert tomllib.loads(file.read_text()) == {}


def test_a_linked_file_stays_a_link(home: ConfigHome, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("# there\n")
    home.user_file.symlink_to(target)
    edit.put(home.user_file, ["debug"], "simple")
    assert home.user_file.is_symlink()
    assert target.read_text() == '# there\ndebug = "simple"\n'


@pytest.mark.parametrize("text", ["[tools", "a = 1\na = 2", 'tools = "text"'])
def test_an_invalid_file_is_not_changed(home: ConfigHome, text: str) -> None:
    file = home.user(text)
    with pytest.raises(edit.ConfigEditError):
        edit.switch_tool(file, "gh__a", "disable", defaults=DEFAULTS)
    assert file.read_text() == text


@pytest.mark.parametrize("line", ["a." * 100_000 + "a = 1\n", ("a." * 15 + "k{} = 1\n") * 2_000])
def test_a_file_that_takes_minutes_to_edit_is_refused(home: ConfigHome, line: str) -> None:
    file = home.user(line)
    started = time.thread_time()
    with pytest.raises(edit.ConfigEditError, match="cannot be changed"):
        edit.set_approval(file, "x", "ask")
    assert time.thread_time() - started < 2


def test_on_a_full_disk_the_old_file_stays(home: ConfigHome, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home.user(WRITTEN)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        edit.put(file, ["debug"], "detail")
    assert file.read_text() == WRITTEN
    assert list(file.parent.iterdir()) == [file]


def test_concurrent_writers_lose_no_change(home: ConfigHome) -> None:
    file = home.user(WRITTEN)
    names = [f"tool_{number}" for number in range(4)]

    threads = [threading.Thread(target=edit.set_approval, args=(file, name, "deny")) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert set(home.current().approvals) == set(names)


@given(
    before=st.lists(st.sampled_from("abcdef"), max_size=5),
    after=st.lists(st.sampled_from("abcdef"), max_size=5, unique=True).map(sorted),
    style=st.sampled_from(["{}", "{},", "\n  {},\n", " # c\n  {}, # d\n"]),
)
def test_any_list_can_be_rewritten_to_any_other(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str], style: str
) -> None:
    items = [f'"{name}"' for name in before]
    inside = "".join(
        style.format(item) if "," in style else (", " if i else "") + item for i, item in enumerate(items)
    )
    file = tmp_path_factory.getbasetemp() / "list.toml"
    file.write_text(f"[tools]\nenabledDelta = [{inside}]\nother = 1\n")
    edit.put(file, ["tools", "enabledDelta"], after)
    assert tomllib.loads(file.read_text()) == {"tools": {"enabledDelta": after, "other": 1}}
