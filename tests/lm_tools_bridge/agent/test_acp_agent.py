"""The agent in an editor: the protocol's own client, a real manager, a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, resource_link_block, text_block

from support.clients.editor import Editor, editor
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import AgentDesk, agent_desk
from support.servers.models.formats.steps import Reply, call, say
from support.servers.models.model_server import Broken, Refuse

pytestmark = [pytest.mark.timeout(120), pytest.mark.terminals]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


def command(text: str) -> Reply:
    return call("os_assistant_run_shell_command", {"command": text})


async def begun(one: Editor, desk: AgentDesk) -> str:
    """The id of a new session in the desk's project."""
    await one.agent.initialize(protocol_version=PROTOCOL_VERSION)
    session = await one.agent.new_session(cwd=str(desk.project), mcp_servers=[])
    return str(session.session_id)


async def prompted(one: Editor, session_id: str, text: str) -> str:
    """Why the turn of a prompt ended."""
    response = await one.agent.prompt(session_id=session_id, prompt=[text_block(text)])
    return str(response.stop_reason)


@pytest.mark.always
async def test_a_turn_shows_thoughts_calls_results_and_the_reply(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    turns = (call("lm_readFile", {"filePath": "note.txt"}), Reply(("It says ", "hello."), thinking=("hm",)))
    with agent_desk(manager, tmp_path, *turns) as desk:
        (desk.project / "note.txt").write_text("hello from the project\n")
        async with editor(desk) as one:
            said = await one.agent.initialize(protocol_version=PROTOCOL_VERSION)
            assert said.agent_capabilities.load_session
            session_id = await begun(one, desk)
            assert await prompted(one, session_id, "what does note.txt say?") == "end_turn"
        assert one.text() == "It says hello."
        assert one.text("agent_thought_chunk") == "hm"
        told = [
            ("tool_call", "pending"),
            ("tool_call_update", "in_progress"),
            ("tool_call_update", "completed"),
        ]
        assert one.of_calls() == told
        [made, _, ended] = [
            update for _, update in one.updates if update.session_update.startswith("tool_call")
        ]
        assert (made.title, made.kind, made.raw_input) == ("lm_readFile", "read", {"filePath": "note.txt"})
        assert [place.path for place in made.locations] == [str(desk.project / "note.txt")]
        assert ended.tool_call_id == made.tool_call_id
        assert "hello from the project" in ended.content[0].content.text
        assert one.questions == []


async def test_a_change_is_asked_about_once_always_or_rejected(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    same = command("touch again")
    turns = (
        command("touch once"),
        say("a"),
        command("touch never"),
        say("b"),
        same,
        say("c"),
        same,
        say("d"),
    )
    with agent_desk(manager, tmp_path, *turns) as desk:
        async with editor(desk, answers=("allow_once", "reject_once", "allow_always")) as one:
            session_id = await begun(one, desk)
            for _ in range(4):
                assert await prompted(one, session_id, "go on") == "end_turn"
        assert (desk.project / "once").exists()
        assert (desk.project / "again").exists()
        assert not (desk.project / "never").exists()
        assert len(one.questions) == 3
        asked, options = one.questions[0]
        assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]
        assert "touch once" in asked.content[0].content.text
        assert (asked.title, asked.kind) == ("os_assistant_run_shell_command", "execute")
        assert [line["decision"] for line in desk.audit()][-4:] == ["ALLOWED", "DENIED", "ALLOWED", "ALLOWED"]
        assert "e edits" not in one.text()


async def test_a_command_with_sudo_is_refused_even_if_settings_allow_it(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    turns = (command("sudo true"), say("Refused."))
    with agent_desk(manager, tmp_path, *turns, settings='sudo = "askpass"') as desk:
        async with editor(desk, answers=("allow_once",)) as one:
            assert await prompted(one, await begun(one, desk), "be root") == "end_turn"
        assert "root commands are off" in desk.model.requests[1].results[0]


@pytest.mark.parametrize("while_asked", [True, False])
async def test_a_cancelled_turn_ends_as_cancelled_and_the_session_goes_on(
    manager: ManagerProcess, tmp_path: Path, while_asked: bool
) -> None:
    turn = command("touch made" if while_asked else "touch started; sleep 300")
    with agent_desk(manager, tmp_path, turn, say("Here again.")) as desk:
        async with editor(desk, answers=() if while_asked else ("allow_once",)) as one:
            session_id = await begun(one, desk)
            running = asyncio.create_task(prompted(one, session_id, "work"))
            if not while_asked:
                await one.sees(lambda: ("tool_call_update", "in_progress") in one.of_calls())
                await one.agent.cancel(session_id=session_id)
            assert await running == "cancelled"
            assert await prompted(one, session_id, "are you there?") == "end_turn"
        assert "Here again." in one.text()
        assert not (desk.project / "made").exists()


async def test_a_reply_is_cancelled_while_it_arrives(manager: ManagerProcess, tmp_path: Path) -> None:
    silent = Broken(say("It takes ", "long"), 150, "silent")
    with agent_desk(manager, tmp_path, silent) as desk:
        async with editor(desk) as one:
            session_id = await begun(one, desk)
            running = asyncio.create_task(prompted(one, session_id, "work"))
            await one.sees(lambda: "It takes" in one.text())
            await one.agent.cancel(session_id=session_id)
            assert await running == "cancelled"
        desk.model.stop_silence()


async def test_a_provider_that_fails_is_an_error_with_its_cause(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    with agent_desk(manager, tmp_path, Refuse(404, "model 'tiny' not found")) as desk:
        async with editor(desk) as one:
            session_id = await begun(one, desk)
            with pytest.raises(RequestError, match="ollama"):
                await prompted(one, session_id, "hello")
            assert await prompted(one, session_id, "hello again") == "end_turn"


async def test_too_many_rounds_have_their_own_stop_reason(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = [call("calculator", {"expression": f"1 + {number}"}) for number in range(9)]
    with agent_desk(manager, tmp_path, *turns, settings="loop_limit = 2") as desk:
        async with editor(desk) as one:
            assert await prompted(one, await begun(one, desk), "count") == "max_turn_requests"
        assert "> **warning:** maximum tool call rounds (2) reached" in one.text()


async def test_a_saved_session_is_loaded_and_shown_again(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (call("calculator", {"expression": "6 * 7"}), say("It is 42."), say("You asked for 6 * 7."))
    with agent_desk(manager, tmp_path, *turns) as desk:
        async with editor(desk) as one:
            session_id = await begun(one, desk)
            await prompted(one, session_id, "what is 6 * 7?")
        async with editor(desk) as other:
            await other.agent.initialize(protocol_version=PROTOCOL_VERSION)
            await other.agent.load_session(cwd=str(desk.project), session_id=session_id, mcp_servers=[])
            assert other.text("user_message_chunk") == "what is 6 * 7?"
            assert other.text() == "It is 42."
            assert other.of_calls() == [("tool_call", "pending"), ("tool_call_update", "completed")]
            assert await prompted(other, session_id, "what did I ask?") == "end_turn"
            with pytest.raises(RequestError, match="no saved session"):
                await other.agent.load_session(cwd=str(tmp_path), session_id=session_id, mcp_servers=[])
        texts = [message["content"] for message in desk.model.requests[-1].body["messages"]]
        assert (texts[-5], *texts[-2:]) == ("what is 6 * 7?", "It is 42.", "what did I ask?")


async def test_sessions_run_at_the_same_time_each_in_its_folder(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)

    def turn(request: Any) -> Reply:
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return say(last["content"])
        return command("touch here; pwd")

    with agent_desk(manager, tmp_path, turn, turn, turn, turn) as desk:
        async with editor(desk, answers=("allow_once", "allow_once")) as one:
            first = await begun(one, desk)
            second = (await one.agent.new_session(cwd=str(other), mcp_servers=[])).session_id
            assert first != second
            reasons = await asyncio.gather(prompted(one, first, "where?"), prompted(one, second, "where?"))
            assert reasons == ["end_turn", "end_turn"]
            assert str(desk.project) in one.text(session_id=first)
            assert str(other) in one.text(session_id=second)
            await one.agent.close_session(session_id=second)
            with pytest.raises(RequestError, match="no session"):
                await prompted(one, second, "still there?")


async def test_the_end_of_input_ends_a_running_turn_and_its_command(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    with agent_desk(manager, tmp_path, command("echo $$ > pid; exec sleep 300")) as desk:
        async with editor(desk, answers=("allow_once",)) as one:
            session_id = await begun(one, desk)
            running = asyncio.create_task(prompted(one, session_id, "sleep"))
            async with asyncio.timeout(30):
                while not (file := desk.project / "pid").exists() or not file.read_text().strip():
                    await asyncio.sleep(0.02)
            one.process.stdin.close()
            assert await asyncio.wait_for(one.process.wait(), 20) == 0
            running.cancel()
        assert not Path(f"/proc/{(desk.project / 'pid').read_text().strip()}").exists()


async def test_linked_files_are_named_in_the_prompt(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("ok")) as desk:
        async with editor(desk) as one:
            session_id = await begun(one, desk)
            link = resource_link_block("a b.txt", "file:///src/a%20b.txt")
            await one.agent.prompt(session_id=session_id, prompt=[text_block("explain "), link])
        assert desk.model.requests[0].body["messages"][-1]["content"] == "explain /src/a b.txt"


async def test_wrong_requests_are_refused_with_what_to_do(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk:
        async with editor(desk) as one:
            session_id = await begun(one, desk)
            with pytest.raises(RequestError, match="absolute path"):
                await one.agent.new_session(cwd="src", mcp_servers=[])
            with pytest.raises(RequestError, match="no session"):
                await prompted(one, "none", "x")
            with pytest.raises(RequestError, match="empty"):
                await prompted(one, session_id, " ")
        async with editor(desk, "--provider", "manual") as one:
            with pytest.raises(RequestError, match="needs a model"):
                await begun(one, desk)
        async with editor(desk, "--provider", "olama") as one:
            with pytest.raises(RequestError, match="did you mean ollama"):
                await begun(one, desk)
        assert desk.model.requests == []
