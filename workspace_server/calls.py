"""`tools/call`: from a name and arguments to a result, whatever the tool does (T-172 to T-177).

The arguments are checked before the tool sees them; a tool that fails answers with a result a model can read.
A third party's result is not looked into.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from protocol import names
from protocol.inbound import HEADER_MISMATCH, Rejection
from workspace_server import log, params, resources
from workspace_server.asked import Asked, Outcome
from workspace_server.registry import Offered, Snapshot
from workspace_server.results import encode_result, error_result
from workspace_server.source import CallContext, CallOutcome, InvalidArguments, Tool, ToolError, ToolResult


async def call(asked: Asked, snapshot: Snapshot) -> Outcome:
    """The answer to one `tools/call`."""
    name = asked.inbound.name or ""
    arguments = asked.value("arguments", {})
    if not isinstance(arguments, dict):
        return asked.invalid("params.arguments must be an object")
    offered = snapshot.get(name)
    if offered is None:
        return resources.unknown_tool(asked, snapshot, name)
    schema = offered.tool.input_schema
    if (problem := params.mismatch(asked.header, schema, arguments)) is not None:
        return Rejection(400, HEADER_MISMATCH, problem, asked.request.id)
    # loaded with the first call: compiling schemas takes a library that health answers need not wait for
    from workspace_server import validation  # noqa: PLC0415

    if problems := validation.validator_for(schema).check(arguments):
        return encode_result(validation.invalid_arguments_result(offered.named_tool(), problems))
    outcome = await _run(offered, arguments, CallContext(_progress(asked)))
    return outcome if isinstance(outcome, msgspec.Raw) else encode_result(outcome)


async def _run(offered: Offered, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    from workspace_server import validation  # noqa: PLC0415  as in `call`

    tool = offered.named_tool()
    try:
        outcome = await offered.source.call_tool(offered.tool.name, arguments, context)
    except ToolError as failure:
        return error_result(tool, failure)
    except InvalidArguments as refused:
        problem = validation.Problem(refused.pointer, "value", refused.message)
        return validation.invalid_arguments_result(tool, [problem])
    except Exception as fault:  # noqa: BLE001  whatever a tool does, its caller gets an answer (T-177)
        log.fault("tool_failed", fault, tool=offered.name, source=offered.source.id)
        return error_result(tool, ToolError(f"{offered.name} failed unexpectedly"))
    if isinstance(outcome, msgspec.Raw) or outcome.is_error or _keeps_promise(tool, outcome):
        return outcome
    log.error("output_schema_mismatch", tool=offered.name, source=offered.source.id)
    return error_result(tool, ToolError(f"the result of {offered.name} does not fit its output schema"))


def _keeps_promise(tool: Tool, result: ToolResult) -> bool:
    """Whether a result of ours fits the output schema of its tool, where there is one (T-176)."""
    from workspace_server import validation  # noqa: PLC0415  as in `call`

    schema = tool.definition.get("outputSchema")
    if not isinstance(schema, Mapping):
        return True
    try:
        return result.structured is not None and not validation.validator_for(schema).check(result.structured)
    except ValueError:
        return False


def _progress(asked: Asked) -> Any:
    token = asked.inbound.meta.get("progressToken")

    async def report(done: float, total: float | None, message: str | None) -> None:
        if token is not None:
            members = {"progressToken": token, "progress": done, "total": total, "message": message}
            present = {key: value for key, value in members.items() if value is not None}
            await asked.notify(names.PROGRESS, present)

    return report
