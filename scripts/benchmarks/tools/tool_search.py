"""Measures `tool_search`: median milliseconds for 1,000, 2,000 and 10,000 tools.

Usage: .venv/bin/python -m scripts.benchmarks.tools.tool_search [tools ...]
The limit is 20 ms for 2,000 tools.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time

from workspace_server.tool_search.index import Index, Searchable
from workspace_server.tool_search.scoring import read_query
from workspace_server.tool_search.search_tool import SearchTool, answer, find

ROUNDS = 15
SERVICES = (
    "github gitlab jira slack notion linear stripe sentry postgres drive figma asana zendesk hubspot "
    "shopify aws kubernetes docker grafana datadog outlook calendar confluence airtable"
)
VERBS = (
    "get list create update delete search find send read write fetch sync export import archive "
    "merge close assign approve rename move copy count watch"
)
OBJECTS = (
    "issue repository pull_request message channel user file document event invoice customer order "
    "ticket pipeline dashboard alert branch commit comment label milestone release workflow secret "
    "variable deployment namespace container image volume bucket queue table record field view page "
    "database block project task"
)
DETAILS = (
    "by id", "for a team", "in batches", "with filters", "of the account", "since a date", "as text",
    "in detail", "with pagination", "including archived ones", "sorted by age", "for the current user",
)  # fmt: skip
SENTENCES = (
    "Returns at most {n} entries; use the cursor to get more.",
    "Requires the scope `{service}:{verb}`.",
    "Fails with an error if the {object} does not exist or you lack permission.",
    "Prefer this over the web interface when you need {detail}.",
    "The {object} is identified by its number (e.g. {n}) or its full path.",
    "Results are cached for {n} seconds.",
)
QUERIES = {
    "exact name": "{exact}",
    "part of a name": "repositor",
    "typing error": "kuberntes",
    "long typing error": "jira__creat_pull_reqest_in_btaches",
    "three words": "list github issues",
    "three typing errors": "lsit gihtub isseus",
    "sentence": "find a tool that sends a message to the customer of an order and closes the ticket",
    "two common letters": "er",
    "miss": "zzzzqqq",
    "empty": "",
}


def tools(count: int) -> list[Searchable]:
    """Generate different tools like those of real servers, the same on every run."""
    rng = random.Random(count)
    services, verbs, objects = SERVICES.split(), VERBS.split(), OBJECTS.split()
    made: dict[str, Searchable] = {}
    while len(made) < count:
        service, verb, thing = rng.choice(services), rng.choice(verbs), rng.choice(objects)
        detail = rng.choice(DETAILS)
        tail = rng.choice(
            ("", f"_{detail.replace(' ', '_')}", f"_{rng.choice(objects)}", f"_v{rng.randint(2, 99)}")
        )
        name = f"{service}__{verb}_{thing}{tail}"[:64]
        fill = {
            "service": service,
            "verb": verb,
            "object": thing,
            "detail": detail,
            "n": rng.randint(1, 5000),
        }
        sentences = [f"{verb.title()} a {thing.replace('_', ' ')} {detail} ({service})."]
        sentences += [text.format(**fill) for text in rng.sample(SENTENCES, rng.randint(0, 4))]
        definition = {"name": name, "description": " ".join(sentences), "inputSchema": {"type": "object"}}
        made[name] = Searchable(name, definition, (service, "remote", *thing.split("_")))
    return list(made.values())


def milliseconds(begun: float) -> float:
    """The milliseconds since `begun`."""
    return (time.perf_counter() - begun) * 1000


async def longest_pause(entries: list[Searchable]) -> tuple[float, float]:
    """The milliseconds of a first search, and the longest pause of the event loop during it."""
    pauses = [0.0]

    async def watch() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0)
            pauses.append(milliseconds(begun))

    watcher = asyncio.create_task(watch())
    begun = time.perf_counter()
    await SearchTool().search(entries, entries, {"query": "zzzzqqq"})
    whole = milliseconds(begun)
    watcher.cancel()
    return whole, max(pauses)


def measure(count: int) -> dict[str, float]:
    """The median milliseconds of each operation for `count` tools."""
    entries = tools(count)
    builds = []
    for _ in range(3):
        begun = time.perf_counter()
        index = Index.of(entries)
        builds.append(milliseconds(begun))
    whole, pause = asyncio.run(longest_pause(entries))
    times = {"build": statistics.median(builds), "first search, cold": whole, "longest pause of it": pause}
    for label, text in QUERIES.items():
        query = text.format(exact=entries[count // 2].name)
        taken = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            answer(find(index, read_query(query), 5))
            taken.append(milliseconds(begun))
        times[label] = statistics.median(taken)
    return times


def main(counts: list[int]) -> None:
    """Measure and print one column per number of tools."""
    columns = [measure(count) for count in counts]
    print(f"{'median ms, tools:':24}" + "".join(f"{count:>10,}" for count in counts))
    for label in columns[0]:
        print(f"{label:24}" + "".join(f"{column[label]:>10.2f}" for column in columns))


if __name__ == "__main__":
    main([int(given) for given in sys.argv[1:]] or [1_000, 2_000, 10_000])
