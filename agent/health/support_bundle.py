"""What goes into a support bundle, and what does not: no secret, no name of an asset, no value of a sensor. Pure.

Names and values cannot be recognised for sure, so texts are let through by what is known to be harmless, not the
other way round.
"""

import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agent.logs import text_redaction

LEFT_OUT: Final = "<left out>"
_ASSET_KEYS = {"assets", "id", "username", "paths", "directory"}
_LOG_FIELDS = {"timestamp", "level", "logger", "event_code", "partition", "offset", "epoch", "group", "exit_code"}
_ALARM_NAMES = re.compile(r'(?<=alarm=")[^"]*(?=")')
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>[\w<>]+)', re.MULTILINE)
_ERROR = re.compile(r"^(?P<name>[A-Za-z_][\w.]*(?:Error|Exception|Tripped|Fenced|Lost|Exit|Interrupt))\b", re.MULTILINE)
_LAG = re.compile(r'^anchormoe_lag_records\{partition="(\d+)",topic="([^"]+)"\} (\S+)', re.MULTILINE)
_PLAIN_EVENT = re.compile(r"[a-z][a-z ,;:'()-]{0,119}")


def harmless_settings(value: Any, key: str = "") -> Any:
    """The configuration without names of assets, users and files of data. Secrets are only ever references there."""
    if key in _ASSET_KEYS:
        return f"{LEFT_OUT}: {len(value)}" if isinstance(value, list) else LEFT_OUT
    if isinstance(value, Mapping):
        return {str(name): harmless_settings(each, str(name)) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [harmless_settings(each, key) for each in value]
    return value


def harmless_metrics(text: str) -> str:
    """Metrics have no label per asset, but for the most frequent alarms."""
    return _ALARM_NAMES.sub(LEFT_OUT, text)


def harmless_log_lines(lines: Iterable[str]) -> list[str]:
    """Log lines in JSON with their constant words, places in the code and counts; other lines are only counted."""
    kept, other = [], 0
    for line in lines:
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            other += 1
            continue
        kept.append(json.dumps(_harmless_line(fields), ensure_ascii=False))
    if other:
        kept.append(json.dumps({"left_out": other, "why": "not JSON; set logging.format to json"}))
    return kept


def _harmless_line(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in fields.items() if name in _LOG_FIELDS and _is_short(value)}
    figures = {
        name: value
        for name, value in fields.items()
        if name.endswith(("_s", "_ms", "_bytes")) and isinstance(value, int | float)
    }
    event = fields.get("event")
    ours = "logger" not in fields and isinstance(event, str) and _PLAIN_EVENT.fullmatch(event)
    line = {**known, **figures, "event": event if ours else LEFT_OUT}
    trace = fields.get("exception")
    return {**line, "exception": places_in_code(trace)} if isinstance(trace, str) else line


def _is_short(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 100)


def places_in_code(trace: str) -> list[str]:
    """Where it was raised and as what; the message of an exception may have values of a record."""
    frames = [f"{found['file']}:{found['line']} {found['name']}" for found in _FRAME.finditer(trace)]
    return [*frames, *(found["name"] for found in _ERROR.finditer(trace))]


def lag_of(metrics: str) -> dict[str, float]:
    """By topic and partition, from the text of /metrics."""
    found = _LAG.findall(metrics)
    return {f"{topic}[{partition}]": float(lag) for partition, topic, lag in found}


def behind_commits(topic: str, committed: Mapping[int, int], ends: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """By topic and partition: where a start would go on, and how many records come after that."""
    return {
        f"{topic}[{partition}]": {"committed": offset, "end": ends[partition], "behind": ends[partition] - offset}
        for partition, offset in sorted(committed.items())
    }


def store_figures(assets: Iterable[tuple[str, str, str | None]], torn: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """How much is stored: (partition, group, state) of each asset, (partition, group) of what cannot be read."""
    counts: Counter[tuple[str, str, str]] = Counter((at, group, state or "none") for at, group, state in assets)
    return {
        "assets": [
            {"partition": at, "group": group, "state": state, "count": count}
            for (at, group, state), count in sorted(counts.items())
        ],
        "torn_checkpoints": [{"partition": at, "group": group} for at, group in sorted(torn)],
    }


def write_archive(files: Mapping[str, str], secrets: Iterable[str], names: Iterable[str]) -> bytes:
    """A tar.gz of text files. Secrets and known names of assets are looked for once more, in every file."""
    redact = text_redaction(frozenset(secrets) | {name for name in names if name})
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, text in sorted(files.items()):
            content = redact(text).encode()
            entry = tarfile.TarInfo(f"support-bundle/{name}")
            entry.size, entry.mode = len(content), 0o640
            archive.addfile(entry, io.BytesIO(content))
    return raw.getvalue()
