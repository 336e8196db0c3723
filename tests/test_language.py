"""What the sources say: no ids that nothing in the repository resolves, and first lines that make a map."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import manager

ROOT = Path(manager.__file__).parents[1]
PACKAGES = ("lm_tools_bridge", "manager", "workspace_server")
TEXTS = {".py", ".md", ".toml", ".sh", ".lua", ".service", ".socket", ""}
IDS = re.compile(
    r"\b[MTADKFSG]-\d{1,3}\b"  # a letter, a hyphen, a number
    r"|\brows? [A-Z]{1,2}\d{1,2}\b"
    r"|[(\s](?:[MLGCTFS]|SE|SP|TR|MO|CV|BR|LM)\d{1,2}(?=[),;.:]\s|\)|,? (?:and|to) [A-Z]{1,2}\d)"
    r"|\bgroup [A-L] of the contract\b"
)
LONGEST_FIRST_LINE = 110
EXEMPTION = re.compile(r"# (?:noqa|type: ignore)\b(?P<rest>.*)")
CODES = re.compile(r"^(?:\[[\w, -]+\]|: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*)")


def texts() -> list[Path]:
    """Every text file of the repository."""
    folders = [ROOT / name for name in (*PACKAGES, "tests", "scripts", "docs", "systemd")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [
        path
        for path in [*files, *ROOT.glob("*.md")]
        if path.suffix in TEXTS and "__pycache__" not in path.parts
    ]


def test_no_text_refers_to_requirement_ids() -> None:
    """Behaviour is stated where it is needed; public specifications are named in full."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0].strip()}"
        for path in texts()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for match in IDS.finditer(line)
    ]
    assert found == []


def test_ids_would_be_found() -> None:
    for text in ("(M-99)", "T-86, T-160", "rows M4 to M6", "a stream (L16).", "as SE1; then", "(M15, M-29)"):
        assert IDS.search(" " + text), text
    for text in ("SEP-2663", "RFC 9112 §7.1", "UTF-8", "T1 = 3", "Python 3.11", "C0 without tab", "P1Y2M"):
        assert not IDS.search(" " + text), text


def unexplained(line: str) -> bool:
    """Whether the line silences a checker and does not say why."""
    if (found := EXEMPTION.search(line)) is None:
        return False
    reason = re.sub(r"# (?:noqa|type: ignore)", "", found["rest"])
    return not re.search(r"[a-zA-Z]{2}", CODES.sub("", reason.strip()).strip().removeprefix("# "))


def test_every_silenced_warning_has_a_reason() -> None:
    """Rules that a whole file breaks for one reason are in `pyproject.toml`."""
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if path.suffix == ".py" and path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if unexplained(line)
    ] == []


def test_a_silenced_warning_without_a_reason_would_be_found() -> None:
    assert unexplained("import a  # noqa: F401")
    assert unexplained("import a  # noqa: F401, PLC0415")
    assert unexplained("a = b  # type: ignore[misc]")
    assert not unexplained("import a  # noqa: F401  for its effect")
    assert not unexplained("a = b  # type: ignore[misc]  # any of them")


def test_every_first_line_is_a_whole_statement() -> None:
    """The list of first lines is a map of the packages (`scripts/modules`)."""
    lines = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        lines[path.relative_to(ROOT).as_posix()] = text.partition("\n")[0]
    unfinished = {
        path: line for path, line in lines.items() if not line.endswith(".") or len(line) > LONGEST_FIRST_LINE
    }
    assert unfinished == {}


def test_the_module_lists_are_those_of_the_sources() -> None:
    checked = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "modules"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "")
