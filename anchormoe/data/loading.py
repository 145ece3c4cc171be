"""The entry point for loading data: `uea:NAME`, `synthetic:NAME` or `recordings:DIR`."""

from pathlib import Path

from anchormoe.data.dataset import Split
from anchormoe.data.recordings import load_recordings
from anchormoe.data.synthetic import load_synthetic
from anchormoe.data.uea import load_uea
from anchormoe.errors import DataError

SOURCES = ("uea", "synthetic", "recordings")


def load_dataset(spec: str, *, data_dir: Path | None = None, config: Path | None = None, seed: int = 0) -> Split:
    """`data_dir` is for UEA sets, `config` for recordings, `seed` for synthetic sets. Raises DataError."""
    source, _, name = spec.partition(":")
    if source not in SOURCES or not name:
        raise DataError(f"data {spec!r}: expected one of " + ", ".join(f"{known}:…" for known in SOURCES))
    if source == "uea":
        return load_uea(name, data_dir=data_dir)
    if source == "synthetic":
        return load_synthetic(name, seed=seed)
    return load_recordings(Path(name), config=config)
