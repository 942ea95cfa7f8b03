#!/usr/bin/env python3
"""What others reach on the same files and splits: the figures of quality.py's rows with `peer`.

  python3 -m venv VENV && VENV/bin/pip install scikit-learn==1.9.1 gensim==4.4.0 implicit==0.7.3
  VENV/bin/python tests/quality/peers.py DATA_DIR [dna] [adult] [a9a] [text8] [movielens]

Not part of `./dev quality`: minutes of computing, for numbers that stay as they are.
"""

import gzip
import pathlib
import sys


def dna(data):
  import numpy as np
  from sklearn.datasets import load_svmlight_file
  from sklearn.linear_model import LogisticRegression
  from sklearn.svm import SVC

  def read(name):
    x, y = load_svmlight_file(str(data / 'dna' / name), n_features=180)
    return np.asarray(x.todense()), y

  train, test = read('dna.scale'), read('dna.scale.t')
  for name, model in (('LogisticRegression', LogisticRegression(max_iter=1000)),
                      ('SVC, RBF', SVC(C=16, gamma=2**-6))):
    print(f'dna: {name}: accuracy {model.fit(*train).score(*test):.4f}')


def adult(data):
  """UCI's training and test file as they are; what is missing is a category of its own."""
  import numpy as np
  from sklearn.compose import make_column_transformer
  from sklearn.ensemble import HistGradientBoostingClassifier
  from sklearn.linear_model import LogisticRegression
  from sklearn.metrics import roc_auc_score
  from sklearn.pipeline import make_pipeline
  from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

  def read(name):
    lines = (data / 'adult' / name).read_text().splitlines()
    rows = [[field.strip() for field in line.split(',')] for line in lines
            if line.strip() and not line.startswith('|')]
    return (np.array([row[:14] for row in rows], dtype=object),
            np.array([row[14].startswith('>') for row in rows]))

  (x, y), (tested, truth) = read('adult.data'), read('adult.test')
  numbers = [0, 4, 10, 11, 12]  # the third column, a weight of the census, is left out
  texts = [1, 3, 5, 6, 7, 8, 9, 13]
  one_hot = make_column_transformer((StandardScaler(), numbers),
                                    (OneHotEncoder(handle_unknown='ignore'), texts))
  codes = make_column_transformer(
      ('passthrough', numbers),
      (OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=-1), texts))
  for name, model in (('LogisticRegression', make_pipeline(one_hot, LogisticRegression(
      max_iter=1000))), ('HistGradientBoostingClassifier', make_pipeline(
          codes, HistGradientBoostingClassifier(random_state=1)))):
    model.fit(x, y)
    print(f'adult: {name}: accuracy {model.score(tested, truth):.4f}, '
          f'AUC {roc_auc_score(truth, model.predict_proba(tested)[:, 1]):.4f}')


def a9a(data):
  from sklearn.datasets import load_svmlight_file
  from sklearn.linear_model import LogisticRegression
  from sklearn.metrics import roc_auc_score
  (x, y), (tested, truth) = (load_svmlight_file(str(data / 'a9a' / name), n_features=123)
                             for name in ('a9a', 'a9a.t'))
  model = LogisticRegression(max_iter=1000).fit(x, y)
  print(f'a9a: LogisticRegression: accuracy {model.score(tested, truth):.4f}, '
        f'AUC {roc_auc_score(truth, model.predict_proba(tested)[:, 1]):.4f}')


def text8(data):
  from gensim.models import Word2Vec
  words = gzip.open(data / 'text/text8.head.gz', 'rt').read().split()
  sentences = [words[i:i + 1000] for i in range(0, len(words), 1000)]
  for seed in (1, 2, 3):  # the settings of examples/word2vec.yaml
    model = Word2Vec(sentences, vector_size=100, window=5, min_count=5, sample=1e-4, negative=5,
                     sg=1, epochs=8, seed=seed, workers=2)
    similarity = model.wv.evaluate_word_pairs(str(data / 'word-eval/wordsim353.tsv'))[1].statistic
    analogies = model.wv.evaluate_word_analogies(str(data / 'word-eval/questions-words.txt'),
                                                 restrict_vocab=10**6)[0]
    print(f'text8, seed {seed}: WordSimilarity-353 {similarity:.4f}, analogies {analogies:.4f}',
          flush=True)


def movielens(data):
  """Each user's last rating is to be found among all films that training knows."""
  import csv
  import io
  import zipfile

  import numpy as np
  import scipy.sparse
  from implicit.als import AlternatingLeastSquares
  from implicit.bpr import BayesianPersonalizedRanking

  archive = zipfile.ZipFile(data / 'movielens/ml-latest-small.zip')
  with archive.open('ml-latest-small/ratings.csv') as opened:
    rows = list(csv.DictReader(io.TextIOWrapper(opened, encoding='utf-8')))
  last = {}
  for i, row in enumerate(rows):
    key = (int(row['timestamp']), i)
    last[row['userId']] = max(last.get(row['userId'], key), key)
  held_out = {i for _, i in last.values()}
  training = [row for i, row in enumerate(rows) if i not in held_out]
  users = {name: i for i, name in enumerate(sorted({row['userId'] for row in rows}))}
  films = {name: i for i, name in enumerate(sorted({row['movieId'] for row in training}))}
  seen = scipy.sparse.csr_matrix(
      (np.ones(len(training), np.float32),
       ([users[r['userId']] for r in training], [films[r['movieId']] for r in training])),
      shape=(len(users), len(films)))
  tested = [(users[rows[i]['userId']], films.get(rows[i]['movieId'])) for i in sorted(held_out)]
  als = {'factors': 64, 'regularization': 0.05, 'alpha': 2.0, 'iterations': 20}
  bpr = {'factors': 64, 'learning_rate': 0.05, 'iterations': 200}
  asked = [u for u, _ in tested]
  for name, kind, options in (('ALS', AlternatingLeastSquares, als),
                              ('BPR', BayesianPersonalizedRanking, bpr)):
    for seed in (1, 2, 3):
      model = kind(random_state=seed, **options)
      model.fit(seen, show_progress=False)
      found, _ = model.recommend(np.array(asked), seen[asked], N=10,
                                 filter_already_liked_items=True)
      ranks = [list(f).index(film) for f, (_, film) in zip(found, tested) if film in f]
      print(f'movielens, the last of each user: {name}, seed {seed}: '
            f'hit_rate@10 {len(ranks) / len(tested):.4f}, '
            f'ndcg@10 {sum(1 / np.log2(r + 2) for r in ranks) / len(tested):.4f}', flush=True)


def main():
  peers = {'dna': dna, 'adult': adult, 'a9a': a9a, 'text8': text8, 'movielens': movielens}
  if len(sys.argv) < 2 or set(sys.argv[2:]) - set(peers):
    sys.exit(f'usage: peers.py DATA_DIR [{"] [".join(peers)}]')
  for name in sys.argv[2:] or peers:
    peers[name](pathlib.Path(sys.argv[1]))


if __name__ == '__main__':
  main()
