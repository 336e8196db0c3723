"""Paths become URIs and come back, however a server writes them."""

from __future__ import annotations

import os
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.code_intelligence.wire.document_uris import MAX_URI, to_path, to_uri


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("/a b/c%20d/é#?.py"), "file:///a%20b/c%2520d/%C3%A9%23%3F.py"),
        (PurePosixPath("/"), "file:///"),
        (PurePosixPath("/x/" + os.fsdecode(b"\xff\xfe")), "file:///x/%FF%FE"),
        (PurePosixPath("/C:/x\\y"), "file:///C%3A/x%5Cy"),
        (PureWindowsPath("C:\\a b\\é"), "file:///C:/a%20b/%C3%A9"),
        (PureWindowsPath("\\\\host\\share\\a b"), "file://host/share/a%20b"),
    ],
)
def test_a_path_becomes_a_uri_and_comes_back(path: PurePath, uri: str) -> None:
    assert to_uri(path) == uri
    assert to_path(uri, type(path)) == path


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name and name not in (b".", b"..")))
def test_any_name_of_a_file_comes_back(name: bytes) -> None:
    path = Path("/folder", os.fsdecode(name))
    if ".." not in path.parts:
        assert to_path(to_uri(path), Path) == path
        assert to_uri(path) == "file://" + quote(bytes(path))  # the standard library's spelling


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/x", PureWindowsPath("C:/x")),
        ("file:///c:/x", PureWindowsPath("C:/x")),
        ("FILE:///C:/x", PureWindowsPath("C:/x")),
        ("file://localhost/C:/x", PureWindowsPath("C:/x")),
        ("file:/a/b", PurePosixPath("/a/b")),
        ("file://localhost/a/b", PurePosixPath("/a/b")),
        ("file:///a//b/./c", PurePosixPath("/a/b/c")),
        ("file:///a/(b)@c+d", PurePosixPath("/a/(b)@c+d")),
    ],
)
def test_other_spellings_of_a_uri_name_the_same_file(uri: str, path: PurePath) -> None:
    assert to_path(uri, type(path)) == path


@pytest.mark.parametrize(
    "uri",
    [
        None, 5, "", "untitled:Untitled-1", "https://x/y", "jdt://contents/a.class", "/a/b", "file:", "file:a/b",
        "file://other/a", "file:///a%00b", "file:///a/../b", "file:///a/%2e%2e/b", "file:///" + "x" * MAX_URI,
    ],
)  # fmt: skip
def test_what_names_no_local_file_is_refused(uri: object) -> None:
    assert to_path(uri, PurePosixPath) is None


def test_bytes_that_are_no_name_on_windows_are_refused() -> None:
    assert to_path("file:///C:/%FF", PureWindowsPath) is None
    assert to_path("file:///a/b", PureWindowsPath) is None
