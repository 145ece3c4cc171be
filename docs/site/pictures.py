"""`make pictures`: the pictures in README, made by the product itself: the live view and an explanation."""

import asyncio
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from agent.app import build
from agent.health.counters import Counters
from agent.runtime.instruments import Instruments
from agent.settings import load_plant
from agent.terminal.views import LiveView

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 112, 40
WORN = 70
"""A TEST case of the simulated recordings in which the bearing is worn."""
SECONDS = 75
"""Long enough for the demo to show a fault: it runs five times as fast as real time."""


async def live_view() -> str:
    """The board of `make run` after a while, as SVG."""
    plant = load_plant(ROOT / "configs" / "demo.yaml", os.environ)
    console = Console(file=StringIO(), width=WIDTH, height=HEIGHT, force_terminal=True, record=True)
    counters, stop = Counters(), asyncio.Event()
    view = LiveView(console, counters)
    with build(plant, instruments=Instruments(counters=counters, observer=view)) as application:
        asyncio.get_running_loop().call_later(SECONDS, stop.set)
        await application.run(stop)
    console.export_text()  # drops the frames so far
    console.print(view.render())
    return _without_web_fonts(console.export_svg(title="anchormoe-agent run --config configs/demo.yaml"))


def _without_web_fonts(svg: str) -> str:
    """rich names fonts on a public server; a picture must not load anything."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "monospace")


def explanation(path: Path) -> None:
    """A simulated pump with a worn bearing, explained by the shipped model."""
    bundle, config = ROOT / "configs" / "bundles" / "pump", ROOT / "configs" / "training" / "pump.yaml"
    with TemporaryDirectory() as directory:
        _anchormoe_agent("simulate recordings pump --out recordings --count 4 --samples 3000", directory)
        case = f"--data recordings:recordings --config {config} --case {WORN}"
        _anchormoe_agent(f"explain {bundle} {case} --out {path}", directory)


def _anchormoe_agent(arguments: str, directory: str) -> None:
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "agent", *arguments.split()], check=True, cwd=directory, env=environ)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    explanation(IMAGES / "explanation.png")
    (IMAGES / "live-view.svg").write_text(asyncio.run(live_view()))


if __name__ == "__main__":
    main()
