"""`anchormoe-agent benchmark`: compares our recipes with baselines and writes a page of results."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agent.cli.errors import fail
from agent.cli.options import DATA_DIR
from agent.cli.progress import show_progress
from agent.cli.recorded_sets import recorded_sets, recording_loader

if TYPE_CHECKING:
    from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults

SHIPPED_SETS = ("BasicMotions", "JapaneseVowels")
# Neighbouring seeds of a synthetic set would share noise: one's TEST and the next one's TRAIN.
SEED_STEP = {"uea": 1, "synthetic": 10, "ablation": 10, "faithfulness": 1, "stability": 1}
METHODS = {
    "uea": ("minirocket", "multirocket-hydra", "anchormoe"),
    "synthetic": ("minirocket", "multirocket-hydra", "anchormoe", "anchormoe-localize"),
    "stability": ("anchormoe", "anchormoe-kernel", "anchormoe-experts"),
}
PAGES = {
    "uea": Path("docs/results/uea.md"),
    "synthetic": Path("docs/results/localization.md"),
    "ablation": Path("docs/results/ablation.md"),
    "faithfulness": Path("docs/results/faithfulness.md"),
    "stability": Path("docs/results/stability.md"),
}
SETS_HELP = (
    "Names, separated by commas. Default: all sets in --data-dir, those bundled with aeon, and the paper's. aeon also "
    "has ACSF1, ArrowHead, GunPoint, ItalyPowerDemand, OSULeaf and PickupGestureWiimoteZ."
)
INTERRUPTED = 130


class BenchmarkKind(StrEnum):
    """What can be benchmarked."""

    uea = "uea"
    synthetic = "synthetic"
    ablation = "ablation"
    faithfulness = "faithfulness"
    stability = "stability"


def register(app: typer.Typer) -> None:
    """Adds the command to the console script."""
    app.command()(benchmark)


def benchmark(
    kind: BenchmarkKind = typer.Argument(
        help="uea: accuracy on UEA sets; synthetic: localization of the evidence; ablation: effect of single parts; "
        "faithfulness: Gap, I(20) and cancellation of the evidence of each recipe on UEA sets; stability: correlation "
        "of the evidence of overlapping windows, on simulated plants and on DATA_DIR/NAME with "
        "configs/recordings-NAME.yaml (skab)."
    ),
    sets: str | None = typer.Option(None, help=SETS_HELP),
    seeds: int = typer.Option(3, min=1, help="Number of seeds."),
    methods: str | None = typer.Option(None, help="Names, separated by commas, e.g. minirocket,anchormoe."),
    data_dir: Path | None = DATA_DIR,
    recipe: str = typer.Option("joint", help="Recipe of the method `anchormoe`."),
    profile: str = typer.Option("balanced", help="Profile of our methods: fast, balanced or accurate."),
    jobs: int = typer.Option(1, min=1, help="Threads of the baselines."),
    ledger: Path | None = typer.Option(
        None, help="File of finished runs, which are reused; default out/benchmark/KIND.jsonl."
    ),
    out: Path | None = typer.Option(None, help="Page to write; default: the one in docs/results/."),
    title: str = typer.Option("", help="Title of the page."),
    paper: Path = typer.Option(Path("configs/paper_results.yaml"), help="File with the paper's figures."),
    as_json: bool = typer.Option(False, "--json", help="Print all runs as one JSON object."),
) -> None:
    """Run every method on every set and seed, reusing finished runs, and write the tables."""
    from anchormoe.benchmark import ablation, baselines, faithfulness, recipe_methods  # noqa: F401  # importing them registers their methods
    from anchormoe.benchmark.methods import Effort, find_method
    from anchormoe.benchmark.runner import BenchmarkPlan
    from anchormoe.recipes.settings import RecipeSettings

    defaults = METHODS | {"ablation": ablation.METHODS, "faithfulness": faithfulness.METHODS}
    chosen = _names(methods) or defaults[kind]
    for name in chosen:
        find_method(name)
    RecipeSettings(recipe=recipe, profile=profile)  # type: ignore[arg-type]  # refuses a misspelt name now, not hours later
    plan = BenchmarkPlan(
        source=kind.value,
        sets=_names(sets) or _default_sets(kind, data_dir, paper),
        methods=chosen,
        seeds=tuple(SEED_STEP[kind] * at for at in range(seeds)),
        effort=Effort(n_jobs=jobs, recipe=recipe, profile=profile),
        named=bool(_names(sets)),
        methods_named=bool(_names(methods)),
        title=title,
    )
    results = _run(plan, data_dir, ledger or Path(f"out/benchmark/{kind.value}.jsonl"))
    page = out or PAGES[kind]
    _write(page, plan, results, paper)
    typer.echo(json.dumps(_as_json(results), ensure_ascii=False) if as_json else f"written to {page}")


def _names(given: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (given or "").split(",") if name.strip())


def _default_sets(kind: BenchmarkKind, data_dir: Path | None, paper: Path) -> tuple[str, ...]:
    """All that are found and all of the paper's, so that the page can say which of those are missing."""
    from anchormoe.benchmark.ablation import SETS
    from anchormoe.benchmark.report import read_paper
    from anchormoe.benchmark.runner import find_sets
    from anchormoe.data.synthetic import DESIGNS

    if kind is BenchmarkKind.ablation:
        return SETS
    if kind is BenchmarkKind.synthetic:
        return tuple(DESIGNS)
    if kind is BenchmarkKind.stability:
        return recorded_sets(data_dir)
    quoted = read_paper(paper)
    of_paper = quoted.faithfulness if kind is BenchmarkKind.faithfulness else quoted.classification
    return find_sets(data_dir, (*SHIPPED_SETS, *of_paper))


def _run(plan: "BenchmarkPlan", data_dir: Path | None, ledger: Path) -> "BenchmarkResults":
    from anchormoe.benchmark.ablation import ablation_loader
    from anchormoe.benchmark.ledger import Ledger
    from anchormoe.benchmark.runner import STAGE, run_benchmark, split_loader

    loaders = {
        "ablation": lambda: ablation_loader(data_dir),
        "faithfulness": lambda: split_loader("uea", data_dir),
        "stability": lambda: recording_loader(data_dir),
    }
    load = loaders.get(plan.source, lambda: split_loader(plan.source, data_dir))()
    try:
        with show_progress(STAGE, lines=True) as progress:
            return run_benchmark(plan, Ledger(ledger), load, progress=progress)
    except KeyboardInterrupt:
        fail(f"interrupted; finished runs are in {ledger}, and the same command continues", code=INTERRUPTED)


def _write(page: Path, plan: "BenchmarkPlan", results: "BenchmarkResults", paper: Path) -> None:
    from anchormoe.benchmark.report import REPORTS, read_paper

    write = REPORTS[plan.source]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(write(plan, results, read_paper(paper), datetime.now(tz=UTC).date()), encoding="utf-8")


def _as_json(results: "BenchmarkResults") -> dict[str, Any]:
    return {"runs": [asdict(entry) for entry in results.entries], "missing": results.missing}
