"""The verbs `lmtb languages install`, `update` and `remove`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.code_intelligence.kinds.installation import (
    Installation,
    Plan,
    Selection,
    select_missing,
    select_named,
)
from lm_tools_bridge.code_intelligence.kinds.installed_servers import InstalledServer, InstalledServers
from lm_tools_bridge.code_intelligence.kinds.package_managers import (
    InstallError,
    Runner,
    inherited_variables,
)
from lm_tools_bridge.code_intelligence.kinds.programs import path_outside
from lm_tools_bridge.code_intelligence.kinds.table import KINDS
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.machine.private_files import LockTimeout, UnsafePathError
from lm_tools_bridge.terminal.command_line import Failure, confirm, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table, Tone
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.near_names import did_you_mean
from manager.cli.output.workspace_options import cwd_option
from manager.cli.workspace_command import answer_of, root_of
from manager.status_reading import objects

LIMIT_S: Final = 30.0
"""The answer looks at the project's files, and starts no program."""
_DIGEST: Final = 23
"""Characters of a digest in a table, `sha256-` or `sha256:` among them; `--json` has all."""
_COLUMNS: Final = (
    Column("SERVER", Kind.NAME),
    Column("VERSION", Kind.NAME),
    Column("FROM", Kind.TEXT),
    Column("BY", Kind.TEXT, rank=2),
    Column("PACKAGES", Kind.NUMBER, rank=1),
    Column("DIGEST", Kind.NAME, rank=3),
)
_yes_option: Final = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.command()
@click.argument("names", nargs=-1, metavar="[LANGUAGE]...")
@_yes_option
@cwd_option
@json_option
@click.pass_context
def install(ctx: click.Context, names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Install language servers that the project lacks, or those of LANGUAGE.

    Shows what comes from which registry, with its digest, and asks. LANGUAGE may be a server, too. The
    files go into a folder of this program; the next answer uses them.
    """
    root = root_of(ctx.obj)
    installation = _installation(Path(root))
    selection = _select(root, names)
    present = [kind.name for kind in selection.kinds if installation.is_there(kind)]
    for name in present:
        say(f"{name} is installed; for a newer version: lmtb languages update {name}")
    kinds = [kind for kind in selection.kinds if kind.name not in present]
    plans, by_hand = _plan(installation, kinds)
    by_hand = [*selection.by_hand, *by_hand]
    _say_by_hand(by_hand)
    if not plans and not present and by_hand:
        raise Failure(
            "nothing was installed", "follow the hints above", reason="by_hand", members={"byHand": by_hand}
        )
    if not plans and not present:
        say("No language server is missing here.")
    installed = _carry_out(installation, plans, yes=yes)
    if as_json:
        print_json(
            {"installed": [_as_json(server) for server in installed], "present": present, "byHand": by_hand}
        )


@click.command()
@click.argument("names", nargs=-1, metavar="[SERVER]...")
@_yes_option
@json_option
def update(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Install the newest versions of servers that were installed so, or of SERVER only."""
    installation = _installation(Path.cwd())
    records = _records(installation.servers, names)
    kinds = [KINDS[record.server] for record in records if record.server in KINDS]
    plans, problems = _plan(installation, kinds)
    newer = [plan for plan in plans if not plan.is_current]
    for plan in plans:
        if plan.is_current:
            say(f"{plan.kind.name} {plan.version} is the newest")
    _say_by_hand(problems)
    installed = _carry_out(installation, newer, yes=yes)
    if problems:
        raise Failure("not all were looked up", "see above, then try again", members={"problems": problems})
    if as_json:
        current = [plan.kind.name for plan in plans if plan.is_current]
        print_json({"installed": [_as_json(server) for server in installed], "present": current})


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="SERVER...")
@json_option
def remove(names: tuple[str, ...], as_json: bool) -> None:
    """Remove servers that were installed so."""
    installation = _installation(Path.cwd())
    for record in _records(installation.servers, names):
        _guarded(partial(installation.remove, record), record.server)
        say(Note(f"{record.server} {record.version}: removed", Tone.GOOD))
    if as_json:
        print_json({"removed": list(names)})


def _installation(folder: Path) -> Installation:
    search = path_outside(os.environ.get("PATH", ""), (folder.resolve(),))
    return Installation(InstalledServers.of_user(), Runner(inherited_variables(search)))


