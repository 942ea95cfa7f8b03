#!/usr/bin/env python3
"""Times PaddlePaddle's parameter server (fleet, asynchronous, static graph) on the reference shapes of tf_pss.py.

The program is launcher, server and trainer: it starts P server and W trainer processes of itself on loopback, lets
them train for S seconds after a warm-up and prints one JSON line: steps a second over all trainers (the sum of each
trainer's median over its rounds), examples a second and CPU milliseconds a step, of trainers and servers.
Zipf(1.05) ids, 64 distinct batches a trainer, made beforehand.

  paddle_ps.py CASE [--ps P] [--workers W] [--threads T] [--seconds S] [--feed dataset|run] [--sparse RULE]
               [--shards N] [--separate] [--pull] [--profile] [--verbose]

Cases: talk, ctr, dlrm, sparse32 (lookup and update of 32 rows of 64 floats a step; no dense layer but a bias).
--feed dataset: train_from_dataset over an InMemoryDataset with T threads a trainer, the way Paddle's own speed
  figures are taken: threads train their own batches, a thread of its own pulls the dense values now and then.
--feed run: one batch after the other through Executor.run with NumPy arrays; the dense values are pulled
  every step only with --pull, since Paddle's asynchronous program does not do it by itself.
--sparse: adam (Paddle's default rule), adagrad (one accumulator a row), stdadagrad (one a weight, as the others do).
--shards: of a table; Paddle's default of 1000 makes its server queue 1000 tasks a request, 4 is far faster here.
--separate: every slot is an input and a lookup of its own, as in PaddleRec's models (all on one table).
The dense layers use Adam: the server knows only SGD and Adam for them.
Needs Python 3.11 and: pip install paddlepaddle==2.6.2 setuptools "numpy<2" protobuf==4.25.8 (later Paddle wheels have no
parameter server; with other protobufs fleet fails to build its strategy)
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BATCHES = 64
ZIPF = 1.05
TALK_ROWS = 1_000_000
CTR_ROWS, CTR_SLOTS, CTR_DIM, CTR_BATCH = 1_000_001, 26, 10, 1000
DLRM_ROWS, DLRM_TABLES, DLRM_DIM, DLRM_DENSE = 100_000, 26, 64, 13
SPARSE_ROWS = 4_194_304


def zipf_ids(np, rng, rows, shape):
    """Zipf(1.05) ranks, spread over the rows by a fixed multiplicative permutation (as in tf_pss.py)."""
    a = 1.0 - ZIPF
    ranks = np.power(rng.random(shape) * (np.power(float(rows), a) - 1.0) + 1.0, 1.0 / a).astype(np.int64) - 1
    return (np.clip(ranks, 0, rows - 1) * 2654435761) % rows


def make_data(a, np, seed):
    """ids [BATCHES, size, slots], dense values or None, labels [BATCHES, size, 1]"""
    rng = np.random.default_rng(seed)
    dense = None
    if a.case == "talk":
        size = a.batch
        ids = np.stack([zipf_ids(np, rng, TALK_ROWS, (BATCHES, size)) for _ in range(2)], 2)
    elif a.case == "ctr":
        size = CTR_BATCH
        ids = zipf_ids(np, rng, CTR_ROWS, (BATCHES, size, CTR_SLOTS))
    elif a.case == "sparse32":
        size = 32
        ids = zipf_ids(np, rng, SPARSE_ROWS, (BATCHES, size, 1))
    else:
        size = a.batch
        ids = zipf_ids(np, rng, DLRM_ROWS, (BATCHES, size, DLRM_TABLES))
        dense = rng.standard_normal((BATCHES, size, DLRM_DENSE)).astype(np.float32)
    return ids + 1, dense, rng.integers(0, 2, (BATCHES, size, 1)).astype(np.float32), size  # a dataset drops id 0


def build(a, paddle, fleet):
    """The static graph and its distributed optimizer; returns the inputs in the data's order and the loss."""
    static = paddle.static
    init = paddle.nn.initializer.Uniform(-0.05, 0.05)
    tables = {"talk": [("user", TALK_ROWS, 64), ("item", TALK_ROWS, 64)],
              "ctr": [("emb", CTR_ROWS, CTR_DIM)],
              "sparse32": [("emb", SPARSE_ROWS, 64)],
              "dlrm": [(f"emb{k}", DLRM_ROWS, DLRM_DIM) for k in range(DLRM_TABLES)]}[a.case]
    slots = {"talk": 2, "ctr": CTR_SLOTS, "sparse32": 1, "dlrm": DLRM_TABLES}[a.case]
    split = a.separate or len(tables) > 1  # an input a slot
    width = 1 if split else slots
    inputs = [static.data(f"slot{k}", [-1, 1], "int64", lod_level=0 if split else 1)  # a lookup wants a column
              for k in range(slots if split else 1)]
    x = static.data("dense", [-1, DLRM_DENSE], "float32") if a.case == "dlrm" else None
    y = static.data("label", [-1, 1], "float32")

    def lookup(ids, table):
        name, rows, dim = table
        out = static.nn.sparse_embedding(ids, size=[rows + 1, dim],
                                         param_attr=paddle.ParamAttr(name=name, initializer=init))
        return paddle.reshape(out, [-1, width * dim])

    def mlp(h, sizes):
        for n, size in enumerate(sizes):
            h = static.nn.fc(h, size, activation="relu" if n + 1 < len(sizes) else None,
                             weight_attr=paddle.ParamAttr(initializer=init))
        return h

    rows = [lookup(i, tables[k if len(tables) > 1 else 0]) for k, i in enumerate(inputs)]
    joined = paddle.concat(rows, 1) if len(rows) > 1 else rows[0]
    if a.case == "sparse32":
        bias = static.create_parameter([1], "float32", name="bias")
        loss = paddle.sum(joined * joined) + paddle.sum(bias) + 0.0 * paddle.sum(y)
    else:
        if a.case == "talk":
            logit = mlp(joined, [256, 128, 64, 1])
        elif a.case == "ctr":
            logit = mlp(joined, [400, 400, 400, 1])
        else:
            n = DLRM_TABLES + 1
            d = mlp(x, [512, 256, DLRM_DIM])
            z = paddle.reshape(paddle.concat([d, joined], 1), [-1, n, DLRM_DIM])
            inter = paddle.reshape(paddle.matmul(z, z, transpose_y=True), [-1, n * n])
            mask = paddle.assign(__import__("numpy").array([i * n + j for i in range(n) for j in range(i)], "int64"))
            logit = mlp(paddle.concat([d, paddle.index_select(inter, mask, axis=1)], 1), [512, 256, 1])
        loss = paddle.mean(paddle.nn.functional.binary_cross_entropy_with_logits(logit, y))

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    if a.sparse != "adam":
        rule = {"adagrad": "SparseAdaGradSGDRule", "stdadagrad": "StdAdaGradSGDRule"}[a.sparse]
        config = {}
        for name, _, dim in tables:
            at = f"table_parameters.{name}."
            config[name] = {at + "table_class": "MemorySparseTable", at + "shard_num": a.shards,
                            at + "accessor.accessor_class": "SparseAccessor",
                            at + "accessor.fea_dim": dim + 2, at + "accessor.embedx_dim": dim - 1,
                            at + "accessor.embedx_threshold": 0}
            for part in ("embed_sgd_param", "embedx_sgd_param"):
                config[name].update({at + f"accessor.{part}.name": rule,
                                     at + f"accessor.{part}.adagrad.learning_rate": 0.05,
                                     at + f"accessor.{part}.adagrad.initial_g2sum": 0.1,
                                     at + f"accessor.{part}.adagrad.initial_range": 0.05,
                                     at + f"accessor.{part}.adagrad.weight_bounds": [-10.0, 10.0]})
        strategy.sparse_table_configs = config
    optimizer = fleet.distributed_optimizer(paddle.optimizer.Adam(0.001, lazy_mode=True), strategy)
    optimizer.minimize(loss)
    return inputs + ([x] if x is not None else []) + [y], loss


