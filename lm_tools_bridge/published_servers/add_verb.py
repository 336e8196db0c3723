"""The verb add: shows what a published server would run and needs, asks once, and writes its entry.

Nothing is written before all that is required is known. Secrets go to the secret store only.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lm_tools_bridge.published_servers.package_index import PublishedPackage, look_up
from lm_tools_bridge.published_servers.pinned_servers import put_server
from lm_tools_bridge.published_servers.proposal import (
    Need,
    Proposal,
    propose,
    propose_address,
    propose_package,
)
from lm_tools_bridge.published_servers.server_document import MAX_BYTES, ServerDocument, read_document
from lm_tools_bridge.published_servers.server_names import (
    Address,
    DocumentFile,
    PackageName,
    Refusal,
    RegistryName,
    SearchWord,
    namespace_for,
    namespace_for_address,
    namespace_problem,
    parse_origin,
)
from lm_tools_bridge.published_servers.server_registry import PUBLIC, ServerRegistry
from lm_tools_bridge.terminal.command_line import (
    Failure,
    confirm,
    examples,
    is_json,
    json_option,
    print_json,
    say,
)
from lm_tools_bridge.terminal.views import Column, Fact, FactList, Kind, Table, Tone
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.printable import operand, printable
from manager.cli.output.file_changes import diff_lines, short, show_diff
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import cwd_option
from manager.cli.workspace_command import is_remote, root_of
from workspace_server.config.edit import ConfigEditError, edit_file, preview_edit
from workspace_server.secrets.entry import InvalidSecretError, SecretStoreError
from workspace_server.secrets.store import open_store

PROJECT_FILE: Final = ".lm-tools-bridge/workspace.toml"
# In the user's configuration folder.
USER_FILE: Final = "workspace.toml"
Answer = TypeVar("Answer")


@click.command(
    epilog=examples(
        "lmtb add npm:@modelcontextprotocol/server-everything",
        "lmtb add pypi:mcp-server-time --user",
        "lmtb add https://mcp.example.com/mcp --as docs",
        "lmtb add io.github.someone/weather",
    )
)
@click.argument("server", metavar="SERVER")
@click.option("--as", "namespace", default="", help="Its name here, which begins the names of its tools.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A value that it needs; no secret."
)
@click.option(
    "--secret", "secrets", multiple=True, metavar="NAME", help="Give it this secret, which is optional."
)
@click.option("--remote", is_flag=True, help="Use its address, although it can also run here.")
@click.option(
    "--registry", default=PUBLIC, envvar="MCP_REGISTRY_URL", show_envvar=True, help="The registry to ask."
)
@click.option("--user", is_flag=True, help="For all your projects, in your own workspace.toml.")
@click.option("--dry-run", is_flag=True, help="Show the change, and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cwd_option
@json_option
@click.pass_context
def add(ctx: click.Context, /, server: str, user: bool, **options: Any) -> None:
    """Add an MCP server at a pinned version.

    SERVER is npm:PACKAGE, pypi:PACKAGE (with @VERSION, or the newest), an http or https address, a
    server.json, or a name in a registry. Shows what would run, who published it and what it needs, then asks.

    An entry of a project runs after lmtb trust. The same command with another version changes the version.
    """
    if user and ctx.obj is not None:
        raise click.UsageError("--user is about no project: it takes no --cwd")
    root = None if user else project_root(ctx.obj)
    del options["as_json"]
    _Addition(root, **options).run(server)


def project_root(cwd: Path | None) -> Path:
    """The root of a project on this machine, whose file can be read and written.

    Raises:
        Failure: the folder is missing, or on another host.
    """
    if is_remote(cwd):
        raise Failure(f"{cwd} is on another host", "run this command there", reason="on_another_host")
    root = Path(root_of(cwd))
    if not root.is_dir():
        raise Failure(f"there is no folder {root}", "name an existing folder", reason="invalid_cwd")
    return root


@dataclass(frozen=True, slots=True)
class _Addition:
    """One run of the verb; without a root it changes the user's own file."""

    root: Path | None
    namespace: str
    settings: Sequence[str]
    secrets: Sequence[str]
    remote: bool
    registry: str
    dry_run: bool
    yes: bool

    @property
    def file(self) -> Path:
        return user_paths().config_dir / USER_FILE if self.root is None else self.root / PROJECT_FILE

    def run(self, server: str) -> None:
        if self.namespace:
            _succeed(namespace_problem(self.namespace))
        proposal, facts = self._propose(server)
        say(FactList([*facts, *_needs(proposal)]))  # before anybody types a secret
        answers = _Answers(proposal, self._settings(), self.secrets).collect(is_asking=not self.dry_run)
        entry = proposal.entry(answers)
        change = partial(put_server, kind=proposal.kind, entry=entry, package=proposal.package)
        before, after = _edited(lambda: preview_edit(self.file, change, of_project=self.root is not None))
        if not is_json():
            show_diff(self.file, before, after)
        if before == after:
            _store_all(proposal, answers)  # a value that was typed counts, although the entry is there
            result = "unchanged"
        else:
            result = self._write_entry(change, proposal, answers)
        self._end(result, proposal, answers, list(diff_lines(self.file, before, after)))

    def _write_entry(
        self, change: Callable[[Any], None], proposal: Proposal, answers: Mapping[str, str]
    ) -> str:
        if self.dry_run:
            return "planned"
        step = "look at the change with --dry-run, then repeat the command with --yes"
        if not self.yes and not confirm("Add this server?", "this changes a file", step=step):
            return "declined"
        _store_all(proposal, answers)
        _edited(lambda: edit_file(self.file, change, of_project=self.root is not None))
        return "done"

    def _settings(self) -> dict[str, str]:
        pairs = [text.partition("=") for text in self.settings]
        if any(not equals or not name for name, equals, _ in pairs):
            raise click.UsageError("--set takes NAME=VALUE")
        return {name: value for name, _, value in pairs}

    def _propose(self, server: str) -> tuple[Proposal, list[Fact]]:
        origin = parse_origin(server)
        if isinstance(origin, Refusal):
            raise _failure(origin)
        if isinstance(origin, Address):
            namespace = self.namespace or namespace_for_address(origin.url)
            return propose_address(origin, namespace), [Fact("connects to", origin.url)]
        if isinstance(origin, PackageName):
            published = _looked_up(origin)
            proposal = propose_package(published.package, self.namespace or namespace_for(origin.name))
            return proposal, [*_package_facts(proposal, published)]
        document, place = self._read_document(origin)
        namespace = self.namespace or namespace_for(document.name)
        return self._from_document(document, place, namespace)

    def _read_document(self, origin: DocumentFile | RegistryName | SearchWord) -> tuple[ServerDocument, str]:
        if isinstance(origin, DocumentFile):
            return _succeed(_read_file(Path(origin.path).expanduser())), origin.path
        registry = ServerRegistry(self.registry)
        with waiting("asking the registry"):
            if isinstance(origin, RegistryName):
                return _succeed(registry.server(origin)), registry.address
            documents = _succeed(registry.search(origin))
        raise _list_names(origin, registry.address, documents)

    def _from_document(
        self, document: ServerDocument, place: str, namespace: str
    ) -> tuple[Proposal, list[Fact]]:
        proposal, refusals = propose(document, namespace, is_remote=self.remote)
        if proposal is None:
            text = "; ".join(refusal.message for refusal in refusals) or "it names nothing that could be run"
            step = refusals[0].next_step if refusals else "ask its publisher"
            raise Failure(f"{printable(document.name)} cannot be added: {text}", step, reason="unsafe_server")
        facts = [*_document_facts(document, place)]
        facts += [Fact("left out", refusal.message, Tone.WARN) for refusal in refusals]
        if proposal.package is None:
            return proposal, [*facts, Fact("connects to", str(proposal.entry(_examples(proposal))["url"]))]
        published = _looked_up(proposal.package)
        _check_claim(document, published)
        return proposal, [*facts, *_package_facts(proposal, published, document)]

    def _end(self, result: str, proposal: Proposal, answers: Mapping[str, str], diff: list[str]) -> None:
        missing = [key for need, key in proposal.stored(answers).items() if not answers[need]]
        if is_json():
            members = {"namespace": proposal.namespace, "file": str(self.file), "diff": diff}
            print_json({"result": result, **members, "missingSecrets": missing})
            return
        if result == "unchanged":
            say(f"{short(self.file)} has this server already, at this version")
        elif result == "done":
            say(
                f"wrote {proposal.namespace} to {short(self.file)}",
                *self._next_steps(proposal, answers, missing),
            )
        else:
            say("nothing was written")

    def _next_steps(
        self, proposal: Proposal, answers: Mapping[str, str], missing: Sequence[str]
    ) -> Iterator[str]:
        for key in missing:
            yield f"Next step: store its secret: lmtb secrets set {operand(key)}"
        for variable in proposal.exported(answers):
            where = "where your login shell reads it"
            yield f"Next step: export {variable} {where}, then: lmtb restart --servers"
        if self.root is not None:
            yield f"Next step: allow it to run: lmtb trust {shlex.quote(str(self.root))} {proposal.namespace}"


