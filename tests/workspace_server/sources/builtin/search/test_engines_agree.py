"""Trees, rules, texts and queries nobody thought of: ripgrep and the fallback give the same answer."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from support.examples import examples
from support.projects.file_tree import RIPGREP, lines, names, write_tree
from workspace_server.sources.builtin.search import batches
from workspace_server.sources.builtin.search.query import TextQuery

pytestmark = pytest.mark.skipif(RIPGREP is None, reason="no rg, and no wheel of it for this machine")


NAME = st.sampled_from(["a", "b", "ab", "a.x", "d", "e"])
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)
RULE = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "!"]),
    st.sampled_from(["", "/", "**/"]),
    st.lists(
        st.sampled_from(["a", "b", "*", "a*", "?", "*.x", "d", "[ab]", "**"]), min_size=1, max_size=3
    ).map("/".join),
    st.sampled_from(["", "/", "/**"]),
)
RULES = st.lists(RULE, max_size=4).map("\n".join)


@examples(60, suppress_health_check=list(HealthCheck))
@given(paths=st.lists(PATH, max_size=12), ignore=RULES, nested=RULES, exclude=RULE, query=RULE)
async def test_engines_agree_on_any_tree_and_rules(
    paths: list[str], ignore: str, nested: str, exclude: str, query: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "proj"
        write_tree(root, {".gitignore": ignore, "d/.gitignore": nested})
        write_tree(
            root, {".vscode/settings.json": json.dumps({"files.exclude": {exclude.lstrip("!"): True}})}
        )
        for path in paths:
            place = root / path
            if not place.exists() and not any(parent.is_file() for parent in place.parents):
                write_tree(root, {path: "needle\n"})
        pattern = query.lstrip("!/")
        assert await names("rg", root, pattern) == await names("python", root, pattern)
        assert await lines("rg", root, TextQuery("needle", regex=False), pattern) == await lines(
            "python", root, TextQuery("needle", regex=False), pattern
        )


ODD = st.sampled_from(["a", "b", "[ab]", "{a,b}", "a ", "!a", "#a", "\\a", "a\n", "*", "\udcff", "-"])
PLACES = st.lists(st.tuples(ODD, ODD), min_size=4, max_size=12, unique=True)
ODD_RULE = st.one_of(RULE, ODD, st.tuples(ODD, ODD).map("/".join))


@examples(60, suppress_health_check=list(HealthCheck))
@given(
    places=PLACES,
    links=st.lists(st.tuples(ODD, ODD, st.integers(0, 3), st.booleans()), max_size=4),
    ignored=st.lists(ODD_RULE, max_size=3),
    nested=st.lists(ODD_RULE, max_size=2),
    excluded=st.dictionaries(ODD_RULE, st.just(True), max_size=2),
)
async def test_ripgrep_finds_the_same_by_a_walk_of_its_own_as_in_named_files(
    places: list[tuple[str, str]],
    links: list[tuple[str, str, int, bool]],
    ignored: list[str],
    nested: list[str],
    excluded: dict[str, bool],
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "proj"
        write_tree(root, {f"dir {above}/{name}": "needle\n" for above, name in places})
        for above, name, number, is_file in links:
            target = root / f"dir {places[number][0]}"
            with suppress(FileExistsError):
                (root / f"dir {places[0][0]}" / f"{above}{name}").symlink_to(
                    target / places[number][1] if is_file else target
                )
        (root / "out").symlink_to(root.parent)
        rules = {".ignore": "\n".join(ignored), f"dir {places[0][0]}/.gitignore": "\n".join(nested)}
        settings = {"files.exclude": {glob.encode("utf-8", "replace").decode(): True for glob in excluded}}
        write_tree(root, {name: os.fsencode(text) for name, text in rules.items()})
        write_tree(root, {".vscode/settings.json": json.dumps(settings), "outside": "needle\n"})
        needle = TextQuery("needle", regex=False)
        named = await lines("rg", root, needle)
        monkeypatch.setattr(batches, "FIRST", 1)
        assert await lines("rg", root, needle) == named


WORD = st.sampled_from(
    ["a", "b", "A", "é", "É", "ß", " ", ".", "(", "aa", "ab", "", "\t", "_", "1", "\\", "σ", "Σ"]
)
LINE = st.lists(WORD, max_size=6).map("".join)
ATOM = st.sampled_from(
    ["a", "b", "A", "é", ".", r"\w", r"\s", r"\d", "[ab]", "[^a]", r"\.", "(a|b)", "(?:ab)"]
)
PATTERN = st.lists(
    st.tuples(ATOM, st.sampled_from(["", "+", "*", "?", "{1,2}", "+?"])), min_size=1, max_size=3
).map(lambda parts: "".join(atom + (repeat) for atom, repeat in parts))


@examples(60, suppress_health_check=list(HealthCheck))
@given(
    content=st.lists(LINE, max_size=6),
    query=st.one_of(
        st.builds(
            TextQuery,
            st.lists(WORD, min_size=1, max_size=3).map("".join).filter(bool),
            st.just(False),
            st.booleans(),
        ),
        st.builds(TextQuery, PATTERN, st.just(True), st.booleans()),
    ),
)
async def test_engines_agree_on_any_text_and_query(content: list[str], query: TextQuery) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder) / "proj", {"a.txt": "\n".join(content)})
        assert await lines("rg", root, query) == await lines("python", root, query)
