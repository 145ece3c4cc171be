"""A simulated month of alarms: `python -m tests.bench.alarms --out docs/results/alarms.md`.

It may go in pieces: with `--pieces FILE --minutes 8` it goes on from where FILE stands and stops after so many minutes;
the document is written when the month is over. With `--bundle DIR` another model judges.
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
from tests.bench.alarm_recovery import Recovery, recovery
from tests.bench.alarm_trial import Trial, go_on

DELAYS = {
    "cavitation": {"on_delay": "30s", "off_delay": "1m"},
    "bearing-wear": {"on_delay": "30s", "off_delay": "1m", "priority": "low"},
    "blockage": {"on_delay": "30s", "off_delay": "1m"},
    "no-data": {"limit": "1m"},
    "lost-channel": {"on_delay": "1m"},
    "not-judged": {"on_delay": "5m", "off_delay": "1m"},
}
"""What a month asks of the rules of configs/alarms.yaml, whose demonstration has faults of half a minute."""


def main() -> None:
    given = _arguments()
    with tempfile.TemporaryDirectory() as directory:
        plant = _plant(given, Path(directory))
        pumps = [Pump(f"pump-{at + 1}", given.days * 24) for at in range(given.pumps)]
        trial = _begun(given.pieces, plant)
        if trial.hours_done < given.days * 24 and not given.finish:
            go_on(trial, plant, pumps, _progress(given.days), minutes=given.minutes)
        if given.pieces:
            given.pieces.write_bytes(pickle.dumps(trial))
        if trial.hours_done < given.days * 24 and not given.finish:
            return
        trial.release(1 << 62)
        recovered = _recovered(given, Path(directory))
    text = "\n".join(document(trial, pumps, recovered, hop=given.hop)) + "\n"
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
    parser.add_argument("--pieces", type=Path, help="what is known so far; made if missing")
    parser.add_argument("--finish", action="store_true", help="write what is known so far, without going on")
    parser.add_argument("--alarms", type=int, default=10_000, help="for the recovery; 0 leaves it out")
    parser.add_argument("--recovery", type=Path, help="what `python -m tests.bench.alarm_recovery` wrote")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def _begun(pieces: Path | None, plant: LoadedPlant) -> Trial:
    if pieces is not None and pieces.exists():
        trial: Trial = pickle.loads(pieces.read_bytes())  # written by this command a moment ago
        return trial
    assert plant.settings.alarms is not None
    catalogue = catalogue_from_settings(plant.settings, plant.settings.alarms)
    return Trial(catalogue, Console(catalogue.console_names()[0]))


def _recovered(given: argparse.Namespace, directory: Path) -> Recovery | None:
    """Measured at another time, on a machine that had nothing else to do, if there is such a file; else now."""
    if given.recovery is not None:
        return Recovery(**json.loads(given.recovery.read_text(encoding="utf-8")))
    return recovery(directory, alarms=given.alarms) if given.alarms else None


def _plant(given: argparse.Namespace, directory: Path) -> LoadedPlant:
    """Channels of patches are left out: they cost time and change no label."""
    content = yaml.safe_load(given.config.read_text(encoding="utf-8"))
    content |= {"records": {"format": "binary"}, "limits": {"max_batch_records": 640}, "http": None}
    content["emission"]["channels"] = "none"
    for group in content["groups"]:
        group["model"]["bundle"] = str((given.bundle or given.config.parent / group["model"]["bundle"]).resolve())
        group["window"]["hop"] = given.hop
    content["alarms"]["rules"] = [rule | DELAYS[rule["name"]] for rule in content["alarms"]["rules"]]
    path = directory / "month.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_plant(path, {})


def _progress(days: int) -> Any:
    """A line per day of the plant."""
    told = set[int]()

    def tell(now_ns: int) -> None:
        day = (now_ns - START_NS) // (86_400 * S)
        if day not in told:
            told.add(day)
            print(f"day {day + 1} of {days}", file=sys.stderr)

    return tell


if __name__ == "__main__":
    main()
