"""What the chart gives to Prometheus, Grafana and KEDA: rules, dashboards, a query for autoscaling."""

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.support.chart import CHART, ROOT, VALUES, build, of_kind
from tests.support.dashboards import NAMES as DASHBOARDS
from tests.support.dashboards import expressions, rule_expressions, uses
from tests.support.operations_tools import output_of, promtool


def rule_groups(*settings: str) -> list[dict[str, Any]]:
    [found] = of_kind("PrometheusRule", "alarms-only", *settings)
    groups: list[dict[str, Any]] = found["spec"]["groups"]
    return groups


def test_the_rules_of_the_chart_are_the_plain_rules() -> None:
    plain = yaml.safe_load((ROOT / "deploy" / "prometheus" / "anchormoe.rules.yaml").read_text())["groups"]
    text = json.dumps(plain).replace(".*anchormoe.*", "anchormoe-agent(-alarms)?")
    found = rule_groups()
    for group in found:
        for rule in group["rules"]:
            rule["expr"] = rule["expr"].strip()
    expected = json.loads(text)
    for group in expected:
        for rule in group["rules"]:
            rule["expr"] = rule["expr"].strip()
    assert found == expected


def test_thresholds_labels_and_unwanted_alerts_are_those_of_the_values(tmp_path: Path) -> None:
    [found] = of_kind("PrometheusRule", "everything")
    alerts = {rule["alert"]: rule for group in found["spec"]["groups"] for rule in group["rules"] if "alert" in rule}
    assert "> 90" in alerts["AnchormoeStuck"]["expr"]
    assert "0.05 *" in alerts["AnchormoeDeadLetters"]["expr"]
    assert "AnchormoeAlarmsStale" not in alerts
    assert {rule["labels"]["team"] for rule in alerts.values()} == {"clinic"}
    assert alerts["AnchormoeStuck"]["annotations"]["runbook_url"] == (
        "https://git.example.org/anchormoe-agent/blob/main/docs/runbook.md#anchormoestuck"
    )
    assert "@" not in json.dumps([rule["expr"] for rule in alerts.values()])
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(found["spec"]))
    assert "SUCCESS" in output_of([promtool(), "check", "rules", tmp_path / "rules.yaml"])


def test_every_threshold_of_the_values_is_used() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["alerts"]["thresholds"]
    text = (CHART / "files" / "anchormoe.rules.yaml").read_text()
    assert set(re.findall(r"@(\w+)@", text)) == {*values, "jobs"}
    assert set(values) == set(build()["THRESHOLDS"])


def test_a_rule_that_changed_its_words_is_noticed() -> None:
    with pytest.raises(ValueError, match="is there 0 times"):
        build()["_replace_once"]("anchormoe_stuck_seconds >= 60", "anchormoe_stuck_seconds > 60", "")


def test_jobs_of_the_chart_are_those_that_its_rule_watches() -> None:
    [down] = [rule for group in rule_groups() for rule in group["rules"] if rule.get("alert") == "AnchormoeDown"]
    watched = re.search(r'job=~"(.+?)"', down["expr"])
    assert watched is not None
    monitored = {each["metadata"]["name"] for each in of_kind("ServiceMonitor", "everything")}
    assert monitored == {"anchormoe-agent", "anchormoe-agent-alarms"}
    assert all(re.fullmatch(watched[1], name) for name in monitored)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboards_are_given_to_grafana_as_they_are(name: str) -> None:
    maps = {key: each for each in of_kind("ConfigMap", "everything") for key in each["data"]}
    found = maps[f"anchormoe-{name}.json"]
    assert json.loads(found["data"][f"anchormoe-{name}.json"]) == json.loads(
        (ROOT / "deploy" / "grafana" / f"{name}.json").read_text()
    )
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert len(json.dumps(found)) < 1 << 20


def scaled(values: str, *settings: str) -> dict[str, Any]:
    [found] = of_kind("ScaledObject", values, *settings)
    spec: dict[str, Any] = found["spec"]
    return spec


