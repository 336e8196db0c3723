"""The text of `/metrics`, as a collector reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from manager.admin.measures import MeasuresSnapshot, WorkspaceMeasures
from manager.admin.prometheus_text import CONTENT_TYPE, render
from manager.supervision.instance import BOUNDS, Histogram

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def histogram(*seconds: float) -> Histogram:
    made = Histogram()
    for one in seconds:
        made.add(one)
    return made


def workspace(identity: str, *took: float) -> WorkspaceMeasures:
    failures = {"call_timed_out": 2, "overloaded": 1}
    none = Histogram()
    return WorkspaceMeasures(identity, True, 7, failures, 3, 1, 4, 5, histogram(*took), none, none, none)


def samples(*workspaces: WorkspaceMeasures, left_out: int = 0) -> Samples:
    measured = MeasuresSnapshot("1.2.3", workspaces, left_out, 11, 12, 13, 14, histogram(0.002))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(render(measured).decode())
        for sample in family.samples
    }


def of(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


FIGURES = ("sessions", "streams", "buffered_bytes", "buffered_peak_bytes", "workspaces_left_out")


def test_figures_of_the_manager_have_no_labels() -> None:
    found = samples(workspace("a"), left_out=3)
    shown = {name: of(found, f"lmtb_{name}") for name in FIGURES}
    assert shown == {
        "sessions": 11, "streams": 12, "buffered_bytes": 13, "buffered_peak_bytes": 14, "workspaces_left_out": 3,
    }  # fmt: skip
    assert of(found, "lmtb_workspaces") == 4
    assert of(found, "lmtb_info", version="1.2.3") == 1
    assert of(found, "lmtb_loop_lag_seconds_count") == 1


def test_figures_of_a_workspace_carry_its_id() -> None:
    found = samples(workspace("a-1"), workspace("b-2"))
    names = ("calls_total", "restarts_total", "serving", "in_flight", "listening", "tasks")
    assert [of(found, f"lmtb_{name}", workspace="b-2") for name in names] == [7, 5, 1, 3, 1, 4]
    assert of(found, "lmtb_errors_total", workspace="a-1", reason="call_timed_out") == 2
    assert of(found, "lmtb_errors_total", workspace="a-1", reason="overloaded") == 1


def test_buckets_are_cumulative_and_end_with_the_total() -> None:
    took = (0.00001, 0.0015, 0.002, 0.0021, 9000.0)
    found = samples(workspace("a", *took))
    name, labels = "lmtb_call_duration_seconds", {"workspace": "a", "hop": "manager"}

    def below(bound: str) -> float:
        return of(found, f"{name}_bucket", **labels, le=bound)

    assert [below("1e-05"), below("0.001"), below("0.002"), below("500.0"), below("+Inf")] == [1, 1, 3, 4, 5]
    assert of(found, f"{name}_count", **labels) == 5
    assert abs(of(found, f"{name}_sum", **labels) - sum(took)) < 1e-9


def test_an_empty_histogram_has_no_buckets() -> None:
    told = {
        (name, dict(labels).get("hop")) for name, labels in samples(workspace("a", 0.1)) if "duration" in name
    }
    assert {hop for _, hop in told} == {"manager"}
    assert not [name for name, _ in told if name.startswith("lmtb_wait")]


def test_bounds_are_one_two_and_five() -> None:
    found = samples(workspace("a"))
    bounds = {dict(labels)["le"] for name, labels in found if name == "lmtb_loop_lag_seconds_bucket"}
    shown = {float(bound) for bound in bounds - {"+Inf"}}
    assert shown == {bound for bound in BOUNDS if f"{bound:e}"[0] in "125" and f"{bound:e}"[2] == "0"}
    assert "+Inf" in bounds


def test_a_name_that_could_break_the_format_is_escaped() -> None:
    nasty = 'a"} 1\nlmtb_x{y="\\'
    found = samples(workspace(nasty))
    assert of(found, "lmtb_calls_total", workspace=nasty) == 7
    assert not [name for name, _ in found if name == "lmtb_x"]


def test_rendering_again_keeps_nothing_of_the_previous_page() -> None:
    assert ("lmtb_calls_total", frozenset({("workspace", "a")})) in samples(workspace("a"))
    assert not [name for name, _ in samples() if name == "lmtb_calls_total"]


def test_the_content_type_is_the_prometheus_text_format() -> None:
    assert CONTENT_TYPE.startswith("text/plain; version=")
