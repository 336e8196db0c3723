"""Decides which tools a request can call and which it gets listed: policy, visibility and mode. Pure.

Every tool in the view can be called by its name, listed or not. A tool outside the view does not exist for
clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Literal

from lm_tools_bridge.protocol import apps_extension as apps
from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal.client_traits import AS_OFFERED, ClientTraits, NameRules, OwnServers
from lm_tools_bridge.protocol.internal.source_states import STARTING, UNUSED
from lm_tools_bridge.protocol.issues import Issue
from workspace_server import naming
from workspace_server.catalog.client_names import ClientNames, near_names
from workspace_server.catalog.listing import passes_filters
from workspace_server.catalog.registry import OfferedTool, Snapshot
from workspace_server.config import policy
from workspace_server.config.model import Configuration, VisibilityChoices
from workspace_server.source import NOT_RUNNING, Source
from workspace_server.tool import Visibility
from workspace_server.tool_search.definitions import execute_alone, meta_tools
from workspace_server.trust.item import trust_command

Origin = Literal["source", "yours", "yours_for_source"]
"""Who says which visibility a tool has: its source, or the user for it or for all tools of its source."""


def apply_visibility(tools: Sequence[OfferedTool], choices: VisibilityChoices) -> Sequence[OfferedTool]:
    """The tools with the chosen visibilities; the same objects where nothing is chosen."""
    if not (choices.tools or choices.sources):
        return tools
    return [_applied(offered, choices.choice(offered.name, offered.source.id)) for offered in tools]


def _applied(offered: OfferedTool, choice: Visibility | None) -> OfferedTool:
    if choice is None or (choice == offered.tool.visibility and not offered.tool.unlisted):
        return offered
    return replace(offered, tool=replace(offered.tool, visibility=choice, unlisted=""))


def visibility_origin(offered: OfferedTool, choices: VisibilityChoices) -> Origin:
    """Who says which visibility a tool has."""
    if offered.name in choices.tools:
        return "yours"
    return "yours_for_source" if offered.source.id in choices.sources else "source"


def apply_defaults(
    tools: Sequence[OfferedTool], entries: Iterable[tuple[str, str, Any]]
) -> tuple[Sequence[OfferedTool], list[Issue]]:
    """The tools with these (tool, parameter, value) entries, and a warning for each entry that cannot apply.

    Entries about unknown tools are ignored without a warning: the tool may appear later.
    """
    by_tool: dict[str, dict[str, Any]] = {}
    for name, parameter, value in entries:
        by_tool.setdefault(name, {})[parameter] = value
    if not by_tool:
        return tools, []
    issues: list[Issue] = []
    applied = [
        _with_defaults(offered, by_tool[offered.name], issues) if offered.name in by_tool else offered
        for offered in tools
    ]
    return applied, issues


def _with_defaults(offered: OfferedTool, defaults: Mapping[str, Any], issues: list[Issue]) -> OfferedTool:
    schema = offered.schema
    properties = schema.get("properties")
    properties = dict(properties) if isinstance(properties, Mapping) else {}
    valid_defaults = {}
    for parameter, value in defaults.items():
        problem = _problem(schema, properties, parameter, value)
        if problem is None:
            valid_defaults[parameter] = value
            properties[parameter] = {**properties[parameter], "default": value}
        else:
            text = f"The default for {offered.name}.{parameter} is ignored: {problem}"
            issues.append(Issue("warning", "config", "SCHEMA_DEFAULT_IGNORED", text, offered.name))
    definition = {**offered.definition, "inputSchema": {**schema, "properties": properties}}
    return replace(offered, definition=definition, defaults=valid_defaults) if valid_defaults else offered


def _problem(
    schema: Mapping[str, Any], properties: Mapping[str, Any], parameter: str, value: Any
) -> str | None:
    if parameter not in properties or not isinstance(properties[parameter], Mapping):
        return "the tool has no such parameter"
    if parameter in schema.get("required", ()):
        return "the parameter is required"
    # loaded here: few users set defaults
    from workspace_server.schemas.validation import validator_for

    # the whole schema, so that references inside it keep their meaning
    alone = {**schema, "properties": {parameter: properties[parameter]}, "required": []}
    try:
        problems = validator_for(alone).check({parameter: value})
    except ValueError:
        return "the tool's schema cannot be checked"
    return problems[0].message if problems else None


Kind = Literal["tools", "prompts", "resources"]
"""The lists whose changes are announced; resource templates and skills belong to the resources."""
NO_TRAITS: Final = ClientTraits()


class Mode(Enum):
    """Which tools a request gets listed."""

    NORMAL = "normal"
    DISCOVERY = "discovery"
    SHOW_ALL = "show-all"


_SHOWN: Final[Mapping[Mode, frozenset[Visibility]]] = {
    Mode.NORMAL: frozenset({"native", "always"}),
    Mode.DISCOVERY: frozenset({"always"}),
    Mode.SHOW_ALL: frozenset({"native", "always", "ondemand"}),
}


APPS_ONLY: Final = "only apps of its server call it"
"""Why a tool is hidden from models, and from clients that show no apps."""


class AppTools:
    """The tools of one view that belong to apps.

    Attributes:
        app_only: offered names of the tools that models must not see.
        pages: the addresses of their pages, as clients know them.
    """

    def __init__(self, tools: Iterable[OfferedTool]) -> None:
        self._tools = {
            offered.name: (offered, ui)
            for offered in tools
            if "_meta" in offered.definition and (ui := apps.tool_ui(offered.definition)) is not None
        }
        self.app_only = frozenset(name for name, (_, ui) in self._tools.items() if ui.is_app_only)
        self.pages = frozenset(ui.page for _, ui in self._tools.values() if ui.page is not None)
        self._by_own_name: dict[str, list[OfferedTool]] = {}
        self._by_identity: dict[str, list[OfferedTool]] = {}
        for offered, ui in self._tools.values():
            if ui.for_app:
                self._by_own_name.setdefault(offered.tool.name, []).append(offered)
                if (identity := apps.identity(offered.definition)) is not None:
                    self._by_identity.setdefault(identity, []).append(offered)

    def __bool__(self) -> bool:
        return bool(self._tools)

    def has_page(self, name: str) -> bool:
        """Whether a page shows the results of the tool with this offered name."""
        return name in self._tools and self._tools[name][1].page is not None

    def meant(self, name: str) -> Sequence[OfferedTool]:
        """The tools that an app can mean by a name that is no offered one.

        Apps call tools by the names that their servers gave them; those of FastMCP by the tool's identity.
        Tools that do not belong to an app are never meant: a name that a model misspelt must run nothing.
        """
        if (identity := apps.named_identity(name)) is not None and identity in self._by_identity:
            return self._by_identity[identity]
        return self._by_own_name.get(name, ())


def app_tools(tools: Iterable[OfferedTool]) -> AppTools | None:
    """The tools of apps among these; None if there are none, so that nothing has to be asked of them."""
    return AppTools(tools) or None


_STARTING: Final = frozenset({*STARTING, "backoff"})
_FINAL: Final = frozenset({"ready", "idle", *UNUSED})
"""States in which a source without tools is known to have none."""


@dataclass(frozen=True, slots=True)
class View:
    """The callable tools at one moment, in list order.

    Attributes:
        snapshot, configuration: what the view was made from.
        hidden: all other tools by name, with the reason why they cannot be called.
        issues: those of the snapshot and of the configuration.
        apps: the tools that belong to apps; None if there are none.
        server_names: the names that clients get in the view of a single server; None in any other
            (`server_view.py`).
        server_views: the views of single servers that were made of this one, by the servers' names.
    """

    snapshot: Snapshot = field(default_factory=Snapshot)
    configuration: Configuration = field(default_factory=Configuration)
    tools: tuple[OfferedTool, ...] = ()
    by_name: Mapping[str, OfferedTool] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    apps: AppTools | None = field(default=None, compare=False)
    server_names: ClientNames | None = field(default=None, compare=False)
    server_views: dict[str, View] = field(init=False, repr=False, compare=False, default_factory=dict)
    _client_names: dict[NameRules, ClientNames] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _for_models: list[View] = field(init=False, repr=False, compare=False, default_factory=list)

    def get(self, name: str) -> OfferedTool | None:
        """The callable tool of exactly this name."""
        return self.by_name.get(name)

    @property
    def has_apps(self) -> bool:
        """Whether a server has apps, by its own word or by that of its tools."""
        return self.apps is not None or any(source.has_apps for source in self.snapshot.sources)

    def for_models(self) -> View:
        """The view without the tools that only apps call: for models, and for clients that show no apps."""
        if self.apps is None or not self.apps.app_only:
            return self
        if not self._for_models:
            self._for_models.append(self._without(self.apps.app_only))
        return self._for_models[0]

    def _without(self, names: frozenset[str]) -> View:
        tools = tuple(offered for offered in self.tools if offered.name not in names)
        by_name = {offered.name: offered for offered in tools}
        hidden = {**self.hidden, **dict.fromkeys(names, APPS_ONLY)}
        return replace(self, tools=tools, by_name=by_name, hidden=hidden, apps=None)

    def names_for(self, rules: NameRules) -> ClientNames | None:
        """The names of the tools for clients with these rules; None if these are the offered ones."""
        if rules == AS_OFFERED or self.server_names is not None:
            return self.server_names
        names = self._client_names.get(rules)
        if names is None:
            prefixes = map(naming.prefix_of, self.snapshot.sources)
            names = self._client_names[rules] = ClientNames(self.tools, prefixes, rules)
        return names

    def forwarded(self, name: str) -> tuple[Source, str] | None:
        """The source that takes calls of this unlisted name, and its own name for the tool.

        None if no source forwards the name, or its configuration or the policy forbids the tool.
        """
        if name in self.hidden or name in self.by_name or self._is_internal(name):
            return None
        candidates = [
            (len(prefix), source, name.removeprefix(prefix))
            for source in self.snapshot.sources
            if source.accepts_unlisted and (prefix := naming.prefix_of(source)) and name.startswith(prefix)
        ]
        _, source, own = max(candidates, key=lambda candidate: candidate[0], default=(0, None, ""))
        if source is None or not own or not passes_filters(source, own):
            return None
        return None if policy.hidden({name: source.default}, self.configuration.deltas) else (source, own)

    def source_without_list(self, name: str, kind: Kind = "tools") -> Source | None:
        """The source that could have a tool or prompt of this name, but has not listed anything yet."""
        if self._is_internal(name) or name in self.hidden:
            return None
        entries = self.snapshot.tools if kind == "tools" else self.snapshot.offerings.prompts
        listed_sources = {offered.source.id for offered in entries}
        sources_by_name = [
            (len(prefix), source)
            for source in self.snapshot.sources
            if source.id not in listed_sources
            and (source.id in self.snapshot.awaited or source.state not in _FINAL)
            and ((prefix := naming.prefix_of(source)) or naming.has_foreign_names(source))
            and name.startswith(prefix)
        ]
        return max(sources_by_name, key=lambda candidate: candidate[0], default=(0, None))[1]

    def source_down(self, name: str) -> Source | None:
        """The source with this name's namespace, if it is not running or disabled.

        A list that is known is from the last time it answered; it may have this tool when it is back.
        """
        if self._is_internal(name) or name in self.hidden:
            return None
        candidates = [
            (len(prefix), source)
            for source in self.snapshot.sources
            if source.state in NOT_RUNNING
            and (prefix := naming.prefix_of(source))
            and name.startswith(prefix)
        ]
        return max(candidates, key=lambda candidate: candidate[0], default=(0, None))[1]

    def trust_path_for(self, name: str) -> str | None:
        """The path that has to be trusted before this name can be called; None if trust is not missing."""
        if self._is_internal(name):
            return None
        waiting = [source for source in self.snapshot.sources if source.state == "pending_trust"]
        for source in waiting:
            if (prefix := naming.prefix_of(source)) and name.startswith(prefix):
                return source.trust_path
        if name in self.snapshot.withheld or name in self.by_name or name in self.hidden:
            return self.snapshot.withheld.get(name)
        # a server without namespace could have any name; a name close to a known one is a typing error
        bare = next((source for source in waiting if naming.is_bare(source)), None)
        return None if bare is None or self.nearest(name) else bare.trust_path

    def trust_hint_for(self, name: str) -> str:
        """How the user keeps the server of this namespace from waiting for trust again; or empty."""
        hints = (
            source.trust_hint
            for source in self.snapshot.sources
            if source.trust_hint and name.startswith(naming.prefix_of(source) or name)
        )
        return next(hints, "")

    def nearest(self, name: str) -> list[str]:
        """Up to five callable names for the same deed as this one, best first; none for an internal name."""
        if self._is_internal(name):
            return []
        return near_names(
            name, ((offered_name, offered.tool.name) for offered_name, offered in self.by_name.items())
        )

    def listed(
        self,
        mode: Mode,
        own_servers: Sequence[OwnServers] = (),
        traits: ClientTraits = NO_TRAITS,
        *,
        keeps_meta_tools: bool = False,
    ) -> list[Mapping[str, Any]]:
        """The definitions that `tools/list` shows in this mode, in list order.

        With the meta-tools, if a model can reach tools that are not in the list.

        Args:
            mode: with `SHOW_ALL`, `own_servers` has no effect.
            own_servers: servers that the client starts itself; their tools are left out.
            traits: what is special about the client.
            keeps_meta_tools: whether the client was shown the meta-tools before.
        """
        visibilities = _SHOWN[mode]
        own_servers = () if mode is Mode.SHOW_ALL else own_servers
        definitions = [
            offered.definition
            for offered in self.tools
            if offered.tool.visibility in visibilities
            and not is_own_server(offered.source, own_servers)
            and not (mode is not Mode.SHOW_ALL and self._is_left_out(offered, traits))
        ]
        if added := self._meta_tools(mode, traits, keeps_meta_tools):
            definitions.extend(added)
            definitions.sort(key=lambda definition: naming.sort_key(definition["name"]))
        return definitions

    def _is_left_out(self, offered: OfferedTool, traits: ClientTraits) -> bool:
        """Whether lists leave a tool out that its visibility would show."""
        if offered.tool.unlisted:
            return True
        return traits.has_file_tools and self.repeats_clients(offered)

    def repeats_clients(self, offered: OfferedTool) -> bool:
        """Whether a tool does what agents with tools for files and commands have anyway.

        One that the user chose a visibility for counts as wanted.
        """
        if offered.source.kind != "builtin":
            return False
        return visibility_origin(offered, self.configuration.visibility) == "source"

    def needs_meta_tools(self, mode: Mode) -> bool:
        """Whether a model needs the meta-tools to reach all tools in this mode."""
        return mode is Mode.DISCOVERY or (mode is Mode.NORMAL and (self._has_on_demand or self.is_listing))

    def _meta_tools(self, mode: Mode, traits: ClientTraits, is_kept: bool) -> Sequence[Mapping[str, Any]]:
        if mode is Mode.SHOW_ALL:
            return ()
        if self.server_names is not None and not self.needs_meta_tools(mode):
            return ()
        if is_kept or self.needs_meta_tools(mode):
            return meta_tools(traits)
        return (execute_alone(traits),) if traits.lists_once else ()

    @property
    def is_listing(self) -> bool:
        """Whether a source has not listed its tools yet, but is expected to."""
        return bool(self.starting)

    @property
    def starting(self) -> Sequence[Source]:
        """The sources that have not listed any tools yet, but are expected to."""
        waiting = [source for source in self.snapshot.sources if self.expects_tools(source)]
        listed_sources = {offered.source.id for offered in self.snapshot.tools} if waiting else set()
        return [source for source in waiting if source.id not in listed_sources]

    def expects_tools(self, source: Source) -> bool:
        """Whether a source without tools is going to list some without anybody's help."""
        return source.id in self.snapshot.awaited or source.state in _STARTING

    def _is_internal(self, name: str) -> bool:
        return naming.is_internal_tool(name, self.configuration.internal_prefix)

    @property
    def _has_on_demand(self) -> bool:
        return any(offered.tool.visibility == "ondemand" for offered in self.tools)

    def differences(self, other: View) -> frozenset[Kind]:
        """The lists that differ between the two views, in any mode."""
        mine, theirs = self._lists(), other._lists()
        return frozenset(kind for kind, entries in mine.items() if entries != theirs[kind])

    def _lists(self) -> Mapping[Kind, object]:
        offerings = self.snapshot.offerings
        described = [
            (offered.name, offered.tool.description) for offered in self.tools
        ]  # each tool is a resource as well
        return {
            "tools": [
                (offered.definition, offered.tool.visibility, offered.tool.unlisted) for offered in self.tools
            ],
            "prompts": [prompt.definition for prompt in offerings.prompts],
            "resources": (
                described,
                [
                    entry.definition
                    for entry in (*offerings.resources, *offerings.templates, *offerings.skills)
                ],
            ),
        }


