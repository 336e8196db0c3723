"""Both engines, one meaning: every case runs with ripgrep and without and must give the same answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.projects.file_tree import ENGINES, lines, names, settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.search import batches, fallback, ripgrep
from workspace_server.sources.builtin.search import engine as engine_module
from workspace_server.sources.builtin.search.engine import Where, find_files, find_text
from workspace_server.sources.builtin.search.query import BadRegex, TextQuery

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def literal(text: str, *, case_sensitive: bool = False) -> TextQuery:
    return TextQuery(text, regex=False, case_sensitive=case_sensitive)


def regex(text: str, *, case_sensitive: bool = False) -> TextQuery:
    return TextQuery(text, regex=True, case_sensitive=case_sensitive)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir(exist_ok=True)
    return write_tree(tmp_path / "proj", {"keep.txt": "needle\n"})


# --- order, limits, folders ---------------------------------------------------------------------------------


async def test_files_are_in_order_of_bytes_before_directories(engine: str, root: Path) -> None:
    write_tree(root, {"a/z": "", "a.b": "", "B": "", "é": "", "a-": "", "a/b/c": "", ".hidden": ""})
    assert await names(engine, root) == [".hidden", "B", "a-", "a.b", "keep.txt", "é", "a/z", "a/b/c"]


async def test_limit_keeps_the_first_and_says_capped(engine: str, tmp_path: Path) -> None:
    write_tree(tmp_path / "proj", {f"{n:03}.txt": "needle" for n in range(30)})
    workspace = workspace_of(tmp_path / "proj")
    for limit, capped in ((5, True), (29, True), (30, False), (31, False)):
        found = await find_files(workspace, Where("", "/query"), limit, settings_of(engine, tmp_path))
        assert [path.name for path in found.items] == [f"{n:03}.txt" for n in range(min(limit, 30))]
        assert found.capped is capped
        text = await find_text(
            workspace, literal("needle"), Where("", ""), limit, settings_of(engine, tmp_path)
        )
        assert [match.path.name for match in text.items] == [path.name for path in found.items]
        assert text.capped is capped


async def test_folders_share_one_budget_in_order(engine: str, tmp_path: Path) -> None:
    for name in ("one", "two", "six"):
        write_tree(tmp_path / name, {"a.txt": "needle", "b.txt": "needle"})
    workspace = workspace_of(tmp_path / "two", tmp_path / "one", tmp_path / "six")
    settings = settings_of(engine, tmp_path)
    found = await find_files(workspace, Where("", ""), 3, settings)
    assert [workspace.workspace_path(path) for path in found.items] == ["two/a.txt", "two/b.txt", "one/a.txt"]
    assert found.capped
    text = await find_text(workspace, literal("needle"), Where("", ""), 6, settings)
    assert [workspace.workspace_path(match.path) for match in text.items][4:] == ["six/a.txt", "six/b.txt"]
    assert not text.capped
    exact = await find_files(workspace, Where("two/**", ""), 2, settings)
    assert (len(exact.items), exact.capped) == (2, False)


async def test_texts_patterns_and_names_that_look_like_options_are_data(engine: str, root: Path) -> None:
    """`--pre` would run a program for each file."""
    ran = root.parent / "ran"
    (root.parent / "evil").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (root.parent / "evil").chmod(0o700)
    option = f"--pre={root.parent / 'evil'}"
    odd = {"-": "needle\n", "--pre=evil": "needle\n", "-f": "needle\n"}
    write_tree(root, {**odd, "-d/-": "needle\n", "text": f"{option}\n-e\n"})
    assert await names(engine, root) == [*odd, "keep.txt", "text", "-d/-"]
    for include in ("", "-*"):  # as a whole directory, and as single files; `-` alone is no standard input
        found = await lines(engine, root, literal("needle"), include)
        assert [name for name, _, _ in found if name != "keep.txt"] == [*odd, "-d/-"]
    for query in (literal(option), literal("-e"), regex("--pre=.*")):
        assert [name for name, _, _ in await lines(engine, root, query)] == ["text"]
    workspace, settings = workspace_of(root), settings_of(engine, root.parent)
    assert (await find_files(workspace, Where(option, ""), 9, settings)).items == ()
    assert not ran.exists()


async def test_folder_that_is_gone_has_no_files(engine: str, tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path / "gone")
    settings = settings_of(engine, tmp_path)
    assert (await find_files(workspace, Where("", ""), 9, settings)).items == ()
    assert (await find_text(workspace, literal("x"), Where("", ""), 9, settings)).items == ()


# --- links --------------------------------------------------------------------------------------------------


@pytest.fixture
def linked(root: Path) -> Path:
    write_tree(root.parent / "outside", {"secret.txt": "needle\n", "deep/secret.txt": "needle\n"})
    write_tree(root, {"real/in.txt": "needle\n", ".git/config": "needle\n", "sub/x.txt": "needle\n"})
    (root / "out-file").symlink_to(root.parent / "outside" / "secret.txt")
    (root / "out-dir").symlink_to(root.parent / "outside")
    (root / "root").symlink_to("/")
    (root / "broken").symlink_to("nowhere")
    (root / "sub" / "up").symlink_to("..")
    (root / "real" / "out [x]*").symlink_to(root.parent / "outside")
    return root


async def test_links_that_lead_out_are_never_followed(engine: str, linked: Path) -> None:
    expected = ["keep.txt", "real/in.txt", "sub/x.txt"]
    assert await names(engine, linked) == expected
    assert await names(engine, linked, ignored=True) == expected
    assert [name for name, _, _ in await lines(engine, linked, literal("needle"))] == expected


async def test_lines_behind_a_new_link_are_not_shown(
    engine: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(root, {"sub/a.txt": "needle\n"})
    write_tree(root.parent / "home", {"a.txt": "needle and secret\n"})
    match = engine_module._match

    async def exchanged(*arguments: Any, **more: Any) -> str | None:
        if (root / "keep.txt").exists():
            (root / "keep.txt").unlink()
            (root / "sub").rename(root.parent / "was")
            (root / "sub").symlink_to(root.parent / "home")
        return await match(*arguments, **more)

    monkeypatch.setattr(engine_module, "_match", exchanged)
    settings = settings_of(engine, root.parent)
    found = await find_text(workspace_of(root), literal("needle"), Where("", ""), 9, settings)
    assert [(one.path.name, one.preview) for one in found.items] == [("a.txt", "")]


async def test_links_inside_the_workspace_are_followed(engine: str, linked: Path) -> None:
    (linked / "in-dir").symlink_to("real")
    (linked / "in-file").symlink_to("real/in.txt")
    (linked / "git").symlink_to(".git")
    expected = ["in-file", "keep.txt", "in-dir/in.txt", "real/in.txt", "sub/x.txt"]
    assert await names(engine, linked) == expected
    assert [name for name, _, _ in await lines(engine, linked, literal("needle"))] == expected


async def test_links_are_not_followed_when_the_setting_says_so(engine: str, linked: Path) -> None:
    (linked / "in-dir").symlink_to("real")
    (linked / "in-file").symlink_to("real/in.txt")
    write_tree(linked, {".vscode/settings.json": '{"search.followSymlinks": false}'})
    assert await names(engine, linked, "*.txt") == ["keep.txt", "real/in.txt", "sub/x.txt"]


async def test_pipe_is_not_a_file(engine: str, root: Path) -> None:
    os.mkfifo(root / "pipe")
    os.mkfifo(root / ".ignore.swp")
    assert await names(engine, root) == ["keep.txt"]
    assert [name for name, _, _ in await lines(engine, root, literal("needle"))] == ["keep.txt"]


# --- more than is counted -----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 500])
async def test_very_many_matches_are_not_counted_but_the_first_are_the_first(
    engine: str, root: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (batches, engine_module, ripgrep, fallback):
        if hasattr(module, "MAX_COUNTED_LINES"):
            monkeypatch.setattr(module, "MAX_COUNTED_LINES", 50)
    monkeypatch.setattr(batches, "FIRST", first)
    write_tree(root, {f"{n:02}/x": "needle\n" * 40 for n in range(20)})
    settings = settings_of(engine, root.parent)
    found = await find_text(workspace_of(root), literal("needle"), Where("", ""), 61, settings)
    every = [("proj", 1), *(("00", n) for n in range(1, 41)), *(("01", n) for n in range(1, 21))]
    assert [(match.path.parent.name, match.line) for match in found.items] == every
    assert found.capped
    assert not found.exact
    assert 62 <= found.total <= 801


async def test_total_counts_what_is_not_shown(engine: str, root: Path) -> None:
    write_tree(root, {f"{n:02}.txt": "needle\n" * 3 for n in range(20)})
    settings = settings_of(engine, root.parent)
    found = await find_text(workspace_of(root), literal("needle"), Where("", ""), 5, settings)
    assert (len(found.items), found.total, found.exact, found.capped) == (5, 61, True, True)
    files = await find_files(workspace_of(root), Where("*.txt", ""), 5, settings)
    assert (len(files.items), files.total, files.exact, files.capped) == (5, 21, True, True)


@pytest.mark.parametrize("limit", [5, 35, 100])
async def test_several_batches_give_the_first_lines(
    engine: str, root: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 2)
    monkeypatch.setattr(batches, "GROWTH", 2)
    write_tree(root, {f"{n:02}/x": "needle\n" * 3 for n in range(20)})  # a directory is never parted
    settings = settings_of(engine, root.parent)
    found = await find_text(workspace_of(root), literal("needle"), Where("", ""), limit, settings)
    every = [("proj", 1), *((f"{n:02}", line) for n in range(20) for line in (1, 2, 3))]
    assert [(match.path.parent.name, match.line) for match in found.items] == every[:limit]
    assert (found.total, found.exact) == (61, True)


async def test_name_with_a_line_end_is_found(engine: str, root: Path) -> None:
    write_tree(root, {"src/a\nb.txt": "needle\n", "src/c\n/d.txt": "needle\n"})
    for pattern in ("", "src/**", "*.txt", "**/src/**/*.txt", "proj/src"):
        found = await names(engine, root, pattern)
        assert {"src/a\nb.txt", "src/c\n/d.txt"} <= set(found)
    assert [name for name, _, _ in await lines(engine, root, literal("needle"), "src/**")] == [
        "src/a\nb.txt",
        "src/c\n/d.txt",
    ]


# --- text ---------------------------------------------------------------------------------------------------

TEXT = "Hello hello HELLO\nfoo(bar)\n  a.b a-b\n\ntail foo\r\nlast:12:x"

TEXT_CASES = [
    (literal("hello"), [(1, 3)]),
    (literal("Hello"), [(1, 1)]),
    (literal("hello", case_sensitive=True), [(1, 1)]),
    (literal("foo("), [(2, 1)]),
    (literal("."), [(3, 1)]),
    (literal("-e"), []),
    (literal("--files"), []),
    (literal(":12:"), [(6, 1)]),
    (literal("nothing of it"), []),
    (regex(r"a.b"), [(3, 2)]),
    (regex(r"^\s+a"), [(3, 1)]),
    (regex(r"foo$"), [(5, 1)]),
    (regex(r"^$"), [(4, 1)]),
    (regex(r"x*"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]),
    (regex(r"\bh\w+"), [(1, 3)]),
    (regex(r"\W\Shello"), []),
    (regex(r"H\w+"), [(1, 2)]),
    (regex(r"(?i)H\w+"), [(1, 3)]),
    (regex(r"l{2}o\b"), [(1, 2 + 1)]),
    (regex(r"[[:alpha:]]"), None),
    (regex(r"foo|bar"), [(2, 2), (5, 1)]),
]


@pytest.mark.parametrize(("query", "expected"), [case for case in TEXT_CASES if case[1] is not None])
async def test_lines_are_found(
    engine: str, root: Path, query: TextQuery, expected: list[tuple[int, int]]
) -> None:
    write_tree(root, {"keep.txt": TEXT})
    assert await lines(engine, root, query) == [("keep.txt", *hit) for hit in expected]


async def test_last_line_without_end_and_windows_line_ends_are_lines(engine: str, root: Path) -> None:
    write_tree(root, {"keep.txt": "one needle\r\ntwo\r\nthree needle"})
    found = await find_text(
        workspace_of(root), literal("needle"), Where("", ""), 9, settings_of(engine, root.parent)
    )
    assert [(match.line, match.preview) for match in found.items] == [(1, "one needle"), (3, "three needle")]


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("(", 0),
        ("ab)", 2),
        ("[z-a]", 1),
        ("*a", 0),
        (r"(a)\1", 3),
        ("(?=a)", 0),
        ("a(?!b)", 1),
        ("(?<=a)b", 0),
        ("é(", 1),
        (r"a\n", 1),
        (r"a\r", 1),
    ],
)
async def test_pattern_that_is_no_regex_is_an_error_with_its_place(
    engine: str, root: Path, pattern: str, position: int
) -> None:
    with pytest.raises(BadRegex) as caught:
        await lines(engine, root, regex(pattern))
    assert caught.value.position == position
    assert caught.value.reason


@pytest.mark.parametrize(
    "include", ["src/*.ts", "proj/src/*.ts", "{root}/src/*.ts", "proj/src", "src/", "src\\a.ts"]
)
async def test_include_pattern_may_be_relative_prefixed_or_absolute(
    engine: str, root: Path, include: str
) -> None:
    write_tree(root, {"src/a.ts": "needle", "b.ts": "needle", "lib/src/a.ts": "needle"})
    include = include.replace("{root}", str(root))
    assert await lines(engine, root, literal("needle"), include) == [("src/a.ts", 1, 1)]


CONTENTS = {
    "binary early": (b"\0needle\n", []),
    "binary late": (b"needle\n" * 3000 + b"\0\n", []),
    "binary very late": (b"needle\n" + b"x\n" * 100_000 + b"\0", []),
    "utf-8 with mark": ("\ufeffneedle é".encode(), ["needle é"]),
    "utf-16 little": ("\ufeffneedle é\r\n".encode("utf-16-le"), ["needle é"]),
    "utf-16 big": ("\ufeffneedle é\n".encode("utf-16-be"), ["needle é"]),
    "latin-1": (b"caf\xe9 needle\n", ["caf\ufffd needle"]),
    "no line end": (b"x needle", ["x needle"]),
    "inner carriage return": (b"a\rneedle\rb\n", ["a\rneedle\rb"]),
    "escapes": (b'"},"line_number":7,"absolute_offset":0,"submatches":[ needle \\"\n',
                ['"},"line_number":7,"absolute_offset":0,"submatches":[ needle \\"']),
    "empty": (b"", []),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTENTS)
async def test_any_content_gives_a_valid_preview_or_none(engine: str, root: Path, case: str) -> None:
    content, previews = CONTENTS[case]
    write_tree(root, {"keep.txt": content})
    settings = settings_of(engine, root.parent)
    found = await find_text(workspace_of(root), literal("needle"), Where("", ""), 5000, settings)
    assert [match.preview for match in found.items] == previews
    assert all(match.preview.encode() is not None for match in found.items)


async def test_name_that_is_not_utf8_is_found(engine: str, root: Path) -> None:
    (root / os.fsdecode(b"n\xff.txt")).write_text("needle")
    assert await names(engine, root) == ["keep.txt", "n\ufffd.txt"]
    assert await lines(engine, root, literal("needle")) == [("keep.txt", 1, 1), ("n\ufffd.txt", 1, 1)]


@pytest.mark.parametrize(
    ("before", "after"), [(0, 3_000_000), (3000, 3_000_000), (3_000_000, 0), (100_000, 100_000)]
)
async def test_huge_line_is_found_and_cut(engine: str, root: Path, before: int, after: int) -> None:
    write_tree(root, {"keep.txt": "first\n" + '"' * before + "needle" + "é" * after + " needle\nlast needle"})
    settings = settings_of(engine, root.parent)
    found = await find_text(workspace_of(root), literal("needle"), Where("", ""), 9, settings)
    huge, last = found.items
    assert (huge.line, huge.occurrences, last.line, last.preview) == (2, 2, 3, "last needle")
    assert len(huge.preview) <= 502
    assert ("needle" in huge.preview) == (before <= 8000)
    assert huge.preview.endswith("…")


async def test_line_with_very_many_matches_is_counted(engine: str, root: Path) -> None:
    write_tree(root, {"keep.txt": "needle " * 50_000})
    assert await lines(engine, root, literal("needle")) == [("keep.txt", 1, 50_000)]
