"""One window of one recording, found by its name and a time, cut and filled exactly as training does."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anchormoe import windows
from anchormoe.cases import Cases
from anchormoe.data.recording_config import RecordingConfig, read_config
from anchormoe.data.recordings import resample_directory
from anchormoe.data.resampling import UNLABELLED, Recording, window_labels
from anchormoe.errors import DataError


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """One case; `label` is by the rule of the configuration, and None where there is none."""

    case: Cases
    channels: tuple[str, ...]
    units: tuple[str, ...]
    period_s: float
    recording: str
    start_ns: int
    end_ns: int
    label: str | None

    @property
    def name(self) -> str:
        return self.recording


def find_window(directory: Path, config: Path | None, *, recording: str, at_ns: int) -> RecordedWindow:
    """The latest window that had ended by a time: what was known then. Raises DataError."""
    settings = read_config(config)
    found = resample_directory(directory, settings)
    one = _named(found.recordings, recording)
    ends, raw = windows.cut(one.start, one.steps, settings.shape)
    if not len(ends):
        raise DataError(f"--recording {one.name}: shorter than one window of {settings.window.length} steps")
    times = ends * settings.grid.period_ns + settings.grid.epoch_ns
    place = int(np.searchsorted(times, at_ns, side="right")) - 1
    last_ns = settings.grid.time_ns(one.start + len(one.steps))
    if place < 0 or at_ns > last_ns:
        first, last = (np.datetime_as_string(np.datetime64(int(ns), "ns"), unit="s") for ns in (times[0], last_ns))
        raise DataError(f"--at: windows of {one.name} end between {first}Z and {last}Z")
    values, mask = windows.fill(raw[place : place + 1], settings.fill_rules)
    return RecordedWindow(
        case=Cases.from_windows(values, mask),
        channels=tuple(settings.channels),
        units=tuple(channel.unit for channel in settings.channels.values()),
        period_s=settings.grid.period_ns / 1e9,
        recording=one.name,
        start_ns=int(times[place]) - settings.window.length * settings.grid.period_ns,
        end_ns=int(times[place]),
        label=_label(one, int(ends[place]), settings, found.classes),
    )


def _named(recordings: tuple[Recording, ...], name: str) -> Recording:
    same = [one for one in recordings if one.name == name] or [one for one in recordings if one.asset == name]
    if len(same) == 1:
        return same[0]
    known = ", ".join(one.name for one in recordings[:10]) + (" …" if len(recordings) > 10 else "")
    if same:
        raise DataError(f"--recording {name}: several are called so; name one of {known}")
    raise DataError(f"--recording {name}: there is none; there are {known}")


def _label(recording: Recording, end: int, config: RecordingConfig, classes: tuple[str, ...]) -> str | None:
    last = end - recording.start
    codes = recording.labels[last - config.window.length : last]
    found = int(window_labels(codes[None], config, classes)[0])
    return None if found == UNLABELLED else classes[found]
