"""Keeps a workspace's sources in step with its configuration files and the user's trust decisions.

Checks the files for every request. A source whose entry did not change is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from lm_tools_bridge.machine.disks import are_local
from lm_tools_bridge.protocol.issues import Issue
from workspace_server import naming
from workspace_server.catalog.registry import Registry
from workspace_server.config.combine import apply_widening
from workspace_server.config.formats import restrictions
from workspace_server.config.load import ConfigurationLoader
from workspace_server.config.model import Configuration, RemoteServer, StdioServer
from workspace_server.features import parts
from workspace_server.files.change_detection import ChangeDetector
from workspace_server.files.single_flight import SingleFlight
from workspace_server.source import Source
from workspace_server.sources.dependencies import Dependencies
from workspace_server.sources.factory import SourceFactory
from workspace_server.sources.feature_part import DefinitionGuard, GuardedServer, SourceSpec
from workspace_server.sources.inactive import pending_issue
from workspace_server.trust.difference import changed_data
from workspace_server.trust.inheritance import content_digest
from workspace_server.trust.item import TrustItem, Verdict
from workspace_server.trust.items import (
    SETTINGS_KEY,
    TrustItemFactory,
    remote_key,
    stdio_key,
)
from workspace_server.trust.store import TrustStore

KEPT: Final = "workspace.toml.last-good"
OWN_FOLDER: Final = ".lm-tools-bridge"
UNRESOLVED: Final = "CONFIG_UNRESOLVED_VARIABLE"


@dataclass(frozen=True, slots=True)
class FileState:
    """What the files contain: configuration, trust verdicts by item key, a problem of the trust store.

    `changed_data` are the files, by item key, that may be data and that changed since the item was trusted.
    `digests` are those of the items' content, by key. `trusted` are the items of features that were trusted,
    with their digests; what they are now is compared where they are used.
    """

    configuration: Configuration
    verdicts: Mapping[str, Verdict]
    issue: Issue | None = None
    changed_data: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    trusted: frozenset[tuple[str, str]] = frozenset()


@runtime_checkable
class FileBackedSource(Protocol):
    """A source that reads files. They are checked together with the configuration."""

    def look(self, change_detector: ChangeDetector) -> None:
        """Check the files now; `change_detector` receives the paths that the tools depend on. Blocks."""


class ActiveSources:
    """Makes and replaces the sources of one workspace. The registry owns and closes them.

    Args:
        registry: takes the sources.
        dependencies: what sources depend on.
        builtin: the built-in sources, first in order unless they are disabled.
        factory: makes the sources that read or start something.
        change_detector: tells whether any file changed since the last check.
    """

    def __init__(
        self,
        registry: Registry,
        dependencies: Dependencies,
        builtin: Sequence[Source],
        factory: SourceFactory,
        change_detector: ChangeDetector | None = None,
    ) -> None:
        self._registry = registry
        self._dependencies = dependencies
        self._factory = factory
        self._world = factory.world(self.trusts)
        self._builtin = list(builtin)
        self._root = Path(dependencies.root)
        self._own_folder = os.path.join(dependencies.root, OWN_FOLDER)  # noqa: PTH118  a string, used for every request
        self._environ = dict(dependencies.environ)
        self._configurations = ConfigurationLoader(
            self._root,
            dependencies.config_dir,
            self._environ,
            manager_port=dependencies.manager_port or None,
            kept=dependencies.state_dir / KEPT,
        )
        self._store = TrustStore(dependencies.state_dir / "trust")
        self._items = TrustItemFactory(self._root)
        self._path = self._environ.get("PATH", "")
        self._has_shell_environment = False
        self._folders = (self._root, dependencies.config_dir, dependencies.state_dir)
        self._single_flight = SingleFlight(self._check_files)
        self._state: FileState | None = None
        self._in_force = Configuration()
        self._made: dict[str, tuple[object, Source]] = {}
        self._file_checks: list[Callable[[ChangeDetector], None]] = []
        self._change_detector = change_detector or ChangeDetector()
        self._rest = CheckRest()

    async def configure(self) -> Configuration:
        """The current configuration, for a request that has just arrived. Updates the sources to match it."""
        state = await self._single_flight.get()
        if not self._has_shell_environment and _needs_shell(state.configuration):
            shell = await self._dependencies.shell()
            if (
                not self._has_shell_environment
            ):  # the others wait for this as well, or they would use a different PATH
                self._has_shell_environment = True
                self._use_shell_environment(shell)
            state = await self._single_flight.get()
        if state is not self._state:
            self._state = state
            self._apply(state)
        return self._in_force

    def configure_nowait(self) -> Configuration | None:
        """The same without waiting; None if it has to wait or something changed."""
        state = self._single_flight.get_now()
        return self._in_force if state is not None and state is self._state else None

    async def close(self) -> None:
        """Wait for the check that is running, and stop waiting for the login shell."""
        await self._single_flight.close()
        await self._dependencies.close()

    def trusts(self, digests: Mapping[str, str]) -> Mapping[str, Verdict]:
        """The user's trust verdicts for these items, given by digest. Blocks."""
        return self._store.verdicts(self._root, digests)

    def _check_files(self) -> FileState:
        # the look-up of the user's decisions costs as much as a brief check, after which it is not needed
        if (
            self._rest.may_hold
            and self._rest.holds(self._store.state(self._root))
            and self._state is not None
        ):
            return self._state
        with self._rest.measured():
            return self._look()

    def _look(self) -> FileState:
        change_detector = self._change_detector
        if self._state is not None and change_detector.is_unchanged():
            return self._state
        self._rest.note(self._store.state(self._root))
        begun = change_detector.begin()
        state = self._read_files(change_detector)
        if state == self._state:
            state = self._state
        else:
            change_detector.mark_incomplete()  # report the change again until `configure` has applied it
        change_detector.end(begun)
        return state

    def _read_files(self, change_detector: ChangeDetector) -> FileState:
        configuration = self._configurations.current(change_detector)
        self._store.inherits = configuration.inherits_trust
        for check in self._file_checks:
            check(change_detector)
        marks = self._store.data_marks(self._root)
        items = self._items.all(configuration, self._path, change_detector, marks)
        verdicts = self._store.item_verdicts(self._root, items) if items else {}
        has_trust_items = bool(items) or os.path.lexists(self._own_folder)
        issue = self._store.issue(self._root) if has_trust_items else None
        proof = self._store.paths_of_proof(self._root) if has_trust_items else ()
        for path in (self._own_folder, *self._store.paths(self._root), *proof):
            change_detector.add_path(path)
        if issue is not None:
            change_detector.mark_incomplete()
        return FileState(
            configuration,
            verdicts,
            issue,
            self._changed_data(items, verdicts),
            {item.key: content_digest(item, str(self._root)) for item in items},
            self._trusted_by_prefix(),
        )

    def _trusted_by_prefix(self) -> frozenset[tuple[str, str]]:
        prefixes = tuple(part.trust_prefix for part in parts().values() if part.trust_prefix)
        return frozenset(entry for entry in self._store.decided(self._root) if entry[0].startswith(prefixes))

    def _changed_data(
        self, items: Sequence[TrustItem], verdicts: Mapping[str, Verdict]
    ) -> Mapping[str, tuple[str, ...]]:
        changed = [item for item in items if item.may_be_data and verdicts[item.key] == "changed"]
        recorded = self._store.recorded(self._root) if changed else {}
        changes = {item.key: changed_data(recorded.get(item.key), item) for item in changed}
        return {key: paths for key, paths in changes.items() if paths}

    def _use_shell_environment(self, environ: Mapping[str, str]) -> None:
        """Use the variables of the user's login shell for placeholders and for the search path."""
        self._path = environ.get("PATH", self._path)
        self._environ.update({**environ, **self._environ, "PATH": self._path})
        self._configurations.forget()
        self._check_anew()

    def _check_anew(self) -> None:
        self._change_detector.invalidate()
        self._rest.end()

    def _apply(self, state: FileState) -> None:
        self._check_anew()
        configuration, issues = state.configuration, [state.issue] if state.issue is not None else []
        verdict = state.verdicts.get(SETTINGS_KEY)
        if verdict == "trusted":
            configuration = apply_widening(configuration)
        elif verdict is not None:
            text = "Settings of this workspace that would offer more tools"
            issues.append(pending_issue(text, verdict, str(self._root)))
        self._in_force = replace(configuration, issues=(*configuration.issues, *issues))
        self._registry.internal_prefix = configuration.internal_prefix
        sources_by_key: dict[str, tuple[object, Source]] = {}
        for spec in self._specs(configuration, state):
            earlier = self._made.get(spec.key)
            is_same = earlier is not None and earlier[0] == spec.spec
            sources_by_key[spec.key] = (
                earlier if earlier is not None and is_same else (spec.spec, spec.make())
            )
        self._made = sources_by_key
        sources = [source for _, source in sources_by_key.values()]
        self._file_checks = [source.look for source in sources if isinstance(source, FileBackedSource)]
        scripts = configuration.scripts
        elsewhere = (*scripts.tools_path, *scripts.libraries_path)
        self._single_flight.may_be_quick = are_local((*self._folders, *elsewhere))
        self._registry.replace([*(self._builtin if configuration.builtin else ()), *sources])

    def _specs(self, configuration: Configuration, state: FileState) -> Iterator[SourceSpec]:
        """The sources in the order of their entries."""
        scripts = configuration.scripts
        for identity in naming.SCRIPT_SOURCES:
            yield SourceSpec(identity, scripts, partial(self._factory.script, identity, scripts, self.trusts))
        if scripts.execute_code:
            yield SourceSpec("execute_code", None, self._factory.code)
        for name, part in parts().items():
            trusted = frozenset(each for each in state.trusted if each[0].startswith(part.trust_prefix))
            yield from part.sources(configuration.features[name], self._world, trusted)
        servers: list[StdioServer | RemoteServer] = [*configuration.stdio, *configuration.remote]
        for entry in servers:
            key = server_key(entry)
            is_own = entry.origin.scope == "workspace"
            verdict = state.verdicts.get(key, "never") if is_own else "trusted"
            data = state.changed_data.get(key, ())
            guards = tuple(part.guards(configuration.features[name], key) for name, part in parts().items())
            guard = partial(self._guard, configuration, GuardedServer(key, state.digests.get(key, "")))
            make = partial(self._server, entry, verdict, data, guard)
            yield SourceSpec(key, (entry, verdict, data, guards), make)

    def _guard(self, configuration: Configuration, server: GuardedServer) -> DefinitionGuard | None:
        guards = (
            part.guard(configuration.features[name], self._world, server) for name, part in parts().items()
        )
        return next((guard for guard in guards if guard is not None), None)

    def _server(
        self,
        entry: StdioServer | RemoteServer,
        verdict: Verdict,
        data: Sequence[str],
        guard: Callable[[], DefinitionGuard | None],
    ) -> Source:
        if not entry.enabled:
            return self._factory.inactive(entry, "disabled")
        if entry.unkept:
            reason = restrictions.explain(entry.unkept, as_json=entry.origin.file.suffix == ".json")
            return self._factory.inactive(entry, "failed", error=reason)
        if verdict != "trusted":
            return self._factory.inactive(entry, "pending_trust", verdict, data)
        return self._factory.server(entry, guard())


