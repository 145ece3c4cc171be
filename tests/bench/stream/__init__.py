"""What streaming costs, one idea per module; `tests.bench.bench_stream` runs them and writes the page."""
