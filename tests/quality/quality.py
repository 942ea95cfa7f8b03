#!/usr/bin/env python3
"""What models reach on public data, beside what is published: the tables of docs/quality.md.

  quality.py --coxswain PROGRAM --data DIR --out DIR [--seeds N] [NAME...]

Each row of ROWS is a job, trained once for each seed in one process. Its last figure on the test
part counts; where the validation part decides when training stops, the test part is asked
afterwards. Where a file is not in the data directory, its row says so and is left out: exit code 0,
unless nothing could be run. Exit code 1 when a job fails, or a figure is worse than published by
more than the row's tolerance. Writes OUT/quality.md and OUT/quality.json.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Row:
  name: str
  job: str  # below the repository's root
  metric: str  # of the report
  published: float
  source: str
  # Keys of the job that hold a path, or a list of paths, of files below the data directory.
  files: dict = field(default_factory=dict)
  sets: dict = field(default_factory=dict)  # other keys of the job
  tolerance: float = 0.0  # how much worse is noise: of the test set's size, or of the seeds
  lower_is_better: bool = False
  stops_early: bool = False  # by the validation part: the test part is asked afterwards
  peer: bool = False  # `published` was measured by peers.py on the same split
  seeds: int = 0  # at least this number, where the test set is small
  note: str = ''


ROWS = [
    Row('agaricus', 'examples/agaricus.yaml', 'accuracy', 1.0,
        'separable: logistic regression and trees reach an error of 0 (XGBoost\'s demo)',
        files={'dataset.path': 'agaricus/agaricus.txt.train',
               'split.test_path': 'agaricus/agaricus.txt.test'},
        sets={'train.epochs': 30, 'optimizer.table': '{kind: lazy_adam, learning_rate: 0.03}'}),
    Row('iris', 'examples/quality/iris.yaml', 'accuracy', 0.967,
        'TensorFlow\'s first tutorial, this split: 0.93 to 1.00, 0.967 typical',
        files={'dataset.path': 'iris/iris_training.csv', 'split.test_path': 'iris/iris_test.csv'},
        tolerance=0.034, note='one of the 30 flowers is 0.033'),
    Row('dna', 'examples/quality/dna.yaml', 'accuracy', 0.949,
        'scikit-learn 1.9.1, LogisticRegression, this split (`peers.py`)',
        files={'dataset.path': 'dna/dna.scale', 'split.test_path': 'dna/dna.scale.t'},
        tolerance=0.006, peer=True, note='an SVM with an RBF kernel: 0.954 (Hsu and Lin 2002)'),
    Row('adult', 'examples/adult.yaml', 'accuracy', 0.86,
        'wide and deep models and trees: 0.86 to 0.87; scikit-learn 1.9.1, the same files '
        '(`peers.py`): LogisticRegression 0.852, HistGradientBoostingClassifier 0.871',
        files={'dataset.path': 'adult/adult.data', 'split.test_path': 'adult/adult.test'},
        stops_early=True, tolerance=0.0055),
    Row('a9a', 'examples/quality/a9a.yaml', 'auc', 0.902,
        'scikit-learn 1.9.1, LogisticRegression, this split (`peers.py`)',
        files={'dataset.path': 'a9a/a9a', 'split.test_path': 'a9a/a9a.t'},
        tolerance=0.001, peer=True),
    Row('mnist', 'examples/quality/mnist_800.yaml', 'accuracy', 0.984,
        'Simard, Steinkraus and Platt 2003: 800 hidden units, cross-entropy, no distortions',
        files={'dataset.path': 'mnist/train-images-idx3-ubyte.gz',
               'split.test_path': 'mnist/t10k-images-idx3-ubyte.gz'},
        tolerance=0.0025),
    Row('fashion-mnist', 'examples/quality/fashion_mnist.yaml', 'accuracy', 0.8833,
        'its authors\' table: layers of 256, 128 and 100 units',
        files={'dataset.path': 'fashion-mnist/train-images-idx3-ubyte.gz',
               'split.test_path': 'fashion-mnist/t10k-images-idx3-ubyte.gz'},
        tolerance=0.0064),
    Row('movielens-latest-small', 'examples/movielens.yaml', 'rmse', 0.87,
        'biased matrix factorisation, 5-fold (mgesteban/recommender-system-algorithm-comparison)',
        files={'dataset.path': 'movielens/ml-latest-small.zip:ml-latest-small/ratings.csv'},
        stops_early=True, tolerance=0.005, lower_is_better=True,
        note='a random tenth is tested, another one stops training'),
    Row('movielens-100k', 'examples/quality/movielens_100k.yaml', 'rmse', 0.9387,
        'SVD, Microsoft Recommenders\' benchmark',
        files={'dataset.path': 'ml-100k/u.data'},
        stops_early=True, tolerance=0.005, lower_is_better=True,
        note='a random quarter is tested there and here, but another one'),
    Row('movielens-100k, ranking', 'examples/quality/movielens_100k_ranking.yaml', 'ndcg@10',
        0.4420, 'BPR, Microsoft Recommenders\' benchmark',
        files={'dataset.path': 'ml-100k/u.data'}, tolerance=0.005,
        note='a random quarter of each film\'s ratings is tested there, of all ratings here'),
    Row('movielens-latest-small, last film of each user', 'examples/movielens_ranking.yaml',
        'hit_rate@10', 0.077,
        'implicit 0.7.3, ALS and BPR with 64 factors, this split: 0.062 to 0.077 (`peers.py`)',
        files={'dataset.path': 'movielens/ml-latest-small.zip:ml-latest-small/ratings.csv'},
        sets={'split': '{holdout_per: userId, by: timestamp, holdout_last: true}'},
        tolerance=0.011, peer=True, note='610 users: 0.011 is one standard deviation'),
    Row('rt-polarity', 'examples/reviews.yaml', 'accuracy', 0.761,
        'Kim 2014, CNN-rand: vectors that start at random, 10-fold',
        files={'dataset.path': ['rt-polarity/rt-polarity.neg', 'rt-polarity/rt-polarity.pos']},
        tolerance=0.008, seeds=10, note='a bag of words; 10 random tenths, as 10-fold'),
    Row('text8 head, WordSimilarity-353', 'examples/word2vec.yaml', 'word_similarity', 0.490,
        'gensim 4.4.0, the same file, dimension, window, epochs and threshold (`peers.py`)',
        files={'dataset.path': 'text/text8.head.gz',
               'evaluate.word_similarity': 'word-eval/wordsim353.tsv',
               'evaluate.analogies': 'word-eval/questions-words.txt'},
        tolerance=0.02, peer=True, note='1.17 million words are too few for good vectors'),
    Row('text8 head, analogies', 'examples/word2vec.yaml', 'analogies', 0.066,
        'gensim 4.4.0, as above (`peers.py`)',
        files={'dataset.path': 'text/text8.head.gz',
               'evaluate.word_similarity': 'word-eval/wordsim353.tsv',
               'evaluate.analogies': 'word-eval/questions-words.txt'},
        tolerance=0.01, peer=True),
    Row('packages', 'examples/packages.yaml', 'hit_rate@10', 0.575,
        'PyTorch, the same model, data and split', files={'dataset.path': 'packages.csv'},
        tolerance=0.01, peer=True, note='data of `./dev quickstart`, which change with Debian'),
]


def find(data, unpacked, name):
  """The path of a file of the data directory; "a.zip:b" is the member b of the archive a."""
  archive, _, member = name.partition(':')
  path = data / archive
  if not path.is_file():
    return None
  if not member:
    return path
  target = unpacked / member
  if not target.is_file():
    with zipfile.ZipFile(path) as opened:
      opened.extract(member, unpacked)
  return target


def run(row, command, report):
  report.unlink(missing_ok=True)
  command = [*command, '--report', report]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode != 0:
    sys.exit(f'quality: {row.name}: exit code {done.returncode} of {" ".join(map(str, command))}\n'
             f'{done.stderr[-2000:]}')
  return json.loads(report.read_text())['metrics'][row.metric]


def train(args, row, seed, paths):
  report, model = args.out / 'report.json', args.out / 'model'
  keys = {**paths, **row.sets, 'train.seed': seed}
  command = [args.coxswain, 'train', ROOT / row.job, '--in-process']
  command += [word for key, value in keys.items() for word in ('--set', f'{key}={value}')]
  if not row.stops_early:
    return run(row, command, report)
  run(row, [*command, '--model-dir', model], report)
  return run(row, [args.coxswain, 'eval', '--model-dir', model, '--part', 'test'], report)


def worse_by(row, mean):
  return mean - row.published if row.lower_is_better else row.published - mean


def measure(args, row):
  paths, missing = {}, []
  for key, names in row.files.items():
    found = {name: find(args.data, args.out / 'unpacked', name)
             for name in ([names] if isinstance(names, str) else names)}
    missing += [name for name, path in found.items() if path is None]
    listed = ', '.join(map(str, found.values()))
    paths[key] = listed if isinstance(names, str) else f'[{listed}]'
  if missing:
    print(f'{row.name}: not run, {args.data} has no {", ".join(missing)}', flush=True)
    return None
  values = [train(args, row, seed, paths) for seed in range(1, max(args.seeds, row.seeds) + 1)]
  mean = statistics.mean(values)
  result = {'name': row.name, 'job': row.job, 'metric': row.metric, 'published': row.published,
            'source': row.source, 'mean': mean, 'values': values, 'note': row.note,
            'sets': row.sets, 'worse': worse_by(row, mean) > row.tolerance}
  print(f'{row.name}: {row.metric} {mean:.4f}, published {row.published:g}', flush=True)
  return result


def table(results):
  lines = ['| data | metric | published | Coxswain | seeds | job | published by |',
           '|---|---|---|---|---|---|---|']
  for r in results:
    spread = (max(r['values']) - min(r['values'])) / 2
    sets = ', '.join(f'`{key}={value}`' for key, value in r['sets'].items())
    job = f'[{pathlib.Path(r["job"]).name}](../{r["job"]})' + (f' with {sets}' if sets else '')
    source = r['source'] + (f'; {r["note"]}' if r['note'] else '')
    lines.append(f'| {r["name"]} | {r["metric"]} | {r["published"]:g} | '
                 f'{r["mean"]:.4f} ± {spread:.4f} | {len(r["values"])} | {job} | {source} |')
  return '\n'.join(lines) + '\n'


def main():
  parser = argparse.ArgumentParser(description='What models reach on public data.')
  parser.add_argument('--coxswain', required=True, help='the program')
  parser.add_argument('--data', required=True, type=pathlib.Path, help='where the data sets are')
  parser.add_argument('--out', required=True, type=pathlib.Path, help='where results go')
  parser.add_argument('--seeds', type=int, default=3)
  parser.add_argument('names', nargs='*', help='rows; none: all')
  args = parser.parse_args()
  unknown = set(args.names) - {row.name for row in ROWS}
  if unknown:
    parser.error(f'there is no {", ".join(sorted(unknown))}; there is: '
                 f'{", ".join(row.name for row in ROWS)}')
  if args.seeds < 1:
    parser.error(f'--seeds wants a number from 1, found {args.seeds}')
  args.out.mkdir(parents=True, exist_ok=True)
  rows = [row for row in ROWS if not args.names or row.name in args.names]
  results = [result for result in (measure(args, row) for row in rows) if result]
  if not results:
    sys.exit(f'quality: {args.data} has the files of no row')
  (args.out / 'quality.json').write_text(json.dumps(results, indent=2) + '\n')
  (args.out / 'quality.md').write_text(table(results))
  print(table(results))
  worse = [r['name'] for r in results if r['worse']]
  if worse:
    sys.exit(f'quality: worse than published by more than noise: {", ".join(worse)}')


if __name__ == '__main__':
  main()
