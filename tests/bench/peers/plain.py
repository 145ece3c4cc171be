"""An agent as one writes it in an afternoon: aiokafka, a pandas frame per asset, MiniRocket, ridge, captum.

`python -m tests.bench.peers.plain BOOTSTRAP INPUT OUTPUT`: classifies the last 128 rows of an asset every 4 rows,
explains each prediction by ablation of eighths of the window by channel, and writes a JSON event.
"""

import asyncio
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import orjson
import pandas as pd
import torch
from aeon.transformations.collection.convolution_based import MiniRocket
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from captum.attr import FeatureAblation
from sklearn.linear_model import RidgeClassifierCV
from sklearn.preprocessing import StandardScaler

CHANNELS = ["flow", "pressure", "motor_current", "vibration", "temperature"]
LENGTH, HOP, PATCHES, CLASSES = 128, 4, 8, 4
READY = "partition_taken"
"""What the bench waits for in the log of any agent."""


class Model:
    """Trained on noise: what it says does not matter here, only what it costs."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(200, len(CHANNELS), LENGTH)).astype(np.float32), np.arange(200) % CLASSES
        self.rocket = MiniRocket(random_state=0, n_jobs=1).fit(x)
        features = self.rocket.transform(x)
        self.scaler = StandardScaler().fit(features)
        self.ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 7)).fit(self.scaler.transform(features), y)
        patch = torch.arange(LENGTH) // (LENGTH // PATCHES)
        self.mask = (torch.arange(len(CHANNELS))[:, None] * PATCHES + patch[None]).unsqueeze(0)

    def scores(self, windows: torch.Tensor) -> torch.Tensor:
        features = self.scaler.transform(self.rocket.transform(windows.numpy()))
        return torch.from_numpy(self.ridge.decision_function(features))

    def explain(self, window: np.ndarray) -> tuple[int, list[float], np.ndarray]:
        batch = torch.from_numpy(window[None].astype(np.float32))
        scores = self.scores(batch)[0]
        label = int(scores.argmax())
        ablation = FeatureAblation(self.scores)
        found = ablation.attribute(batch, target=label, feature_mask=self.mask, perturbations_per_eval=41)
        step = LENGTH // PATCHES
        return label, scores.tolist(), found[0, :, ::step].numpy()


async def run(bootstrap: str, source: str, target: str) -> None:
    model = Model()
    model.explain(np.zeros((len(CHANNELS), LENGTH)))  # compiles
    consumer = AIOKafkaConsumer(source, bootstrap_servers=bootstrap, group_id="plain", auto_offset_reset="earliest")
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await consumer.start()
    await producer.start()
    print(READY, flush=True)
    frames: dict[str, pd.DataFrame] = {}
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    async for record in consumer:
        asset = record.key.decode()
        rows[asset].append(orjson.loads(record.value))
        if len(rows[asset]) < HOP:
            continue
        new = pd.DataFrame(rows.pop(asset)).set_index("ts")[CHANNELS]
        frame = frames[asset] = pd.concat([frames[asset], new]).tail(LENGTH) if asset in frames else new
        window = frame.ffill().bfill().to_numpy().T
        padded = np.pad(window, ((0, 0), (LENGTH - window.shape[1], 0)), mode="edge")
        label, scores, attributions = await asyncio.to_thread(model.explain, padded)  # the loop has heartbeats to send
        event = {
            "asset": asset, "state": label, "scores": scores, "end": int(frame.index[-1]), "offset": record.offset,
            "channels": dict(zip(CHANNELS, attributions.round(6).tolist(), strict=True)),
        }  # fmt: skip
        await producer.send(target, orjson.dumps(event), key=record.key)


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(run(*sys.argv[1:4]))
