"""What the product says, as files of deterministic bytes: record it before and after a change that must change nothing.

    python -m tests.reference record --out DIR                     # three minutes, one core, no services
    python -m tests.reference compare A B [--rename OLD=NEW …]     # exit 1 when anything differs

The product is driven from outside only (the command line, settings, bundles, `anchormoe.Predictor`), so that the same
tool runs on a tree whose modules were moved. The alarms have no outside without a broker: `PARTS` says where their
pieces are. Times lie in 2100, because `models activate` wants to be told ahead.
"""

import argparse
import base64
import dataclasses
import hashlib
import importlib
import json
import logging
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, reduce
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import structlog
import yaml

ROOT = Path(__file__).parents[1]
BUNDLES = ROOT / "configs" / "bundles"
BEGIN = datetime(2100, 1, 1, tzinfo=UTC)
BEGIN_MS = int(BEGIN.timestamp()) * 1000
SHAPES = ("wide", "narrow", "chunked", "binary")
ONE_CORE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
NEVER = {"every": "1h", "records": 10**9}
"""No checkpoint on the way: after one, states are told again, by the wall clock."""

# --- the product


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANCHORMOE_")}
    return kept | ONE_CORE | {"PYTHONPATH": str(ROOT), "TZ": "UTC", "COLUMNS": "200"}


def _entry_point() -> tuple[str, str]:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["anchormoe-agent"].partition(":")
    return module, function


def _python(*arguments: str, at: Path) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=at, env=_environment(), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout


def agent(*arguments: object, at: Path) -> str:
    """The command line of this very tree, wherever its entry point lies; what it printed."""
    module, function = _entry_point()
    return _python("-c", f"from {module} import {function}; {function}()", *map(str, arguments), at=at)


def _require_own_tree(at: Path) -> None:
    """The environment may hold an installation of another tree; that one must not answer."""
    for module in (_entry_point()[0], "anchormoe.predictor"):
        place = _python("-c", f"import {module} as it; print(it.__file__)", at=at).strip()
        if not Path(place).is_relative_to(ROOT):
            raise SystemExit(f"{module} comes from {place}, not from {ROOT}")


def _write_plant(at: Path, name: str, plant: dict[str, Any]) -> Path:
    """JSON is YAML."""
    path = at / f"{name}.yaml"
    path.write_text(json.dumps(plant, indent=1))
    return path


def _offline(name: str, **source: Any) -> dict[str, Any]:
    """What all plants here have in common: a log in, files out, nothing that depends on the wall clock."""
    return {
        "source": {"kind": "file", "paths": [f"{name}.jsonl"], "format": "log", **source},
        "sinks": [{"kind": "jsonl", "directory": f"run-{name}"}],
        "inference": {"device": "cpu", "threads": 1},
        "checkpoint": NEVER,
        "http": None,
        "logging": {"level": "error"},
    }


# --- canonical files


def _key(line: bytes) -> str:
    document = json.loads(line)
    return str(document.get("key") or document.get("key_base64") or "")


def _keep(at: Path, out: Path, name: str, way: str, streams: Sequence[str]) -> None:
    """By key, and within a key as it was published; how assets interleave is nobody's promise.

    Of the states only the last per asset: how many are written on the way depends on how fast the model was.
    """
    for stream in streams:
        lines: list[bytes] = (at / f"{way}-{name}" / f"{stream}.jsonl").read_bytes().splitlines(keepends=True)
        if stream == "states":
            lines = list({_key(line): line for line in lines}.values())
        lines.sort(key=_key)
        (out / f"{name}.{way}.{stream}.jsonl").write_bytes(b"".join(lines))


def _run_and_replay(at: Path, out: Path, name: str, *span: object) -> None:
    agent("run", "--config", f"{name}.yaml", at=at)
    _keep(at, out, name, "run", ("events", "states", "dead-letters"))
    agent("replay", "--config", f"{name}.yaml", "--out", f"replay-{name}", *span, at=at)
    _keep(at, out, name, "replay", ("events", "dead-letters"))


# --- the demo


def record_demo(at: Path, out: Path) -> None:
    """configs/demo.yaml: its simulated plant with all of the simulator's dirt, as a log from a fixed time on."""
    shipped = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text())
    for group in shipped["groups"]:
        group["model"]["bundle"] = str(BUNDLES / Path(group["model"]["bundle"]).name)
    demo = _write_plant(at, "demo-live", shipped)
    stream = ("--seed", shipped["source"]["seed"], "--start", BEGIN.isoformat(), "--for", "10m")
    agent("simulate", "stream", "--config", demo, "--to", "demo.jsonl", "--truth", "truth.jsonl", *stream, at=at)
    _write_plant(at, "demo", shipped | _offline("demo"))
    _run_and_replay(at, out, "demo", "--from", "2100-01-01T00:02:00", "--to", "2100-01-01T00:08:00")
    told = json.loads(agent("replay", "--config", "demo.yaml", "--truth", "truth.jsonl", "--json", at=at))
    facts = {name: value for name, value in told.items() if name not in ("seconds", "records_per_s")}
    (out / "demo.score.json").write_text(json.dumps(facts, indent=1) + "\n")
    _record_live_demo(at, out, shipped)


