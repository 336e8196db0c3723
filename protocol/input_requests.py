"""What a server may ask a client in the middle of a request, and what the client must have declared for it.

Three questions exist: `elicitation/create`, `sampling/createMessage`, `roots/list` (2026-07-28, rounds of one
request), and a result may ask some of them instead of ending its call. Who puts a question to whom, and when,
is not decided here. A question that is answered with an error has no place in the repeated request; between
manager and workspace server it gets one of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from protocol import jsonrpc, names


def required_capabilities(method: str, params: bytes | msgspec.Raw) -> Mapping[str, Any] | None:
    """What a client declares that can answer this question; None for what no client is asked.

    Args:
        params: the question's parameters as JSON text, empty when absent.

    Returns:
        Capabilities as `requiredCapabilities` names them: `{"elicitation": {"url": {}}}`.
    """
    members = jsonrpc.members_of(params)
    if method == names.ELICIT:
        mode = jsonrpc.text_of(members["mode"]) if "mode" in members else None
        return {"elicitation": {mode or "form": {}}}
    if method == names.SAMPLE:
        return {"sampling": {"tools": {}} if "tools" in members or "toolChoice" in members else {}}
    return {"roots": {}} if method == names.ROOTS_LIST else None


def declares(capabilities: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a client with these capabilities declared all that is wanted.

    An empty `elicitation` means forms: it is older than the other modes.
    """
    for name, parts in wanted.items():
        offered = capabilities.get(name)
        if not isinstance(offered, Mapping):
            return False
        if name == "elicitation" and not offered:
            offered = {"form": {}}
        if any(part not in offered for part in parts):
            return False
    return True


def format_capabilities(capabilities: Mapping[str, Any]) -> str:
    """Capabilities as a person reads them: `elicitation.url, sampling`."""
    parts = {name: value if isinstance(value, Mapping) else {} for name, value in capabilities.items()}
    return ", ".join(f"{name}.{part}" if part else name for name in parts for part in parts[name] or [""])


def input_required_members(outcome: object) -> Mapping[str, msgspec.Raw] | None:
    """The members of a result, as JSON text, that asks its client for input; None for any other outcome."""
    if not isinstance(outcome, msgspec.Raw) or b"input_required" not in jsonrpc.bytes_of(outcome):
        return None
    members = jsonrpc.members_of(outcome)
    return members if is_input_required(members) else None


def is_input_required(members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether a result with these members asks its client for input."""
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
    """The entry of `inputResponses` for a question that was answered with this JSON-RPC error object."""
    return jsonrpc.raw({"_meta": {names.META_ERROR: error}})


def error_in(answer: msgspec.Raw) -> tuple[int, str, msgspec.Raw | None] | None:
    """Code, message and data of the error in an entry that `error_response` made; None for other entries."""
    meta = jsonrpc.members_of(jsonrpc.members_of(answer).get("_meta", b"{}"))
    if names.META_ERROR not in meta:
        return None
    error = jsonrpc.members_of(meta[names.META_ERROR])
    try:
        code = msgspec.json.decode(error.get("code", b""), type=int)
    except msgspec.DecodeError:
        code = jsonrpc.INTERNAL_ERROR
    return code, jsonrpc.text_of(error.get("message", b'""')) or "", error.get("data")
