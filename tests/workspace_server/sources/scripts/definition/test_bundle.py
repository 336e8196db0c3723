"""The content of a folder, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from workspace_server.sources.scripts.definition.bundle import Bundle, Unreadable, read
from workspace_server.sources.scripts.definition.folders import Tree
from workspace_server.trust.item import EXECUTABLE, LINK


def bundle_of(folder: Path) -> Bundle:
    tree = Tree()
    tree.begin()
    return read(tree.survey(str(folder)))[0]


def test_a_bundle_is_all_files_with_their_modes_and_links(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "deep" / "data").write_bytes(b"\0\1")
    (tmp_path / "deep" / "up").symlink_to("../run.sh")
    assert bundle_of(tmp_path).files == {
        f"run.sh{EXECUTABLE}": b"#!/bin/sh\n",
        "deep/data": b"\0\1",
        f"deep/up{LINK}": b"../run.sh",
    }


def test_different_content_never_has_one_digest() -> None:
    bundles = [
        Bundle({"a": b"b"}, frozenset(), {}),
        Bundle({"a": b"b"}, frozenset({"a"}), {}),
        Bundle({}, frozenset(), {"a": "b"}),
        Bundle({"a": b"", "b": b""}, frozenset(), {}),
        Bundle({"a": b"1:1:b"}, frozenset(), {}),
    ]
    assert len({bundle.digest for bundle in bundles}) == len(bundles)


@pytest.mark.parametrize(
    ("name", "target"),
    [("a", "/etc"), ("a", ".."), ("a", "../b"), ("d/a", "../../b"), ("a", "d/../../b"), ("a", "d/../b")],
)
def test_a_link_that_could_lead_out_makes_a_folder_unreadable(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / name).symlink_to(target)
    with pytest.raises(Unreadable, match="leads out"):
        bundle_of(tmp_path)


@pytest.mark.parametrize(
    ("links", "name", "found"),
    [
        ({}, "f", "f"),
        ({}, "none", None),
        ({"l": "f"}, "l", "f"),
        ({"l": "m", "m": "f"}, "l", "f"),
        ({"l": "d"}, "l/g", "d/g"),
        ({"d/l": "../f"}, "d/l", "f"),
        ({"l": "m", "m": "l"}, "l", None),
        ({"l": "l/x"}, "l", None),
    ],
)
def test_names_are_found_through_links_of_the_bundle(
    links: dict[str, str], name: str, found: str | None
) -> None:
    assert Bundle({"f": b"", "d/g": b""}, frozenset(), links).find(name) == found


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("x")
    tree = Tree()
    tree.begin()
    survey = tree.survey(str(tmp_path))
    file.unlink()
    with pytest.raises(Unreadable, match="f cannot be read: no such file"):
        read(survey)
    file.symlink_to("/etc/passwd")
    with pytest.raises(Unreadable, match="f cannot be read"):
        read(survey)
