"""Lists the features of the manager and of its command line, and defines what a feature may add to them.

A feature is a folder of `lm_tools_bridge` and its line in `FEATURES`; nothing else of the manager names it.
Its entry module, such as `lm_tools_bridge/page/feature.py`, is loaded when it is needed, and loads the rest
when that is needed. It has:

    VERBS             the verbs that the feature adds to `lmtb`, as `Verb`
    make_part(start)  what it adds to the daemon, as `DaemonPart`
    run_quickly()     runs its `quick_verb`, and returns if click has to run it
    offer_first_steps()  asks the person who started the first manager what it may set up, if it `sets_up`
    find_host(address)  the host of a project as `ReachedHost`, and the folder there, if it `reaches_hosts`

Without the folder and the line, the feature is gone. One that uses another asks `has_feature` first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from manager.admin.control.services import Services
    from manager.admin.measures import Counter, Measures
    from manager.call_observer import CallObserver
    from manager.configuration.paths import Paths
    from manager.configuration.settings import Settings
    from manager.guests import GuestGate
    from manager.http import lazy_aiohttp as web
    from manager.sessions.session_manager import SessionManager
    from manager.supervision.remote_hosts import MakeRemoteHosts
    from manager.supervision.workspaces import Workspaces
    from manager.waiting_calls import WaitingCalls

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, and when its entry module is needed.

    Attributes:
        name: its folder in `lm_tools_bridge`.
        verbs: its verbs of `lmtb`.
        is_in_daemon: whether it adds something to the daemon.
        quick_verb: the words of a command line that it runs without click, which is slow to load.
        reaches_hosts: whether it runs verbs on the hosts of projects that are not on this machine.
        sets_up: whether it has something to offer to a person who starts the first manager.
    """

    name: str
    verbs: tuple[str, ...] = ()
    is_in_daemon: bool = False
    quick_verb: str = ""
    reaches_hosts: bool = False
    sets_up: bool = False

    def load(self) -> Any:
        """Its entry module."""
        return import_module(f"lm_tools_bridge.{self.name}.feature")


FEATURES: Final = (
    Feature("agent", verbs=("agent",), quick_verb="agent"),
    Feature("approvals", verbs=("approvals",), is_in_daemon=True),
    Feature("client_setup", verbs=("adopt", "client"), sets_up=True),
    Feature("code_intelligence", verbs=("languages", "hook")),
    Feature("demo", verbs=("demo",)),
    Feature("doctor", verbs=("doctor",)),
    Feature("published_servers", verbs=("add", "outdated")),
    Feature("page", verbs=("ui",), is_in_daemon=True),
    Feature("recorder", verbs=("calls", "record", "replay"), is_in_daemon=True),
    Feature(
        "remote_hosts", verbs=("remote",), is_in_daemon=True, quick_verb="remote serve", reaches_hosts=True
    ),
    Feature("team", verbs=("team",), is_in_daemon=True),
    Feature("tokens", verbs=("token",), is_in_daemon=True),
    Feature("top", verbs=("top",)),
    Feature("uninstall", verbs=("uninstall",)),
)


def has_feature(name: str) -> bool:
    """Whether a feature is part of this program."""
    return any(feature.name == name for feature in FEATURES)


# -- verbs ------------------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """A verb of `lmtb` that a feature adds.

    Attributes:
        name: of the verb, and of the command in its module.
        module: loaded when the verb is used.
        line: describes it in the overview.
        section: of the overview.
        after: the verb that it follows there; without that verb, it is the last of its section.
        for_anyone: the words of verbs that decide nothing (`lm_tools_bridge/terminal/deciding_verbs.py`).
        for_anyone_if: the same for verbs that decide or not, as their options say.
        synonyms: words of other programs for it -> what to write here.
    """

    name: str
    module: str
    line: str
    section: str
    after: str
    for_anyone: tuple[str, ...] = ()
    for_anyone_if: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {}
    synonyms: Mapping[str, str] = {}


def verbs_of(feature: Feature) -> tuple[Verb, ...]:
    """The verbs that a feature adds."""
    verbs: tuple[Verb, ...] = feature.load().VERBS if feature.verbs else ()
    return verbs


def run_quickly(words: str) -> None:
    """Run a quick verb; returns if these words are none, or if click has to run them."""
    for feature in FEATURES:
        if words and feature.quick_verb == words:
            feature.load().run_quickly()


def offer_first_steps() -> None:
    """Ask the person at the terminal what features may set up, right after the first start of a manager."""
    for feature in FEATURES:
        if feature.sets_up:
            feature.load().offer_first_steps()


class ReachedHost(Protocol):
    """A host on which a feature runs verbs."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    def run(self, words: Sequence[str]) -> int:
        """Run a verb of this program there, at this terminal; its exit code."""


