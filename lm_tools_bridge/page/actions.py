"""Does what buttons of the page ask for, and says in one sentence how it went."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from lm_tools_bridge.page.access import Access
from lm_tools_bridge.page.sign_in import SignInPage, SignIns
from lm_tools_bridge.protocol.errors import Refusal
from manager.admin.control.project_command import CHANGES, NotChanged, ToolChanges
from manager.admin.control.services import Services
from manager.disk.folder import CwdProblem
from manager.startup.replacement import Unusable
from manager.status_reading import (
    EFFECTS,
    LISTED,
    VISIBILITIES,
    is_login_here,
    json_object,
    objects,
    source_step,
)
from manager.waiting_calls import WaitingCalls


class ActionResult(NamedTuple):
    """How an action went: whether it was done, and a sentence for the person.

    `url` is the address of a page of somebody else on which the person goes on.
    """

    ok: bool
    text: str
    url: str | None = None


class Means(NamedTuple):
    """What actions are done with."""

    services: Services
    changes: ToolChanges
    waiting_calls: WaitingCalls
    access: Access
    sign_ins: SignIns


async def act(means: Means, name: str, members: Mapping[str, Any]) -> ActionResult:
    """Do one action. An unknown one, or one with wrong members, is refused."""
    action = _ACTIONS.get(name)
    if action is None:
        return ActionResult(False, "This page is older than the manager: reload it.")
    return await action(means, {key: value for key, value in members.items() if isinstance(value, str)})


_NO_PROJECT: Final = ActionResult(False, "The request names no project or no tool: reload the page.")


async def _retry_source(means: Means, members: Mapping[str, str]) -> ActionResult:
    root, source = members.get("root"), members.get("source")
    if root is None or source is None:
        return ActionResult(False, "The request names no project or no source: reload the page.")
    answer = await means.services.ask_server(root, "refresh", source)
    if isinstance(answer, Refusal):
        return ActionResult(False, answer.message)
    return ActionResult(True, f"{source} is started again.")


async def _sign_in(means: Means, members: Mapping[str, str]) -> ActionResult:
    root, source = members.get("root"), members.get("source")
    kind, _, namespace = (source or "").partition(":")
    if root is None or kind != "remote" or not namespace or not await _is_root(means.services, root):
        return ActionResult(False, "The request names no project or no remote server: reload the page.")
    if not is_login_here(root):
        step = source_step({"id": source, "state": "auth_required"}, root)
        return ActionResult(False, f"You cannot sign in to {namespace} here: {step}.")

    async def retry() -> None:
        await means.services.ask_server(root, "refresh", source)

    page = await means.sign_ins.begin(root, namespace, retry)
    if not isinstance(page, SignInPage):
        return ActionResult(False, f"You cannot sign in to {namespace}: {page}")
    text = f"Sign in to {namespace} within five minutes on its page. Its tools follow by themselves."
    return ActionResult(True, text, page.url)


async def _end_session(means: Means, members: Mapping[str, str]) -> ActionResult:
    number = members.get("number", "")
    browser = means.access.revoke_one(int(number)) if number.isdecimal() and len(number) < 16 else None
    if browser is None:
        return ActionResult(False, "This browser can no longer act anyway.")
    return ActionResult(True, f"Browser {browser.number} can no longer act. It can still read this page.")


async def _start_server(means: Means, members: Mapping[str, str]) -> ActionResult:
    root = members.get("root")
    if root is None or not await _is_root(means.services, root):
        return _NO_PROJECT
    answer = await means.services.ask_server(root, "inspect", None)
    if isinstance(answer, Refusal):
        return ActionResult(False, answer.message)
    return ActionResult(True, "The server runs.")


async def _set_tool(means: Means, members: Mapping[str, str]) -> ActionResult:
    root, tool, change = members.get("root"), members.get("tool"), members.get("change")
    if root is None or tool is None or change not in CHANGES or not await _is_root(means.services, root):
        return _NO_PROJECT
    if problem := await _missing(means, root, "tools", "name", tool):
        return problem
    outcome = await means.changes.change_tool(root, tool, change)
    if isinstance(outcome, NotChanged):
        return ActionResult(False, outcome.of(tool))
    return ActionResult(True, f"{tool} {EFFECTS[change]}, written to {_file(outcome)}.{_wait(outcome)}")


async def _set_visibility(means: Means, members: Mapping[str, str]) -> ActionResult:
    root, visibility = members.get("root"), members.get("visibility")
    tool, source = members.get("tool"), members.get("source")
    name = tool or source
    if root is None or not name or visibility not in VISIBILITIES or not await _is_root(means.services, root):
        return _NO_PROJECT
    if problem := await _missing(means, root, *(("tools", "name") if tool else ("sources", "id")), name):
        return problem
    outcome = await means.changes.change_visibility(root, name, visibility, of_source=tool is None)
    who = name if tool else f"What {name} offers"
    if isinstance(outcome, NotChanged):
        return ActionResult(False, outcome.of(who))
    return ActionResult(True, f"{who} {LISTED[visibility]}, written to {_file(outcome)}.")


async def _missing(means: Means, root: str, kind: str, key: str, name: str) -> ActionResult | None:
    """Why nothing is changed if there is no such tool or source: a rule for it would have no effect."""
    answer = await means.services.ask_server(root, "inspect", None)
    if isinstance(answer, Refusal):
        return ActionResult(False, answer.message)
    if all(entry.get(key) != name for entry in objects(json_object(answer) or {}, kind)):
        gone = (
            f"No source offers {name} any more" if kind == "tools" else f"There is no source {name} any more"
        )
        return ActionResult(False, f"{gone}: reload the page.")
    return None


def _file(outcome: Mapping[str, Any]) -> str:
    host = outcome.get("host")
    return f"{outcome.get('file')} on {host}" if host else str(outcome.get("file"))


def _wait(outcome: Mapping[str, Any]) -> str:
    """A note if the changed file comes with the project, so that the change waits for trust."""
    command = outcome.get("waitsFor")
    return f" That file comes with the project, so it waits for: {command}" if command else ""


async def _is_root(services: Services, root: str) -> bool:
    """Whether this is the root of a workspace: no rule is written anywhere else."""
    match = await services.resolve(root)
    return match is not None and not isinstance(match, CwdProblem) and match.workspace_folders[0] == root


async def _stop_call(means: Means, members: Mapping[str, str]) -> ActionResult:
    root, number, tool = members.get("root"), members.get("number"), members.get("tool")
    if root is None or number is None or tool is None:
        return ActionResult(False, "The request names no project or no call: reload the page.")
    answer = await means.services.ask_server(root, "stop_call", number)
    if isinstance(answer, Refusal):
        return ActionResult(False, answer.message)
    stopped = json_object(answer) == {"ok": True}
    return ActionResult(stopped, f"{tool} was stopped." if stopped else f"{tool} has ended already.")


async def _answer_approval(means: Means, members: Mapping[str, str]) -> ActionResult:
    identity, decision = members.get("id"), members.get("answer")
    if identity is None or decision not in {"once", "always", "deny"}:
        return ActionResult(False, "The request names no call or no answer: reload the page.")
    result = await means.waiting_calls.answer(identity, approve=decision != "deny", where="on the page")
    if not result.ok or result.call is None or decision != "always":
        return ActionResult(result.ok, result.text)
    tool, root, host = (result.call[name] for name in ("tool", "root", "host"))
    written = await means.changes.change_tool(root, tool, "allow")
    if isinstance(written, NotChanged):
        asks = "may ask" if written.is_unknown else "will ask"
        return ActionResult(False, f"{result.text} But it {asks} again: {written.of('its policy')}")
    where = "in every project" if host is None else f"in every project on {host}"
    return ActionResult(True, f"{result.text} {tool} {EFFECTS['allow']} from now on, {where}.")


async def _restart_manager(means: Means, members: Mapping[str, str]) -> ActionResult:
    version = await means.services.restart("asked on the page", keep_servers=True)
    if isinstance(version, Unusable):
        return ActionResult(False, f"The installed program cannot be started: {version.reason}")
    return ActionResult(True, f"The manager restarts as {version}; sessions are kept.")


_Action = Callable[[Means, Mapping[str, str]], Awaitable[ActionResult]]
_ACTIONS: Final[Mapping[str, _Action]] = {
    "retry-source": _retry_source,
    "sign-in": _sign_in,
    "end-session": _end_session,
    "stop-call": _stop_call,
    "start-server": _start_server,
    "set-tool": _set_tool,
    "set-visibility": _set_visibility,
    "answer-approval": _answer_approval,
    "restart-manager": _restart_manager,
}
