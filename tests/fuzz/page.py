"""docs/results/fuzz.md from the ledger. Pure but for what the machine is called."""

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.fuzz.ledger import Line
from tests.fuzz.runner import COUNTED, SLOW_S

_DOORS = {
    "wide": "wide records, 13 settings: decoder, control split, windows, a small real model, events, letters",
    "narrow": "narrow records, 6 settings: the same way",
    "chunked": "chunked records, 6 settings: the same way",
    "binary": "binary chunks, 4 settings: the same way",
    "avro": "Avro records with schemas of a registry, 4 settings: the same way",
    "protobuf": "Protobuf with good and hostile schemas, 3 settings: the same way",
    "json-schema": "JSON behind a schema's id, 2 settings: the same way",
    "influx": "line protocol, 3 settings: the same way",
    "telegraf": "Telegraf's JSON, 2 settings: the same way",
    "sparkplug": "Sparkplug B births, data and deaths, 2 settings: the same way",
    "json-lines": "messages written and read back; lines that others wrote",
    "alarm-inputs": "the alarm worker's input log: state machine, messages, rows, restart from the rows",
    "alarm-events": "the events topic as the alarm worker copies it",
    "kafka-batches": "record batches as a broker sends them: lengths, varints, header names, compression",
    "stored-data": "checkpoints, commit metadata, activations and dead letters that come back damaged",
    "bundles": "a file of a bundle, with a manifest that agrees: loaded, used",
    "settings": "plant.yaml",
    "http-requests": "raw bytes to the health and alarm servers",
    "webhook-answers": "raw answers of receivers",
}


def page(lines: Sequence[Line], command: str) -> str:
    parts = [_head(lines, command), _summary(lines), _by_door(lines), _by_reason(lines), _memory(lines)]
    return "\n".join([*(row for part in parts for row in part), *_findings(lines), *_how()]) + "\n"


def _head(lines: Sequence[Line], command: str) -> list[str]:
    records, minutes = sum(line.records for line in lines), sum(line.process_s for line in lines) / 60
    days = sorted({line.at for line in lines})
    commits = Counter[str]()
    for line in lines:
        commits[line.commit] += line.records
    versions = lines[-1].versions if lines else {}
    return [
        "# Fuzzing",
        "",
        f"{records:,} inputs in {minutes:.1f} minutes of processor time, {days[0] if days else '–'} to "
        f"{days[-1] if days else '–'} UTC. Written by `{command}`.",
        f"Commits: {', '.join(f'{commit} ({count:,})' for commit, count in commits.items())}. "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + f"; {os.cpu_count()} cores, {platform.machine()}.",
        "",
        "Raw bytes, changed inside and outside known fields, never only what an encoder would write. Every input must "
        "be used, ignored because a setting says so, obeyed as a control record, or refused with a reason, exactly "
        "once.",
        "",
    ]


def _summary(lines: Sequence[Line]) -> list[str]:
    failures = _failures(lines)
    named = {
        "crash": "**crashes** (any exception out of the door)",
        "hang": f"**hangs** (a batch over {SLOW_S:.0f} s of processor time, no answer, or stopped by the watchdog)",
        "silent": "**silently dropped**",
        "both": "**counted twice** (used and refused, two dead letters, accepted without 2xx)",
        "internal": "caught by the last door only (dead letter `internal`)",
    }
    others = {kind: count for kind, count in failures.items() if kind not in COUNTED}
    rest = f" ({', '.join(f'{kind} {count:,}' for kind, count in sorted(others.items()))})" if others else ""
    return [
        "| | |",
        "| --- | ---: |",
        f"| inputs | {sum(line.records for line in lines):,} |",
        f"| used | {sum(line.used for line in lines):,} |",
        f"| ignored by setting | {sum(line.ignored for line in lines):,} |",
        f"| control records | {sum(line.control for line in lines):,} |",
        f"| refused with a reason | {sum(sum(line.refused.values()) for line in lines):,} |",
        *(f"| {name} | {failures[kind]:,} |" for kind, name in named.items()),
        "| other broken promises: not finite, too large, unescaped, not read back, counters | "
        f"{sum(others.values()):,}{rest} |",
        f"| slowest batch, processor time | {max((line.slowest_s for line in lines), default=0):.2f} s |",
        "",
    ]


def _failures(lines: Iterable[Line]) -> Counter[str]:
    total = Counter[str]()
    for line in lines:
        total.update(line.failures)
    return total


