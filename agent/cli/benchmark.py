"""`anchormoe-agent benchmark`: compares our recipes with baselines and writes a page of results."""

import json
import math
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.options import DATA_DIR
from agent.cli.progress import show_progress
from agent.cli.recorded_sets import recorded_sets, recording_loader

if TYPE_CHECKING:
    from anchormoe.benchmark.report_tables import Paper
    from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults

SHIPPED_SETS = ("BasicMotions", "JapaneseVowels")
# Neighbouring seeds of a synthetic set would share noise: one's TEST and the next one's TRAIN.
SEED_STEP = {"uea": 1, "synthetic": 10, "ablation": 10, "faithfulness": 1, "stability": 1, "classifiers": 1,
             "explainers": 10}  # fmt: skip
METHODS = {
    "uea": ("minirocket", "multirocket-hydra", "anchormoe"),
    "synthetic": ("minirocket", "multirocket-hydra", "anchormoe", "anchormoe-localize"),
    "stability": ("anchormoe", "anchormoe-kernel", "anchormoe-experts"),
    "classifiers": (
        "dlinear", "lightts", "patchtst", "fedformer", "micn", "timesnet", "tslanet", "mptsnet", "minirocket",
        "multirocket-hydra", "anchormoe", "anchormoe-kernel", "anchormoe-experts", "anchormoe-paper",
        "anchormoe-paper-optimistic",
    ),
}  # fmt: skip
PAGES = {
    "uea": Path("docs/results/uea.md"),
    "synthetic": Path("docs/results/localization.md"),
    "ablation": Path("docs/results/ablation.md"),
    "faithfulness": Path("docs/results/faithfulness.md"),
    "stability": Path("docs/results/stability.md"),
    "classifiers": Path("docs/results/classifiers.md"),
    "explainers": Path("docs/results/explainers.md"),
    "figures": Path("docs/results/figures.md"),
}
# These take hours and are meant to be continued by others: their ledgers are part of the repository.
LEDGERS = {kind: Path(f"docs/results/{kind}.jsonl") for kind in PAGES}
README = Path("README.md")
PAPER = Path("configs/paper_results.yaml")
SETS_HELP = (
    "Names, separated by commas; for ablation and explainers with their source: uea:BasicMotions. "
    "Default: all sets in --data-dir, those bundled with aeon, and the paper's. aeon also has ACSF1, ArrowHead, "
    "GunPoint, ItalyPowerDemand, OSULeaf and PickupGestureWiimoteZ."
)
INTERRUPTED = 130


class BenchmarkKind(StrEnum):
    """What can be benchmarked."""

    uea = "uea"
    synthetic = "synthetic"
    ablation = "ablation"
    faithfulness = "faithfulness"
    stability = "stability"
    classifiers = "classifiers"
    explainers = "explainers"
    figures = "figures"


def register(app: typer.Typer) -> None:
    """Adds the command to the console script."""
    app.command()(benchmark)


