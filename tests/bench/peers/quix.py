"""The same windows in Quix Streams, without a model: `python -m tests.bench.peers.quix BOOTSTRAP INPUT OUTPUT`.

Every 4 records of an asset the mean of its last 128, from state in RocksDB with a changelog topic.
"""

import sys
import tempfile
from typing import Any

from quixstreams import Application

READY = "partition_taken"


def main(bootstrap: str, source: str, target: str) -> None:
    with tempfile.TemporaryDirectory() as state:
        app = Application(
            broker_address=bootstrap,
            consumer_group="quix",
            auto_offset_reset="earliest",
            state_dir=state,
            loglevel=None,
        )
        frame = app.dataframe(app.topic(source, value_deserializer="json", key_deserializer="str"))
        frame = frame.apply(_add_to_window, stateful=True).filter(lambda found: found is not None)
        frame.to_topic(app.topic(target, value_serializer="json", key_serializer="str"))
        print(READY, flush=True)
        app.run(frame)


def _add_to_window(value: dict[str, Any], state: Any) -> dict[str, Any] | None:
    """Quix has windows by time and by count; a ring of the last 128 records with a hop is state of one's own."""
    window = [*state.get("window", []), [value["flow"], value["pressure"], value["vibration"]]][-128:]
    seen = state.get("seen", 0) + 1
    state.set("window", window)
    state.set("seen", seen)
    if seen % 4:
        return None
    return {"end": value["ts"], "mean": [sum(column) / len(window) for column in zip(*window, strict=True)]}


if __name__ == "__main__":
    main(*sys.argv[1:4])
