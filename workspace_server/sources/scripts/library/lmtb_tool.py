"""What a script tool uses: its arguments, its result, and the other tools of the workspace.

Also there as `llmr.mcp` and `scriptling.mcp.tool`. Standard library only; runs in the script's own process.
What it speaks is files and a socket whose names are in the environment, so other languages can do the same:

* `LMTB_TOOL_ARGS_FILE`: the arguments, one JSON object, also on standard input;
* `LMTB_TOOL_RESULT_FILE`: `{"text": …}`, `{"object": …}` or `{"error": …}`;
* `tools.sock` beside them, a JSON object per line: `{"do": "list"}`, or
  `{"do": "call", "name": …, "arguments": …}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

__all__ = [
    "ToolCallFailed",
    "call_tool",
    "execute_code",
    "execute_tool",
    "get",
    "get_bool",
    "get_bool_list",
    "get_float",
    "get_float_list",
    "get_int",
    "get_int_list",
    "get_list",
    "get_object",
    "get_string",
    "get_string_list",
    "list_tools",
    "return_error",
    "return_object",
    "return_string",
    "return_toon",
    "tool_search",
    "toon_decode",
    "toon_encode",
]

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0", "")


class ToolCallFailed(Exception):
    """A tool could not be called, or failed; the text says why. `result` is its complete answer."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


# Arguments -----------------------------------------------------------------------------------------------
_arguments: dict[str, Any] | None = None


def _read_arguments() -> dict[str, Any]:
    global _arguments  # noqa: PLW0603  read once
    if _arguments is None:
        with open(os.environ["LMTB_TOOL_ARGS_FILE"], encoding="utf-8") as file:
            _arguments = json.load(file)
    return _arguments


def get(name: str, default: Any = None) -> Any:
    """The unconverted value of an argument, or `default`."""
    return _read_arguments().get(name, default)


def get_string(name: str, default: str = "") -> str:
    """The argument as a string; other values are converted to JSON."""
    value = _read_arguments().get(name)
    return default if value is None else _string(name, value)


def get_int(name: str, default: int = 0) -> int:
    """The argument as an int; also accepts `"7"` and `7.0`. Raises ValueError for other values."""
    value = _read_arguments().get(name)
    return default if value is None else _int(name, value)


