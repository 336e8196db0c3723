"""Requests about tasks: the id says whose task it is, so that nothing else has to (SEP-2663)."""

from __future__ import annotations

import msgspec

from manager.answers.exchange import Exchange, Located, Plain
from manager.routing.workspace.resolution import WorkspaceSource
from manager.supervision.workspaces import Workspaces
from protocol import names, tasks


def owner(exchange: Exchange, workspaces: Workspaces) -> Located | None:
    """The workspace that the task's id names; None where it names none that is known.

    It is an explicit statement like an argument. An address below `/w/` is more explicit: there the id is the
    workspace's to judge.
    """
    named = tasks.workspace_of(exchange.inbound.name or "")
    found = None if named is None or exchange.claims.path is not None else workspaces.get(named)
    return None if found is None else Located(found, WorkspaceSource.ARGUMENT)


def unknown(exchange: Exchange) -> Plain:
    """The reply where nothing says which workspace is meant, so that no task can be."""
    rejection = tasks.unknown_task(exchange.message.id, exchange.inbound.name or "")
    return undeclared(exchange, exchange.message.method) or Plain(rejection.body(), rejection.status)


def undeclared(exchange: Exchange, what: str) -> Plain | None:
    """The reply to a client that did not declare the extension on this request; None where it did."""
    if tasks.is_declared(msgspec.json.decode(exchange.inbound.meta[names.META_CAPABILITIES])):
        return None
    rejection = tasks.missing_capability(exchange.message.id, what)
    return Plain(rejection.body(), rejection.status)
