"""How a directory of recordings is read: the `recordings` section of a configuration file."""

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import yaml
from msgspec import Meta

from anchormoe.cases import Alignment
from anchormoe.conversion import Count, Share, from_settings
from anchormoe.data.csv_files import CsvFormat
from anchormoe.errors import DataError
from anchormoe.windows import FillKind, FillRule, Grid, WindowShape

SECTION = "recordings"
LabelRule = Literal["majority", "last", "any"]
"""Majority over the last `hop` steps; the last labelled step; any event in the window, the latest if several."""
ALL_FILES = ("**/*.csv", "**/*.parquet", "**/*.npz", "**/*.edf", "**/*.hea", "**/*.h5", "**/*.hdf5")
"""Also where the suffix is in capitals, as on Windows."""
OTHER_SECTIONS = ("data", "train")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """One measured quantity. `fill` carries a value at most `max_age` steps."""

    unit: str = ""
    fill: FillKind = "none"
    max_age: Annotated[int, Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        if self.fill != "none" and self.max_age == 0:
            raise ValueError(f"fill {self.fill} needs a max_age of at least 1 step")


@dataclass(frozen=True, slots=True)
class LabelConfig:
    """Either a `column` with a label per sample, or a file of `intervals` in the directory; `names` renames labels.

    `rule` says which of its labels a window gets, `min_share` how much of the window that label must cover.
    """

    column: str | None = None
    intervals: str | None = None
    default: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    rule: LabelRule = "majority"
    min_share: Share | None = None

    def __post_init__(self) -> None:
        if (self.column is None) == (self.intervals is None):
            raise ValueError("give either column or intervals")
        if self.rule == "any" and self.default is None:
            raise ValueError("rule any needs default, the label of windows without an event")

    @property
    def least_share(self) -> float:
        """Half of the window for the majority; otherwise a single step is enough."""
        return self.min_share if self.min_share is not None else 0.5 if self.rule == "majority" else 0.0

    @property
    def background(self) -> str | None:
        """The label that every other one comes before, by its final name; None unless the rule is `any`."""
        return self.names.get(self.default, self.default) if self.rule == "any" and self.default is not None else None


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """`length` and `hop` as in the agent's settings, in steps; window ends are multiples of `hop`.

    A step is `period_s` seconds long, or there are `rate_hz` of them in a second.
    """

    length: Count
    hop: Count
    period_s: Annotated[float, Meta(ge=1e-9)] | None = None
    rate_hz: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    epoch_s: float = 0.0
    min_coverage: Share = 0.5

    def __post_init__(self) -> None:
        if self.hop > self.length:
            raise ValueError(
                f"need 1 <= hop <= length: with hop {self.hop} and length {self.length} samples are left out"
            )
        if (self.period_s is None) == (self.rate_hz is None):
            raise ValueError("give either period_s or rate_hz")

    @property
    def period_ns(self) -> int:
        """The nearest whole nanosecond: the grid's step, here and in the agent."""
        return round(1e9 / self.rate_hz) if self.rate_hz is not None else round((self.period_s or 0.0) * 1e9)


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """`test` names recordings or assets (patterns); without it a `test_share` of them, or of the time, is TEST."""

    by: Literal["time", "recording", "asset"] = "recording"
    test: tuple[str, ...] = ()
    test_share: Annotated[float, Meta(gt=0, lt=1)] = 0.3

    def __post_init__(self) -> None:
        if self.by == "time" and self.test:
            raise ValueError("test names recordings or assets; a split by time takes test_share")


@dataclass(frozen=True, slots=True)
class RecordingConfig:
    """`files` are patterns below the directory; `asset` is `file`, `folder` or `column:NAME`."""

    timestamp: str
    channels: dict[str, ChannelConfig]
    labels: LabelConfig
    window: WindowConfig
    split: SplitConfig = field(default_factory=SplitConfig)
    files: tuple[str, ...] = ALL_FILES
    asset: str = "file"
    utc_offset: str | int | None = None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None = None
    timestamp_format: str | None = None
    separator: str | None = None
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    missing: tuple[str | float, ...] = ()
    """words and numbers that stand for no value, such as `Bad Input` or -1"""
    alignment: Alignment = "sliding"

    def __post_init__(self) -> None:
        if not self.channels:
            raise ValueError("channels: at least one is needed")
        if self.asset not in ("file", "folder") and not self.asset_column:
            raise ValueError(f"asset: expected file, folder or column:NAME, not {self.asset!r}")
        if isinstance(self.utc_offset, int):
            raise ValueError(
                f'utc_offset: write it in quotes, such as "+02:00"; YAML reads {self.utc_offset} otherwise'
            )
        if self.utc_offset is not None and not _OFFSET.fullmatch(self.utc_offset):
            raise ValueError(f"utc_offset: expected a value like +02:00, not {self.utc_offset!r}")
        if self.timestamp_unit is not None and self.timestamp_format is not None:
            raise ValueError("give either timestamp_unit, for numbers, or timestamp_format, for texts")
        self._refuse_wrong_files()

    def _refuse_wrong_files(self) -> None:
        if self.separator is not None and len(self.separator) != 1:
            tab = r'; a tab is "\t" in double quotes' if "t" in self.separator else ""
            raise ValueError(f"separator: expected a single character, not {self.separator!r}{tab}")
        if self.separator == self.decimal:
            raise ValueError(f"separator: {self.separator!r} is the decimal sign, too")
        if not _is_text_encoding(self.encoding):
            raise ValueError(f"encoding: {self.encoding!r} is not known; try utf-8, windows-1252 or utf-16")
        for pattern in self.files:
            parts = PurePosixPath(pattern).parts
            if not parts or pattern.startswith("/") or any("**" in part and part != "**" for part in parts):
                raise ValueError(f"files: {pattern!r}: expected a pattern below the directory, such as '**/*.csv'")

    @property
    def csv_format(self) -> CsvFormat:
        return CsvFormat(self.separator, self.decimal, self.encoding)

    @property
    def missing_words(self) -> tuple[str, ...]:
        return tuple(str(each) for each in self.missing)

    @property
    def asset_column(self) -> str | None:
        kind, _, column = self.asset.partition(":")
        return column if kind == "column" and column else None

    @property
    def offset_ns(self) -> int | None:
        """Subtracted from a local time to get UTC; None when not set."""
        found = _OFFSET.fullmatch(str(self.utc_offset or ""))
        if found is None:
            return None
        seconds = int(found[2]) * 3600 + int(found[3]) * 60
        return (seconds if found[1] == "+" else -seconds) * 1_000_000_000

    @property
    def grid(self) -> Grid:
        return Grid(self.window.period_ns, round(self.window.epoch_s * 1e9))

    @property
    def shape(self) -> WindowShape:
        return WindowShape(self.window.length, self.window.hop)

    @property
    def fill_rules(self) -> list[FillRule]:
        return [FillRule(channel.fill, channel.max_age) for channel in self.channels.values()]


def _is_text_encoding(name: str) -> bool:
    try:
        b"?".decode(name)
    except LookupError:
        return False
    except UnicodeError:
        pass  # a single byte is too few for it
    return True


def read_config(path: Path | None) -> RecordingConfig:
    """The `recordings` section of a YAML file. DataError names the file and the key."""
    if path is None:
        raise DataError("recordings need --config FILE, which says what the columns are and how to cut and split them")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise DataError(f"{path}: not a YAML file: {error}") from error
    return from_settings(RecordingConfig, _section(path, content), f"{path}: {SECTION}")


def _section(path: Path, content: object) -> object:
    if not isinstance(content, dict) or SECTION not in content:
        raise DataError(f"{path}: the section `{SECTION}` is missing")
    for key in content:
        if key not in (SECTION, *OTHER_SECTIONS):
            raise DataError(f"{path}: {key}: unknown section; known are {', '.join((SECTION, *OTHER_SECTIONS))}")
    return content[SECTION]
