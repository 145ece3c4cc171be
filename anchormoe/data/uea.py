"""UEA archive files (`.ts`, `.arff`) through aeon's readers: official splits, raw values, class names as written."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.errors import DataError

DIRECTORY_VARIABLE = "ANCHORMOE_DATA"
EXTENSIONS = (".ts", ".arff")
_NOT_READ = (["@classlabel", "false"], ["@targetlabel", "true"], ["@timestamps", "true"])


class DatasetNotFound(DataError):
    """None of the directories that are searched has a folder of this name."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One file as read: series of (C, T_i), labels as written, classes in the order of the header (may be empty)."""

    path: Path
    series: list[npt.NDArray[np.float64]]
    labels: list[str]
    declared: tuple[str, ...]


def load_uea(name: str, *, data_dir: Path | None = None) -> Split:
    """Reads `NAME/NAME_TRAIN.ts` and `_TEST` from `data_dir`, else $ANCHORMOE_DATA, else aeon's package data."""
    folder = _folder(name, data_dir)
    train, test = (_read(_file(folder, name, part)) for part in ("TRAIN", "TEST"))
    classes = _classes(train)
    _refuse_unknown_classes(test, classes)
    _refuse_other_channels(train, test)
    return Split(train=_dataset(name, train, classes), test=_dataset(name, test, classes))


def _folder(name: str, data_dir: Path | None) -> Path:
    given = data_dir or (Path(os.environ[DIRECTORY_VARIABLE]) if os.environ.get(DIRECTORY_VARIABLE) else None)
    if Path(name).name != name:
        raise DataError(f"uea:{name}: expected the name of a data set, not a path; the directory goes into --data-dir")
    if given is not None and (given / name).is_dir():
        return given / name
    shipped = _shipped_with_aeon() / name
    if shipped.is_dir():
        return shipped
    problem = f"no folder {given / name}" if given else f"--data-dir (or {DIRECTORY_VARIABLE}) not given"
    raise DatasetNotFound(f"uea:{name}: {problem}, and the set is not bundled with aeon")


def _shipped_with_aeon() -> Path:
    found = find_spec("aeon")
    if found is None or found.origin is None:
        raise DataError("reading UEA files needs aeon: pip install 'anchormoe-agent[train]'")
    return Path(found.origin).parent / "datasets" / "data"


def _file(folder: Path, name: str, part: str) -> Path:
    for extension in EXTENSIONS:
        if (path := folder / f"{name}_{part}{extension}").is_file():
            return path
    raise DataError(f"{folder}: neither {name}_{part}.ts nor {name}_{part}.arff exists")


def _read(path: Path) -> _Part:
    try:
        series = _values(path)
        labels, declared = _labels(path)
    except UnicodeError as error:
        raise DataError(f"{path}: not a text file in UTF-8: {error}; save it as UTF-8") from error
    except (OSError, ValueError, IndexError) as error:
        raise DataError(f"{path}: {error}{_reason(path)}") from error
    if not series:
        raise DataError(f"{path}: no cases (is the line @data missing?)")
    if len(labels) != len(series):
        raise DataError(f"{path}: {len(series)} cases but {len(labels)} labels")
    return _Part(path, [_without_trailing_padding(one) for one in series], labels, declared)


def _values(path: Path) -> list[npt.NDArray[np.float64]]:
    from aeon.datasets import load_from_arff_file, load_from_ts_file

    if path.suffix == ".arff":
        return list(load_from_arff_file(str(path))[0])
    values, _, header = load_from_ts_file(str(path), return_meta_data=True)
    _refuse_wrong_header(path, header)
    return list(values)


def _refuse_wrong_header(path: Path, header: dict[str, Any]) -> None:
    if header["targetlabel"] or not header["classlabel"]:
        raise DataError(f"{path}: the header says @classLabel false; a classifier needs labels")
    if header["timestamps"]:
        raise DataError(f"{path}: the header says @timeStamps true; only evenly spaced series are read")


def _reason(path: Path) -> str:
    """Which line of a .ts file cannot be read: aeon's reader does not say."""
    lines = path.read_text(encoding="utf-8-sig").splitlines() if path.suffix == ".ts" else []
    begin = next((at for at, line in enumerate(lines) if line.strip().lower() == "@data"), len(lines))
    for number, line in enumerate(lines[:begin], start=1):
        if line.lower().split()[:2] in _NOT_READ:
            return f" (line {number}: the header says {line.strip()}; only labelled, evenly spaced series are read)"
    for number, line in enumerate(lines[begin + 1 :], start=begin + 2):
        for cell in (cell.strip() for part in line.split(":")[:-1] for cell in part.split(",")):
            if cell != "?" and not _is_number(cell):
                shown = f"{cell[:40]!r} is not" if cell else "an empty cell is not"
                return f" (line {number}: {shown} a number; a missing value is `?`, and values are parted by commas)"
    return ""


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _labels(path: Path) -> tuple[list[str], tuple[str, ...]]:
    """Read from the text once more: aeon's reader lower-cases names and turns `nan` inside one into `NaN`."""
    separator = ":" if path.suffix == ".ts" else ","
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    start = next((at for at, line in enumerate(lines) if line.lower() == "@data"), len(lines))
    declared = next((line.split()[2:] for line in lines[:start] if line.lower().startswith("@classlabel")), [])
    return [line.rsplit(separator, 1)[-1].strip() for line in lines[start + 1 :]], tuple(declared)


def _without_trailing_padding(series: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Archive files pad unequal series with `?` at the end; one step stays where everything is missing."""
    valid = np.flatnonzero(np.isfinite(series).any(axis=0))
    return series[:, : max(1, int(valid[-1]) + 1 if len(valid) else 1)]


def _classes(train: _Part) -> tuple[str, ...]:
    """Classes that occur in TRAIN, in the header's order, or sorted where the header declares none."""
    seen = set(train.labels)
    if train.declared and (unknown := sorted(seen - set(train.declared))):
        raise DataError(f"{train.path}: class {unknown[0]!r} is not declared in the header")
    return tuple(name for name in train.declared if name in seen) or tuple(sorted(seen))


def _refuse_unknown_classes(test: _Part, classes: tuple[str, ...]) -> None:
    if unknown := sorted(set(test.labels) - set(classes)):
        raise DataError(f"{test.path}: classes without a case in TRAIN: {', '.join(map(repr, unknown))}")


def _refuse_other_channels(train: _Part, test: _Part) -> None:
    here, there = len(test.series[0]), len(train.series[0])
    if here != there:
        raise DataError(f"{test.path}: {here} channels, but TRAIN has {there}")


def _dataset(name: str, part: _Part, classes: tuple[str, ...]) -> Dataset:
    try:
        cases = Cases.from_arrays(part.series)
    except DataError as error:
        raise DataError(f"{part.path}: {error}") from error
    channels = cases.x.shape[1]
    return Dataset(
        name=name,
        cases=cases,
        y=np.array([classes.index(label) for label in part.labels], dtype=np.int64),
        classes=classes,
        channels=tuple(f"channel_{index}" for index in range(channels)),
        units=("",) * channels,
    )
