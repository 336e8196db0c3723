"""Tests that values of TOML files are changed, and that comments and formatting stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lm_tools_bridge.text.toml_edit import (
    Document,
    NotEditableError,
    append_table,
    edit_text,
    find_value,
    put_value,
    remove_value,
)

TEXT = """\
# mine
[hosts.build]  # the fast one
address = "ssh://ada@build/"
"""


def test_a_value_is_set_and_everything_else_stays() -> None:
    def change(document: Document) -> None:
        put_value(document, ["hosts", "build", "command"], "lmtb")

    assert edit_text(TEXT, change) == TEXT + 'command = "lmtb"\n'


def test_an_equal_value_stays_as_it_is_written() -> None:
    text = "a = 0x10\nb = [1, # one\n 2]\n"

    def change(document: Document) -> None:
        put_value(document, ["a"], 16)
        put_value(document, ["b"], [1, 2])

    assert edit_text(text, change) == text


def test_missing_tables_are_created_without_empty_headers() -> None:
    written = edit_text("", lambda document: put_value(document, ["hosts", "build", "address"], "x"))
    assert written == '[hosts.build]\naddress = "x"\n'


@pytest.mark.parametrize(("prune", "left"), [(True, "# mine\n"), (False, "# mine\n[hosts.build]")])
def test_tables_that_become_empty_go_if_they_are_to_go(prune: bool, left: str) -> None:
    path = ["hosts", "build", "address"]
    written = edit_text(TEXT, lambda document: remove_value(document, path, prune=prune))
    assert written.startswith(left)
    assert ("hosts" in written) is not prune


def test_a_table_is_appended_to_an_array_that_is_there_or_not() -> None:
    text = edit_text("", lambda document: append_table(document, ["mcp", "servers"], {"name": "a"}))
    assert text == '[[mcp.servers]]\nname = "a"\n'
    text = edit_text(
        f"{text}# its end\n", lambda document: append_table(document, ["mcp", "servers"], {"b": 1})
    )
    assert text == '[[mcp.servers]]\nname = "a"\n# its end\n\n[[mcp.servers]]\nb = 1\n'


@pytest.mark.parametrize(
    ("text", "change", "reason"),
    [
        ("hosts = 3", lambda document: put_value(document, ["hosts", "a"], 1), '"hosts" is not a table'),
        (
            "mcp = {servers = 1}",
            lambda document: append_table(document, ["mcp", "servers"], {}),
            "not an array",
        ),
        ("a = ", lambda document: put_value(document, ["b"], 1), "line 1"),
        ("a" + ".a" * 20 + " = 1", lambda document: put_value(document, ["b"], 1), "more than 16 parts"),
        ("", lambda document: put_value(document, ["b"], "\ud800"), "surrogates"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    text: str, change: Callable[[Document], None], reason: str
) -> None:
    with pytest.raises(NotEditableError, match=reason):
        edit_text(text, change)


def test_values_are_found_by_their_path() -> None:
    assert find_value({"a": {"b": 1}}, ["a", "b"]) == 1
    assert find_value({"a": {"b": 1}}, ["a", "b", "c"]) is None
    assert find_value({"a": []}, ["b"]) is None
