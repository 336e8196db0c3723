"""Input requests of a server to its client (elicitation, sampling, roots), and the client's roots.

In MCP 2026-07-28 a server puts `elicitation/create`, `sampling/createMessage` or `roots/list` into an
`input_required` result; the client repeats its request with the `inputResponses`. MCP has no form for a
response that is an error: between manager and workspace server `error_response` is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names

MAX_ROOTS: Final = 32
"""Roots that are read of one answer: each costs a look at the disk, and no editor opens as many folders."""
MAX_URI: Final = 16 * 1024
"""Longest URI of a root, the size of a request head, in which a folder may come as well."""


def roots_in(result: bytes | msgspec.Raw) -> tuple[str, ...]:
    """The `file:` URIs in a `roots/list` result; empty if the result is invalid."""
    try:
        roots = msgspec.json.decode(jsonrpc.members_of(result).get("roots", b"[]"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    entries: Iterable[Any] = roots[:MAX_ROOTS] if isinstance(roots, list) else ()
    uris = (entry.get("uri") for entry in entries if isinstance(entry, Mapping))
    return tuple(uri for uri in uris if isinstance(uri, str) and len(uri) <= MAX_URI and _is_file(uri))


def _is_file(uri: str) -> bool:
    return uri[:5].lower() == "file:"


def declares_roots(capabilities: bytes | msgspec.Raw) -> bool:
    """Whether a client with these capabilities can be asked for its roots."""
    return "roots" in jsonrpc.members_of(capabilities)


def required_capabilities(method: str, params: bytes | msgspec.Raw) -> Mapping[str, Any] | None:
    """The capabilities that a client needs for an input request; None if `method` is no input request.

    Args:
        params: parameters of the input request as JSON text, empty if absent.

    Returns:
        Capabilities in the form of `requiredCapabilities`: `{"elicitation": {"url": {}}}`.
    """
    members = jsonrpc.members_of(params)
    if method == names.ELICIT:
        mode = jsonrpc.text_of(members["mode"]) if "mode" in members else None
        return {"elicitation": {mode or "form": {}}}
    if method == names.SAMPLE:
        return {"sampling": {"tools": {}} if "tools" in members or "toolChoice" in members else {}}
    return {"roots": {}} if method == names.ROOTS_LIST else None


def declares(capabilities: Mapping[str, Any], required: Mapping[str, Any]) -> bool:
    """Whether a client's capabilities include all that are required.

    An empty `elicitation` means form mode, which is older than the other modes.
    """
    for name, parts in required.items():
        offered = capabilities.get(name)
        if not isinstance(offered, Mapping):
            return False
        if name == "elicitation" and not offered:
            offered = {"form": {}}
        if any(part not in offered for part in parts):
            return False
    return True


def format_capabilities(capabilities: Mapping[str, Any]) -> str:
    """Format capabilities for a message: `elicitation.url, sampling`."""
    parts = {name: value if isinstance(value, Mapping) else {} for name, value in capabilities.items()}
    return ", ".join(f"{name}.{part}" if part else name for name in parts for part in parts[name] or [""])


def input_required_members(outcome: object) -> Mapping[str, msgspec.Raw] | None:
    """The members of an `input_required` result, as JSON text; None for any other outcome."""
    if not isinstance(outcome, msgspec.Raw) or b"input_required" not in jsonrpc.bytes_of(outcome):
        return None
    members = jsonrpc.members_of(outcome)
    return members if is_input_required(members) else None


def is_input_required(members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether a result with these members is `input_required`."""
    return jsonrpc.text_of(members.get("resultType", b"")) == "input_required"


def repeated(
    params: Mapping[str, msgspec.Raw],
    interim: Mapping[str, msgspec.Raw],
    answers: Mapping[str, msgspec.Raw],
) -> dict[str, msgspec.Raw]:
    """The parameters of the request that is repeated with a client's answers.

    Args:
        params: those of the request before, each as JSON text.
        interim: the members of the result that asked for input; its `requestState` goes into the request.
        answers: the client's answers by key.
    """
    others = {key: raw for key, raw in params.items() if key != "requestState"}
    state = {"requestState": interim["requestState"]} if "requestState" in interim else {}
    return {**others, "inputResponses": jsonrpc.raw(answers), **state}


def error_response(error: msgspec.Raw) -> msgspec.Raw:
    """The entry of `inputResponses` for an input request that was answered with this JSON-RPC error."""
    return jsonrpc.raw({"_meta": {names.META_ERROR: error}})


def error_in(answer: msgspec.Raw) -> tuple[int, str, msgspec.Raw | None] | None:
    """The error (code, message, data) in an entry that `error_response` made; None for other entries."""
    meta = jsonrpc.members_of(jsonrpc.members_of(answer).get("_meta", b"{}"))
    if names.META_ERROR not in meta:
        return None
    error = jsonrpc.members_of(meta[names.META_ERROR])
    try:
        code = msgspec.json.decode(error.get("code", b""), type=int)
    except msgspec.DecodeError:
        code = jsonrpc.INTERNAL_ERROR
    return code, jsonrpc.text_of(error.get("message", b'""')) or "", error.get("data")