def is_own_server(source: Source, own_servers: Sequence[OwnServers]) -> bool:
    """Whether the client starts the server of a source itself."""
    if source.project_file is None or not own_servers:
        return False
    namespace = source.id.partition(":")[2]
    return any(own.starts(source.project_file, namespace) for own in own_servers)


def mode_of(header: Mapping[str, str], query: Mapping[str, str]) -> Mode:
    """The mode of one request; a header takes precedence over its query parameter.

    Args:
        header: the request's headers, case-insensitive.
        query: the decoded query parameters.
    """
    lines = [
        (header[name] if name in header else query.get(member, "")).strip().lower()
        for name, member in headers.TOOL_MODES.items()
    ]
    if lines[0] == "discovery":
        return Mode.DISCOVERY
    return Mode.SHOW_ALL if lines[1] == "true" else Mode.NORMAL


def build_view(snapshot: Snapshot, configuration: Configuration) -> View:
    """The view of a snapshot under a configuration."""
    defaults = {offered.name: offered.source.default for offered in snapshot.tools}
    hidden = dict(policy.hidden(defaults, configuration.deltas))
    for name in snapshot.by_name:
        if naming.is_internal_tool(name, configuration.internal_prefix):
            hidden[name] = "internal: it is never offered to clients"
    for name, source in snapshot.filtered.items():
        hidden.setdefault(name, f"left out by include or exclude of source {source.id}")
    for name, path in snapshot.withheld.items():
        if name not in snapshot.by_name:  # an untrusted tool takes no name away
            hidden.setdefault(name, f"waits for trust: {trust_command(path)}")
    visible = [offered for offered in snapshot.tools if offered.name not in hidden]
    chosen_tools = apply_visibility(visible, configuration.visibility)
    tools, issues = apply_defaults(chosen_tools, configuration.schema_defaults)
    return View(
        snapshot,
        configuration,
        tuple(tools),
        {offered.name: offered for offered in tools},
        hidden,
        (*snapshot.issues, *configuration.issues, *issues),
        app_tools(tools),
    )


def counts(tools: Sequence[OfferedTool]) -> dict[str, int]:
    """The number of these tools per source id."""
    counts: dict[str, int] = {}
    for offered in tools:
        counts[offered.source.id] = counts.get(offered.source.id, 0) + 1
    return counts
