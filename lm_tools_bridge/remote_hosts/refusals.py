"""Makes the refusals for hosts that the user has not added, or that cannot be reached."""

from __future__ import annotations

import re

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.line_failures import LineFailure
from lm_tools_bridge.remote_hosts.link import Link


def not_added(host: Host) -> Refusal:
    """The refusal for a host that the user has not added."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", host.name).strip("-")[:32]
    return Refusal(
        Reason.HOST_NOT_ADDED,
        f"host not added: {host}",
        f"ask the user whether to connect to it; if so, the user runs: lmtb remote add {name} {host}/",
        delivered="no",
        details={"host": str(host)},
    )


def line_refusal(link: Link, failure: LineFailure, *, cause: str | None = None) -> Refusal:
    """The refusal 47102 for a host without a line. It contains nothing that the host wrote."""
    names = {"host": str(link.host), "name": link.name}
    kind = failure.kind
    return Refusal(
        Reason.WORKSPACE_SERVER_OFFLINE,
        f"resolved MCP server is offline: {kind.text.format(**names)}",
        kind.next_step.format(**names),
        delivered="no",
        retry_after_ms=max(1000, int(link.retry_after_s() * 1000)),
        details={"host": str(link.host), "cause": cause or kind.word},
    )
