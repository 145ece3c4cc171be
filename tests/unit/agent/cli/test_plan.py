"""`anchormoe-agent plan`: what is asked, what is answered, and wrong input by name."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from agent.cli.main import app
from agent.errors import SettingsError
from agent.planning.costs import Machine, Measured, as_document, between_scrapes, events_per_window, from_document
from agent.planning.measuring import Work, measured_hops, solve
from agent.planning.synthetic import SyntheticLog, asset_ids
from agent.settings import load_plant
from anchormoe.windows import WindowShape
from connectors.decoding import Decoder
from connectors.kafka.partitioning import most_in_one, partition_of
from connectors.records import Batch

BUNDLE = Path(__file__).parents[4] / "configs" / "bundles" / "pump"
FOUND = Measured(5e-6, 5e-4, 3e-4, 110, 650, 7_000, 40_000, 115, 260e6)
HERE = Machine("here", 2, 0.1, "1", "3.11")


def write_plant(directory: Path, **changes: Any) -> Path:
    document: dict[str, Any] = {
        "namespace": "plan",
        "source": {"kind": "kafka", "bootstrap": "127.0.0.1:9092", "topics": ["readings"]},
        "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": str(BUNDLE)}, "max_assets": 5000}],
        "store": {"kind": "redis", "url": "redis://127.0.0.1:6379/0"},
        "sinks": [{"kind": "kafka", "topics": {"events": "e", "states": "s", "dead_letters": "d"}}],
    } | changes
    path = directory / "plant.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["plan", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_without_a_measurement_every_cost_is_assumed_and_said_so(tmp_path: Path) -> None:
    code, out, err = run(str(write_plant(tmp_path)), "--assets", "pumps=5000")
    assert code == 0
    assert "nothing was measured" in err
    costs = out.split("Costs of group pumps")[1].splitlines()[1:]
    assert all(line.endswith("assumed") for line in costs if line.strip())
    assert "50,000/s" in out  # 5,000 assets, ten samples a second


def test_the_values_are_those_of_the_chart(tmp_path: Path) -> None:
    code, out, _ = run(str(write_plant(tmp_path)), "--assets", "5000", "--values")
    assert code == 0
    values = yaml.safe_load(out)
    assert values["agent"]["replicas"] >= 2
    assert values["autoscaling"]["partitions"] % values["agent"]["replicas"] == 0
    assert values["topics"]["create"][0]["name"] == "readings"
    known = yaml.safe_load((BUNDLE.parents[2] / "deploy/helm/anchormoe-agent/values.yaml").read_text())
    for section, content in values.items():
        assert content.keys() <= known[section].keys()


@pytest.mark.parametrize("limit", ["1GiB", "64GiB"])
def test_a_pod_may_hold_what_the_plant_allows(tmp_path: Path, limit: str) -> None:
    """The chart refuses a pod that is killed before the plant's own limit is reached."""
    _, out, _ = run(str(write_plant(tmp_path, limits={"memory": limit})), "--assets", "50", "--values")
    resources = yaml.safe_load(out)["agent"]["resources"]
    assert int(resources["limits"]["memory"].removesuffix("Mi")) > int(limit.removesuffix("GiB")) * 1024
    assert int(resources["requests"]["memory"].removesuffix("Mi")) < 1024


