"""The dashboards and rules in deploy/, with every metric and label that their PromQL names."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
RULES = ROOT / "deploy" / "prometheus" / "anchormoe.rules.yaml"
NAMES = ("agent", "alarms")
OF_PROMETHEUS = {"up", "job:anchormoe_backlog_seconds:max"}
OF_THE_SCRAPE = {"job", "instance"}

Use = tuple[str, frozenset[str]]
"""A metric, and the labels that are asked of it."""


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GRAFANA / f"{name}.json").read_text())
    return found


def built() -> dict[str, Any]:
    return runpy.run_path(str(GRAFANA / "build.py"))


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in load(name)["panels"] if panel["type"] != "row"]


def expressions(name: str) -> list[str]:
    targets = [target["expr"] for panel in panels(name) for target in panel["targets"]]
    return targets + [each["expr"] for each in load(name)["annotations"]["list"]]


def plain(expression: str) -> str:
    """Without Grafana's variables."""
    for variable, value in (("$__rate_interval", "5m"), ("$job", ".+"), ("$instance", ".+")):
        expression = expression.replace(variable, value)
    return expression


def rule_expressions(group: str) -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for each in groups if each["name"] == group for rule in each["rules"]]


def uses(expression: str) -> list[Use]:
    """Every metric with the labels by which it is chosen and by which an aggregation around it groups."""
    return list(_walk(promql_parser.parse(plain(expression)), frozenset()))


def _walk(node: Any, grouped: frozenset[str]) -> Iterator[Use]:
    if isinstance(node, promql_parser.VectorSelector):
        matched = {each.name for each in node.matchers.matchers if each.name != "__name__"}
        assert node.name is not None, "a selector without a name"
        yield node.name, frozenset(matched | grouped) - OF_THE_SCRAPE
        return
    modifier = getattr(node, "modifier", None)
    if isinstance(node, promql_parser.AggregateExpr) and modifier is not None:
        grouped = grouped | frozenset(modifier.labels)
    for name in ("expr", "lhs", "rhs", "vector_selector", "vs"):
        child = getattr(node, name, None)
        if child is not None:
            yield from _walk(child, grouped)
    for argument in getattr(node, "args", None) or ():
        yield from _walk(argument, grouped)
