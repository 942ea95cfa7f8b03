#!/usr/bin/env python3
"""Times PyTorch in one process, with no parameter server, on the reference shapes of tf_pss.py.

It is what a user of one machine would take instead of a parameter server. Same tables, layers, batch sizes,
Zipf(1.05) ids, 64 distinct batches made beforehand, Adagrad with lr 0.05 and accumulators starting at 0.1.
One JSON line is printed: steps a second (the median of rounds of about one second, after a warm-up of two) and the
process's CPU milliseconds a step.

  torch_local.py CASE [--seconds S] [--threads T] [--batch N] [--batches N] [--sparse adagrad|rows|static|fbgemm]
                      [--dense fused|foreach|for] [--compile] [--one-table] [--profile]
                      [--device cuda [--tables host] [--precision f32|tf32|bf16] [--graph]]

Cases: talk, ctr, dlrm.
--sparse adagrad: nn.Embedding(sparse=True) and torch.optim.Adagrad, the way the documentation shows.
--sparse rows: the same sparse gradient, coalesced, and Adagrad written with index_select and index_copy_.
--sparse static: the rows' gradient is summed by a sort and a prefix sum into as many rows as there are ids: no size depends on
  the data, which --graph needs.
--sparse fbgemm: TorchRec's kernels, one call for all tables, Adagrad fused into the backward pass (not ctr: its rows of
  10 floats are refused, a multiple of 4 is wanted).
--one-table: talk's or dlrm's tables are one table with offsets added to the ids (fewer calls from Python).
--device cuda: everything on the GPU, batches too, so nothing is fed while the clock runs; --tables host: the tables are
  on the CPU, where their rows are looked up and updated. --precision is that of the products. --graph: the whole step is one
  CUDA graph (with --sparse static).
Needs: pip install torch numpy (figures were taken with torch 2.15.0; --compile also needs g++); for --sparse fbgemm:
pip install torch==2.14.1 numpy fbgemm-gpu-cpu==1.9.0 (its library loads only with the torch it was built for)
"""
import argparse
import json
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

ZIPF = 1.05
TALK_ROWS = 1_000_000
CTR_ROWS, CTR_SLOTS, CTR_DIM = 1_000_001, 26, 10
USUAL_BATCH = {"talk": 512, "ctr": 1000, "dlrm": 512}
DLRM_ROWS, DLRM_TABLES, DLRM_DIM, DLRM_DENSE = 100_000, 26, 64, 13
LR, START, EPS = 0.05, 0.1, 1e-8


def zipf_ids(rng, rows, shape):
    """Zipf(1.05) ranks, spread over the rows by a fixed multiplicative permutation (as in tf_pss.py)."""
    a = 1.0 - ZIPF
    ranks = np.power(rng.random(shape) * (np.power(float(rows), a) - 1.0) + 1.0, 1.0 / a).astype(np.int64) - 1
    return (np.clip(ranks, 0, rows - 1) * 2654435761) % rows


def table(rows, dim):
    t = nn.Embedding(rows, dim, sparse=True)
    nn.init.uniform_(t.weight, -0.05, 0.05)
    return t


def mlp(sizes):
    layers = []
    for n, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers += [nn.Linear(a, b)] + ([nn.ReLU()] if n + 2 < len(sizes) else [])
    return nn.Sequential(*layers)


class Talk(nn.Module):
    def __init__(self, one_table):
        super().__init__()
        self.tables = nn.ModuleList([table(2 * TALK_ROWS, 64)] if one_table else
                                    [table(TALK_ROWS, 64), table(TALK_ROWS, 64)])
        self.top = mlp([128, 256, 128, 64, 1])
        self.one_table = one_table

    def rows(self, ids):
        if self.one_table:
            return [self.tables[0](ids)]
        return [self.tables[0](ids[:, 0]), self.tables[1](ids[:, 1])]

    def forward(self, rows, _):
        x = rows[0].flatten(1) if self.one_table else torch.cat(rows, 1)
        return self.top(x)


class Ctr(nn.Module):
    def __init__(self, one_table):
        super().__init__()
        self.tables = nn.ModuleList([table(CTR_ROWS, CTR_DIM)])
        self.top = mlp([CTR_SLOTS * CTR_DIM, 400, 400, 400, 1])

    def rows(self, ids):
        return [self.tables[0](ids)]

    def forward(self, rows, _):
        return self.top(rows[0].flatten(1))


