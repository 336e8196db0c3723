"""Adds the verbs `lmtb client` and `lmtb adopt`, and offers them at the first start."""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.terminal.deciding_verbs import if_given
from manager.features import Verb


def offer_first_steps() -> None:
    """Offer to connect the clients that are installed, unless one is connected already."""
    from lm_tools_bridge.client_setup.cli.verb import offer_clients

    offer_clients()


VERBS: Final = (
    Verb(
        "adopt",
        "lm_tools_bridge.client_setup.cli.adopt",
        "Move servers of .mcp.json and the like to its workspace.toml.",
        section="The workspace of the current folder",
        after="untrust",
        for_anyone_if={"adopt": if_given("dry_run")},
        synonyms=dict.fromkeys(("import", "migrate", "move"), "adopt"),
    ),
    Verb(
        "client",
        "lm_tools_bridge.client_setup.cli.verb",
        "Connect coding agents: add this server to their files.",
        section="Everywhere",
        after="remote",
        for_anyone=("client list", "client show"),
        for_anyone_if=dict.fromkeys(
            ("client add", "client install", "client remove", "client update"), if_given("dry_run")
        ),
        synonyms={
            **dict.fromkeys(("install", "setup", "configure"), "client add"),
            **dict.fromkeys(("remove", "delete", "rm"), "client remove"),
        },
    ),
)
