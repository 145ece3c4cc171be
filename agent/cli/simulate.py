"""`anchormoe-agent simulate`: recordings and streams of simulated plants, with their true states."""

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail, run_interruptibly
from agent.cli.inputs import parse_duration, parse_time
from agent.cli.progress import count_progress

if TYPE_CHECKING:
    from agent.offline.inputs import Place
    from agent.offline.simulate import RecordConverter
    from agent.offline.simulate_outputs import Output
    from agent.settings import Plant
    from connectors.simulator import SimulatorSource
    from connectors.simulator.plants import SimulatedAsset

_FILE_START_NS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000_000
"""Where files start by default: the same seed writes the same file, whenever it is written."""
_REAL_TIME = 1.0

commands = typer.Typer(no_args_is_help=True, help="Simulate a plant whose true states are known.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="simulate")


@commands.command(epilog="Example: `anchormoe-agent simulate recordings pump --out out/pump --count 8`")
def recordings(
    kind: str = typer.Argument(
        ..., help="pump, gearbox or patient; process: fifty channels, every three minutes, one state per recording."
    ),
    out: Path = typer.Option(..., "--out", help="Directory for the CSV files; created when it does not exist."),
    count: int = typer.Option(8, "--count", min=1, help="Number of recordings, each of another individual."),
    samples: int | None = typer.Option(
        None, "--samples", min=1, help="Samples per recording; by default 6000, of a process 480 (a day)."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of the first recording; the next ones count up."),
) -> None:
    """Write labelled recordings, one CSV file each: time in ms, the channels, and the state of every sample.

    A process has eight states, so the first eight recordings are one of each, as plants often have them.
    """
    from connectors.simulator.recordings import simulated_recording

    known = _require_recorded(kind)
    out.mkdir(parents=True, exist_ok=True)
    with count_progress("simulate") as report:
        for number in range(count):
            made = simulated_recording(known, seed + number, samples)
            (out / f"{made.name}.csv").write_text(made.to_csv(), encoding="utf-8")
            report(number + 1, count)
    typer.echo(f"{count} recordings of {len(made.time_ns)} samples in {out}")


@commands.command(
    epilog="Example: `anchormoe-agent simulate stream --config plant.yaml --to log.jsonl --for 10m --truth truth.jsonl`"
)
def stream(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant to simulate records for."),
    to: str = typer.Option(
        ...,
        "--to",
        metavar="kafka|kafka:TOPIC|FILE.jsonl",
        help="`kafka` for the source's (first) topic, another topic, or a file for `replay`.",
    ),
    rate: float | None = typer.Option(
        None,
        "--rate",
        min=0.001,
        help="Speed as a multiple of real time. Default: real time without an end, "
        "as fast as possible with --for or --samples.",
    ),
    duration: str | None = typer.Option(None, "--for", metavar="TIME", help="Plant time to simulate: 10m, 2h …"),
    samples: int | None = typer.Option(None, "--samples", min=1, help="Samples per asset, instead of --for."),
    start: str | None = typer.Option(None, "--start", metavar="TIME", help="Time of the first sample, ISO 8601."),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed simulates the same plant."),
    dirt: bool = typer.Option(True, "--dirt/--clean", help="With late, repeated, lost and broken records, or without."),
    asset: list[str] = typer.Option(
        [], "--asset", metavar="ID=KIND", help="Simulate this asset instead of the plant's; repeatable."
    ),
    per_group: int = typer.Option(2, "--assets", min=1, help="Number of assets for each pattern like pump-*."),
    truth: Path | None = typer.Option(None, "--truth", help="File for the true states, as JSON lines."),
) -> None:
    """Write a stream of sensor records with known faults to Kafka or into a file.

    Records are keyed by asset and have their time of arrival as timestamp. Without --for and --samples the stream
    runs in real time until Ctrl-C. The true states are written as far as records were.
    """
    from agent.offline.inputs import parse_place
    from agent.offline.simulate import RecordConverter
    from agent.settings import load_settings

    plant, place = load_settings(config, os.environ), parse_place("--to", to)
    assets, converter = _assets(plant, asset, per_group, seed), RecordConverter.of(plant)
    extent = _extent(assets, duration, samples)
    if extent.samples is None and rate is None:
        rate = _REAL_TIME
    start_ns = _start_ns(start, place, rate, extent)
    source = _source(assets, start_ns=start_ns, rate=rate, samples=extent.samples, dirt=dirt)
    output = _output(plant, place)
    if extent.samples is None:
        typer.echo(f"writing to {to} at {rate:g} × real time; Ctrl-C stops", err=True)
    count, newest_ms = run_interruptibly(_stream(source, output, converter, extent.until_ms(start_ns)))
    if truth is not None:
        _write_truth(truth, assets, start_ns, newest_ms, extent)
    where = f", true states in {truth}" if truth else ""
    typer.echo(f"{count} records of {len(assets)} assets written to {to}{where}", err=True)


async def _stream(
    source: "SimulatorSource", output: "Output", converter: "RecordConverter", until_ms: int | None
) -> tuple[int, int]:
    from agent.offline.simulate_outputs import write_stream
    from agent.runtime.lifecycle import stop_on_signals

    stop = asyncio.Event()
    with stop_on_signals(stop), count_progress("simulate") as report:
        return await write_stream(
            source,
            output,
            convert=converter.convert,
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
        corruption=CorruptionSettings() if dirt else CLEAN,
        start_ns=start_ns,
        speed=rate,
        samples=samples,
        clock=lambda: time.time_ns() + ahead_ns,
    )


def _assets(plant: "Plant", asset: list[str], per_group: int, seed: int) -> "list[SimulatedAsset]":
    from agent.offline.simulate import simulated_assets

    pairs = [text.partition("=") for text in asset]
    if not all(name and kind for name, _, kind in pairs):
        fail("--asset: write ID=KIND, like pump-7=pump", code=WRONG_USAGE)
    named = {name: kind for name, _, kind in pairs}
    return simulated_assets(plant, named=named, per_group=per_group, seed=seed, channels=_bundled_channels(plant))


def _bundled_channels(plant: "Plant") -> dict[str, tuple[str, ...]]:
    """Of the groups whose bundle exists: a plant can be simulated before its model is trained."""
    from agent.settings.resolve import read_facts
    from anchormoe.errors import ModelError

    known = {}
    for group in plant.groups:
        with suppress(ModelError, OSError):
            known[group.name] = tuple(read_facts(group.model.bundle).channels)
    return known


@dataclass(frozen=True, slots=True)
class _Extent:
    """How much to simulate: samples per asset, and plant time where --for was given. Kinds differ in their periods."""

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
    length_ns = int(parse_duration("--for", duration))
    return _Extent(-(-length_ns // min(periods)), length_ns, length_ns)


def _start_ns(start: str | None, place: "Place", rate: float | None, extent: _Extent) -> int:
    """Kafka rejects times far ahead and deletes old records, so a stream that is written at once ends now."""
    if start is not None:
        return parse_time("--start", start) // 1_000_000 * 1_000_000
    if isinstance(place, Path):
        return _FILE_START_NS
    back_ns = extent.longest_ns if rate is None else 0
    return (time.time_ns() - back_ns) // 1_000_000_000 * 1_000_000_000


def _output(plant: "Plant", place: "Place") -> "Output":
    from agent.offline.inputs import plant_cluster, source_topics
    from agent.offline.simulate_outputs import FileOutput, TopicOutput

    if isinstance(place, Path):
        return FileOutput(place)
    topics = source_topics("--to", plant, place)
    return TopicOutput(plant_cluster("--to", plant, place), topics[0])


def _write_truth(path: Path, assets: "list[SimulatedAsset]", start_ns: int, newest_ms: int, extent: _Extent) -> None:
    from agent.offline.event_set import write_lines
    from agent.offline.simulate import true_states

    length_ns = max(newest_ms * 1_000_000 - start_ns + 1, 0)
    intervals = true_states(assets, start_ns=start_ns, length_ns=length_ns, samples=extent.samples)
    write_lines(path, (interval.to_line() for interval in intervals))


def _require_recorded(name: str) -> str:
    from connectors.simulator.recordings import RECORDED

    if name not in RECORDED:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(RECORDED)}", param_hint="KIND")
    return name
