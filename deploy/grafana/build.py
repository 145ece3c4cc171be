"""Writes the Grafana dashboards beside itself: `python deploy/grafana/build.py`. Plain dictionaries, no library."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WHERE = 'job=~"$job",instance=~"$instance"'
WIDTH, HEIGHT = 24, 8
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """`queries` are (legend, PromQL); `%s` in PromQL is the choice of job and instance."""

    title: str
    about: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 8
    limits: tuple[float, ...] = ()
    stacked: bool = False


def rate(metric: str, by: str = "", more: str = "") -> str:
    total = f"sum by ({by}) " if by else "sum"
    return f"{total}(rate({metric}{{%s{more}}}[$__rate_interval]))"


def quantile(metric: str, q: float, by: str = "le") -> str:
    return f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket{{%s}}[$__rate_interval])))"


def ours(query: str) -> str:
    """Without other programs, which have metrics of these names too: "All" jobs are all of this Prometheus."""
    return f"{query} and on (job, instance) anchormoe_build_info{{%s}}"


AGENT_ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    (
        "Is it well",
        (
            Panel(
                "Up",
                "Agents that answer Prometheus, and how many there should be.",
                "none",
                (
                    ("answer", "sum(up{%s} and on (job) anchormoe_build_info{%s})"),
                    ("configured", "count(up{%s} and on (job) anchormoe_build_info{%s})"),
                ),
                "stat",
                4,
            ),
            Panel(
                "Version",
                "Versions that run now; more than one during an upgrade.",
                "none",
                (("{{version}}", "count by (version) (anchormoe_build_info{%s})"),),
                "stat",
                4,
            ),
            Panel(
                "Models",
                "Which model judges which group.",
                "none",
                (("{{group}}: {{name}} {{version}}", "max by (group, name, version) (anchormoe_model_info{%s})"),),
                "stat",
                8,
            ),
            Panel(
                "Work behind",
                "How long the present backlog takes if nothing more comes.",
                "s",
                (
                    (
                        "behind",
                        "max(sum by (job, instance) (anchormoe_lag_records{%s}) / "
                        "clamp_min(sum by (job, instance) (rate(anchormoe_records_total{%s}[$__rate_interval])), 1))",
                    ),
                ),
                "stat",
                8,
                (60, 120),
            ),
            Panel(
                "Stuck, waiting, paused",
                "Red: has work and does not get on, waits for Redis, does not read, or cannot say its lag.",
                "none",
                (
                    ("{{instance}} stuck", "anchormoe_stuck_seconds{%s} > bool 5"),
                    ("{{instance}} waits for the store", "anchormoe_waiting_for_store{%s}"),
                    ("{{instance}} paused", "anchormoe_paused{%s}"),
                    ("{{instance}} lag unknown", "1 - anchormoe_lag_known{%s}"),
                ),
                "state-timeline",
                12,
                (1,),
            ),
            Panel(
                "Event delay",
                "From a window's end to the publication of its state.",
                "s",
                (
                    ("p50", quantile("anchormoe_event_delay_seconds", 0.5)),
                    ("p99", quantile("anchormoe_event_delay_seconds", 0.99)),
                ),
                width=12,
            ),
        ),
    ),
    (
        "Work",
        (
            Panel(
                "Records and windows",
                "Records read and windows that became due.",
                "cps",
                (("records", rate("anchormoe_records_total")), ("windows", rate("anchormoe_windows_total"))),
            ),
            Panel(
                "Events", "Published events by type.", "cps", (("{{type}}", rate("anchormoe_events_total", "type")),)
            ),
            Panel(
                "Assets by state",
                "How many assets stand where, by their last state.",
                "none",
                (("{{group}} {{state}}", "sum by (group, state) (anchormoe_assets{%s})"),),
                stacked=True,
            ),
            Panel(
                "Unknown, by reason",
                "Share of windows on which the model does not answer, by rule.",
                "percentunit",
                (
                    (
                        "{{outcome}}",
                        rate("anchormoe_windows_judged_total", "outcome", ',outcome!="answered"')
                        + " / ignoring (outcome) group_left () "
                        + rate("anchormoe_windows_judged_total"),
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Sensor faults",
                "Sensors that became unhealthy, by finding.",
                "cps",
                (("{{finding}}", rate("anchormoe_sensor_faults_total", "finding")),),
            ),
            Panel(
                "Commit age",
                "Time since the last commit; a restart repeats that much.",
                "s",
                (("{{instance}}", "anchormoe_commit_age_seconds{%s}"),),
            ),
        ),
    ),
    (
        "Where time goes",
        (
            Panel(
                "Seconds per second",
                "Share of the time that each stage works.",
                "percentunit",
                (("{{stage}}", rate("anchormoe_stage_seconds_sum", "stage")),),
                stacked=True,
            ),
            Panel(
                "Stage p99",
                "Time per batch and stage.",
                "s",
                (("{{stage}}", quantile("anchormoe_stage_seconds", 0.99, "le, stage")),),
            ),
            Panel(
                "Windows per batch",
                "How many windows the model gets at once.",
                "none",
                (("{{le}}", rate("anchormoe_batch_windows_bucket", "le")),),
                "heatmap",
            ),
            Panel(
                "Loop delay",
                "How long the event loop does not run; Kafka throws out members that are silent for long.",
                "s",
                (
                    ("p99", quantile("anchormoe_loop_delay_seconds", 0.99)),
                    ("longest", "max(anchormoe_loop_delay_max_seconds{%s})"),
                ),
                limits=(2.0,),
            ),
        ),
    ),
    (
        "Partitions",
        (
            Panel(
                "Lag", "Records still to be read.", "none", (("{{topic}}/{{partition}}", "anchormoe_lag_records{%s}"),)
            ),
            Panel(
                "Owner changes",
                "How often a partition was claimed.",
                "none",
                (("{{topic}}/{{partition}}", "changes(anchormoe_owner_epoch{%s}[$__rate_interval])"),),
            ),
            Panel(
                "Watermark delay",
                "Newest event time behind the clock; silent sensors raise it too.",
                "s",
                (("{{topic}}/{{partition}}", "anchormoe_watermark_delay_seconds{%s}"),),
            ),
            Panel("Partitions per agent", "Owned partitions.", "none", (("{{instance}}", "anchormoe_partitions{%s}"),)),
        ),
    ),
    (
        "Trouble",
        (
            Panel(
                "Dead letters",
                "Records that could not be used.",
                "cps",
                (("{{reason}}", rate("anchormoe_dead_letters_total", "reason")),),
            ),
            Panel(
                "Ignored and late",
                "Skipped because the settings say so; arrived after their window.",
                "cps",
                (
                    ("{{reason}}", rate("anchormoe_ignored_total", "reason")),
                    ("late", rate("anchormoe_late_records_total")),
                ),
            ),
            Panel(
                "Fenced, restarted, reloaded, failed",
                "Refused claims, restarts of the source, reloads of models, exceptions inside the agent.",
                "cps",
                (
                    ("fenced", rate("anchormoe_rejected_claims_total")),
                    ("source restarts", rate("anchormoe_source_restarts_total")),
                    ("bundle {{outcome}}", rate("anchormoe_model_reloads_total", "outcome")),
                    ("error in {{stage}}", rate("anchormoe_internal_errors_total", "stage")),
                    ("lost records", rate("anchormoe_lost_records_total")),
                ),
            ),
        ),
    ),
    (
        "Store and process",
        (
            Panel(
                "Checkpoint bytes", "Sent to the store.", "Bps", (("bytes", rate("anchormoe_checkpoint_bytes_total")),)
            ),
            Panel(
                "Checkpoints", "Stored and committed.", "cps", (("checkpoints", rate("anchormoe_checkpoints_total")),)
            ),
            Panel(
                "CPU",
                "Cores in use.",
                "none",
                (("{{instance}}", ours("rate(process_cpu_seconds_total{%s}[$__rate_interval])")),),
            ),
            Panel("Memory", "Resident.", "bytes", (("{{instance}}", ours("process_resident_memory_bytes{%s}")),)),
            Panel("Open files", "Descriptors.", "none", (("{{instance}}", ours("process_open_fds{%s}")),)),
        ),
    ),
)

ALARM_ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    (
        "Figures of ISA-18.2",
        (
            Panel(
                "Alarms in ten minutes",
                "1 is acceptable, 2 manageable, over 10 a flood.",
                "none",
                (("{{console}}", "max by (console) (anchormoe_alarm_rate_10min{%s})"),),
                limits=(1, 2, 10),
            ),
            Panel(
                "Share of time in flood",
                "Target: below 1 %.",
                "percentunit",
                (("{{console}}", "max by (console) (avg_over_time(anchormoe_alarm_flood{%s}[1d]))"),),
                limits=(0.01,),
            ),
            Panel(
                "Stale",
                "Active for more than a day. Target: below 5.",
                "none",
                (("{{console}}", "max by (console) (anchormoe_alarms_stale{%s})"),),
                limits=(5,),
            ),
            Panel(
                "Chattering",
                "Come and go. Target: none.",
                "none",
                (("{{console}}", "max by (console) (anchormoe_alarms_chattering{%s})"),),
                limits=(1,),
            ),
            Panel(
                "Fleeting",
                "Returned within a minute, per day.",
                "none",
                (("{{console}}", "sum by (console) (increase(anchormoe_alarms_fleeting_total{%s}[1d]))"),),
            ),
            Panel(
                "Announced by priority",
                "Target: about 80 % low, 15 % medium, 5 % high.",
                "percentunit",
                (
                    (
                        "{{priority}}",
                        "sum by (priority) (increase(anchormoe_alarms_announced_total{%s}[1d])) "
                        "/ ignoring (priority) group_left () sum(increase(anchormoe_alarms_announced_total{%s}[1d]))",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Time to acknowledge",
                "Mean, from the announcement.",
                "s",
                (
                    (
                        "{{console}}",
                        rate("anchormoe_alarm_acknowledge_seconds_sum", "console")
                        + " / "
                        + rate("anchormoe_alarm_acknowledge_seconds_count", "console"),
                    ),
                ),
            ),
            Panel(
                "Most frequent alarms",
                "The ten most frequent of each console.",
                "none",
                (("{{alarm}}", "topk(10, max by (console, alarm) (anchormoe_alarm_bad_actor_raises{%s}))"),),
                "table",
            ),
            Panel(
                "Present",
                "Alarms by state: active, acknowledged, shelved, out of service.",
                "none",
                (("{{state}} {{priority}}", "sum by (state, priority) (anchormoe_alarms_present{%s})"),),
                stacked=True,
            ),
        ),
    ),
    (
        "The worker",
        (
            Panel(
                "Not delivered",
                "Alarms that a receiver has not accepted yet.",
                "none",
                (("{{receiver}}", "max by (receiver) (anchormoe_alarm_webhooks_pending{%s})"),),
                limits=(1,),
            ),
            Panel(
                "Requests",
                "To receivers, by outcome.",
                "cps",
                (("{{receiver}} {{outcome}}", rate("anchormoe_alarm_webhooks_total", "receiver, outcome")),),
            ),
            Panel(
                "Inputs",
                "Applied, and those that changed nothing.",
                "cps",
                (
                    ("applied", rate("anchormoe_alarm_inputs_total")),
                    ("{{reason}}", rate("anchormoe_alarm_inputs_ignored_total", "reason")),
                ),
            ),
        ),
    ),
)

VIEWS = {"Work": "fleet", "Figures of ISA-18.2": "alarms", "The worker": "shelf"}
"""By row: the view of the operator page that says more; the others have its health."""

ANNOTATIONS = {
    "agent": (
        (
            "Model changes",
            "count by (group, digest) (anchormoe_model_info{%s}) unless "
            "count by (group, digest) (anchormoe_model_info{%s} offset 2m)",
        ),
        ("Restarts", ours("changes(process_start_time_seconds{%s}[$__rate_interval]) > 0")),
    ),
    "alarms": (("Floods", "max by (console) (anchormoe_alarm_flood{%s}) > 0"),),
}


def dashboard(name: str, title: str, metric: str, rows: Sequence[tuple[str, Sequence[Panel]]]) -> Json:
    return {
        "uid": f"anchormoe-{name}",
        "title": title,
        "tags": ["anchormoe"],
        "editable": False,
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), *(_variable(label, metric) for label in ("job", "instance")), _page()]},
        "annotations": {"list": [_annotation(*each) for each in ANNOTATIONS[name]]},
        "links": [{"title": "Operator page", "type": "link", "url": "${page_url}", "targetBlank": True}],
        "panels": _place(rows),
    }


def _datasource() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _page() -> Json:
    return {"name": "page_url", "label": "Operator page", "type": "textbox", "query": "http://localhost:8789/"}


def _variable(label: str, metric: str) -> Json:
    chosen = f'{{job=~"$job"}}, {label}' if label == "instance" else f", {label}"
    return {
        "name": label,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": f"label_values({metric}{chosen})",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".+",
    }


def _annotation(name: str, query: str) -> Json:
    expression = query.replace("%s", WHERE)
    return {"name": name, "datasource": DATASOURCE, "enable": True, "iconColor": "blue", "expr": expression}


def _place(rows: Sequence[tuple[str, Sequence[Panel]]]) -> list[Json]:
    placed: list[Json] = []
    y = 0
    for title, panels in rows:
        placed.append(
            {
                "id": len(placed) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": _at(0, y, 24, 1),
            }
        )
        x, y = 0, y + 1
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + HEIGHT
            place = {"gridPos": _at(x, y, panel.width, HEIGHT), "links": [_link(VIEWS.get(title, "health"))]}
            placed.append({"id": len(placed) + 1, **_panel(panel), **place})
            x += panel.width
        y += HEIGHT
    return placed


def _link(view: str) -> Json:
    return {"title": f"Operator page: {view}", "url": f"${{page_url}}#/{view}", "targetBlank": True}


def _at(x: int, y: int, w: int, h: int) -> Json:
    return {"x": x, "y": y, "w": w, "h": h}


def _panel(panel: Panel) -> Json:
    colours = ["green", "yellow", "orange", "red"]
    steps = [{"color": colours[0], "value": None}]
    steps += [
        {"color": colour, "value": limit}
        for colour, limit in zip(colours[-len(panel.limits) :], panel.limits, strict=False)
    ]
    custom: Json = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    if panel.limits and panel.kind == "timeseries":
        custom["thresholdsStyle"] = {"mode": "line"}
    thresholds = {"mode": "absolute", "steps": steps}
    defaults = {"unit": panel.unit, "custom": custom, "thresholds": thresholds}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": DATASOURCE,
                "expr": query.replace("%s", WHERE),
                "legendFormat": legend,
                "instant": panel.kind == "table",
                "format": {"table": "table", "heatmap": "heatmap"}.get(panel.kind, "time_series"),
            }
            for at, (legend, query) in enumerate(panel.queries)
        ],
    }


def _options(panel: Panel) -> Json:
    match panel.kind:
        case "state-timeline":
            return {"perPage": 20, "rowHeight": 0.9, "showValue": "never"}
        case "stat":
            return {"textMode": "value_and_name", "reduceOptions": {"calcs": ["lastNotNull"]}}
        case _:
            return {}


DASHBOARDS = {
    "agent": dashboard("agent", "anchormoe agent", "anchormoe_build_info", AGENT_ROWS),
    "alarms": dashboard("alarms", "anchormoe alarms", "anchormoe_alarm_inputs_total", ALARM_ROWS),
}


def text_of(name: str) -> str:
    return json.dumps(DASHBOARDS[name], indent=1) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (HERE / f"{each}.json").write_text(text_of(each))