def benchmark(
    kind: BenchmarkKind = typer.Argument(
        help="uea: accuracy on UEA sets; synthetic: localization of the evidence; ablation: effect of single parts; "
        "faithfulness: Gap, I(20) and cancellation of the evidence of each recipe on UEA sets; stability: correlation "
        "of the evidence of overlapping windows, on simulated plants and on DATA_DIR/NAME with "
        "configs/recordings-NAME.yaml (skab); classifiers: the paper's nine classifiers and MultiRocketHydra beside "
        "ours, with ranks, tests and critical-difference diagrams; explainers: the paper's nine explainers and "
        "occlusion beside our evidence: localization on the synthetic sets, Gap and I(20) on UEA sets, time; "
        "figures: the drawings of the results, all or those of --methods, from small models fitted for them and from "
        "the ledger of the ablation."
    ),
    sets: str | None = typer.Option(None, help=SETS_HELP),
    seeds: int = typer.Option(3, min=1, help="Number of seeds."),
    methods: str | None = typer.Option(None, help="Names, separated by commas, e.g. minirocket,anchormoe."),
    data_dir: Path | None = DATA_DIR,
    recipe: str = typer.Option("joint", help="Recipe of the method `anchormoe`."),
    profile: str = typer.Option("balanced", help="Profile of our methods: fast, balanced or accurate."),
    jobs: int = typer.Option(1, min=1, help="Threads of the baselines."),
    ledger: Path | None = typer.Option(
        None,
        help="File of finished runs, which are reused; default docs/results/KIND.jsonl.",
    ),
    fits: Path = typer.Option(
        Path("out/fits"), help="Folder where fitted models are kept, for other benchmarks of the same model."
    ),
    out: Path | None = typer.Option(None, help="Page to write; default: the one in docs/results/."),
    title: str = typer.Option("", help="Title of the page."),
    paper: Path = typer.Option(PAPER, help="File with the paper's figures."),
    budget: float | None = typer.Option(
        None, min=0, help="Minutes after which no further run is started; the page says what is missing."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print all runs as one JSON object."),
) -> None:
    """Run every method on every set and seed, reusing finished runs, and write the tables."""
    if kind is BenchmarkKind.figures:
        _draw_figures(_names(methods), ledger or LEDGERS["ablation"], out or PAGES["figures"])
        return
    from anchormoe.benchmark import (  # importing them registers their methods
        ablation,
        baselines,  # noqa: F401
        explainer_methods,
        faithfulness,
        network_methods,  # noqa: F401
        recipe_methods,  # noqa: F401
    )
    from anchormoe.benchmark.methods import Effort, find_method
    from anchormoe.benchmark.report import read_paper
    from anchormoe.benchmark.runner import BenchmarkPlan
    from anchormoe.recipes.settings import RecipeSettings

    defaults = METHODS | {
        "ablation": ablation.METHODS, "faithfulness": faithfulness.METHODS, "explainers": explainer_methods.METHODS,
    }  # fmt: skip
    # The pages of these have no table for another benchmark's methods.
    own_methods = {
        "ablation": ablation.METHODS, "explainers": explainer_methods.METHODS,
        "faithfulness": (*faithfulness.METHODS, *[f"{recipe}-gap" for recipe in faithfulness.RECIPES]),
    }  # fmt: skip
    chosen = _names(methods) or defaults[kind]
    for name in chosen:
        find_method(name)
        if name not in (own := own_methods.get(kind, chosen)):
            fail(f"method {name!r}: not one of `benchmark {kind.value}`: {', '.join(own)}", code=WRONG_USAGE)
    quoted, page = read_paper(paper), out or PAGES[kind]
    if paper != PAPER and not paper.is_file():
        fail(f"--paper {paper}: is not a file", code=WRONG_USAGE)
    if page.is_dir():
        fail(f"--out {page}: is a directory; name a file", code=WRONG_USAGE)
    RecipeSettings(recipe=recipe, profile=profile)  # type: ignore[arg-type]  # refuses a misspelt name now, not hours later
    plan = BenchmarkPlan(
        source=kind.value,
        sets=_names(sets) or _default_sets(kind, data_dir, paper),
        methods=chosen,
        seeds=tuple(SEED_STEP[kind] * at for at in range(seeds)),
        effort=Effort(n_jobs=jobs, recipe=recipe, profile=profile, fits=fits),
        named=bool(_names(sets)),
        methods_named=bool(_names(methods)),
        title=title,
        budget_s=math.inf if budget is None else 60 * budget,
    )
    results = _run(plan, data_dir, ledger or LEDGERS[kind.value])
    if not results.entries and out is None:
        fail(_not_loaded(results))  # and keeps the page of an earlier run
    _write(page, plan, results, quoted)
    if out is None:
        _update_readme(plan, results, quoted)
    if kind is BenchmarkKind.classifiers:
        _draw(plan, results, page.parent / "figures")
    typer.echo(json.dumps(_as_json(results), ensure_ascii=False) if as_json else f"written to {page}")
    if not results.entries:
        fail(_not_loaded(results))
    if plan.named and results.missing:
        typer.echo(f"warning: {_not_loaded(results)}", err=True)


def _not_loaded(results: "BenchmarkResults") -> str:
    return "; ".join(f"set {name!r}: {reason}" for name, reason in results.missing.items())


def _names(given: str | None) -> tuple[str, ...]:
    """Each once: a set named twice would count as two."""
    return tuple(dict.fromkeys(name.strip() for name in (given or "").split(",") if name.strip()))


def _default_sets(kind: BenchmarkKind, data_dir: Path | None, paper: Path) -> tuple[str, ...]:
    """All that are found and all of the paper's, so that the page can say which of those are missing."""
    from anchormoe.benchmark.ablation import SETS
    from anchormoe.benchmark.explainer_methods import SETS as EXPLAINED_SETS
    from anchormoe.benchmark.report import read_paper
    from anchormoe.benchmark.runner import find_sets
    from anchormoe.data.synthetic import DESIGNS

    if kind is BenchmarkKind.ablation:
        return SETS
    if kind is BenchmarkKind.explainers:
        return EXPLAINED_SETS
    if kind is BenchmarkKind.synthetic:
        return tuple(DESIGNS)
    if kind is BenchmarkKind.stability:
        return recorded_sets(data_dir)
    quoted = read_paper(paper)
    of_paper = quoted.faithfulness if kind is BenchmarkKind.faithfulness else quoted.classification
    return find_sets(data_dir, (*SHIPPED_SETS, *of_paper))


def _run(plan: "BenchmarkPlan", data_dir: Path | None, ledger: Path) -> "BenchmarkResults":
    from anchormoe.benchmark.ablation import ablation_loader
    from anchormoe.benchmark.explainer_methods import explainer_loader
    from anchormoe.benchmark.ledger import Ledger
    from anchormoe.benchmark.runner import STAGE, run_benchmark, split_loader

    loaders = {
        "ablation": lambda: ablation_loader(data_dir),
        "faithfulness": lambda: split_loader("uea", data_dir),
        "classifiers": lambda: split_loader("uea", data_dir),
        "explainers": lambda: explainer_loader(data_dir),
        "stability": lambda: recording_loader(data_dir),
    }
    load = loaders.get(plan.source, lambda: split_loader(plan.source, data_dir))()
    try:
        with show_progress(STAGE, lines=True) as progress:
            return run_benchmark(plan, Ledger(ledger), load, progress=progress)
    except KeyboardInterrupt:
        fail(f"interrupted; finished runs are in {ledger}, and the same command continues", code=INTERRUPTED)


def _write(page: Path, plan: "BenchmarkPlan", results: "BenchmarkResults", paper: "Paper") -> None:
    from anchormoe.benchmark.report import REPORTS

    write = REPORTS[plan.source]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(write(plan, results, paper, datetime.now(tz=UTC).date()), encoding="utf-8")


def _update_readme(plan: "BenchmarkPlan", results: "BenchmarkResults", paper: "Paper") -> None:
    """Its tables of the whole comparisons, where a README with their places is in the working directory."""
    if plan.named or plan.methods_named:
        return
    from anchormoe.benchmark import report_classifiers, report_explainers
    from anchormoe.benchmark.readme_block import replace_block

    tables = {
        "classifiers": lambda: report_classifiers.summary_table(plan, results, paper),
        "explainers": lambda: report_explainers.summary_table(plan, results),
    }
    if plan.source in tables and README.is_file():
        text = README.read_text(encoding="utf-8")
        changed = replace_block(text, plan.source, tables[plan.source]() or "Not run yet.")
        if changed != text:
            README.write_text(changed, encoding="utf-8")


def _draw(plan: "BenchmarkPlan", results: "BenchmarkResults", folder: Path) -> None:
    from anchormoe.benchmark.report_classifiers import draw_diagrams

    for path in draw_diagrams(plan, results, folder):
        typer.echo(f"written to {path}", err=True)


def _draw_figures(names: tuple[str, ...], ledger: Path, page: Path) -> None:
    """One after the other; an interrupted run keeps what is drawn."""
    from anchormoe.benchmark.figures.draw import drawers, figures_page
    from anchormoe.benchmark.ledger import Ledger

    known = drawers(Ledger(ledger).entries)
    if unknown := [name for name in names if name not in known]:
        fail(f"figure {unknown[0]!r}: unknown; known are {', '.join(known)}", code=2)
    page.parent.mkdir(parents=True, exist_ok=True)
    try:
        for name, draw in known.items():
            if not names or name in names:
                for path in draw(page.parent / "figures"):
                    typer.echo(f"written to {path}", err=True)
    except KeyboardInterrupt:
        fail(f"interrupted; finished figures are in {page.parent / 'figures'}", code=INTERRUPTED)
    page.write_text(figures_page(page.parent / "figures", datetime.now(tz=UTC).date()), encoding="utf-8")
    typer.echo(f"written to {page}")


def _as_json(results: "BenchmarkResults") -> dict[str, Any]:
    return {"runs": [asdict(entry) for entry in results.entries], "missing": results.missing}
