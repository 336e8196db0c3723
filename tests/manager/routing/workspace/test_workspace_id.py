"""Tests of the workspace id."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.routing.workspace.workspace_id import workspace_id


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