def test_json_has_the_origin_of_every_cost_and_the_reverse(tmp_path: Path) -> None:
    code, out, _ = run(str(write_plant(tmp_path)), "--assets", "50", "--reverse", "--replicas", "4", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["most_assets"] > 1_000
    assert {each["origin"] for each in document["groups"]["pumps"]["costs"].values()} == {"assumed"}


def test_known_ids_are_hashed_as_kafka_does(tmp_path: Path) -> None:
    ids = [f"pump-{number}" for number in range(100)]
    (tmp_path / "ids").write_text("\n".join(ids))
    code, out, _ = run(str(write_plant(tmp_path)), "--assets", "100", "--asset-ids", str(tmp_path / "ids"))
    assert code == 0
    assert "murmur2" in out
    assert partition_of(b"pump-1", 12) == (1499559775 & 0x7FFFFFFF) % 12
    assert sum(most_in_one([key.encode()], 12) for key in ids) == 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--assets", "bumps=5"], "the plant's groups are pumps"),
        (["--assets", "pumps=-1"], "'-1' is not a number of assets"),
        (["--rate", "fast"], "'fast' is not a rate such as 10/s"),
        (["--rate", "0/s"], "out of range"),
        (["--outage", "1 hour"], "--outage"),
        (["--samples", "10"], "wide records have one sample each"),
        (["--redis-allocator", "tcmalloc"], "neither jemalloc nor libc"),
        (["--reverse"], "give --replicas too"),
        (["--json", "--values"], "give one of them"),
        (["--measure", "5s", "--costs", "x"], "give one of them"),
        (["--from-metrics", "localhost"], "is not an address"),
        (["--peak", "inf"], "--peak"),
        (["--peak", "1e9"], "--peak"),
        (["--growth", "inf"], "--growth"),
        (["--cores", "inf"], "--cores"),
    ],
)
def test_wrong_input_is_named(tmp_path: Path, arguments: list[str], words: str) -> None:
    code, _, err = run(str(write_plant(tmp_path)), *arguments)
    assert code == 2
    assert words in err


def test_limits_of_the_plant_that_are_below_the_plan_are_told(tmp_path: Path) -> None:
    path = write_plant(tmp_path, limits={"assets_per_partition": 10})
    _, out, _ = run(str(path), "--assets", "9000", "--rate", "1/s")
    assert "max_assets is 5,000; 9,000 assets are planned" in out
    assert "limits.assets_per_partition is 10" in out
    assert "1 samples/s are planned, its period says 10" in out


def test_a_file_of_costs_fits_its_bundle_or_is_refused() -> None:
    document = json.loads(json.dumps(as_document(HERE, {"pumps": "abc"}, {"pumps": FOUND})))
    assert from_document(document, {"pumps": "abc"}) == (HERE, {"pumps": FOUND})
    for wrong, digests in [(document, {"pumps": "other"}), (document, {"fans": "abc"}), ({}, {}), ([], {})]:
        with pytest.raises(SettingsError, match="--costs"):
            from_document(wrong, digests)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("name", ["window_s", "record_bytes"])
def test_costs_that_cannot_be_are_refused(name: str, value: float) -> None:
    document = json.loads(json.dumps(as_document(HERE, {"pumps": "abc"}, {"pumps": FOUND})))
    document["groups"]["pumps"][name] = value
    with pytest.raises(SettingsError, match=f"group pumps: {name} is"):
        from_document(document, {"pumps": "abc"})


def test_runs_that_differ_give_three_costs() -> None:
    """1 µs a record, 100 µs a window, 1 ms an event."""
    runs = [Work(1600, 100, 100, 0.1116), Work(1600, 100, 10, 0.0216), Work(1600, 25, 5, 0.0091)]
    assert solve(runs) == pytest.approx((1e-6, 1e-4, 1e-3))
    assert solve([*runs, Work(1600, 50, 0, 0.0066)]) == pytest.approx((1e-6, 1e-4, 1e-3))
    noisy = [replace(runs[0], cpu_s=0.001), *runs[1:]]
    assert min(solve(noisy)) >= 0


@pytest.mark.parametrize(
    ("length", "hop", "hops"),
    [
        (128, 16, (16, 45, 128)),
        (128, 64, (32, 64, 128)),
        (128, 128, (32, 64, 128)),
        (128, 1, (1, 11, 128)),
        (1, 1, (1,) * 3),
    ],
)
def test_the_hops_that_are_measured_are_ones_that_a_window_can_have(
    length: int, hop: int, hops: tuple[int, int, int]
) -> None:
    """A hop is never longer than the window, and four times the group's own may be."""
    assert measured_hops(WindowShape(length, hop)) == hops
    assert [WindowShape(length, each).hop for each in hops] == list(hops)


