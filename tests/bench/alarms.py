"""Writes docs/results/alarms.md: `python -m tests.bench.alarms --out docs/results/alarms.md`.

With `--bundle DIR` another model than the configured one judges.
"""

import argparse
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from agent.alarms.kpis import Period, figures
from agent.alarms.report import lines
from tests.bench.alarm_recovery import Recovery, recovery
from tests.bench.alarm_trial import OPERATOR_S, START_NS, TICK_S, S, Trial, missed, trial

WINDOW_NS = 12_800_000_000
"""A window of the pump model: no label can follow a fault faster."""


def main() -> None:
    given = _arguments()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        config = _config(given.config, given.bundle, Path(directory))
        outcome = trial(config, hours=given.hours, pumps=given.pumps, every=given.every)
        trial_s = time.monotonic() - began
        recovered = recovery(Path(directory), alarms=given.alarms) if given.alarms else None
    text = "\n".join(_document(outcome, recovered, trial_s=trial_s, every=given.every)) + "\n"
    given.out.write_text(text, encoding="utf-8")
    print(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("configs/alarms.yaml"))
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--pumps", type=int, default=2)
    parser.add_argument("--every", type=int, default=12, help="one cycle of 102.4 s in so many may hold a fault")
    parser.add_argument("--alarms", type=int, default=10_000, help="for the recovery; 0 leaves it out")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def _config(config: Path, bundle: Path | None, directory: Path) -> Path:
    content = yaml.safe_load(config.read_text(encoding="utf-8"))
    for group in content["groups"]:
        place = bundle or config.parent / group["model"]["bundle"]
        group["model"]["bundle"] = str(place.resolve())
    path = directory / "trial.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def _document(outcome: Trial, recovered: Recovery | None, *, trial_s: float, every: int) -> Iterator[str]:
    yield "# Alarms: a simulated plant"
    yield ""
    yield "Written by `python -m tests.bench.alarms --out docs/results/alarms.md`; do not edit."
    yield ""
    yield from _setting(outcome, trial_s=trial_s, every=every)
    yield from _labels_against_alarms(outcome)
    yield from _standard(outcome)
    yield from _misses(outcome)
    if recovered is not None:
        yield from _recovery(recovered)


def _setting(outcome: Trial, *, trial_s: float, every: int) -> Iterator[str]:
    yield (
        f"{outcome.assets} simulated pumps, {outcome.hours:g} h of plant time each at 10 samples a second, with the "
        f"simulator's dirt, judged by a model trained as configs/training/pump.yaml says ({outcome.model}), with every "
        f"window published ({outcome.windows} windows). "
        f"This is **not a whole month**: a month of two pumps is 52 million samples. One cycle of 102.4 s in {every} "
        f"may hold a fault of 25 to 46 s. Ticks every {TICK_S} s and an operator who acknowledges after "
        f"{OPERATOR_S} s are simulated too. It took {trial_s:.0f} s on {platform.machine()}."
    )
    yield ""


def _labels_against_alarms(outcome: Trial) -> Iterator[str]:
    raised = [one for one in outcome.transitions if one.change == "raised"]
    process = sum(one.kind == "process" for one in raised)
    yield "## Labels against alarms"
    yield ""
    yield "| what | number |"
    yield "|---|---|"
    yield f"| changes of the raw label | {outcome.raw_changes} |"
    yield f"| of these, into a fault | {outcome.raw_fault_changes} |"
    yield f"| true faults | {len(outcome.faults)} |"
    yield f"| process alarms raised | {process} |"
    yield f"| technical alarms raised | {len(raised) - process} |"
    yield f"| alarms announced to the operator | {sum(one.announces for one in outcome.transitions)} |"
    yield ""


def _standard(outcome: Trial) -> Iterator[str]:
    period = Period(START_NS, START_NS + int(outcome.hours * 3600) * S)
    yield "## Against the targets of ISA-18.2 / IEC 62682"
    yield ""
    for one in figures(outcome.transitions, period):
        yield "| figure | value | target | met |"
        yield "|---|---|---|---|"
        for line in lines(one):
            met = {True: "yes", False: "**no**", None: ""}[line.met]
            yield f"| {line.name} | {line.value} | {line.target} | {met} |"
        yield ""
    yield "The simulated faults themselves last 25 to 46 s; an alarm over within a minute counts as fleeting here."
    yield ""


def _misses(outcome: Trial) -> Iterator[str]:
    by_layer = missed(outcome, outcome.label_runs, grace_ns=TICK_S * S)
    by_all = missed(outcome, outcome.faults, longer_than_ns=WINDOW_NS, grace_ns=WINDOW_NS)
    yield "## Missed faults"
    yield ""
    yield (
        f"- By the alarm layer: of {len(outcome.label_runs)} stretches in which the model said one fault without a "
        f"break, {len(by_layer)} lasted longer than their on-delay and raised no alarm."
    )
    yield (
        f"- By model and alarms together: of {len(outcome.faults)} true faults, {len(by_all)} lasted longer than their "
        f"on-delay and a window ({WINDOW_NS / S:g} s) and had no alarm of their own."
    )
    yield from (
        f"  - missed: {one.state} of {one.asset}, {(one.end_ns - one.begin_ns) / S:.0f} s" for one in by_all[:20]
    )
    yield ""


def _recovery(found: Recovery) -> Iterator[str]:
    yield "## Recovery"
    yield ""
    yield (
        f"A worker with {found.alarms} alarms was killed with `kill -9` and started again on a real broker: "
        f"**{found.recovered_s:.1f} s** from its start until every alarm had answered the next tick (a worker without "
        f"alarms needs {found.start_s:.1f} s from its start to its first transition; 6 s session time-out of the group "
        f"included after the kill). Raising them took {found.alarms / found.inputs_per_s:.1f} s, "
        f"{found.inputs_per_s:.0f} inputs/s, each with its own transition, present alarm and rows acknowledged."
    )


if __name__ == "__main__":
    main()
