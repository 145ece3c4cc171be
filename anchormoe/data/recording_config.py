"""How a directory of recordings is read: the `recordings` section of a configuration file."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import yaml
from msgspec import Meta

from anchormoe.cases import Alignment
from anchormoe.conversion import Count, Share, from_settings
from anchormoe.errors import DataError
from anchormoe.windows import FillKind, FillRule, Grid, WindowShape

SECTION = "recordings"
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
    """Either a `column` with a label per sample, or a file of `intervals` in the directory; `names` renames labels."""

    column: str | None = None
    intervals: str | None = None
    default: str | None = None
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.column is None) == (self.intervals is None):
            raise ValueError("give either column or intervals")


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """`length` and `hop` as in the agent's settings: steps of `period_s` seconds, window ends at multiples of `hop`."""

    period_s: Annotated[float, Meta(ge=1e-9)]
    length: Count
    hop: Count
    epoch_s: float = 0.0
    min_coverage: Share = 0.5

    def __post_init__(self) -> None:
        WindowShape(self.length, self.hop)


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
    files: tuple[str, ...] = ("**/*.csv", "**/*.parquet", "**/*.npz")
    asset: str = "file"
    utc_offset: str | None = None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None = None
    separator: str | None = None
    decimal: Literal[".", ","] = "."
    alignment: Alignment = "sliding"

    def __post_init__(self) -> None:
        if not self.channels:
            raise ValueError("channels: at least one is needed")
        if self.asset not in ("file", "folder") and not self.asset_column:
            raise ValueError(f"asset: expected file, folder or column:NAME, not {self.asset!r}")
        if self.utc_offset is not None and not _OFFSET.fullmatch(self.utc_offset):
            raise ValueError(f"utc_offset: expected a value like +02:00, not {self.utc_offset!r}")

    @property
    def asset_column(self) -> str | None:
        kind, _, column = self.asset.partition(":")
        return column if kind == "column" and column else None

    @property
    def offset_ns(self) -> int | None:
        """Subtracted from a local time to get UTC; None when not set."""
        found = _OFFSET.fullmatch(self.utc_offset or "")
        if found is None:
            return None
        seconds = int(found[2]) * 3600 + int(found[3]) * 60
        return (seconds if found[1] == "+" else -seconds) * 1_000_000_000

    @property
    def grid(self) -> Grid:
        return Grid(round(self.window.period_s * 1e9), round(self.window.epoch_s * 1e9))

    @property
    def shape(self) -> WindowShape:
        return WindowShape(self.window.length, self.window.hop)

    @property
    def fill_rules(self) -> list[FillRule]:
        return [FillRule(channel.fill, channel.max_age) for channel in self.channels.values()]


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
