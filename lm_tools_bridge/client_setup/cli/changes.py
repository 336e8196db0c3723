"""Shows clients and planned changes of their files, asks, carries them out, and says what to do next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from lm_tools_bridge.client_setup.change import ENTRY_NAME, Unchanged
from lm_tools_bridge.client_setup.cli.context import running_port
from lm_tools_bridge.client_setup.cli.masking import mask_for, mask_of_contents
from lm_tools_bridge.client_setup.cli.service_offer import ServiceOffer, needs_manager
from lm_tools_bridge.client_setup.cli.sharing_offer import SharingOffer, clients_without_servers
from lm_tools_bridge.client_setup.clients import Client
from lm_tools_bridge.client_setup.entries import Entry
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import ClientFiles, Overview, Planned
from lm_tools_bridge.terminal.command_line import Failure, choose, confirm, print_json, say
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
    if client.form.yaml is not None:
        from lm_tools_bridge.client_setup.editing.yaml_servers import text_of

        return text_of(client.form.container, ENTRY_NAME, entry, client.form.yaml)
    if client.form.dialect is None:
        from lm_tools_bridge.client_setup.editing.toml_edit import with_table

        return str(with_table("", client.form.path, entry)).rstrip()
    return json.dumps({client.form.container: {ENTRY_NAME: entry}}, indent=2, ensure_ascii=False)


Verb = Literal["add", "update", "remove", "undo"]
_Answer = Literal["all", "clients", "nothing"]
_YES_OR_NO: Final = "yn"
_CHANGE: Final = "this changes files"
_STEP: Final = "look at the changes with --dry-run, then repeat the command with --yes"
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


def _without_hooks(clients: Sequence[Client]) -> list[Client]:
    return [client for client in clients if not client.form.hook_event]


class Changes:
    """Runs one command over several clients, with one question. A client that is refused hinders no other.

    Args:
        files: the clients' files.
        verb: what is done.
        plan: plans the change of one client's file.
        yes: whether not to ask.
        dry_run: whether to show changes only.
        as_json: whether to print one JSON value at the end.
        offer: of the service, where clients are added.
        sharing: offer of the servers that the clients have already, where clients are added.
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
        sharing: SharingOffer | None = None,
    ) -> None:
        self._offer = offer
        self._sharing = sharing
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
        plans = {client.id: self._plan(client) for client in clients}
        clients = self._without_lone_hooks(clients, plans)
        results = [self._show_plan(client, plans[client.id]) for client in clients]
        planned = [client for client in clients if isinstance(plans[client.id], Planned)]
        self._look_at_servers(clients, results)
        answer = self._answer(planned)
        rows = dict(zip((client.id for client in clients), results, strict=True))
        for client in planned:
            rows[client.id].update(self._finished(client, plans[client.id], answer))
        servers = self._share(answer)
        if self._offer is not None and not self._dry_run:
            done = [client for client in clients if rows[client.id]["result"] == "done"]
            self._offer.finish(_without_hooks(done))
        problems = [result["problem"] for result in results if result["result"] == "refused"]
        if self._verb in _WRITES and not self._dry_run:
            self._check(clients, results)
        members = {"clients": results} if self._sharing is None else {"clients": results, "servers": servers}
        if problems and self._as_json:
            first = problems[0]
            text = f"{len(problems)} of {len(results)} clients were refused; the first: {first['message']}"
            raise Failure(text, first["nextStep"], reason=first["reason"], members=members)
        if self._as_json:
            print_json(members)
        elif self._sharing is not None and self._sharing.say_done():
            pass  # it said what is next, too
        elif self._verb == "add" and any(result["result"] == "done" for result in results):
            self._say_next_steps(clients)
        if not self._as_json and self._verb not in _WRITES:
            self._say_who_lost_servers([client for client in clients if rows[client.id]["result"] == "done"])
        if problems:
            raise SystemExit(exit_codes.FAILED)

    def _without_lone_hooks(
        self, clients: list[Client], plans: Mapping[str, Planned | Unchanged | Refusal]
    ) -> list[Client]:
        """The clients; a hook only where the client before it has our entry, or gets it."""
        # without our entry in the client itself, nothing would answer the hook
        left: list[Client] = []
        is_refused = False
        for client in clients:
            if client.form.hook_event and is_refused and self._verb in _WRITES:
                continue
            is_refused = isinstance(plans[client.id], Refusal)
            left.append(client)
        return left

    def _say_who_lost_servers(self, clients: list[Client]) -> None:
        if titles := clients_without_servers(clients):
            say(
                f"note: servers of {', '.join(titles)} were moved to your workspace.toml, where only LM Tools"
            )
            say("  Bridge starts them. To put them back: lmtb adopt --undo --user")

    def _look_at_servers(self, clients: list[Client], results: list[dict[str, Any]]) -> None:
        """Find the servers of clients that have our entry, or get it."""
        if self._sharing is None:
            return
        pairs = zip(clients, results, strict=True)
        accepted = [client for client, row in pairs if row["result"] != "refused"]
        self._sharing.look([client.id for client in _without_hooks(accepted)])
        if not self._as_json:
            self._sharing.show(with_changes=self._dry_run)

    def _answer(self, planned: list[Client]) -> _Answer:
        """What the person wants; one question for everything that would change."""
        has_servers = self._sharing is not None and not self._sharing.is_empty
        if self._dry_run or not (planned or has_servers):
            return "nothing"
        if self._yes:
            return "all"
        reason = self._offer.reason_to_ask(_without_hooks(planned)) if self._offer is not None else None
        question, answers = self._question(planned, has_servers=has_servers, has_service=reason is not None)
        if len(answers) == len(_YES_OR_NO):
            return "all" if confirm(question, _CHANGE, step=_STEP) else "nothing"
        if reason is not None:
            say(reason)
        letter = choose(question, answers, _CHANGE, step=_STEP)
        if self._offer is not None and reason is not None and letter != "n":
            self._offer.decide(is_wanted=letter == "y")
        return "nothing" if letter == "n" else "clients" if letter == "c" else "all"

    def _question(
        self, planned: list[Client], *, has_servers: bool, has_service: bool
    ) -> tuple[str, dict[str, str]]:
        """The question, and the letters that answer it."""
        if has_servers:
            question = "Do all of this?"
        elif len(planned) == 1:
            question = f"Change {short(self._files.overview(planned[0]).file)}?"
        elif len(clients := _without_hooks(planned)) == 1:
            question = f"Change these {len(planned)} files of {clients[0].title}?"
        else:
            question = f"Change the files of {len(clients)} clients?"
        if has_service:
            question += " Install the service, too?"
        answers = {"y": "all of it" if has_servers else "both"}
        if has_service:
            answers["f"] = "all but the service" if has_servers else "the file only"
        if has_servers and planned:
            answers["c"] = "connect the clients only"
        return question, {**answers, "n": "nothing"}

    def _share(self, answer: _Answer) -> list[dict[str, Any]]:
        if self._sharing is None:
            return []
        if answer == "all":
            return self._sharing.carry_out()
        return self._sharing.planned_json("planned" if self._dry_run else "declined")

    def _check(self, clients: list[Client], results: list[dict[str, Any]]) -> None:
        """Do what each configured client does, and add to its result what it would see."""
        pairs = zip(clients, results, strict=True)
        rows = {
            client.id: row
            for client, row in pairs
            if row["result"] in {"done", "unchanged"} and not client.form.hook_event
        }
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

    def _show_plan(self, client: Client, planned: Planned | Unchanged | Refusal) -> dict[str, Any]:
        """Show what is planned for a client; for programs, what is known of it by now."""
        if isinstance(planned, Refusal):
            return self._refused(client, planned)
        if isinstance(planned, Unchanged):
            self._say(f"{client.title}: {_NOTHING[self._verb]}")
            return {"client": client.id, "result": "unchanged"}
        self._show(planned)
        path, before, mask = planned.state.path, planned.state.content, mask_for([planned])
        return {
            "client": client.id,
            "file": str(path),
            "diff": list(diff_lines(path, before, planned.after, mask=mask)),
            "result": "planned",
        }

    def _finished(
        self, client: Client, planned: Planned | Unchanged | Refusal, answer: _Answer
    ) -> dict[str, Any]:
        """Change a client's file, if the person wants it; what that adds to its result."""
        if self._dry_run or not isinstance(planned, Planned):
            return {}
        if answer == "nothing":
            self._say(f"{client.title}: left as it is")
            return {"result": "declined"}
        refused = self._files.carry_out(client, planned, undo=self._verb == "undo")
        if refused is not None:
            return self._refused(client, refused)
        self._say_done(client, planned)
        return {"result": "done"}

    def _show(self, planned: Planned) -> None:
        if not self._as_json:
            mask = mask_for([planned])
            show_diff(planned.state.path, planned.state.content, planned.after, mask=mask)
            if planned.keeps_others:
                say(f"{short(planned.state.path)} was changed since; what others wrote stays")

    def _refused(self, client: Client, refusal: Refusal) -> dict[str, Any]:
        if not self._as_json:
            if refusal.reason == "changed_since" and (change := self._files.changed_since(client)):
                file = self._files.overview(client).file
                mask = mask_of_contents([(file.name, change.before), (file.name, change.after)])
                show_diff(file, change.before, change.after, mask=mask)
            problem = Note(f"{client.title}: {refusal.message}", Tone.BAD)
            say(problem, f"Next step: {refusal.next_step}", err=True)
            if refusal.reason == "unsupported_form" and self._verb in _WRITES and not client.form.hook_event:
                say(f"The entry, to be pasted: lmtb client show {client.id}", err=True)
        return {"client": client.id, "result": "refused", "problem": refusal_json(refusal)}

    def _say_done(self, client: Client, planned: Planned) -> None:
        action = "deleted the new file" if planned.after is None else _DONE[self._verb]
        self._say(f"{client.title}: {action} {short(planned.state.path)}")
        if self._verb in _WRITES and client.note:
            self._say(f"  note: {client.note}")
        if client.form.hook_event:
            return
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
