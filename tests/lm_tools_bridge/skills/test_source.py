"""Skills over a workspace server's HTTP: lists, entries, contents, directories, and changes."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.skills.source import SkillSource
from support.clients.stateless_requests import events
from support.processes.workspace_app import Serving, serving
from support.projects.gateway import eventually
from support.projects.skill_folders import digest_of, everything_trusted, skill_text, uris, write_skill
from support.servers.mcp_sources.tool_source import ScriptedSource, offerings, tool
from workspace_server.methods import instructions
from workspace_server.trust.item import Verdict

MAIN = "skill://project/pdf/SKILL.md"


@dataclass
class SkillsSetup:
    """A served project with one skill. `trusted` is what the user thinks of everything in it."""

    root: Path
    folder: Path
    served: Serving
    source: SkillSource
    verdict: list[Verdict]

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = await self.served.caller.message(method, params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"][names.META_SERVER]["name"] == names.WORKSPACE_SERVER
        return result

    async def refused(self, method: str, params: dict[str, Any]) -> str:
        error = await self.served.caller.error(method, params)
        assert error["code"] == -32602
        return str(error["message"])

    async def listed(self) -> list[str]:
        return uris((await self.ask(skills.LIST))["skills"])


@asynccontextmanager
async def project_of(tmp_path: Path, *others: ScriptedSource) -> AsyncIterator[SkillsSetup]:
    root = tmp_path.resolve()
    folder = write_skill(root / ".claude/skills", "pdf", refs__guide_md="# Guide\n", logo_png=b"\x89\0\xff")
    verdict: list[Verdict] = ["trusted"]

    def trust(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
        return dict.fromkeys(digests, verdict[0])

    source = SkillSource(root, trust, [])
    async with serving([ScriptedSource([tool("t")]), source, *others]) as served:
        yield SkillsSetup(root, folder, served, source, verdict)


async def test_an_entry_has_the_front_matter_and_a_digest_of_every_file(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        result = await one.ask(skills.LIST)
        text = skill_text("pdf")
        assert result["skills"] == [
            {
                "uri": MAIN,
                "frontmatter": {"name": "pdf", "description": "Does things"},
                "resources": [
                    {"uri": MAIN, "digest": digest_of(text), "size": len(text)},
                    {"uri": "skill://project/pdf/logo_png", "digest": digest_of(b"\x89\0\xff"), "size": 3},
                    {"uri": "skill://project/pdf/refs/guide.md", "digest": digest_of("# Guide\n"), "size": 8},
                ],
            }
        ]
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
        single = await one.ask(skills.GET, {"uri": MAIN})
        assert single["skill"] == result["skills"][0]
        assert (single["ttlMs"], single["cacheScope"]) == (0, "private")


async def test_the_main_file_is_a_listed_resource_and_all_files_can_be_read(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        listed = (await one.served.caller.result(names.RESOURCES_LIST))["resources"]
        (entry,) = [resource for resource in listed if resource["uri"].startswith("skill:")]
        assert entry == {
            "uri": MAIN,
            "name": "pdf",
            "description": "Does things",
            "mimeType": "text/markdown",
            "size": len(skill_text("pdf")),
        }
        for file in (await one.ask(skills.GET, {"uri": MAIN}))["skill"]["resources"]:
            result = await one.served.caller.result(names.RESOURCES_READ, {"uri": file["uri"]})
            (content,) = result["contents"]
            raw = base64.b64decode(content["blob"]) if "blob" in content else content["text"].encode()
            assert (digest_of(raw), len(raw)) == (file["digest"], file["size"])


async def test_directories_list_their_direct_children(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        write_skill(one.folder / "parts", "inner")
        found = await one.ask(skills.READ_DIRECTORY, {"uri": "skill://project/pdf"})
        assert [(child["name"], child["mimeType"]) for child in found["resources"]] == [
            ("pdf", "text/markdown"),
            ("logo_png", "application/octet-stream"),
            ("parts", "inode/directory"),
            ("refs", "inode/directory"),
        ]
        assert found.keys() == {"resultType", "_meta", "resources"}
        below = await one.ask(skills.READ_DIRECTORY, {"uri": "skill://project/pdf/parts/inner"})
        assert [child["name"] for child in below["resources"]] == ["inner"]
        top = await one.ask(skills.READ_DIRECTORY, {"uri": "skill://project"})
        assert uris(top["resources"]) == ["skill://project/pdf"]


@pytest.mark.parametrize(
    "uri",
    [
        "skill://project/pdf/SKILL.md",
        "skill://project/pdf/",
        "skill://project/none",
        "skill://project/pdf/../..",
        "skill://other/x",
        "file:///etc",
    ],
)
async def test_what_is_no_directory_is_an_error(tmp_path: Path, uri: str) -> None:
    async with project_of(tmp_path) as one:
        assert "is not a directory resource" in await one.refused(skills.READ_DIRECTORY, {"uri": uri})


@pytest.mark.parametrize(
    "uri",
    [
        "skill://project/none/SKILL.md",
        "skill://project/pdf/none.md",
        "skill://project/pdf/../../../etc/passwd",
        "skill://project/pdf/%2e%2e/SKILL.md",
        "skill://project//pdf/SKILL.md",
        "skill://user/pdf/SKILL.md",
        "SKILL://project/pdf/SKILL.md",
        "skill://project/pdf",
        "",
    ],
)
async def test_a_uri_that_is_not_served_is_an_error_with_code_32602(tmp_path: Path, uri: str) -> None:
    async with project_of(tmp_path) as one:
        assert await one.refused(names.RESOURCES_READ, {"uri": uri})
        assert await one.refused(skills.GET, {"uri": uri})


@pytest.mark.parametrize("params", [{}, {"uri": 1}, {"uri": None}])
async def test_a_missing_uri_is_an_error(tmp_path: Path, params: dict[str, Any]) -> None:
    async with project_of(tmp_path) as one:
        assert "params.uri" in await one.refused(skills.GET, params)
        assert "params.uri" in await one.refused(skills.READ_DIRECTORY, params)


async def test_a_file_that_is_no_skill_file_has_no_entry(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        assert "No skill is served" in await one.refused(
            skills.GET, {"uri": "skill://project/pdf/refs/guide.md"}
        )


async def test_without_trust_nothing_is_listed_or_readable(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        one.verdict[0] = "never"
        assert await one.listed() == []
        listed = (await one.served.caller.result(names.RESOURCES_LIST))["resources"]
        assert not [resource for resource in listed if resource["uri"].startswith("skill:")]
        for uri in (MAIN, "skill://project/pdf/refs/guide.md"):
            message = await one.refused(names.RESOURCES_READ, {"uri": uri})
            assert f"lmtb trust {one.root}" in message
        assert "lmtb trust" in await one.refused(skills.GET, {"uri": MAIN})
        await one.refused(skills.READ_DIRECTORY, {"uri": "skill://project/pdf"})
        said = str((await one.served.caller.result(names.DISCOVER))["instructions"])
        assert MAIN not in said and "these do not work: pdf." in said
        assert f"runs `lmtb trust {one.root}`" in instructions.describe_pending_trust(one.served.toolset.last)


async def test_the_declaration_and_the_instructions_announce_skills(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        found = await one.served.caller.result(names.DISCOVER)
        assert found["capabilities"]["extensions"][skills.EXTENSION] == {"directoryRead": True}
        assert found["capabilities"]["resources"]["listChanged"] is True
        assert MAIN in found["instructions"]


async def test_changes_are_seen_by_the_next_request(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        before = (await one.ask(skills.GET, {"uri": MAIN}))["skill"]
        (one.folder / "refs/guide.md").write_text("# Another\n")
        after = (await one.ask(skills.GET, {"uri": MAIN}))["skill"]
        assert before["resources"] != after["resources"]
        result = await one.served.caller.result(
            names.RESOURCES_READ, {"uri": "skill://project/pdf/refs/guide.md"}
        )
        assert result["contents"][0]["text"] == "# Another\n"
        write_skill(one.root / ".agents/skills", "new")
        assert await one.listed() == ["skill://project/new/SKILL.md", MAIN]


async def test_streams_are_told_of_changed_lists_and_of_changed_files(tmp_path: Path) -> None:
    async with project_of(tmp_path) as one:
        wanted = {"resourcesListChanged": True, "resourceSubscriptions": [MAIN, "skill://project/none"]}
        await one.listed()
        async with one.served.caller.open(names.LISTEN, {"notifications": wanted}) as stream:
            (accepted,) = await events(stream, 1)
            assert accepted["params"]["notifications"]["resourceSubscriptions"] == [MAIN]
            (one.folder / "SKILL.md").write_text(skill_text("pdf", "Something else"))
            told = await asyncio.wait_for(events(stream, 2), 20)
        assert {event["method"] for event in told} == {names.RESOURCES_CHANGED, names.RESOURCE_UPDATED}


async def test_a_file_that_changes_while_it_is_read_is_never_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with project_of(tmp_path) as one:
        await one.listed()
        monkeypatch.setattr(one.source, "check_files", one.source.list_tools)  # sees no further change
        (one.folder / "refs/guide.md").write_text("not what was checked")
        error = await one.served.caller.error(
            names.RESOURCES_READ, {"uri": "skill://project/pdf/refs/guide.md"}
        )
        assert (error["code"], "changed just now" in error["message"]) == (-32603, True)


async def test_pages_of_skills_and_directories_are_complete(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    for number in range(7):
        write_skill(root / ".claude/skills", f"s{number}")
    source = SkillSource(root, everything_trusted, [])
    async with serving([source], settings={"page_size": 3}) as served:
        for method, params, member in (
            (skills.LIST, {}, "skills"),
            (skills.READ_DIRECTORY, {"uri": "skill://project"}, "resources"),
        ):
            found: list[str] = []
            page = (await served.caller.message(method, dict(params)))["result"]
            found += uris(page[member])
            while "nextCursor" in page:
                page = (await served.caller.message(method, {**params, "cursor": page["nextCursor"]}))[
                    "result"
                ]
                found += uris(page[member])
            assert len(found) == len(set(found)) == 7


async def test_another_server_cannot_claim_uris_of_our_skills(tmp_path: Path) -> None:
    hostile = ScriptedSource([tool("x")], identity="stdio:evil", namespace="evil")
    hostile.offered = offerings(resources=["skill://user/pdf/SKILL.md", MAIN, "skill://theirs/SKILL.md"])
    async with project_of(tmp_path, hostile) as one:
        listed = (await one.served.caller.result(names.RESOURCES_LIST))["resources"]
        assert [uri for uri in uris(listed) if uri.startswith("skill:")] == [MAIN, "skill://theirs/SKILL.md"]
        await one.refused(names.RESOURCES_READ, {"uri": "skill://user/pdf/SKILL.md"})
        assert hostile.relayed == []


async def test_a_disk_that_hangs_costs_a_limited_time(tmp_path: Path) -> None:
    released = threading.Event()

    def hanging(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
        released.wait(20)
        return everything_trusted(digests)

    write_skill(tmp_path / ".claude/skills", "a")
    source = SkillSource(tmp_path.resolve(), hanging, [], check_s=0.05)
    await source.check_files()
    assert [issue.code for issue in source.issues()] == ["SKILLS_NOT_CHECKED"]
    released.set()
    await eventually(lambda: _has_skills(source))
    assert list(source.issues()) == []
    await source.close()


async def _has_skills(source: SkillSource) -> bool:
    await source.check_files()
    return bool(source.offerings().skills)