def _select(root: str, names: Sequence[str]) -> Selection:
    needs_project = not names or any(name not in KINDS for name in names)
    answer = answer_of("languages", root, "--no-versions", limit_s=LIMIT_S) if needs_project else {}
    if answer is None:
        raise Failure(
            f"the languages of {root} cannot be told", "look closer with: lmtb doctor", reason="no_answer"
        )
    rows = objects(answer, "servers")
    selection = select_named(names, rows) if names else select_missing(rows)
    if selection.unknown:
        known_words = {*KINDS, *(language for kind in KINDS.values() for language in kind.languages.values())}
        near = "".join(did_you_mean(word, known_words) for word in selection.unknown)
        text = f"no language server is known for {', '.join(selection.unknown)}{near}"
        raise Failure(text, "name a language or a server of docs/languages.md", reason="unknown_language")
    return selection


def _records(servers: InstalledServers, names: Sequence[str]) -> list[InstalledServer]:
    every = {record.server: record for record in servers.read_all()}
    if absent := [name for name in names if name not in every]:
        text = f"{', '.join(absent)} was not installed by lmtb languages install"
        raise Failure(text, f"it installed: {', '.join(every) or 'nothing'}", reason="not_installed")
    return [every[name] for name in names] if names else list(every.values())


def _plan(installation: Installation, kinds: Sequence[ServerSpecification]) -> tuple[list[Plan], list[str]]:
    """What would be installed, and why some cannot be."""
    plans, problems = [], []
    with waiting("looking up packages") as tell:
        for kind in kinds:
            tell(f"looking up {kind.name}")
            try:
                plans.append(installation.plan(kind))
            except InstallError as error:
                problems.append(f"{kind.name}: {error}; {error.step}")
    return plans, problems


def _say_by_hand(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        say(Note(sentence, Tone.WARN), err=True)


def _carry_out(installation: Installation, plans: Sequence[Plan], *, yes: bool) -> list[InstalledServer]:
    if not plans:
        return []
    say(Table(_COLUMNS, [_row(plan) for plan in plans]), f"Folder: {installation.servers.folder}")
    if not yes and not confirm("Install?", "this downloads and installs programs"):
        raise Failure("nothing was installed", "repeat it when you want to", reason="not_confirmed")
    installed = []
    with waiting("installing") as tell:
        for plan in plans:
            tell(f"installing {plan.kind.name} {plan.version}")
            installed.append(_guarded(partial(installation.carry_out, plan), plan.kind.name))
            say(Note(f"{plan.kind.name} {plan.version}: installed", Tone.GOOD))
    waits = [plan.kind for plan in plans if not plan.kind.runs_nothing_of_the_project]
    for kind in waits:
        runs = kind.project_code or "code of the project"
        say(f"{kind.name} runs {runs}, so it waits in each project for: lmtb trust")
    return installed


def _guarded(action: Callable[[], Any], server: str) -> Any:
    try:
        return action()
    except InstallError as error:
        raise Failure(f"{server}: {error}", error.step) from error
    except UnsafePathError as error:
        raise Failure(f"{server}: {error}", error.hint) from error
    except LockTimeout as error:
        text = f"{server}: another process installs or removes servers"
        raise Failure(text, "try again when it has ended", reason="busy") from error


def _row(plan: Plan) -> tuple[object, ...]:
    artifacts, package = plan.resolution.artifacts, plan.kind.package
    host = next((artifact.host for artifact in artifacts if artifact.host), "")
    before = plan.before.version if plan.before is not None else ""
    digests = artifacts[0].digests
    return (
        plan.kind.name,
        f"{before} -> {plan.version}" if before and before != plan.version else plan.version,
        (package.registry if package else "") + (f" ({host})" if host else ""),
        plan.resolution.command,
        len(artifacts),
        digests[0][:_DIGEST] + "…" if len(digests) == 1 else f"one of {len(digests)}" if digests else None,
    )


def _as_json(server: InstalledServer) -> Mapping[str, Any]:
    packages = [
        {"name": artifact.name, "version": artifact.version, "digests": list(artifact.digests)}
        for artifact in server.artifacts
    ]
    return {
        "server": server.server,
        "version": server.version,
        "registry": server.registry,
        "packages": packages,
    }
