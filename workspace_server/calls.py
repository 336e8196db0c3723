"""`tools/call`: from a name and arguments to a result, whatever the tool does (T-15, T-54, T-172 to T-182).

What may be called is decided here, for every way in: directly, through `execute_tool`, from a script. The
arguments are checked before the tool sees them; a tool that fails answers with a result a model can read. A
third party's result is not looked into.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from protocol import headers, jsonrpc, names
from protocol.errors import Reason, Refusal
from protocol.inbound import HEADER_MISMATCH, Rejection
from protocol.issues import Issue
from workspace_server import log, naming, nested, params, resources, schema_defaults
from workspace_server.approvals import Admitted, BadAnswer, Question
from workspace_server.asked import Asked, Outcome, own_request
from workspace_server.gate import Gate, OpenGate
from workspace_server.registry import Offered
from workspace_server.results import encode_result, error_result, refusal_result
from workspace_server.source import (
    CallContext,
    CallOutcome,
    InvalidArguments,
    RpcError,
    Tool,
    ToolError,
    ToolResult,
)
from workspace_server.tool_search import execute
from workspace_server.tool_search.tool import Searchable, SearchTool
from workspace_server.toolset import Toolset
from workspace_server.view import Mode, View, mode_of

MAX_DEPTH: Final = 4
"""How deep tools may call tools (T-78)."""
_OWN_MEMBERS: Final = frozenset({"name", "arguments"})
SEARCH: Final = "tool_search"


@dataclass(frozen=True, slots=True)
class Call:
    """One call on its way: who asked, under which view, and for what.

    `arguments` is JSON text. `is_direct` is whether the request itself names the tool, so that mirrored
    headers must agree with its arguments. `depth` counts the tools this call was made from.
    """

    asked: Asked
    view: View
    name: str
    arguments: msgspec.Raw
    is_direct: bool = True
    depth: int = 0


class Calls:
    """Runs calls.

    Args:
        toolset: the tools.
        gate: who is let through to a tool: approvals and rate limits.
    """

    def __init__(self, toolset: Toolset, gate: Gate | None = None) -> None:
        self.toolset = toolset
        self._gate = gate or OpenGate()
        self._search = SearchTool()

    async def close(self) -> None:
        """End what calls share. Idempotent."""
        await self._search.close()

    async def call(self, asked: Asked) -> Outcome:
        """The answer to one `tools/call`."""
        view = await self.toolset.current()
        arguments = asked.inbound.params.get("arguments", msgspec.Raw(b"{}"))
        if jsonrpc.bytes_of(arguments)[:1] != b"{":
            return asked.invalid("params.arguments must be an object")
        return await self.run(Call(asked, view, asked.inbound.name or "", arguments))

    async def run(self, call: Call) -> Outcome:
        """The answer to one call, however it was asked for."""
        if call.name == SEARCH:
            return await self._find(call)
        if call.name == execute.NAME:
            return await self._execute(call)
        offered = call.view.get(call.name) or _behind(call)
        if offered is None:
            return self._absent(call)
        arguments = msgspec.json.decode(call.arguments)
        if call.is_direct:
            problem = params.mismatch(call.asked.header, offered.schema, arguments)
            if problem is not None:
                return Rejection(400, HEADER_MISMATCH, problem, call.asked.request.id)
        filled = schema_defaults.fill(offered, arguments)
        if filled is not arguments:
            call = _with_arguments(call, jsonrpc.raw(filled))
        # loaded with the first call: compiling schemas takes a library that health answers need not wait for
        from workspace_server import validation  # noqa: PLC0415

        if problems := validation.validator_for(offered.schema).check(filled):
            return encode_result(validation.invalid_arguments_result(offered.named_tool(), problems))
        return await self._admitted(call, offered, filled)

    async def _admitted(self, call: Call, offered: Offered, arguments: Mapping[str, Any]) -> Outcome:
        context = _context(call, None if call.depth >= MAX_DEPTH else CallersTools(self, call))
        match await self._gate.admit(offered, arguments, context, call.view.configuration):
            case Refusal() as refusal:
                return encode_result(refusal_result(offered.named_tool(), refusal))
            case BadAnswer() as bad:
                return call.asked.invalid(bad.message)
            case Question() as question:
                return question.result
            case Admitted() as admitted:
                context = admitted.context
        started = time.monotonic()
        outcome = await self._run(call, offered, arguments, context)
        _trace(call, offered, outcome, time.monotonic() - started)
        if isinstance(outcome, msgspec.Raw):
            outcome = await self._gate.carry(offered, arguments, context, outcome)
        return self._answer(call, offered, outcome)

    async def _run(
        self, call: Call, offered: Offered, arguments: Mapping[str, Any], context: CallContext
    ) -> CallOutcome:
        tool = offered.named_tool()
        seconds = offered.tool.timeout_s or call.view.configuration.call_timeout_s
        try:
            async with asyncio.timeout(seconds) as limit:
                return await offered.source.call_tool(offered.tool.name, arguments, context)
        except ToolError as failure:
            return error_result(tool, failure)
        except InvalidArguments as refused:
            from workspace_server import validation  # noqa: PLC0415  as in `run`

            problem = validation.Problem(refused.pointer, "value", refused.message)
            return validation.invalid_arguments_result(tool, [problem])
        except Exception as fault:  # noqa: BLE001  whatever a tool does, its caller gets an answer (T-177)
            if isinstance(fault, TimeoutError) and limit.expired():
                text = f"{offered.name} did not finish within {seconds:g} s and was stopped"
                return Refusal(Reason.CALL_TIMED_OUT, text, delivered="unknown")
            log.fault("tool_failed", fault, tool=offered.name, source=offered.source.id)
            return error_result(tool, ToolError(f"{offered.name} failed unexpectedly"))

    def _answer(self, call: Call, offered: Offered, outcome: CallOutcome) -> Outcome:
        tool = offered.named_tool()
        match outcome:
            case RpcError():
                return Rejection(200, outcome.code, outcome.message, call.asked.request.id, outcome.data)
            case Refusal():
                return encode_result(refusal_result(tool, outcome))
            case ToolResult():
                if outcome.is_error or not _broken_promise(tool, outcome.structured, required=True):
                    return encode_result(outcome)
                log.error("output_schema_mismatch", tool=offered.name, source=offered.source.id)
                failed = ToolError(f"the result of {offered.name} does not fit its output schema")
                return encode_result(error_result(tool, failed))
            case _:
                self._look_over(offered, outcome)
                return outcome

    def _look_over(self, offered: Offered, result: msgspec.Raw) -> None:
        """A third party's result that breaks its promise is passed on, and reported (T-176)."""
        if "outputSchema" not in offered.definition:
            return
        members = jsonrpc.members_of(result)
        if jsonrpc.bytes_of(members.get("isError", msgspec.Raw(b"false"))) == b"true":
            return
        structured = members.get("structuredContent")
        value = None if structured is None else msgspec.json.decode(structured)
        if structured is not None and _broken_promise(offered.named_tool(), value, required=False):
            text = f"A result of {offered.name} did not fit its output schema"
            details = f"source {offered.source.id}"
            issue = Issue("warning", "schema", "OUTPUT_SCHEMA_MISMATCH", text, offered.name, details)
            self.toolset.note(issue)

    def _absent(self, call: Call) -> Outcome:
        """A name that cannot be called: waiting for trust, or as good as not there (T-62, T-175)."""
        path = call.view.snapshot.withheld.get(call.name)
        if path is None or naming.is_internal_tool(call.name, call.view.configuration.internal_prefix):
            return resources.unknown_tool(call.asked, call.view, call.name)
        text = f"{call.name} comes from files of this workspace that the user has not trusted yet"
        step = f"ask the user to look at it and to run: lmtb trust {path}"
        refusal = Refusal(Reason.WORKSPACE_PENDING_TRUST, text, step, delivered="no")
        return encode_result(refusal_result(Tool(call.name, {"inputSchema": {}}), refusal))

    async def _find(self, call: Call) -> Outcome:
        view, arguments = call.view, msgspec.json.decode(call.arguments)
        foreign = await nested.hits(view, arguments)
        searchable = (_searchable(offered) for offered in view.tools)
        return encode_result(await self._search.search(searchable, view, arguments, foreign))

    async def _execute(self, call: Call) -> Outcome:
        inner = execute.unwrap(call.arguments)
        if isinstance(inner, execute.Unwrapped):
            wrapped = Call(call.asked, call.view, inner.name, inner.arguments, False, call.depth)
            if inner.name != SEARCH and (call.view.get(inner.name) or _behind(wrapped)) is None:
                return self._cannot_execute(wrapped)
            return await self.run(wrapped)
        return encode_result(execute.problem_result(inner))

    def _cannot_execute(self, call: Call) -> Outcome:
        if call.name in call.view.snapshot.withheld:
            return self._absent(call)
        return encode_result(execute.not_found(call.name, call.view.nearest(call.name)))


