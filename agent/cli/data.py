"""`anchormoe-agent data …`: inspect data before training."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from agent.cli.console import text_console
from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.options import DATA_DIR, DATA_HELP, DATA_SEED, RECORDINGS_CONFIG
from agent.cli.progress import count_progress
from anchormoe.errors import DataError

if TYPE_CHECKING:
    from anchormoe.data.dataset import Dataset, Split
    from anchormoe.data.inspection import ChannelFacts, Inspection, PartFacts
    from anchormoe.data.recordings import RecordingSet
    from anchormoe.data.resampling import Recording

PLOT_FORMATS = (".png", ".pdf", ".svg")

commands = typer.Typer(help="Inspect data before training.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the group to the console script."""
    app.add_typer(commands, name="data")


@commands.callback()
def group() -> None:
    """Inspect data before training."""


@commands.command(
    epilog="Example: `anchormoe-agent data lookout-labels labels.csv --recordings pumps --out pumps/labels.csv`"
)
def lookout_labels(
    labels: Path = typer.Argument(..., help="Label file of AWS Lookout for Equipment."),
    recordings: Path = typer.Option(..., "--recordings", help="Directory of the sensor CSV files that it is about."),
    out: Path = typer.Option(..., "--out", help="File for `labels.intervals`."),
) -> None:
    """Turn a label file of AWS Lookout for Equipment into intervals for `recordings`.

    Each period is labelled with its code in lower case, or `abnormal`. What lies outside is normal with
    `labels.default: normal`.
    """
    import csv

    from anchormoe.data.lookout import HEADER, as_intervals

    found = sorted(
        path for path in recordings.rglob("*.csv") if path.resolve() not in (out.resolve(), labels.resolve())
    )
    if not found:
        fail(f"--recordings: there is no CSV file in {recordings}", code=WRONG_USAGE)
    names = [path.relative_to(recordings).with_suffix("").as_posix() for path in found]
    try:
        rows = as_intervals(labels.read_text(encoding="utf-8-sig"), names)
    except UnicodeError as error:
        fail(f"{labels}: not a text file in UTF-8: {error}; save it as UTF-8")
    except DataError as error:
        fail(f"{labels}: {error}")
    with out.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([HEADER, *rows])
    typer.echo(f"{len(rows)} intervals of {len(names)} recordings written to {out}")


@commands.command()
def inspect(
    spec: str = typer.Argument(help=DATA_HELP),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = RECORDINGS_CONFIG,
    seed: int = DATA_SEED,
    plot: Path | None = typer.Option(None, help="Also write a plot: .png, .pdf or .svg."),
    as_json: bool = typer.Option(False, "--json", help="Print all facts as one JSON object."),
) -> None:
    """Show channels, ranges, gaps, class balance, lengths, and overlap between TRAIN and TEST."""
    from anchormoe.data.inspection import inspect as inspect_split

    if plot is not None and plot.suffix.lower() not in PLOT_FORMATS:
        fail(f"--plot {plot}: the name must end in {', '.join(PLOT_FORMATS)}", code=WRONG_USAGE)
    with count_progress("reading", quiet=as_json):
        split, found = _load(spec, data_dir, config, seed)
    facts = inspect_split(split, found.recordings)
    facts = replace(facts, notes=(*found.notes, *facts.notes, *code_notes(split.train)))
    if plot is not None:
        _draw(plot, split, facts, found.recordings)
    if as_json:
        typer.echo(json.dumps(facts.to_dict(), ensure_ascii=False, indent=2))
        return
    _print(facts)
    if plot is not None:
        typer.echo(f"written to {plot}")


def _load(spec: str, data_dir: Path | None, config: Path | None, seed: int) -> "tuple[Split, RecordingSet]":
    """Recordings are kept, because the inspection also shows what happened before windows were cut."""
    from anchormoe.data import recordings
    from anchormoe.data.loading import load_dataset
    from anchormoe.data.recording_config import read_config

    if not spec.startswith("recordings:"):
        return load_dataset(spec, data_dir=data_dir, config=config, seed=seed), recordings.RecordingSet((), ())
    directory, settings = Path(spec.removeprefix("recordings:")), read_config(config)
    found = recordings.resample_directory(directory, settings)
    return recordings.split_windows(directory.name, found, settings), found


def code_notes(train: "Dataset") -> Iterator[str]:
    """Training keeps these values from the model by the same rule."""
    from anchormoe.model.plausibility import find_codes

    for channel, name in enumerate(train.channels):
        values = train.cases.x[:, channel][train.cases.mask[:, channel]]
        for code in find_codes(values):
            times = f"{int((values == code).sum()):,} times in TRAIN's windows"
            yield f"channel {name} is {code:g} {times}, far from its other values: read as a code for `no value`"


def _draw(path: Path, split: "Split", facts: "Inspection", recordings: "tuple[Recording, ...]") -> None:
    from anchormoe.data.inspection_plot import plot_inspection

    path.parent.mkdir(parents=True, exist_ok=True)
    plot_inspection(path, split, facts, recordings)


def _print(facts: "Inspection") -> None:
    from anchormoe.windows import step_words

    console = text_console()
    period = "" if facts.period_s is None else f", {step_words(facts.period_s)}"
    console.print(f"{facts.name}: {len(facts.channels)} channels, {len(facts.train.class_counts)} classes{period}")
    console.print(_parts_line("train", facts.train))
    console.print(_parts_line("test", facts.test) + (f", {facts.mixed_windows} mixed" if facts.mixed_windows else ""))
    console.print(_class_table(facts))
    console.print(_channel_table(facts.channels))
    if facts.recordings:
        console.print(_recording_table(facts))
    for note in facts.notes:
        console.print(Text.assemble(("note:", "yellow"), f" {note}"))


def _parts_line(name: str, part: "PartFacts") -> str:
    low, middle, high = part.lengths
    length = f"{low} steps" if low == high else f"{low} to {high} steps (median {middle})"
    recordings = "" if part.recordings is None else f" in {part.recordings} groups"
    return f"{name:>5}: {part.cases:,} cases of {length}{recordings}"


def _class_table(facts: "Inspection") -> Table:
    table = Table("class", box=None, header_style="bold")
    for name in ("train", "share", "test", "share"):
        table.add_column(name, justify="right")
    for name, count in facts.train.class_counts.items():
        other = facts.test.class_counts[name]
        table.add_row(
            name, f"{count:,}", f"{count / facts.train.cases:.1%}", f"{other:,}", f"{other / facts.test.cases:.1%}"
        )
    return table


def _channel_table(channels: "tuple[ChannelFacts, ...]") -> Table:
    table = Table("channel", "unit", box=None, header_style="bold")
    for name in ("low", "mean", "high", "std", "missing", "in test", "longest gap"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in channels:
        figures = [_number(value) for value in (one.low, one.mean, one.high, one.deviation)]
        gaps = [f"{one.missing_train:.1%}", f"{one.missing_test:.1%}", str(one.longest_gap)]
        table.add_row(one.name, one.unit, *figures, *gaps, style="yellow" if one.constant or one.low is None else None)
    return table


def _recording_table(facts: "Inspection") -> Table:
    table = Table("recording", "asset", box=None, header_style="bold")
    for name in ("steps", "samples", "empty", "gaps", "longest", "same step", "backwards"):
        table.add_column(name, justify="right")
    for one in facts.recordings:
        counts = (one.gaps, one.longest_gap, one.same_step, one.out_of_order)
        table.add_row(
            one.name, one.asset, f"{one.steps:,}", f"{one.samples:,}", f"{one.empty_share:.1%}", *map(str, counts)
        )
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