def task(a):
    """A server or a trainer, as the environment says."""
    import numpy as np
    import paddle
    import paddle.distributed.fleet as fleet
    paddle.enable_static()
    fleet.init()
    inputs, loss = build(a, paddle, fleet)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    index = int(os.environ["PADDLE_TRAINER_ID"])
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    program = paddle.static.default_main_program()
    ids, dense, labels, size = make_data(a, np, 7 + index)

    feeds, whole = [], inputs[0].lod_level == 1
    for k in range(BATCHES):
        parts = [ids[k].reshape(-1, 1)] if whole else [ids[k][:, s:s + 1] for s in range(ids.shape[2])]
        parts += ([dense[k]] if dense is not None else []) + [labels[k]]
        feeds.append({v.name: np.ascontiguousarray(p) for v, p in zip(inputs, parts)})

    extra = {}
    if a.feed == "dataset":
        path = os.path.join(a.dir, f"part-{index}")
        with open(path, "w") as f:
            for feed in feeds:
                columns = [feed[v.name].reshape(size, -1) for v in inputs]
                for r in range(size):
                    f.write(" ".join(f"{c.shape[1]} " + " ".join(map(str, c[r])) for c in columns) + "\n")

        def load(times):
            dataset = paddle.distributed.InMemoryDataset()
            dataset.init(batch_size=size, thread_num=a.threads, pipe_command="cat", use_var=inputs)
            dataset.set_filelist([path] * times)
            dataset.load_into_memory()
            return dataset

        def one_pass(dataset):
            t = time.time()
            exe.train_from_dataset(program, dataset, thread=a.threads, debug=a.profile, print_period=1 << 30)
            return time.time() - t
        small = load(1)
        one_pass(small)
        repeat = max(1, min(200, int(6.0 / one_pass(small))))  # some 6 s a pass, as it ends with a flush of 0.1 s
        big = load(repeat) if repeat > 1 else small

        def round_():
            one_pass(big)
            return BATCHES * repeat
    else:
        handle = fleet.fleet._runtime_handle if hasattr(fleet, "fleet") else None
        count = [0]

        def step():
            out = exe.run(program, feed=feeds[count[0] % BATCHES], fetch_list=[loss] if count[0] % 50 == 0 else [])
            count[0] += 1
            if a.pull:
                handle._pull_all_dense(handle.scopes, handle._send_ctx, dense_map)
            return out
        if a.pull:
            from paddle.distributed.ps.utils.public import get_the_one_recv_context
            dense_map = get_the_one_recv_context(handle.context, split_dense_table=False)
        end = time.time() + 2
        first = step()
        while time.time() < end:
            last = step()
        idle = paddle.static.Program()  # what feeding alone costs
        with paddle.static.program_guard(idle, paddle.static.Program()):
            for v in inputs:
                paddle.static.data(v.name, v.shape, v.dtype)
            paddle.assign(paddle.ones([1]))
        for k in range(20):
            exe.run(idle, feed=feeds[k % BATCHES])
        t = time.time()
        for k in range(200):
            exe.run(idle, feed=feeds[k % BATCHES])
        extra["feed_only_ms"] = round(5 * (time.time() - t), 3)

        def round_():
            n, t = 0, time.time()
            while time.time() - t < 1:
                step()
                n += 1
            return n

    open(os.path.join(a.dir, f"ready-{index}"), "w").close()
    while not os.path.exists(os.path.join(a.dir, "go")):
        time.sleep(0.01)
    rounds, cpu, begin = [], time.process_time(), time.time()
    while time.time() - begin < a.seconds:
        t = time.time()
        n = round_()
        rounds.append((n, time.time() - t))
    cpu = time.process_time() - cpu
    last = sorted(v.name for v in program.all_parameters() if v.name.endswith(".b_0") or v.name == "bias")[-1]
    extra["last_bias"] = float(np.array(paddle.static.global_scope().find_var(last).get_tensor())[0])  # not 0 if pulled
    result = dict(extra, version=paddle.__version__, steps=sum(n for n, _ in rounds), seconds=time.time() - begin, size=size, cpu=cpu,
                  rate=statistics.median(n / s for n, s in rounds), rounds=[round(n / s, 2) for n, s in rounds])
    with open(os.path.join(a.dir, f"tmp-{index}"), "w") as f:
        json.dump(result, f)
    os.rename(os.path.join(a.dir, f"tmp-{index}"), os.path.join(a.dir, f"done-{index}"))
    while not os.path.exists(os.path.join(a.dir, "stop")):
        time.sleep(0.05)
    fleet.stop_worker()