@pytest.mark.parametrize("values", ["everything", "keda-kafka"])
def test_autoscaling_never_leaves_the_log_alone_nor_starts_idle_agents(values: str) -> None:
    spec, partitions = scaled(values), yaml.safe_load(VALUES[values].read_text())["autoscaling"]["partitions"]
    assert 1 <= spec["minReplicaCount"] <= spec["maxReplicaCount"] <= partitions
    assert spec["fallback"]["behavior"] == "currentReplicas"
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert [policy["value"] for policy in behavior["scaleUp"]["policies"]] == [1]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 900
    [workload] = of_kind("StatefulSet", values)
    assert "replicas" not in workload["spec"], "an upgrade would undo what KEDA did"
    assert spec["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": workload["metadata"]["name"],
    }


def test_autoscaling_by_prometheus_asks_for_metrics_that_are_checked_on_a_running_agent() -> None:
    [trigger] = scaled("everything")["triggers"]
    assert trigger["type"] == "prometheus"
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    query = trigger["metadata"]["query"]
    promql_parser.parse(query)
    checked = {name for each in expressions("agent") + rule_expressions("anchormoe-agent") for name, _ in uses(each)}
    assert {name for name, _ in uses(query)} <= checked
    assert query.count('{namespace="plants",job="anchormoe-agent"}') == 3


def demand(tmp_path: Path, records: list[str], lags: list[str]) -> float:
    """Of the chart's query after 20 minutes, by promtool: what it says when it expects another number."""
    [trigger] = scaled("everything")["triggers"]
    names = [f'instance="{at}",namespace="plants",job="anchormoe-agent"' for at in range(len(records))]
    series = [
        {"series": f"anchormoe_records_total{{{one}}}", "values": each}
        for one, each in zip(names, records, strict=True)
    ]
    series += [
        {"series": f"anchormoe_lag_records{{{one}}}", "values": each} for one, each in zip(names, lags, strict=True)
    ]
    wrong = [{"expr": trigger["metadata"]["query"], "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": -1}]}]
    rules = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": wrong}]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(rules))
    said = output_of([promtool(), "test", "rules", tmp_path / "test.yaml"], fails=True)
    found = re.search(r"got:.*?\{\} ([0-9.E+-]+)", said, re.DOTALL)
    assert found is not None, said
    return float(found[1])


def test_demand_is_what_arrives_and_the_backlog_over_the_catch_up_time(tmp_path: Path) -> None:
    """Worked out by hand. Steady: 600,000 and 300,000 a minute are 15,000/s; no backlog."""
    steady = demand(tmp_path, ["0+600000x30", "0+300000x30"], ["0x30", "0x30"])
    assert steady == pytest.approx(15_000)
    # Overloaded: 15,000/s are read, lag rises by 60,000 a minute (1,000/s) to 1,200,000 (over 600 s: 2,000/s).
    assert demand(tmp_path, ["0+900000x30"], ["0+60000x30"]) == pytest.approx(15_000 + 1_000 + 2_000)
    # Catching up: 20,000/s are read, of which 5,000/s from the backlog, which stands at 3,000,000.
    assert demand(tmp_path, ["0+1200000x30"], ["9000000-300000x30"]) == pytest.approx(20_000 - 5_000 + 5_000)


def test_autoscaling_by_kafka_does_not_take_uncommitted_records_for_a_backlog() -> None:
    triggers = scaled("keda-kafka")["triggers"]
    assert [each["metadata"]["topic"] for each in triggers] == ["sensors", "drives"]
    for trigger in triggers:
        # Twice 4,000 records/s over 5 s between two checkpoints.
        assert trigger["metadata"]["lagThreshold"] == "40000"
        assert trigger["metadata"]["consumerGroup"] == "judges"
        assert trigger["metadata"]["allowIdleConsumers"] == "false"
