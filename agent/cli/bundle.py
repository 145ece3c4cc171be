"""`anchormoe-agent bundle …`: inspect a bundle, or verify it before it serves."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent.cli.errors import FAILED, WRONG_USAGE, fail
from agent.cli.options import ALLOW_USELESS, DEVICE_HELP, find_device, refuse_useless

if TYPE_CHECKING:
    from anchormoe.bundle.store import Bundle

commands = typer.Typer(help="Inspect or verify a bundle.", no_args_is_help=True)
DIRECTORY = typer.Argument(help="Directory of the bundle.")
AS_JSON = typer.Option(False, "--json", help="Print one JSON object.")


def register(app: typer.Typer) -> None:
    """Adds the group to the console script."""
    app.add_typer(commands, name="bundle")


@commands.callback()
def group() -> None:
    """Inspect or verify a bundle."""


@commands.command(epilog="Example: `anchormoe-agent bundle inspect bundles/motions --experts --out experts.png`")
def inspect(
    directory: Path = DIRECTORY,
    experts: bool = typer.Option(False, "--experts", help="Show what each expert knows instead."),
    out: Path | None = typer.Option(None, "--out", help="With --experts: also write the pictures (.png)."),
    as_json: bool = AS_JSON,
) -> None:
    """Show the classes, channels, window, sources, figures and abstention rules of a bundle, or its experts."""
    from anchormoe.bundle.store import load_bundle

    if out is not None and (not experts or out.suffix != ".png"):
        fail(f"--out {out}: belongs to --experts, and the name must end in .png", code=WRONG_USAGE)
    found = load_bundle(directory)
    if experts:
        _show_experts(found, out, as_json=as_json)
    elif as_json:
        typer.echo(json.dumps(_facts(found), ensure_ascii=False, indent=2))
    else:
        _print(found)


def _show_experts(found: "Bundle", out: Path | None, *, as_json: bool) -> None:
    from anchormoe.profiles.names import Vocabulary
    from anchormoe.profiles.table import COLUMNS, judged_words, profile_rows

    profiles, config = found.experts, found.config
    if profiles is None:
        fail(f"{config.name}: this bundle is from before expert profiles were stored; train it again", code=FAILED)
    words = Vocabulary(config.channels, config.classes, None if config.period_ns is None else config.period_ns / 1e9)
    if out is not None:
        from anchormoe.profiles.normal import NormalRange
        from anchormoe.recipes.expert_plot import plot_experts

        normal = NormalRange.of(found.profile, found.model.normalizer, config.classes)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(plot_experts(profiles, words, normal) or b"")
    if as_json:
        typer.echo(json.dumps(profiles.to_dict(), ensure_ascii=False, indent=2))
        return
    table = Table(*COLUMNS, box=None)
    for row in profile_rows(profiles, words):
        table.add_row(*map(escape, row))
    console = Console(highlight=False)
    console.print(table)
    console.print(escape(judged_words(profiles)))
    if out is not None:
        console.print(f"written to {out}", markup=False)


@commands.command(epilog="Example: `anchormoe-agent bundle verify bundles/motions --json`")
def verify(
    directory: Path = DIRECTORY,
    device: str = typer.Option("cpu", help=DEVICE_HELP + " The golden windows are predicted there."),
    allow_useless: bool = ALLOW_USELESS,
    as_json: bool = AS_JSON,
) -> None:
    """Check hashes, types, shapes, finiteness, the golden windows, and that the model is worth serving.

    Exit code 1 and the reason if one is wrong.
    """
    from anchormoe.predictor import Predictor

    predictor = Predictor.load(directory, device=find_device(device))
    refuse_useless(directory, allowed=allow_useless)
    unlisted = _unlisted(directory)
    if as_json:
        facts = {"ok": True, "digest": predictor.config.digest, "name": predictor.config.name, "unlisted": unlisted}
        typer.echo(json.dumps(facts | {"backends": predictor.backends}))
        return
    typer.echo(f"{directory}: valid, digest {predictor.config.digest}")
    typer.echo("backends: " + ", ".join(f"{name} {backend}" for name, backend in predictor.backends.items()))
    for name in unlisted:
        typer.echo(f"note: {name} is not a file of the bundle; it was ignored")


def _unlisted(directory: Path) -> list[str]:
    from anchormoe.bundle.files import CHANNEL_PROFILE, EXPERTS, EXTRAS, MANIFEST, REQUIRED, SEGMENTS

    known = {*REQUIRED, CHANNEL_PROFILE, EXPERTS, SEGMENTS, *EXTRAS, MANIFEST}
    return sorted(path.name for path in directory.iterdir() if path.name not in known)


def _facts(found: "Bundle") -> dict[str, Any]:
    config = found.config
    return config.to_dict() | {
        "digest": config.digest,
        "sources": {part.name: {"weight": part.weight} for part in found.model.parts},
        "calibration": found.model.calibration.to_dict(),
        "abstention": found.model.abstention.to_dict(),
        "settings": dict(found.settings),
        "manifest": dict(found.manifest),
    }


def _print(found: "Bundle") -> None:
    from anchormoe.metrics.scores import label_test_figures

    config, manifest = found.config, found.manifest
    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(found).items():
        table.add_row(name, value)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{config.name}[/bold] {config.version}, digest {config.digest}")
    console.print(table)
    for part, label in (("out_of_fold", "out-of-fold"), ("test", label_test_figures(config.protocol))):
        figures = manifest.get("metrics", {}).get(part)
        if figures:
            console.print(_figures_line(label, figures))


def _figures_line(label: str, figures: dict[str, Any]) -> str:
    low, high = figures["accuracy_interval"]
    # Older bundles, such as those of the demo, have none.
    balanced = f", balanced {figures['balanced_accuracy']:.3f}" if "balanced_accuracy" in figures else ""
    return f"{label}: accuracy {figures['accuracy']:.3f} ({low:.3f} to {high:.3f}){balanced}, {figures['n']} cases"


def _rows(found: "Bundle") -> dict[str, str]:
    config = found.config
    period = "" if config.period_ns is None else f", a step every {config.period_ns / 1e9:g} s"
    rules = ", ".join(f"{name} {rate:.1%}" for name, rate in found.model.abstention.rates.items())
    return {
        "recipe": f"{config.recipe}, {config.alignment}, protocol {config.protocol}",
        "sources": ", ".join(f"{part.name} × {part.weight:.3g}" for part in found.model.parts),
        "classes": ", ".join(config.classes),
        "channels": ", ".join(config.channels),
        "window": f"{config.length} steps{period}{', unequal lengths' if config.unequal_length else ''}",
        "patches": f"{config.patch_length} steps, {config.patch_stride} apart",
        "unknown (out-of-fold rates)": rules or "never",
    }
