"""The recordings of `benchmark stability`: simulated plants, and directories of recordings with a configuration."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.simulate import write_recordings

if TYPE_CHECKING:
    from anchormoe.benchmark.runner import LoadSplit
    from anchormoe.data.dataset import Split

PLANTS = ("pump", "gearbox", "patient")
RECORDINGS, SAMPLES = 12, 3072
"""Of each simulated plant: minutes to train on, and every state in TRAIN and TEST."""
OVERLAP = 7 / 8
SIMULATED = Path("out/recordings/stability")
CONFIGS = Path("configs")


def recorded_sets(data_dir: Path | None) -> tuple[str, ...]:
    """The simulated plants, and every NAME with configs/recordings-NAME.yaml that DATA_DIR holds."""
    named = [path.stem.removeprefix("recordings-") for path in sorted(CONFIGS.glob("recordings-*.yaml"))]
    return (*PLANTS, *[name for name in named if data_dir is not None and (data_dir / name).is_dir()])


def recording_loader(data_dir: Path | None) -> "LoadSplit":
    """TRAIN as configured; TEST is cut from other recordings with windows that overlap by seven eighths."""

    @lru_cache(maxsize=1)
    def load(name: str) -> "Split":
        from anchormoe.data.dataset import Split
        from anchormoe.data.recordings import load_recordings

        directory, config = _place(name, data_dir)
        train = load_recordings(directory, config=config).train
        return Split(train, load_recordings(directory, config=config, overlap=OVERLAP).test)

    return lambda name, seed: load(name)


def _place(name: str, data_dir: Path | None) -> tuple[Path, Path]:
    """The directory of a set's recordings and their configuration. Raises DataError."""
    from anchormoe.errors import DataError

    if name in PLANTS:
        directory = SIMULATED / name
        if len(list(directory.glob("*.csv"))) < RECORDINGS:  # none, or an interrupted command left some
            write_recordings(name, directory, count=RECORDINGS, samples=SAMPLES)
        return directory, CONFIGS / "training" / f"{name}.yaml"
    if data_dir is None or not (data_dir / name).is_dir():
        raise DataError("recordings not found; give the directory above them with --data-dir")
    return data_dir / name, CONFIGS / f"recordings-{name}.yaml"
