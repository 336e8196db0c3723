"""Values, paths and names are shown short and escaped."""

from __future__ import annotations

import pytest

from workspace_server.schemas.value_text import nearest, pointer, shown


@pytest.mark.parametrize(
    ("path", "text"),
    [([], ""), (["a", 0], "/a/0"), (["a/b", "c~d"], "/a~1b/c~0d"), (["x" * 100], "/" + "x" * 79 + "…")],
)
def test_pointer_is_escaped_and_cut(path: list[str | int], text: str) -> None:
    assert pointer(path) == text


@pytest.mark.parametrize(
    "value", ["x" * 500, '"' * 500, 10**500, pytest.param(10**50_000, id="huge"), "\x00" * 79, [1] * 500]
)
def test_shown_value_has_at_most_80_characters(value: object) -> None:
    assert len(shown(value)) <= 80


@pytest.mark.parametrize(
    ("name", "found"),
    [("file_path", "filePath"), ("filepaht", "filePath"), ("FILE-PATH", "filePath"), ("zzz", None)],
)
def test_nearest_sees_through_case_and_separators(name: str, found: str | None) -> None:
    assert nearest(name, ["query", "filePath"]) == found
