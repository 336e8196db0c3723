"""A workspace server inherits selected variables; its configurations can name the others."""

from __future__ import annotations

from manager.supervision import environment


def test_only_named_variables_are_inherited() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "XDG_STATE_HOME": "/s",
        "AWS_SECRET_ACCESS_KEY": "x",
        "LMTB_TOKEN": "x",
        "PYTHONPATH": "/evil",
        "LD_PRELOAD": "/evil.so",
        "TERM": "() { :; }; echo",
    }
    assert environment.inherited(given) == {
        key: given[key] for key in ("PATH", "HOME", "LC_ALL", "XDG_STATE_HOME")
    }


def test_configurations_can_name_what_is_not_inherited() -> None:
    given = {"PATH": "/bin", "LMTB_SECRET_A": "s", "TOKEN": "t", "EMPTY": "", "UNSAFE": "() { :; }"}
    assert environment.configuration_variables(given) == {
        "LMTB_SECRET_A": "s",
        "TOKEN": "t",
        "EMPTY": "",
    }


def test_variables_that_launch_instructions_cannot_carry_are_left_out() -> None:
    """Those that are no UTF-8, and long ones; the others stay."""
    given = {"RAW": "\udcff", "LONG": "x" * environment.MAX_VARIABLE, "TOKEN": "t"}
    assert environment.configuration_variables(given) == {"TOKEN": "t"}
    many = {f"V{number}": "x" * 30_000 for number in range(20)}
    kept = environment.configuration_variables(many)
    assert 0 < sum(map(len, kept.values())) <= environment.MAX_VARIABLES
    assert environment.configuration_variables({**many, "LMTB_SECRET_Z": "z" * 30_000})["LMTB_SECRET_Z"]
