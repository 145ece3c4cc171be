"""`anchormoe-agent simulate`: made-up plants whose truth is known."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from connectors.plants import PlantKind

commands = typer.Typer(no_args_is_help=True, help="Make up a plant whose truth is known: recordings to train on.")


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


def _kind(name: str) -> "PlantKind":
    from connectors.plants import KINDS

    if name not in KINDS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(KINDS)}", param_hint="KIND")
    return KINDS[name]


def _write(path: Path, kind: "PlantKind", seed: int, samples: int) -> None:
    from connectors.plants import labelled_recording

    time_ns, values, labels, states = labelled_recording(kind.name, seed, samples)
    rows = zip((time_ns // 1_000_000).tolist(), values.tolist(), labels.tolist(), strict=True)
    lines = [",".join(["ts", *kind.channels, "state"])]
    lines += [",".join([str(ts), *map(str, row), states[label]]) for ts, row, label in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
