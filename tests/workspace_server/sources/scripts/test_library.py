"""What scripts use for arguments and results, without a process."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from workspace_server.sources.scripts.library.lmtb_toon import encode
from workspace_server.sources.scripts.runner import LIBRARY

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """A fresh `lmtb_tool` for each call of a tool with these arguments."""

    def loaded(**arguments: Any) -> ModuleType:
        (tmp_path / "arguments.json").write_text(json.dumps(arguments))
        monkeypatch.setenv("LMTB_TOOL_ARGS_FILE", str(tmp_path / "arguments.json"))
        monkeypatch.setenv("LMTB_TOOL_RESULT_FILE", str(tmp_path / "result.json"))
        spec = importlib.util.spec_from_file_location("lmtb_tool", Path(LIBRARY, "lmtb_tool.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


def test_every_function_of_the_contract_is_there_by_all_names(load: Load) -> None:
    names = {"get", *(f"get_{kind}" for kind in ("string", "int", "float", "bool", "list", "object"))}
    names |= {"return_string", "return_object", "return_toon", "return_error"}
    names |= {"list_tools", "tool_search", "call_tool", "execute_tool", "execute_code"}
    names |= {
        "toon_encode",
        "toon_decode",
        *(f"get_{kind}_list" for kind in ("string", "int", "float", "bool")),
    }
    assert names <= set(load().__all__)
    for file in ("llmr/mcp.py", "scriptling/mcp/tool.py"):
        assert "from lmtb_tool import *" in Path(LIBRARY, file).read_text()


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("get", None, None),
        ("get_string", 7, "7"),
        ("get_string", {"a": 1}, '{"a": 1}'),
        ("get_int", "7", 7),
        ("get_int", 7.0, 7),
        ("get_int", "-7.0", -7),
        ("get_int", True, 1),
        ("get_float", "7", 7.0),
        ("get_float", 7, 7.0),
        ("get_bool", "Yes", True),
        ("get_bool", "false", False),
        ("get_bool", 0, False),
        ("get_list", [1], [1]),
        ("get_object", {"a": 1}, {"a": 1}),
        ("get_string_list", ["a", 7], ["a", "7"]),
        ("get_int_list", [1, "2", 3.0], [1, 2, 3]),
        ("get_float_list", ["1.5", 2], [1.5, 2.0]),
        ("get_bool_list", [True, "no", 1], [True, False, True]),
    ],
)
def test_arguments_are_converted_to_the_requested_type(
    load: Load, function: str, value: Any, expected: Any
) -> None:
    found = getattr(load(x=value), function)("x")
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("function", "default"),
    [("get", None), ("get_string", ""), ("get_int", 0), ("get_float", 0.0), ("get_bool", False), ("get_list", []), ("get_object", {})],
)  # fmt: skip
def test_a_missing_argument_gives_the_default(load: Load, function: str, default: Any) -> None:
    module = load(null=None)
    assert getattr(module, function)("x") == default
    assert getattr(module, function)("x", [3]) == [3]
    assert getattr(module, function)("null") == default


@pytest.mark.parametrize(
    ("function", "value"),
    [("get_int", "x"), ("get_int", 1.5), ("get_int", "1.5"), ("get_int", []), ("get_float", {}), ("get_float", "x"),
     ("get_bool", "x"), ("get_bool", []), ("get_list", "a,b"), ("get_object", []),
     ("get_int_list", ["x"]), ("get_float_list", [None]), ("get_bool_list", [[]]), ("get_string_list", "a,b")],
)  # fmt: skip
def test_an_argument_of_the_wrong_type_is_an_error(load: Load, function: str, value: Any) -> None:
    with pytest.raises(ValueError):
        getattr(load(x=value), function)("x")


@pytest.mark.parametrize(
    ("function", "value", "left"),
    [
        ("return_string", 56.0, {"text": "56.0"}),
        ("return_object", {"é": [1]}, {"object": {"é": [1]}}),
        ("return_error", "no", {"error": "no"}),
    ],
)
def test_the_first_result_ends_the_script(
    load: Load, tmp_path: Path, function: str, value: Any, left: Any
) -> None:
    module = load()
    for attempt in (value, "later"):
        with pytest.raises(SystemExit) as ended:
            getattr(module, function)(attempt)
        assert ended.value.code == 0
    assert json.loads((tmp_path / "result.json").read_text()) == left


@pytest.mark.parametrize("value", [float("nan"), {1}, object()])
def test_a_result_that_json_cannot_represent_is_an_error(load: Load, tmp_path: Path, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        load().return_object(value)
    assert not (tmp_path / "result.json").exists()


def test_code_that_a_script_runs_gives_what_it_prints(load: Load) -> None:
    module = load()
    for printed, value in (("4", 4), ('{"a": [1]}', {"a": [1]}), ("done", "done"), ("", "")):
        asked = []

        def call_tool(name: str, arguments: Any, printed: str = printed, asked: list[Any] = asked) -> str:
            asked.append((name, arguments))
            return printed

        module.call_tool = call_tool  # no server answers here
        assert module.execute_code("code") == value
        assert asked == [("execute_code", {"code": "code"})]


def test_code_cannot_run_until_the_user_enables_it_and_the_error_says_how(load: Load) -> None:
    module = load()

    def call_tool(name: str, arguments: Any) -> None:
        raise module.ToolCallFailed(f"Tool not found or disabled: {name}")

    module.call_tool = call_tool
    with pytest.raises(module.ToolCallFailed, match=r"execute_code = true under .scripts. of workspace.toml"):
        module.execute_code("1")


def test_models_cannot_be_called_and_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(LIBRARY)
    with pytest.raises(ImportError, match=r"llmr.ai is not available: .* Return the data"):
        importlib.import_module("llmr.ai")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (1e20, "100000000000000000000"),
        (2.5e-7, "0.00000025"),
        (-0.0, "0"),
        (0.0, "0"),
        (1e-30, "0.000000000000000000000000000001"),
        (0.1, "0.1"),
        (29.99, "29.99"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e22, "10000000000000000000000"),
        (-1.5e-7, "-0.00000015"),
        (123456789.123, "123456789.123"),
        (float("inf"), "null"),
        (12345678901234567890, "12345678901234567890"),
        (".5", '".5"'),
        ("1e5", '"1e5"'),
        ("1.2.3 beta", "1.2.3 beta"),
        ({"a.b": 1}, '"a.b": 1'),
        ([["a", 1], ["b", 2]], "[2]:\n  - [2]: a,1\n  - [2]: b,2"),
        ("a b", "a b"),
        ("", '""'),
        ("true", '"true"'),
        ("-1", '"-1"'),
        ("05", '"05"'),
        ("a,b", '"a,b"'),
        (1.0, "1"),
        (1.5, "1.5"),
        ({}, ""),
        ([], "[0]:"),
        ([1, "a", None], "[3]: 1,a,null"),
        ({"a": 1, "b": {"c": True}}, "a: 1\nb:\n  c: true"),
        ({"a b": []}, '"a b"[0]:'),
        ({"u": [{"id": 1, "n": "x"}, {"id": 2, "n": "y"}]}, "u[2]{id,n}:\n  1,x\n  2,y"),
        ({"u": [{"id": 1}, {"n": [1]}]}, "u[2]:\n  - id: 1\n  - n[1]: 1"),
        ({"u": [1, {"a": 1, "b": 2}, [3]]}, "u[3]:\n  - 1\n  - a: 1\n    b: 2\n  - [1]: 3"),
    ],
)
def test_toon(value: Any, text: str) -> None:
    assert encode(value) == text
