"""The pages of recorded calls as HTML: hostile names stay text, and links keep the filters."""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any

import pytest

from lm_tools_bridge.recorder.call_log import Call, Contents
from lm_tools_bridge.recorder.page.call_fragments import call_page, no_such_call
from lm_tools_bridge.recorder.page.fragments import calls_page, figures_page, outcome
from lm_tools_bridge.recorder.page.lookups import CallQuery, FoundCall, FoundCalls, FoundFigures, read_query
from lm_tools_bridge.recorder.server_output import OutputLine
from lm_tools_bridge.recorder.statistics import ToolFigures
from support.http.html_elements import HOSTILE, Elements

NOW_MS = 1_800_000_000_000.0


def call(name: str, **members: Any) -> Call:
    return Call(**{
        "id": 7, "at": round(NOW_MS), "client": name, "client_version": name, "era": "modern", "revision": name,
        "session": name, "project": name, "decided_by": name, "method": "tools/call", "tool": name, "source": name,
        "outcome": name, "code": 3, "sent": 1, "received": 2, "took": 1500, "manager": 1, "server": 2, "source_took": 3,
        "approval": 5,
        "queue": 4, "start": 5, "asked": 6, "retries": 1, "more": 2, "trace": name, **members})  # fmt: skip


def query(**fields: str) -> CallQuery:
    return read_query(fields, NOW_MS / 1000)


def shown(name: str) -> dict[str, str]:
    found = FoundCalls([call(name)], older=True, has_any=True, names={"tool": [name], "client": [name]})
    figures = ToolFigures(
        tool=name, method=name, client=name, calls=1, errors=1, p50=1, p99=1, sent=1, received=1, tokens=1
    )
    one = FoundCall(
        call(name), Contents(arguments=name, result=f'{{"a": "{len(name)}"}}', hidden=1, is_cut=True),
        [OutputLine(name, name, is_of_call=True)],
    )  # fmt: skip
    return {
        "calls": calls_page(query(tool=name, client=name, since="1h"), found, NOW_MS, name, UTC),
        "problem": calls_page(query(tool=name), name, NOW_MS, None, UTC),
        "figures": figures_page(query(tool=name), FoundFigures([figures], 3, {"tool": [name]}), name),
        "call": call_page(one, UTC),
        "none": no_such_call(name),
    }


@pytest.mark.parametrize("page", ["calls", "problem", "figures", "call", "none"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_make_no_element_and_no_attribute(page: str, name: str) -> None:
    tame, hostile = Elements(shown("tame")[page]), Elements(shown(name)[page])
    assert hostile.tags == tame.tags
    assert [key for key, _ in hostile.attributes] == [key for key, _ in tame.attributes]
    assert not re.search("[\x1b\u202e]", shown(name)[page])


@pytest.mark.parametrize("page", ["calls", "figures", "call"])
def test_nothing_is_inline(page: str) -> None:
    names = {key for key, _ in Elements(shown("tame")[page]).attributes}
    assert not {name for name in names if name == "style" or name.startswith("on")}


def test_the_form_shows_what_was_asked_for() -> None:
    asked = query(tool="a*", errors="1", slow="5")
    html = calls_page(asked, FoundCalls([], older=False, has_any=True, names={}), NOW_MS, None, UTC)
    values = dict(re.findall(r'<input name="(\w+)" value="([^"]*)"', html))
    assert (values["tool"], values["slow"], values["client"]) == ("a*", "5", "")
    assert 'name="errors" value="1" checked' in html
    assert "No recorded call matches." in html


def test_older_calls_are_behind_a_link_with_the_same_filters() -> None:
    found = FoundCalls([call("a", id=9), call("a", id=5)], older=True, has_any=True, names={})
    html = calls_page(query(tool="a", before="10"), found, NOW_MS, None, UTC)
    assert 'href="/page/calls?tool=a&amp;before=5"' in html
    assert 'href="/page/calls?tool=a"' in html


def test_an_empty_database_says_when_calls_appear() -> None:
    html = calls_page(query(), FoundCalls([], older=False, has_any=False, names={}), NOW_MS, None, UTC)
    assert "half a second after it has ended" in html


def test_a_call_has_the_command_that_replays_it() -> None:
    html = call_page(FoundCall(call("git__log"), None, []), UTC)
    assert '<span class="command"><code>lmtb replay 7</code>' in html
    assert "lmtb record on --contents" in html
    assert "lmtb replay" not in call_page(FoundCall(call("x", method="prompts/get"), None, []), UTC)


def test_the_output_of_the_call_s_own_source_is_marked() -> None:
    line = '{"timestamp": "2027-01-15T08:00:00Z", "level": "info", "event": "stderr", "text": "of <b>"}'
    lines = [OutputLine(line, "stdio:git", is_of_call=True), OutputLine("other", None, is_of_call=False)]
    text = Elements(call_page(FoundCall(call("git__log"), None, lines), UTC)).text
    assert "> 2027-01-15T08:00:00Z info stderr text=of <b>\n  other" in text


@pytest.mark.parametrize("word", ["task", "input_required"])
def test_a_call_that_goes_on_is_no_failure(word: str) -> None:
    assert 'class="state busy"' in outcome(word)
