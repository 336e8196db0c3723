"""On Windows the project's folder is not searched for programs, and cmd.exe executes no argument."""

from __future__ import annotations

import pytest

from lm_tools_bridge.machine.windows_programs import batch_refusal, find_program

FILES = {
    "C:\\node\\npx.cmd", "C:\\node\\npx", "C:\\py\\uvx.EXE", "C:\\py\\tool.py", "C:\\tools\\npx.EXE",
    "C:\\tools\\a.b.CMD", "bin\\evil.EXE", "\\npx.EXE",
}  # fmt: skip


def is_file(path: str) -> bool:
    return path.lower() in {file.lower() for file in FILES}


@pytest.mark.parametrize(
    ("name", "path", "found"),
    [
        ("npx", "C:\\node;C:\\tools", "C:\\node\\npx.CMD"),
        ("npx", "C:\\tools;C:\\node", "C:\\tools\\npx.EXE"),
        ("npx.cmd", "C:\\tools;C:\\node", "C:\\node\\npx.cmd"),
        ("NPX", '"C:\\node";', "C:\\node\\NPX.CMD"),
        ("uvx", "C:\\node;C:\\py", "C:\\py\\uvx.EXE"),
        ("a.b", "C:\\tools", "C:\\tools\\a.b.CMD"),
        ("tool.py", "C:\\py", None),
        ("evil", "bin;.;;C:\\py", None),
        ("npx", "", None),
        ("C:\\node\\npx.cmd", "", "C:\\node\\npx.cmd"),
        ("bin/tool", "", "bin/tool"),
    ],
)
def test_only_absolute_folders_of_the_path_are_searched(name: str, path: str, found: str | None) -> None:
    assert find_program(name, {"Path": path}, is_file) == found


def test_the_childs_own_extensions_count() -> None:
    environ = {"PATH": "C:\\py", "PATHEXT": ".PY;.EXE"}
    assert find_program("tool", environ, is_file) == "C:\\py\\tool.PY"
    assert find_program("tool.py", environ, is_file) == "C:\\py\\tool.py"


@pytest.mark.parametrize("program", ["C:\\n\\npx.cmd", "C:\\n\\NPX.CMD", "x.bat", "x.bat. .", "x.cmd "])
@pytest.mark.parametrize(
    "argument", ['"&echo hacked', "%OS%", "a^b", "a|b", "<x", ">x", "!x!", "a\nb", "a\rb", "a&b"]
)
def test_arguments_that_cmd_would_read_are_refused_without_quoting_them(program: str, argument: str) -> None:
    refusal = batch_refusal([program, "fine", argument])
    assert refusal is not None
    assert refusal.startswith("argument 2 has one of the characters")
    assert argument not in refusal.replace('" % ! ^ & | < >', "")


def test_a_path_that_cmd_would_read_is_refused() -> None:
    refusal = batch_refusal(["C:\\a&b\\npx.cmd"])
    assert refusal is not None
    assert refusal.startswith("its path has")


@pytest.mark.parametrize(
    "argv",
    [
        ["C:\\n\\npx.cmd", "-y", "@scope/server@1.2", "C:\\my folder", "--x=y"],
        ["C:\\n\\node.exe", '"&echo fine', "%OS%"],
        ["C:\\n\\cmdline", "a&b"],
    ],
)
def test_other_commands_may_be_started(argv: list[str]) -> None:
    assert batch_refusal(argv) is None