class Dlrm(nn.Module):
    def __init__(self, one_table):
        super().__init__()
        count = 1 if one_table else DLRM_TABLES
        self.tables = nn.ModuleList([table(DLRM_ROWS * DLRM_TABLES // count, DLRM_DIM) for _ in range(count)])
        self.bottom = mlp([DLRM_DENSE, 512, 256, DLRM_DIM])
        n = DLRM_TABLES + 1
        self.top = mlp([DLRM_DIM + n * (n - 1) // 2, 512, 256, 1])
        self.register_buffer("mask", torch.tensor([i * n + j for i in range(n) for j in range(i)]))

    def rows(self, ids):
        if len(self.tables) == 1:
            return [self.tables[0](ids)]
        return [t(ids[:, k]) for k, t in enumerate(self.tables)]

    def forward(self, rows, x):
        d = self.bottom(x)
        z = torch.cat([d[:, None], rows[0]], 1) if len(rows) == 1 else torch.stack([d] + rows, 1)
        inter = torch.bmm(z, z.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([d, inter[:, self.mask]], 1))


def batches(a, layers_on, tables_on):
    rng = np.random.default_rng(7)
    dense = torch.zeros(a.batches, 1)
    if a.case == "talk":
        size = a.batch
        ids = np.stack([zipf_ids(rng, TALK_ROWS, (a.batches, size)) for _ in range(2)], 2)
        offset, span = 2, TALK_ROWS
    elif a.case == "ctr":
        size = a.batch
        ids = zipf_ids(rng, CTR_ROWS, (a.batches, size, CTR_SLOTS))
        offset, span = 0, 0
    else:
        size = a.batch
        ids = zipf_ids(rng, DLRM_ROWS, (a.batches, size, DLRM_TABLES))
        offset, span = DLRM_TABLES, DLRM_ROWS
        dense = torch.from_numpy(rng.standard_normal((a.batches, size, DLRM_DENSE)).astype(np.float32))
    if a.one_table and offset:
        ids = ids + np.arange(offset) * span
    labels = torch.from_numpy(rng.integers(0, 2, (a.batches, size)).astype(np.float32))
    ids, dense, labels = torch.from_numpy(ids).to(tables_on), dense.to(layers_on), labels.to(layers_on)
    return [(ids[k].contiguous(), dense[k], labels[k]) for k in range(a.batches)], size


class Bags(nn.Module):
    """All of a model's tables behind one FBGEMM call; its backward pass also updates them."""

    def __init__(self, case, one_table):
        super().__init__()
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
            ComputeDevice, EmbeddingLocation, SplitTableBatchedEmbeddingBagsCodegen)
        slots, rows, self.dim = {"talk": (2, TALK_ROWS, 64), "ctr": (CTR_SLOTS, CTR_ROWS, CTR_DIM),
                                 "dlrm": (DLRM_TABLES, DLRM_ROWS, DLRM_DIM)}[case]
        shared = one_table or case == "ctr"
        count = 1 if shared else slots
        rows = rows * (slots if one_table and case != "ctr" else 1)
        self.kernel = SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, self.dim, EmbeddingLocation.HOST, ComputeDevice.CPU)] * count,
            feature_table_map=[0] * slots if shared else list(range(slots)),
            optimizer=EmbOptimType.EXACT_ADAGRAD, learning_rate=LR, eps=EPS)
        for w in self.kernel.split_embedding_weights():
            nn.init.uniform_(w, -0.05, 0.05)
        for state in self.kernel.split_optimizer_states():
            state[0].fill_(START)
        self.slots, self.offsets = slots, {}

    def forward(self, ids):
        n = ids.numel()
        if n not in self.offsets:
            self.offsets[n] = torch.arange(n + 1)
        return self.kernel(ids, self.offsets[n])  # [batch, slots * dim]


class NoStep:
    def step(self):
        pass

    def zero_grad(self):
        pass


class RowAdagrad:
    """Adagrad on the rows a sparse gradient names, written with dense operations on those rows."""

    def __init__(self, tables):
        self.tables = [(t.weight, torch.full_like(t.weight, START)) for t in tables]

    @torch.no_grad()
    def step(self):
        for w, accum in self.tables:
            g = w.grad.coalesce()
            where, value = g.indices()[0], g.values()
            sums = accum.index_select(0, where).addcmul_(value, value)
            accum.index_copy_(0, where, sums)
            w.index_add_(0, where, value.div_(sums.sqrt_().add_(EPS)), alpha=-LR)

    def zero_grad(self):
        for w, _ in self.tables:
            w.grad = None


class StaticAdagrad:
    """As RowAdagrad, but no tensor's size depends on the ids; a spare last row takes what is over.

    Rows are looked up by `rows` and not through nn.Embedding, whose gradient's size depends on nothing either, but whose
    rows are not summed."""

    def __init__(self, tables):
        self.tables = []
        for t in tables:
            w = torch.cat([t.weight.detach(), torch.zeros_like(t.weight[:1])])
            self.tables.append((w, torch.full_like(w, START)))
        self.used = []

    def rows(self, ids):
        each = [ids] if len(self.tables) == 1 else [ids[:, k] for k in range(len(self.tables))]
        self.used = [(i.reshape(-1), w[i].requires_grad_()) for i, (w, _) in zip(each, self.tables)]
        return [rows for _, rows in self.used]

    @torch.no_grad()
    def step(self):
        for (ids, rows), (w, accum) in zip(self.used, self.tables):
            grad = rows.grad.reshape(ids.numel(), -1)
            sorted_ids, order = torch.sort(ids)
            new = torch.ones_like(sorted_ids)
            new[1:] = sorted_ids[1:] != sorted_ids[:-1]
            place = torch.cumsum(new, 0) - 1
            value = torch.zeros_like(grad).index_add_(0, place, grad.index_select(0, order))
            where = torch.full_like(ids, w.shape[0] - 1).scatter_(0, place, sorted_ids)
            sums = accum.index_select(0, where).addcmul_(value, value)
            accum.index_copy_(0, where, sums)
            w.index_add_(0, where, value.div_(sums.sqrt_().add_(EPS)), alpha=-LR)

    def zero_grad(self):
        pass


class DenseAdagrad:
    """Adagrad of the layers in a few calls, all of which a CUDA graph can hold."""

    def __init__(self, dense):
        self.dense, self.accum = dense, [torch.full_like(w, START) for w in dense]

    @torch.no_grad()
    def step(self):
        grads = [w.grad for w in self.dense]
        torch._foreach_addcmul_(self.accum, grads, grads)
        roots = torch._foreach_sqrt(self.accum)
        torch._foreach_add_(roots, EPS)
        torch._foreach_addcdiv_(self.dense, grads, roots, -LR)

    def zero_grad(self):
        for w in self.dense:
            w.grad = None


def captured(step, data):
    """`step` of a batch as a replay of one CUDA graph."""
    held = [t.clone() for t in data[0]]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(*held)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(*held)

    def replay(*batch):
        for to, what in zip(held, batch):
            to.copy_(what)
        graph.replay()
        return loss
    return replay


def main():
    p = argparse.ArgumentParser()
    p.add_argument("case", choices=["talk", "ctr", "dlrm"])
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batch", type=int, help="examples a step; what the case has by default")
    p.add_argument("--batches", type=int, default=64, help="how many distinct ones there are")
    p.add_argument("--sparse", choices=["adagrad", "rows", "static", "fbgemm"], default="adagrad")
    p.add_argument("--dense", choices=["fused", "foreach", "for"], default="fused")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--one-table", action="store_true")
    p.add_argument("--profile", action="store_true", help="print where the time goes, to standard error")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--tables", choices=["host", "device"], default="device")
    p.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
    p.add_argument("--graph", action="store_true")
    a = p.parse_args()
    a.batch = a.batch or USUAL_BATCH[a.case]
    if a.graph and (a.device != "cuda" or a.tables != "device" or a.sparse != "static"):
        p.error("--graph wants --device cuda and --sparse static, with the tables there, too")
    if a.device == "cuda" and a.sparse == "fbgemm":
        p.error("--sparse fbgemm is for the CPU")
    layers_on = torch.device(a.device)
    tables_on = torch.device("cpu") if a.tables == "host" else layers_on
    torch.backends.cuda.matmul.allow_tf32 = a.precision == "tf32"
    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    torch.sparse.check_sparse_tensor_invariants.disable()  # the default, said aloud to silence a warning

    model = {"talk": Talk, "ctr": Ctr, "dlrm": Dlrm}[a.case](a.one_table)
    data, size = batches(a, layers_on, tables_on)
    model.to(layers_on)
    model.tables.to(tables_on)
    tables = [t.weight for t in model.tables]
    dense = [v for v in model.parameters() if not any(v is t for t in tables)]
    if a.sparse == "fbgemm":
        model.tables = None  # the rows are in the kernel's tables instead
    if a.sparse == "fbgemm":
        bags, tables, sparse_opt = Bags(a.case, a.one_table), [], NoStep()
        data = [(ids.t().reshape(-1).contiguous(), x, y) for ids, x, y in data]  # slot after slot
        model.one_table = True  # rows come joined

        def rows_of(ids):
            out = bags(ids)
            return [out.view(-1, bags.slots, bags.dim)]
        model.rows = rows_of
    elif a.sparse == "rows":
        sparse_opt = RowAdagrad(model.tables)
    elif a.sparse == "static":
        sparse_opt = StaticAdagrad(model.tables)
        model.rows = sparse_opt.rows
    else:
        sparse_opt = torch.optim.Adagrad(tables, lr=LR, initial_accumulator_value=START, eps=EPS)
    if a.device == "cuda":
        dense_opt = DenseAdagrad(dense)
    else:
        dense_opt = torch.optim.Adagrad(dense, lr=LR, initial_accumulator_value=START, eps=EPS,
                                        foreach=a.dense == "foreach", fused=a.dense == "fused")

    def loss_of(rows, x, y):
        with torch.autocast(layers_on.type, torch.bfloat16, enabled=a.precision == "bf16"):
            scores = model(rows, x).squeeze(1)
        return functional.binary_cross_entropy_with_logits(scores.float(), y)
    loss_fn = torch.compile(loss_of) if a.compile else loss_of

    def step_of(ids, x, y):
        loss = loss_fn([rows.to(layers_on, non_blocking=True) for rows in model.rows(ids)], x, y)
        sparse_opt.zero_grad()
        dense_opt.zero_grad()
        loss.backward()
        sparse_opt.step()
        dense_opt.step()
        return loss.detach()
    step_with = captured(step_of, data) if a.graph else step_of

    def step(k):
        return step_with(*data[k % len(data)])

    def finish():
        if a.device == "cuda":
            torch.cuda.synchronize()

    k, first = 0, float(step(0))
    end = time.perf_counter() + 2
    while time.perf_counter() < end or k < 8:
        k += 1
        step(k)
        finish()
    rates, total = [], 0
    cpu, wall, n = time.process_time(), time.perf_counter(), max(4, k // 2)
    while time.perf_counter() - wall < a.seconds:
        t = time.perf_counter()
        for _ in range(n):
            k += 1
            loss = step(k)
        finish()
        rates.append(n / (time.perf_counter() - t))
        total += n
        n = max(4, int(rates[-1]))
    cpu = time.process_time() - cpu
    rate = statistics.median(rates)
    gpu = torch.cuda.get_device_name() if a.device == "cuda" else None
    print(json.dumps({"peer": "torch " + torch.__version__, "case": a.case, "sparse": a.sparse,
                      "dense": "foreach" if gpu else a.dense, "gpu": gpu, "tables": a.tables,
                      "precision": a.precision, "graph": a.graph,
                      "compile": a.compile, "one_table": a.one_table, "threads": a.threads,
                      "steps_per_second": round(rate, 2), "best_steps_per_second": round(max(rates), 2),
                      "examples_per_second": round(rate * size), "cpu_ms_per_step": round(1e3 * cpu / total, 3),
                      "examples_per_step": size, "steps": total, "first_loss": round(first, 4),
                      "last_loss": round(float(loss), 4)}), flush=True)
    if a.profile:
        import sys
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
            for _ in range(100):
                k += 1
                step(k)
        print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=20, max_name_column_width=50),
              file=sys.stderr)


if __name__ == "__main__":
    main()
