"""`anchormoe-agent explain`: one case with its evidence, as a picture, a page or JSON."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.data import CONFIG, DATA_DIR, DATA_HELP
from agent.cli.errors import fail
from anchormoe.errors import DataError

if TYPE_CHECKING:
    from anchormoe.explain.explanation import Explanation

FORMATS = (".png", ".html")


def register(app: typer.Typer) -> None:
    """Add the command to the console script."""
    example = "anchormoe-agent explain bundles/motions --data uea:BasicMotions --case 3 --out case3.png"
    app.command(epilog=f"Example: `{example}`")(explain)


def explain(
    bundle: Path = typer.Argument(help="Directory of the bundle."),
    data: str = typer.Option(..., "--data", help=DATA_HELP),
    case: int = typer.Option(0, min=0, help="Number of the case, from 0."),
    part: str = typer.Option("test", help="test or train."),
    out: Path | None = typer.Option(None, "--out", help="Picture (.png) or page (.html)."),
    data_dir: Path | None = DATA_DIR,
    config: Path | None = CONFIG,
    seed: int = typer.Option(0, min=0, help="Seed of a synthetic set."),
    as_json: bool = typer.Option(False, "--json", help="All numbers as one JSON object."),
) -> None:
    """Show which spans, channels and experts a score is made of."""
    if out is not None and out.suffix not in FORMATS:
        fail(f"--out {out}: the name must end in {' or '.join(FORMATS)}", code=2)
    if part not in ("test", "train"):
        fail(f"--part {part}: must be test or train", code=2)
    found = _explained(bundle, data, part, case, (data_dir, config, seed))
    if out is not None:
        from anchormoe.explain.html import draw_html

        out.parent.mkdir(parents=True, exist_ok=True)
        draw_html(out, found, title=f"{data} {part.upper()}, case {case}")
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    else:
        _print(found, out)


def _explained(
    bundle: Path, data: str, part: str, case: int, source: tuple[Path | None, Path | None, int]
) -> "Explanation":
    from anchormoe.data.loading import load_dataset
    from anchormoe.explain.explanation import explain_case as explained
    from anchormoe.metrics.evaluate import refuse_other_windows
    from anchormoe.predictor import Predictor

    predictor = Predictor.load(bundle)
    split = load_dataset(data, data_dir=source[0], config=source[1], seed=source[2])
    chosen = split.test if part == "test" else split.train
    refuse_other_windows(chosen, predictor.config)
    if case >= len(chosen):
        raise DataError(f"--case {case}: {data} has {len(chosen)} {part.upper()} cases, numbered from 0")
    return explained(predictor, chosen.cases.subset(slice(case, case + 1)), truth=chosen.classes[chosen.y[case]])


def _print(found: "Explanation", out: Path | None) -> None:
    from anchormoe.explain.plot import headline, waterfall

    typer.echo(headline(found))
    for name, value in waterfall(found):
        typer.echo(f"  {name:>18} {value:+10.4f}")
    typer.echo(f"  {'logit':>18} {found.logit:+10.4f}   (residual {found.residual:.1e})")
    for expert in sorted(found.experts, key=lambda one: -abs(one.contribution))[:8]:
        typer.echo(f"  expert {expert.name:>11} {expert.contribution:+10.4f}")
    if out is not None:
        typer.echo(f"drawn to {out}")
