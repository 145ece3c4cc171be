"""`anchormoe-agent bundle …`: inspect a bundle, or verify it before it serves."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from agent.cli.console import text_console
from agent.cli.errors import FAILED, WRONG_USAGE, fail
from agent.cli.options import ALLOW_USELESS, DEVICE_HELP, find_device, refuse_useless

if TYPE_CHECKING:
    from anchormoe.bundle.store import Bundle
    from anchormoe.predictor import Predictor

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
        table.add_row(*row)
    console = text_console()
    console.print(table)
    console.print(judged_words(profiles))
    if out is not None:
        console.print(f"written to {out}")


@commands.command(epilog="Example: `anchormoe-agent bundle verify bundles/motions --json`")
def verify(
    directory: Path = DIRECTORY,
    device: str = typer.Option("cpu", help=DEVICE_HELP + " The golden windows are predicted there."),
    allow_useless: bool = ALLOW_USELESS,
    as_json: bool = AS_JSON,
) -> None:
    """Check hashes, types, shapes, finiteness, the golden windows, and that the model is worth serving.

    On a GPU the golden windows, which a CPU has computed, may differ by the stated tolerance. Exit code 1 and the
    reason if something is wrong; 2 where there is no such device.
    """
    from anchormoe.predictor import Predictor

    found = find_device(device)
    predictor = Predictor.load(directory, device=found)
    refuse_useless(directory, allowed=allow_useless)
    unlisted, distance = _unlisted(directory), _distance_from_cpu(predictor, directory, found)
    if as_json:
        facts = {"ok": True, "digest": predictor.config.digest, "name": predictor.config.name, "unlisted": unlisted}
        typer.echo(json.dumps(facts | {"backends": predictor.backends, "device": found, "difference": distance}))
        return
    typer.echo(f"{directory}: valid, digest {predictor.config.digest}")
    typer.echo("backends: " + ", ".join(f"{name} {backend}" for name, backend in predictor.backends.items()))
    told = ", ".join(f"{name} {value:.2g}" for name, value in distance.items() if name != "allowed")
    typer.echo(
        f"{found} against the CPU that wrote it: largest difference of {told}; allowed {distance['allowed']:.2g}"
    )
    for name in unlisted:
        typer.echo(f"note: {name} is not a file of the bundle; it was ignored")


def _distance_from_cpu(predictor: "Predictor", directory: Path, device: str) -> dict[str, float]:
    """By output, on the golden windows; and what is allowed."""
    from anchormoe.bundle.golden import TOLERANCE_CPU, TOLERANCE_GPU, allowed_difference, differences
    from anchormoe.bundle.store import load_bundle

    golden = load_bundle(directory).golden
    tolerance = TOLERANCE_CPU if device == "cpu" else TOLERANCE_GPU
    found = differences(golden, predictor.predict_cases(golden.cases))
    return found | {"allowed": allowed_difference(golden, tolerance)}


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
    console = text_console()
    console.print(f"{config.name} {config.version}, digest {config.digest}")
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


def _unknown(found: "Bundle") -> str:
    """How often each rule fires, what that means and what to do about it, a line each."""
    from anchormoe.model.reasons import REASONS

    rates = found.model.abstention.rates
    lines = [f"{name} {rate:.1%}: {REASONS[name].means}; {REASONS[name].remedy}" for name, rate in rates.items()]
    return "\n".join(lines) or "never"


def _rows(found: "Bundle") -> dict[str, str]:
    from anchormoe.windows import step_words

    config = found.config
    period = "" if config.period_ns is None else f", {step_words(config.period_ns / 1e9)}"
    return {
        "recipe": f"{config.recipe}, {config.alignment}, protocol {config.protocol}",
        "sources": ", ".join(f"{part.name} × {part.weight:.3g}" for part in found.model.parts),
        "classes": ", ".join(config.classes),
        "channels": ", ".join(config.channels),
        "window": f"{config.length} steps{period}{', unequal lengths' if config.unequal_length else ''}",
        "patches": f"{config.patch_length} steps, {config.patch_stride} apart",
        "unknown (out-of-fold rates)": _unknown(found),
    }
