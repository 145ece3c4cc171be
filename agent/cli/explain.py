"""`anchormoe-agent explain`: one window with its evidence, as text, plot, page or JSON."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.explain_said import explain_said, refuse_wrong_usage
from agent.cli.explanation_text import show_explanation
from agent.cli.inputs import parse_time
from agent.cli.options import DATA_DIR, DATA_HELP, DATA_SEED
from agent.cli.progress import count_progress
from anchormoe.errors import DataError

if TYPE_CHECKING:
    from anchormoe.explain.explanation import Explanation
    from anchormoe.predictor import Predictor

FORMATS = (".png", ".html")


def register(app: typer.Typer) -> None:
    """Adds the command to the console script."""
    example = "anchormoe-agent explain bundles/motions --data uea:BasicMotions --case 3 --out case3.html"
    app.command(epilog=f"Example: `{example}`")(explain)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which window."""

    data: str
    part: str
    case: int
    recording: str | None
    at_ns: int | None
    data_dir: Path | None
    config: Path | None
    seed: int


def explain(
    bundle: Path | None = typer.Argument(None, help="Directory of the bundle; with --asset that of the plant."),
    data: str | None = typer.Option(None, "--data", help=DATA_HELP),
    case: int = typer.Option(0, min=0, help="Number of the case, from 0."),
    part: str = typer.Option("test", help="test or train: where --case counts."),
    recording: str | None = typer.Option(None, "--recording", help="Of recordings:DIR, a file by its name; with --at."),
    at: str | None = typer.Option(
        None, "--at", metavar="TIME", help="The latest window that had ended then: ISO 8601 in UTC, or `now`."
    ),
    asset: str | None = typer.Option(
        None, "--asset", help="What the live agent said about an asset; with --at, and --config plant.yaml."
    ),
    events: str | None = typer.Option(
        None, "--events", metavar="PATH|kafka|kafka:TOPIC", help="With --asset: where events are; default: the plant's."
    ),
    out: Path | None = typer.Option(None, "--out", help="Also write a plot (.png) or a page (.html)."),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = typer.Option(
        None, "--config", help="YAML file with the section `recordings`, for recordings:DIR; the plant, for --asset."
    ),
    seed: int = DATA_SEED,
    as_json: bool = typer.Option(False, "--json", help="Print all numbers as one JSON object."),
) -> None:
    """Show how spans of time and channels add up to the score of one window, and why it is not another class."""
    _refuse_wrong_usage(out, part)
    at_ns = None if at is None else time.time_ns() if at == "now" else parse_time("--at", at)
    if asset is not None:
        refuse_wrong_usage(config, at)
        assert config is not None
        assert at_ns is not None
        explain_said(config, asset=asset, at_ns=at_ns, events=events, out=out, as_json=as_json)
        return
    if bundle is None or data is None:
        fail("expected a BUNDLE and --data, or --asset with --at and --config", code=WRONG_USAGE)
    _refuse_wrong_recording(recording, at, data)
    wanted = _Wanted(data, part, case, recording, at_ns, data_dir, config, seed)
    with count_progress("explaining", quiet=as_json):
        found = _explain(bundle, wanted)
    show_explanation(found, out, as_json=as_json)


def _refuse_wrong_usage(out: Path | None, part: str) -> None:
    if out is not None and out.suffix not in FORMATS:
        fail(f"--out {out}: the name must end in {' or '.join(FORMATS)}", code=WRONG_USAGE)
    if part not in ("test", "train"):
        fail(f"--part {part}: expected test or train", code=WRONG_USAGE)


def _refuse_wrong_recording(recording: str | None, at: str | None, data: str) -> None:
    if (recording is None) != (at is None):
        fail("--recording and --at belong together: a file of recordings:DIR and a time", code=WRONG_USAGE)
    if recording is not None and not data.startswith("recordings:"):
        fail(f"--recording: {data} has none; it needs --data recordings:DIR", code=WRONG_USAGE)


def _explain(bundle: Path, wanted: _Wanted) -> "Explanation":
    from anchormoe.predictor import Predictor

    predictor = Predictor.load(bundle)
    return _recorded(predictor, wanted) if wanted.recording is not None else _numbered(predictor, wanted)


def _numbered(predictor: "Predictor", wanted: _Wanted) -> "Explanation":
    from anchormoe.data.loading import load_dataset
    from anchormoe.explain.doubt import without_doubtful
    from anchormoe.explain.explanation import Origin, explain_case
    from anchormoe.metrics.evaluate import require_same_windows

    split = load_dataset(wanted.data, data_dir=wanted.data_dir, config=wanted.config, seed=wanted.seed)
    chosen = split.test if wanted.part == "test" else split.train
    require_same_windows(chosen, predictor.config)
    case, count = wanted.case, len(chosen)
    if case >= count:
        raise DataError(f"--case {case}: {wanted.data} has {count} {wanted.part.upper()} cases, numbered from 0")
    words = f"{wanted.data} {wanted.part.upper()}, case {case}"
    start_ns, recording = None, None
    if chosen.origins is not None:
        recording = str(chosen.origins.recordings[case])
        words += f", {recording}"
        start_ns = int(chosen.origins.start_ns[case])
    origin = Origin(words, start_ns, case if wanted.part == "train" else None, recording)
    one, doubt = without_doubtful(predictor, chosen.cases.subset(slice(case, case + 1)))
    return explain_case(predictor, one, truth=chosen.classes[chosen.y[case]], origin=origin, doubt=doubt)


def _recorded(predictor: "Predictor", wanted: _Wanted) -> "Explanation":
    from anchormoe.data.recording_window import find_window
    from anchormoe.explain.doubt import without_doubtful
    from anchormoe.explain.explanation import Origin, explain_case
    from anchormoe.metrics.evaluate import require_same_windows

    assert wanted.recording is not None
    assert wanted.at_ns is not None
    directory = Path(wanted.data.partition(":")[2])
    found = find_window(directory, wanted.config, recording=wanted.recording, at_ns=wanted.at_ns)
    require_same_windows(found, predictor.config)
    if found.case.steps != predictor.config.length:
        asked = f"recordings.window.length: {found.case.steps} steps"
        raise DataError(f"{wanted.config}: {asked}; the model needs {predictor.config.length}")
    one, doubt = without_doubtful(predictor, found.case)
    origin = Origin(found.recording, found.start_ns, recording=found.recording)
    return explain_case(predictor, one, truth=found.label, origin=origin, doubt=doubt)