def test_each_run_is_wrong_by_its_share_and_not_by_its_length() -> None:
    """Two per cent of the longest run are more than the whole of the shortest, which alone says what a record costs."""
    long, short = Work(100_000, 6_000, 6_000, 8.0 * 1.02), Work(100_000, 60, 0, 0.119)
    record_s, _, _ = solve([long, Work(100_000, 6_000, 600, 2.6), Work(100_000, 3_000, 300, 1.35 * 0.98), short])
    assert record_s == pytest.approx(1e-6, rel=0.02)


def test_a_running_agents_stages_share_its_processor_time() -> None:
    def scrape(n: int) -> str:
        stages = {"decode": 1, "ingest": 1, "checkpoint": 0, "classify": 6, "publish": 2}
        lines = [f'anchormoe_stage_seconds_sum{{stage="{name}"}} {share * n}' for name, share in stages.items()]
        return "\n".join(
            [
                *lines,
                f"anchormoe_records_total {1000 * n}",
                f"anchormoe_windows_total {100 * n}",
                f'anchormoe_events_total{{type="state"}} {10 * n}',
                f"process_cpu_seconds_total {5 * n}",
                "process_resident_memory_bytes 3e8",
                'anchormoe_assets{group="pumps",state="normal"} 40',
            ]
        )

    found = between_scrapes(scrape(1), scrape(2), 10)
    assert found.record_s == pytest.approx(5 * 0.2 / 1000)
    assert found.window_s == pytest.approx(5 * 0.6 / 100)
    assert found.event_s == pytest.approx(5 * 0.2 / 10)
    assert (found.events_per_window, found.assets) == (0.1, 40)
    for wrong in ("", scrape(1)):
        with pytest.raises(SettingsError, match="--from-metrics"):
            between_scrapes(wrong, wrong, 10)


def test_events_follow_the_policy(tmp_path: Path) -> None:
    [group] = load_plant(write_plant(tmp_path), {}).groups  # a window every 1.6 s
    assert events_per_window(group, "all", None, 2) == 1
    assert events_per_window(group, "changes", None, 3600 / 16) == pytest.approx(0.1)
    assert events_per_window(group, "changes+heartbeat", 16, 0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "records",
    [
        {},
        {"format": "narrow"},
        {"format": "chunked", "values_field": "v"},
        {"format": "binary"},
        {"format": "influx", "asset_field": "machine"},
        {"time": {"unit": "iso"}, "asset_field": "who", "values_field": "v"},
    ],
)
def test_made_up_records_are_read_by_the_plants_own_decoder(tmp_path: Path, records: dict[str, Any]) -> None:
    from agent.settings.formats import group_layouts, record_format

    plant = load_plant(write_plant(tmp_path, records=records), {})
    samples = 10 if records.get("format") in ("chunked", "binary") else 1
    start_ns = 1_731_744_000_000_000_000
    log = SyntheticLog(plant.groups[0], plant.settings.records, assets=3, samples=samples, start_ns=start_ns)
    log.end = log.records_for(20)
    read, _ = log.read(log.partitions[0], 0, 10_000)
    decoder = Decoder(group_layouts(plant.groups), record_format(plant.settings.records))
    decoded = decoder.decode(Batch(log.partitions[0], read))
    assert not decoded.rejected, decoded.rejected[0]
    [readings] = decoded.readings
    assert {readings.assets[asset] for asset in readings.asset} == {"pump-1", "pump-2", "pump-3"}
    assert readings.time_ns.max() - readings.time_ns.min() == 19 * plant.groups[0].grid.period_ns


def test_ids_fit_their_group() -> None:
    assert asset_ids(["skid", "pump-*"], 3) == ["skid", "pump-1", "pump-2"]
