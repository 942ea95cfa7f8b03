#!/usr/bin/env python3
"""Times TensorFlow 2's ParameterServerStrategy on the reference shapes, with real processes on loopback.

The program is coordinator and launcher: it starts the PS and worker processes (itself, with TF_CONFIG), runs one
case, prints one JSON line and ends them. Rows are drawn from a Zipf distribution; batches are made beforehand so
that reading data costs neither side anything.

  tf_pss.py CASE [--ps P] [--workers W] [--seconds S] [--pack K] [--threads T]

Cases: null, sparse32, talk, ctr, dlrm, recovery (talk with one worker killed and restarted).
Needs: pip install tensorflow-cpu==2.21.0
"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")

BATCHES = 64  # distinct batches a worker cycles through
ZIPF = 1.05
TALK_ROWS = 1_000_000
CTR_ROWS, CTR_SLOTS, CTR_DIM, CTR_BATCH = 1_000_001, 26, 10, 1000
DLRM_ROWS, DLRM_TABLES, DLRM_DIM, DLRM_DENSE = 100_000, 26, 64, 13
SPARSE_ROWS = 4_194_304  # x 64 floats = 1 GiB
SHARDING = {"on": True}


def free_ports(n):
    socks = [socket.socket() for _ in range(n)]
    for s in socks:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in socks]
    for s in socks:
        s.close()
    return ports


def zipf_ids(rng, rows, shape):
    """Zipf(1.05) ranks, spread over the rows by a fixed multiplicative permutation."""
    import numpy as np
    u = rng.random(shape)
    a = 1.0 - ZIPF  # inverse of the continuous CDF of x^-1.05 on [1, rows]
    ranks = np.power(u * (np.power(float(rows), a) - 1.0) + 1.0, 1.0 / a).astype(np.int64) - 1
    ranks = np.clip(ranks, 0, rows - 1)
    return (ranks * 2654435761) % rows


def serve():
    import tensorflow as tf
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    config = tf.compat.v1.ConfigProto()
    threads = int(os.environ.get("PEER_THREADS", "0"))
    if threads:
        config.intra_op_parallelism_threads = threads
    server = tf.distribute.Server(cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id,
                                  protocol="grpc", config=config, start=True)
    server.join()


def start_task(spec, kind, index, threads):
    env = dict(os.environ, TF_CONFIG=json.dumps({"cluster": spec, "task": {"type": kind, "index": index}}),
               PEER_THREADS=str(threads))
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--serve"], env=env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def build_case(tf, np, strategy, name, batch, pack):
    """Returns (worker function or None, dataset function or None, examples a step, counter variable or None)."""
    rng = np.random.default_rng(7)
    init = tf.random_uniform_initializer(-0.05, 0.05, seed=1)

    def table(rows, dim):
        return tf.Variable(lambda: init([rows, dim]), dtype=tf.float32, shape=[rows, dim])

    if name == "null":
        return tf.function(lambda: tf.constant(0)), None, 0, None

    counter, adagrad = None, name != "sparse32"
    with strategy.scope():
        if name == "recovery":
            counter = tf.Variable(0, dtype=tf.int64)
        if name == "sparse32":
            emb = table(SPARSE_ROWS, 64)
            dense = []
        elif name in ("talk", "recovery"):
            user, item = table(TALK_ROWS, 64), table(TALK_ROWS, 64)
            sizes = [128, 256, 128, 64, 1]
            dense = [(tf.Variable(init([a, b])), tf.Variable(tf.zeros([b]))) for a, b in zip(sizes, sizes[1:])]
        elif name == "ctr":
            emb = table(CTR_ROWS, CTR_DIM)
            sizes = [CTR_SLOTS * CTR_DIM, 400, 400, 400, 1]
            dense = [(tf.Variable(init([a, b])), tf.Variable(tf.zeros([b]))) for a, b in zip(sizes, sizes[1:])]
        elif name == "dlrm":
            embs = [table(DLRM_ROWS, DLRM_DIM) for _ in range(DLRM_TABLES)]
            bottom_sizes = [DLRM_DENSE, 512, 256, DLRM_DIM]
            pairs = (DLRM_TABLES + 1) * DLRM_TABLES // 2
            top_sizes = [DLRM_DIM + pairs, 512, 256, 1]
            bottom = [(tf.Variable(init([a, b])), tf.Variable(tf.zeros([b]))) for a, b in zip(bottom_sizes, bottom_sizes[1:])]
            top = [(tf.Variable(init([a, b])), tf.Variable(tf.zeros([b]))) for a, b in zip(top_sizes, top_sizes[1:])]
            dense = bottom + top

    def flat(v):
        return list(v.variables) if hasattr(v, "variables") else [v]

    def mlp(x, layers):
        for i, (w, b) in enumerate(layers):
            x = tf.matmul(x, w) + b
            if i + 1 < len(layers):
                x = tf.nn.relu(x)
        return x

    def loss_of(logit, y):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=tf.squeeze(logit, 1)))

    if name == "sparse32":
        size = 32
        ids = zipf_ids(rng, SPARSE_ROWS, (BATCHES, size))
        data = (ids,)

        def forward(i):
            rows = tf.nn.embedding_lookup(emb, i)
            return tf.reduce_sum(rows * rows)
        variables = flat(emb)
    elif name in ("talk", "recovery"):
        size = batch
        data = (zipf_ids(rng, TALK_ROWS, (BATCHES, size)), zipf_ids(rng, TALK_ROWS, (BATCHES, size)),
                rng.integers(0, 2, (BATCHES, size)).astype(np.float32))

        def forward(u, i, y):
            x = tf.concat([tf.nn.embedding_lookup(user, u), tf.nn.embedding_lookup(item, i)], 1)
            return loss_of(mlp(x, dense), y)
        variables = flat(user) + flat(item)
    elif name == "ctr":
        size = CTR_BATCH
        data = (zipf_ids(rng, CTR_ROWS, (BATCHES, size, CTR_SLOTS)),
                rng.integers(0, 2, (BATCHES, size)).astype(np.float32))

        def forward(i, y):
            rows = tf.nn.embedding_lookup(emb, tf.reshape(i, [-1]))
            return loss_of(mlp(tf.reshape(rows, [size, CTR_SLOTS * CTR_DIM]), dense), y)
        variables = flat(emb)
    else:
        size = batch
        data = (zipf_ids(rng, DLRM_ROWS, (BATCHES, size, DLRM_TABLES)),
                rng.standard_normal((BATCHES, size, DLRM_DENSE)).astype(np.float32),
                rng.integers(0, 2, (BATCHES, size)).astype(np.float32))
        mask = np.array([[i * (DLRM_TABLES + 1) + j] for i in range(DLRM_TABLES + 1) for j in range(i)])[:, 0]

        def forward(i, x, y):
            d = mlp(x, bottom)
            rows = [tf.nn.embedding_lookup(e, i[:, k]) for k, e in enumerate(embs)]
            z = tf.stack([d] + rows, 1)
            inter = tf.reshape(tf.matmul(z, z, transpose_b=True), [size, -1])
            return loss_of(mlp(tf.concat([d, tf.gather(inter, mask, axis=1)], 1), top), y)
        variables = [v for e in embs for v in flat(e)]
    variables += [v for w, b in dense for v in flat(w) + flat(b)]

    def dataset_fn():
        return tf.data.Dataset.from_tensor_slices(data).repeat().prefetch(4)

    SHARDING["on"] = False  # slots follow their shard, they are not sharded again
    slots = []
    if adagrad:
        for v in variables:
            with strategy.scope(), strategy.extended.colocate_vars_with(v):
                slots.append(tf.Variable(tf.fill(v.shape, 0.1), trainable=False))
    lr = 0.05 if adagrad else 0.01

    def apply(v, slot, g):
        """What Keras' optimizers do, without their other work: rows made unique, then the fused update at the PS."""
        if isinstance(g, tf.IndexedSlices):
            unique, where = tf.unique(g.indices)
            rows = tf.math.unsorted_segment_sum(g.values, where, tf.shape(unique)[0])
        with tf.device(v.device):
            if isinstance(g, tf.IndexedSlices):
                if slot is None:
                    tf.raw_ops.ResourceScatterSub(resource=v.handle, indices=unique, updates=lr * rows)
                else:
                    tf.raw_ops.ResourceSparseApplyAdagradV2(var=v.handle, accum=slot.handle, lr=lr, epsilon=1e-8,
                                                            grad=rows, indices=unique)
            else:
                tf.raw_ops.ResourceApplyAdagradV2(var=v.handle, accum=slot.handle, lr=lr, epsilon=1e-8, grad=g)

    def one_step(*args):
        with tf.GradientTape() as tape:
            loss = forward(*args)
        for n, (v, g) in enumerate(zip(variables, tape.gradient(loss, variables))):
            apply(v, slots[n] if adagrad else None, g)
        return loss

    @tf.function
    def step(iterator):
        loss = tf.constant(0.0)
        for _ in tf.range(pack):
            loss = strategy.run(one_step, args=next(iterator))
            if counter is not None:
                counter.assign_add(1)
        return loss
    return step, dataset_fn, size * pack, counter