@dataclass(frozen=True, slots=True)
class _Answers:
    """Collects the values that a server needs."""

    proposal: Proposal
    settings: Mapping[str, str]
    secrets: Sequence[str]

    def collect(self, *, is_asking: bool) -> dict[str, str]:
        """Values by the names of needs; the value of a secret that is stored, or not known yet, is empty."""
        needs = {need.name: need for need in self.proposal.needs}
        self._check_names(needs)
        stored = set(_stored_keys()) if any(need.secret for need in needs.values()) else set()
        answers: dict[str, str] = {}
        missing: list[Need] = []
        for need in needs.values():
            value = self._value(need, stored, is_asking=is_asking)
            if value is not None:
                answers[need.name] = value
            elif need.is_required:
                missing.append(need)
        if missing:
            raise _missing(missing)
        return answers

    def _check_names(self, needs: Mapping[str, Need]) -> None:
        for name, is_secret in [
            *((name, False) for name in self.settings),
            *((name, True) for name in self.secrets),
        ]:
            need = needs.get(name)
            if need is None or bool(need.secret) is not is_secret:
                kinds = [need.name for need in needs.values() if bool(need.secret) is is_secret]
                text = f"it needs no {'secret' if is_secret else 'value'} {printable(name, width=80)!r}"
                step = f"it needs {', '.join(map(printable, kinds)) or 'none'}"
                raise Failure(text, step, reason="unknown_value")

    def _value(self, need: Need, stored: set[str], *, is_asking: bool) -> str | None:
        if need.secret:
            if not need.is_required and need.name not in self.secrets and need.secret not in stored:
                return None
            may_ask = is_asking and _is_person_there() and need.secret not in stored
            return _prompt(need, is_hidden=True) if may_ask else ""
        value = self.settings.get(need.name)
        if value is None and need.is_required:
            value = _prompt(need) if is_asking and _is_person_there() else need.default
        problem = None if value is None else need.problem_of(value)
        if problem is not None:
            raise Failure(
                f"{printable(need.name)} {problem}", "give another value with --set", reason="bad_value"
            )
        return value


