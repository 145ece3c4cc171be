"""`anchormoe-agent train`: from labelled data to a bundle."""

import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agent.cli.errors import FAILED, fail
from agent.cli.options import ALLOW_USELESS, DATA_DIR, DATA_HELP, DEVICE_HELP, find_device
from agent.cli.progress import count_progress, interrupt_at_report, show_progress
from agent.errors import SettingsError

if TYPE_CHECKING:
    from anchormoe.data.dataset import Split
    from anchormoe.profiles.names import NamedBefore
    from anchormoe.recipes.settings import RecipeSettings
    from anchormoe.recipes.train import TrainingResult
    from anchormoe.training.run_checkpoints import RunCheckpoints

CANCELS = (
    "warning: parts of the evidence are much larger than the scores they add up to, so single contributions mean "
    "little; try --recipe experts, or more cases"
)


def register(app: typer.Typer) -> None:
    """Adds the command to the console script."""
    app.command(epilog="Example: `anchormoe-agent train --data uea:BasicMotions --out bundles/motions`")(train)


def train(
    data: str = typer.Option(..., "--data", help=DATA_HELP),
    out: Path = typer.Option(..., "--out", help="Directory of the new bundle."),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = typer.Option(
        None, "--config", help="YAML file with the section `train`, and for recordings:DIR the section `recordings`."
    ),
    changes: list[str] = typer.Option([], "--set", help="One setting as key=value, e.g. experts.epochs=40."),
    seed: int = typer.Option(0, min=0, help="First seed; it also generates synthetic sets."),
    seeds: int = typer.Option(1, min=1, help="Number of seeds to fit; the best out-of-fold is kept, all are reported."),
    device: str = typer.Option("auto", help=DEVICE_HELP),
    recipe: str | None = typer.Option(None, help="joint (default), kernel, experts or paper."),
    profile: str | None = typer.Option(None, help="fast, balanced (default) or accurate."),
    objective: str | None = typer.Option(None, help="accuracy (default) or localize."),
    protocol: str | None = typer.Option(
        None, help="honest (default) or, with recipe paper, optimistic: the authors' choice of the epoch on TEST."
    ),
    name: str | None = typer.Option(None, help="Name of the model; by default that of the data set."),
    model_version: str = typer.Option("1", help="Version of the model, as shown in events."),
    names_from: Path | None = typer.Option(
        None, "--names-from", help="An earlier bundle: experts that are the same keep their names."
    ),
    resume: bool = typer.Option(False, "--resume", help="Resume an interrupted run from its checkpoints."),
    force: bool = typer.Option(False, "--force", help="Replace an existing bundle."),
    allow_useless: bool = ALLOW_USELESS,
    as_json: bool = typer.Option(False, "--json", help="Print the result as one JSON object."),
) -> None:
    """Fit a model on the TRAIN part of a data set, evaluate it once on TEST, and write a bundle.

    It is compared with simple models on the same folds. A bundle near chance, or nearly always `unknown`, is not
    written unless --allow-useless is given; what was trained is kept for --resume.
    """
    from anchormoe.bundle.store import refuse_existing, write_bundle
    from anchormoe.data.loading import load_dataset
    from anchormoe.training.distributed import process_group, rank

    refuse_existing(out, force=force or resume)
    before = None if names_from is None else _named_before(names_from)
    with count_progress("reading", quiet=as_json):
        split = load_dataset(
            data, data_dir=data_dir, config=config if data.startswith("recordings:") else None, seed=seed
        )
    options = {"recipe": recipe, "profile": profile, "objective": objective, "protocol": protocol}
    _refuse_wrong_data(split, (name or split.train.name, model_version))
    settings = _settings(config, changes, options | {"device": find_device(device)}, split)
    started = time.perf_counter()
    with process_group(settings.device):
        quiet = as_json or rank() > 0
        _announce(split, settings, quiet=quiet)
        checkpoints = _open_checkpoints(out, split, settings, resume=resume)
        names = (name or split.train.name, model_version)
        result = _train(split, settings, range(seed, seed + seeds), checkpoints, names, quiet, before)
        if rank() > 0:
            return
    # What was interrupted is kept as it is; neither `bundle verify` nor `models activate` takes it if it is useless.
    _refuse_useless(result, allowed=allow_useless or result.best.fitted.interrupted, quiet=as_json)
    digest = write_bundle(out, result.artefact, force=force or resume)
    if not result.best.fitted.interrupted:
        checkpoints.remove()
    _print(result, out, digest, time.perf_counter() - started, as_json)