def server_key(entry: StdioServer | RemoteServer) -> str:
    """The key under which an entry is trusted."""
    return stdio_key(entry.namespace) if isinstance(entry, StdioServer) else remote_key(entry.namespace)


def _needs_shell(configuration: Configuration) -> bool:
    """Whether the configuration may start a program, or uses a variable that only the login shell may set."""
    unresolved = any(issue.code == UNRESOLVED for issue in configuration.issues)
    needs_variables = any(
        entry.enabled and (entry.token_env or entry.defaulted) for entry in configuration.remote
    )
    return unresolved or needs_variables or any(entry.enabled for entry in configuration.stdio)


# A project that nobody trusts yet can bring thousands of tool folders. Whatever it brings, its checks take at
# most a tenth of the time.

BRIEF_S: Final = 0.05
"""Processor time up to which a check never rests, so that a change takes effect with the next request. The
check of a hundred tool folders takes a tenth of it."""
REST: Final = 9
"""How many times as long as it took a longer check rests."""


class CheckRest:
    """When a check may be left out. Used by one thread at a time, but for `end`.

    Args:
        clock: monotonic seconds.
        processor_s: the processor time of this thread in seconds: a busy machine makes no check long.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        processor_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._processor_s = processor_s
        self._until = 0.0
        self._decisions: Hashable = None

    @property
    def may_hold(self) -> bool:
        """Whether the last check was long; only then `holds` has to be asked."""
        return self._until > 0.0

    def note(self, decisions: Hashable) -> None:
        """Note the user's decisions before the files are read: a later rest holds only while they stay."""
        self._decisions = decisions

    def holds(self, decisions: Hashable) -> bool:
        """Whether the check may be left out now; not if `decisions`, those of the user, have changed."""
        has_decided, self._decisions = decisions != self._decisions, decisions
        return not has_decided and self._clock() < self._until

    def end(self) -> None:
        """Have the next check made."""
        self._until = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Make a check."""
        began = self._processor_s()
        yield
        took = self._processor_s() - began
        self._until = self._clock() + REST * took if took > BRIEF_S else 0.0
