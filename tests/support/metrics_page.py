"""Writes docs/metrics.md: every metric as the agent and the alarm worker tell it, and the alerts that ask for it.

python -m tests.support.metrics_page
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent.alarms.counters import AlarmCounters
from agent.alarms.metrics import AlarmCollector
from agent.health.counters import Counters
from agent.health.metrics import AgentCollector
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.web.guard import Refusals
from agent.web.metrics import RefusalCollector
from tests.support.alarm_log import catalogue, rule
from tests.support.dashboards import RULES, uses

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_SUFFIXES = {"counter": ("_total",), "info": ("_info",), "gauge": ("",)}
_HEAD = """\
# Metrics

Written by `python -m tests.support.metrics_page` from the code; do not edit. A test compares it.

At `/metrics`, in Prometheus' text format: port 8787 of the agent (`http`), 8788 of the alarm worker (`alarms.http`);
the page has none. Who may read them: [access](access.md). Counters begin at 0 with each start. No metric has a label
per asset, but for the ten most frequent alarms; questions about one asset belong to the [page](page.md). Histograms
have `_bucket`, `_sum` and `_count`, summaries `_sum` and `_count`. Dashboards and rules are in `deploy/`; what to do
about an alert says the [runbook](runbook.md).
"""


def page() -> str:
    agent = AgentCollector(Counters(), Progress(), RuntimeStatus())
    alarms = AlarmCollector(AlarmCounters(), list, catalogue(rule()))
    parts = [
        _HEAD,
        "## Agent\n",
        *_table(agent),
        "\nBeside them `process_…` of the Prometheus client: processor, memory, open files, start.\n",
        "## Alarm worker\n",
        *_table(alarms),
        "\n## Both\n",
        *_table(RefusalCollector(Refusals())),
    ]
    return "\n".join(parts) + "\n"


def _table(collector: Collector) -> Iterator[str]:
    yield "| metric | type | labels | what it says | alerts |"
    yield "| --- | --- | --- | --- | --- |"
    for family in sorted(collector.collect(), key=lambda each: each.name):
        yield _row(family)


def _row(family: Metric) -> str:
    names = [family.name + suffix for suffix in _SUFFIXES.get(family.type, ("",))]
    labels = ", ".join(f"`{name}`" for name in labels_of(family)) or "–"
    alerts = ", ".join(f"[{name}](runbook.md#{name.lower()})" for name in _alerts_with(names)) or "–"
    return f"| `{names[0]}` | {family.type} | {labels} | {family.documentation.rstrip('.')} | {alerts} |"


def labels_of(family: Metric) -> list[str]:
    """Declared, or those of its samples; a family without samples has only the declared ones."""
    declared = list(getattr(family, "_labelnames", ()))
    seen = {name for sample in family.samples for name in sample.labels} - {"le"}
    return declared or sorted(seen)


def _alerts_with(names: Iterable[str]) -> list[str]:
    wanted = set(names)
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    recorded = {each["record"]: {name for name, _ in uses(each["expr"])} for each in rules if "record" in each}
    found = []
    for each in rules:
        asked = {name for name, _ in uses(each["expr"])}
        asked |= set().union(*(recorded.get(name, set()) for name in asked))
        if "alert" in each and asked & wanted:
            found.append(each["alert"])
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
