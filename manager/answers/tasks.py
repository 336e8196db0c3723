"""Answers requests about tasks, whose ids name their workspace (SEP-2663)."""

from __future__ import annotations

import msgspec

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol import tasks_extension as tasks
from manager.answers.exchange import Exchange, Located, Plain
from manager.routing.workspace.resolution import WorkspaceSource
from manager.supervision.workspaces import Workspaces


def owner(exchange: Exchange, workspaces: Workspaces, claimed: object) -> Located | None:
    """The workspace that the task id names; None if it names no known one.

    The id counts as an explicit claim, like an argument. Below `/w/` the URL decides instead, and the
    workspace server judges the id. A manager on another host names the workspace as it is known there.

    Args:
        claimed: the workspace that the request names otherwise (`Located`), if any.
    """
    named = tasks.workspace_of(exchange.inbound.name or "")
    if named is None or exchange.claims.path is not None:
        return None
    if isinstance(claimed, Located) and (remote := claimed.workspace.remote) and remote.far_id == named:
        return claimed
    found = workspaces.get(named) or workspaces.remote_hosts.with_far_id(named)
    return None if found is None else Located(found, WorkspaceSource.ARGUMENT)


def unknown(exchange: Exchange) -> Plain:
    """The reply if no workspace is known, so that the task cannot exist."""
    rejection = tasks.unknown_task(exchange.message.id, exchange.inbound.name or "")
    return undeclared(exchange, exchange.message.method) or Plain(rejection.body(), rejection.status)


def undeclared(exchange: Exchange, what: str) -> Plain | None:
    """The error for a request that does not declare the tasks extension; None if it does."""
    if tasks.is_declared(msgspec.json.decode(exchange.inbound.meta[names.META_CAPABILITIES])):
        return None
    rejection = tasks.missing_capability(exchange.message.id, what)
    return Plain(rejection.body(), rejection.status)
