"""Send a recording (CSV) to a Kafka topic as wide JSON records keyed by asset, shifted so that its last sample is now.

python examples/recording_to_kafka.py valve1/0.csv --topic sensors --asset loop-1 --time datetime --separator ';'
"""

import argparse
import asyncio
import csv
import os
import time
from datetime import UTC, datetime

import orjson
from aiokafka import AIOKafkaProducer


def samples(path: str, time_column: str, separator: str) -> list[tuple[int, dict[str, float]]]:
    """(epoch ms, values) per row; times without a zone are taken as UTC."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter=separator))
    times = [datetime.fromisoformat(row.pop(time_column)).replace(tzinfo=UTC) for row in rows]
    values = [{name: float(cell) for name, cell in row.items() if cell} for row in rows]
    return [(int(at.timestamp() * 1000), row) for at, row in zip(times, values, strict=True)]


async def send(wanted: argparse.Namespace) -> None:
    found = samples(wanted.file, wanted.time, wanted.separator)
    # A broker deletes by the records' own time, so a recording of years ago would vanish on arrival.
    shift = int(time.time() * 1000) - found[-1][0]
    async with AIOKafkaProducer(bootstrap_servers=wanted.bootstrap) as producer:
        for at, values in found:
            record = orjson.dumps({"ts": at + shift, **values})
            await producer.send(wanted.topic, record, key=wanted.asset.encode(), timestamp_ms=at + shift)
    print(f"{len(found)} records of {wanted.asset} sent to {wanted.topic}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    for name, default in (("topic", "sensors"), ("asset", "asset-1"), ("time", "ts"), ("separator", ",")):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--bootstrap", default=os.environ.get("ANCHORMOE_KAFKA_BOOTSTRAP", "localhost:9092"))
    asyncio.run(send(parser.parse_args()))