def _doors(lines: Sequence[Line]) -> dict[str, list[Line]]:
    known = [*_DOORS, *sorted({line.door for line in lines} - set(_DOORS))]
    found = {door: [line for line in lines if line.door == door] for door in known}
    return {door: own for door, own in found.items() if own}


def _by_door(lines: Sequence[Line]) -> list[str]:
    rows = [
        "## By door",
        "",
        "| door | inputs | used | ignored | control | refused | crashes | hangs | silent | twice | last door | other "
        "| kinds of refusal seen | slowest batch | inputs/s |",
        "| --- " + "| ---: " * 14 + "|",
    ]
    for door, own in _doors(lines).items():
        failures, process_s = _failures(own), sum(line.process_s for line in own)
        other = sum(count for kind, count in failures.items() if kind not in COUNTED)
        records = sum(line.records for line in own)
        cells = [
            door,
            f"{records:,}",
            f"{sum(line.used for line in own):,}",
            f"{sum(line.ignored for line in own):,}",
            f"{sum(line.control for line in own):,}",
            f"{sum(sum(line.refused.values()) for line in own):,}",
            *(f"{failures[kind]:,}" for kind in COUNTED),
            f"{other:,}",
            f"{max(line.traits for line in own):,}",
            f"{max(line.slowest_s for line in own):.2f} s",
            f"{records / process_s:,.0f}" if process_s else "–",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    rows += ["", *(f"- **{door}**: {_DOORS[door]}" for door in _doors(lines) if door in _DOORS), ""]
    return rows


def _by_reason(lines: Sequence[Line]) -> list[str]:
    rows = ["## Refused, by reason", "", "| door | reasons |", "| --- | --- |"]
    for door, own in _doors(lines).items():
        reasons = Counter[str]()
        for line in own:
            reasons.update(line.refused)
        shown = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
        rows.append(f"| {door} | {shown or '–'} |")
    return [*rows, ""]


def _memory(lines: Sequence[Line]) -> list[str]:
    """Growth from a quarter of a worker's chunks on: before that caches fill and libraries are loaded."""
    rows = [
        "## Memory",
        "",
        "Resident memory of the process after its chunks of a door. *Early*: after the first quarter of them, when "
        "caches are filled and libraries loaded; *late*: after the last. *Traced*: growth of what Python holds over "
        "the second half of a chunk (tracemalloc), where it was measured.",
        "",
        "| door | early | late | highest | traced |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for door, own in _doors(lines).items():
        early, late = [], []
        for worker in dict.fromkeys(line.worker for line in own if line.records):
            chunks = [line for line in own if line.worker == worker and line.records]
            early.append(chunks[len(chunks) // 4].rss_after)
            late.append(chunks[-1].rss_after)
        traced = [line.traced_growth for line in own if line.traced_growth is not None]
        cells = [_mib(max(early, default=0)), _mib(max(late, default=0)), _mib(max(line.rss_peak for line in own))]
        rows.append(f"| {door} | {' | '.join(cells)} | {_kib(max(traced)) if traced else '–'} |")
    return [*rows, ""]


def _findings(lines: Sequence[Line]) -> list[str]:
    found = Counter[tuple[str, str, str]]()
    for line in lines:
        for signature, times in line.findings.items():
            found[line.door, signature, line.commit] += times
    if not found:
        return ["## What was found", "", "Nothing that broke a promise.", ""]
    rows = ["## What was found", "", "| door | what | commit | times |", "| --- | --- | --- | ---: |"]
    for (door, signature, commit), times in found.most_common():
        rows.append(f"| {door} | `{signature.replace('|', '/').replace('`', '')}` | {commit} | {times:,} |")
    return [*rows, ""]


def _how() -> list[str]:
    return [
        "## How",
        "",
        "`tests/fuzz` writes good inputs from raw tokens and breaks them: in their structure (names, values, "
        "duplicates, nesting, numbers that overflow, texts that are not UTF-8) and in their bytes (bits, splices, "
        "lengths that lie, byte order marks, CRLF); beside the value also key, timestamp and headers. Inputs that were "
        "refused for a new kind of reason are mutated further. Everything follows from the seed. Records go through "
        "the real pipeline in memory and are accounted for by offset: what the decoder said, what was published and "
        "what the counters say must agree. A failure is shrunk (ddmin) to a file in `tests/fuzz/regressions`, which "
        "`make test` replays.",
    ]


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


def _kib(size: int) -> str:
    return f"{size / 1024:+,.0f} KiB"
