"""Approvals: the question to a person, the valid answers, and that an answer counts once."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp_types import InputRequiredResult

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal.request_state import approval_id
from workspace_server.call_context import CallContext
from workspace_server.calls.approvals import (
    MAX_ASKED,
    MAX_PENDING,
    Admitted,
    ApprovalRequest,
    Approvals,
    Decision,
    InvalidAnswer,
    approval_message,
)
from workspace_server.calls.gate import policy
from workspace_server.calls.pending_approvals import PendingApprovals
from workspace_server.calls.request_state import RequestStates
from workspace_server.config.model import Approval
from workspace_server.tool import Tool

NOW = 1_800_000_000.0
TOOL = Tool(
    "run", {"name": "run", "inputSchema": {"type": "object"}}, requires_approval=True, fingerprint="f1"
)
YES = {"action": "accept", "content": {"approve": True}}
ARGUMENTS = {"path": "a b", "n": 1}


@pytest.fixture
def approvals(tmp_path: Path) -> Approvals:
    return Approvals(RequestStates("w", tmp_path))


def context_of(
    arguments: Mapping[str, Any] = ARGUMENTS,
    state: str | None = None,
    answer: Any = None,
    capabilities: Mapping[str, Any] | None = None,
    **other: Any,
) -> CallContext:
    params: dict[str, msgspec.Raw] = {"_meta": msgspec.Raw(b"{}")}
    if state is not None:
        params["requestState"] = jsonrpc.raw(state)
    if answer is not None:
        params["inputResponses"] = jsonrpc.raw({"approval": answer})
    return CallContext(
        arguments=jsonrpc.raw(arguments),
        params=params,
        capabilities={"elicitation": {}} if capabilities is None else capabilities,
        **other,
    )


async def decide(
    approvals: Approvals,
    context: CallContext,
    *,
    tool: Tool = TOOL,
    name: str = "run",
    decided: Approval = "ask",
    arguments: Mapping[str, Any] = ARGUMENTS,
    now: float = NOW,
) -> Decision:
    return await approvals.decide(name, tool, decided, arguments, context, now)


async def asked(approvals: Approvals, context: CallContext | None = None, **other: Any) -> str:
    decision = await decide(approvals, context or context_of(), **other)
    assert isinstance(decision, ApprovalRequest)
    return str(decision.result["requestState"])


# what is decided for good -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "approvals", "expected"),
    [
        (False, {}, "allow"), (True, {}, "ask"), (True, {"run": "allow"}, "allow"), (False, {"run": "ask"}, "ask"),
        (False, {"run": "deny"}, "deny"), (True, {"Run": "allow"}, "ask"),
    ],
)  # fmt: skip
def test_the_users_decision_overrides_the_tools_own(
    asks: bool, approvals: Mapping[str, Approval], expected: Approval
) -> None:
    assert policy("run", replace(TOOL, requires_approval=asks), approvals) == expected


def test_a_call_that_changes_nothing_needs_no_approval_unless_the_user_wants_it() -> None:
    properties = {"apply": {"type": "boolean", "default": True}, "name": {"type": "string"}}
    schema = {"type": "object", "properties": properties}
    tool = replace(TOOL, definition={"name": "run", "inputSchema": schema}, harmless={"apply": False})
    assert policy("run", tool, {}, {"apply": False, "name": "x"}) == "allow"
    assert policy("run", tool, {"run": "ask"}, {"apply": False}) == "ask"
    for arguments in ({}, {"apply": True}, {"name": "x"}, None):
        assert policy("run", tool, {}, arguments) == "ask"
    properties["apply"]["default"] = False
    assert policy("run", tool, {}, {}) == "allow"
    assert policy("run", tool, {}) == "ask"


async def test_denied_tool_does_not_run_whatever_the_client_brings(approvals: Approvals) -> None:
    state = await asked(approvals)
    for context in (context_of(), context_of(state=state, answer=YES)):
        decision = await decide(approvals, context, decided="deny")
        assert isinstance(decision, Refusal)
        assert decision.reason.code == 47121


async def test_an_allowed_tool_runs_unasked_and_its_servers_own_state_passes(approvals: Approvals) -> None:
    context = context_of(state="theirs", answer={"x": 1})
    assert await decide(approvals, context, decided="allow") == Admitted(context)


# asking -----------------------------------------------------------------------------------------------------


async def test_question_is_an_elicitation_that_the_official_models_accept(approvals: Approvals) -> None:
    decision = await decide(approvals, context_of())
    assert isinstance(decision, ApprovalRequest)
    assert set(decision.result) == {"resultType", "inputRequests", "requestState"}
    params = decision.result["inputRequests"]["approval"]["params"]
    assert params["message"] == "Run run?\npath: a b\nn: 1"
    assert params["requestedSchema"]["properties"]["approve"]["type"] == "boolean"
    InputRequiredResult.model_validate(decision.result)


@pytest.mark.parametrize(
    ("capabilities", "can"),
    [
        ({}, False),
        ({"elicitation": None}, False),
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
    ],
)
async def test_a_client_without_forms_is_refused_with_the_command_to_use(
    approvals: Approvals, capabilities: Mapping[str, Any], can: bool
) -> None:
    decision = await decide(approvals, context_of(capabilities=capabilities))
    assert isinstance(decision, ApprovalRequest if can else Refusal)
    if isinstance(decision, Refusal):
        assert decision.reason.code == 47120
        assert decision.text.endswith("Next step: ask the user to run: lmtb tools allow run.")
        assert decision.delivered == "no"


def test_question_shows_code_as_lines_and_nothing_stays_invisible() -> None:
    shown = approval_message("execute_code", TOOL, {"code": "import os\nprint(1)"})
    assert shown == "Run execute_code?\ncode: \n    import os\n    print(1)"
    assert approval_message("t", TOOL, {"x": "a\u202eb\x1b[2K"}) == 'Run t?\nx: "a\\u202eb\\u001b[2K"'


def test_the_form_hides_secrets_and_states_what_it_leaves_out() -> None:
    schema = {"properties": {"p": {"format": "password"}, "w": {"writeOnly": True}, "v": True}}
    tool = replace(TOOL, definition={"name": "run", "inputSchema": schema})
    assert approval_message("t", TOOL, {"n\nfilePath: /safe": "x"}) == 'Run t?\n"n\\nfilePath: /safe": x'
    assert (
        approval_message("run", tool, {"p": "s", "w": "s", "v": "x"})
        == "Run run?\np: [hidden]\nw: [hidden]\nv: x"
    )


async def test_a_cut_question_says_how_many_of_all_characters_are_missing(tmp_path: Path) -> None:
    arguments = {"c": "x" * MAX_ASKED * 3}
    length, pending = len(approval_message("run", TOOL, arguments)), PendingApprovals()
    approvals = Approvals(RequestStates("w", tmp_path), pending)
    decision = await decide(approvals, context_of(arguments), arguments=arguments)
    assert isinstance(decision, ApprovalRequest)
    asked = decision.result["inputRequests"]["approval"]["params"]["message"]
    assert asked.endswith(f"\n… {length - MAX_ASKED} more characters are NOT shown; decline if in doubt")
    (elsewhere,) = pending.as_json()
    missing = length - MAX_PENDING
    assert elsewhere["question"].endswith(f"\n… {missing} more characters are NOT shown; deny if in doubt")


async def test_arguments_that_name_a_member_twice_are_not_asked_about(approvals: Approvals) -> None:
    """The person would see one value, the tool might take the other."""
    context = msgspec.structs.replace(context_of(), arguments=msgspec.Raw(b'{"a":{"cmd":"rm","cmd":"ls"}}'))
    assert isinstance(await decide(approvals, context, arguments={"a": {"cmd": "ls"}}), InvalidAnswer)


# answers ----------------------------------------------------------------------------------------------------


async def test_yes_runs_the_call_once_without_our_answer_in_it(approvals: Approvals) -> None:
    state = await asked(approvals)
    context = context_of({"n": 1, "path": "a b"}, state, YES)
    decision = await decide(approvals, context, arguments={"n": 1, "path": "a b"})
    assert isinstance(decision, Admitted), "the order of members is no difference"
    assert set(decision.context.params) == {"_meta"}
    again = await decide(approvals, context)
    assert isinstance(again, InvalidAnswer)
    assert "used before" in again.message


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"approve": False}},
        {"action": "accept", "content": {"approve": "true"}},
        {"action": "accept", "content": {"approve": 1}},
        {"action": "accept"},
        {"action": "decline", "content": {"approve": True}},
        "accept",
        [],
    ],
)
async def test_anything_but_yes_is_no(approvals: Approvals, answer: Any) -> None:
    state = await asked(approvals)
    decision = await decide(approvals, context_of(state=state, answer=answer))
    assert isinstance(decision, Refusal)
    assert decision.reason.code == 47121
    assert decision.message == "User denied execution of run"
    assert isinstance(await decide(approvals, context_of(state=state, answer=YES)), InvalidAnswer)


async def test_without_an_answer_the_question_is_asked_again(approvals: Approvals) -> None:
    state = await asked(approvals)
    assert await asked(approvals, context_of(state=state)) != state


@pytest.mark.parametrize(
    "changed",
    [
        {"arguments": {"path": "a b", "n": 2}},
        {"arguments": {"path": "a b", "n": True}},
        {"name": "other"},
        {"tool": replace(TOOL, fingerprint="f2")},
        {"caller": "somebody else"},
        {"now": NOW + 600},
        {"now": NOW - 1},
    ],
)
async def test_an_approval_is_for_this_call_only_and_for_ten_minutes(
    approvals: Approvals, changed: dict[str, Any]
) -> None:
    state = await asked(approvals)
    caller = changed.pop("caller", "")
    context = context_of(changed.get("arguments", ARGUMENTS), state, YES, caller=caller)
    assert isinstance(await decide(approvals, context, **changed), InvalidAnswer)
    just_in_time = await decide(approvals, context_of(state=state, answer=YES), now=NOW + 599)
    assert isinstance(just_in_time, Admitted), "a try that does not fit does not use it up"


async def test_no_change_of_a_state_is_accepted(approvals: Approvals) -> None:
    state = await asked(approvals)
    parts = state.split(".")
    forged = [
        state[:-1] + ("A" if state[-1] != "A" else "B"),
        ".".join([*parts[:3], "e30"]),
        ".".join(parts[:3]),
        state + ".x",
        state + "=",
        "lmtb2.w.ask.é",
        "lmtb2.w.ask.",
        "lmtb2.w.",
        state.replace(".w.", ".v."),
        "theirs",
        "",
    ]
    for one in forged:
        assert isinstance(await decide(approvals, context_of(state=one, answer=YES)), InvalidAnswer), one
    not_text = msgspec.structs.replace(context_of(answer=YES), params={"requestState": msgspec.Raw(b"5")})
    assert isinstance(await decide(approvals, not_text), InvalidAnswer)


async def test_of_many_answers_at_once_one_runs(approvals: Approvals) -> None:
    state = await asked(approvals)
    context = context_of(state=state, answer=YES)
    decisions = await asyncio.gather(*(decide(approvals, context) for _ in range(20)))
    assert sum(isinstance(decision, Admitted) for decision in decisions) == 1


async def test_a_restart_between_question_and_answer_changes_nothing(tmp_path: Path) -> None:
    runs = [Approvals(RequestStates("w", tmp_path)) for _ in range(3)]
    context = context_of(state=await asked(runs[0]), answer=YES)
    assert isinstance(await decide(runs[1], context), Admitted)
    assert isinstance(await decide(runs[2], context), InvalidAnswer), "and it still counts once"
    other = Approvals(RequestStates("another", tmp_path))
    assert isinstance(await decide(other, context_of(state=await asked(runs[0]), answer=YES)), InvalidAnswer)


async def test_used_states_are_forgotten_when_they_expire_and_files_are_private(tmp_path: Path) -> None:
    approvals = Approvals(RequestStates("w", tmp_path))
    for now in (NOW, NOW + 700):
        state = await asked(approvals, now=now)
        assert isinstance(await decide(approvals, context_of(state=state, answer=YES), now=now + 1), Admitted)
    assert len(list((tmp_path / "approvals" / "spent").iterdir())) == 1
    for path in (tmp_path / "approvals").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


async def test_without_a_disk_one_run_still_asks_and_counts_once(tmp_path: Path) -> None:
    (tmp_path / "approvals").write_text("in the way")
    approvals = Approvals(RequestStates("w", tmp_path))
    context = context_of(state=await asked(approvals), answer=YES)
    assert isinstance(await decide(approvals, context), Admitted)
    assert isinstance(await decide(approvals, context), InvalidAnswer)


async def test_a_decision_for_good_between_question_and_answer_counts(approvals: Approvals) -> None:
    state = await asked(approvals)
    waiting = await decide(approvals, context_of(state=state), decided="allow")
    assert isinstance(waiting, Admitted)
    assert "requestState" not in waiting.context.params
    no = await decide(approvals, context_of(state=state, answer={"action": "decline"}), decided="allow")
    assert isinstance(no, Refusal)


# answers from elsewhere -------------------------------------------------------------------------------------


async def waiting_call(pending: PendingApprovals) -> str:
    while not pending.as_json():
        await asyncio.sleep(0)
    return str(pending.as_json()[0]["id"])


async def test_a_call_that_waits_tells_its_client_where_the_person_answers(tmp_path: Path) -> None:
    sent: list[Mapping[str, Any]] = []

    async def notify(method: str, params: Mapping[str, Any]) -> None:
        sent.append(params)

    pending = PendingApprovals()
    approvals = Approvals(RequestStates("w", tmp_path), pending, 30.0)
    context = context_of(capabilities={}, notify=notify)
    context.params["_meta"] = jsonrpc.raw({"progressToken": 1})
    deciding = asyncio.create_task(decide(approvals, context))
    assert pending.answer(await waiting_call(pending), approve=True) == "approved"
    assert isinstance(await deciding, Admitted)
    assert "lmtb approvals" in sent[0]["message"]


async def test_a_call_that_nobody_answers_is_refused_with_the_next_step(tmp_path: Path) -> None:
    approvals = Approvals(RequestStates("w", tmp_path), PendingApprovals(), 0.01)
    decision = await decide(approvals, context_of(capabilities={}))
    assert isinstance(decision, Refusal)
    assert (decision.reason.code, decision.delivered) == (47120, "no")
    assert "nobody approved run while it waited" in decision.message
    assert "lmtb approvals" in decision.text


async def test_a_call_that_ends_while_it_waits_leaves_nothing_behind(tmp_path: Path) -> None:
    pending = PendingApprovals()
    approvals = Approvals(RequestStates("w", tmp_path), pending, 30.0)
    deciding = asyncio.create_task(decide(approvals, context_of(capabilities={})))
    identity = await waiting_call(pending)
    deciding.cancel()
    await asyncio.gather(deciding, return_exceptions=True)
    assert pending.answer(identity, approve=True) == "gone"


async def test_an_answer_elsewhere_after_that_of_the_client_is_too_late(tmp_path: Path) -> None:
    pending = PendingApprovals()
    approvals = Approvals(RequestStates("w", tmp_path), pending)
    state = await asked(approvals)
    deciding = asyncio.create_task(decide(approvals, context_of(state=state, answer=YES)))
    while pending.as_json():
        await asyncio.sleep(0)
    assert pending.answer(approval_id(state), approve=False) == "gone"
    assert isinstance(await deciding, Admitted)


async def test_a_denial_elsewhere_holds_for_every_copy_of_the_answer(tmp_path: Path) -> None:
    pending = PendingApprovals()
    approvals = Approvals(RequestStates("w", tmp_path), pending)
    state = await asked(approvals)
    assert pending.answer(approval_id(state), approve=False) == "denied"
    decisions = await asyncio.gather(
        *(decide(approvals, context_of(state=state, answer=YES)) for _ in range(10))
    )
    assert not [one for one in decisions if isinstance(one, Admitted)]


@pytest.mark.parametrize(("action", "runs"), [("accept", True), ("decline", False)])
async def test_a_script_waits_while_its_caller_is_asked(tmp_path: Path, action: str, runs: bool) -> None:
    """What the script's client is not asked about could never be answered: the script cannot repeat a call."""
    questions: list[str] = []

    async def ask(method: str, params: msgspec.Raw) -> msgspec.Raw:
        questions.append(method)
        return jsonrpc.raw({"action": action, "content": {"approve": True}})

    pending = PendingApprovals()
    approvals = Approvals(RequestStates("w", tmp_path), pending, 30.0)
    decision = await decide(approvals, context_of(ask=ask))
    assert isinstance(decision, Admitted) is runs
    assert questions == ["elicitation/create"]
    assert pending.changes == 0


def test_the_id_of_an_approval_is_the_whole_digest_of_its_state() -> None:
    assert len(approval_id("state")) * 5 >= 256
    assert approval_id("state") != approval_id("stat")
