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
    """(epoch ms, values) per row; what is no number, such as a label, is left out."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter=separator))
    if not rows or time_column not in rows[0]:
        raise SystemExit(f"{path}: no column {time_column!r}; there are {', '.join(rows[0]) if rows else 'no rows'}")
    return [(epoch_ms(row.pop(time_column)), numbers(row)) for row in rows]


def numbers(row: dict[str, str]) -> dict[str, float]:
    return {name: float(cell) for name, cell in row.items() if is_number(cell)}


def epoch_ms(text: str) -> int:
    """From a number of milliseconds, or an ISO time; without a zone it is taken as UTC."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    for name, default in (("topic", "sensors"), ("asset", "asset-1"), ("time", "ts"), ("separator", ",")):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--bootstrap", default=os.environ.get("ANCHORMOE_KAFKA_BOOTSTRAP", "localhost:9092"))
    asyncio.run(send(parser.parse_args()))
