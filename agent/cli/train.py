"""`anchormoe-agent train`: from labelled data to a bundle."""

import json
import shutil
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agent.cli.data import DATA_DIR, DATA_HELP
from agent.cli.devices import present_device
from agent.cli.errors import FAILED, fail
from agent.cli.meter import metered
from agent.errors import SettingsError

if TYPE_CHECKING:
    from anchormoe.data.dataset import Split
    from anchormoe.recipes.settings import RecipeSettings
    from anchormoe.recipes.train import TrainingResult
    from anchormoe.training.checkpoints import Checkpoints


def register(app: typer.Typer) -> None:
    """Add the command to the console script."""
    app.command(epilog="Example: `anchormoe-agent train --data uea:BasicMotions --out bundles/motions`")(train)


def train(
    data: str = typer.Option(..., "--data", help=DATA_HELP),
    out: Path = typer.Option(..., "--out", help="Directory of the new bundle."),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = typer.Option(None, "--config", help="YAML with the sections `train` and `recordings`."),
    changes: list[str] = typer.Option([], "--set", help="key=value of the section `train`, e.g. experts.epochs=40."),
    seed: int = typer.Option(0, min=0, help="First seed; it also draws synthetic sets."),
    seeds: int = typer.Option(1, min=1, help="Fit so many seeds, keep the best out-of-fold, report all."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    recipe: str | None = typer.Option(None, help="joint (default), kernel, experts or paper."),
    profile: str | None = typer.Option(None, help="fast, balanced (default) or accurate."),
    objective: str | None = typer.Option(None, help="accuracy (default) or localize."),
    protocol: str | None = typer.Option(None, help="honest (default) or optimistic (the authors': recipe paper only)."),
    name: str | None = typer.Option(None, help="Name of the model; the data set's by default."),
    model_version: str = typer.Option("1", help="Version of the model, as events will show it."),
    resume: bool = typer.Option(False, "--resume", help="Go on from the checkpoints of an interrupted run."),
    force: bool = typer.Option(False, "--force", help="Replace an existing bundle."),
    as_json: bool = typer.Option(False, "--json", help="Print the result as one JSON object."),
) -> None:
    """Fit a model on the TRAIN part of a data set, judge it once on TEST, and write a bundle."""
    from anchormoe.bundle import store as bundle
    from anchormoe.data.loading import load_dataset
    from anchormoe.training import distributed

    bundle.refuse_existing(out, force=force or resume)
    with metered("reading", quiet=as_json):
        split = load_dataset(
            data, data_dir=data_dir, config=config if data.startswith("recordings:") else None, seed=seed
        )
    options = {"recipe": recipe, "profile": profile, "objective": objective, "protocol": protocol}
    settings = _settings(config, changes, options | {"device": present_device(device)}, split)
    started = time.perf_counter()
    with distributed.joined(settings.device):
        first = _is_first()
        _announce(split, settings, quiet=as_json or not first)
        checkpoints = Checkpoint(out, split, settings, resume=resume)
        trained = _trained(
            split, settings, range(seed, seed + seeds), checkpoints, (name or split.train.name, model_version),
            as_json or not first,
        )  # fmt: skip
    if not first:
        return
    digest = bundle.write_bundle(out, trained.artefact, force=force or resume)
    if not trained.kept.fitted.interrupted:
        checkpoints.remove()
    _print(trained, out, digest, time.perf_counter() - started, as_json)


class Checkpoint:
    """Where an interrupted run left off: a directory beside the bundle, tied to its settings and data."""

    def __init__(self, out: Path, split: "Split", settings: "RecipeSettings", *, resume: bool) -> None:
        from anchormoe.cases import fingerprint

        self._directory = out.parent / f"{out.name}.checkpoints"
        self._facts = {"settings": settings.to_dict(), "data": fingerprint(split.train.cases, split.train.y)}
        self._resume = resume
        if resume:
            self._require_same()
        elif _is_first():
            self.remove()

    def of(self, seed: int) -> "Checkpoints | None":
        from anchormoe.training.checkpoints import DirectoryCheckpoints, ReadOnlyCheckpoints

        kept = DirectoryCheckpoints(self._directory / f"seed-{seed}")
        if not _is_first():
            return ReadOnlyCheckpoints(kept) if self._resume else None
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "run.json").write_text(json.dumps(self._facts, sort_keys=True))
        return kept

    def kept(self) -> list[str]:
        """The stages that are there to go on from."""
        return sorted(f"{file.parent.name}: {file.stem}" for file in self._directory.glob("seed-*/*.json"))

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _require_same(self) -> None:
        facts = self._directory / "run.json"
        if not facts.exists():
            raise SettingsError(f"--resume: there are no checkpoints in {self._directory}")
        if json.loads(facts.read_text()) != self._facts:
            raise SettingsError(f"--resume: the run in {self._directory} had other settings or data")