def main():
    p = argparse.ArgumentParser()
    p.add_argument("case", choices=["null", "sparse32", "talk", "ctr", "dlrm", "recovery"])
    p.add_argument("--ps", type=int, default=1)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--pack", type=int, default=1)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--threads", type=int, default=0, help="threads within an op; 0 is TensorFlow's default")
    a = p.parse_args()

    ports = free_ports(a.ps + a.workers + 1)
    spec = {"ps": [f"127.0.0.1:{x}" for x in ports[:a.ps]],
            "worker": [f"127.0.0.1:{x}" for x in ports[a.ps:a.ps + a.workers]],
            "chief": [f"127.0.0.1:{ports[-1]}"]}
    tasks = {("ps", i): start_task(spec, "ps", i, a.threads) for i in range(a.ps)}
    tasks.update({("worker", i): start_task(spec, "worker", i, a.threads) for i in range(a.workers)})
    try:
        run(a, spec, tasks)
    finally:
        for t in tasks.values():
            t.kill()
        for t in tasks.values():
            t.wait()
    sys.stdout.flush()
    os._exit(0)  # the strategy's own threads wait for ever on dead servers


def cpu_seconds(pid):
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def run(a, spec, tasks):
    import numpy as np
    import tensorflow as tf
    os.environ["TF_CONFIG"] = json.dumps({"cluster": spec, "task": {"type": "chief", "index": 0}})
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    by_size = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=256 << 10, max_shards=a.ps)

    def partitioner(shape, dtype, **kw):
        return by_size(shape, dtype, **kw) if SHARDING["on"] and a.ps > 1 else [1] * len(shape)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    step, dataset_fn, examples, counter = build_case(tf, np, strategy, a.case, a.batch, a.pack)
    args = ()
    if dataset_fn is not None:
        args = (iter(coordinator.create_per_worker_dataset(dataset_fn)),)

    for _ in range(4 * a.workers):  # traces and warms
        coordinator.schedule(step, args=args)
    coordinator.join()

    if a.case == "null":
        latency = []
        for _ in range(300):
            t = time.perf_counter()
            coordinator.schedule(step, args=args)
            coordinator.join()
            latency.append(time.perf_counter() - t)
    scheduled = 4 * a.workers
    if a.case == "recovery":
        recovery(a, spec, tasks, coordinator, step, args, counter, scheduled)
        return
    rates = []
    busy0 = {k: cpu_seconds(t.pid) for k, t in tasks.items()}
    me0, wall0, total = time.process_time(), time.perf_counter(), 0
    while time.perf_counter() - wall0 < a.seconds:
        n = max(8, int((rates[-1] if rates else 20) * 1.0 / a.pack))  # about a second a round
        t = time.perf_counter()
        for _ in range(n):
            coordinator.schedule(step, args=args)
        coordinator.join()
        rates.append(n * a.pack / (time.perf_counter() - t))
        total += n * a.pack
    wall = time.perf_counter() - wall0
    out = {"peer": "tensorflow " + tf.__version__, "case": a.case, "ps": a.ps, "workers": a.workers, "pack": a.pack,
           "threads": a.threads, "steps_per_second": round(statistics.median(rates[1:] or rates), 2),
           "best_steps_per_second": round(max(rates), 2), "examples_per_step": examples // a.pack if a.pack else 0,
           "cpu_ms_per_step": {f"{k[0]}:{k[1]}": round(1e3 * (cpu_seconds(t.pid) - busy0[k]) / total, 3)
                               for k, t in tasks.items()} | {"coordinator": round(1e3 * (time.process_time() - me0) / total, 3)},
           "steps": total, "seconds": round(wall, 1)}
    if a.case == "null":
        out["closure_latency_ms_median"] = round(1e3 * statistics.median(latency), 3)
    print(json.dumps(out), flush=True)


