"""`anchormoe-agent explain --asset A --at TIME`: what the live agent said, with the window it said it about."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import FAILED, WRONG_USAGE, fail
from agent.cli.explanation_text import show_explanation
from agent.cli.progress import count_progress
from agent.errors import SettingsError
from connectors.errors import ConnectorError
from connectors.printable import printable, printable_json

if TYPE_CHECKING:
    from agent.offline.said import SaidEvent
    from agent.settings import LoadedPlant
    from anchormoe.explain.explanation import Explanation

_SAME = 1e-4
"""Scores that are published with six digits, or come from another kind of processor, may differ by so much."""


def explain_said(
    config: Path, *, asset: str, at_ns: int, events: str | None, out: Path | None, as_json: bool
) -> None:  # fmt: skip
    """Prints the published event; where its records and its bundle are still there, everything about its window."""
    from agent.logs import set_up_logs
    from agent.offline.inputs import parse_place
    from agent.offline.said import events_place, find_event
    from agent.settings import load_plant

    plant = load_plant(config, os.environ)
    set_up_logs(plant.settings.logging.format, "warning")
    place = events_place(plant.settings) if events is None else parse_place("--events", events)
    with count_progress("reading events", quiet=as_json):
        said = asyncio.run(find_event(plant.settings, place, asset=asset, at_ns=at_ns))
    if said is None:
        fail(
            f"--asset {asset}: no state of it was published up to this time; `tail --asset` shows what was", code=FAILED
        )
    if not as_json:
        _print_event(said)
    with count_progress("reading the window again", quiet=as_json):
        explained = _explain_again(plant, said, asset)
    if isinstance(explained, str):
        if out is not None:
            fail(f"--out {out}: {explained}, so there is nothing to draw", code=FAILED)
        typer.echo(printable_json(_json(said)) if as_json else printable(f"only what was published: {explained}"))
        return
    show_explanation(explained, out, as_json=as_json)


def _explain_again(plant: "LoadedPlant", said: "SaidEvent", asset: str) -> "Explanation | str":
    """The explanation of the same window by the same bundle, or why there is none."""
    import numpy as np

    from agent.offline.said import find_bundle, group_of, largest_difference, read_window
    from anchormoe.cases import Cases
    from anchormoe.explain.doubt import plausible_window
    from anchormoe.explain.explanation import Origin, explain_case
    from anchormoe.predictor import Predictor
    from anchormoe.windows import fill
    from connectors.timestamps import parse_iso

    group = group_of(plant, str(said.data.get("group", "")))
    bundle = None if group is None else find_bundle(plant, group, said.digest)
    if group is None or bundle is None:
        return f"the bundle with the digest {said.digest[:12] or '–'} that spoke is not here"
    try:
        found = asyncio.run(read_window(plant, said))
    except (SettingsError, ConnectorError) as error:
        return f"its records cannot be read again: {error}"
    if found is None or found.window is None:
        return "its records are not in the log any more, or another model is active now"
    predictor = Predictor.load(bundle)
    plausible, doubt = plausible_window(predictor.judge, found.window)
    values, mask = fill(np.asarray(plausible, np.float32), group.fill_rules)
    start_ns = parse_iso(said.data["window"]["start"])
    case = Cases.from_windows(values, mask)
    explained = explain_case(predictor, case, origin=Origin(asset, start_ns), doubt=doubt)
    scores = dict(zip(predictor.config.classes, explained.logits.tolist(), strict=True))
    apart = largest_difference(said.logits, scores)
    same = "identical to what was published" if apart <= _SAME * (1 + max(map(abs, scores.values()))) else (
        f"scores differ from what was published by up to {apart:.3g}"
    )  # fmt: skip
    return replace(explained, origin=Origin(f"{asset}, computed again: {same}", start_ns))


def _print_event(said: "SaidEvent") -> None:
    from agent.terminal.story import headline

    lines = [f"{said.data['window']['end']}  {headline(said.data)}", said.data.get("text") or ""]
    for line in filter(None, lines):
        typer.echo(printable(line))


def _json(said: "SaidEvent") -> str:
    import orjson

    return orjson.dumps({"id": said.id, "data": said.data}).decode()


def refuse_wrong_usage(config: Path | None, at: str | None) -> None:
    if at is None:
        fail("--asset needs --at TIME: the latest state that was published by then is explained", code=WRONG_USAGE)
    if config is None:
        fail("--asset needs --config: the plant whose agent published the state", code=WRONG_USAGE)
