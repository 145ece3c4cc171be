"""`anchormoe-agent evaluate`: how good a bundle is on labelled data."""

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from agent.cli.data import CONFIG, DATA_DIR, DATA_HELP
from agent.cli.devices import present_device
from agent.cli.meter import metered

CONFUSED_SHOWN = 3


def register(app: typer.Typer) -> None:
    """Add the command to the console script."""
    app.command()(evaluate)


def evaluate(
    bundle: Path = typer.Argument(help="Directory of the bundle."),
    data: str = typer.Option(..., "--data", help=DATA_HELP + " Its TEST part is judged."),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = CONFIG,
    seed: int = typer.Option(0, min=0, help="Seed of a synthetic set."),
    device: str = typer.Option("cpu", help="auto, cpu or cuda."),
    as_json: bool = typer.Option(False, "--json", help="All figures as one JSON object."),
) -> None:
    """Accuracy, F1, calibration, abstention and the identity on the TEST part of a data set."""
    with metered("evaluating", quiet=as_json):
        figures = _judged(bundle, data, data_dir=data_dir, config=config, seed=seed, device=present_device(device))
    if as_json:
        typer.echo(json.dumps(figures, ensure_ascii=False, indent=2))
    else:
        _print(figures)


def _judged(
    bundle: Path, data: str, *, data_dir: Path | None, config: Path | None, seed: int, device: str
) -> dict[str, Any]:
    from anchormoe.data.loading import load_dataset
    from anchormoe.metrics.evaluate import evaluate_predictions, in_classes_of, refuse_other_windows
    from anchormoe.predictor import Predictor

    predictor = Predictor.load(bundle, device=device)
    split = load_dataset(data, data_dir=data_dir, config=config, seed=seed)
    refuse_other_windows(split.test, predictor.config)
    test = in_classes_of(split.test, predictor.config.classes)
    mixed = None if split.mixed is None else in_classes_of(split.mixed, predictor.config.classes)
    about = predictor.config
    facts = {
        "data": data,
        "protocol": about.protocol,
        "recipe": about.recipe,
        "model": about.name,
        "digest": about.digest,
    }
    return facts | evaluate_predictions(predictor, test, mixed=mixed)


def _print(figures: dict[str, Any]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    low, high = figures["accuracy_interval"]
    console.print(
        f"[bold]{figures['model']}[/bold] on {figures['data']}: {figures['n']:,} cases, protocol {figures['protocol']}"
    )
    console.print(
        f"accuracy {figures['accuracy']:.3f} (95 % {low:.3f} to {high:.3f}), "
        f"balanced accuracy {figures['balanced_accuracy']:.3f}, macro F1 {figures['macro_f1']:.3f}"
    )
    console.print(_calibration_line(figures))
    console.print(_abstention_line(figures["abstention"]))
    console.print(f"largest residual of the identity {figures['largest_residual']:.1e}")
    for kind, score in figures.get("localization", {}).items():
        console.print(
            f"localization, {kind.replace('_', ' ')}: AUPRC {score['auprc']:.3f}, IoU@K {score['iou']:.3f}, "
            f"Precision@K {score['precision']:.3f} over {score['cases']} cases"
        )
    if "mixed" in figures:
        console.print(f"mixed windows, apart: accuracy {figures['mixed']['accuracy']:.3f} of {figures['mixed']['n']}")
    console.print(_class_table(figures["per_class"], figures["confusion"]))


def _calibration_line(figures: dict[str, Any]) -> str:
    line = f"negative log-likelihood {figures['nll']:.3f}, Brier {figures['brier']:.3f}, "
    if figures["ece"] is None:
        return line + "ECE not given (fewer than 300 cases)"
    low, high = figures["ece_interval"]
    return line + f"ECE {figures['ece']:.3f} ({low:.3f} to {high:.3f})"


def _abstention_line(figures: dict[str, Any]) -> str:
    if not figures["rate"]:
        return "unknown: never"
    rules = ", ".join(f"{name} {share:.1%}" for name, share in figures["by_rule"].items())
    answered = figures["selective_accuracy"]
    rest = "" if answered is None else f"; accuracy of the others {answered:.3f}"
    return f"unknown: {figures['rate']:.1%} of the cases ({rules}){rest}"


def _class_table(per_class: dict[str, dict[str, float]], confusion: list[list[int]]) -> Table:
    table = Table("class", box=None, header_style="bold")
    for name in ("precision", "recall", "F1", "cases"):
        table.add_column(name, justify="right")
    table.add_column("taken for")
    names = list(per_class)
    for place, (name, score) in enumerate(per_class.items()):
        figures = [f"{score[key]:.3f}" for key in ("precision", "recall", "f1")]
        table.add_row(name, *figures, str(score["cases"]), taken_for(place, confusion[place], names))
    return table


def taken_for(place: int, row: list[int], names: list[str]) -> str:
    """The wrong classes that were said for a class, the most frequent first."""
    wrong = sorted(((count, at) for at, count in enumerate(row) if count and at != place), key=lambda one: -one[0])
    shown = [f"{names[at]} ({count})" for count, at in wrong[:CONFUSED_SHOWN]]
    return ", ".join(shown + (["…"] if len(wrong) > CONFUSED_SHOWN else []))
