"""Tests of the match of folders to workspaces: the nearest known or marked ancestor wins."""

from __future__ import annotations

import itertools
import re
import zlib
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.machine.project_marks import Mark
from manager.disk.folder import Ancestor, FolderIdentity
from manager.routing.matching import KnownRoot, Match, match, workspace_id

HOME = "/home/ada"


def identity(path: str) -> FolderIdentity:
    return (1, zlib.crc32(path.encode()) + 1)


def chain(path: str, marks: dict[str, set[Mark]] | None = None) -> list[Ancestor]:
    pure = PurePosixPath(path)
    return [
        Ancestor(str(step), *identity(str(step)), frozenset((marks or {}).get(str(step), set())))
        for step in (pure, *pure.parents)
    ]


def known(*roots: str) -> list[KnownRoot]:
    return [KnownRoot(root, f"id:{root}", identity(root)) for root in roots]


def root_of(
    path: str, roots: list[KnownRoot], marks: dict[str, set[Mark]] | None = None, *, auto_start: bool = True
) -> tuple[str, str | None] | None:
    found = match(chain(path, marks), roots, home=identity(HOME), auto_start=auto_start)
    return (found.root, found.workspace_id) if found else None


MONO = ("/ws/mono", "id:/ws/mono")
PACKAGE = ("/ws/mono/pkg/a", "id:/ws/mono/pkg/a")


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        ("/ws/mono", MONO),
        ("/ws/mono/src/deep", MONO),
        ("/ws/mono/pkg", MONO),
        ("/ws/mono/pkg/a", PACKAGE),
        ("/ws/mono/pkg/a/src", PACKAGE),
        ("/ws/mono/pkg/ab", MONO),
        ("/ws/monolith", None),
        ("/ws/mon", None),
        ("/ws", None),
        ("/", None),
        ("/other/ws/mono", None),
        ("/ws/Mono", None),
    ],
)
def test_nearest_known_root_wins_by_whole_components(cwd: str, expected: tuple[str, str] | None) -> None:
    for order in itertools.permutations(known("/ws/mono", "/ws/mono/pkg/a")):
        assert root_of(cwd, list(order)) == expected


def test_match_has_the_distance_to_its_root() -> None:
    assert match(chain("/ws/mono/src"), known("/ws/mono"), home=None, auto_start=False) == Match(*MONO, 1)


def test_known_root_of_the_tree_is_the_farthest_match() -> None:
    roots = known("/", "/ws/mono")
    assert root_of("/etc", roots) == ("/", "id:/")
    assert root_of("/", roots) == ("/", "id:/")
    assert root_of("/ws/mono/src", roots) == MONO


def test_other_spelling_of_a_known_folder_matches_by_identity() -> None:
    folded = KnownRoot("/WS/Mono", "folded", identity("/ws/mono"))
    assert root_of("/ws/mono/src", [folded]) == ("/WS/Mono", "folded")
    assert root_of("/ws/monolith", [folded]) is None


def test_another_device_matches_by_path_but_not_by_inode() -> None:
    device, inode = identity("/ws/mono")
    assert root_of("/ws/mono", [KnownRoot("/ws/mono", "w", (device + 1, inode))]) == ("/ws/mono", "w")
    assert root_of("/ws/mono", [KnownRoot("/x", "w", (device + 1, inode))]) is None


def test_recreated_folder_matches_by_path_before_inode() -> None:
    recreated = KnownRoot("/ws/mono", "w", None)
    other = KnownRoot("/x", "other", identity("/ws/mono"))
    assert root_of("/ws/mono", [other, recreated]) == ("/ws/mono", "w")


def test_shared_folder_goes_to_the_same_workspace_each_time() -> None:
    shared = [KnownRoot("/b", "w2", identity("/b")), KnownRoot("/b", "w1", identity("/b"))]
    mounted = [KnownRoot("/m2", "w4", identity("/b/c")), KnownRoot("/m1", "w3", identity("/b/c"))]
    for order in itertools.permutations(shared + mounted):
        assert root_of("/b/x", list(order)) == ("/b", "w1")
        assert root_of("/b/c", list(order)) == ("/m1", "w3")


def test_workspace_of_several_folders_is_found_by_each_and_by_its_file() -> None:
    roots = [KnownRoot(root, "w", identity(root)) for root in ("/a", "/b", "/f/all.code-workspace")]
    assert root_of("/b/src", roots) == ("/b", "w")
    assert root_of("/f/all.code-workspace", roots) == ("/f/all.code-workspace", "w")
    assert root_of("/f", roots) is None


@pytest.mark.parametrize("mark", ["lm-tools-bridge", "code-workspace", "vcs", "vscode"])
def test_each_mark_makes_a_workspace_if_auto_start_is_on(mark: Mark) -> None:
    marks: dict[str, set[Mark]] = {"/ws/new": {mark}}
    assert root_of("/ws/new/src", [], marks) == ("/ws/new", None)
    assert root_of("/ws/new", [], marks) == ("/ws/new", None)
    assert root_of("/ws", [], marks) is None
    assert root_of("/ws/new/src", [], marks, auto_start=False) is None


