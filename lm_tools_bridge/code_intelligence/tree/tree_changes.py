"""Compares two looks at a project's files: what was created, changed and deleted between them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from workspace_server.files.change_detection import SETTLES_NS

FileState = tuple[int, int, int, int]
"""Time of status and of content in nanoseconds, size, inode. Programs cannot set the first."""

ChangeKind = Literal["created", "changed", "deleted"]
FUTURE_NS: Final = 2_000_000_000
"""A time further in the future comes from another clock, and says nothing about the last moments."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The relevant files at one look.

    Attributes:
        files: their states by absolute path.
        relevance: which files were looked at.
        taken_ns: the wall clock before the look.
        is_cut: whether there are more entries than were looked at.
        folders: the folders that were listed, where not all were; None if all were.
        digests: of the contents of some files that are not settled, or were not at the look before.
        elsewhere: files that may change without their folder noticing: links, and files with several names.
        generated: folders of which only project files count.
        copies: git worktrees of which nothing counts.
        links: by their path, with the folder or file in the project that each leads to.
        links_out: the links that lead out of the project, relevant ones first.
    """

    files: Mapping[str, FileState]
    relevance: Relevance
    taken_ns: int
    is_cut: bool = False
    folders: frozenset[str] | None = None
    digests: Mapping[str, bytes] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
    generated: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    links_out: tuple[str, ...] = ()

    def aliases(self, path: str) -> list[str]:
        """The other names that a file has because links lead to it, or to folders above it."""
        return [
            link + path[len(target) :]
            for link, target in self.links.items()
            if path == target or path.startswith(f"{target}/")
        ]

    def unsettled(self) -> set[str]:
        """The files that may have changed since without a new time, because they had changed just before."""
        begin, end = self.taken_ns - SETTLES_NS, self.taken_ns + FUTURE_NS
        return {path for path, state in self.files.items() if begin <= state[0] <= end}


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two looks; a renamed file is deleted and created.

    Attributes:
        created, changed, deleted: absolute paths, sorted.
        same_time: those of the changed files whose time of content is as it was.
        is_cut: whether the project has more entries than were looked at.
    """

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    same_time: tuple[str, ...] = field(default=(), compare=False)
    is_cut: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.created) + len(self.changed) + len(self.deleted)

    def __iter__(self) -> Iterator[tuple[ChangeKind, str]]:
        """Deletions first: a file that was renamed only in the case of its letters must not vanish again."""
        yield from (("deleted", path) for path in self.deleted)
        yield from (("created", path) for path in self.created)
        yield from (("changed", path) for path in self.changed)

    def with_files(self, changed: Iterable[str], deleted: Iterable[str]) -> Changes:
        """These changes and some of files that no look includes."""
        return Changes(
            self.created, (*self.changed, *changed), (*self.deleted, *deleted), self.same_time, self.is_cut
        )

    def with_aliases(self, before: Snapshot, after: Snapshot) -> Changes:
        """These changes under all names of the files: most servers know a file by the name that is used."""
        aliases = [
            tuple(sorted({alias for path in paths for alias in (path, *snapshot.aliases(path))}))
            for paths, snapshot in ((self.created, after), (self.changed, after), (self.deleted, before))
        ]
        return replace(self, created=aliases[0], changed=aliases[1], deleted=aliases[2])

    def touches(self, names: frozenset[str]) -> bool:
        """Whether a file with one of these names is among them."""
        return any(path.rpartition("/")[2] in names for _, path in self)


def difference(
    before: Snapshot,
    after: Snapshot,
    relevance: Relevance,
    is_gone: Callable[[str], bool] = lambda path: False,
) -> Changes:
    """What a server with this relevance must be told after it had been told of `before`.

    A file that changed within `SETTLES_NS` before the earlier look is reported as changed once more, unless
    both looks have the digest of its content. Of files that only the later look included, nothing is said:
    nobody knows how they were.

    Args:
        before, after: the two looks.
        relevance: which files matter; both looks may include more.
        is_gone: tells of a file in a folder that the later look did not reach whether it is gone.
    """
    unsettled = {path for path in before.unsettled() if not _is_same(path, before, after)}
    if not unsettled and before.files == after.files and before.links == after.links:
        return Changes(is_cut=after.is_cut)
    old = before.files
    created: list[str] = []
    changed: list[str] = []
    for path, state in after.files.items():
        state_before = old.get(path)
        if state_before == state and path not in unsettled:
            continue
        name = path.rpartition("/")[2]
        if relevance.includes(name) and before.relevance.includes(name):
            (created if state_before is None else changed).append(path)
    deleted = [
        path
        for path in old.keys() - after.files.keys()
        if relevance.includes(path.rpartition("/")[2]) and (_was_listed(path, after) or is_gone(path))
    ]
    same_time = tuple(path for path in changed if old[path][1] == after.files[path][1])
    created += _only_in(after, before, relevance)
    deleted += _only_in(before, after, relevance)
    return Changes(
        tuple(sorted(created)), tuple(sorted(changed)), tuple(sorted(deleted)), same_time, after.is_cut
    )


def _only_in(look: Snapshot, other_look: Snapshot, relevance: Relevance) -> list[str]:
    """The relevant files behind links that only one look found."""
    links = {link: to for link, to in look.links.items() if other_look.links.get(link) != to}
    return [
        link + path[len(target) :]
        for link, target in links.items()
        for path in look.files
        if path.startswith(f"{target}/") and relevance.includes(path.rpartition("/")[2])
    ]


def _is_same(path: str, before: Snapshot, after: Snapshot) -> bool:
    digest = before.digests.get(path)
    return digest is not None and digest == after.digests.get(path)


def _was_listed(path: str, after: Snapshot) -> bool:
    """Whether the later look would have seen the file."""
    return after.folders is None or path.rpartition("/")[0] in after.folders