def recovery(a, spec, tasks, coordinator, step, args, counter, scheduled):
    """Counts steps in bins of 0.25 s while worker 1 is killed and, 3 s later, started again."""
    stop = threading.Event()
    n = [scheduled]

    def feed():  # keeps the queue short: TensorFlow's own bound is 262,144 closures
        while not stop.is_set():
            if n[0] * a.pack - last[0] > 100 * a.pack:
                time.sleep(0.005)
                continue
            coordinator.schedule(step, args=args)
            n[0] += 1
    feeder = threading.Thread(target=feed, daemon=True)
    bins, events = [], {}
    last = [int(counter.numpy())]
    start = time.perf_counter()
    feeder.start()
    killed = restarted = False
    while time.perf_counter() - start < 40:
        time.sleep(0.25)
        now = time.perf_counter() - start
        c = int(counter.numpy())
        bins.append((round(now, 2), c - last[0]))
        last[0] = c
        if now > 6 and not killed:
            victim = tasks[("worker", a.workers - 1)]
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            killed, events["killed"] = True, round(now, 2)
        if now > 9 and not restarted:
            tasks[("worker", a.workers - 1)] = start_task(spec, "worker", a.workers - 1, a.threads)
            restarted, events["restarted"] = True, round(now, 2)
    stop.set()
    feeder.join(5)
    coordinator.join()
    before = statistics.median(b for t, b in bins if 1.5 < t < 6)
    dip = [b for t, b in bins if events["killed"] < t <= events["restarted"]]
    back = next((t for t, b in bins if t > events["restarted"] + 0.3 and b >= 0.9 * before), None)
    print(json.dumps({"peer": "tensorflow", "case": "recovery", "ps": a.ps, "workers": a.workers,
                      "steps_per_bin_before": before, "bins_while_one_is_down": dip,
                      "seconds_from_restart_to_90_percent": round(back - events["restarted"], 2) if back else None,
                      "scheduled": n[0] * a.pack, "applied": int(counter.numpy()), "bins": bins}), flush=True)


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