def _record_live_demo(at: Path, out: Path, shipped: dict[str, Any]) -> None:
    """The simulator as a source begins now, so only what does not depend on the time of day: what could not be used."""
    live = shipped | _offline("demo-live") | {"source": shipped["source"] | {"speed": None, "limit": 3000}}
    _write_plant(at, "demo-live", live)
    agent("run", "--config", "demo-live.yaml", at=at)
    letters = (at / "run-demo-live" / "dead-letters.jsonl").read_bytes().splitlines()
    heads = [json.loads(line)["headers"] for line in letters]
    lines = sorted(f"{head['dl_offset']} {head['dl_reason']} {head['dl_field']}\n" for head in heads)
    (out / "demo-live.txt").write_text("".join(lines))


# --- dirty logs


class Sample(NamedTuple):
    asset: str
    time_ms: int
    arrival_ms: int
    values: dict[str, float | None]


class Record(NamedTuple):
    """One of a log; `reset` is the reason of a control record."""

    arrival_ms: int
    key: bytes | None
    value: bytes | None
    reset: str | None = None

    def line(self) -> bytes:
        """As `simulate` writes them, but for keys and values: these bytes need not be text."""
        headers = {"timestamp_ms": str(self.arrival_ms)}
        headers |= {} if self.reset is None else {"anchormoe_reset": self.reset}
        key = {"key": None} if self.key is None else {"key_base64": base64.b64encode(self.key).decode()}
        data = {"data": None} if self.value is None else {"data_base64": base64.b64encode(self.value).decode()}
        return _json({"stream": "records", **key, "headers": headers, **data}) + b"\n"


def _ms(second: float) -> int:
    return BEGIN_MS + round(second * 1000)


