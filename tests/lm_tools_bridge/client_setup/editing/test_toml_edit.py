"""Tests that a change of one table keeps every other character of a TOML file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.client_setup.editing.toml_edit import value_at, with_table, without_table
from lm_tools_bridge.client_setup.refusals import FormProblem
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

PATH = ("mcp_servers", "our-server")
ENTRY = {"url": "http://x", "headers": {"A b": "P"}, "required": True, "wait": 45}
WRITTEN = (
    '[mcp_servers.our-server]\nurl = "http://x"\nheaders = { "A b" = "P" }\nrequired = true\nwait = 45\n'
)

FILES = [
    "",
    "# only a comment\n",
    'model = "o"  # why\n',
    "[mcp_servers]\n",
    '[mcp_servers.a]\nurl = "x"\n\n# p\n[profiles.p]\nx = 1\n',
    '[mcp_servers.a]\n[other]\n[mcp_servers.b]\nargs = [\n  "[x]",\n]\n',
    'text = """\n[mcp_servers.our-server]\n"""\n',
    "mcp_servers.a.url = 1\n",
    "[[list]]\nx = 1\n[[list]]\nx = 2\n",
]


def added(text: str, entry: dict[str, Any] = ENTRY) -> str:
    result = with_table(text, PATH, entry)
    assert isinstance(result, str), result
    return result


def removed(text: str) -> str:
    result = without_table(text, PATH)
    assert isinstance(result, str), result
    return result


@pytest.mark.parametrize("text", FILES)
def test_a_table_is_added_at_the_end_and_nothing_else_changes(text: str) -> None:
    after = added(text)
    assert after.startswith(text)
    assert after.endswith(WRITTEN)
    expected = tomllib.loads(text)
    expected.setdefault("mcp_servers", {})["our-server"] = ENTRY
    assert tomllib.loads(after) == expected
    assert tomlkit.parse(after).unwrap() == expected


@pytest.mark.parametrize("text", [text for text in FILES if '"""' not in text])
def test_removing_what_was_added_gives_the_same_bytes(text: str) -> None:
    assert removed(added(text)) == text


def test_a_header_inside_a_string_is_no_header() -> None:
    text = 'text = """\n[mcp_servers.our-server]\n"""\n'
    assert tomllib.loads(removed(added(text))) in (
        tomllib.loads(text),
        {**tomllib.loads(text), "mcp_servers": {}},
    )


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3), st.text(max_size=8) | st.integers() | st.booleans()
    )
)
def test_any_file_keeps_its_values(values: dict[str, Any]) -> None:
    text = tomlkit.dumps({**values, "section": values})
    expected = {**tomllib.loads(text), "mcp_servers": {"our-server": ENTRY}}
    assert tomllib.loads(added(text)) == expected
    assert removed(added(text)) == text


def test_a_file_without_a_line_feed_at_the_end_gets_one() -> None:
    assert added("a = 1") == f"a = 1\n\n{WRITTEN}"


def test_line_endings_of_windows_stay() -> None:
    text = "a = 1\r\n[b]\r\nc = 2\r\n"
    after = added(text)
    assert after.count("\n") == after.count("\r\n")
    assert removed(after) == text


def test_only_the_values_that_differ_change_and_comments_stay() -> None:
    text = '[mcp_servers.our-server]  # ours\nurl = "http://y"  # old\n# note\nrequired = true\nextra = [1]\n'
    after = added(text, {**ENTRY, "extra": [1]})
    assert '"http://x"' in after
    for kept in ("# ours", "# old", "# note\nrequired = true\nextra = [1]\n"):
        assert kept in after


def test_a_table_below_ours_is_updated_in_place_and_keeps_its_comments() -> None:
    text = '[mcp_servers.our-server]\nurl = "http://x"\nrequired = true\nwait = 45\n'
    text += '[mcp_servers.our-server.headers]\n# in it\n"A b" = "Q"\n\n# behind\n'
    assert added(text) == text.replace('"Q"', '"P"')


def test_tables_below_ours_go_with_it_and_comments_of_the_next_table_stay() -> None:
    text = (
        f"a = 1\n\n{WRITTEN}[mcp_servers.our-server.env]\nX = '1'\n\n# about b\n\n[b]\nx = 1\n"
        '[mcp_servers."our-server".tools]\ny = 2\n[c]\n'
    )
    assert removed(text) == "a = 1\n\n# about b\n\n[b]\nx = 1\n[c]\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (
            '[mcp_servers]\n# n\nour-server = { url = "x" }\na = { url = "y" }\n',
            '[mcp_servers]\n# n\na = { url = "y" }\n',
        ),
        ('mcp_servers = { our-server = { url = "x" }, a = {} }\n', "mcp_servers = { a = {} }\n"),
    ],
)
def test_inline_tables_are_removed(text: str, after: str) -> None:
    assert tomllib.loads(removed(text)) == tomllib.loads(after)
    assert ("# n" in removed(text)) == ("# n" in text)


def test_a_table_is_added_to_an_inline_one() -> None:
    after = added('mcp_servers = { a = { url = "y" } }\n')
    assert tomllib.loads(after) == {"mcp_servers": {"a": {"url": "y"}, "our-server": ENTRY}}


@pytest.mark.parametrize(
    ("text", "line"), [("a =\n", 1), ("a = 1\na = 2\n", 2), ("[x\n", 1), ('s = "', None)]
)
def test_a_broken_text_is_refused(text: str, line: int | None) -> None:
    for result in (with_table(text, PATH, ENTRY), without_table(text, PATH), value_at(text, PATH)):
        assert isinstance(result, SyntaxProblem)
        assert line is None or result.line == line


@pytest.mark.parametrize("text", ["mcp_servers = 1\n", "mcp_servers = []\n"])
def test_what_is_no_table_is_refused(text: str) -> None:
    for result in (with_table(text, PATH, ENTRY), without_table(text, PATH)):
        assert isinstance(result, FormProblem)