def _refuse_wrong_data(split: "Split", names: tuple[str, str]) -> None:
    """What would only be found after the training."""
    from anchormoe.bundle.config import require_storable_names
    from anchormoe.data.inspection import uninformative_channels
    from anchormoe.errors import DataError

    require_storable_names(split.train.classes, split.train.channels, (*split.train.units, *names))
    notes = uninformative_channels(split.train)
    if len(notes) == len(split.train.channels):
        more = f"; and {len(notes) - 3} more like it" if len(notes) > 3 else ""
        raise DataError(f"{split.train.name}: no channel can tell classes apart: {'; '.join(notes[:3])}{more}")


def _named_before(directory: Path) -> "NamedBefore | None":
    from anchormoe.bundle.store import load_bundle
    from anchormoe.profiles.names import NamedBefore, Vocabulary

    found = load_bundle(directory)
    period_s = None if found.config.period_ns is None else found.config.period_ns / 1e9
    words = Vocabulary(found.config.channels, found.config.classes, period_s)
    return None if found.experts is None else NamedBefore(found.experts.experts, words)


def _settings(config: Path | None, changes: list[str], options: dict[str, Any], split: "Split") -> "RecipeSettings":
    from agent.cli.train_settings import train_settings

    return train_settings(config, changes, options, alignment=split.train.alignment)


def _announce(split: "Split", settings: "RecipeSettings", *, quiet: bool) -> None:
    from anchormoe.data.fold_notes import fold_notes
    from anchormoe.data.inspection import uninformative_channels
    from anchormoe.recipes.memory import estimate_peak_bytes, format_size

    if quiet:
        return
    train = split.train
    typer.echo(
        f"{train.name}: {len(train):,} cases, {train.cases.channels} channels, {train.cases.steps} steps, "
        f"{len(train.classes)} classes; recipe {settings.recipe}, profile {settings.profile}, {settings.device}",
        err=True,
    )
    for note in uninformative_channels(train):
        typer.echo(f"note: {note}", err=True)
    for note in fold_notes(train):
        typer.echo(f"warning: {note}", err=True)
    peak = estimate_peak_bytes(train.cases, settings, test=split.test.cases)
    typer.echo(f"estimated peak memory: {format_size(peak)}", err=True)
    if settings.protocol == "optimistic":
        typer.echo("note: protocol optimistic chooses the epoch on TEST; figures on TEST are labelled so", err=True)


def _open_checkpoints(out: Path, split: "Split", settings: "RecipeSettings", *, resume: bool) -> "RunCheckpoints":
    from anchormoe.errors import DataError
    from anchormoe.recipes.train import open_checkpoints

    try:
        return open_checkpoints(out.parent / f"{out.name}.checkpoints", split, settings, resume=resume)
    except DataError as error:
        raise SettingsError(f"--resume: {error}") from error