def _troubled(one: Sample, trouble: str, dice: np.random.Generator) -> list[Sample]:
    """What becomes of a sample; the last word of some troubles says how long or for which channels."""
    what, _, how = trouble.rpartition(" ")
    known = {name: value or 0.0 for name, value in one.values.items()}
    match what:
        case "all":
            return []
        case "three of four":
            return [one] if one.time_ms // 40 % 4 == 0 else []
        case "a third held back for":
            return [one._replace(arrival_ms=one.arrival_ms + int(how)) if one.time_ms // 100 % 3 == 0 else one]
        case "held back until":
            return [one._replace(arrival_ms=_ms(int(how)))]
        case "without":
            return [one._replace(values=one.values | dict.fromkeys(how.split("+")))]
        case "with":
            return [one._replace(values={name: None if dice.random() < 0.2 else known[name] for name in known})]
        case "repeated after":
            return [one, one._replace(arrival_ms=one.arrival_ms + int(how))]
        case "repeated with":
            return [one, one._replace(values={name: value + 1 for name, value in known.items()})]
        case "with other":
            return [one._replace(values={name: value * dice.uniform(2, 4) for name, value in known.items()})]
        case "also with a clock ahead by":
            return [one, one._replace(time_ms=one.time_ms + int(how) * 1000)]
    raise ValueError(trouble)


TROUBLES = [
    ("pump-1", 20, 22.5, "a third held back for 450"),  # four steps behind: as much as the lateness allows
    ("pump-1", 24, 25, "a third held back for 550"),
    ("pump-1", 30, 31, "held back until 33"),
    ("pump-1", 40, 55, "without flow"),
    ("pump-1", 60, 61.5, "all lost"),
    ("pump-1", 75, 78, "with holes"),
    ("pump-1", 80, 80.8, "without vibration"),  # as long as the model in force fills holes
    ("pump-1", 82, 82.9, "without vibration"),  # a step longer
    ("pump-1", 84, 85, "repeated after 150"),
    ("pump-1", 86, 87, "repeated with changes"),
    ("pump-1", 100, 100.1, "also with a clock ahead by 259200"),
    ("pump-1", 101, 101.1, "also with a clock ahead by 26"),  # just beyond what is allowed
    ("pump-2", 22, 42, "all lost"),  # a gap
    ("pump-2", 60, 60.1, "also with a clock ahead by 20"),  # whatever follows is late, until the reset
    ("pump-2", 92, 135, "all lost"),  # long enough to be forgotten; pump-3 gets its place
    ("pump-3", 0, 100, "all lost"),
    ("gearbox-1", 30, 36, "without vibration_x+torque"),
    ("gearbox-1", 36, 42, "without speed"),  # gone in the very window in which the others are back
    ("gearbox-1", 50, 58, "all lost"),
    ("gearbox-1", 70, 80, "three of four lost"),
    ("gearbox-1", 100, 106, "with other values"),
]
RESETS = [(76, "pump-2"), (112.9, "pump-1"), (113, "pump-9")]
RESET_SHOWS = (76, 80)
"""Seconds in which pump-2 can have windows only because it was reset: the clock that was ahead stood at 80."""
KINDS = {"pump-1": "pump", "pump-2": "pump", "pump-3": "pump", "gearbox-1": "gearbox"}
PERIOD_MS = {"pump": 100, "gearbox": 40}
RAW = {"flow": ("f1", 0.1, 2.0), "temperature": ("kelvin", 0.5, -273.15)}
"""Of chunked pumps: the field, scale and offset of a channel that is not sent as the model wants it."""


def _samples(log: Path) -> list[Sample]:
    """Of a simulated log, with the troubles, in order of arrival."""
    dice, found = np.random.default_rng(1), []
    for line in log.read_bytes().splitlines():
        data = json.loads(line)["data"]
        time_ms, asset = data.pop("ts"), data.pop("asset")
        some, second = [Sample(asset, time_ms, time_ms, data)], (time_ms - BEGIN_MS) / 1000
        for whose, first, stop, trouble in TROUBLES:
            if whose == asset and first <= second < stop:
                some = [changed for one in some for changed in _troubled(one, trouble, dice)]
        found += some
    return sorted(found, key=lambda one: one.arrival_ms)


@cache
def _channels(kind: str) -> list[str]:
    found: list[str] = json.loads((BUNDLES / kind / "config.json").read_text())["channels"]
    return found


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _off_the_grid(time_ms: int) -> int:
    """As sensors tell it: up to 12 ms beside the step that is meant."""
    return time_ms + time_ms // 20 * 7 % 25 - 12


def _wide(samples: list[Sample]) -> Iterator[Record]:
    for one in samples:
        yield Record(one.arrival_ms, one.asset.encode(), _json({"ts": _off_the_grid(one.time_ms)} | one.values))


def _local(time_ms: int) -> str:
    """Without a zone; the settings say that it is an hour ahead of UTC."""
    return datetime.fromtimestamp(time_ms / 1000 + 3600, UTC).isoformat(timespec="milliseconds")[:-6]


def _narrow(samples: list[Sample]) -> Iterator[Record]:
    """What was not measured is told as null or not at all, by turns."""
    for one in samples:
        for name, value in one.values.items():
            if value is not None or one.time_ms // 100 % 2:
                document = {
                    "asset": one.asset,
                    "at": _local(_off_the_grid(one.time_ms)),
                    "sensor": name,
                    "reading": value,
                }
                yield Record(one.arrival_ms, None, _json(document))


def _chunks(samples: list[Sample]) -> list[list[Sample]]:
    """At most sixteen of one asset that follow each other without a hole, in order of their last arrival."""
    found: list[list[Sample]] = []
    for asset, own in groupby(sorted(samples, key=lambda one: one.asset), key=lambda one: one.asset):
        before: list[Sample] = []
        for one in own:
            in_step = before and one.time_ms == before[-1].time_ms + PERIOD_MS[KINDS[asset]]
            if not in_step or len(before) == 16:
                before = []
                found.append(before)
            before.append(one)
    return sorted(found, key=lambda chunk: chunk[-1].arrival_ms)


def _chunked(samples: list[Sample]) -> Iterator[Record]:
    for number, chunk in enumerate(_chunks(samples)):
        first, values = chunk[0], {}
        for name in first.values:
            field, scale, offset = RAW.get(name, (name, 1.0, 0.0))
            given = [one.values[name] for one in chunk]
            values[field] = [None if value is None else round((value - offset) / scale, 6) for value in given]
        regular = {"start": _off_the_grid(first.time_ms) / 1000, "period_ms": PERIOD_MS[KINDS[first.asset]]}
        times = regular if number % 2 else {"ts": [_off_the_grid(one.time_ms) / 1000 for one in chunk]}
        yield Record(chunk[-1].arrival_ms, first.asset.encode(), _json(times | {"values": values}))


def _packed(table: Any, start_ms: int, period_ms: int, **wrong: Any) -> bytes:
    """docs/contracts/binary-chunk.md; `wrong` puts something else into the header."""
    values = np.asarray(table, dtype="<f4")
    head = {"magic": b"AMC1", "version": 1, "flags": 0, "channels": values.shape[1], "samples": values.shape[0]}
    head |= {"start": start_ms * 1_000_000, "period": period_ms * 1_000_000} | wrong
    return struct.pack("<4sBBHIqq", *head.values()) + values.tobytes()


def _binary(samples: list[Sample]) -> Iterator[Record]:
    for chunk in _chunks(samples):
        kind = KINDS[chunk[0].asset]
        rows = [[one.values[name] for name in _channels(kind)] for one in chunk]
        table = [[np.nan if value is None else value for value in row] for row in rows]
        value = _packed(table, _off_the_grid(chunk[0].time_ms), PERIOD_MS[kind])
        yield Record(chunk[-1].arrival_ms, chunk[0].asset.encode(), value)


ENCODE = {"wide": _wide, "narrow": _narrow, "chunked": _chunked, "binary": _binary}


UNUSABLE = {
    "wide": """
        {"flow":1}
        {"ts":<ms>,"flow":"high"}
        {"ts":<ms>,"flow":1e39}
        {"ts":<ms>,"flow":NaN}
        {"ts":<ms>,"flux":1}
        {"ts":-5,"flow":1}
        {"ts":<ms>}
        {"ts":"soon","flow":1}""",
    "narrow": """
        {"asset":"pump-1","at":"<local>","sensor":"flux","reading":1}
        {"asset":"pump-1","at":"<local>","sensor":"flow","reading":"high"}
        {"asset":"pump-1","at":"<local>","sensor":"flow","reading":1e39}
        {"asset":"pump-1","at":"<local>","sensor":null,"reading":1}
        {"asset":"pump-1","at":"soon","sensor":"flow","reading":1}
        {"asset":"pump-1","at":"<local>","sensor":"flow"}
        {"asset":7,"at":"<local>","sensor":"flow","reading":1}
        {"asset":"valve-1","at":"<local>","sensor":"flow","reading":1}""",
    "chunked": """
        {"ts":[<s>],"values":{"f1":[1,2],"kelvin":[1]}}
        {"ts":[<s>,<s>],"values":{"f1":[1]}}
        {"ts":[<s>],"values":{}}
        {"ts":[<s>],"values":{"f1":["high"]}}
        {"ts":[<s>],"values":{"f1":[1e40]}}
        {"ts":[<s>],"values":{"c1":[1],"c2":[1],"c3":[1],"c4":[1],"c5":[1],"c6":[1],"c7":[1],"c8":[1],"f1":[1]}}
        {"start":<s>,"period_ms":100,"values":{"f1":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}}
        {"start":<s>,"values":{"f1":[1]}}
        {"start":<s>,"period_ms":0,"values":{"f1":[1]}}
        {"ts":["soon"],"values":{"f1":[1]}}""",
    "binary": "",
}
"""Values that are refused, each for a reason of its own, at a time in milliseconds, seconds, or as people write it."""
WRONG_HEADERS: list[dict[str, Any]] = [
    *({"magic": b"AMC9"}, {"channels": 4}, {"samples": 0}, {"samples": 17}, {"samples": 3}, {"period": 0})
]


def _unusable(shape: str, at_ms: int) -> list[bytes | None]:
    times = {"<ms>": str(at_ms), "<s>": str(at_ms / 1000), "<local>": _local(at_ms)}
    text = reduce(lambda text, time: text.replace(*time), times.items(), UNUSABLE[shape])
    chunks = [_packed([[1.0] * 5], at_ms, 100, **wrong) for wrong in WRONG_HEADERS]
    chunks.append(_packed([[np.inf] * 5], at_ms, 100))
    own = chunks if shape == "binary" else [line.strip().encode() for line in text.strip().splitlines()]
    return [None, b"", b" " * 5000, b'{"ts":41', b"[1]", *own]


def _log(shape: str, samples: list[Sample]) -> list[Record]:
    """Records, control records, and what is refused: every two seconds one from 61 on, when all assets are known."""
    good = list(ENCODE[shape](samples))
    resets = [Record(_ms(second), asset.encode(), None, "clock was ahead") for second, asset in RESETS]
    bad = [Record(_ms(61 + 2 * at), b"pump-1", one) for at, one in enumerate(_unusable(shape, _ms(61)))]
    bad += [Record(_ms(62), key, good[0].value) for key in (None, b"\xff", b"valve-1")]
    return sorted([*good, *resets, *bad], key=lambda record: record.arrival_ms)


def _put(at: Path, name: str, records: Iterable[Record]) -> None:
    (at / f"{name}.jsonl").write_bytes(b"".join(record.line() for record in records))


PLANT = """
namespace: reference
records: {max_bytes: 4KiB, max_clock_skew: 25s, control: accept}
groups:
  - {name: pumps, assets: ["pump-*"], model: {bundle: bundles/pump}, max_assets: 2}
  - {name: gearboxes, assets: ["gearbox-*"], model: {bundle: bundles/gearbox}, max_assets: 2}
models: {directory: bundles}
"""
BY_SHAPE: dict[str, dict[str, Any]] = yaml.safe_load("""
wide:
  records: {time: {field: ts, unit: ms}}
  emission: {policy: all}
narrow:
  records:
    {asset_field: asset, channel_field: sensor, value_field: reading, unknown_asset: ignore,
     time: {field: at, unit: iso, utc_offset: "+01:00"}}
  emission: {policy: changes}
chunked:
  records: {values_field: values, time: {field: ts, unit: s}, unknown_channel: ignore, max_channels: 8, max_samples: 16}
  emission: {policy: changes+heartbeat, heartbeat: 6400ms}
  window: {hop: 8, idle_after: 6s}
  batch: 50
binary:
  records: {max_samples: 16}
  emission: {policy: all, channels: none, evidence_share: 0.5, max_patches: 3}
  window: {min_coverage: 0.8}
  batch: 50
""")


def _plant(shape: str, name: str, **source: Any) -> dict[str, Any]:
    """Two groups; batches are small, so that the log is cut in many places."""
    plant: dict[str, Any] = yaml.safe_load(PLANT)
    own = BY_SHAPE[shape]
    plant["records"] |= {"format": shape} | own["records"]
    for group in plant["groups"]:
        group["window"] = {"lateness": 4, "forget_after": "27s"} | own.get("window", {})
    if shape == "chunked":
        raw = {name: dict(zip(("field", "scale", "offset"), about, strict=True)) for name, about in RAW.items()}
        plant["groups"][0]["channels"] = [{"name": name} | raw.get(name, {}) for name in sorted(_channels("pump"))]
    limits = {"max_batch_records": own.get("batch", 500)}
    return plant | _offline(name, **source) | {"emission": own["emission"], "limits": limits}


def record_dirty_logs(at: Path, out: Path) -> None:
    plain = _write_plant(at, "wide", _plant("wide", "wide"))
    (at / "wide.jsonl").touch()  # settings want to see what they name
    assets = [part for name, kind in KINDS.items() for part in ("--asset", f"{name}={kind}")]
    _make_bundles(at)
    stream = ("--seed", 1, "--start", BEGIN.isoformat(), "--for", "150s", "--clean")
    agent("simulate", "stream", "--config", plain, "--to", "clean.jsonl", *stream, *assets, at=at)
    samples = _samples(at / "clean.jsonl")
    _activate(at)
    for shape in SHAPES:
        _put(at, shape, _log(shape, samples))
        _write_plant(at, shape, _plant(shape, shape))
        _run_and_replay(at, out, shape)
    _record_a_restart(at, out)
    _record_two_partitions(at, out, samples)


def _record_a_restart(at: Path, out: Path) -> None:
    """The wide log once more, by an agent that ends on the way and by one that rebuilds its windows and goes on."""
    plant = _plant("wide", "restart", positions="positions.json")
    often = {"checkpoint": {"every": "1h", "records": 100}, "limits": {"max_batch_records": 100}}
    _write_plant(at, "restart", plant | often)
    lines = (at / "wide.jsonl").read_bytes().splitlines(keepends=True)
    for part in (lines[: len(lines) // 3], lines):
        (at / "restart.jsonl").write_bytes(b"".join(part))
        agent("run", "--config", "restart.yaml", at=at)
    _keep(at, out, "restart", "run", ("events", "states", "dead-letters"))


def _record_two_partitions(at: Path, out: Path, samples: list[Sample]) -> None:
    """Two files, each a partition, read at once, and a record of pump-2 that strayed to the other one."""
    early = [one for one in samples if one.time_ms < _ms(40)]
    theirs = [one for one in early if one.asset == "pump-2"]
    _put(at, "partitions-a", _wide([*(one for one in early if one.asset != "pump-2"), theirs[0]]))
    _put(at, "partitions-b", _wide(theirs))
    paths = ["partitions-a.jsonl", "partitions-b.jsonl"]
    plant = _plant("wide", "partitions", paths=paths, single_partition=False)
    _write_plant(at, "partitions", plant | {"limits": {"max_batch_records": 1_000_000}})
    _run_and_replay(at, out, "partitions")


# --- models


def _make_bundles(at: Path) -> None:
    """The shipped ones, and pumps that are judged otherwise: other thresholds of abstention, other filling of holes."""
    for name in ("pump", "gearbox"):
        shutil.copytree(BUNDLES / name, at / "bundles" / name)
    for name in ("strict", "broken"):
        shutil.copytree(BUNDLES / "pump", at / "bundles" / f"pump-{name}")
        _rewrite(at / "bundles" / f"pump-{name}", version=name)


def _rewrite(bundle: Path, version: str) -> None:
    config, calibration, manifest = (
        json.loads((bundle / f"{name}.json").read_text()) for name in ("config", "calibration", "manifest")
    )
    config |= {"version": version, "fill": [{"kind": "linear", "max_age": 8}] * len(config["channels"])}
    calibration["abstention"] |= {"least_margin": 0.5, "conformal": 0.04, "most_unusual": 0.1}
    for name, content in (("config.json", config), ("calibration.json", calibration)):
        value = json.dumps(content, indent=2, sort_keys=True).encode()
        (bundle / name).write_bytes(value)
        manifest["files"][name] = {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    (bundle / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True))


def _activate(at: Path) -> None:
    """Another model and back again, and one that is no longer what was activated when its time comes."""
    for second, bundle in ((55, "pump-strict"), (105, "pump"), (125, "pump-broken")):
        when = datetime.fromtimestamp(_ms(second) / 1000, UTC).isoformat()
        command = ("models", "activate", "pumps", bundle, "--at", when, "--by", "reference", "--reason", "to see")
        agent(*command, "--config", "wide.yaml", at=at)
    _rewrite(at / "bundles" / "pump-broken", version="not what was activated")


# --- predictions


def _windows(bundle: Path) -> tuple[Any, Any]:
    """The golden windows, and random ones that look like them, with holes: entries, a channel, the end, everything."""
    from safetensors.numpy import load_file

    golden = load_file(bundle / "golden.safetensors")
    x, mask, dice = golden["x"], golden["mask"], np.random.default_rng(2)
    known = np.where(mask, x, np.nan)
    centre, spread = (part(known, axis=(0, 2))[:, None] for part in (np.nanmean, np.nanstd))
    random = (centre + spread * dice.normal(size=(16, *x.shape[1:]))).astype(np.float32)
    seen = dice.random(random.shape) > np.linspace(0, 0.6, 16)[:, None, None]
    seen[3, 1], seen[4, 2:], seen[5, :, -40:], seen[6] = False, False, False, False
    return np.concatenate([x, np.where(seen, random, 0)]), np.concatenate([mask, seen])


def _told(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {np.ascontiguousarray(value).tobytes().hex()}"
    return json.dumps(value)


def predict(out: Path, *, with_numba: bool) -> None:
    """In a process of its own: where numba cannot be found, torch computes."""
    if not with_numba:
        sys.modules["numba"] = None  # type: ignore[assignment] # what makes `find_spec` say that there is none
    from anchormoe import Predictor

    lines = []
    for bundle in sorted(BUNDLES.iterdir()):
        predictor = Predictor.load(bundle, device="cpu", threads=1)
        windows, mask = _windows(bundle)
        found = predictor.predict(windows, mask)
        for part in dataclasses.fields(found):
            value = getattr(found, part.name)
            rows = value if len(value) == len(windows) else [value]
            lines += [f"{bundle.name} {part.name} {at} {_told(row)}" for at, row in enumerate(map(_plain, rows))]
    if (sys.modules.get("numba") is not None) != with_numba:
        raise SystemExit("the predictions were not computed by what they should be")
    out.write_text("\n".join(lines) + "\n")


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value


def record_predictions(out: Path) -> None:
    for path in ("numba", "torch"):
        into = str(out / f"predictions.{path}.txt")
        _python("-m", "tests.reference", "predict", "--by", path, "--out", into, at=ROOT)


# --- alarms

PARTS = {
    "agent.settings": ["load_settings"],
    "agent.alarms.from_settings": ["catalogue_from_settings"],
    "agent.alarms.worker.consoles": ["ConsoleWorker"],
    "agent.alarms.worker.event_inputs": ["event_input"],
    "agent.alarms.core.inputs": ["Command", "Tick", "encode_input"],
    "agent.contracts.received": ["parse_event"],
    "connectors.records": ["Record", "Partition"],
}
"""What the alarms need from inside. A name may stand under several modules: the first that has it gives it."""


def _alarm_parts() -> SimpleNamespace:
    found: dict[str, Any] = {}
    for place, names in PARTS.items():
        with suppress(ModuleNotFoundError):
            module = importlib.import_module(place)
            found = {name: getattr(module, name) for name in names if hasattr(module, name)} | found
    if absent := {name for names in PARTS.values() for name in names} - found.keys():
        raise SystemExit(f"tests.reference: say in PARTS where {', '.join(sorted(absent))} went")
    return SimpleNamespace(**found)


ALARMS = """
consoles: [{name: hall, assets: ["pump-*", pumps]}, {name: gears, assets: ["gearbox-*"]}]
parents: [{asset: pump-1, children: [pump-2]}]
flood: {count: 3, within: 30s, over_below: 2}
max_shelving: 1h
rules:
  - {name: cavitation, group: pumps, states: [cavitation], on_delay: 3s, off_delay: 4s, remind_every: 10s}
  - {name: blockage, group: pumps, states: [blockage, bearing_wear], latched: true, min_evidence_share: 0.5}
  - {name: dropout, group: pumps, technical: channel_dropout, on_delay: 2s, hides_children: true}
  - {name: silent, group: pumps, technical: no_data, limit: 8s}
  - {name: clock, group: pumps, technical: clock_back}
  - {name: bundle, group: pumps, technical: model_refused}
  - {name: unjudged, group: gearboxes, technical: model_refused, on_delay: 1s, suppressed_by: [lag, quiet]}
  - {name: gear, group: gearboxes, states: [imbalance, tooth_damage], shelve_chatter: 20s}
  - {name: lag, group: gearboxes, technical: agent_lag, limit: 3s}
  - {name: quiet, group: gearboxes, technical: no_data, limit: 5s}
"""
WHY = {"priority": "medium", "cause": "why", "consequence": "it breaks", "action": "look", "respond_within": "10m"}
COMMANDS = [
    (20, "hall", "ack", "blockage:pump-2", None),
    (20, "hall", "ack", "blockage:pump-2", None),  # the same again
    (21, "hall", "ack", "blockage:pump-2", None),  # nothing left to acknowledge
    (50, "hall", "shelve", "cavitation:pump-1", 58),
    (51, "hall", "shelve", "blockage:pump-1", 20_000),  # too long
    (56, "hall", "out-of-service", "clock:pump-2", None),
    (57, "gears", "shelve", "gear:gearbox-1", 90),
    (60, "gears", "unshelve", "gear:gearbox-1", None),
    (70, "hall", "comment", "silent:pump-2", None),
    (90, "hall", "in-service", "clock:pump-2", None),
    (95, "hall", "reset", "blockage:pump-2", None),
    (96, "hall", "ack", "no-such-rule:pump-1", None),
]


def _event_entries(parts: SimpleNamespace, catalogue: Any, lines: list[bytes]) -> Iterator[tuple[int, str, bytes]]:
    """Each event enters the log a second after its window's end, six while the agent lags; every tenth one twice."""
    for offset, line in enumerate(lines):
        said = json.loads(line)
        second = datetime.fromisoformat(said["headers"]["ce_time"]).timestamp() - BEGIN_MS / 1000
        time_ms = _ms(second + (6 if 116 <= second < 121 else 1))
        headers = tuple((name, value.encode()) for name, value in said["headers"].items())
        value = line.split(b',"data":', 1)[1].rstrip()[:-1]
        record = parts.Record(offset, time_ms, said["key"].encode(), value, headers)
        event = parts.parse_event(record, parts.Partition("events", 0))
        entry = parts.event_input(event, catalogue, time_ms * 1_000_000)
        console = None if entry is None else catalogue.console_for(entry.group, entry.asset)
        if console is not None:
            yield from [(entry.time_ns, console, parts.encode_input(entry))] * (2 if offset % 10 == 0 else 1)


def _alarm_log(parts: SimpleNamespace, catalogue: Any, lines: list[bytes]) -> list[tuple[int, str, bytes]]:
    """Events, commands and a tick per second and console, by time; then two that cannot be read."""
    entries = list(_event_entries(parts, catalogue, lines))
    for second, console, verb, alarm, until in COMMANDS:
        time_ns, until_ns = (None if at is None else _ms(at) * 1_000_000 for at in (second + 0.5, until))
        command = parts.Command(f"c{second}", time_ns, verb, alarm, "ada", "on my way", until_ns)
        entries.append((int(time_ns or 0), console, parts.encode_input(command)))
    for second in range(200):
        tick = parts.Tick(_ms(second) * 1_000_000)
        entries += [(tick.time_ns, console, parts.encode_input(tick)) for console in ("hall", "gears")]
    entries.sort(key=lambda entry: entry[0])
    return [*entries, (entries[-1][0], "hall", b"{"), (entries[-1][0], "attic", b"{}")]


def record_alarms(at: Path, out: Path) -> None:
    """The events of the wide log through the desk: the state machine, its messages and its rows, without a broker."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    parts, alarms = _alarm_parts(), yaml.safe_load(ALARMS)
    alarms["rules"] = [WHY | rule for rule in alarms["rules"]]
    topics = {"events": "events", "states": "states", "dead_letters": "dead-letters"}
    sinks = [{"kind": "kafka", "bootstrap": "nowhere:9092", "topics": topics}]
    plant = _plant("wide", "wide") | {"alarms": alarms, "sinks": sinks}
    settings = parts.load_settings(_write_plant(at, "alarms", plant), {})
    catalogue = parts.catalogue_from_settings(settings, settings.alarms)
    entries = _alarm_log(parts, catalogue, (out / "wide.run.events.jsonl").read_bytes().splitlines())
    _write(out / "alarms.inputs.jsonl", (b"%d %s %s" % (time, name.encode(), value) for time, name, value in entries))
    _take_all(parts.ConsoleWorker, catalogue, entries, out)


def _take_all(desk_type: Any, catalogue: Any, entries: list[tuple[int, str, bytes]], out: Path) -> None:
    rows: dict[bytes, bytes | None] = {}
    desk, told = desk_type(catalogue, lambda: [row for row in rows.items() if row[1] is not None]), []
    for offset, (time_ns, console, value) in enumerate(entries):
        if offset in (len(entries) // 3, len(entries) // 2):
            desk.forget()  # as after a rebalance: the rows must bring everything back
        work = desk.take(console.encode(), value, offset, time_ns)
        told += [b"%s %s %s" % (one.stream.encode(), one.key, one.value) for one in work.messages]
        rows.update(work.rows)
    kept = (b"%s %s" % (key.replace(b"\x1f", b" "), row or b"") for key, row in sorted(rows.items()))
    _write(out / "alarms.messages.jsonl", told)
    _write(out / "alarms.rows.jsonl", kept)
    _write(out / "alarms.ignored.txt", (f"{name} {count}".encode() for name, count in sorted(desk.ignored.items())))


def _write(path: Path, lines: Iterable[bytes]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in lines))


# --- what is in it

PROMISED: dict[str, dict[str, str]] = yaml.safe_load("""
demo:
  event: state channel_dropout channel_back
  letter: late not_json clock_far
shapes:
  event: state gap channel_dropout channel_back clock_back model_refused
  abstention: low_coverage channel_missing low_margin conformal out_of_distribution
  letter: late clock_far too_many_assets empty too_large wrong_type non_finite bad_timestamp
  model: pump-1 pump-strict gearbox-1
  log: reset shows-a-reset last-state
wide: {letter: not_json missing_field unknown_asset unknown_channel}
narrow: {letter: not_json missing_field unknown_channel}
chunked: {letter: not_json missing_field unknown_asset too_many_channels}
binary: {letter: bad_chunk missing_field unknown_asset}
restart: {event: gap clock_back, model: pump-strict, log: shows-a-reset}
partitions: {event: state}
alarms:
  change: raised returned acknowledged reminded shelved unshelved shelving_expired suppressed unsuppressed released
    out_of_service in_service reset chattering chatter_over
  act: ack-refused shelve-refused comment-done
  ignored: repeated_event repeated_command malformed unknown_console
predictions: {numba: pump gearbox patient, torch: pump gearbox patient}
""")
"""What must occur at least once, by part; `shapes` is for each of the four."""


def summary(out: Path) -> dict[str, Counter[str]]:
    """How often what occurs, by part."""
    found: dict[str, Counter[str]] = {part: Counter() for part in PROMISED if part != "shapes"}
    for path in sorted(out.glob("*.run.*.jsonl")):
        part, _, stream, _ = path.name.split(".")
        for line in path.read_bytes().splitlines():
            found[part].update(_facts(stream, json.loads(line)))
    for name, _, _, resets in _words(out / "inputs.txt"):
        if name in SHAPES:
            found[name]["log reset"] += int(resets)
    for _, _, value in _words(out / "alarms.messages.jsonl", 2):
        found["alarms"].update(_alarm_facts(json.loads(value)))
    found["alarms"].update({f"ignored {name}": int(count) for name, count in _words(out / "alarms.ignored.txt")})
    for way in ("numba", "torch"):
        words = _words(out / f"predictions.{way}.txt", 3)
        found["predictions"].update(f"{way} {bundle}" for bundle, field, _, _ in words if field == "logits")
    return found


def _words(path: Path, cuts: int = -1) -> Iterator[list[str]]:
    return (line.split(" ", cuts) for line in path.read_text().splitlines())


def _alarm_facts(said: dict[str, Any]) -> Iterator[str]:
    if "change" in said:
        yield f"change {said['change']}"
    if "act" in said:
        yield f"act {said['act']}-{said['outcome']}"


def _facts(stream: str, said: dict[str, Any]) -> Iterator[str]:
    if stream == "states":
        yield "log last-state"
    elif stream == "dead-letters":
        yield f"letter {_header(said, 'dl_reason')}"
    else:
        yield from _event_facts(said["data"])


def _header(said: dict[str, Any], name: str) -> str:
    """Headers that are not text, or not unique, are a list."""
    headers = said["headers"]
    pairs = headers if isinstance(headers, dict) else {one["name"]: one.get("value") for one in headers}
    return str(pairs[name])


def _event_facts(data: dict[str, Any]) -> Iterator[str]:
    yield f"event {data['type']}"
    if data["type"] != "state":
        return
    model, end = data["model"], datetime.fromisoformat(data["window"]["end"]).timestamp() - BEGIN_MS / 1000
    yield f"model {model['name']}-{model['version']} {model['digest'][:12]}"
    yield f"state {data['state']}"
    if data["abstention"]:
        yield f"abstention {data['abstention']}"
    if data["asset"] == "pump-2" and RESET_SHOWS[0] < end < RESET_SHOWS[1]:
        yield "log shows-a-reset"


def _absent(found: dict[str, Counter[str]]) -> list[str]:
    wanted = [(part, some) for part, some in PROMISED.items() if part != "shapes"]
    wanted += [(shape, PROMISED["shapes"]) for shape in SHAPES]
    promised = [(part, f"{kind} {name}") for part, some in wanted for kind in some for name in some[kind].split()]
    return [f"{part}: {what}" for part, what in promised if not any(one.startswith(what) for one in found[part])]


# --- commands


def _describe_inputs(at: Path, out: Path) -> None:
    """Name, lines, digest and control records of every log: where these differ, the simulator or this tool changed."""
    lines = []
    for path in sorted(at.glob("*.jsonl")):
        content = path.read_bytes()
        facts = content.count(b"\n"), hashlib.sha256(content).hexdigest(), content.count(b'"anchormoe_reset"')
        lines.append(f"{path.stem} {facts[0]} {facts[1]} {facts[2]}\n")
    (out / "inputs.txt").write_text("".join(lines))


def record(out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        raise SystemExit(f"{out}: there is something already; record into an empty directory")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reference-") as place:
        at = Path(place)
        _require_own_tree(at)
        record_demo(at, out)
        record_dirty_logs(at, out)
        record_alarms(at, out)
        record_predictions(out)
        _describe_inputs(at, out)
    found = summary(out)
    for part, facts in found.items():
        print(f"{part}\n" + "\n".join(f"  {count:6d}  {name}" for name, count in sorted(facts.items())))
    if absent := _absent(found):
        raise SystemExit("the recording lacks what it promises:\n  " + "\n  ".join(absent))


def compare(one: Path, other: Path, renames: Sequence[str]) -> bool:
    """Whether all files are equal, after the renames were made in the first directory's."""
    same = True
    for name in sorted({path.name for place in (one, other) for path in place.iterdir()}):
        if not ((one / name).exists() and (other / name).exists()):
            difference = f"only in {one if (one / name).exists() else other}"
        else:
            difference = _difference(_renamed((one / name).read_bytes(), renames), (other / name).read_bytes())
        same &= not difference
        print(f"{'differs' if difference else 'equal  '}  {name}  {difference}".rstrip())
    return same


def _renamed(content: bytes, renames: Sequence[str]) -> bytes:
    for pair in renames:
        old, _, new = pair.partition("=")
        content = content.replace(old.encode(), new.encode())
    return content


def _difference(one: bytes, other: bytes) -> str:
    """Nothing, or how many lines differ and the first of them around the place."""
    if one == other:
        return ""
    ours, theirs = one.splitlines(), other.splitlines()
    pairs = [(at, *pair) for at, pair in enumerate(zip(ours, theirs, strict=False), 1) if pair[0] != pair[1]]
    count = f"{len(ours)} and {len(theirs)} lines, {len(pairs)} of the common ones differ"
    if not pairs:
        return count
    at, left, right = pairs[0]
    same = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    begin = max(same - 60, 0)
    shown = (part[begin : begin + 160].decode(errors="replace") for part in (left, right))
    return f"{count}; line {at} from column {begin}:\n    - {next(shown)}\n    + {next(shown)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reference", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="write the reference of this tree")
    recording.add_argument("--out", type=Path, required=True)
    comparing = commands.add_parser("compare", help="exit 1 when two references differ")
    comparing.add_argument("one", type=Path)
    comparing.add_argument("other", type=Path)
    comparing.add_argument("--rename", action="append", default=[], metavar="OLD=NEW", help="in the first; repeatable")
    predicting = commands.add_parser("predict", help="a part of `record`, in a process of its own")
    predicting.add_argument("--by", choices=("numba", "torch"), required=True)
    predicting.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "record":
        record(given.out.absolute())
    elif given.command == "predict":
        predict(given.out, with_numba=given.by == "numba")
    elif not compare(given.one, given.other, given.rename):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
