"""The filter for whole directories passes the same paths as the filter for single paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.projects.file_tree import workspace_of
from workspace_server.sources.builtin.files.patterns import query_filters
from workspace_server.sources.builtin.files.segments import Segment, SegmentFilter

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
