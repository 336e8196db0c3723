"""Renders the page of one recorded call: all that is known of it, its contents and its server's log. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import Final

from lm_tools_bridge.page.html import CALLS_PATH, copyable, document, facts, lines, link, text
from lm_tools_bridge.protocol import names
from lm_tools_bridge.recorder.call_log import Call, Contents
from lm_tools_bridge.recorder.page.fragments import outcome
from lm_tools_bridge.recorder.page.lookups import FoundCall, address
from lm_tools_bridge.recorder.server_output import OutputLine
from lm_tools_bridge.text.quantities import latency
from manager.status_reading import format_log_line

LONGEST_CONTENT: Final = 20_000
"""Characters of arguments and of a result; `lmtb calls show --json` has all."""


def call_page(found_call: FoundCall, zone: tzinfo | None = None) -> str:
    """The whole page.

    Args:
        zone: in which times are shown; None for that of this machine.
    """
    call = found_call.call
    sections = {
        "call": f"<h2>Call {call.id}: {text(call.tool or call.method)}</h2>{facts(dict(_facts(call, zone)))}",
        "waits": f"<h2>Where its time went</h2>{facts(dict(_times(call)))}",
        "contents": _contents(found_call.contents),
        "output": _output(found_call.output),
        "replay": _replay(call, found_call.contents),
    }
    return document(f"Call {call.id}", {name: html for name, html in sections.items() if html})


def no_such_call(reason: str) -> str:
    """The page for a call that cannot be shown."""
    back = f"<p>{link(CALLS_PATH, 'Recorded calls')}</p>"
    return document("No such call", {"call": f"<h2>No such call</h2><p>{text(reason)}</p>{back}"})


def _facts(call: Call, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    at = datetime.fromtimestamp(call.at / 1000, zone)
    code = f" (code {call.code})" if call.code is not None else ""
    yield "Outcome", outcome(call.outcome) + text(code) if code else outcome(call.outcome)
    yield "Time", text(at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3])
    yield "Took", text(latency(call.took / 1000))
    yield "Client", text(" ".join(word for word in (call.client, call.client_version) if word))
    yield "Protocol", text(f"{call.revision}, {'a session' if call.session else 'stateless'}")
    yield "Session", _same_session(call)
    yield "Project", text(call.project)
    yield "Found by", text(call.decided_by)
    yield "Method", text(call.method)
    yield "Source", text(call.source)
    yield "Bytes of arguments", f"{call.sent:,}"
    yield "Bytes of the answer", text(None if call.received is None else f"{call.received:,}")
    yield "Retries", str(call.retries)
    if call.more:
        yield "More like it, without a record", f"{call.more:,}"
    yield "Trace", text(call.trace)


def _same_session(call: Call) -> str:
    if call.session is None:
        return "–"
    return link(address(CALLS_PATH, {"session": call.session}), call.session)


def _times(call: Call) -> Iterator[tuple[str, str]]:
    times = {
        "Manager": call.manager,
        "Workspace server with all behind it": call.server,
        "Source": call.source_took,
        "Waited for your approval": call.approval,
        "Waited for a connection": call.queue,
        "Waited for the server’s start": call.start,
        "The client’s input before it": call.asked,
    }
    for name, us in times.items():
        yield name, text(None if us is None else latency(us / 1000))


def _contents(contents: Contents | None) -> str:
    if contents is None:
        return (
            "<h2>Arguments and result</h2><p>They were not recorded. For later calls: "
            f"{copyable('lmtb record on --contents')}</p>"
        )
    blocks = "".join(
        f"<h3>{head}</h3>{_json(value)}"
        for head, value in (("Arguments", contents.arguments), ("Result", contents.result))
        if value is not None
    )
    notes = f"<p>{text(contents.notes)}</p>" if contents.notes else ""
    return f"<h2>Arguments and result</h2>{blocks}{notes}"


def _json(value: str) -> str:
    if len(value) <= LONGEST_CONTENT:  # what is longer, or nested without end, would hold up everybody
        with suppress(ValueError, RecursionError):
            value = json.dumps(json.loads(value), indent=2, ensure_ascii=False)
    cut = value[:LONGEST_CONTENT]
    rest = "" if len(cut) == len(value) else "<p>The rest: <code>lmtb calls show ID --json</code></p>"
    return lines(cut.splitlines()) + rest


def _output(output: Sequence[OutputLine]) -> str:
    if not output:
        return ""
    text_lines = lines(f"{'>' if line.is_of_call else ' '} {format_log_line(line.text)}" for line in output)
    return (
        "<h2>The server’s log at that time</h2>"
        "<p>Joined by time: lines of other calls may be among them. A <code>&gt;</code> marks lines of the "
        f"call’s own source.</p>{text_lines}"
    )


def _replay(call: Call, contents: Contents | None) -> str:
    if call.method != names.TOOLS_CALL:
        return ""
    missing = contents is None or contents.arguments is None
    needs = "<p>It needs recorded arguments, which this call has not.</p>" if missing else ""
    return (
        f"<h2>Replay</h2><p>Says what would be sent: {copyable(f'lmtb replay {call.id}')}</p>"
        f"<p>Sends it, and shows what differs: {copyable(f'lmtb replay {call.id} --send')}</p>{needs}"
    )