class OwnTools:
    """The workspace's tools for a program of the user's own, on the internal channel (group K)."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def listed(self) -> list[Mapping[str, Any]]:
        """See `source.Toolbox`: all that can be called."""
        return (await self._calls.toolset.current()).listed(Mode.SHOW_ALL)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `source.Toolbox`."""
        view = await self._calls.toolset.current()
        return _plain(
            await self._calls.run(Call(own_request(name), view, name, jsonrpc.raw(arguments), False))
        )


class CallersTools:
    """The workspace's tools as a script may use them: with the view and the rights of its caller (T-78)."""

    def __init__(self, calls: Calls, call: Call) -> None:
        self._calls = calls
        self._call = call

    async def listed(self) -> list[Mapping[str, Any]]:
        """See `source.Toolbox`."""
        mode = mode_of(self._call.asked.header, self._call.asked.query)
        return self._call.view.listed(Mode.NORMAL if mode is Mode.DISCOVERY else mode)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `source.Toolbox`."""
        outer = self._call
        inner = Call(outer.asked, outer.view, name, jsonrpc.raw(arguments), False, outer.depth + 1)
        return _plain(await self._calls.run(inner))


def _plain(outcome: Outcome) -> Mapping[str, Any]:
    if isinstance(outcome, Rejection):
        error: Mapping[str, Any] = msgspec.json.decode(outcome.body())["error"]
        return {"error": error}
    return {"result": msgspec.json.decode(outcome) if isinstance(outcome, msgspec.Raw) else outcome}


def _with_arguments(call: Call, arguments: msgspec.Raw) -> Call:
    return Call(call.asked, call.view, call.name, arguments, call.is_direct, call.depth)


def _behind(call: Call) -> Offered | None:
    """A tool that a source does not list and may run all the same; only the source can check arguments."""
    found = call.view.hidden_behind(call.name)
    if found is None:
        return None
    source, own = found
    tool = Tool(own, {"name": call.name, "inputSchema": {"type": "object"}})
    return Offered(call.name, tool, source, tool.definition)


def _searchable(offered: Offered) -> Searchable:
    keywords = (*offered.tool.keywords, *offered.source.keywords)
    return Searchable(offered.name, offered.definition, keywords)


def _context(call: Call, toolbox: CallersTools | None) -> CallContext:
    meta = call.asked.inbound.meta
    client = _decoded(meta.get(names.META_CLIENT))
    name = client.get("name")
    return CallContext(
        notify=call.asked.notify,
        arguments=call.arguments,
        params={key: raw for key, raw in call.asked.inbound.params.items() if key not in _OWN_MEMBERS},
        caller=call.asked.header.get(headers.CALLER, ""),
        client=name if isinstance(name, str) else "",
        capabilities=_decoded(meta.get(names.META_CAPABILITIES)),
        toolbox=toolbox,
    )


def _decoded(raw: msgspec.Raw | None) -> Mapping[str, Any]:
    value = None if raw is None else msgspec.json.decode(raw)
    return value if isinstance(value, Mapping) else {}


def _broken_promise(tool: Tool, structured: Any, *, required: bool) -> bool:
    """Whether structured content does not fit the output schema of its tool, where there is one (T-176)."""
    schema = tool.definition.get("outputSchema")
    if not isinstance(schema, Mapping):
        return False
    if structured is None and required:
        return True
    from workspace_server import validation  # noqa: PLC0415  as in `Calls.run`

    try:
        return bool(validation.validator_for(schema).check(structured))
    except ValueError:
        return required


def _trace(call: Call, offered: Offered, outcome: CallOutcome, seconds: float) -> None:
    """One line per call where the user asked for it; arguments and output as far as they asked (T-186)."""
    level = call.view.configuration.debug
    if level == "off":
        return
    fields: dict[str, Any] = {"tool": offered.name, "ms": round(seconds * 1000, 1)}
    fields["input"] = log.redacted(msgspec.json.decode(call.arguments))
    if level == "detail":
        fields["output"] = log.redacted(_shown(outcome))
    log.info("tool_call", **fields)


def _shown(outcome: CallOutcome) -> Any:
    match outcome:
        case msgspec.Raw():
            return msgspec.json.decode(outcome)
        case ToolResult():
            return encode_result(outcome)
        case RpcError():
            return {"code": outcome.code, "message": outcome.message}
        case _:
            return outcome.data()
