"""Writes what the chart has from elsewhere: the plant's schema, alert rules and dashboards.

Helm reads nothing outside the chart's directory, so they are copies; a test compares them. Run it after a change of
docs/contracts/settings.schema.json, deploy/prometheus, deploy/grafana or values.schema.yaml:

    python deploy/helm/build.py
"""

import json
from pathlib import Path
from typing import Any, Final

import yaml

HERE = Path(__file__).parent
DEPLOY = HERE.parent
CHART = HERE / "anchormoe-agent"
SETTINGS = DEPLOY.parent / "docs" / "contracts" / "settings.schema.json"
RULES = DEPLOY / "prometheus" / "anchormoe.rules.yaml"
DASHBOARDS = ("agent", "alarms")

THRESHOLDS: Final = {
    "stuckSeconds": "(anchormoe_stuck_seconds) > 60",
    "backlogSeconds": "job:anchormoe_backlog_seconds:max > 120",
    "commitAgeSeconds": "(time() - process_start_time_seconds)) > 300",
    "unknownShare": "(rate(anchormoe_windows_judged_total[30m])) > 0.5",
    "deadLetterShare": "group_left () 0.01",
    "watermarkDelaySeconds": "(anchormoe_watermark_delay_seconds) > 300",
    "rejectedClaims": "(increase(anchormoe_rejected_claims_total[30m])) > 5",
    "sourceRestarts": "(increase(anchormoe_source_restarts_total[1h])) > 3",
    "loopDelaySeconds": "(anchormoe_loop_delay_max_seconds) > 2",
    "staleAlarms": "(anchormoe_alarms_stale) > 5",
    "alarmsPerDay": "(increase(anchormoe_alarms_announced_total[1d])) > 144",
}
"""By name in values.alerts.thresholds: where the figure, the last word, stands in the rules."""

JOBS: Final = 'job=~".*anchormoe.*"'
"""How the plain rules know our jobs. In the chart their names are known."""


def chart_rules() -> str:
    """The rules with @name@ for every figure that the values have. Raises where one is not found exactly once."""
    text = RULES.read_text()
    for name, place in THRESHOLDS.items():
        figure = place.split(" ")[-1]
        text = _replace_once(text, place, f"{place.removesuffix(figure)}@{name}@")
    if JOBS not in text:
        raise ValueError(f"{RULES.name}: {JOBS} is not there; adapt {Path(__file__).name}")
    return text.replace(JOBS, 'job=~"@jobs@"')


def _replace_once(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"{RULES.name}: {old!r} is there {text.count(old)} times; adapt {Path(__file__).name}")
    return text.replace(old, new)


def values_schema() -> dict[str, Any]:
    """The chart's schema with the plant's inside: definitions of both at the top, where references look for them."""
    schema: dict[str, Any] = yaml.safe_load((HERE / "values.schema.yaml").read_text())
    plant: dict[str, Any] = json.loads(SETTINGS.read_text())
    pod = schema["$defs"].pop("chart-pod")
    for component in ("agent", "alarms", "page"):
        schema["properties"][component]["properties"].update(pod)
    thresholds = {name: {"type": "number", "minimum": 0} for name in THRESHOLDS}
    schema["properties"]["alerts"]["properties"]["thresholds"]["properties"] = thresholds
    schema["properties"]["alerts"]["properties"]["disabled"]["items"] = {"enum": alert_names()}
    schema["$defs"] |= plant.pop("$defs")
    plant.pop("$schema")
    schema["properties"]["plant"] = plant
    return schema


def alert_names() -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]


def built() -> dict[Path, str]:
    files = {CHART / "files" / f"{name}.json": (DEPLOY / "grafana" / f"{name}.json").read_text() for name in DASHBOARDS}
    schema = json.dumps(values_schema(), indent=1, ensure_ascii=False) + "\n"
    return files | {
        CHART / "files" / "anchormoe.rules.yaml": chart_rules(),
        CHART / "values.schema.json": schema,
    }


if __name__ == "__main__":
    for path, text in built().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(path.relative_to(DEPLOY))  # noqa: T201  # a script
