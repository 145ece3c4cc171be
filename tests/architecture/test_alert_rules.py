"""Alert rules: each fires when it should and stays quiet when it should, by promtool; each has its runbook section."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from agent.cli.main import app
from tests.support.operations_tools import output_of, promtool

ROOT = Path(__file__).parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus" / "anchormoe.rules.yaml"
RUNBOOK = ROOT / "docs" / "runbook.md"
GROUPS = yaml.safe_load(RULES_FILE.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}
ONE = 'job="anchormoe",instance="x"'
PARTS = ("**What it means.**", "**First look.**", "**What to do.**", "**It ends by itself**")


@dataclass(frozen=True)
class Case:
    """Series by minute from 0; the alert is expected at `at` minutes with this summary, or not at all."""

    alert: str
    series: dict[str, str]
    at: int
    summary: str | None = None
    labels: dict[str, str] = field(default_factory=lambda: {"job": "anchormoe", "instance": "x"})


JOB = {"job": "anchormoe"}
STEADY = {f"anchormoe_records_total{{{ONE}}}": "0+6000x200"}
PARTITION = {"job": "anchormoe", "topic": "s", "partition": "0"}
AT_PARTITION = f'{ONE},topic="s",partition="0"'
CONSOLE = {"job": "anchormoe", "console": "ward"}
ON_CONSOLE = f'{ONE},console="ward"'

CASES = [
    Case("AnchormoeDown", {f"up{{{ONE}}}": "1x5 0x20"}, 12, "x does not answer"),
    Case("AnchormoeDown", {f"up{{{ONE}}}": "1x5 0x1 1x20"}, 12),
    Case("AnchormoeDown", {'up{job="node",instance="x"}': "0x20"}, 12),
    Case(
        "AnchormoeNoTargets",
        {f"up{{{ONE}}}": "1x30 _x30", 'up{job="anchormoe-alarms",instance="x"}': "1x60"},
        45,
        "nothing of anchormoe is there to be asked",
        JOB,
    ),
    Case("AnchormoeNoTargets", {f"up{{{ONE}}}": "1x30 0x30"}, 45),  # AnchormoeDown says so
    Case("AnchormoeNoTargets", {f"up{{{ONE}}}": "1x30 _x2 1x30"}, 45),  # a pod that moved
    Case("AnchormoeNoTargets", {f"up{{{ONE}}}": "1x30 _x30", f"up{{{ONE}}}".replace("x", "y"): "1x60"}, 45),
    Case("AnchormoeNoTargets", {'up{job="node",instance="x"}': "1x30 _x30"}, 45),
    Case(
        "AnchormoeStuck",
        {f"anchormoe_stuck_seconds{{{ONE}}}": "0x5 30 90 150 210 270"},
        9,
        "x has records to read and does not get on",
    ),
    Case("AnchormoeStuck", {f"anchormoe_stuck_seconds{{{ONE}}}": "0 30 55 0 0 30 55 0"}, 7),
    Case(
        "AnchormoeBacklogGrows",
        {**STEADY, f"anchormoe_lag_records{{{AT_PARTITION}}}": "0+1200x100"},
        50,
        "anchormoe is 10m 0s of work behind and falls back",
        JOB,
    ),
    Case(  # catching up after an outage is no reason to wake anybody
        "AnchormoeBacklogGrows", {**STEADY, f"anchormoe_lag_records{{{AT_PARTITION}}}": "100000-1000x60"}, 50
    ),
    Case("AnchormoeLagUnknown", {f"anchormoe_lag_known{{{ONE}}}": "1x5 0x30"}, 20, "x cannot say how far behind it is"),
    Case("AnchormoeLagUnknown", {f"anchormoe_lag_known{{{ONE}}}": "0x5 1x30"}, 20),
    Case(
        "AnchormoePartitionUnowned",
        {f"anchormoe_partitions{{{ONE}}}": "4x90", 'anchormoe_partitions{job="anchormoe",instance="y"}': "4x60 _x30"},
        72,
        "anchormoe owns 4 partitions, fewer than during the last day",
        JOB,
    ),
    Case(  # they moved to the other agent
        "AnchormoePartitionUnowned",
        {f"anchormoe_partitions{{{ONE}}}": "4x60 8x30", 'anchormoe_partitions{job="anchormoe",instance="y"}': "4x60"},
        72,
    ),
    Case(
        "AnchormoeNotCommitting",
        {**STEADY, f"anchormoe_commit_age_seconds{{{ONE}}}": "0+60x60"},
        20,
        "x reads, but has not committed for 20m 0s",
    ),
    Case(  # and has never committed
        "AnchormoeNotCommitting",
        {**STEADY, f"process_start_time_seconds{{{ONE}}}": "0x60"},
        20,
        "x reads, but has not committed for 20m 0s",
    ),
    Case(  # an old process that commits
        "AnchormoeNotCommitting",
        {
            **STEADY,
            f"process_start_time_seconds{{{ONE}}}": "0x60",
            f"anchormoe_commit_age_seconds{{{ONE}}}": "4x60",
        },
        20,
    ),
    Case(  # a quiet stream has nothing to commit
        "AnchormoeNotCommitting",
        {f"anchormoe_records_total{{{ONE}}}": "9x60", f"anchormoe_commit_age_seconds{{{ONE}}}": "0+60x60"},
        20,
    ),
    Case("AnchormoeStoreUnreachable", {f"anchormoe_store_reachable{{{ONE}}}": "1x3 0x9"}, 8, "x waits for Redis"),
    Case("AnchormoeStoreUnreachable", {f"anchormoe_waiting_for_store{{{ONE}}}": "0x3 1x9"}, 8, "x waits for Redis"),
    Case(
        "AnchormoeStoreUnreachable",
        {f"anchormoe_store_reachable{{{ONE}}}": "1x9", f"anchormoe_waiting_for_store{{{ONE}}}": "0x9"},
        8,
    ),
    Case("AnchormoeModelsNotLoaded", {f"anchormoe_models_loaded{{{ONE}}}": "0x20"}, 15, "x has no checked model"),
    Case("AnchormoeModelsNotLoaded", {f"anchormoe_models_loaded{{{ONE}}}": "0x3 1x20"}, 15),
    Case(
        "AnchormoeBundleRefused",
        {f'anchormoe_model_reloads_total{{{ONE},outcome="refused"}}': "0x5 1x20"},
        10,
        "a bundle was refused in anchormoe; the model before it goes on",
        JOB,
    ),
    Case("AnchormoeBundleRefused", {f'anchormoe_model_reloads_total{{{ONE},outcome="loaded"}}': "0x5 1x20"}, 10),
    Case(  # of an agent that has just started
        "AnchormoeBundleRefused",
        {f'anchormoe_model_reloads_total{{{ONE},outcome="refused"}}': "_x5 1x20"},
        10,
        "a bundle was refused in anchormoe; the model before it goes on",
        JOB,
    ),
    Case(
        "AnchormoeUnknownShare",
        {
            f'anchormoe_windows_judged_total{{{ONE},group="pumps",outcome="answered"}}': "0+20x200",
            f'anchormoe_windows_judged_total{{{ONE},group="pumps",outcome="low_margin"}}': "0+50x200",
            f'anchormoe_windows_judged_total{{{ONE},group="pumps",outcome="low_coverage"}}': "0+30x200",
        },
        100,
        "80% of the windows of pumps are unknown",
        {"job": "anchormoe", "group": "pumps"},
    ),
    Case(
        "AnchormoeUnknownShare",
        {
            f'anchormoe_windows_judged_total{{{ONE},group="pumps",outcome="answered"}}': "0+60x200",
            f'anchormoe_windows_judged_total{{{ONE},group="pumps",outcome="low_margin"}}': "0+40x200",
        },
        100,
    ),
    Case(
        "AnchormoeDeadLetters",
        {
            **STEADY,
            f'anchormoe_dead_letters_total{{{ONE},reason="late"}}': "0+30x60",
            f'anchormoe_dead_letters_total{{{ONE},reason="not_json"}}': "0+120x60",
        },
        45,
        "2 records/s are refused as not_json",
        {"job": "anchormoe", "reason": "not_json"},
    ),
    Case("AnchormoeDeadLetters", {**STEADY, f'anchormoe_dead_letters_total{{{ONE},reason="late"}}': "0+30x60"}, 45),
    Case(
        "AnchormoeLostRecords",
        {f"anchormoe_lost_records_total{{{ONE}}}": "0x61 60x60"},
        100,
        "60 records of anchormoe were deleted before they were read",
        JOB,
    ),
    Case("AnchormoeLostRecords", {f"anchormoe_lost_records_total{{{ONE}}}": "60x200"}, 100),
    Case(  # at the start after an outage, before the first scrape
        "AnchormoeLostRecords",
        {f"anchormoe_lost_records_total{{{ONE}}}": "_x30 60x60"},
        50,
        "60 records of anchormoe were deleted before they were read",
        JOB,
    ),
    Case(  # Prometheus was away, an hour ago
        "AnchormoeLostRecords", {f"anchormoe_lost_records_total{{{ONE}}}": "60x60 _x20 60x60"}, 130
    ),
    Case(
        "AnchormoeInternalErrors",
        {f'anchormoe_internal_errors_total{{{ONE},stage="classify"}}': "0x5 1x20"},
        10,
        "the agent itself failed on records in anchormoe (classify)",
        {"job": "anchormoe", "stage": "classify"},
    ),
    Case("AnchormoeInternalErrors", {f'anchormoe_internal_errors_total{{{ONE},stage="classify"}}': "0x20"}, 10),
    Case(  # of an agent that has just started
        "AnchormoeInternalErrors",
        {f'anchormoe_internal_errors_total{{{ONE},stage="classify"}}': "_x5 2x20"},
        10,
        "the agent itself failed on records in anchormoe (classify)",
        {"job": "anchormoe", "stage": "classify"},
    ),
    Case(
        "AnchormoeWatermarkBehind",
        {
            f"anchormoe_watermark_delay_seconds{{{AT_PARTITION}}}": "600x30",
            f"anchormoe_lag_records{{{AT_PARTITION}}}": "50x30",
        },
        20,
        "s/0 is 10m 0s behind the clock with records waiting",
        PARTITION,
    ),
    Case(  # silent sensors
        "AnchormoeWatermarkBehind",
        {
            f"anchormoe_watermark_delay_seconds{{{AT_PARTITION}}}": "0+60x60",
            f"anchormoe_lag_records{{{AT_PARTITION}}}": "0x60",
        },
        40,
    ),
    Case(
        "AnchormoeFenced",
        {f"anchormoe_rejected_claims_total{{{ONE}}}": "0+1x30"},
        20,
        "two owners fought over partitions in anchormoe",
        JOB,
    ),
    Case("AnchormoeFenced", {f"anchormoe_rejected_claims_total{{{ONE}}}": "0 0 1 2x30"}, 20),  # one hand-over
    Case(
        "AnchormoeSourceRestarts",
        {f"anchormoe_source_restarts_total{{{ONE}}}": "0 0 1 1 2 2 3 3 4 4 5 5 5"},
        12,
        "the watchdog of x keeps restarting its consumer",
    ),
    Case("AnchormoeSourceRestarts", {f"anchormoe_source_restarts_total{{{ONE}}}": "0x5 1x20"}, 12),
    Case(
        "AnchormoeEventLoopSlow",
        {f"anchormoe_loop_delay_max_seconds{{{ONE}}}": "3x30"},
        20,
        "the event loop of x stands still for 3s",
    ),
    Case("AnchormoeEventLoopSlow", {f"anchormoe_loop_delay_max_seconds{{{ONE}}}": "3x2 0.1x30"}, 20),
    Case(
        "AnchormoeAlarmFlood",
        {f"anchormoe_alarm_flood{{{ON_CONSOLE}}}": "0x5 1x30"},
        20,
        "console ward is flooded",
        CONSOLE,
    ),
    Case("AnchormoeAlarmFlood", {f"anchormoe_alarm_flood{{{ON_CONSOLE}}}": "0x5 1x3 0x30"}, 20),
    Case(
        "AnchormoeAlarmsNotDelivered",
        {f'anchormoe_alarm_webhooks_pending{{{ONE},receiver="pager"}}': "0x5 3x30"},
        20,
        "pager has not taken 3 alarms",
        {"job": "anchormoe", "receiver": "pager"},
    ),
    Case("AnchormoeAlarmsNotDelivered", {f'anchormoe_alarm_webhooks_pending{{{ONE},receiver="p"}}': "3x5 0x30"}, 20),
    Case(  # the first request of its token
        "AnchormoeAlarmsRefused",
        {f'anchormoe_alarm_webhooks_total{{{ONE},receiver="pager",outcome="refused"}}': "_x5 1x30"},
        8,
        "pager refuses alarms",
        {"job": "anchormoe", "receiver": "pager"},
    ),
    Case(
        "AnchormoeAlarmsRefused",
        {f'anchormoe_alarm_webhooks_total{{{ONE},receiver="pager",outcome="refused"}}': "1x60 2 3x10"},
        65,
        "pager refuses alarms",
        {"job": "anchormoe", "receiver": "pager"},
    ),
    Case(  # long ago
        "AnchormoeAlarmsRefused",
        {f'anchormoe_alarm_webhooks_total{{{ONE},receiver="pager",outcome="refused"}}': "_x5 1x60"},
        50,
    ),
    Case(  # away, which AnchormoeAlarmsNotDelivered is about
        "AnchormoeAlarmsRefused",
        {f'anchormoe_alarm_webhooks_total{{{ONE},receiver="pager",outcome="failed"}}': "_x5 1+1x60"},
        50,
    ),
    Case(
        "AnchormoeAlarmsStale",
        {f"anchormoe_alarms_stale{{{ON_CONSOLE}}}": "6x100"},
        70,
        "6 alarms of ward stand for more than a day",
        CONSOLE,
    ),
    Case("AnchormoeAlarmsStale", {f"anchormoe_alarms_stale{{{ON_CONSOLE}}}": "5x100"}, 70),
    Case(
        "AnchormoeAlarmsOverused",
        {f'anchormoe_alarms_announced_total{{{ON_CONSOLE},priority="low"}}': "0+1x1500"},
        1450,
        "more than one alarm in ten minutes over a day at ward: rationalise",
        CONSOLE,
    ),
    Case(
        "AnchormoeAlarmsOverused",
        {f'anchormoe_alarms_announced_total{{{ON_CONSOLE},priority="low"}}': "0x1000 100x600"},
        1450,
    ),
]


def test_promtool_accepts_the_rules() -> None:
    assert "SUCCESS" in output_of([promtool(), "check", "rules", RULES_FILE])


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    assert {case.alert for case in CASES if case.summary} == set(ALERTS)
    assert {case.alert for case in CASES if not case.summary} == set(ALERTS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert} {'fires' if case.summary else 'is quiet'}")
def test_an_alert_fires_when_it_should(case: Case, tmp_path: Path) -> None:
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(promtool_test(case)))
    assert "SUCCESS" in output_of([promtool(), "test", "rules", tmp_path / "test.yaml"])


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    case = Case("AnchormoeDown", {f"up{{{ONE}}}": "1x50"}, 12, "x does not answer")
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(promtool_test(case)))
    assert "FAILED" in output_of([promtool(), "test", "rules", tmp_path / "test.yaml"], fails=True)


def promtool_test(case: Case) -> dict[str, Any]:
    rule = ALERTS[case.alert]
    told = {**rule["annotations"], "summary": case.summary}
    expected = [{"exp_labels": {**rule["labels"], **case.labels}, "exp_annotations": told}] if case.summary else []
    return {
        "rule_files": [str(RULES_FILE)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{case.at}m", "alertname": case.alert, "exp_alerts": expected},
                ],
            }
        ],
    }


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page) == RUNBOOK
    assert anchor in sections()
    text = sections()[anchor]
    assert [part for part in PARTS if part not in text] == []
    assert len(re.findall(r"```sh\n(.*?)```", text.split(PARTS[2])[0], re.DOTALL)) == 1, "one command to look first"


def sections() -> dict[str, str]:
    """By GitHub's anchor."""
    parts = re.split(r"^##+ (.+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return {anchor_of(title): text for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def anchor_of(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_no_section_of_the_runbook_is_for_an_alert_that_does_not_exist() -> None:
    about_alerts = {anchor for anchor in sections() if anchor.startswith("anchormoe")}
    assert about_alerts == {name.lower() for name in ALERTS}


def test_the_seldom_tasks_have_a_section_each_with_a_command() -> None:
    seldom = {
        "upgrade", "rollback", "model-change", "partition-increase", "moving-a-cluster", "restoring-redis",
        "poison-record", "disk-full", "certificate-rotation", "what-to-save-for-a-bug-report",
    }  # fmt: skip
    assert seldom <= set(sections())
    assert [name for name in seldom if "```sh" not in sections()[name]] == []


FOREIGN = {"curl", "df", "helm", "journalctl", "kafka-configs.sh", "kafka-consumer-groups.sh", "kafka-topics.sh"} | {
    "kubectl", "openssl", "promtool", "redis-cli", "systemctl", "tar",
}  # fmt: skip
"""Programs of others that an operator has; what they do here cannot be tried without their services."""


def runbook_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", RUNBOOK.read_text(), re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines() if line.strip()]


@pytest.mark.parametrize("line", runbook_commands())
def test_a_command_of_the_runbook_is_a_real_command(line: str) -> None:
    for piece in line.split(" | "):
        program, *arguments = shlex.split(piece, comments=True)
        if program == "anchormoe-agent":
            parse(arguments)
        else:
            assert program in FOREIGN | {"grep"}, f"{program} in {line}"


def parse(arguments: list[str]) -> None:
    """By the command line itself: unknown commands, options and missing arguments raise."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("anchormoe-agent", list(arguments))
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["windows", "list", "--wrong"])
