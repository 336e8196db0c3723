"""Shows clients and planned changes of their files, asks, carries them out, and says what to do next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

from lm_tools_bridge.client_setup.change import ENTRY_NAME, Unchanged
from lm_tools_bridge.client_setup.cli.context import running_port
from lm_tools_bridge.client_setup.cli.service_offer import ServiceOffer, needs_manager
from lm_tools_bridge.client_setup.clients import Client
from lm_tools_bridge.client_setup.entries import Entry
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import ClientFiles, Overview, Planned
from lm_tools_bridge.terminal.command_line import Failure, confirm, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table, Tone
from lm_tools_bridge.terminal.waiting import waiting
from manager import exit_codes
from manager.cli.output.file_changes import diff_lines, short, show_diff
from manager.cli.output.manager_access import user_paths

_CONFIGURED: Final = {"current": "yes", "missing": "no", "outdated": "outdated", "not_ours": "other"}
_COLUMNS: Final = (
    Column("CLIENT", Kind.NAME),
    Column("FOUND", Kind.STATE),
    Column("ENTRY", Kind.STATE),
    Column("FILE", Kind.FOLDER),
)


def configured(overview: Overview) -> str:
    """The word for whether a client is configured."""
    return "unknown" if overview.state is None else _CONFIGURED[overview.state]


def as_json(client: Client, overview: Overview) -> dict[str, Any]:
    """A client for programs."""
    refusal = overview.refusal
    return {
        "client": client.id,
        "title": client.title,
        "installed": overview.installed,
        "configured": configured(overview),
        "file": str(overview.file),
        "problem": None if refusal is None else refusal_json(refusal),
        "undo": overview.can_undo,
    }


def refusal_json(refusal: Refusal) -> dict[str, Any]:
    """A refusal for programs."""
    return {
        "reason": refusal.reason,
        "message": refusal.message,
        "nextStep": refusal.next_step,
        "line": refusal.line,
    }


def client_table(rows: list[tuple[Client, Overview]]) -> Table:
    """The table of clients."""
    cells = [
        (client.id, "yes" if overview.installed else "no", configured(overview), short(overview.file))
        for client, overview in rows
    ]
    return Table(_COLUMNS, cells)


def entry_text(client: Client, entry: Entry) -> str:
    """An entry as it stands in the client's file."""
    if client.form.is_yaml:
        from lm_tools_bridge.client_setup.editing.yaml_servers import text_of

        return text_of(client.form.container, ENTRY_NAME, entry)
    if client.form.dialect is None:
        from lm_tools_bridge.client_setup.editing.toml_edit import with_table

        return str(with_table("", client.form.path, entry)).rstrip()
    return json.dumps({client.form.container: {ENTRY_NAME: entry}}, indent=2, ensure_ascii=False)


Verb = Literal["add", "update", "remove", "undo"]
Plan = Callable[[Client], Planned | Unchanged | Refusal]
_DONE: dict[Verb, str] = {
    "add": "added to",
    "update": "updated in",
    "remove": "removed from",
    "undo": "restored",
}
_OWN_FOLDERS: Final = ("LMTB_CONFIG_DIR", "LMTB_STATE_DIR", "LMTB_RUNTIME_DIR")
"""Without them, `lmtb connect` looks for the manager of the usual folders."""
_WRITES: Final = frozenset({"add", "update"})
_NOTHING: dict[Verb, str] = {
    "add": "already configured",
    "update": "nothing to do",
    "remove": "not configured",
    "undo": "nothing to undo",
}


