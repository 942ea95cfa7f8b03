"""CPU seconds that pyarrow takes for a file on one core: what bench_input compares itself with.

    input_arrow.py csv|criteo|parquet FILE

CSV is only parsed into columns. Of Parquet each row group is read, and its rows are taken in a random
order.
"""
import random
import sys
import time

import pyarrow
from pyarrow import csv, parquet


def read_text(path, kind):
    options = csv.ReadOptions(use_threads=False)
    parse = csv.ParseOptions()
    if kind == "criteo":
        names = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
        options = csv.ReadOptions(use_threads=False, column_names=names)
        parse = csv.ParseOptions(delimiter="\t")
    start = time.process_time()
    csv.read_csv(path, read_options=options, parse_options=parse)
    return time.process_time() - start


def read_parquet(path):
    file = parquet.ParquetFile(path)
    orders = []
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        orders.append(pyarrow.array(random.sample(range(rows), rows)))
    start = time.process_time()
    for group, order in enumerate(orders):
        file.read_row_group(group, use_threads=False).take(order)
    return time.process_time() - start


def main():
    kind, path = sys.argv[1:]
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    print(read_parquet(path) if kind == "parquet" else read_text(path, kind))


main()
