"""Makes the texts of a release: its notes, the entry of the MCP registry, man pages, manifests. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

NAME: Final = "lm-tools-bridge"
TITLE: Final = "LM Tools Bridge"
SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
LONGEST_SUMMARY: Final = 100
"""The registry refuses a longer description."""
_SECTION: Final = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)


def release_notes(changelog: str, version: str) -> str | None:
    """What the changelog says of a version; None if it has no section of it with a date and a text."""
    return next(
        (text for name, date, text in _sections(changelog) if name == version and date and text), None
    )


def unreleased_notes(changelog: str) -> str:
    """What it says of the next version."""
    return next((text for name, _, text in _sections(changelog) if name == "Unreleased"), "")


def _sections(changelog: str) -> list[tuple[str, str | None, str]]:
    heads = list(_SECTION.finditer(changelog))
    ends = [*(head.start() for head in heads[1:]), len(changelog)]
    return [
        (head["version"], head["date"], changelog[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=True)
    ]


def registry_entry(namespace: str, version: str, summary: str) -> dict[str, Any]:
    """The `server.json` of the MCP registry, for the package of an index of Python packages.

    Args:
        namespace: who publishes it, such as `io.github.ann`; the registry checks that.
    """
    return {
        "$schema": SCHEMA,
        "name": f"{namespace}/{NAME}",
        "title": TITLE,
        "description": shortened(summary),
        "version": version,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": NAME,
                "version": version,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "positional", "value": "connect"}],
            }
        ],
    }


def shortened(summary: str) -> str:
    """The summary, cut at a word where the registry would refuse it."""
    if len(summary) <= LONGEST_SUMMARY:
        return summary
    return f"{summary[: LONGEST_SUMMARY - 1].rpartition(' ')[0].rstrip('.,:;')}…"


def bundle_manifest(version: str, summary: str) -> dict[str, Any]:
    """The `manifest.json` of the `.mcpb`, which runs `lmtb connect` for a folder of the user's choice."""
    return {
        "manifest_version": "0.3",
        "name": NAME,
        "display_name": TITLE,
        "version": version,
        "description": summary,
        "author": {"name": f"The {TITLE} contributors"},
        "license": "MIT",
        "server": {
            "type": "binary",
            "entry_point": "server/connect",
            "mcp_config": {
                "command": "${__dirname}/server/connect",
                "args": ["${user_config.project}"],
                "env": {},
            },
        },
        "user_config": {
            "project": {
                "type": "directory",
                "title": "Project",
                "description": "The folder whose tools you want.",
                "required": True,
            }
        },
        "compatibility": {"platforms": ["linux"]},
    }


def bundle_program(wheel: str) -> str:
    """The program of the `.mcpb`: what is installed is used, else the wheel that the bundle carries.

    Args:
        wheel: its file name, beside the program.
    """
    return f"""#!/bin/sh
# Runs `lmtb connect` for the folder $1: the installed program, else the wheel beside this file, by uv.
PATH=$PATH:$HOME/.local/bin
if command -v lmtb >/dev/null; then
    exec lmtb connect --cwd "$1"
elif command -v uv >/dev/null; then
    exec uv tool run --from "$(dirname -- "$0")/{wheel}" lmtb connect --cwd "$1"
fi
echo "{TITLE} is not installed, and neither is uv, which could run it. Next step: install one of both." >&2
exit 1
"""


def debian_control(version: str, architecture: str, kib: int, python: tuple[int, int], summary: str) -> str:
    """The `control` of the `.deb`.

    Args:
        kib: its size when it is installed.
        python: the version that its modules were compiled for.
    """
    major, minor = python
    return (
        f"Package: {NAME}\nVersion: {version.replace('rc', '~rc')}\nArchitecture: {architecture}\n"
        f"Maintainer: The {TITLE} contributors <{NAME}@localhost>\nInstalled-Size: {kib}\n"
        f"Depends: python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1})\n"
        f"Section: devel\nPriority: optional\nDescription: {summary}\n"
    )


def user_unit(unit: str) -> str:
    """A systemd unit of the sources, with the program of the `.deb`."""
    return unit.replace("%h/.local/bin/lm-tools-bridge", "/usr/bin/lm-tools-bridge")


def man_page(words: tuple[str, ...], help_text: str, version: str) -> str:
    """A page of section 1, made from what `--help` prints.

    Args:
        words: the program and its verb, such as `lmtb`, `calls`.
    """
    name = "-".join(words)
    usage, _, rest = help_text.strip().partition("\n\n")
    about, *blocks = _blocks(rest)
    summary = " ".join(about.split()).partition(". ")[0].removesuffix(".")
    parts = [
        f'.TH "{_troff(name.upper())}" 1 "" "{TITLE} {version}"',
        f".SH NAME\n{_troff(name)} \\- {_troff(summary)}",
    ]
    parts.append(f".SH SYNOPSIS\n{_verbatim(usage.removeprefix('Usage: '))}")
    parts.append(f".SH DESCRIPTION\n{_verbatim(about)}")
    for block in blocks:
        head, _, body = block.partition("\n")
        parts.append(f".SH {_troff(head.rstrip(':').upper())}\n{_verbatim(body)}")
    return "\n".join(parts) + "\n"


def _blocks(text: str) -> list[str]:
    """What comes before the first heading, then each heading with its lines."""
    return re.split(r"\n\n(?=\S[^\n]*:\n)", f"\n{text.rstrip()}") if text else [""]


def _verbatim(text: str) -> str:
    return f".nf\n{_troff(text.strip(chr(10)))}\n.fi"


def _troff(text: str) -> str:
    """Text in which nothing is a request or an escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


def what_to_upload(files: Mapping[str, str]) -> str:
    """What a maintainer does with each file, by its name.

    Args:
        files: the names, by what they are: `wheel`, `sdist`, `deb`, `mcpb`, `entry`, `notes`.
    """
    rows = [
        (
            f"{files['wheel']} and {files['sdist']}",
            "an index of Python packages, first: the registry looks there",
        ),
        (files["entry"], "the MCP registry (its publisher program), after the index"),
        (
            ", ".join(files[kind] for kind in ("deb", "mcpb") if kind in files),
            "the page of the release, to download",
        ),
        (files["notes"], "the text of that page"),
    ]
    return "\n".join(f"  {name}\n      -> {place}" for name, place in rows if name)
