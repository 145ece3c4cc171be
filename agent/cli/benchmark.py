"""`anchormoe-agent benchmark`: our recipe beside others on the same data, written as a page of results."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from agent.cli.data import DATA_DIR
from agent.cli.errors import fail
from anchormoe.progress import Progress

if TYPE_CHECKING:
    from anchormoe.benchmark.runner import Plan, Results

SHIPPED_SETS = ("BasicMotions", "JapaneseVowels")
# Neighbouring seeds of a synthetic set share noise between one's test and the next one's training.
SEED_STEP = {"uea": 1, "synthetic": 10, "ablation": 10}
METHODS = {
    "uea": ("minirocket", "multirocket-hydra", "anchormoe"),
    "synthetic": ("minirocket", "multirocket-hydra", "anchormoe", "anchormoe-localize"),
}
PAGES = {
    "uea": Path("docs/results/uea.md"),
    "synthetic": Path("docs/results/localization.md"),
    "ablation": Path("docs/results/ablation.md"),
}
SETS_HELP = (
    "Names, separated by commas. Default: all at hand and the paper's. aeon also brings ACSF1, ArrowHead, GunPoint, "
    "ItalyPowerDemand, OSULeaf, PickupGestureWiimoteZ."
)
INTERRUPTED = 130


class Kind(StrEnum):
    """What can be benchmarked."""

    uea = "uea"
    synthetic = "synthetic"
    ablation = "ablation"


def register(app: typer.Typer) -> None:
    """Add the command to the console script."""
    app.command()(benchmark)


def benchmark(
    kind: Kind = typer.Argument(
        help="uea: accuracy on the UEA sets at hand; synthetic: where the evidence is; ablation: what parts are worth."
    ),
    sets: str | None = typer.Option(None, help=SETS_HELP),
    seeds: int = typer.Option(3, min=1, help="How many seeds."),
    methods: str | None = typer.Option(None, help="Names, separated by commas, e.g. minirocket,anchormoe."),
    data_dir: Path | None = DATA_DIR,
    recipe: str = typer.Option("joint", help="Recipe of the method `anchormoe`."),
    profile: str = typer.Option("balanced", help="Profile of our methods: fast, balanced or accurate."),
    jobs: int = typer.Option(1, min=1, help="Threads of the baselines."),
    ledger: Path | None = typer.Option(None, help="Finished runs; default out/benchmark/KIND.jsonl."),
    out: Path | None = typer.Option(None, help="The page to write; default docs/results/."),
    title: str = typer.Option("", help="Title of the page, for sets of your choice."),
    paper: Path = typer.Option(Path("configs/paper_results.yaml"), help="The paper's figures."),
    as_json: bool = typer.Option(False, "--json", help="Print all runs as one JSON object."),
) -> None:
    """Run every method on every set and seed, go on where an earlier run stopped, and write the tables."""
    from anchormoe.benchmark import ablation, baselines, recipe_methods  # noqa: F401  # they register their methods
    from anchormoe.benchmark.methods import Effort, method
    from anchormoe.benchmark.runner import Plan
    from anchormoe.recipes.settings import RecipeSettings

    chosen = _names(methods) or METHODS.get(kind, ablation.METHODS)
    for name in chosen:
        method(name)
    RecipeSettings(recipe=recipe, profile=profile)  # type: ignore[arg-type]  # refuses a misspelt word now, not hours later
    plan = Plan(
        source=kind.value,
        sets=_names(sets) or _default_sets(kind, data_dir, paper),
        methods=chosen,
        seeds=tuple(SEED_STEP[kind] * at for at in range(seeds)),
        effort=Effort(n_jobs=jobs, recipe=recipe, profile=profile),
        named=bool(_names(sets)),
        title=title,
    )
    results = _run(plan, data_dir, ledger or Path(f"out/benchmark/{kind.value}.jsonl"))
    page = out or PAGES[kind]
    _write(page, plan, results, paper)
    typer.echo(json.dumps(_as_json(results), ensure_ascii=False) if as_json else f"written to {page}")


def _names(given: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (given or "").split(",") if name.strip())


def _default_sets(kind: Kind, data_dir: Path | None, paper: Path) -> tuple[str, ...]:
    """All at hand and all of the paper's, so that the page can say which of those could not be had."""
    from anchormoe.benchmark.ablation import SETS
    from anchormoe.benchmark.report import read_paper
    from anchormoe.benchmark.runner import sets_in
    from anchormoe.data.synthetic import DESIGNS

    if kind is Kind.ablation:
        return SETS
    if kind is Kind.synthetic:
        return tuple(DESIGNS)
    return sets_in(data_dir, (*SHIPPED_SETS, *read_paper(paper).classification))


def _run(plan: "Plan", data_dir: Path | None, ledger: Path) -> "Results":
    from anchormoe.benchmark import ablation
    from anchormoe.benchmark.ledger import Ledger
    from anchormoe.benchmark.runner import loader, run_benchmark

    load = ablation.loader(data_dir) if plan.source == "ablation" else loader(plan.source, data_dir)

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=len(plan.sets) * len(plan.methods) * len(plan.seeds))

        def show(progress: Progress) -> None:
            bar.update(task, description=_described(progress), completed=progress.done)

        try:
            return run_benchmark(plan, Ledger(ledger), load, progress=show)
        except KeyboardInterrupt:
            bar.stop()
            fail(f"interrupted; finished runs are in {ledger}, the same command goes on from there", code=INTERRUPTED)


def _described(progress: Progress) -> str:
    figures = " ".join(f"{name} {value:.3f}" for name, value in progress.figures.items())
    return f"{progress.stage} {figures}".strip()


def _write(page: Path, plan: "Plan", results: "Results", paper: Path) -> None:
    from anchormoe.benchmark.report import REPORTS, read_paper

    write = REPORTS[plan.source]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(write(plan, results, read_paper(paper), datetime.now(tz=UTC).date()), encoding="utf-8")


def _as_json(results: "Results") -> dict[str, Any]:
    return {"runs": [asdict(entry) for entry in results.entries], "missing": results.missing}