def _is_person_there() -> bool:
    return sys.stdin.isatty() and not is_json()


def _prompt(need: Need, *, is_hidden: bool = False) -> str:
    about = f" ({printable(need.description, width=200)})" if need.description else ""
    choices = f" [{', '.join(map(printable, need.choices))}]" if need.choices else ""
    text = f"{printable(need.name)}{about}{choices}{', not shown' if is_hidden else ''}"
    answer: str = click.prompt(text, default=need.default, hide_input=is_hidden)
    return answer


def _missing(needs: Sequence[Need]) -> Failure:
    names = ", ".join(printable(need.name) for need in needs)
    options = " ".join(f"--set {operand(need.name)}=VALUE" for need in needs)
    return Failure(f"it needs values: {names}", f"repeat the command with {options}", reason="missing_values")


def _examples(proposal: Proposal) -> dict[str, str]:
    return {need.name: need.default or need.name for need in proposal.needs}


def _document_facts(document: ServerDocument, place: str) -> Iterator[Fact]:
    yield Fact("server", " ".join(filter(None, (document.name, document.version))))
    yield Fact("described by", place)
    if document.description:
        yield Fact("description", printable(document.description, width=300))
    if document.repository.url:
        yield Fact("source", printable(document.repository.url, width=200))
    if document.status != "active":
        yield Fact("state", document.status, Tone.WARN)


