"""What hysteresis saves and costs: false changes of state per day and detection delay, without it and with it.

Run it as `python -m tests.bench.quiet_states [--skab DIR] [--out docs/results/quiet-states.md]`. It simulates the three
kinds of plants with the bundles of `configs/`, and, where the directory of SKAB is given, trains on its TRAIN
recordings and streams its TEST recordings; each log is replayed by `anchormoe-agent replay --truth` for every bound.
What is measured goes into a ledger and is not measured again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import yaml

from agent.offline.ground_truth import TruthInterval
from anchormoe.data.recording_config import read_config
from anchormoe.data.recording_files import RawRecording, read_recordings
from anchormoe.data.splitting import select_test
from connectors.timestamps import NS_PER_MS

_ROOT = Path(__file__).parents[2]
_KINDS = {"pump": "30m", "gearbox": "12m", "patient": "12m"}
"""Plant time per asset: the faster ones have fewer minutes, but as many windows."""
_ASSETS, _SEED = 4, 2027
_BOUNDS: tuple[float | None, ...] = (None, 2.0, 4.0, 8.0)
_SKAB = _ROOT / "configs" / "recordings-skab.yaml"
_DEFAULT = 4.0
_TEXT = f"""\
# What hysteresis of states saves and costs

`python -m tests.bench.quiet_states --skab DIR --out docs/results/quiet-states.md`, {{date}}.

Simulated plants ({_ASSETS} assets each, seed {_SEED}, with dropouts and late records; the bundles of `configs/`), whose
faults come every minute or two: a plant has far fewer. SKAB: its TEST recordings by `configs/recordings-skab.yaml`, a
kernel model (`fast`) of its TRAIN recordings. The same log is replayed for every bound; the default was chosen on other
simulated pumps (seed 101).

A change is false if no change of the true state explains it: one is due for each, and `unknown` on the way is one more.
A false alarm is a run of a fault state without a fault. The delay (median) is from the beginning of a fault until its
state is published.

| stream | bound | false changes/day | false alarms/day | changes | delay | p90 | faults found | time right | hours |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True, slots=True)
class Stream:
    """A log with its truth, and the plant that reads it."""

    name: str
    records: Path
    truth: Path
    group: dict[str, Any]
    extra: dict[str, Any]

    def plant(self, bound: float | None) -> dict[str, Any]:
        hysteresis = {"enabled": False} if bound is None else {"bound": bound}
        return {
            "namespace": "quiet",
            "source": {"kind": "file", "paths": ["*.yaml"], "format": "jsonl"},  # replay --input names the records
            "groups": [self.group | {"hysteresis": hysteresis}],
            "store": {"kind": "memory"},
            "emission": {"policy": "changes", "channels": "none"},
            "sinks": [{"kind": "jsonl", "directory": str(self.records.parent / "out")}],
            "http": None,
            **self.extra,
        }


def simulated(kind: str, directory: Path) -> Stream:
    """A plant that no bundle has seen: the seed is not among those of `make bundles`."""
    group = {
        "name": "assets",
        "assets": [f"{kind}-*"],
        "model": {"bundle": str(_ROOT / "configs" / "bundles" / kind)},
        "window": {"lateness": 4},
    }
    stream = Stream(kind, directory / f"{kind}.jsonl", directory / f"{kind}.truth", group, {})
    if not stream.truth.exists():
        config = _write(directory / f"{kind}.yaml", stream.plant(None))
        _agent(
            "simulate", "stream", "--config", str(config), "--to", str(stream.records), "--for", _KINDS[kind], "--seed",
            str(_SEED), "--assets", str(_ASSETS), "--start", "2026-01-01T00:00:00Z", "--truth", str(stream.truth),
        )  # fmt: skip
    return stream


def skab(data: Path, directory: Path) -> Stream:
    """The TEST recordings of the example configuration, each as an asset; the model has seen the TRAIN recordings."""
    bundle = directory / "skab-bundle"
    if not bundle.exists():
        _agent(
            "train", "--data", f"recordings:{data}", "--config", str(_SKAB), "--recipe", "kernel", "--profile", "fast",
            "--out", str(bundle), "--force",
        )  # fmt: skip
    group = {"name": "rigs", "assets": ["*"], "model": {"bundle": str(bundle)}}
    extra = {"records": {"asset_field": "asset", "max_clock_skew": None}}
    stream = Stream("skab", directory / "skab.jsonl", directory / "skab.truth", group, extra)
    if not stream.truth.exists():
        config = read_config(_SKAB)
        recordings = read_recordings(data, config)
        chosen = select_test([one.name for one in recordings], config.split)
        test = [one for one in recordings if one.name in chosen]
        stream.records.write_bytes(b"".join(line for one in test for line in _lines(one, list(config.channels))))
        stream.truth.write_bytes(b"".join(each.to_line() for one in test for each in _intervals(one)))
    return stream


