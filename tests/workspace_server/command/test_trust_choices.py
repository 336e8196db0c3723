"""Trusting single items, data files, and long displays at the command line."""

from __future__ import annotations

import pytest

from support.projects.command_home import Home

NOTES = {"command": "serve-gh", "args": ["--db-path=t.db"]}
GREET = "script:.lm-tools-bridge/tools/greet"


# -- data files ----------------------------------------------------------------------------------------------


@pytest.fixture
def notes(home: Home) -> Home:
    """A server whose database does not exist yet."""
    home.servers(notes=NOTES)
    return home


def test_without_a_decision_a_written_file_waits_again_and_the_line_is_named(notes: Home) -> None:
    shown = notes.run("trust", notes.root, "--yes").output
    assert "data file? t.db" in shown and f"lmtb trust {notes.root} --data" in shown
    assert 'data = ["t.db"]' in shown
    notes.write("t.db", "1")
    assert notes.states() == {"stdio:notes": "changed"}


def test_a_file_called_data_once_is_not_asked_about_again(notes: Home) -> None:
    notes.run("trust", notes.root, "--yes", "--data")
    notes.write("t.db", "1")
    assert notes.states() == {"stdio:notes": "trusted"}
    notes.servers(notes={**NOTES, "env": {"A": "1"}})
    shown = notes.run("trust", notes.root, "--yes").output
    assert "data: t.db (may change without asking again)" in shown and "data file?" not in shown
    notes.write("t.db", "2")
    assert notes.states() == {"stdio:notes": "trusted"}


def test_a_file_that_can_be_data_no_longer_is_shown_with_the_reason(notes: Home) -> None:
    notes.run("trust", notes.root, "--yes", "--data")
    notes.write("t.db", "1").chmod(0o755)
    shown = notes.run("trust", notes.root).output
    assert "changed  stdio server notes" in shown and "no data: t.db: it is executable" in shown


def test_a_trusted_file_can_be_called_data_later(notes: Home) -> None:
    notes.run("trust", notes.root, "--yes")
    notes.run("trust", notes.root, "--yes", "--data")
    notes.write("t.db", "1")
    assert notes.states() == {"stdio:notes": "trusted"}


def test_an_entry_can_say_what_is_data(home: Home) -> None:
    home.servers(notes={**NOTES, "data": ["t.db", "server.py"]})
    shown = home.run("trust", home.root, "--yes").output
    assert "data: t.db" in shown and "no data: server.py: it must be" in shown
    home.write("t.db", "1")
    assert home.states() == {"stdio:notes": "trusted"}


def test_adding_a_data_line_needs_trust_again(notes: Home) -> None:
    notes.run("trust", notes.root, "--yes")
    notes.servers(notes={**NOTES, "data": ["t.db"]})
    assert notes.states() == {"stdio:notes": "changed"}


def test_a_person_is_asked_about_data_before_the_trust(notes: Home) -> None:
    with notes.at_terminal("trust", notes.root) as person:
        assert "t.db (stdio:notes)" in person.read_until(b"asking you again? [y/N]")
        person.type("y\n")
        person.read_until(b"Trust this item? [y/N]")
        person.type("y\n")
        assert person.ends_with() == 0
    notes.write("t.db", "1")
    assert notes.states() == {"stdio:notes": "trusted"}


def test_what_changes_while_data_is_asked_about_is_not_trusted(home: Home) -> None:
    home.servers(notes={"command": "serve-gh", "args": ["run.py", "--db-path", "t.db"]})
    home.write("run.py", "serve()\n")
    with home.at_terminal("trust", home.root) as person:
        person.read_until(b"asking you again? [y/N]")
        home.write("run.py", "evil()\n")
        person.type("y\n")
        assert "something changed while you were asked" in person.read_until(b"Next step")
        assert person.ends_with() == 1
    assert home.states() == {"stdio:notes": "new"}


# -- single items --------------------------------------------------------------------------------------------


@pytest.fixture
def two(home: Home) -> Home:
    """A script tool and a server."""
    home.script("greet")
    home.servers(gh={"command": "serve-gh"})
    return home


@pytest.mark.parametrize("name", ["gh", "stdio:gh"])
def test_one_item_is_trusted_by_its_name(two: Home, name: str) -> None:
    shown = two.run("trust", two.root, name, "--yes").output
    assert "serve-gh" in shown and "greet" not in shown
    assert two.states() == {"stdio:gh": "trusted", GREET: "new"}


def test_trusting_one_item_leaves_the_others_as_they_are(two: Home) -> None:
    two.run("trust", two.root, "--yes")
    two.script("greet", "print(2)\n")
    two.servers(gh={"command": "serve-gh", "args": ["new"]})
    two.run("trust", two.root, "gh", "--yes")
    assert two.states() == {"stdio:gh": "trusted", GREET: "changed"}
    two.script("greet")
    assert two.states() == {"stdio:gh": "trusted", GREET: "trusted"}


def test_trusting_one_item_of_a_replaced_folder_trusts_no_other(two: Home) -> None:
    two.run("trust", two.root, "--yes")
    two.root.rename(two.root.with_name("old"))
    two.root.mkdir()
    two.script("greet")
    two.servers(gh={"command": "serve-gh"})
    two.run("trust", two.root, "gh", "--yes")
    assert two.states() == {"stdio:gh": "trusted", GREET: "new"}


def test_an_unknown_name_is_refused_with_the_nearest_one(two: Home) -> None:
    result = two.run("trust", two.root, "gret", "--yes")
    assert result.exit_code == 1
    assert "did you mean greet?" in result.output and "name one of: gh, greet" in result.output
    assert set(two.states().values()) == {"new"}


# -- long displays -------------------------------------------------------------------------------------------


def test_a_long_display_waits_after_each_page_and_ends_with_the_question(home: Home) -> None:
    for number in range(9):
        home.script(f"tool{number}")
    with home.at_terminal("trust", home.root) as person:
        first = person.read_until(b"q: quit --")
        assert "tool0" in first and "tool8" not in first
        assert "page 1 of 2" in first
        person.type("\n")
        assert "tool8" in person.read_until(b"[y/N]")
        person.type("y\n")
        assert person.ends_with() == 0
    assert set(home.states().values()) == {"trusted"}


def test_who_stops_reading_trusts_nothing(home: Home) -> None:
    for number in range(9):
        home.script(f"tool{number}")
    with home.at_terminal("trust", home.root) as person:
        person.read_until(b"q: quit --")
        person.type("q\n")
        assert person.ends_with() == 1
    assert set(home.states().values()) == {"new"}
