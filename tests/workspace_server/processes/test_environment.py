"""A child inherits selected variables only."""

from __future__ import annotations

from workspace_server.processes import environment


def test_named_variables_and_no_others_are_passed_on() -> None:
    passed = {
        "HOME": "/h", "LOGNAME": "n", "USER": "u", "PATH": "/p", "SHELL": "/s", "TERM": "t", "LANG": "l",
        "LC_ALL": "C", "LC_TIME": "x", "TZ": "z", "TMPDIR": "/t",
    }  # fmt: skip
    others = {
        "AWS_SECRET": "s",
        "LMTB_NONCE": "s",
        "LD_PRELOAD": "s",
        "PYTHONPATH": "s",
        "LC": "s",
        "path": "s",
    }
    assert environment.inherited({**passed, **others}, None, "/w") == {**passed, "LMTB_WORKSPACE": "/w"}


def test_values_that_look_like_functions_are_dropped() -> None:
    found = environment.inherited({"TERM": "() { :; }; evil", "LC_X": "()", "LANG": "a()"}, None, "/w")
    assert found == {"LANG": "a()", "LMTB_WORKSPACE": "/w"}


def test_given_path_replaces_ours() -> None:
    assert environment.inherited({"PATH": "/ours"}, "/given", "/w") == {
        "PATH": "/given",
        "LMTB_WORKSPACE": "/w",
    }


def test_a_stdio_server_gets_proxies_and_certificates_too() -> None:
    given = {"HTTP_PROXY": "p", "no_proxy": "n", "NODE_EXTRA_CA_CERTS": "c", "ALL_PROXY": "()", "TOKEN": "t"}
    found = environment.inherited_by_server(given, None, "/w")
    assert found == {"HTTP_PROXY": "p", "no_proxy": "n", "NODE_EXTRA_CA_CERTS": "c", "LMTB_WORKSPACE": "/w"}
    assert environment.inherited(given, None, "/w") == {"LMTB_WORKSPACE": "/w"}
