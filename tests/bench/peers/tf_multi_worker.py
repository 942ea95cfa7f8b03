#!/usr/bin/env python3
"""Times TensorFlow 2's MultiWorkerMirroredStrategy on the talk shape, with real processes on loopback: the
synchronous peer of `dev bench consistency --way sync`. Each worker has all rows and layers; gradients are summed over
the workers in every step (rows by all-gather), and each worker applies the sum. No parameter servers.

  tf_multi_worker.py [--workers W] [--seconds S] [--batch B] [--rows R] [--threads T]

Prints one JSON line: `batches_per_second` over all workers (a step has one batch of each), the median of rounds of
about a second after a warm-up, and `cpu_ms_per_batch` of all processes.
Needs: pip install tensorflow-cpu==2.21.0
"""
import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

BATCHES = 64  # distinct batches a worker cycles through
ZIPF = 1.05
SIZES = [128, 256, 128, 64, 1]


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def zipf_ids(rng, rows, shape):
    """Zipf(1.05) ranks, spread over the rows by a fixed multiplicative permutation."""
    import numpy as np
    a = 1.0 - ZIPF  # inverse of the continuous CDF of x^-1.05 on [1, rows]
    u = rng.random(shape)
    ranks = np.power(u * (np.power(float(rows), a) - 1.0) + 1.0, 1.0 / a).astype(np.int64) - 1
    return (np.clip(ranks, 0, rows - 1) * 2654435761) % rows


def run_worker(flags):
    import numpy as np
    import tensorflow as tf

    if flags.threads:
        tf.config.threading.set_intra_op_parallelism_threads(flags.threads)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    init = tf.random_uniform_initializer(-0.05, 0.05, seed=1)
    with strategy.scope():
        tables = [tf.Variable(init([flags.rows, 64])) for _ in range(2)]
        layers = [(tf.Variable(init([a, b])), tf.Variable(tf.zeros([b]))) for a, b in zip(SIZES, SIZES[1:])]
        variables = tables + [v for layer in layers for v in layer]
        slots = [tf.Variable(tf.fill(v.shape, 0.1), trainable=False) for v in variables]

    rng = np.random.default_rng(7 + flags.worker)
    shape = (BATCHES, flags.batch)
    data = (zipf_ids(rng, flags.rows, shape), zipf_ids(rng, flags.rows, shape),
            rng.integers(0, 2, shape).astype(np.float32))
    batches = iter(strategy.distribute_datasets_from_function(
        lambda _: tf.data.Dataset.from_tensor_slices(data).repeat().prefetch(4)))

    def apply(v, slot, g):
        """Rows made unique, then the fused update: Keras' own Adagrad goes through the whole table."""
        if isinstance(g, tf.IndexedSlices):
            unique, where = tf.unique(g.indices)
            rows = tf.math.unsorted_segment_sum(g.values, where, tf.shape(unique)[0])
            tf.raw_ops.ResourceSparseApplyAdagradV2(var=v.handle, accum=slot.handle, lr=0.05, epsilon=1e-7, grad=rows,
                                                    indices=unique)
        else:
            tf.raw_ops.ResourceApplyAdagradV2(var=v.handle, accum=slot.handle, lr=0.05, epsilon=1e-7, grad=g)

    def replica(user, item, label):
        with tf.GradientTape() as tape:
            x = tf.concat([tf.nn.embedding_lookup(tables[0], user), tf.nn.embedding_lookup(tables[1], item)], 1)
            for i, (w, b) in enumerate(layers):
                x = tf.matmul(x, w) + b
                x = tf.nn.relu(x) if i + 1 < len(layers) else x
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=tf.squeeze(x, 1)))
        gradients = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.MEAN, tape.gradient(loss, variables))
        for v, slot, g in zip(variables, slots, gradients):
            apply(v, slot, g)
        return loss

    @tf.function
    def step(iterator):
        return strategy.run(replica, args=next(iterator))

    for _ in range(5):
        step(batches)
    # All workers must take the same number of steps, so the rounds are of steps and not of seconds.
    begin = time.monotonic()
    for _ in range(10):
        step(batches)
    if flags.worker == 0:
        each = (time.monotonic() - begin) / 10
        with open(flags.plan + ".new", "w") as f:
            f.write(str(max(1, round(1 / each))))
        os.rename(flags.plan + ".new", flags.plan)
    while not os.path.exists(flags.plan):
        time.sleep(0.01)
    steps = int(open(flags.plan).read())
    rates, cpu = [], sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for _ in range(flags.seconds):
        begin = time.monotonic()
        for _ in range(steps):
            step(batches)
        rates.append(steps / (time.monotonic() - begin))
    cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - cpu
    print(json.dumps({"rates": rates, "cpu": cpu, "steps": steps * flags.seconds, "version": tf.__version__}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--plan", default="", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker >= 0:
        run_worker(flags)
        return
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(flags.workers)]
        tasks = []
        for w in range(flags.workers):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": w}}
            command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--worker", str(w), "--plan",
                       os.path.join(directory, "steps")]
            tasks.append(subprocess.Popen(command, env=dict(os.environ, TF_CONFIG=json.dumps(config)),
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        printed = [task.communicate()[0] for task in tasks]
    if any(task.returncode for task in tasks):
        sys.exit(f"a worker failed: {[task.returncode for task in tasks]}")
    results = [json.loads(text.strip().splitlines()[-1]) for text in printed]
    batches = flags.workers * results[0]["steps"]
    print(json.dumps({
        "system": f"tensorflow {results[0]['version']} MultiWorkerMirroredStrategy", "case": "talk",
        "workers": flags.workers, "batch": flags.batch,
        "batches_per_second": round(flags.workers * statistics.median(results[0]["rates"]), 2),
        "cpu_ms_per_batch": round(1e3 * sum(r["cpu"] for r in results) / batches, 3)}))


if __name__ == "__main__":
    main()