class Changes:
    """Runs one command over several clients; one that is refused does not hinder the others.

    Args:
        files: the clients' files.
        verb: what is done.
        plan: plans the change of one client's file.
        yes: whether not to ask.
        dry_run: whether to show changes only.
        as_json: whether to print one JSON value at the end.
        offer: of the service, where clients are added.
    """

    def __init__(
        self,
        files: ClientFiles,
        verb: Verb,
        plan: Plan,
        *,
        yes: bool,
        dry_run: bool,
        as_json: bool,
        offer: ServiceOffer | None = None,
    ) -> None:
        self._offer = offer
        self._files = files
        self._verb = verb
        self._plan = plan
        self._yes = yes
        self._dry_run = dry_run
        self._as_json = as_json

    def run(self, clients: list[Client]) -> None:
        """Do it. Exits with 1 if one client was refused."""
        if self._offer is not None and not self._dry_run:
            self._offer.check()
        results = [self._one(client) for client in clients]
        if self._offer is not None and not self._dry_run:
            pairs = zip(clients, results, strict=True)
            self._offer.finish([client for client, result in pairs if result["result"] == "done"])
        problems = [result["problem"] for result in results if result["result"] == "refused"]
        if self._verb in _WRITES and not self._dry_run:
            self._check(clients, results)
        if problems and self._as_json:
            first = problems[0]
            text = f"{len(problems)} of {len(results)} clients were refused; the first: {first['message']}"
            raise Failure(text, first["nextStep"], reason=first["reason"], members={"clients": results})
        if self._as_json:
            print_json({"clients": results})
        elif self._verb == "add" and any(result["result"] == "done" for result in results):
            self._say_next_steps(clients)
        if problems:
            raise SystemExit(exit_codes.FAILED)

    def _check(self, clients: list[Client], results: list[dict[str, Any]]) -> None:
        """Do what each configured client does, and add to its result what it would see."""
        pairs = zip(clients, results, strict=True)
        rows = {client.id: row for client, row in pairs if row["result"] in {"done", "unchanged"}}
        if not rows or running_port() != self._files.endpoint.port:
            return
        from lm_tools_bridge.client_setup import client_checks
        from manager.cli.output.findings import Situation, shown

        situation = Situation.of(user_paths())
        with waiting("checking what they see"), suppress(Failure):
            for client, findings in client_checks.findings_of(
                situation, [c for c in clients if c.id in rows]
            ):
                rows[client.id]["checks"] = [finding.as_json() for finding in findings]
                say(*(view for finding in findings for view in shown(finding)))

    def _one(self, client: Client) -> dict[str, Any]:
        planned = self._plan(client)
        if isinstance(planned, Refusal):
            return self._refused(client, planned)
        if isinstance(planned, Unchanged):
            self._say(f"{client.title}: {_NOTHING[self._verb]}")
            return {"client": client.id, "result": "unchanged"}
        self._show(planned)
        result = {
            "client": client.id,
            "file": str(planned.state.path),
            "diff": list(diff_lines(planned.state.path, planned.state.content, planned.after)),
        }
        if self._dry_run:
            return {**result, "result": "planned"}
        if not self._may(client, planned):
            self._say(f"{client.title}: left as it is")
            return {**result, "result": "declined"}
        refused = self._files.carry_out(client, planned, undo=self._verb == "undo")
        if refused is not None:
            return {**result, **self._refused(client, refused)}
        self._say_done(client, planned)
        return {**result, "result": "done"}

    def _may(self, client: Client, planned: Planned) -> bool:
        if self._yes:
            return True
        question = f"Change {short(planned.state.path)}?"
        if self._offer is not None:
            return self._offer.may_change(client, question)
        step = "look at the change with --dry-run, then repeat the command with --yes"
        return confirm(question, "this changes a file", step=step)

    def _show(self, planned: Planned) -> None:
        if not self._as_json:
            show_diff(planned.state.path, planned.state.content, planned.after)
            if planned.keeps_others:
                say(f"{short(planned.state.path)} was changed since; what others wrote stays")

    def _refused(self, client: Client, refusal: Refusal) -> dict[str, Any]:
        if not self._as_json:
            if refusal.reason == "changed_since" and (change := self._files.changed_since(client)):
                show_diff(self._files.overview(client).file, change.before, change.after)
            problem = Note(f"{client.title}: {refusal.message}", Tone.BAD)
            say(problem, f"Next step: {refusal.next_step}", err=True)
            if refusal.reason == "unsupported_form" and self._verb in _WRITES:
                say(f"The entry, to be pasted: lmtb client show {client.id}", err=True)
        return {"client": client.id, "result": "refused", "problem": refusal_json(refusal)}

    def _say_done(self, client: Client, planned: Planned) -> None:
        action = "deleted the new file" if planned.after is None else _DONE[self._verb]
        self._say(f"{client.title}: {action} {short(planned.state.path)}")
        if self._verb in _WRITES and client.note:
            self._say(f"  note: {client.note}")
        own = [name for name in _OWN_FOLDERS if os.environ.get(name)]
        if self._verb in _WRITES and own and not needs_manager(client, self._files.endpoint):
            self._say(f"  note: {client.title} may not pass on {', '.join(own)}: add it to env of the entry")
        if self._verb != "undo":
            self._say(f"  undo: lmtb client remove --undo {client.id}")

    def _say_next_steps(self, clients: list[Client]) -> None:
        port, endpoint = running_port(), self._files.endpoint
        name = clients[0].title if len(clients) == 1 else "a client"
        step = f"start {name} in a project. If tools are missing: lmtb doctor"
        if port is None and any(needs_manager(client, endpoint) for client in clients):
            self._say("Next step: start the manager with: lmtb up")
            self._say(f"Then {step}")
            return
        if port not in {None, endpoint.port}:
            self._say(f"note: the running manager has another port: {port}")
        self._say(f"Next step: {step}")

    def _say(self, text: str) -> None:
        if not self._as_json:
            say(text)
