"""The filter for whole directories passes the same paths as the filter for single paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.projects.file_tree import workspace_of
from workspace_server.sources.builtin.files.ignore import IgnoreFile
from workspace_server.sources.builtin.files.patterns import query_filters
from workspace_server.sources.builtin.files.segments import NameTest, Segment, SegmentFilter

PART = st.sampled_from(
    ["a", "b", "a.x", "a b", "é", "new\nline", "**", "*", "*.x", "a*", "?", "[ab]", "{a,b}"]
)
NAME = st.sampled_from(["a", "b", "a.x", "b.x", "a b", "é", "new\nline", "ab"])
WORKSPACE = workspace_of(Path("/srv/proj"))


def segment_of(base: str, names: Sequence[str]) -> Segment:
    return Segment(base, f"/{'/'.join(names)}/", len(names), True)


@given(st.lists(PART, max_size=4), st.lists(NAME, max_size=3), st.lists(NAME, min_size=1, max_size=4))
def test_segments_and_paths_pass_alike(pattern: list[str], above: list[str], names: list[str]) -> None:
    base = "".join(f"{part}/" for part in above)
    for wanted in query_filters("/".join(pattern), WORKSPACE, "/query").values():
        segment, passes = segment_of(base, names), SegmentFilter(wanted)
        assert (segment.names, segment.count) == (names, len(names))
        passed = passes(segment)
        assert list(passed) == [name for name in names if wanted(base + name)]
        assert passes.count(segment) == len(passed)


@pytest.mark.parametrize("pattern", ["**", "*", "src/**", "**/deep/**", "src", "*.ts", "src/*.ts"])
def test_a_name_with_a_line_end_passes_like_any_other(pattern: str) -> None:
    wanted = query_filters(pattern, WORKSPACE, "/query")[WORKSPACE.folders[0]]
    names = ("a\nb.ts", "ab.ts")
    for base in ("", "src/", "src/deep/", "new\nline/deep/"):
        assert len(SegmentFilter(wanted)(segment_of(base, names))) in {0, 2}


GLOB_PART = st.sampled_from(["a", "b", "a.x", "*", "**", "*.x", "a*", "?", "[ab]", "[", "\\\\a", "a b"])
RULE = st.builds(
    "{}{}".format, st.lists(GLOB_PART, min_size=1, max_size=3).map("/".join), st.sampled_from(["", "/"])
)
ENTRY_NAME = st.sampled_from(["a", "b", "a.x", "b.x", "ab", "c", "[", "a b", "é"])


@given(st.lists(RULE, max_size=5), st.lists(ENTRY_NAME, max_size=2), ENTRY_NAME)
def test_a_name_that_is_no_suspect_has_no_verdict(rules: list[str], above: list[str], name: str) -> None:
    file = IgnoreFile.of(rules)
    path = "/".join([*above, name])
    if file is not None and not file.names.among([name]):
        assert file.verdict(path) is None
        assert file.verdict(f"{path}/") is None


def test_two_tests_together_suspect_the_names_of_both() -> None:
    both = NameTest.of(["a", "*.x"]) | NameTest.of(["b"])
    assert set(both.among(["a", "b", "c", "c.x"])) == {"a", "b", "c.x"}
    assert list((both | NameTest.of(["*"])).among(["c"])) == ["c"]


@given(st.lists(RULE, max_size=5), st.lists(ENTRY_NAME, min_size=1, max_size=4))
def test_a_text_with_a_suspect_is_known_at_once(rules: list[str], names: list[str]) -> None:
    file = IgnoreFile.of(rules)
    if file is not None and file.names.among(names):
        assert file.names.is_in(f"/{'/'.join(names)}/")
    assert not (NameTest.of(["a", "*.x"]) | NameTest.of(["b"])).is_in("/aa/c/c.xy/")
