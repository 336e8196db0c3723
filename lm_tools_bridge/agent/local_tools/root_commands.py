"""Tells whether a command may become root. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from lm_tools_bridge.agent.shell.programs import programs_in
from lm_tools_bridge.agent.shell.syntax import Word, parse

BECOMES_ROOT: Final = frozenset(
    {
        "sudo", "sudo-rs", "sudoedit", "visudo", "doas", "pkexec", "su", "su-rs", "run0", "gksu",
        "gksudo", "kdesu", "kdesudo", "lxsudo", "beesu", "ksu", "sux", "dzdo", "pbrun", "pfexec",
        "please", "runuser", "machinectl", "chroot", "nsenter", "setpriv", "capsh", "unshare", "sg",
        "newgrp", "lxc", "incus", "systemd-run", "systemd-nspawn",
    }
)  # fmt: skip
_WORDS: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?:sudo|sudo-rs|sudoedit|doas|pkexec|su|run0|runuser|machinectl)(?![A-Za-z0-9_-])|\broot@"
)
"""Whatever the words around them: in aliases, options, code and input of other programs they run as well."""
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_OF_MACHINE: Final = re.compile(
    r"(?:-[a-z]*v|--volume|--mount|--privileged|--device|--cap-add|--pid|--userns|--ipc|--security-opt|--volumes-from|-H|--host)(?:[=/.~$].*)?"
)
"""Options by which a container, whose root is often that of the machine, gets at the machine."""
_MOUNTS_PROJECT: Final = re.compile(
    r"""["']?(?:\.|\$PWD|\$\{PWD\}|\$\(pwd\)|`pwd`)(?:/[\w./-]*)?:[\w./-]+(?::[a-z,]+)?["']?"""
)


class Root(Enum):
    """Whether a command becomes root."""

    NO = "no"
    YES = "yes"
    UNCLEAR = "unclear"
    """It cannot be parsed, or names programs that only the shell will know. Counts as yes."""


def becomes_root(command: str) -> Root:
    """Whether a command may start a program that gives it the rights of root, anywhere in it."""
    programs = programs_in(command)
    bare = re.sub(r"\\\n|[\\'\"]", "", command)
    if programs.names & BECOMES_ROOT or _WORDS.search(command) or _WORDS.search(bare):
        return Root.YES
    if any(_is_of_machine(entry.typed) for entry in parse(command).commands):
        return Root.YES
    return Root.NO if programs.is_whole and programs.is_decided else Root.UNCLEAR


def _is_of_machine(words: Sequence[Word]) -> bool:
    """Whether a container gets more of the machine than the project's folder."""
    if not any((word.value or "").rpartition("/")[2] in _CONTAINERS for word in words):
        return False
    for at, word in enumerate(words):
        if _OF_MACHINE.fullmatch(word.text):
            mounted = words[at + 1].text if at + 1 < len(words) else ""
            if (
                word.text not in {"-v", "--volume"}
                or not _MOUNTS_PROJECT.fullmatch(mounted)
                or ".." in mounted
            ):
                return True
    return False
