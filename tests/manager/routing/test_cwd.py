"""Tests of the parser for a client's cwd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.disk.folder import CwdProblem, CwdProblemKind
from manager.routing.cwd import CwdCandidates, NoCwd, parse_cwd, placeholder_in

PLACEHOLDERS = [
    "${PWD}",
    "$PWD",
    "%CD%",
    "{env:PWD}",
    "${workspaceFolder}",
    "${workspaceFolder}/api",
    "${env:PWD}",
    "${PWD:-/tmp}",
    "$env:PWD",
    "$(pwd)",
    "`pwd`",
    "%USERPROFILE%\\x",
    "%CD:~0,-1%",
    "{{cwd}}",
    "<project path>",
    " ${PWD} ",
    "file://${workspaceFolder}",
    "\ufffd%",
    "\udccd%",
]


def paths(text: object, *, ambient: bool = False, windows: bool = False) -> tuple[str, ...]:
    parsed = parse_cwd(text, ambient=ambient, windows=windows)
    assert isinstance(parsed, CwdCandidates), parsed
    return parsed.paths


def problem(text: object, *, ambient: bool = False, windows: bool = False) -> str:
    parsed = parse_cwd(text, ambient=ambient, windows=windows)
    assert isinstance(parsed, CwdProblem), parsed
    return parsed.kind.value


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_a_placeholder_is_named_without_what_follows(text: str) -> None:
    named = placeholder_in(text)
    assert named is not None
    assert named in (text, "%CD%") or text.strip().removeprefix("file://").startswith(named)
    assert not named.endswith(("/api", "\\x", " "))


@pytest.mark.parametrize("text", [None, 7, "", "  ", "/a/${PWD}", "/home/$x", "C:\\x", "file:///a"])
def test_what_is_no_placeholder_has_no_name(text: object) -> None:
    assert placeholder_in(text) is None


def test_a_long_placeholder_is_cut() -> None:
    assert placeholder_in("${" + "x" * 1000 + "}") == "${" + "x" * 78


def test_problems_have_stable_names() -> None:
    assert {kind.value for kind in CwdProblemKind} == {
        "relative",
        "missing",
        "not_a_directory",
        "unreadable",
        "malformed",
        "too_long",
        "busy",
        "no_answer",
    }


@pytest.mark.parametrize("ambient", [True, False])
@pytest.mark.parametrize("text", [None, 42, True, ["/ws"], {"cwd": "/ws"}, b"/ws", "", "  ", "\t\n"])
def test_empty_or_non_text_cwd_is_absent(text: object, ambient: bool) -> None:
    assert parse_cwd(text, ambient=ambient, windows=False) == NoCwd()


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_unexpanded_placeholder_counts_as_unset_only_in_configuration(text: str, windows: bool) -> None:
    assert parse_cwd(text, ambient=True, windows=windows) == NoCwd()
    assert problem(text, windows=windows) == "relative"


@pytest.mark.parametrize(
    "text", ["/ws/${PWD}", "/ws/$x", "/ws/%CD%", "/{env:PWD}", "/<x>", "/ws/%2e%2e/x", "/ws/a?b#c", "/~"]
)
def test_absolute_path_is_taken_unchanged(text: str) -> None:
    assert paths(text, ambient=True) == (text,)


@pytest.mark.parametrize("ambient", [True, False])
@pytest.mark.parametrize("text", ["ws", "./ws", "../ws", ".", "~", "~/ws", '"/ws"', "C:\\ws", "http://h/ws"])
def test_relative_text_is_refused(text: str, ambient: bool) -> None:
    assert problem(text, ambient=ambient) == "relative"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" /ws/mono ", ("/ws/mono",)),
        ("/ws/mono ", ("/ws/mono ", "/ws/mono")),
        ("/ws/mono\n", ("/ws/mono\n", "/ws/mono")),
        ("\t/ws/mono", ("/ws/mono",)),
        (" file:///ws/mono ", ("/ws/mono",)),
        ("file:///ws/mono ", ("/ws/mono ", "/ws/mono")),
        ("file:///ws/mono%20", ("/ws/mono ",)),
    ],
)
def test_path_with_outer_blanks_is_tried_unchanged_and_then_trimmed(
    text: str, expected: tuple[str, ...]
) -> None:
    assert paths(text) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///ws/mono%20x", "/ws/mono x"),
        ("file://localhost/ws", "/ws"),
        ("FILE://LOCALHOST/ws", "/ws"),
        ("file:/ws/mono", "/ws/mono"),
        ("file:///", "/"),
        ("file:///ws/%C3%A9", "/ws/é"),
        ("file:///ws/é", "/ws/é"),
        ("file:///ws/%FF", "/ws/\udcff"),
        ("file:///ws/\udcff", "/ws/\udcff"),
        ("file:///ws/100%25", "/ws/100%"),
        ("file:///ws/100%", "/ws/100%"),
        ("file:///ws/c#", "/ws/c#"),
        ("file:///ws/%2e%2e/x", "/ws/../x"),
        ("file:///ws/%2525", "/ws/%25"),
    ],
)
def test_file_uri_is_decoded_once(uri: str, expected: str) -> None:
    assert paths(uri) == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        "/ws/\0x",
        "x\0",
        "file:///ws/%00",
        "file://host/ws",
        "file://127.0.0.1/ws",
        "/ws/\ud800",
        "file:///\ud800",
    ],
)
def test_impossible_text_is_malformed(text: str) -> None:
    assert problem(text) == "malformed"


def test_length_is_counted_in_bytes_after_decoding() -> None:
    assert paths("/" + "x" * 4095) == ("/" + "x" * 4095,)
    assert problem("/" + "x" * 4096) == "too_long"
    assert problem("/" + "é" * 2048) == "too_long"
    assert problem("x" * 5000) == "too_long"
    assert paths("/" + "\udcff" * 4095)
    assert paths("file:///" + "%20" * 2000) == ("/" + " " * 2000,)
    assert paths("/ws" + " " * 5000) == ("/ws",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C:\\x", "C:\\x"),
        ("C:/x", "C:\\x"),
        ("C:/", "C:\\"),
        ("\\\\?\\C:\\x", "C:\\x"),
        ("//?/C:/x", "C:\\x"),
        ("\\\\?\\UNC\\h\\s\\x", "\\\\h\\s\\x"),
        ("\\\\?\\unc\\h\\s\\x", "\\\\h\\s\\x"),
        ("\\\\h\\s\\x", "\\\\h\\s\\x"),
        ("//wsl$/Ubuntu/home", "\\\\wsl$\\Ubuntu\\home"),
        ("file:///c%3A/x%20y", "c:\\x y"),
        ("file:///C:/x", "C:\\x"),
        ("file:////h/s/x", "\\\\h\\s\\x"),
        ("C:\\\ud800", "C:\\\ud800"),
    ],
)
def test_windows_spellings_are_normalised(text: str, expected: str) -> None:
    assert paths(text, windows=True) == (expected,)


@pytest.mark.parametrize("text", ["x", "C:x", "\\x", "/x", "/c/Users", "\\\\h", "\\\\.\\pipe\\x", "\\\\?\\x"])
def test_windows_path_without_drive_or_share_is_relative(text: str) -> None:
    assert problem(text, windows=True) == "relative"


ANY_TEXT = st.text(st.characters(codec=None)) | st.from_regex(r"\A *(file:/*|/|[A-Za-z]:|\\\\)[^\n]*\Z")


@given(text=ANY_TEXT | st.none() | st.integers() | st.binary(), ambient=st.booleans(), windows=st.booleans())
def test_every_input_has_a_result(text: object, ambient: bool, windows: bool) -> None:
    parsed = parse_cwd(text, ambient=ambient, windows=windows)
    match parsed:
        case CwdCandidates(candidates):
            assert 1 <= len(candidates) <= 2
            assert all("\0" not in path for path in candidates)
            assert windows or all(path.startswith("/") for path in candidates)
        case CwdProblem(kind, folder):
            assert kind in {CwdProblemKind.RELATIVE, CwdProblemKind.MALFORMED, CwdProblemKind.TOO_LONG}
            assert folder is None
        case NoCwd():
            pass