def _train(
    split: "Split",
    settings: "RecipeSettings",
    seeds: range,
    checkpoints: "RunCheckpoints",
    names: tuple[str, str],
    quiet: bool,
    before: "NamedBefore | None",
) -> "TrainingResult":
    from anchormoe.recipes.train import train_bundle
    from anchormoe.training.distributed import rank

    try:
        with show_progress("training", lines=True, quiet=quiet) as show, interrupt_at_report(show) as progress:
            return train_bundle(
                split, settings, seeds=seeds, name=names[0], version=names[1], progress=progress,
                checkpoints=checkpoints.for_seed, before=before,
            )  # fmt: skip
    except KeyboardInterrupt:
        if rank() > 0:
            raise typer.Exit(FAILED) from None
        stages = ", ".join(checkpoints.stages()) or "nothing"
        fail(f"interrupted before there was a model to write; stored for --resume: {stages}")


def _print(result: "TrainingResult", out: Path, digest: str, seconds: float, as_json: bool) -> None:
    from anchormoe.metrics.scores import label_test_figures

    metrics = result.artefact.metrics
    if as_json:
        facts = {"bundle": str(out), "digest": digest, "seconds": seconds, "metrics": metrics}
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    test_label = label_test_figures(metrics["protocol"])
    for part, figures in (("out-of-fold", metrics["out_of_fold"]), (test_label, metrics["test"])):
        low, high = figures["accuracy_interval"]
        typer.echo(
            f"{part:>12}: accuracy {figures['accuracy']:.3f} ({low:.3f} to {high:.3f}), balanced "
            f"{figures['balanced_accuracy']:.3f}, macro F1 {figures['macro_f1']:.3f}, "
            f"log loss {figures['nll']:.3f}, {figures['n']} cases"
        )
    for line in [*cancellation_lines(metrics["cancellation"]), *_baseline_lines(result)]:
        typer.echo(line)
    if len(result.runs) > 1:
        typer.echo(_seeds_line(result, test_label))
    if result.best.fitted.interrupted:
        typer.echo("interrupted: this is the best model so far; the same command with --resume continues")
    typer.echo(f"{out} written in {seconds:.0f} s, digest {digest[:12]}")


def _refuse_useless(result: "TrainingResult", *, allowed: bool, quiet: bool) -> None:
    """With the figures that it is judged by: where a simple model does better, they say so."""
    reasons = result.usefulness.useless
    if not reasons:
        return
    if allowed:
        for reason in reasons:
            typer.echo(f"warning: not a useful model: {reason}", err=True)
        return
    for line in [] if quiet else _baseline_lines(result):
        typer.echo(line, err=True)
    why = "\n".join(f"- {reason}" for reason in reasons)
    fail(
        f"no bundle was written, because the model is not useful:\n{why}\n"
        "the same command with --resume --allow-useless writes it nevertheless"
    )


def _baseline_lines(result: "TrainingResult") -> list[str]:
    """The model beside simple ones on the same folds, and what to know about it."""
    judged = result.usefulness
    rows = [("this model", judged.accuracy, judged.balanced_accuracy)]
    rows += [(one.name, one.accuracy, one.balanced_accuracy) for one in judged.baselines]
    width = max(len(name) for name, _, _ in rows)
    table = [f"  {name:<{width}}  accuracy {right:.3f}, balanced {even:.3f}" for name, right, even in rows]
    unknown = f"out-of-fold, beside simple models (`unknown` {judged.unknown:.1%}):"
    return [unknown, *table, *(f"note: {note}" for note in judged.notes)]


def cancellation_lines(figures: dict[str, Any]) -> list[str]:
    """The figures on TRAIN, and a warning where a bound is exceeded."""
    from anchormoe.metrics.cancellation import describe_cancellation

    line = f"{'TRAIN':>12}: {describe_cancellation(figures)}"
    return [line] if figures["bounds_kept"] else [line, CANCELS]


def _seeds_line(result: "TrainingResult", test_label: str) -> str:
    accuracies = [run.figures["accuracy"] for run in result.runs]
    return (
        f"{len(accuracies)} seeds: {test_label} accuracy {statistics.mean(accuracies):.3f} "
        f"± {statistics.stdev(accuracies):.3f}; seed {result.best.seed} was kept for its out-of-fold loss"
    )