def _lines(recording: RawRecording, channels: Sequence[str]) -> Iterator[bytes]:
    for time_ns, values in zip(recording.times_ns.tolist(), recording.values.tolist(), strict=True):
        known = {name: value for name, value in zip(channels, values, strict=True) if not np.isnan(value)}
        yield orjson.dumps({"ts": time_ns // NS_PER_MS, "asset": _asset(recording), **known}) + b"\n"


def _intervals(recording: RawRecording) -> Iterator[TruthInterval]:
    times = recording.times_ns.tolist()
    ends = [*times[1:], times[-1] + 1_000_000_000]
    labelled = zip(times, ends, recording.labels.tolist(), strict=True)
    for state, run in groupby((one for one in labelled if one[2] is not None), key=lambda one: one[2]):
        members = list(run)
        yield TruthInterval(_asset(recording), members[0][0], members[-1][1], str(state), fault=state != "normal")


def _asset(recording: RawRecording) -> str:
    return recording.name.replace("/", "-")


def replayed(stream: Stream, bound: float | None) -> dict[str, Any]:
    """The score that `replay --truth` prints."""
    config = _write(stream.records.with_suffix(".yaml"), stream.plant(bound))
    said = _agent(
        "replay", "--config", str(config), "--input", str(stream.records), "--truth", str(stream.truth), "--json"
    )
    score: dict[str, Any] = json.loads(said)["score"]
    return score


def _agent(*arguments: str) -> str:
    command = [sys.executable, "-m", "agent", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=_ROOT).stdout


def _write(path: Path, plant: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(plant))
    return path


def measured(streams: Sequence[Stream], ledger: Path) -> list[dict[str, Any]]:
    known = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    done = {(one["stream"], one["bound"]) for one in known}
    for stream in streams:
        for bound in _BOUNDS:
            if (stream.name, bound) in done:
                continue
            entry = {"stream": stream.name, "bound": bound, "score": replayed(stream, bound)}
            known.append(entry)
            with ledger.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            print(row(entry), flush=True)
    return known


def row(entry: dict[str, Any]) -> str:
    score, bound = entry["score"], entry["bound"]
    delays = [_seconds(score[name]) for name in ("delay_median_s", "delay_p90_s")]
    name = "off" if bound is None else f"{bound:g}{' (default)' if bound == _DEFAULT else ''}"
    found = f"{score['episodes'] - score['missed']} of {score['episodes']}"
    return (
        f"| {entry['stream']} | {name} | {score['false_changes_per_day']:.0f} | {score['false_alarms_per_day']:.0f} | "
        f"{score['changes']} | {delays[0]} | {delays[1]} | {found} | {score['accuracy']:.1%} | {score['hours']:.2f} |"
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def page(entries: Sequence[dict[str, Any]]) -> str:
    order = {name: at for at, name in enumerate((*_KINDS, "skab"))}
    rows = [row(one) for one in sorted(entries, key=lambda one: (order[one["stream"]], one["bound"] or 0))]
    return "\n".join([f"{_TEXT.format(date=datetime.now(UTC).date())}", *rows, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skab", type=Path, help="directory of SKAB, with valve1, valve2 and other")
    parser.add_argument("--directory", type=Path, default=Path("out/quiet-states"), help="streams, models, ledger")
    parser.add_argument("--only", nargs="+", choices=(*_KINDS, "skab"), help="streams to measure; default: all")
    parser.add_argument("--out", type=Path, help="the page")
    wanted = parser.parse_args()
    directory = wanted.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    kinds = [kind for kind in _KINDS if not wanted.only or kind in wanted.only]
    streams = [simulated(kind, directory) for kind in kinds]
    if wanted.skab is not None and (not wanted.only or "skab" in wanted.only):
        streams.append(skab(wanted.skab.absolute(), directory))
    text = page(measured(streams, directory / "ledger.jsonl"))
    print(text)
    if wanted.out is not None:
        wanted.out.write_text(text)


if __name__ == "__main__":
    main()
