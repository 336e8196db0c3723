"""lm_readFile."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.tools.read_file import MAX_BYTES, TOOL, call
from workspace_server.tool import InvalidArguments, ToolError, ToolResult
from workspace_server.workspace import Workspace

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


async def read(root: Path, **arguments: Any) -> ToolResult:
    result = await call(workspace_of(root), {"filePath": "f.txt", **arguments})
    jsonschema_rs.validate(TOOL.definition["outputSchema"], dict(result.structured or {}))
    result.text.encode()
    return result


async def members(root: Path, content: str | bytes, **arguments: Any) -> dict[str, Any]:
    write_tree(root, {"f.txt": content})
    return dict((await read(root, **arguments)).structured or {})


async def test_result_says_the_same_in_text_and_structure(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "proj", {"f.txt": "one\n$& \\1 é\r\n\tthree"})
    result = await read(root)
    assert result.structured == {
        "absolutePath": f"{root}/f.txt",
        "workspacePath": "proj/f.txt",
        "startLine": 1,
        "endLine": 3,
        "totalLines": 3,
        "sizeBytes": 20,
        "encoding": "utf-8",
        "truncated": False,
        "content": "one\n$& \\1 é\r\n\tthree",
    }
    assert (
        result.text
        == f"Read file summary\nfile: {tmp_path}/proj/f.txt\nlines: 1-3/3\n---\none\n$& \\1 é\r\n\tthree"
    )
    assert result.blocks == ()


FIVE = "1\n2\n3\n4\n5\n"


@pytest.mark.parametrize(
    ("content", "arguments", "lines", "text", "truncated"),
    [
        (FIVE, {"startLine": 2, "endLine": 3}, (2, 3, 5), "2\n3\n", False),
        (FIVE, {"startLine": 4}, (4, 5, 5), "4\n5\n", False),
        (FIVE, {"startLine": 4, "endLine": 99}, (4, 5, 5), "4\n5\n", False),
        (FIVE, {"startLine": 5.0, "endLine": 5.0}, (5, 5, 5), "5\n", False),
        (FIVE, {"maxBytes": 10}, (1, 5, 5), FIVE, False),
        (FIVE, {"maxBytes": 9}, (1, 4, 5), "1\n2\n3\n4\n", True),
        (FIVE, {"startLine": 3, "maxBytes": 3}, (3, 3, 5), "3\n", True),
        (FIVE, {"endLine": 2, "maxBytes": 4}, (1, 2, 5), "1\n2\n", False),
        ("a\n\nb", {}, (1, 3, 3), "a\n\nb", False),
        ("\n", {}, (1, 1, 1), "\n", False),
        ("", {}, (0, 0, 0), "", False),
        ("éé", {"maxBytes": 3}, (1, 1, 1), "é", True),
        ("one long line\nx", {"maxBytes": 3}, (1, 1, 2), "one", True),
        ("x\n" * 2_000_000, {"startLine": 1_999_999}, (1_999_999, 2_000_000, 2_000_000), "x\nx\n", False),
        ("é" * 1_500_000 + "\nz", {"startLine": 2}, (2, 2, 2), "z", False),
    ],
)
async def test_range_and_cap_keep_whole_lines(
    tmp_path: Path,
    content: str,
    arguments: dict[str, Any],
    lines: tuple[int, int, int],
    text: str,
    truncated: bool,
) -> None:
    got = await members(tmp_path, content, **arguments)
    assert (got["startLine"], got["endLine"], got["totalLines"]) == lines
    assert (got["content"], got["truncated"]) == (text, truncated)


async def test_truncated_is_said_in_the_text(tmp_path: Path) -> None:
    write_tree(tmp_path / "proj", {"f.txt": FIVE})
    assert (await read(tmp_path / "proj", maxBytes=4)).text == (
        f"Read file summary\nfile: {tmp_path}/proj/f.txt\nlines: 1-2/5 (truncated)\n---\n1\n2\n"
    )


@pytest.mark.parametrize(
    ("content", "encoding", "text"),
    [
        ("é\n".encode(), "utf-8", "é\n"),
        ("\ufeffé\n".encode(), "utf-8-sig", "é\n"),
        ("\ufeffé\r\nx".encode("utf-16-le"), "utf-16-le", "é\r\nx"),
        ("\ufeffé\r\nx".encode("utf-16-be"), "utf-16-be", "é\r\nx"),
        (b"caf\xe9 \x80", "windows-1252", "café €"),
        (b"caf\xe9 \x81", "iso-8859-1", "café \x81"),
        (b"x" * 1_048_575 + "é".encode() + b"\n", "utf-8", "x" * 1000),
        (b"x" * 1_100_000 + b"\xff", "windows-1252", "x" * 1000),
        (b"cut off \xc3", "windows-1252", "cut off Ã"),
    ],
)
async def test_encoding_is_recognised(tmp_path: Path, content: bytes, encoding: str, text: str) -> None:
    got = await members(tmp_path, content, maxBytes=1000)
    assert (got["encoding"], got["content"]) == (encoding, text)
    assert got["sizeBytes"] == len(content)


async def test_binary_is_an_embedded_resource(tmp_path: Path) -> None:
    write_tree(tmp_path / "proj", {"a b.png": PNG})
    result = await read(tmp_path / "proj", filePath="a b.png")
    assert result.structured is not None
    assert (result.structured["encoding"], result.structured["content"]) == ("binary", "")
    (block,) = result.blocks
    assert block == {
        "type": "resource",
        "resource": {
            "uri": f"file://{tmp_path}/proj/a%20b.png",
            "mimeType": "image/png",
            "blob": base64.b64encode(PNG).decode(),
        },
    }


async def test_binary_that_does_not_fit_is_not_cut_to_pieces(tmp_path: Path) -> None:
    write_tree(tmp_path / "proj", {"f.txt": PNG})
    result = await read(tmp_path / "proj", maxBytes=len(PNG) - 1)
    assert result.structured is not None
    assert result.structured["truncated"] is True
    assert result.blocks == ()
    assert "(truncated)" in result.text


async def test_name_that_is_not_utf8_comes_out_as_json(tmp_path: Path) -> None:
    name = os.fsdecode(b"n\xff.bin")
    write_tree(tmp_path / "proj", {name: b"\0"})
    (block,) = (await read(tmp_path / "proj", filePath=name)).blocks
    assert block["resource"]["uri"].endswith("/proj/n%FF.bin")


@pytest.mark.parametrize("path", ["nope.txt", "proj/nope.txt"])
async def test_missing_file_is_an_error_with_its_cause(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError) as caught:
        await read(write_tree(tmp_path / "proj", {"x": ""}), filePath=path)
    assert caught.value.message == f'Error reading file "{path}": no such file or directory'


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"filePath": "../secret"}, "/filePath"),
        ({"filePath": "file:///etc/passwd"}, "/filePath"),
        ({"filePath": "sub"}, "/filePath"),
        ({"filePath": "out"}, "/filePath"),
        ({"startLine": 7}, "/startLine"),
        ({"startLine": 3, "endLine": 2}, "/endLine"),
    ],
)
async def test_arguments_that_do_not_fit_the_world_are_refused(
    tmp_path: Path, arguments: dict[str, Any], pointer: str
) -> None:
    root = write_tree(tmp_path / "proj", {"f.txt": FIVE, "sub/": ""})
    write_tree(tmp_path, {"secret": "s"})
    (root / "out").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidArguments) as caught:
        await read(root, **arguments)
    assert caught.value.pointer == pointer


async def test_a_folder_that_becomes_a_link_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_tree(tmp_path / "proj", {"sub/f.txt": "mine"})
    write_tree(tmp_path / "home", {"f.txt": "secret"})
    resolve = Workspace.resolve_file

    def exchanged(workspace: Workspace, text: str) -> Path:
        real = resolve(workspace, text)
        (root / "sub").rename(root / "was")
        (root / "sub").symlink_to(tmp_path / "home")
        return real

    monkeypatch.setattr(Workspace, "resolve_file", exchanged)
    with pytest.raises(ToolError, match="outside the workspace"):
        await read(root, filePath="sub/f.txt")


def test_schema_states_defaults_and_limits() -> None:
    limits = TOOL.input_schema["properties"]["maxBytes"]
    assert (limits["default"], limits["maximum"]) == (36_000, MAX_BYTES)
    assert not jsonschema_rs.is_valid(TOOL.input_schema, {"filePath": "a", "startLine": 0})
