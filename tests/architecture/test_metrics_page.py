"""docs/metrics.md has every metric of the code, and no other."""

import re
from pathlib import Path

from prometheus_client.core import CounterMetricFamily

from tests.support.dashboards import expressions, rule_expressions, uses
from tests.support.metrics_page import PAGE, labels_of, page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_code_tells() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.support.metrics_page"


def test_what_dashboards_and_rules_ask_for_is_on_the_page() -> None:
    asked = [*expressions("agent"), *expressions("alarms"), *rule_expressions("anchormoe-agent")]
    names = {name for each in asked for name, _ in uses(each) if name.startswith("anchormoe_")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in names} - on_the_page() == set()


def test_pages_name_no_metric_that_does_not_exist() -> None:
    form = re.compile(r"\banchormoe_[a-z0-9_]*(?:_total|_seconds|_info|_records|_age|_bytes)\b")
    named = {(page.name, name) for page in DOCS.glob("*.md") for name in form.findall(page.read_text())}
    assert {each for each in named if each[1] not in on_the_page()} == set()


def test_labels_are_those_declared_where_nothing_was_counted_yet() -> None:
    assert labels_of(CounterMetricFamily("a", "b", labels=["reason"])) == ["reason"]


def on_the_page() -> set[str]:
    return set(re.findall(r"^\| `(anchormoe_\w+)`", PAGE.read_text(), re.MULTILINE))
