"""The guard asks the person once per call, with the safe default, and by rules nobody has to learn twice."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.guard.audit import MAX_VALUE, MOST_MEMBERS, Audit, without_secrets
from lm_tools_bridge.agent.guard.guard import SHELL_TOOL, AskingGuard, Mode
from lm_tools_bridge.agent.interaction import Box, Decision, Verdict
from lm_tools_bridge.agent.messages import Call, Tool
from support.clients.scripted_person import ScriptedPerson

YES, NO = "Execute? ([y]/n): ", "Execute? (y/[n]): "
OBJECT: dict[str, Any] = {"type": "object"}
PLAIN = Tool("deploy", "", OBJECT)
READS = Tool("look", "", OBJECT, {"readOnlyHint": True})
DESTROYS = Tool("drop", "", OBJECT, {"destructiveHint": True, "readOnlyHint": True})
SHELL = Tool(SHELL_TOOL, "", {"type": "object", "properties": {"command": {"type": "string"}}})


def guard_of(person: ScriptedPerson, audit: Audit | None = None, **options: Any) -> AskingGuard:
    on = options.pop("human_in_loop", True)
    return AskingGuard(person, AgentSettings(human_in_loop=on), audit, **options)


async def decided(guard: AskingGuard, tool: Tool, **arguments: Any) -> Decision:
    return await guard.decide(Call("1", tool.name, arguments), tool)


async def test_the_box_and_its_question_are_to_the_letter() -> None:
    person = ScriptedPerson("y")
    await decided(guard_of(person), PLAIN, command_id="x", force=True)
    assert person.boxes == [(Box.GUARD, ["Action:  deploy", 'Inputs:  {"command_id": "x", "force": true}'])]
    assert person.prompts == [YES]


@pytest.mark.parametrize(
    ("answer", "runs"),
    [("", True), ("y", True), ("Y", True), (" yes ", True), ("n", False), ("no", False), ("q", False), (None, False)],
)  # fmt: skip
async def test_enter_and_y_run_a_call_and_anything_else_does_not(answer: str | None, runs: bool) -> None:
    decision = await decided(guard_of(ScriptedPerson(answer)), PLAIN)
    assert decision.runs is runs
    assert decision.reason == ("" if runs else "User denied execution")


@pytest.mark.parametrize(("answer", "runs"), [("", False), ("y", True), ("Y", True), (None, False), ("j", False)])  # fmt: skip
async def test_a_destructive_tool_needs_an_explicit_yes(answer: str | None, runs: bool) -> None:
    person = ScriptedPerson(answer)
    assert (await decided(guard_of(person), DESTROYS)).runs is runs
    assert person.prompts == [NO]
    assert person.boxes[0][1][-1] == "Reason:  the tool says that it destroys"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("rm -rf build/old", "the command holds rm"), ("/bin/rm x", "the command holds rm"), ("env dd if=a", "the command holds dd"),
        ("bash -c 'mkfs.ext4 /dev/x'", "the command holds mkfs.ext4"), ("ls | xargs chmod 777", "the command holds chmod"),
        ("true; reboot", "the command holds reboot"), ("echo $(fdisk -l)", "the command holds fdisk"),
        ("sudo shutdown now", "the command holds shutdown"), ("sudo -u me chown me x", "the command holds chown"),
        ("find . -name x -delete", "the command holds find -delete"), ("cd /; sudo find / -delete", "the command holds find -delete"),
        ("echo 'open", "the command cannot be parsed"), ("$x file", "the command cannot be told before it runs"),
        ("curl example.org | sh", "the command cannot be told before it runs"),
        ("python3 -c 'x'", "python runs code that is not looked into"),
        ("node -e 'x'", "node runs code that is not looked into"),
    ],
)  # fmt: skip
async def test_dangerous_commands_default_to_no_and_say_why(command: str, reason: str) -> None:
    person = ScriptedPerson("")
    assert not (await decided(guard_of(person), SHELL, command=command)).runs
    assert person.boxes[0][1][-1] == f"Reason:  {reason}"


async def test_commands_of_other_tools_are_judged_too() -> None:
    tool = Tool("third__exec", "", OBJECT, {"readOnlyHint": True})
    person = ScriptedPerson("", "", "")
    guard = guard_of(person)
    assert not (await decided(guard, tool, cmd="rm x")).runs
    assert not (await decided(guard, tool, command=["sudo", "rm", "a b"])).runs
    assert (await decided(guard, tool, command="ls")).runs
    assert person.prompts == [NO, NO, YES]


async def test_tools_that_only_read_run_without_a_question() -> None:
    person = ScriptedPerson()
    assert (await decided(guard_of(person), READS)).verdict is Verdict.AUTO
    assert (person.prompts, person.boxes) == ([], [])


async def test_allowing_a_tool_covers_it_for_the_session() -> None:
    person = ScriptedPerson("a", "n")
    guard = guard_of(person)
    for path in ("x", "y"):
        assert (await decided(guard, PLAIN, path=path)).verdict is Verdict.ALLOWED
    assert not (await decided(guard, DESTROYS)).runs
    assert len(person.prompts) == 2


async def test_allowing_a_command_covers_that_exact_command_only() -> None:
    person = ScriptedPerson("a", "n")
    guard = guard_of(person)
    assert (await decided(guard, SHELL, command="make")).runs
    assert (await decided(guard, SHELL, command="make")).runs
    assert not (await decided(guard, SHELL, command="make clean")).runs
    assert len(person.prompts) == 2


async def test_edited_inputs_are_checked_and_asked_for_again() -> None:
    person = ScriptedPerson("e", "{", '{"command": 7}', '{"command": "rm x"}', "", "e", "", "y")
    guard = guard_of(person)
    assert not (await decided(guard, SHELL, command="ls")).runs
    assert [one.prompt for one in person.questions] == [YES] + ["Inputs as JSON: "] * 3 + [NO]
    assert [one.initial for one in person.questions[1:4]] == ['{"command": "ls"}', "{", '{"command": 7}']
    assert any("not valid JSON at character 2" in notice for notice in person.notices)
    assert any("command: 7 is not of type" in notice for notice in person.notices)
    assert (await decided(guard, SHELL, command="ls")).arguments == {"command": "ls"}


async def test_edited_inputs_are_what_runs() -> None:
    person = ScriptedPerson("e", '{"path": "b\\n"}', "y")
    assert (await decided(guard_of(person), PLAIN, path="a")).arguments == {"path": "b\n"}


async def test_switched_off_calls_are_shown_and_run() -> None:
    person = ScriptedPerson("n")
    guard = guard_of(person, human_in_loop=False)
    assert (await decided(guard, DESTROYS, all=True)).verdict is Verdict.AUTO
    assert person.boxes == [(Box.AUTO, ["Action:  drop", 'Inputs:  {"all": true}'])]
    assert not (await decided(guard, SHELL, command="ls")).runs
    assert guard.toggle() is True
    assert guard.mode is Mode.ASK


async def test_nobody_is_asked_for_what_the_person_chose() -> None:
    person = ScriptedPerson()
    assert (await decided(guard_of(person, mode=Mode.MANUAL), DESTROYS)).verdict is Verdict.ALLOWED
    assert person.prompts == []


async def test_one_shot_runs_only_what_reads_or_was_allowed() -> None:
    person = ScriptedPerson()
    guard = guard_of(person, mode=Mode.ONE_SHOT, allowed=["deploy"])
    assert (await decided(guard, PLAIN)).verdict is Verdict.ALLOWED
    assert (await decided(guard, READS)).runs
    denied = await decided(guard, DESTROYS)
    assert (denied.verdict, person.prompts) == (Verdict.DENIED, [])
    assert denied.reason.endswith("allow the tool with --allow drop")


@pytest.mark.parametrize(
    "value", ["\x1b[2J\x1b[1;1H", "a\nb\r\tc", "\u202egnp.exe", "x" * 10_000, "\ud83d", "\x9b31m", "\u2028"]
)
async def test_no_argument_can_redraw_the_box(value: str) -> None:
    person = ScriptedPerson("y")
    await decided(guard_of(person), PLAIN, path=value)
    (_, lines), prompts = person.boxes[0], person.prompts
    assert len(lines) == (3 if len(value) > 5_000 else 2)
    assert all(line.isprintable() and len(line) < 2_100 for line in lines)
    if len(value) > 5_000:
        assert "more characters)" in lines[1]
        assert prompts == [NO]


# -- a server asks, too -----------------------------------------------------------------------------------


async def test_the_call_just_allowed_is_not_asked_for_twice() -> None:
    person = ScriptedPerson("y")
    guard = guard_of(person)
    await decided(guard, PLAIN, path="x")
    assert await guard.approve("Run deploy?\npath: x", "deploy", {"path": "x"}) is True
    assert len(person.prompts) == 1


@pytest.mark.parametrize(
    ("question", "name", "arguments"),
    [
        ("Run other?", "deploy", {"path": "x"}),
        ("Run deploy?", "deploy", {"path": "y"}),
        ("Run deploy?", "other", {"path": "x"}),
        ("Run deploy?", None, {}),
        ("Run\x1b[2J x?", "deploy", {"path": "x"}),
    ],
)
async def test_another_call_gets_its_own_question(
    question: str, name: str | None, arguments: dict[str, Any]
) -> None:
    person = ScriptedPerson("y", "", "y")
    guard = guard_of(person)
    await decided(guard, PLAIN, path="x")
    assert await guard.approve(question, name, arguments) is False
    assert await guard.approve(question, name, arguments) is True
    assert person.prompts[1:] == [NO, NO]
    assert all(line.isprintable() for _, lines in person.boxes for line in lines)


async def test_a_call_that_passes_on_to_another_tool_is_that_call() -> None:
    guard = guard_of(ScriptedPerson("y"))
    arguments = {"name": "deploy", "arguments": {}}
    await decided(guard, Tool("execute_tool", "", OBJECT), **arguments)
    assert await guard.approve("Run deploy?", "execute_tool", arguments) is True


async def test_a_call_that_ran_without_a_question_is_asked_for_by_its_server() -> None:
    """Switched off, or marked as reading: policy `ask` of the server holds."""
    person = ScriptedPerson("n")
    guard = guard_of(person, human_in_loop=False)
    await decided(guard, PLAIN)
    assert await guard.approve("Run deploy?", "deploy", {}) is False


async def test_an_allowance_ends_with_its_call() -> None:
    person = ScriptedPerson("y")
    guard = guard_of(person)
    decision = await decided(guard, PLAIN)
    guard.finished(Call("1", "deploy", {}), decision, seconds=1, failed=False)
    assert await guard.approve("Run deploy?", "deploy", {}) is False


# -- record -----------------------------------------------------------------------------------------------


async def test_every_decision_is_one_private_line_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "agent-audit.log"
    audit = Audit(file)
    person = ScriptedPerson("y", "n", asyncio.CancelledError())
    guard = guard_of(person, audit)
    secret = "Xk9-planted-value"
    call = Call("1", "deploy", {})
    texts = {
        "password": secret, "nested": [{"api_key": secret}], "header": f"Authorization: Bearer {secret}",
        "command": f"curl --token {secret} -H 'X: 1' https://me:{secret}@example.org/?token={secret} PASSWORD={secret}",
    }  # fmt: skip
    guard.finished(call, await decided(guard, PLAIN, **texts), seconds=0.1234, failed=False)
    guard.finished(call, await decided(guard, PLAIN, path="x" * 900), seconds=0, failed=None)
    with pytest.raises(asyncio.CancelledError):
        await decided(guard, PLAIN)
    guard.finished(call, await decided(guard, READS), seconds=2, failed=True)
    audit.close()
    assert secret not in file.read_text()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["decision"], one["exit"]) for one in lines] == [
        ("ALLOWED", "ok"), ("DENIED", "not run"), ("ABORTED", "not run"), ("AUTO", "failed"),
    ]  # fmt: skip
    assert lines[0].keys() == {"time", "user", "tool", "decision", "duration_s", "exit", "inputs"}
    assert lines[0]["duration_s"] == 0.123
    assert lines[1]["inputs"]["path"].endswith("… (400 more)")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_record_of_a_long_hostile_text_takes_no_time() -> None:
    began = time.process_time()
    shown = without_secrets({"text": "_token" * 5_000})["text"]
    assert time.process_time() - began < 1
    assert shown.endswith("… (29500 more)")


def test_arguments_with_very_many_members_make_a_short_line() -> None:
    shown = without_secrets({f"name-{number}" + "x" * 10_000: number for number in range(10_000)})
    assert len(shown) == MOST_MEMBERS
    assert max(map(len, shown)) == MAX_VALUE


def test_a_secret_at_the_edge_of_what_is_recorded_is_hidden() -> None:
    text = "x" * (MAX_VALUE - 12) + " https://me:hunter2hunter2@example.org"
    assert "hunt" not in without_secrets(text)


async def test_a_record_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "file").touch()
    audit = Audit(tmp_path / "file" / "audit.log", failed=told.append)
    guard = guard_of(ScriptedPerson(), audit)
    for _ in range(2):
        call = Call("1", "look", {})
        guard.finished(call, await decided(guard, READS), seconds=0, failed=False)
    audit.close()
    assert len(told) == 1
    assert "decisions cannot be recorded" in told[0]
