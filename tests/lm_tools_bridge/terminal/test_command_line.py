"""Verbs of verbs: near names, `list`, and whole first sentences."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from lm_tools_bridge.terminal.command_line import SubVerbs


@click.group(cls=SubVerbs, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def boxes(ctx: click.Context, as_json: bool) -> None:
    """List boxes."""
    if ctx.invoked_subcommand is None:
        click.echo(f"boxes {as_json}")


@boxes.command()
def open_one() -> None:
    """Open one of the boxes, and say what is in it, in what order, and who put it there, whatever it is."""


@click.group(cls=SubVerbs)
def lids() -> None:
    """Lids."""


@lids.command(name="list")
def list_lids() -> None:
    """List lids."""
    click.echo("lids")


@pytest.mark.parametrize(("words", "said"), [((), "boxes False"), (("list", "--json"), "boxes True")])
def test_list_does_what_a_group_does_without_a_verb(words: tuple[str, ...], said: str) -> None:
    assert CliRunner().invoke(boxes, list(words)).output == f"{said}\n"


def test_a_verb_named_list_is_the_groups_own() -> None:
    assert CliRunner().invoke(lids, ["list"]).output == "lids\n"


@click.group(cls=SubVerbs)
def lamps() -> None:
    """Lamps."""


@lamps.command()
def status() -> None:
    """Show which are on."""
    click.echo("all on")


def test_list_shows_the_status_of_a_group_that_lists_nothing() -> None:
    assert CliRunner().invoke(lamps, ["list"]).output == "all on\n"


@pytest.mark.parametrize(
    ("word", "said"), [("open-oen", "did you mean open-one?"), ("xyz", "it has open-one")]
)
def test_an_unknown_verb_of_a_verb_is_answered_with_those_that_exist(word: str, said: str) -> None:
    done = CliRunner().invoke(boxes, [word])
    assert done.exit_code == 2
    assert f"there is no verb '{word}' of boxes; {said}" in done.output


def test_first_sentences_of_verbs_are_not_cut() -> None:
    text = " ".join(CliRunner().invoke(boxes, ["--help"]).output.split())
    assert "who put it there, whatever it is." in text
