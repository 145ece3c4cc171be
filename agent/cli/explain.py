"""`anchormoe-agent explain`: one case with its evidence, as text, plot, page or JSON."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.options import DATA_DIR, DATA_HELP, DATA_SEED, RECORDINGS_CONFIG
from agent.cli.progress import count_progress
from anchormoe.errors import DataError

if TYPE_CHECKING:
    from anchormoe.explain.explanation import Explanation

FORMATS = (".png", ".html")


def register(app: typer.Typer) -> None:
    """Adds the command to the console script."""
    example = "anchormoe-agent explain bundles/motions --data uea:BasicMotions --case 3 --out case3.png"
    app.command(epilog=f"Example: `{example}`")(explain)


def explain(
    bundle: Path = typer.Argument(help="Directory of the bundle."),
    data: str = typer.Option(..., "--data", help=DATA_HELP),
    case: int = typer.Option(0, min=0, help="Number of the case, from 0."),
    part: str = typer.Option("test", help="test or train."),
    out: Path | None = typer.Option(None, "--out", help="Also write a plot (.png) or a page (.html)."),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = RECORDINGS_CONFIG,
    seed: int = DATA_SEED,
    as_json: bool = typer.Option(False, "--json", help="Print all numbers as one JSON object."),
) -> None:
    """Show how spans, channels and experts add up to the score of one case."""
    if out is not None and out.suffix not in FORMATS:
        fail(f"--out {out}: the name must end in {' or '.join(FORMATS)}", code=WRONG_USAGE)
    if part not in ("test", "train"):
        fail(f"--part {part}: expected test or train", code=WRONG_USAGE)
    with count_progress("explaining", quiet=as_json):
        found = _explain(bundle, data, part, case, (data_dir, config, seed))
    if out is not None:
        from anchormoe.explain.html import write_explanation

        out.parent.mkdir(parents=True, exist_ok=True)
        write_explanation(out, found, title=f"{data} {part.upper()}, case {case}")
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    else:
        _print(found, out)


def _explain(
    bundle: Path, data: str, part: str, case: int, source: tuple[Path | None, Path | None, int]
) -> "Explanation":
    from anchormoe.data.loading import load_dataset
    from anchormoe.explain.explanation import explain_case
    from anchormoe.metrics.evaluate import require_same_windows
    from anchormoe.predictor import Predictor

    predictor = Predictor.load(bundle)
    split = load_dataset(data, data_dir=source[0], config=source[1], seed=source[2])
    chosen = split.test if part == "test" else split.train
    require_same_windows(chosen, predictor.config)
    if case >= len(chosen):
        raise DataError(f"--case {case}: {data} has {len(chosen)} {part.upper()} cases, numbered from 0")
    return explain_case(predictor, chosen.cases.subset(slice(case, case + 1)), truth=chosen.classes[chosen.y[case]])


def _print(found: "Explanation", out: Path | None) -> None:
    from anchormoe.explain.plot import headline, waterfall

    typer.echo(headline(found))
    for name, value in waterfall(found):
        typer.echo(f"  {name:>18} {value:+10.4f}")
    cancels = "infinite" if found.cancellation is None else f"{found.cancellation:.2f}"
    typer.echo(f"  {'logit':>18} {found.logit:+10.4f}   (residual {found.residual:.1e}, cancellation {cancels})")
    for expert in sorted(found.experts, key=lambda one: -abs(one.contribution))[:8]:
        typer.echo(f"  expert {expert.name:>11} {expert.contribution:+10.4f}")
    if out is not None:
        typer.echo(f"written to {out}")
