"""A simulated month of alarms: `python -m tests.bench.alarms --out docs/results/alarms.md`.

It can be done in parts: with `--pieces FILE --minutes 8` it continues from FILE and stops after so many minutes; the
page is written when the month is complete. `--bundle DIR` uses another model.
"""

import argparse
import json
import math
import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from agent.alarms.core.console import Console
from agent.alarms.from_settings import catalogue_from_settings
from agent.settings import LoadedPlant, load_plant
from tests.bench.alarm_document import document
from tests.bench.alarm_month_plant import START_NS, Pump, S
from tests.bench.alarm_month_run import MonthRun, continue_run
from tests.bench.alarm_recovery import Recovery, recovery

DELAYS = {
    "cavitation": {"on_delay": "30s", "off_delay": "1m"},
    "bearing-wear": {"on_delay": "30s", "off_delay": "1m", "priority": "low"},
    "blockage": {"on_delay": "30s", "off_delay": "1m"},
    "no-data": {"limit": "1m"},
    "lost-channel": {"on_delay": "1m"},
    "not-judged": {"on_delay": "5m", "off_delay": "1m"},
}
"""Longer delays than those of configs/alarms.yaml, whose demonstration has faults of half a minute."""


def main() -> None:
    given = _arguments()
    with tempfile.TemporaryDirectory() as directory:
        plant = _plant(given, Path(directory))
        pumps = [Pump(f"pump-{at + 1}", given.days * 24) for at in range(given.pumps)]
        run = _load_run(given.pieces, plant)
        if run.hours_done < given.days * 24 and not given.finish:
            continue_run(run, plant, pumps, _progress(given.days), minutes=given.minutes)
        if given.pieces:
            given.pieces.write_bytes(pickle.dumps(run))
        if run.hours_done < given.days * 24 and not given.finish:
            return
        run.release(1 << 62)
        measured = _recovery(given, Path(directory))
    text = "\n".join(document(run, pumps, measured, hop=given.hop)) + "\n"
    given.out.write_text(text, encoding="utf-8")
    print(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("configs/alarms.yaml"))
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--pumps", type=int, default=2)
    parser.add_argument("--hop", type=int, default=128, help="samples between two windows; 128 are 12.8 s")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many; needs --pieces")
    parser.add_argument("--pieces", type=Path, help="file with the run so far; created if missing")
    parser.add_argument("--finish", action="store_true", help="write the page for the run so far, without continuing")
    parser.add_argument("--alarms", type=int, default=10_000, help="for the recovery; 0: not measured")
    parser.add_argument("--recovery", type=Path, help="the output of `python -m tests.bench.alarm_recovery`")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def _load_run(pieces: Path | None, plant: LoadedPlant) -> MonthRun:
    if pieces is not None and pieces.exists():
        run: MonthRun = pickle.loads(pieces.read_bytes())  # written by this command a moment ago
        return run
    assert plant.settings.alarms is not None
    catalogue = catalogue_from_settings(plant.settings, plant.settings.alarms)
    return MonthRun(catalogue, Console(catalogue.console_names()[0]))


def _recovery(given: argparse.Namespace, directory: Path) -> Recovery | None:
    """From a file that was measured on an idle machine, if there is one; else measured now."""
    if given.recovery is not None:
        return Recovery(**json.loads(given.recovery.read_text(encoding="utf-8")))
    return recovery(directory, alarms=given.alarms) if given.alarms else None


def _plant(given: argparse.Namespace, directory: Path) -> LoadedPlant:
    """Without the margin to the runner-up, which costs time and changes no label."""
    content = yaml.safe_load(given.config.read_text(encoding="utf-8"))
    content |= {"records": {"format": "binary"}, "limits": {"max_batch_records": 640}, "http": None}
    content["emission"]["why_not"] = "never"
    for group in content["groups"]:
        group["model"]["bundle"] = str((given.bundle or given.config.parent / group["model"]["bundle"]).resolve())
        group["window"]["hop"] = given.hop
    content["alarms"]["rules"] = [rule | DELAYS[rule["name"]] for rule in content["alarms"]["rules"]]
    path = directory / "month.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_plant(path, {})


def _progress(days: int) -> Any:
    """Prints a line per day of the plant."""
    printed = set[int]()

    def report(now_ns: int) -> None:
        day = (now_ns - START_NS) // (86_400 * S)
        if day not in printed:
            printed.add(day)
            print(f"day {day + 1} of {days}", file=sys.stderr)

    return report


if __name__ == "__main__":
    main()