# -- the daemon -------------------------------------------------------------------------------------------


class DaemonStart(NamedTuple):
    """What a feature may know before the daemon has any part.

    Attributes:
        address: the URL of the manager's MCP endpoint.
        proof_reason: why every connection has to prove who sends it; None if those of this user need not.
    """

    settings: Settings
    paths: Paths
    address: str
    proof_reason: str | None = None


class DaemonParts(NamedTuple):
    """The parts of the daemon that features use.

    Attributes:
        open_private_endpoint: opens the MCP endpoint at a private socket, unless it is open; its path.
            An `OSError` says why it cannot be opened.
    """

    services: Services
    status: Callable[[], dict[str, Any]]
    measures: Measures
    waiting_calls: WaitingCalls
    session_manager: SessionManager
    workspaces: Workspaces
    open_private_endpoint: Callable[[], Awaitable[Path]]


class AddedRoutes(NamedTuple):
    """Routes of a feature.

    Attributes:
        routes: what it serves.
        for_anyone: method and path of those that decide nothing (`manager/admin/control/decisions.py`).
        overview: shows the state of the manager to browsers.
        close: called when the server of the routes stops.
    """

    routes: Sequence[web.RouteDef] = ()
    for_anyone: frozenset[str] = frozenset()
    overview: Handler | None = None
    close: Callable[[web.Application], Awaitable[None]] | None = None


class DaemonPart:
    """What a feature adds to the daemon. A feature overrides what it needs.

    The daemon makes it before its own parts, connects it to them, and runs it once requests are answered.
    """

    def connect(self, parts: DaemonParts) -> None:
        """Use these parts of the daemon from now on."""

    async def run(self) -> None:
        """Work beside requests until the daemon cancels this."""

    async def drain(self) -> None:
        """Take no new calls, and let those end that run: the daemon stops."""

    async def close(self) -> None:
        """Save what is left: the parts of the daemon have ended."""

    def status(self) -> Mapping[str, Any]:
        """The members that it adds to the status."""
        return {}

    def problem(self) -> str | None:
        """Why it cannot do its work, for the status; None if it can."""
        return None

    def counters(self) -> Sequence[Counter]:
        """The counters that it adds to the metrics."""
        return ()

    def observer(self) -> CallObserver | None:
        """Who is told of the calls that end; None leaves that to others."""
        return None

    def remote_hosts(self) -> MakeRemoteHosts | None:
        """Makes what finds projects on other hosts; None for a feature that finds none."""
        return None

    def waiting_calls(self) -> WaitingCalls | None:
        """Who learns of the calls that wait for a person; None leaves that to others."""
        return None

    def guest_gate(self) -> GuestGate | None:
        """Who decides about peers that are not known to be this user; None leaves that to others."""
        return None

    def port_routes(self) -> AddedRoutes:
        """What it serves at the manager's port; called once for each server of the same routes."""
        return AddedRoutes()

    def control_routes(self) -> AddedRoutes:
        """What it serves at the control socket."""
        return AddedRoutes()


def make_parts(start: DaemonStart) -> dict[str, DaemonPart]:
    """The parts that features add to the daemon, by the names of the features."""
    return {feature.name: feature.load().make_part(start) for feature in FEATURES if feature.is_in_daemon}


def make_remote_hosts(parts: Iterable[DaemonPart]) -> MakeRemoteHosts | None:
    """Makes what finds projects on other hosts, as the first part that does has it."""
    makers = (part.remote_hosts() for part in parts)
    return next((make for make in makers if make is not None), None)
