"""Every field of counters, progress and status reaches Prometheus."""

from collections import Counter
from dataclasses import fields

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.health.counters import Counters
from agent.health.metrics import exposition, make_registry
from agent.health.progress import Progress
from agent.health.status import STAGES, RuntimeStatus
from agent.models.classifier import ModelName
from connectors.records import Partition

AT = Partition("sensors", 3)
NAMES = {
    "records": "anchormoe_records_total",
    "expired_assets": "anchormoe_expired_assets_total",
    "ignored": "anchormoe_ignored_total",
    "refetched_records": "anchormoe_refetched_records_total",
    "lost_records": "anchormoe_lost_records_total",
    "sequence_gaps": "anchormoe_sequence_gaps_total",
    "replaced_logs": "anchormoe_replaced_logs_total",
    "moved_commits": "anchormoe_moved_commits_total",
    "oversized": "anchormoe_oversized_messages_total",
    "windows": "anchormoe_windows_total",
    "judged": "anchormoe_windows_judged_total",
    "assets": "anchormoe_assets",
    "models": "anchormoe_model_info",
    "event_delay": "anchormoe_event_delay_seconds_bucket",
    "last_commit_s": "anchormoe_commit_age_seconds",
    "checkpoints": "anchormoe_checkpoints_total",
    "events": "anchormoe_events_total",
    "dead_letters": "anchormoe_dead_letters_total",
    "sensor_faults": "anchormoe_sensor_faults_total",
    "internal_errors": "anchormoe_internal_errors_total",
    "record_windows_max": "anchormoe_record_windows_max",
    "last_poll_s": "anchormoe_poll_age_seconds",
    "last_progress_s": "anchormoe_progress_age_seconds",
    "last_tick_s": "anchormoe_loop_tick_age_seconds",
    "last_healthy_s": "anchormoe_stuck_seconds",
    "models_loaded": "anchormoe_models_loaded",
    "store_reachable": "anchormoe_store_reachable",
    "waiting_for_store": "anchormoe_waiting_for_store",
    "paused": "anchormoe_paused",
    "partitions": "anchormoe_owner_epoch",
    "lag": "anchormoe_lag_records",
    "queued_batches": "anchormoe_queue_batches",
    "queued_windows": "anchormoe_queue_windows",
    "batch_records": "anchormoe_batch_records_bucket",
    "batch_windows": "anchormoe_batch_windows_bucket",
    "stages": "anchormoe_stage_seconds_bucket",
    "loop_delay": "anchormoe_loop_delay_seconds_bucket",
    "loop_delay_max": "anchormoe_loop_delay_max_seconds",
    "checkpoint_bytes": "anchormoe_checkpoint_bytes_total",
    "rejected_claims": "anchormoe_rejected_claims_total",
    "source_restarts": "anchormoe_source_restarts_total",
    "model_reloads": "anchormoe_model_reloads_total",
}
NOT_A_FIGURE = {"clock", "examples"}

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scraped(counters: Counters, progress: Progress, status: RuntimeStatus, wall_s: float = 1_000.0) -> Samples:
    found: Samples = {}
    registry = make_registry(counters, progress, status, lambda: wall_s)
    for family in text_string_to_metric_families(exposition(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def busy() -> tuple[Counters, Progress, RuntimeStatus]:
    counters = Counters(
        records=7,
        windows=5,
        checkpoints=2,
        events=Counter({"state": 4, "gap": 1}),
        dead_letters=Counter({"late": 3, "not_json": 1}),
        sensor_faults=Counter(frozen=2),
        ignored=Counter(unknown_channel=6),
        internal_errors=Counter(ingest=1),
        refetched_records=4,
        lost_records=7,
        replaced_logs=Counter(recreated=1),
        moved_commits=1,
        expired_assets=2,
    )
    status = RuntimeStatus(
        lambda: 50.0, model_reloads=Counter({"ok": 1}), checkpoint_bytes=99, rejected_claims=6, source_restarts=1
    )
    status.ticked(0.02)
    status.owns({AT: 12})
    status.ingested(AT, records=7, due=5, position=70, newest_ns=990_500_000_000)
    with status.stage("publish"):
        pass
    progress = Progress(lambda: 50.0)
    progress.polled()
    progress.advanced()
    progress.lag_measured({AT: 41})
    progress.queued(batches=2, windows=11)
    counters.count_oversized("events")
    counters.count_judged("pumps", None)
    counters.count_judged("pumps", "low_margin")
    counters.count_judged("pumps", "low_margin")
    status.event_delay.observe(2.5)
    status.committed()
    status.assets = lambda: {("pumps", "normal"): 3, ("pumps", "unknown"): 1}
    status.models = lambda: {"pumps": ModelName("pump", "7", "0123456789abcdef")}
    return counters, progress, status


@pytest.mark.parametrize("name", [each.name for kind in (Counters, Progress, RuntimeStatus) for each in fields(kind)])
def test_every_field_shows_up(name: str) -> None:
    assert name in NOT_A_FIGURE or NAMES[name] in scraped(*busy())


def test_the_figures_are_those_of_the_fields() -> None:
    found = scraped(*busy())
    here = (("partition", "3"), ("topic", "sensors"))
    assert found["anchormoe_records_total"] == {(): 7}
    assert found["anchormoe_events_total"] == {(("type", "gap"),): 1, (("type", "state"),): 4}
    assert found["anchormoe_dead_letters_total"] == {(("reason", "late"),): 3, (("reason", "not_json"),): 1}
    assert found["anchormoe_late_records_total"] == {(): 3}
    assert found["anchormoe_lag_records"] == {here: 41}
    assert found["anchormoe_position"] == {here: 70}
    assert found["anchormoe_owner_epoch"] == {here: 12}
    assert found["anchormoe_queue_windows"] == {(): 11}
    assert found["anchormoe_rejected_claims_total"] == {(): 6}


def test_the_watermark_delay_is_event_time_behind_the_wall_clock_in_seconds() -> None:
    assert list(scraped(*busy())["anchormoe_watermark_delay_seconds"].values()) == [9.5]


def test_histogram_buckets_are_cumulative_and_end_in_the_count() -> None:
    found = scraped(*busy())
    buckets = {float(dict(labels)["le"]): count for labels, count in found["anchormoe_batch_records_bucket"].items()}
    assert buckets[3.0] == 0
    assert buckets[10.0] == buckets[float("inf")] == 1
    assert found["anchormoe_batch_records_count"] == {(): 1}
    assert found["anchormoe_batch_records_sum"] == {(): 7}


def test_every_stage_has_its_own_series() -> None:
    counts = scraped(*busy())["anchormoe_stage_seconds_count"]
    assert {dict(labels)["stage"]: count for labels, count in counts.items()} == {
        stage: float(stage == "publish") for stage in STAGES
    }


def test_nothing_is_labelled_by_asset_and_all_is_ours_or_the_process_itself() -> None:
    found = scraped(*busy())
    labels = {name for series in found.values() for key in series for name, _ in key}
    few = {"version", "type", "reason", "topic", "partition", "stage", "outcome", "stream", "le", "finding"}
    assert labels == few | {"group", "state", "name", "digest"}
    assert all(name.startswith(("anchormoe_", "process_")) for name in found)


def test_an_agent_that_has_done_nothing_yet_can_be_scraped() -> None:
    found = scraped(Counters(), Progress(), RuntimeStatus())
    assert found["anchormoe_records_total"] == {(): 0}
    assert "anchormoe_poll_age_seconds" not in found


def test_assets_windows_and_models_are_told_by_group() -> None:
    found = scraped(*busy())
    pumps = ("group", "pumps")
    assert found["anchormoe_assets"] == {(pumps, ("state", "normal")): 3, (pumps, ("state", "unknown")): 1}
    judged = {(pumps, ("outcome", "answered")): 1, (pumps, ("outcome", "low_margin")): 2}
    assert found["anchormoe_windows_judged_total"] == judged
    labels = (("digest", "0123456789ab"), pumps, ("name", "pump"), ("version", "7"))
    assert found["anchormoe_model_info"] == {labels: 1}


def test_the_age_of_a_commit_is_told_from_the_first_commit_on() -> None:
    now_s = [50.0]
    status = RuntimeStatus(lambda: now_s[0])
    assert "anchormoe_commit_age_seconds" not in scraped(Counters(), Progress(), status)
    status.committed()
    now_s[0] = 57.5
    assert scraped(Counters(), Progress(), status)["anchormoe_commit_age_seconds"] == {(): 7.5}


def test_unknown_lag_is_told_from_no_lag() -> None:
    progress = Progress(lambda: 50.0)
    unknown = scraped(Counters(), progress, RuntimeStatus())
    assert unknown["anchormoe_lag_known"] == {(): 0}
    assert "anchormoe_lag_records" not in unknown
    progress.lag_measured({AT: 0})
    known = scraped(Counters(), progress, RuntimeStatus())
    assert known["anchormoe_lag_known"] == {(): 1}
    assert list(known["anchormoe_lag_records"].values()) == [0]


def test_what_may_happen_once_is_told_before_it_happens() -> None:
    """A series that begins with 1 has no increase, and no alert."""
    found = scraped(Counters(internal_errors=Counter(ingest=1)), Progress(), RuntimeStatus())
    errors = {dict(labels)["stage"]: count for labels, count in found["anchormoe_internal_errors_total"].items()}
    assert errors == {"decode": 0, "ingest": 1, "classify": 0, "events": 0, "publish": 0, "announce": 0}
    reloads = {dict(labels)["outcome"]: count for labels, count in found["anchormoe_model_reloads_total"].items()}
    assert reloads == {"loaded": 0, "refused": 0, "malformed": 0}