@pytest.mark.parametrize("mark", ["lm-tools-bridge", "code-workspace", "vcs"])
def test_nearer_mark_beats_a_known_parent(mark: Mark) -> None:
    marks: dict[str, set[Mark]] = {"/ws/mono/pkg/b": {mark}}
    assert root_of("/ws/mono/pkg/b/src", known("/ws/mono"), marks) == ("/ws/mono/pkg/b", None)
    assert root_of("/ws/mono/pkg/b/src", known("/ws/mono"), marks, auto_start=False) == MONO


def test_known_root_beats_marks_above_it_and_its_own() -> None:
    marks: dict[str, set[Mark]] = {"/ws": {"vcs"}, "/ws/mono": {"vcs", "lm-tools-bridge"}}
    assert root_of("/ws/mono/src", known("/ws/mono"), marks) == MONO


@pytest.mark.parametrize(
    ("marks", "roots", "expected"),
    [
        ({"/ws/mono/b": {"vscode"}}, ["/ws/mono"], MONO),
        ({"/ws/mono/b": {"vscode", "vcs"}}, ["/ws/mono"], ("/ws/mono/b", None)),
        ({"/ws/mono/b": {"vscode"}, "/ws/mono": {"vcs"}}, [], ("/ws/mono/b", None)),
        ({"/ws/mono/b/c": {"vscode"}, "/ws/mono/b": {"vcs"}}, ["/ws/mono"], ("/ws/mono/b", None)),
        ({"/ws/mono/b": {"vscode"}}, ["/"], ("/", "id:/")),
        ({"/ws/mono/b": {"vscode"}}, ["/ws/mono/b/c"], ("/ws/mono/b/c", "id:/ws/mono/b/c")),
    ],
)
def test_vscode_folder_counts_only_outside_known_workspaces(
    marks: dict[str, set[Mark]], roots: list[str], expected: tuple[str, str | None]
) -> None:
    assert root_of("/ws/mono/b/c", known(*roots), marks) == expected


@pytest.mark.parametrize("place", [HOME, "/"])
def test_home_and_file_system_root_are_workspaces_only_if_known(place: str) -> None:
    marks: dict[str, set[Mark]] = {place: {"vcs", "lm-tools-bridge", "vscode", "code-workspace"}}
    assert root_of(f"{HOME}/x", [], marks) is None
    assert root_of(place, [], marks) is None
    assert root_of(f"{HOME}/x", known(place), marks) == (place, f"id:{place}")


def test_project_inside_home_is_found_past_a_marked_home() -> None:
    marks: dict[str, set[Mark]] = {HOME: {"vcs"}, f"{HOME}/proj": {"vcs"}}
    assert root_of(f"{HOME}/proj/src", [], marks) == (f"{HOME}/proj", None)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ada/proj", "proj-1724ab5e6aa7"),
        ("/", "workspace-8a5edab28263"),
    ],
)
def test_id_is_stable(path: str, expected: str) -> None:
    assert workspace_id(path) == expected


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("/ws/My Project_2.0", "my-project-2-0"),
        ("/ws/.dotfiles", "dotfiles"),
        ("/ws/Müller & Söhne", "muller-sohne"),
        ("/ws/Mu\u0308ller", "muller"),
        ("/ws/日本語", "workspace"),
        ("/ws/app-日本語", "app"),
        ("/ws/\udcff\udcfe", "workspace"),
        ("/ws/---", "workspace"),
        ("/ws/a\\b", "a-b"),
        ("C:\\Users\\ada\\Proj", "proj"),
        ("\\\\host\\share\\proj", "proj"),
        ("C:\\", "workspace"),
        ("/ws/" + "x" * 200, "x" * 40),
        ("/ws/" + "x" * 39 + " y", "x" * 39),
        ("/ws/\U0001f130", "workspace"),  # a letter later than the frozen tables
    ],
)
def test_slug_is_the_readable_part_of_the_folder_name(path: str, slug: str) -> None:
    assert re.fullmatch(re.escape(slug) + "-[0-9a-f]{12}", workspace_id(path))


def test_folders_with_the_same_slug_have_different_ids() -> None:
    alike = ["/a/p", "/b/p", "/a/P", "/a/p ", "/a/\udcff", "/a/\udcfe", "/a/\u00e9", "/a/e\u0301"]
    assert len({workspace_id(path) for path in alike}) == len(alike)


PATHS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
)


@given(PATHS.map("/".__add__) | st.text(st.characters(codec=None)).map("C:\\".__add__))
def test_every_path_has_an_id_that_is_safe_in_urls(path: str) -> None:
    name = workspace_id(path)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{12}", name)
    assert len(name) <= 64
    assert workspace_id(path) == name
