"""Lists the commands of `lmtb`, from the tree that click walks."""

from __future__ import annotations

from collections.abc import Iterator

import click

from manager.cli.verbs import MODULES, cli, lines_of_verbs


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something by itself, with what a person types for it."""
    context = click.Context(cli)
    lines_of_verbs()  # adds those of features
    for verb in list(MODULES):
        command = cli.get_command(context, verb)
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield verb, command
        if isinstance(command, click.Group):
            yield from ((f"{verb} {name}", further) for name, further in command.commands.items())
