"""Send a recording (CSV) to a Kafka topic as wide JSON records keyed by asset, shifted so that its last sample is now.

python examples/recording_to_kafka.py recordings/pump-000.csv --topic sensors --asset pump-1
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
    """(epoch ms, values) per row; cells that are not numbers, such as labels, are left out."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter=separator))
    if not rows or time_column not in rows[0]:
        raise SystemExit(f"{path}: no column {time_column!r}; there are {', '.join(rows[0]) if rows else 'no rows'}")
    return [(epoch_ms(row.pop(time_column)), numbers(row)) for row in rows]


def numbers(row: dict[str, str]) -> dict[str, float]:
    return {name: float(cell) for name, cell in row.items() if is_number(cell)}


def epoch_ms(text: str) -> int:
    """A number of milliseconds, or an ISO time; without a zone it is UTC."""
    if is_number(text):
        return int(float(text))
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


async def send(options: argparse.Namespace) -> None:
    rows = samples(options.file, options.time, options.separator)
    # A broker deletes records by their timestamp, so an old recording would be deleted as soon as it arrives.
    shift = int(time.time() * 1000) - rows[-1][0]
    async with AIOKafkaProducer(bootstrap_servers=options.bootstrap) as producer:
        for at, values in rows:
            record = orjson.dumps({"ts": at + shift, **values})
            await producer.send(options.topic, record, key=options.asset.encode(), timestamp_ms=at + shift)
    print(f"{len(rows)} records of {options.asset} sent to {options.topic}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    for name, default in (("topic", "sensors"), ("asset", "asset-1"), ("time", "ts"), ("separator", ",")):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--bootstrap", default=os.environ.get("ANCHORMOE_KAFKA_BOOTSTRAP", "localhost:9092"))
    asyncio.run(send(parser.parse_args()))