def cpu_seconds(pid):
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def launch(a):
    socks = [socket.socket() for _ in range(a.ps + a.workers + 1)]
    for s in socks:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in socks]
    for s in socks:
        s.close()
    folder = tempfile.mkdtemp(prefix="paddle_ps")
    servers = [f"127.0.0.1:{p}" for p in ports[:a.ps]]
    trainers = [f"127.0.0.1:{p}" for p in ports[a.ps:-1]]
    env = dict(os.environ, PADDLE_PSERVERS_IP_PORT_LIST=",".join(servers), PADDLE_TRAINERS_NUM=str(a.workers),
               PADDLE_TRAINER_ENDPOINTS=",".join(trainers), POD_IP="127.0.0.1", OMP_NUM_THREADS="1",
               MKL_NUM_THREADS="1", CPU_NUM=str(a.threads), GLOG_v="0", PYTHONUNBUFFERED="1")
    if a.workers > 1:  # trainers meet at barriers
        env.update(PADDLE_WITH_GLOO="1", PADDLE_GLOO_RENDEZVOUS="3", SYS_JOB_ID="peer",
                   PADDLE_GLOO_HTTP_ENDPOINT=f"127.0.0.1:{ports[-1]}")
    out = None if a.verbose else subprocess.DEVNULL
    mine = [sys.executable, os.path.abspath(__file__)] + sys.argv[1:] + ["--dir", folder]
    tasks = []
    for i, ep in enumerate(servers):
        tasks.append(subprocess.Popen(mine, cwd=folder, stdout=out, stderr=out, env=dict(
            env, TRAINING_ROLE="PSERVER", PADDLE_PORT=ep.split(":")[1], PADDLE_TRAINER_ID=str(i))))
    for i, ep in enumerate(trainers):
        tasks.append(subprocess.Popen(mine, cwd=folder, stdout=out, stderr=out, env=dict(
            env, TRAINING_ROLE="TRAINER", PADDLE_PORT=ep.split(":")[1], PADDLE_TRAINER_ID=str(i))))
    try:
        def wait(kind, limit):
            end = time.time() + limit
            while not all(os.path.exists(os.path.join(folder, f"{kind}-{i}")) for i in range(a.workers)):
                if time.time() > end or any(t.poll() is not None for t in tasks):
                    sys.exit(f"not {kind}: " + ", ".join(str(t.poll()) for t in tasks))
                time.sleep(0.02)
        wait("ready", 240)
        busy = [cpu_seconds(t.pid) for t in tasks[:a.ps]]
        open(os.path.join(folder, "go"), "w").close()
        wait("done", a.seconds + 120)
        busy = [cpu_seconds(t.pid) - b for t, b in zip(tasks, busy)]
        done = [json.load(open(os.path.join(folder, f"done-{i}"))) for i in range(a.workers)]
        steps, rate, size = sum(d["steps"] for d in done), sum(d["rate"] for d in done), done[0]["size"]
        memory = [int(open(f"/proc/{t.pid}/statm").read().split()[1]) * 4096 >> 20 for t in tasks]
        print(json.dumps({"peer": "paddlepaddle " + done[0]["version"], "case": a.case, "ps": a.ps, "workers": a.workers,
                          "threads": a.threads, "feed": a.feed, "pull": a.pull, "sparse": a.sparse,
                          "separate": a.separate, "shards": a.shards, "steps_per_second": round(rate, 2),
                          "examples_per_second": round(rate * size), "examples_per_step": size, "steps": steps,
                          "cpu_ms_per_step": {"workers": round(1e3 * sum(d["cpu"] for d in done) / steps, 3),
                                              "servers": round(1e3 * sum(busy) / steps, 3)},
                          "feed_only_ms": done[0].get("feed_only_ms"), "last_bias": done[0]["last_bias"],
                          "rounds": [d["rounds"] for d in done], "resident_mib": memory}), flush=True)
        open(os.path.join(folder, "stop"), "w").close()
        end = time.time() + 5
        while time.time() < end and any(t.poll() is None for t in tasks):
            time.sleep(0.05)
    finally:
        for t in tasks:
            if t.poll() is None:
                t.send_signal(signal.SIGKILL)
            t.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("case", choices=["talk", "ctr", "dlrm", "sparse32"])
    p.add_argument("--ps", type=int, default=1)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--threads", type=int, default=1, help="training threads a trainer (with --feed dataset)")
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--feed", choices=["dataset", "run"], default="dataset")
    p.add_argument("--pull", action="store_true")
    p.add_argument("--sparse", choices=["adam", "adagrad", "stdadagrad"], default="stdadagrad")
    p.add_argument("--shards", type=int, default=1000, help="shards of a sparse table; 1000 is Paddle's default")
    p.add_argument("--separate", action="store_true")
    p.add_argument("--profile", action="store_true", help="with --verbose: Paddle's mean time of every operator")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--dir", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.dir:
        task(a)
        sys.stdout.flush()
        os._exit(0)
    launch(a)


if __name__ == "__main__":
    main()