def _package_facts(
    proposal: Proposal, published: PublishedPackage, document: ServerDocument | None = None
) -> Iterator[Fact]:
    package = published.package
    yield Fact("package", f"{package.name} {package.version} of {package.index}")
    yield Fact("publisher", published.publisher or f"not told by the index; see its page at {package.index}")
    if published.warning:
        yield Fact("warning", published.warning, Tone.WARN)
    if document is not None and package.index == "npm" and not published.server_name:
        yield Fact("warning", f"the package does not say that it is {document.name}", Tone.WARN)
    yield Fact("runs", shlex.join(proposal.entry(_examples(proposal))["command"]))


def _needs(proposal: Proposal) -> Iterator[Fact]:
    for need in proposal.needs:
        kind = "secret" if need.secret else "value"
        text = f"{need.name}, a {kind}{'' if need.is_required else ' (optional)'}"
        yield Fact(
            "needs" if need.is_required else "takes",
            text + (f": {need.description}" if need.description else ""),
        )


def _check_claim(document: ServerDocument, published: PublishedPackage) -> None:
    """A package that names another server was described by somebody else."""
    if published.server_name not in ("", document.name):
        claim = printable(published.server_name, width=80)
        text = f"the package {published.package.name} says that it is {claim}"
        step = f"look at it, then add it by its name: lmtb add npm:{published.package.name}"
        raise Failure(f"{text}, not {printable(document.name)}", step, reason="other_server")


def _list_names(word: SearchWord, registry: str, documents: Sequence[ServerDocument]) -> Failure:
    """What a search found; nothing is chosen, because anybody may publish a similar name."""
    if not documents:
        step = "name a package by npm: or pypi:, or an address"
        return Failure(f"no server of {registry} has {word.text} in its name", step, reason="unknown_server")
    rows = [(document.name, document.version, document.description) for document in documents]
    say(Table((Column("NAME", kind=Kind.NAME), Column("VERSION"), Column("DESCRIPTION", rank=1)), rows))
    count = "1 server" if len(documents) == 1 else f"{len(documents)} servers"
    text = f"{count} of {registry} with {word.text} in the name; none was chosen"
    members = {"servers": [{"name": name, "version": version} for name, version, _ in rows]}
    return Failure(text, "repeat the command with one of these names", reason="name_one", members=members)


def _looked_up(package: PackageName) -> PublishedPackage:
    with waiting(f"asking {'npm' if package.index == 'npm' else 'uv'} about {package.name}"):
        return _succeed(look_up(package))


def _read_file(path: Path) -> ServerDocument | Refusal:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror or error}"
        return Refusal("unreadable", text, "name a server.json")
    return read_document(content, str(path))


def _succeed(result: Answer | Refusal) -> Answer:
    """The result, unless it is a refusal."""
    if isinstance(result, Refusal):
        raise _failure(result)
    return result


def _failure(refusal: Refusal) -> Failure:
    return Failure(refusal.message, refusal.next_step, reason=refusal.reason)


def _edited(edit: Callable[[], Answer]) -> Answer:
    try:
        return edit()
    except ConfigEditError as error:
        step = "choose another name with --as, or edit the file by hand"
        raise Failure(str(error), step, reason="not_editable") from error


def _stored_keys() -> list[str]:
    return _stored(lambda: asyncio.run(open_store(user_paths().state_dir, os.environ).list()))


def _store_all(proposal: Proposal, answers: Mapping[str, str]) -> None:
    """Store the secrets that were typed."""
    store = open_store(user_paths().state_dir, os.environ)
    for need, key in proposal.stored(answers).items():
        if answers[need]:
            _stored(partial(asyncio.run, store.set(key, answers[need])))


def _stored(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except (InvalidSecretError, SecretStoreError) as error:
        raise Failure(
            str(error), "nothing was added; see: lmtb secrets list", reason="unavailable"
        ) from error
