"""Dashboards keep the rules of Grafana's dashboard linter, and are what deploy/grafana/build.py writes."""

import re
from typing import Any

import pytest

from tests.support.dashboards import GRAFANA, NAMES, built, expressions, load, panels, plain, uses
from tests.support.operations_tools import output_of, promtool

UNITS = {"none", "s", "cps", "percentunit", "Bps", "bytes"}
FIXED_RANGES = {"1d"}
"""Figures of the standard are per day, whatever the picture shows."""


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_what_the_script_writes(name: str) -> None:
    assert (GRAFANA / f"{name}.json").read_text() == built()["text_of"](name)


@pytest.mark.parametrize("name", NAMES)
def test_data_source_job_and_instance_are_chosen_by_the_reader(name: str) -> None:
    variables = {each["name"]: each for each in load(name)["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    for label in ("job", "instance"):
        assert variables[label]["allValue"] == ".+"
        assert variables[label]["refresh"] == 2, "when the time changes"
        assert variables[label]["multi"]
    assert load(name)["editable"] is False


ALL = [(name, panel) for name in NAMES for panel in panels(name)]


@pytest.mark.parametrize(("name", "panel"), ALL, ids=lambda one: one if isinstance(one, str) else one["title"])
def test_a_panel_says_what_it_shows_in_which_unit(name: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["targets"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("name", NAMES)
def test_a_panel_leads_to_a_view_of_the_operator_page(name: str) -> None:
    route = (GRAFANA.parents[1] / "agent" / "page" / "static" / "core" / "route.js").read_text()
    found = re.search(r"VIEWS = \[(.*?)\]", route)
    assert found is not None
    views = set(re.findall(r'"(\w+)"', found[1]))
    for panel in panels(name):
        [link] = panel["links"]
        page, _, view = link["url"].partition("#/")
        assert (page, view in views) == ("${page_url}", True), panel["title"]


def test_panels_do_not_overlap() -> None:
    for name in NAMES:
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in load(name)["panels"])
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(cells) == len(set(cells))
        assert all(x < 24 for x, _ in cells)


EXPRESSIONS = [each for name in NAMES for each in expressions(name)]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_is_about_the_chosen_jobs_and_instances(expression: str) -> None:
    selectors = re.findall(r"\{([^{}]*)\}", expression)
    assert len(selectors) == len(uses(expression)) > 0
    assert all('job=~"$job",instance=~"$instance"' in each for each in selectors)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_with_all_jobs_shows_no_other_programs(expression: str) -> None:
    """For "All", that is every job of this Prometheus: every program has `up` and `process_…`."""
    names = [name for name, _ in uses(expression)]
    foreign = [name for name in names if not name.startswith("anchormoe_")]
    assert not foreign or re.search(r"and on \(job(, instance)?\) anchormoe_build_info", expression)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_are_rates_over_the_interval_of_the_picture(expression: str) -> None:
    ranges = set(re.findall(r"\[([^\]]+)\]", expression))
    assert ranges <= {"$__rate_interval"} | FIXED_RANGES
    counters = re.findall(r"(\w+\()?(anchormoe_\w+_(?:total|bucket|sum|count))\b", expression)
    assert all(call in {"rate(", "increase("} for call, _ in counters)


def test_promtool_reads_every_query(tmp_path: Any) -> None:
    rules = "\n".join(f"      - {{record: 'a:b{at}', expr: {plain(each)!r}}}" for at, each in enumerate(EXPRESSIONS))
    (tmp_path / "rules.yaml").write_text(f"groups:\n  - name: all\n    rules:\n{rules}\n")
    assert f"SUCCESS: {len(EXPRESSIONS)}" in output_of([promtool(), "check", "rules", tmp_path / "rules.yaml"])
