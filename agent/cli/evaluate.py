"""`anchormoe-agent evaluate`: how good a bundle is on labelled data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from agent.cli.console import text_console
from agent.cli.options import DATA_DIR, DATA_HELP, DATA_SEED, DEVICE_HELP, RECORDINGS_CONFIG, find_device
from agent.cli.progress import show_progress
from anchormoe.progress import Progress, ProgressCallback

if TYPE_CHECKING:
    from anchormoe.data.dataset import Dataset
    from anchormoe.predictor import Predictor

CONFUSED_SHOWN = 3
LOCALIZATION = {
    "any_overlap": "any overlap",
    "half_overlap": "half overlap",
    "channels": "patches × channels",
    "occlusion": "patches × channels by occlusion",
}
FAITHFULNESS_HELP = (
    "Also Gap and I(20) of the evidence beside centred evidence, occlusion and chance, by two meanings of removed: "
    "marked missing, and TRAIN's mean. It predicts some hundred times and trains small nets: minutes, not seconds."
)


def register(app: typer.Typer) -> None:
    """Adds the command to the console script."""
    app.command()(evaluate)


def evaluate(
    bundle: Path = typer.Argument(help="Directory of the bundle."),
    data: str = typer.Option(..., "--data", help=DATA_HELP + " The TEST part is used."),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = RECORDINGS_CONFIG,
    seed: int = DATA_SEED,
    device: str = typer.Option("cpu", help=DEVICE_HELP),
    faithfulness: bool = typer.Option(False, "--faithfulness", help=FAITHFULNESS_HELP),
    as_json: bool = typer.Option(False, "--json", help="Print all figures as one JSON object."),
) -> None:
    """Accuracy, F1, calibration, abstention and cancellation of a bundle on the TEST part of a data set."""
    with show_progress("evaluating", quiet=as_json) as progress:
        figures = _evaluate(bundle, data, data_dir, config, seed, find_device(device), faithfulness, progress)
    if as_json:
        typer.echo(json.dumps(figures, ensure_ascii=False, indent=2))
    else:
        _print(figures)


def _evaluate(
    bundle: Path,
    data: str,
    data_dir: Path | None,
    config: Path | None,
    seed: int,
    device: str,
    faithfulness: bool,
    progress: ProgressCallback,
) -> dict[str, Any]:
    from anchormoe.data.loading import load_dataset
    from anchormoe.metrics.evaluate import evaluate_predictions, require_same_windows, with_classes
    from anchormoe.predictor import Predictor

    predictor = Predictor.load(bundle, device=device)
    split = load_dataset(data, data_dir=data_dir, config=config, seed=seed)
    require_same_windows(split.test, predictor.config)
    test = with_classes(split.test, predictor.config.classes)
    mixed = None if split.mixed is None else with_classes(split.mixed, predictor.config.classes)
    prediction = predictor.predict_plausible(test.cases, lambda done: progress(Progress("evaluating", done, len(test))))
    about = predictor.config
    facts = {
        "data": data,
        "protocol": about.protocol,
        "recipe": about.recipe,
        "model": about.name,
        "digest": about.digest,
    }
    figures = facts | evaluate_predictions(predictor, test, mixed=mixed, prediction=prediction)
    if faithfulness:
        train = with_classes(split.train, predictor.config.classes)
        figures["faithfulness"] = _measure_faithfulness(predictor, train, test, progress)
    return figures


def _measure_faithfulness(
    predictor: "Predictor", train: "Dataset", test: "Dataset", progress: ProgressCallback
) -> dict[str, Any]:
    from anchormoe.metrics.faithfulness import measure_faithfulness

    return measure_faithfulness(predictor, predictor.model.normalizer, train, test, progress=progress)


def _print(figures: dict[str, Any]) -> None:
    from anchormoe.metrics.cancellation import describe_cancellation

    console = text_console()
    low, high = figures["accuracy_interval"]
    console.print(f"{figures['model']} on {figures['data']}: {figures['n']:,} cases, protocol {figures['protocol']}")
    console.print(
        f"accuracy {figures['accuracy']:.3f} (95 % {low:.3f} to {high:.3f}), "
        f"balanced accuracy {figures['balanced_accuracy']:.3f}, macro F1 {figures['macro_f1']:.3f}"
    )
    console.print(_calibration_line(figures))
    console.print(_abstention_line(figures["abstention"]))
    console.print(f"largest residual of the sum of the evidence {figures['largest_residual']:.1e}")
    console.print(describe_cancellation(figures["cancellation"]))
    for kind, score in figures.get("localization", {}).items():
        console.print(
            f"localization, {LOCALIZATION[kind]}: AUPRC {score['auprc']:.3f}, IoU@K {score['iou']:.3f}, "
            f"Precision@K {score['precision']:.3f} over {score['cases']} cases"
        )
    if "stability" in figures:
        console.print(stability_line(figures["stability"]))
    if "mixed" in figures:
        mixed = figures["mixed"]
        console.print(f"mixed windows (not counted above): accuracy {mixed['accuracy']:.3f}, {mixed['n']} cases")
    if "faithfulness" in figures:
        console.print(_faithfulness_table(figures["faithfulness"]))
    console.print(_class_table(figures["per_class"], figures["confusion"]))


def _calibration_line(figures: dict[str, Any]) -> str:
    line = f"log loss {figures['nll']:.3f}, Brier {figures['brier']:.3f}, "
    if figures["ece"] is None:
        return line + "no ECE (fewer than 300 cases)"
    low, high = figures["ece_interval"]
    return line + f"ECE {figures['ece']:.3f} ({low:.3f} to {high:.3f})"


def _abstention_line(figures: dict[str, Any]) -> str:
    if not figures["rate"]:
        return "unknown: never"
    rules = ", ".join(f"{name} {share:.1%}" for name, share in figures["by_rule"].items())
    answered = figures["selective_accuracy"]
    rest = "" if answered is None else f"; accuracy of the answers {answered:.3f}"
    return f"unknown: {figures['rate']:.1%} of the cases ({rules}){rest}"


def stability_line(figures: dict[str, Any]) -> str:
    """What `Stability` found, in one line."""
    if figures["median"] is None:
        return "stability of the evidence: no two windows of one state overlap"
    names = {"p10": "tenth percentile", "patch_median": "by patch", "channel_median": "by channel"}
    details = ", ".join(f"{name} {figures[key]:.3f}" for key, name in names.items() if figures[key] is not None)
    return (
        f"stability of the evidence: correlation {figures['median']:.3f} at the median ({details}) over "
        f"{figures['pairs']} pairs of windows that share {figures['overlap']:.0%} of their steps and their state"
    )


def _faithfulness_table(figures: dict[str, Any]) -> Table:
    """A row per ranking; for each removal its Gap and I(20) with the control."""
    table = Table(f"ranking of steps ({figures['cases']} cases)", box=None, header_style="bold")
    for how in ("missing", "mean"):
        table.add_column(f"Gap, {how}", justify="right")
        table.add_column("I(20) / mask only", justify="right")
    for name in figures["missing"]:
        cells = []
        for one in (figures[how][name] for how in ("missing", "mean")):
            cells += [f"{one['gap']:.3f} ± {one['gap_error']:.3f}", f"{one['i20']:.3f} / {one['mask_only']:.3f}"]
        table.add_row(name, *cells)
    return table


def _class_table(per_class: dict[str, dict[str, float]], confusion: list[list[int]]) -> Table:
    table = Table("class", box=None, header_style="bold")
    for name in ("precision", "recall", "F1", "cases"):
        table.add_column(name, justify="right")
    table.add_column("mistaken for")
    names = list(per_class)
    for row, (name, score) in enumerate(per_class.items()):
        figures = [f"{score[key]:.3f}" for key in ("precision", "recall", "f1")]
        table.add_row(name, *figures, str(score["cases"]), mistaken_for(row, confusion[row], names))
    return table


def mistaken_for(label: int, row: list[int], names: list[str]) -> str:
    """The classes that were predicted instead of a class, the most frequent first."""
    wrong = sorted(((count, at) for at, count in enumerate(row) if count and at != label), key=lambda one: -one[0])
    shown = [f"{names[at]} ({count})" for count, at in wrong[:CONFUSED_SHOWN]]
    return ", ".join(shown + (["…"] if len(wrong) > CONFUSED_SHOWN else []))
