"""Lines of the log, and what never stands in one."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.text import redaction
from workspace_server import log

CANARY = 'canary "7ab1" é'


@pytest.fixture(autouse=True)
def _nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_values", set())


def test_known_secret_stands_in_no_line_under_whatever_name(capfd: pytest.CaptureFixture[str]) -> None:
    """By value."""
    redaction.hide(CANARY)
    log.info("tool_call", input={"text": f"say {CANARY} twice, {CANARY}"})
    line = json.loads(capfd.readouterr().err)
    assert line["input"]["text"] == "say [hidden] twice, [hidden]"


def test_secrets_are_redacted_by_member_name_and_hidden_elsewhere(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """By key name."""
    assert redaction.redacted({"a": [{"api_key": "x", "b": 1}]}) == {"a": [{"api_key": "[hidden]", "b": 1}]}
    redaction.hide_members({"API_TOKEN": "canary-1", "REGION": "eu-north-1"})
    log.info("said", line="canary-1 in eu-north-1")
    assert json.loads(capfd.readouterr().err)["line"] == "[hidden] in eu-north-1"


@pytest.mark.parametrize("order", [("abcdef", "abcdef123456"), ("abcdef123456", "abcdef")])
def test_secret_that_begins_with_another_is_hidden_whole(order: tuple[str, str]) -> None:
    redaction.hide(*order)
    assert redaction.mask("key=abcdef123456.") == "key=[hidden]."


def test_each_line_of_a_secret_is_hidden_and_its_quoted_forms_too() -> None:
    key = "-----BEGIN KEY-----\nSEKRITPEMLINE0123\n-----END KEY-----\n"
    redaction.hide(key)
    assert "SEKRIT" not in redaction.mask("it says SEKRITPEMLINE0123 now")
    assert redaction.mask("at /x?token=a%20b%2Fcd", ["a b/cd"]) == "at /x?token=[hidden]"


def test_short_values_are_too_common_to_be_hidden() -> None:
    redaction.hide("on")
    assert redaction.mask("connection on") == "connection on"
    assert redaction.mask("a-longer-value", ["a-longer-value"]) == "[hidden]"
