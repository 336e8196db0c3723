"""Glob patterns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.files.patterns import (
    MAX_ALTERNATIVES,
    MAX_EXCLUDES,
    BadGlob,
    compile_filter,
    exclude_filter,
    expand_braces,
    query_filters,
)
from workspace_server.tool import InvalidArguments
from workspace_server.workspace import Workspace


@pytest.mark.parametrize(
    ("glob", "passes", "fails"),
    [
        ("*.ts", ["a.ts", ".ts"], ["a.tsx", "src/a.ts"]),
        ("**/*.ts", ["a.ts", "x/y/a.ts"], ["a.ts/b"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "srcs/a", "x/src/a"]),
        ("src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "src/a.js"]),
        ("**/a/**/b/**/*.c", ["a/b/x.c", "1/a/2/3/b/4/x.c", "a/a/b/b/x.c"], ["b/a/x.c", "a/x.c"]),
        ("**/test/*", ["test/a", "x/test/a"], ["test", "test/x/a"]),
        ("a?c", ["abc", "a.c"], ["ac", "a/c", "abbc"]),
        ("[a-c].t", ["a.t", "c.t"], ["d.t", "ab.t"]),
        ("[!a-c].t", ["d.t"], ["a.t", "/.t"]),
        ("[^a].t", ["b.t"], ["a.t"]),
        ("app/[slug]/page.tsx", ["app/[slug]/page.tsx", "app/s/page.tsx"], ["app/x/page.tsx"]),
        ("app/[[...path]]/*.ts", ["app/[[...path]]/a.ts"], ["app/x/a.ts"]),
        ("**/[user-id]/**", ["x/[user-id]/a", "[user-id]/b/c"], ["x/u/a"]),
        ("[z-a]", ["[z-a]"], ["z"]),
        ("page[1]*.ts", ["page[1].ts", "page1.ts"], ["page[2].ts"]),
        ("app/(shop)/@modal/*", ["app/(shop)/@modal/a"], ["app/shop/@modal/a"]),
        (r"app/\[id\]/q\?.ts", ["app/[id]/q?.ts"], ["app/i/q?.ts", "app/[id]/qx.ts"]),
        (r"star\*/a", ["star*/a"], ["stars/a"]),
        (r"\{x,y\}/{a,b}", ["{x,y}/a", "{x,y}/b"], ["x/a", "{x,y}/{a,b}"]),
        (r"{a\,b,c}", ["a,b", "c"], ["a", "b"]),
        ("a[*]b", ["a*b"], ["axb"]),
        ("[[]x]", ["[x]"], ["x"]),
        ("a[b", ["a[b"], ["ab"]),
        ("a*b*c", ["abc", "axxbyyc", "abcbc"], ["acb", "abcx", "a/b/c"]),
        ("a**b", ["ab", "axyb"], ["a/b"]),
        ("{a,b/c}.ts", ["a.ts", "b/c.ts"], ["c.ts", "{a,b/c}.ts"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "d"]),
        ("a+(b).ts", ["a+(b).ts"], ["aab.ts"]),
        ("é*", ["élan"], ["elan"]),
        ("*", ["a", ".hidden"], ["a/b"]),
    ],
)
def test_glob_means_what_editors_mean(glob: str, passes: list[str], fails: list[str]) -> None:
    accepts = compile_filter([glob])
    assert [path for path in passes if not accepts(path)] == []
    assert [path for path in fails if accepts(path)] == []


ALL = ["a.ts", "src/a.ts", "src/x/a.ts", "x/a.ts"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    write_tree(tmp_path, {"proj/src/a.ts": "", "two/a.ts": ""})
    return workspace_of(tmp_path / "proj", tmp_path / "two")


@pytest.mark.parametrize(
    ("query", "proj", "two"),
    [
        ("*.ts", ALL, ALL),
        ("src/*", ["src/a.ts"], ["src/a.ts"]),
        ("two/**", [], ALL),
        ("proj", ALL, []),
        ("proj/", ALL, []),
        ("proj/*.ts", ["a.ts"], []),
        ("", ALL, ALL),
        ("**/*", ALL, ALL),
        ("src", ["src/a.ts", "src/x/a.ts"], ["src/a.ts", "src/x/a.ts"]),
        ("src/", ["src/a.ts", "src/x/a.ts"], ["src/a.ts", "src/x/a.ts"]),
        ("src/x", ["src/x/a.ts"], ["src/x/a.ts"]),
        ("./src\\*", ["src/a.ts"], ["src/a.ts"]),
        ("{proj,two/x}/*", ["a.ts"], ["x/a.ts"]),
        ("../*", [], []),
        ("/etc/*", [], []),
        ("C:/x/*", [], []),
    ],
)
def test_query_is_mapped_to_folders(
    workspace: Workspace, query: str, proj: list[str], two: list[str]
) -> None:
    filters = query_filters(query, workspace, "/query")
    passing = {folder.name: [path for path in ALL if accepts(path)] for folder, accepts in filters.items()}
    assert (passing.get("proj", []), passing.get("two", [])) == (proj, two)


def test_absolute_pattern_belongs_to_its_folder(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(tmp_path / "proj")
    for root in (tmp_path / "proj", tmp_path / "alias"):
        filters = query_filters(f"{root}/src/**/*.ts", workspace, "/query")
        assert [
            (folder.name, accepts("src/x/a.ts"), accepts("a.ts")) for folder, accepts in filters.items()
        ] == [("proj", True, False)]
    assert query_filters(f"{tmp_path}/proj-evil/**", workspace, "/query") == {}
    assert query_filters(f"{tmp_path}/proj/../x/**", workspace, "/query") == {}


ODD = ["app/[id]/page.ts", "app/(shop)/@modal/page.ts", "app/{x,y}/page.ts", "star*/q?.ts", "a+b&c/x#1.ts"]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(
    "write",
    [
        lambda root, name: name,
        lambda root, name: f"./{name}",
        lambda root, name: f"proj/{name}",
        lambda root, name: f"{root}/{name}",
        lambda root, name: name.replace("/", "\\"),
        lambda root, name: re.sub(r"[*?\[\](){}]", r"\\\g<0>", name),
        lambda root, name: name.rpartition("/")[0],
        lambda root, name: f"{name.rpartition('/')[0]}/*.ts",
        lambda root, name: f"{name.rpartition('/')[0]}/**/*.{{ts,tsx}}",
        lambda root, name: f"{root}/{name.rpartition('/')[0]}/**",
    ],
)
def test_a_path_that_is_there_is_found_by_its_own_name(
    tmp_path: Path, name: str, write: Callable[[Path, str], str]
) -> None:
    root = write_tree(tmp_path / "proj", {name: ""})
    filters = query_filters(write(root, name), workspace_of(root), "/query")
    assert [accepts(name) for accepts in filters.values()] == [True]


@pytest.mark.parametrize("folder", ["[proj]", "{a,b}", "p*"])
def test_an_absolute_pattern_is_found_in_a_root_with_any_name(tmp_path: Path, folder: str) -> None:
    root = write_tree(tmp_path / folder, {"src/a.ts": ""})
    filters = query_filters(f"{root}/src/*.ts", workspace_of(root), "/query")
    assert [accepts("src/a.ts") for accepts in filters.values()] == [True]


def test_braces_stay_alternatives_where_no_folder_has_that_name(workspace: Workspace) -> None:
    (accepts, *_) = query_filters("{src,x}/a.ts", workspace, "/query").values()
    assert accepts("src/a.ts") and accepts("x/a.ts") and not accepts("{src,x}/a.ts")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("a.ts|b.ts", r"\{a\.ts,b\.ts\}"),
        ("{a,b", "'{' without '}'"),
        ("{a,b}" * 9, "more than 256"),
        ("[" * 1001, "longer than 1000 characters"),
    ],
)
def test_pattern_that_makes_no_sense_is_refused(workspace: Workspace, query: str, message: str) -> None:
    with pytest.raises(InvalidArguments, match=message) as caught:
        query_filters(query, workspace, "/includePattern")
    assert caught.value.pointer == "/includePattern"


def test_exclude_hides_what_lies_below_and_skips_nonsense() -> None:
    hides = exclude_filter(["build", "**/*.tmp", "/lib/", "{broken", "[z-a]", ""])
    assert [p for p in ["build", "build/x/y", "a/b.tmp", "b.tmp/x", "lib/a"] if not hides(p)] == []
    assert [p for p in ["x/build", "builds", "a.tmpx", "x/lib", "{broken", ""] if hides(p)] == []


def test_excludes_beyond_the_limit_are_left_out() -> None:
    hides = exclude_filter(f"{{x,y}}{number}" for number in range(MAX_EXCLUDES))
    assert hides(f"y{MAX_EXCLUDES // 2 - 1}")
    assert not hides(f"x{MAX_EXCLUDES // 2}")


def test_braces_are_expanded_in_order_up_to_a_limit() -> None:
    assert expand_braces("{a,b}{,1}") == ["a", "a1", "b", "b1"]
    assert len(expand_braces("{a,b}" * 8)) == MAX_ALTERNATIVES
    with pytest.raises(BadGlob):
        expand_braces("{a,b}" * 9)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 40 + "b", "a" * 250),
        ("**/a/" * 30 + "b", "a/" * 200 + "c"),
        ("**/*a*/" * 20 + "b", "aaa/" * 200 + "c"),
    ],
)
def test_hostile_glob_does_not_backtrack_for_ever(glob: str, path: str) -> None:
    accepts = compile_filter([glob])
    started = time.process_time()
    assert not accepts(path)
    assert time.process_time() - started < 5


def _reference(glob: str, path: str) -> bool:
    """The dialect spelled out as a plain recursion."""

    def parts(patterns: list[str], names: list[str]) -> bool:
        if not patterns:
            return not names
        if patterns[0] == "**":
            if len(patterns) == 1:
                return bool(names)
            return parts(patterns[1:], names) or (bool(names) and parts(patterns, names[1:]))
        return bool(names) and chars(patterns[0], names[0]) and parts(patterns[1:], names[1:])

    def chars(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return chars(pattern[1:], name) or (bool(name) and chars(pattern, name[1:]))
        return bool(name) and pattern[0] in {"?", name[0]} and chars(pattern[1:], name[1:])

    return parts(glob.split("/"), path.split("/"))


_PART = st.text("ab*?", min_size=1, max_size=4)
_GLOB = st.lists(st.one_of(st.just("**"), _PART), min_size=1, max_size=5).map("/".join)
_PATH = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5).map("/".join)


@given(_GLOB, _PATH)
def test_glob_agrees_with_a_plain_recursion(glob: str, path: str) -> None:
    assert compile_filter([glob])(path) == _reference(glob, path)