def _is_first() -> bool:
    """Of the processes that train together; the first one speaks and writes."""
    from anchormoe.training import distributed

    return distributed.rank() == 0


def _settings(config: Path | None, changes: list[str], options: dict[str, Any], split: "Split") -> "RecipeSettings":
    from agent.cli.train_settings import train_settings

    return train_settings(config, changes, options, alignment=split.train.alignment)


def _announce(split: "Split", settings: "RecipeSettings", *, quiet: bool) -> None:
    from anchormoe.data.inspection import uninformative_channels
    from anchormoe.recipes.memory import needed_bytes, readable

    if quiet:
        return
    train = split.train
    typer.echo(
        f"{train.name}: {len(train):,} cases, {train.cases.channels} channels, {train.cases.steps} steps, "
        f"{len(train.classes)} classes; recipe {settings.recipe}, profile {settings.profile}, {settings.device}",
        err=True,
    )
    for remark in uninformative_channels(train):
        typer.echo(f"note: {remark}", err=True)
    needed = needed_bytes(train.cases, settings, test=split.test.cases)
    typer.echo(f"will need about {readable(needed)} of memory", err=True)
    if settings.protocol == "optimistic":
        typer.echo("protocol optimistic: the epoch is picked on TEST; every figure says so", err=True)


def _trained(
    split: "Split",
    settings: "RecipeSettings",
    seeds: range,
    checkpoints: Checkpoint,
    named: tuple[str, str],
    quiet: bool,
) -> "TrainingResult":
    from agent.cli.progress import shown_progress
    from anchormoe.recipes.train import train_bundle as run

    try:
        with shown_progress(quiet=quiet) as progress:
            return run(
                split, settings, seeds=seeds, name=named[0], version=named[1], progress=progress,
                checkpoints=checkpoints.of,
            )  # fmt: skip
    except KeyboardInterrupt:
        if not _is_first():
            raise typer.Exit(FAILED) from None
        kept = checkpoints.kept()
        fail(f"interrupted before there was a model to write; kept for --resume: {', '.join(kept) or 'nothing'}")


def _print(trained: "TrainingResult", out: Path, digest: str, seconds: float, as_json: bool) -> None:
    from anchormoe.metrics.scores import label_of_test

    metrics = trained.artefact.metrics
    if as_json:
        facts = {"bundle": str(out), "digest": digest, "seconds": seconds, "metrics": metrics}
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    tested = label_of_test(metrics["protocol"])
    for part, figures in (("out-of-fold", metrics["out_of_fold"]), (tested, metrics["test"])):
        low, high = figures["accuracy_interval"]
        typer.echo(
            f"{part:>12}: accuracy {figures['accuracy']:.3f} ({low:.3f} to {high:.3f}), balanced "
            f"{figures['balanced_accuracy']:.3f}, macro F1 {figures['macro_f1']:.3f}, "
            f"log-likelihood loss {figures['nll']:.3f}, {figures['n']} cases"
        )
    if len(trained.runs) > 1:
        typer.echo(_seeds_line(trained, tested))
    if trained.kept.fitted.interrupted:
        typer.echo("interrupted: this is the best so far; the same command with --resume goes on from here")
    typer.echo(f"{out} written in {seconds:.0f} s, digest {digest[:12]}")


def _seeds_line(trained: "TrainingResult", tested: str) -> str:
    accuracies = [run.figures["accuracy"] for run in trained.runs]
    return (
        f"{len(accuracies)} seeds: {tested} accuracy {statistics.mean(accuracies):.3f} "
        f"± {statistics.stdev(accuracies):.3f}, "
        f"seed {trained.kept.seed} kept by its out-of-fold loss"
    )
