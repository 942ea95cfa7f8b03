"""onnxruntime on the model of `dev bench serve`: rows scored a second, in this process.

    dev bench serve 1000000 2 10 1 /tmp/talk.onnx
    python3 onnx_runtime.py /tmp/talk.onnx --rows 1 --threads 2

Scoring only: ids come in as numbers, there is no HTTP, no JSON and no vocabulary. Each thread runs
the session by itself, as a server's threads would; onnxruntime's own threads are off. Prints a line
of JSON.
"""
import argparse
import json
import threading
import time

import numpy
import onnxruntime

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
parser.add_argument("model")
parser.add_argument("--rows", type=int, default=1, help="rows of a run")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seconds", type=float, default=5)
flags = parser.parse_args()

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(flags.model, options, providers=["CPUExecutionProvider"])
names = [i.name for i in session.get_inputs()]
outputs = [o.name for o in session.get_outputs()]


def batch(random):
    return {name: random.integers(0, 1_000_000, flags.rows, dtype=numpy.int64) for name in names}


def work(seed, times):
    random = numpy.random.default_rng(seed)
    batches = [batch(random) for _ in range(256)]
    for feed in batches:
        session.run(outputs, feed)
    end = time.perf_counter() + flags.seconds
    start, at = time.perf_counter(), 0
    while start < end:
        session.run(outputs, batches[at % len(batches)])
        now = time.perf_counter()
        times.append(now - start)
        start, at = now, at + 1


all_times = [[] for _ in range(flags.threads)]
threads = [threading.Thread(target=work, args=(i, t)) for i, t in enumerate(all_times)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
times = numpy.sort(numpy.concatenate(all_times))
runs = len(times) / flags.seconds
print(json.dumps({"runs_per_second": round(runs), "rows_per_second": round(runs * flags.rows),
                  "p50_ms": round(1e3 * float(numpy.quantile(times, 0.5)), 3),
                  "p99_ms": round(1e3 * float(numpy.quantile(times, 0.99)), 3),
                  "rows_a_run": flags.rows, "threads": flags.threads}))