def _string(_name: str, value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _int(name: str, value: Any) -> int:
    if isinstance(value, str):
        value = float(value) if "." in value or "e" in value.lower() else int(value)
    if not isinstance(value, (int, float)) or value != int(value):
        raise ValueError(f"{name} must be a whole number")
    return int(value)


def get_float(name: str, default: float = 0.0) -> float:
    """The argument as a float; also accepts `"7"`. Raises ValueError for other values."""
    value = _read_arguments().get(name)
    return default if value is None else _float(name, value)


def _float(name: str, value: Any) -> float:
    if value is None or isinstance(value, (dict, list)):
        raise ValueError(f"{name} must be a number")
    return float(value)


def get_bool(name: str, default: bool = False) -> bool:
    """The argument as a bool; also accepts numbers and `"yes"`, `"no"` etc. Raises ValueError for others."""
    value = _read_arguments().get(name)
    return default if value is None else _bool(name, value)


def _bool(name: str, value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in (*_TRUE, *_FALSE):
        return value.strip().lower() in _TRUE
    if isinstance(value, (bool, int, float)):
        return bool(value)
    raise ValueError(f"{name} must be true or false")


def get_list(name: str, default: list[Any] | None = None) -> list[Any]:
    """The argument as a list. Raises ValueError for other values."""
    value = _read_arguments().get(name)
    if value is None:
        return [] if default is None else default
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list")
    return value


def get_string_list(name: str, default: list[str] | None = None) -> list[str]:
    """The argument as a list of strings, each as by `get_string`."""
    return [_string(name, value) for value in get_list(name, default)]


def get_int_list(name: str, default: list[int] | None = None) -> list[int]:
    """The argument as a list of ints, each as by `get_int`."""
    return [_int(name, value) for value in get_list(name, default)]


def get_float_list(name: str, default: list[float] | None = None) -> list[float]:
    """The argument as a list of floats, each as by `get_float`."""
    return [_float(name, value) for value in get_list(name, default)]


def get_bool_list(name: str, default: list[bool] | None = None) -> list[bool]:
    """The argument as a list of bools, each as by `get_bool`."""
    return [_bool(name, value) for value in get_list(name, default)]


def get_object(name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """The argument as a dict. Raises ValueError for other values."""
    value = _read_arguments().get(name)
    if value is None:
        return {} if default is None else default
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")
    return value


# Result --------------------------------------------------------------------------------------------------
_returned = False


def return_string(value: Any) -> NoReturn:
    """End the script with this text as its result."""
    _return({"text": str(value)})


def return_object(value: Any) -> NoReturn:
    """End the script with this JSON value as its result, both as text and as structured content."""
    _return({"object": value})


def return_toon(value: Any) -> NoReturn:
    """End the script with this value in TOON as its result, which takes fewer tokens than JSON."""
    _return({"text": toon_encode(value)})


def return_error(message: Any) -> NoReturn:
    """End the script with this error message; the call has failed."""
    _return({"error": str(message)})


def _return(result: dict[str, Any]) -> NoReturn:
    """Write the result and exit. Only the first result counts, even if the script caught `SystemExit`."""
    global _returned  # noqa: PLW0603  the process has one result
    if not _returned:
        content = json.dumps(result, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        with open(os.environ["LMTB_TOOL_RESULT_FILE"], "wb") as file:
            file.write(content)
        _returned = True
    threading = sys.modules.get("threading")
    if threading is not None and threading.current_thread() is not threading.main_thread():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # sys.exit would end only this thread
    sys.exit(0)


# TOON ----------------------------------------------------------------------------------------------------
def toon_encode(value: Any) -> str:
    """Convert a JSON value to TOON."""
    import lmtb_toon  # noqa: PLC0415  beside this file; rarely used

    text: str = lmtb_toon.encode(value)
    return text


def toon_decode(text: str) -> Any:
    """Convert TOON to the JSON value it stands for. Raises ValueError if the text is not TOON."""
    import lmtb_toon_reader  # noqa: PLC0415  beside this file; rarely used

    return lmtb_toon_reader.decode(text)


# Other tools ---------------------------------------------------------------------------------------------
def list_tools() -> list[dict[str, Any]]:
    """The definitions of the tools that can be called, with `name`, `description` and `inputSchema`."""
    tools: list[dict[str, Any]] = _request({"do": "list"})["tools"]
    return tools


def tool_search(query: str, max_results: int = 5) -> list[dict[str, Any]]:
    """The tools that match the words of `query`, best match first."""
    matches = call_tool("tool_search", {"query": query, "max_results": max_results})
    return list(matches["results"] if isinstance(matches, dict) else matches)


def call_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Call a tool and return its structured content, or its text if it has none.

    Raises:
        ToolCallFailed: the tool does not exist, cannot be called, or failed.
    """
    answer = _request({"do": "call", "name": name, "arguments": arguments or {}})
    if "error" in answer:
        raise ToolCallFailed(answer["error"].get("message", "the call failed"), answer["error"])
    result = answer["result"]
    text = "\n".join(block["text"] for block in result.get("content", ()) if block.get("type") == "text")
    if result.get("isError"):
        raise ToolCallFailed(text or "the call failed", result)
    structured = result.get("structuredContent")
    return text if structured is None else structured


def execute_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Alias of `call_tool`."""
    return call_tool(name, arguments)


def execute_code(code: str) -> Any:
    """Run Python code with the tool `execute_code`; returns what it prints, as a value if that is JSON.

    Raises:
        ToolCallFailed: the code failed, nobody approved it, or the user has not enabled the tool.
    """
    try:
        result = call_tool("execute_code", {"code": code})
    except ToolCallFailed as failed:
        if "not found" in str(failed):
            hint = "the user can enable it with execute_code = true under [scripts] of workspace.toml"
            raise ToolCallFailed(f"{failed}; {hint}", failed.result) from None
        raise
    try:
        return json.loads(result) if isinstance(result, str) else result
    except ValueError:
        return result


def _request(request: dict[str, Any]) -> dict[str, Any]:
    """Send one request over the socket of this call and return the answer."""
    import socket  # noqa: PLC0415  most scripts call no tools

    folder = os.path.dirname(os.environ["LMTB_TOOL_ARGS_FILE"])
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"{folder}/tools.sock")
            connection.sendall(json.dumps(request, allow_nan=False).encode() + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline()
        except OSError as error:
            raise ToolCallFailed(f"tools cannot be called from here: {error.strerror or error}") from None
    if not line:
        raise ToolCallFailed("the server closed the connection")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer and request["do"] == "list":
        raise ToolCallFailed(answer["error"].get("message", "the list failed"), answer["error"])
    return answer
