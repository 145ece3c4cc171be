"""`anchormoe-agent simulate`: made-up plants whose truth is known."""

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.interruption import run_interruptibly
from agent.cli.progress import count_progress

if TYPE_CHECKING:
    from agent.offline.simulate import Dialect
    from agent.offline.simulate_outputs import Outlet
    from agent.settings import Plant
    from connectors.simulator import SimulatorSource
    from connectors.simulator.plants import PlantKind, SimulatedAsset

KAFKA = "kafka"
_FILE_START_NS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000_000
"""Where files begin unless told otherwise: with the same seed they are the same, whenever they are written."""

commands = typer.Typer(no_args_is_help=True, help="Make up a plant whose truth is known: recordings or a live stream.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="simulate")


@commands.command(epilog="Example: `anchormoe-agent simulate recordings pump --out out/pump --count 8`")
def recordings(
    kind: str = typer.Argument(..., help="pump, gearbox or patient."),
    out: Path = typer.Option(..., "--out", help="Directory for the CSV files; made when it does not exist."),
    count: int = typer.Option(8, "--count", min=1, help="Recordings, each of another individual."),
    samples: int = typer.Option(6000, "--samples", min=1, help="Samples per recording."),
    seed: int = typer.Option(0, "--seed", min=0, help="The first individual; the next ones follow."),
) -> None:
    """Write labelled recordings, one CSV file each: time in ms, the channels, and the state at every sample."""
    plant_kind = _kind(kind)
    out.mkdir(parents=True, exist_ok=True)
    for number in range(seed, seed + count):
        _write(out / f"{kind}-{number:03d}.csv", plant_kind, number, samples)
    typer.echo(f"{count} recordings of {samples} samples in {out}")


@commands.command(
    epilog="Example: `anchormoe-agent simulate stream --to kafka --rate 10 --for 10m --truth truth.jsonl`"
)
def stream(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant whose records are made up."),
    to: str = typer.Option(..., "--to", metavar="kafka|FILE.jsonl", help="The source's topic, or a file for `replay`."),
    rate: float | None = typer.Option(
        None, "--rate", min=0.001, help="Times real time; without it as fast as it goes."
    ),
    duration: str | None = typer.Option(None, "--for", metavar="TIME", help="How much plant time: 10m, 2h …"),
    samples: int | None = typer.Option(None, "--samples", min=1, help="Samples per asset, instead of --for."),
    start: str | None = typer.Option(None, "--start", metavar="TIME", help="Time of the first sample, ISO 8601."),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed gives the same plant."),
    dirt: bool = typer.Option(True, "--dirt/--clean", help="Late, repeated, lost and broken records, or none of it."),
    asset: list[str] = typer.Option(
        [], "--asset", metavar="ID=KIND", help="Instead of the plant's assets; repeatable."
    ),
    per_group: int = typer.Option(2, "--assets", min=1, help="Assets for each pattern like pump-*."),
    truth: Path | None = typer.Option(None, "--truth", help="File for what really was: JSON lines."),
) -> None:
    """Write a stream of sensor records with known faults, to Kafka or into a file.

    Records are keyed by asset and carry their time of arrival, as an agent would meet them. Ctrl-C ends; the truth is
    written for as far as it got. Without --for and --samples it goes on.
    """
    from agent.offline.simulate import Dialect
    from agent.settings import load_settings

    plant = load_settings(config, os.environ)
    assets, dialect = _assets(plant, asset, per_group, seed), Dialect.of(plant)
    extent = _extent(assets, duration, samples)
    if extent.samples is None and rate is None:
        fail("--for: without a rate the stream needs an end; give --for, --samples or --rate", code=WRONG_USAGE)
    start_ns = _start_ns(start, to, rate, extent)
    source = _source(assets, start_ns=start_ns, rate=rate, samples=extent.samples, dirt=dirt)
    written, newest_ms = run_interruptibly(_stream(source, _outlet(plant, to), dialect, extent.until_ms(start_ns)))
    if truth is not None:
        _write_truth(truth, assets, start_ns, newest_ms, extent)
    typer.echo(f"{written} records of {len(assets)} assets to {to}{f', truth in {truth}' if truth else ''}", err=True)


async def _stream(
    source: "SimulatorSource", outlet: "Outlet", dialect: "Dialect", until_ms: int | None
) -> tuple[int, int]:
    from agent.offline.simulate_outputs import stream as streamed
    from agent.runtime.signals import stop_on_signals

    stop = asyncio.Event()
    with stop_on_signals(stop), count_progress("simulate") as report:
        return await streamed(
            source,
            outlet,
            written=dialect.written,
            until_ms=until_ms,
            stop=stop,
            report=lambda done: report(done, 0),
        )


def _source(
    assets: "list[SimulatedAsset]", *, start_ns: int, rate: float | None, samples: int | None, dirt: bool
) -> "SimulatorSource":
    from connectors.simulator import CLEAN, CorruptionSettings, SimulatorSource

    ahead_ns = start_ns - time.time_ns()  # the plant's clock begins at its start, whenever that is
    return SimulatorSource(
        assets,
        dirt=CorruptionSettings() if dirt else CLEAN,
        start_ns=start_ns,
        speed=rate,
        samples=samples,
        clock=lambda: time.time_ns() + ahead_ns,
    )


def _assets(plant: "Plant", asset: list[str], per_group: int, seed: int) -> "list[SimulatedAsset]":
    from agent.offline.simulate import simulated_assets

    pairs = [text.partition("=") for text in asset]
    if not all(name and kind for name, _, kind in pairs):
        fail("--asset: write it like pump-7=pump", code=WRONG_USAGE)
    named = {name: kind for name, _, kind in pairs}
    return simulated_assets(plant, named=named, per_group=per_group, seed=seed, channels=_bundled_channels(plant))


def _bundled_channels(plant: "Plant") -> dict[str, tuple[str, ...]]:
    """Of the groups whose bundle is there: a plant can be simulated before its model is trained."""
    from agent.settings.resolve import read_facts
    from anchormoe.errors import ModelError

    known = {}
    for group in plant.groups:
        with suppress(ModelError, OSError):
            known[group.name] = tuple(read_facts(group.model.bundle).channels)
    return known


@dataclass(frozen=True, slots=True)
class _Extent:
    """How much: samples per asset, and plant time where that was asked for. Kinds differ in their periods."""

    samples: int | None
    length_ns: int | None
    longest_ns: int

    def until_ms(self, start_ns: int) -> int | None:
        return None if self.length_ns is None else (start_ns + self.length_ns) // 1_000_000


def _extent(assets: "list[SimulatedAsset]", duration: str | None, samples: int | None) -> _Extent:
    periods = [each.kind.period_ns for each in assets]
    if duration is None:
        return _Extent(samples, None, (samples or 0) * max(periods))
    if samples is not None:
        fail("--samples: give either --for or --samples", code=WRONG_USAGE)
    length_ns = _duration_ns(duration)
    return _Extent(-(-length_ns // min(periods)), length_ns, length_ns)


def _duration_ns(text: str) -> int:
    from pydantic_core import PydanticCustomError

    from agent.settings import Duration

    try:
        return int(Duration.parse(text))
    except PydanticCustomError as error:
        fail(f"--for: {error}", code=WRONG_USAGE)


def _start_ns(start: str | None, to: str, rate: float | None, extent: _Extent) -> int:
    """Kafka refuses times far ahead and soon forgets old ones, so what is sent at once ends now."""
    if start is not None:
        return _given_start(start)
    if to != KAFKA:
        return _FILE_START_NS
    back_ns = extent.longest_ns if rate is None else 0
    return (time.time_ns() - back_ns) // 1_000_000_000 * 1_000_000_000


def _given_start(text: str) -> int:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        fail(f"--start: {text!r} is no time like 2026-01-31T08:00:00", code=WRONG_USAGE)
    zoned = given if given.tzinfo else given.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000) * 1_000_000


def _outlet(plant: "Plant", to: str) -> "Outlet":
    from agent.offline.simulate_outputs import FileOutlet, TopicOutlet

    if to != KAFKA:
        return FileOutlet(Path(to))
    from agent.settings import KafkaSourceSettings
    from agent.settings.connections import cluster_of

    if not isinstance(plant.source, KafkaSourceSettings):
        fail("--to kafka: the plant's source is not Kafka; name a file", code=WRONG_USAGE)
    return TopicOutlet(cluster_of(plant.source.bootstrap, plant.source.security), plant.source.topics[0])


def _write_truth(path: Path, assets: "list[SimulatedAsset]", start_ns: int, newest_ms: int, extent: _Extent) -> None:
    """As far as records were sent."""
    from agent.offline.event_set import write_lines
    from agent.offline.simulate import truth_of

    length_ns = max(newest_ms * 1_000_000 - start_ns + 1, 0)
    intervals = truth_of(assets, start_ns=start_ns, length_ns=length_ns, samples=extent.samples)
    write_lines(path, (interval.to_line() for interval in intervals))


def _kind(name: str) -> "PlantKind":
    from connectors.simulator.plants import KINDS

    if name not in KINDS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(KINDS)}", param_hint="KIND")
    return KINDS[name]


def _write(path: Path, kind: "PlantKind", seed: int, samples: int) -> None:
    from connectors.simulator.plants import labelled_recording

    time_ns, values, labels, states = labelled_recording(kind.name, seed, samples)
    rows = zip((time_ns // 1_000_000).tolist(), values.tolist(), labels.tolist(), strict=True)
    lines = [",".join(["ts", *kind.channels, "state"])]
    lines += [",".join([str(ts), *map(str, row), states[label]]) for ts, row, label in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
