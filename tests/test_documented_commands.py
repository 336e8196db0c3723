"""The commands that documents name: their verbs and options exist, and troubleshooting has one for each symptom."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import manager
from manager.cli.verbs import cli

ROOT = Path(manager.__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
WORD = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s;&|#]+|[;&|#]")


def commands(text: str) -> set[str]:
    """Every command line of `lmtb` in code spans and in blocks; in blocks, up to what the shell does with it."""
    blocks = "\n".join(FENCE.findall(text))
    spans = re.findall(r"`(lmtb [^`]+)`", FENCE.sub("", text).replace("\n", " "))
    typed = re.findall(r"^ *(?:\$ )?(lmtb [^\n]+)", blocks, re.MULTILINE)
    return {re.sub(r"\s+", " ", line) for line in (*spans, *typed)}


def problem(line: str) -> str | None:
    """What a command line names that does not exist."""
    command: click.Command = cli
    context = click.Context(cli)
    known = {"--help", "--version", "-h"}
    for word in WORD.findall(line)[1:]:
        if word == "--" or re.match(r"[;&|#…\[(]", word):
            break
        if word.startswith("-"):
            if word.partition("=")[0] not in known:
                return f"{command.name} has no option {word}"
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z-]+", word):
            found = command.get_command(context, word)
            if found is None:
                return f"there is no verb {word}"
            command = found
            known |= {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_that_is_named_exists(document: Path) -> None:
    found = {line: problem(line) for line in commands(document.read_text("utf-8"))}
    assert {line: text for line, text in found.items() if text} == {}


def test_a_command_that_does_not_exist_is_found() -> None:
    lines = commands(
        "`lmtb stauts` and\n`lmtb tools\nwhy NAME`, `lmtb tools deny -- -x`\n\n"
        "```console\n$ lmtb up --now  # at once\n```\n"
    )
    assert {line: problem(line) for line in lines} == {
        "lmtb stauts": "there is no verb stauts",
        "lmtb tools why NAME": None,
        "lmtb tools deny -- -x": None,
        "lmtb up --now # at once": "up has no option --now",
    }


def test_each_symptom_begins_with_one_command_to_check() -> None:
    sections = (ROOT / "docs/troubleshooting.md").read_text("utf-8").split("\n## ")[1:]
    assert len(sections) > 10
    for section in sections:
        head, _, text = section.partition("\n\n")
        assert re.match(r"Check: (`lmtb [^`]+`|the message)", text), head
