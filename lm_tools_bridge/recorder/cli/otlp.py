"""Sends recorded calls as spans to an OpenTelemetry collector, with the official exporter (extra `otel`).

Spans follow the semantic conventions for generative AI and MCP as far as these have names for the values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.machine.own_distribution import command_adding
from lm_tools_bridge.protocol import trace_context
from lm_tools_bridge.recorder.call_log import Call
from lm_tools_bridge.terminal.command_line import Failure
from manager import __version__
from manager.call_observer import is_failure

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

BATCH: Final = 512  # spans in one request, as the batches of OpenTelemetry's own exporters


def send(calls: Iterable[Call], address: str) -> int:
    """Send calls in batches; returns how many.

    Raises:
        Failure: the extra is not installed, or the collector does not take them.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise Failure(
            "the OpenTelemetry exporter is not installed",
            f"run: {command_adding('otel')}",
            reason="missing_extra",
        ) from error
    exporter, count, rest = OTLPSpanExporter(endpoint=address), 0, iter(calls)
    try:
        while batch := [span_of(call) for call in islice(rest, BATCH)]:
            if exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise Failure(
                    f"{address} does not take the spans; {count:,} were sent before",
                    "check the address, such as http://127.0.0.1:4318/v1/traces",
                    reason="export_failed",
                )
            count += len(batch)
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call, unused-ignore]  # in some versions
    return count


def span_of(call: Call) -> ReadableSpan:
    """The span of a call: a child of the client's span, if it brought a trace context."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    trace, span, parent = _ids(call)
    flags = TraceFlags(TraceFlags.SAMPLED)
    own = SpanContext(trace, span, is_remote=False, trace_flags=flags)
    failed = is_failure(call.outcome)
    return ReadableSpan(
        name=f"{call.method} {call.tool}" if call.tool else call.method,
        context=own,
        parent=None if parent is None else SpanContext(trace, parent, is_remote=True, trace_flags=flags),
        resource=Resource({"service.name": "lm-tools-bridge", "service.version": __version__}),
        attributes=dict(_attributes(call)),
        kind=SpanKind.SERVER,
        status=Status(StatusCode.ERROR, call.outcome) if failed else Status(StatusCode.UNSET),
        start_time=call.at * 1_000_000,
        end_time=call.at * 1_000_000 + call.took * 1_000,
    )


def _attributes(call: Call) -> Iterator[tuple[str, Any]]:
    values = {
        "mcp.method.name": call.method,
        "mcp.protocol.version": call.revision,
        "mcp.session.id": call.session,
        "gen_ai.tool.name": call.tool,
        "error.type": call.outcome if is_failure(call.outcome) else None,
        "rpc.response.status_code": None if call.code is None else str(call.code),
        "lmtb.client.name": call.client,
        "lmtb.client.version": call.client_version,
        "lmtb.project": call.project,
        "lmtb.source": call.source,
        "lmtb.sent_bytes": call.sent,
        "lmtb.received_bytes": call.received,
        "lmtb.manager_us": call.manager,
        "lmtb.server_us": call.server,
        "lmtb.source_us": call.source_took,
        "lmtb.retries": call.retries,
    }
    return ((name, value) for name, value in values.items() if value is not None)


def _ids(call: Call) -> tuple[int, int, int | None]:
    """The ids of trace, span and parent span.

    A call without a trace context has a trace of its own. A context that the manager made names the call's
    own span, whose children are the spans of the server behind it.
    """
    span = _number(call, "span") & (2**64 - 1) or 1
    if call.trace is None:
        return _number(call, "trace") & (2**128 - 1) or 1, span, None
    _, trace, sent, _ = call.trace.split("-")
    if trace_context.is_made(call.trace):
        return int(trace, 16), int(sent, 16), None
    return int(trace, 16) or 1, span, int(sent, 16) or None


def _number(call: Call, what: str) -> int:
    """A number that the same call gets each time it is exported."""
    text = f"{what} {call.id} {call.at} {call.took} {call.trace}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
