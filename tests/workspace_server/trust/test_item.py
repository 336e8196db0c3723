"""Every change of content, however small, changes the digest of a trust item."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from workspace_server.trust.item import TrustItem, canonical, file_name, hashed, split_name

FACTS: dict[str, Any] = {"argv": ["node", "server.js"], "env": {"A": hashed("1")}, "cwd": "."}
FILES = {"tool.toml": b"description = 'x'\n", file_name("run", executable=True): b"#!/bin/sh\necho 1\n"}
BASE = TrustItem("script:t", "t", FACTS, FILES)


def other(**changes: Any) -> TrustItem:
    """The base item with some of it changed."""
    members: dict[str, Any] = {"key": BASE.key, "title": BASE.title, "facts": FACTS, "files": FILES}
    return TrustItem(**{**members, **changes})


def without(name: str) -> dict[str, bytes]:
    return {key: value for key, value in FILES.items() if key != name}


RUN = file_name("run", executable=True)
CHANGES = {
    "another key": other(key="script:u"),
    "an argument more": other(facts={**FACTS, "argv": ["node", "server.js", ""]}),
    "arguments split otherwise": other(facts={**FACTS, "argv": ["node server.js"]}),
    "arguments in another order": other(facts={**FACTS, "argv": ["server.js", "node"]}),
    "a variable renamed": other(facts={**FACTS, "env": {"B": hashed("1")}}),
    "a value of a variable": other(facts={**FACTS, "env": {"A": hashed("2")}}),
    "a number for a text": other(facts={**FACTS, "cwd": 1}),
    "a truth for a number": other(facts={**FACTS, "cwd": True}),
    "a fact more": other(facts={**FACTS, "x": None}),
    "an added file": other(files={**FILES, "sitecustomize.py": b""}),
    "a removed file": other(files=without(RUN)),
    "a renamed file": other(files={**without("tool.toml"), "tool2.toml": FILES["tool.toml"]}),
    "a file no longer executable": other(files={**without(RUN), "run": FILES[RUN]}),
    "a file become a link": other(files={**without(RUN), file_name("run", link=True): FILES[RUN]}),
    "another link target": other(files={**FILES, file_name("l", link=True): b"run"}),
    "yet another link target": other(files={**FILES, file_name("l", link=True): b"tool.toml"}),
    "contents swapped": other(files=dict(zip(FILES, reversed(FILES.values()), strict=True))),
    "a boundary between files moved": other(files={"tool.toml": b"", RUN: b"".join(FILES.values())}),
    "everything empty": TrustItem("", "", {}, {}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_runs_changes_the_digest(name: str) -> None:
    assert CHANGES[name].digest() != BASE.digest()


def test_different_changes_give_different_digests() -> None:
    assert len({item.digest() for item in CHANGES.values()}) == len(CHANGES)


@examples(150)
@given(st.data())
def test_any_changed_byte_changes_the_digest(data: st.DataObject) -> None:
    content = data.draw(st.binary(min_size=1, max_size=200))
    place = data.draw(st.integers(0, len(content) - 1))
    byte = bytes([data.draw(st.integers(0, 255).filter(lambda one: one != content[place]))])
    before = other(files={"f": content}).digest()
    changed = content[:place] + byte + content[place + 1 :]
    longer = content[:place] + byte + content[place:]
    shorter = content[:place] + content[place + 1 :]
    assert before not in {other(files={"f": one}).digest() for one in (changed, longer, shorter)}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
file_maps = st.dictionaries(st.text(max_size=4), st.binary(max_size=6), max_size=4)


def typed(value: object) -> object:
    """A value that is equal only to one of the same types: 1 is not True."""
    if isinstance(value, dict):
        return {key: typed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [typed(one) for one in value]
    return type(value), value


@examples(150)
@given(st.tuples(json_values, file_maps), st.tuples(json_values, file_maps))
def test_items_have_equal_digests_exactly_if_they_are_equal(
    one: tuple[Any, dict[str, bytes]], two: tuple[Any, dict[str, bytes]]
) -> None:
    same = typed(one[0]) == typed(two[0]) and one[1] == two[1]
    digests = [TrustItem("k", "", {"v": facts}, files).digest() for facts, files in (one, two)]
    assert (digests[0] == digests[1]) == same


def test_the_order_of_facts_and_files_does_not_matter() -> None:
    turned = other(facts=dict(reversed(FACTS.items())), files=dict(reversed(FILES.items())))
    assert turned.digest() == BASE.digest()


def test_the_title_does_not_change_the_digest() -> None:
    assert other(title="something else").digest() == BASE.digest()


def test_non_utf_8_names_and_unicode_forms_are_different_names() -> None:
    names = [b"a\xff".decode("utf-8", "surrogateescape"), "a\ufffd", "\u00e9", "e\u0301"]
    assert len({other(files={name: b""}).digest() for name in names}) == len(names)


def test_a_date_differs_from_its_text() -> None:
    import datetime

    day = datetime.date(2026, 1, 2)
    assert canonical({"a": day}) != canonical({"a": "2026-01-02"})


def test_a_file_name_carries_its_flags() -> None:
    assert split_name(file_name("a/b", executable=True)) == ("a/b", ("executable",))
    assert split_name(file_name("a", link=True)) == ("a", ("link",))
    assert split_name("plain") == ("plain", ())
