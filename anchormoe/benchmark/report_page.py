"""What every result page has in common: how it was run, and its sections put together."""

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version

from anchormoe.benchmark.methods import Effort
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults

PACKAGES = ("anchormoe-agent", "aeon", "captum", "numpy", "scikit-learn", "torch")


def describe_run(plan: BenchmarkPlan, today: date) -> str:
    """What a reader needs to repeat the run."""
    seeds = ", ".join(map(str, plan.seeds))
    command = f"benchmark {plan.source}" + (f" --sets {','.join(plan.sets)}" if plan.named else "")
    command += f" --methods {','.join(plan.methods)}" if plan.methods_named else ""
    usual = Effort()
    command += f" --recipe {plan.effort.recipe}" if plan.effort.recipe != usual.recipe else ""
    command += f" --profile {plan.effort.profile}" if plan.effort.profile != usual.profile else ""
    command += f" --jobs {plan.effort.n_jobs}" if plan.effort.n_jobs != usual.n_jobs else ""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return (
        f"Written on {today.isoformat()} by `anchormoe-agent {command}`; seeds {seeds}; {machine}.\n"
        "Versions: " + ", ".join(f"{name} {_version(name)}" for name in PACKAGES) + "."
    )


def outdated_note(results: BenchmarkResults) -> str:
    """How many runs are of earlier code; nothing where none is."""
    if not results.outdated:
        return ""
    return (
        f"{len(results.outdated)} of the runs are of an earlier version of the code, which the ledger names; the same "
        "command without a budget runs them again."
    )


def titled(title: str, table: str) -> str:
    """Nothing where there is no table."""
    return f"{title}\n\n{table}" if table else ""


def section(title: str, text: str, *tables: str) -> str:
    """Nothing where all tables are empty: a page explains what it shows."""
    return compose_page(title, text, *tables) if any(table.strip() for table in tables) else ""


def compose_page(*sections: str) -> str:
    """Sections without content are left out."""
    return "\n\n".join(section.strip() for section in sections if section.strip()) + "\n"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "–"
