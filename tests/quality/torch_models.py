#!/usr/bin/env python3
"""The models beside the same ones in PyTorch: their scores, and what one step changes.

  python3 -m venv VENV && VENV/bin/pip install torch numpy
  VENV/bin/python tests/quality/torch_models.py --coxswain PROGRAM --out DIR [NAME...]

Each case of CASES is a kind of model. Coxswain trains it on made-up rows for STEPS steps and
saves it; a module written after the model's paper takes the saved weights and scores rows that
training has not seen, which `coxswain predict` does, too. Then PyTorch takes one step of plain SGD
on all rows, and so does Coxswain, as a second run of STEPS + 1 steps: each step is on all rows, so
that both have the same batch. PyTorch computes in f64, Coxswain in f32.

A line of the table has two differences. That of the scores is the largest one, over the largest
score. That of the step is, for the worst variable, the largest difference between the changes of
its numbers, over the largest change. Exit code 1 when one of them is more than its bound.
"""

import argparse
import csv
import json
import pathlib
import random
import struct
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 200
RATE = 0.2
SCORE_BOUND = 1e-4
STEP_BOUND = 1e-3  # a change is a small difference of two f32 numbers
NO_CHANGE = 1e-12  # such as of a bias below batch_norm, which takes it away: the change itself counts

torch.set_default_dtype(torch.float64)


# The rows.

A = [f'a{i}' for i in range(20)]
B = [f'b{i}' for i in range(9)]
TAGS = [f't{i}' for i in range(7)]
QUERY = 10  # rows


def made_up_rows(count, seed, known=True):
  """Rows of values and numbers, and labels that go by them."""
  draw = random.Random(seed)
  rows = []
  for i in range(count):
    a, b = draw.randrange(len(A)), draw.randrange(len(B))
    tags = draw.sample(range(len(TAGS)), draw.randrange(4))
    x, y = round(draw.gauss(0, 1), 3), round(draw.uniform(-1, 1), 3)
    truth = (a % 5 - 2) * 0.6 + (b % 3 - 1) * x + 0.5 * y + 0.3 * len(tags)
    rows.append({
        'a': A[a] if known or draw.random() < 0.9 else 'never seen',
        'b': B[b],
        'tags': '|'.join(TAGS[t] for t in tags),
        'x': x,
        'y': y,
        'click': int(truth + draw.gauss(0, 0.5) > 0),
        'stars': round(truth + draw.gauss(0, 0.3), 3),
        'class': min(3, max(0, int(truth + 2))),
        'query': i // QUERY,
    })
  return rows


def made_up_visits(users, seed):
  """Who took which item when: what comes next goes by what was before."""
  draw = random.Random(seed)
  rows = []
  for user in range(users):
    item = draw.randrange(len(A))
    for time in range(draw.randrange(2, 12)):
      rows.append({'user': f'u{user}', 'a': A[item], 'time': time, 'x': round(draw.gauss(0, 1), 3),
                   'click': int((item % 4 > 1) != (draw.random() < 0.1))})
      item = (item + draw.choice([1, 3, 7])) % len(A)
  draw.shuffle(rows)
  return rows


def with_history(rows, longest):
  """Each row with the items that its user had before, the last ones of them."""
  for row in rows:
    before = [r for r in rows if r['user'] == row['user'] and r['time'] < row['time']]
    before.sort(key=lambda r: r['time'])
    row['seen'] = '|'.join(r['a'] for r in before[-longest:])
  return rows


# What Coxswain has saved.


class Saved:
  """A model directory: its variables by name, and the ids of values."""

  def __init__(self, directory):
    self.directory = directory
    manifest = json.loads((directory / 'model.json').read_text())
    self.variables = {v['name']: self.read(directory / v['file']) for v in manifest['variables']}

  @staticmethod
  def read(path):
    raw = path.read_bytes()
    size, = struct.unpack('<Q', raw[:8])
    values = json.loads(raw[8:8 + size])['values']
    assert values['dtype'] == 'F32', path
    begin, end = values['data_offsets']
    numbers = np.frombuffer(raw[8 + size + begin:8 + size + end], np.float32)
    return torch.tensor(numbers.reshape(values['shape']).astype(np.float64))

  def words(self, feature):
    return (self.directory / 'vocabulary' / f'{feature}.txt').read_text().splitlines()


class Rows:
  """Rows as tensors, by the vocabularies of a saved model."""

  def __init__(self, saved, rows):
    self.saved, self.rows = saved, rows

  def id(self, feature):
    """Ids of a feature of one value; unknown values have the one after the vocabulary."""
    words = {word: i for i, word in enumerate(self.saved.words(feature))}
    return torch.tensor([words.get(row[feature], len(words)) for row in self.rows])

  def bag(self, feature):
    """All ids of a feature of several values, and where each row's begin."""
    lists = self.lists(feature, feature)
    starts = np.cumsum([0] + [len(ids) for ids in lists])[:-1]
    return torch.tensor([i for ids in lists for i in ids], dtype=torch.int64), torch.tensor(starts)

  def lists(self, feature, vocabulary):
    words = {word: i for i, word in enumerate(self.saved.words(vocabulary))}
    return [[words[w] for w in row[feature].split('|') if w in words] for row in self.rows]

  def padded(self, feature, vocabulary, longest):
    """Lists as a matrix with what is missing on the left, and which places have an id."""
    ids = torch.zeros(len(self.rows), longest, dtype=torch.int64)
    there = torch.zeros(len(self.rows), longest, dtype=torch.bool)
    for i, row in enumerate(self.lists(feature, vocabulary)):
      if row:
        ids[i, -len(row):] = torch.tensor(row)
        there[i, -len(row):] = True
    return ids, there

  def numbers(self, *names):
    return torch.tensor([[float(row[name]) for name in names] for row in self.rows])

  def labels(self, name):
    return torch.tensor([float(row[name]) for row in self.rows])


# The models.


class Model(nn.Module):
  """A module whose parameters are variables of a saved model."""

  def __init__(self, saved):
    super().__init__()
    self.saved = saved
    self.bound = []  # (name of the variable, parameter, whether it is the transposed one)

  def bind(self, name, parameter, transposed=False):
    value = self.saved.variables[name]
    with torch.no_grad():
      parameter.copy_((value.T if transposed else value).reshape(parameter.shape))
    self.bound.append((name, parameter, transposed))

  def parameter(self, name):
    made = nn.Parameter(torch.empty_like(self.saved.variables[name]))
    self.bind(name, made)
    return made

  def embedding(self, name):
    made = nn.Embedding(*self.saved.variables[name].shape)
    self.bind(name, made.weight)
    return made

  def bag(self, name, mode='mean'):
    made = nn.EmbeddingBag(*self.saved.variables[name].shape, mode=mode)
    self.bind(name, made.weight)
    return made

  def linear(self, kernel, bias=None):
    inputs, outputs = self.saved.variables[kernel].shape
    made = nn.Linear(inputs, outputs, bias=bias is not None)
    self.bind(kernel, made.weight, transposed=True)
    if bias:
      self.bind(bias, made.bias)
    return made

  def layer_norm(self, name, epsilon=1e-5):
    made = nn.LayerNorm(self.saved.variables[name + 'norm_scale'].shape[0], eps=epsilon)
    self.bind(name + 'norm_scale', made.weight)
    self.bind(name + 'norm_shift', made.bias)
    return made

  def batch_norm(self, name, epsilon=1e-3, momentum=0.99):
    made = BatchNorm(self.saved.variables[name + 'norm_scale'].shape[0], epsilon, 1 - momentum)
    self.bind(name + 'norm_scale', made.weight)
    self.bind(name + 'norm_shift', made.bias)
    self.bind(name + 'running_mean', made.running_mean)
    self.bind(name + 'running_variance', made.running_var)
    return made

  def layers(self, name, hidden, activation=nn.ReLU, norm=None, last=True, last_active=False):
    """Hidden layers, and a linear one behind them."""
    made = []
    for i in range(hidden + last):
      here = f'{name}/layer_{i}/'
      made.append(self.linear(here + 'kernel', here + 'bias'))
      if i < hidden:
        made += [norm(here)] if norm else []
      if i < hidden or last_active:
        made.append(activation())
    return nn.Sequential(*made)


class BatchNorm(nn.BatchNorm1d):
  """PyTorch's, but that the running variance goes by the biased one, as docs/job.md says."""

  def __init__(self, width, epsilon, momentum):
    super().__init__(width, eps=epsilon, momentum=momentum)

  def forward(self, x):
    if not self.training:
      return super().forward(x)
    with torch.no_grad():
      self.running_mean.lerp_(x.mean(0), self.momentum)
      self.running_var.lerp_(x.var(0, unbiased=False), self.momentum)
    return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class Linear(Model):
  """A weight for each value, and one for each number: linear and logistic regression.

  It adds up the weights of several values, whatever the feature's combiner is.
  """

  def __init__(self, saved):
    super().__init__(saved)
    self.a, self.b = self.embedding('a_linear'), self.embedding('b_linear')
    self.tags = self.bag('tags_linear', mode='sum')
    self.x, self.y = self.parameter('wide/x'), self.parameter('wide/y')
    self.bias = self.parameter('wide/bias')

  def forward(self, rows):
    numbers = rows.numbers('x', 'y')
    return (self.a(rows.id('a')) + self.b(rows.id('b')) + self.tags(*rows.bag('tags')) +
            numbers[:, :1] * self.x + numbers[:, 1:] * self.y + self.bias)


class SideBySide(Model):
  """The features' vectors and the numbers, one after the other."""

  def __init__(self, saved):
    super().__init__(saved)
    self.a, self.b, self.tags = self.embedding('a'), self.embedding('b'), self.bag('tags')

  def vectors(self, rows):
    return [self.a(rows.id('a')), self.b(rows.id('b')), self.tags(*rows.bag('tags'))]

  def side_by_side(self, rows):
    return torch.cat([*self.vectors(rows), rows.numbers('x', 'y')], 1)


class Mlp(SideBySide):

  def __init__(self, saved, **style):
    super().__init__(saved)
    norm = style.pop('norm', None)
    self.deep = self.layers('deep', 2, norm=norm and getattr(self, norm), **style)

  def forward(self, rows):
    return self.deep(self.side_by_side(rows))


class WideDeep(Mlp):
  """Cheng et al., 2016."""

  def __init__(self, saved):
    super().__init__(saved)
    self.wide = Linear(saved)
    self.bound += self.wide.bound

  def forward(self, rows):
    return self.wide(rows) + super().forward(rows)


class DeepFm(SideBySide):
  """Guo et al., 2017: a factorisation machine, and layers on the same vectors."""

  def __init__(self, saved):
    super().__init__(saved)
    self.first_order = Linear(saved)
    self.number_vectors = self.parameter('numbers/vectors')
    self.deep = self.layers('deep', 2)
    self.bound += self.first_order.bound

  def forward(self, rows):
    numbers = rows.numbers('x', 'y')
    vectors = self.vectors(rows) + [numbers[:, i:i + 1] * self.number_vectors[i] for i in range(2)]
    pairs = sum((vectors[i] * vectors[j]).sum(1, keepdim=True)
                for i in range(len(vectors)) for j in range(i))
    return self.first_order(rows) + pairs + self.deep(torch.cat(vectors, 1))


class DcnV2(SideBySide):
  """Wang et al., 2021."""

  def __init__(self, saved, parallel=False, rank=0):
    super().__init__(saved)
    self.parallel = parallel
    self.cross = nn.ModuleList()
    for i in range(3):
      here = f'cross/layer_{i}/'
      self.cross.append(
          nn.Sequential(self.linear(here + 'u'), self.linear(here + 'v', here + 'bias')) if rank
          else self.linear(here + 'kernel', here + 'bias'))
    self.deep = self.layers('deep', 2)
    self.top = self.layers('top', 0) if parallel else None

  def forward(self, rows):
    first = x = self.side_by_side(rows)
    for layer in self.cross:
      x = first * layer(x) + x
    return self.top(x) + self.deep(first) if self.parallel else self.deep(x)


class Dlrm(SideBySide):
  """Naumov et al., 2019."""

  def __init__(self, saved):
    super().__init__(saved)
    self.bottom = self.layers('bottom', 1, last_active=True)
    self.top = self.layers('top', 2)

  def forward(self, rows):
    dense = self.bottom(rows.numbers('x', 'y'))
    all_vectors = torch.stack([dense, *self.vectors(rows)], 1)
    products = torch.bmm(all_vectors, all_vectors.transpose(1, 2))
    i, j = torch.tril_indices(*products.shape[1:], offset=-1)
    return self.top(torch.cat([dense, products[:, i, j]], 1))


class Din(Model):
  """Zhou et al., 2018, with the sum of weights as it comes, without a softmax."""

  def __init__(self, saved):
    super().__init__(saved)
    self.items, self.user = self.embedding('a'), self.embedding('user')
    self.attention, self.deep = self.layers('attention', 1), self.layers('deep', 2)

  def forward(self, rows):
    item = self.items(rows.id('a'))
    ids, there = rows.padded('seen', 'a', 6)
    had, at_hand = self.items(ids), item[:, None].expand(-1, 6, -1)
    weights = self.attention(torch.cat([had, at_hand, had - at_hand, had * at_hand], 2))
    interest = (weights * there[..., None] * had).sum(1)
    return self.deep(torch.cat([item, interest, self.user(rows.id('user')), rows.numbers('x')], 1))


class Tasks(SideBySide):
  """A tower for each task on what the tasks share."""

  def __init__(self, saved):
    super().__init__(saved)
    self.towers = nn.ModuleList(self.layers(f'tower/{name}', 1) for name in ('click', 'stars'))


class SharedBottom(Tasks):

  def __init__(self, saved):
    super().__init__(saved)
    self.bottom = self.layers('bottom', 2, last=False)

  def forward(self, rows):
    shared = self.bottom(self.side_by_side(rows))
    return torch.cat([tower(shared) for tower in self.towers], 1)


class Mmoe(Tasks):
  """Ma et al., 2018."""

  def __init__(self, saved):
    super().__init__(saved)
    self.experts = nn.ModuleList(self.layers(f'expert_{i}', 1, last=False) for i in range(3))
    self.gates = nn.ModuleList(self.linear(f'gate/{name}') for name in ('click', 'stars'))

  def forward(self, rows):
    x = self.side_by_side(rows)
    experts = torch.stack([expert(x) for expert in self.experts], 1)
    mixtures = [(F.softmax(gate(x), 1)[..., None] * experts).sum(1) for gate in self.gates]
    return torch.cat([tower(mixed) for tower, mixed in zip(self.towers, mixtures)], 1)


class MatrixFactorization(Model):
  """Koren et al., 2009."""

  def __init__(self, saved):
    super().__init__(saved)
    self.a, self.b = self.embedding('a'), self.embedding('b')
    self.a_bias, self.b_bias = self.embedding('a_bias'), self.embedding('b_bias')
    self.mean = self.parameter('mean')

  def forward(self, rows):
    a, b = rows.id('a'), rows.id('b')
    product = (self.a(a) * self.b(b)).sum(1, keepdim=True)
    return product + self.a_bias(a) + self.b_bias(b) + self.mean


class TwoTower(Model):
  """Layers on each side, vectors of length 1, and the scores of all items."""

  def __init__(self, saved):
    super().__init__(saved)
    self.b, self.tags = self.embedding('b'), self.bag('tags')
    self.items, self.bias = self.embedding('a'), self.embedding('a_bias')
    self.user_layers, self.item_layers = self.layers('user', 1), self.layers('item', 1)

  def forward(self, rows):
    features = [self.b(rows.id('b')), self.tags(*rows.bag('tags')), rows.numbers('x', 'y')]
    user = F.normalize(self.user_layers(torch.cat(features, 1)), dim=1)
    items = F.normalize(self.item_layers(self.items.weight), dim=1)
    return user @ items.T / 0.25 + self.bias.weight.T


class Sasrec(Model):
  """Kang and McAuley, 2018: in the paper's words, g(x) = x + dropout(g(norm(x)))."""

  HEADS = 2

  def __init__(self, saved):
    super().__init__(saved)
    self.items = self.embedding('a')
    self.places = self.parameter('positions')
    self.blocks = nn.ModuleList()
    for i in range(2):
      here = f'block_{i}/'
      self.blocks.append(nn.ModuleDict({
          'before_attention': self.norm(here + 'attention'),
          'query': self.linear(here + 'query'),
          'key': self.linear(here + 'key'),
          'value': self.linear(here + 'value'),
          'before_layers': self.norm(here + 'layers'),
          'layers': self.layers(here + 'layers', 1),
      }))
    self.last = self.norm('last')

  def norm(self, name):
    return self.layer_norm(name + '/')

  def forward(self, rows):
    longest = len(self.places)
    ids, there = rows.padded('seen', 'a', longest)
    x = self.items(ids) + self.places.flip(0)  # the first place is that of the last item
    # What is missing sees itself, so that it is a number; nothing else sees it.
    sees = torch.ones(longest, longest, dtype=torch.bool).tril() & there[:, None]
    sees = (sees | torch.eye(longest, dtype=torch.bool))[:, None]
    for block in self.blocks:
      h = block['before_attention'](x)
      q, k, v = (block[name](h).unflatten(2, (self.HEADS, -1)).transpose(1, 2)
                 for name in ('query', 'key', 'value'))
      seen = F.scaled_dot_product_attention(q, k, v, attn_mask=sees)
      x = x + seen.transpose(1, 2).flatten(2)
      x = x + block['layers'](block['before_layers'](x))
    user = self.last(x[:, -1]) * there[:, -1:]  # zeros of who had nothing
    return user @ self.items.weight.T


# The cases.


def of_chance(scores, rows):
  return F.binary_cross_entropy_with_logits(scores[:, 0], rows.labels('click'))


def of_hinge(scores, rows):
  return F.relu(1 - (2 * rows.labels('click') - 1) * scores[:, 0]).mean()


def of_focal(scores, rows):
  """Lin et al., 2017, with alpha 0.25 and gamma 2."""
  y = rows.labels('click')
  of_label = torch.where(y > 0, scores[:, 0], -scores[:, 0])  # the logit of what is so
  alpha = torch.where(y > 0, 0.25, 0.75)
  return (-alpha * torch.sigmoid(-of_label)**2 * F.logsigmoid(of_label)).mean()


def of_huber(scores, rows):
  return F.huber_loss(scores[:, 0], rows.labels('stars'), delta=0.5)


def of_listnet(scores, rows):
  """Cao et al., 2007: the cross-entropy of two softmaxes over a query's rows."""
  s, y = scores.view(-1, QUERY), rows.labels('class').view(-1, QUERY)
  return F.cross_entropy(s, F.softmax(y, 1))


def of_lambdarank(scores, rows):
  """Burges, 2010: pairs weighed by how much NDCG changes when they change places."""
  losses = []
  for s, y in zip(scores.view(-1, QUERY), rows.labels('class').view(-1, QUERY)):
    place = torch.empty(QUERY, dtype=torch.int64)
    place[s.argsort(descending=True)] = torch.arange(QUERY)
    gain, discount = 2**y - 1, 1 / torch.log2(place + 2.0)
    best = (gain.sort(descending=True).values / torch.log2(torch.arange(QUERY) + 2.0)).sum()
    change = (gain[:, None] - gain) * (discount[:, None] - discount) / best.clamp(min=1e-9)
    pairs = y[:, None] > y
    losses.append((change.abs() * F.softplus(s - s[:, None]))[pairs].sum())
  return torch.stack(losses).mean()


def of_number(scores, rows):
  return F.mse_loss(scores[:, 0], rows.labels('stars'))


def of_classes(scores, rows):
  return F.cross_entropy(scores, rows.labels('class').long())


def of_tasks(scores, rows):
  return of_chance(scores[:, :1], rows) + 0.5 * of_number(scores[:, 1:], rows)


def of_items(scores, rows):
  return F.cross_entropy(scores, rows.id('a'))


def says_score(line, _):
  return [line['score']]


def says_number(line, _):
  return [line['prediction']]


def says_classes(line, _):
  return [score for _, score in sorted(zip(map(int, line['classes']), line['scores']))]


def says_tasks(line, _):
  return [line['click']['score'], line['stars']['prediction']]


def says_items(line, saved):
  places = {word: i for i, word in enumerate(saved.words('a'))}
  return [score for _, score in sorted((places[i], s) for i, s in zip(line['items'],
                                                                      line['scores']))]


VALUES = [
    {'name': 'a', 'kind': 'categorical', 'dim': 8},
    {'name': 'b', 'kind': 'categorical', 'dim': 8},
    {'name': 'tags', 'kind': 'categorical', 'value_separator': '|', 'dim': 8},
    {'name': 'x', 'kind': 'numeric'},
    {'name': 'y', 'kind': 'numeric'},
]
# All of its rows are ranked: without one for unknown items.
ITEM = {'name': 'a', 'kind': 'categorical', 'dim': 8, 'oov_buckets': 0}
SEEN = {'name': 'seen', 'kind': 'history', 'history_of': 'a', 'group_by': 'user', 'by': 'time',
        'max_values': 6}
CHANCE = {'label': {'column': 'click'}}
NUMBER = {'label': {'column': 'stars'}, 'loss': {'kind': 'mse'}}
CLASS = {'label': {'column': 'class'}}
TASKS = {'labels': [{'name': 'click', 'column': 'click'},
                    {'name': 'stars', 'column': 'stars', 'loss': {'kind': 'mse'},
                     'loss_weight': 0.5}]}


@dataclass
class Case:
  name: str
  module: object  # makes a module of a saved model
  model: dict  # the job's section
  job: dict  # other sections
  loss: object
  says: object  # scores of a line of predictions
  features: list = field(default_factory=lambda: VALUES)
  visits: bool = False  # rows of made_up_visits
  queries: bool = False  # an example is the rows of a query
  rate: float = RATE
  steps: int = STEPS


CASES = [
    Case('linear_regression', Linear, {'kind': 'linear_regression'}, NUMBER, of_number,
         says_number),
    Case('logistic_regression', Linear, {'kind': 'logistic_regression'}, CHANCE, of_chance,
         says_score),
    Case('logistic_regression, 4 classes', Linear, {'kind': 'logistic_regression', 'classes': 4},
         CLASS, of_classes, says_classes),
    Case('matrix_factorization', MatrixFactorization,
         {'kind': 'matrix_factorization', 'user': {'feature': 'a'}, 'item': {'feature': 'b'},
          'dim': 8}, NUMBER, of_number, says_number, features=VALUES[:2]),
    Case('mlp', Mlp, {'kind': 'mlp', 'hidden': [16, 8]}, CHANCE, of_chance, says_score),
    Case('mlp, 4 classes, tanh', lambda saved: Mlp(saved, activation=nn.Tanh),
         {'kind': 'mlp', 'hidden': [16, 8], 'classes': 4, 'activation': 'tanh'}, CLASS, of_classes,
         says_classes),
    Case('mlp, layer_norm', lambda saved: Mlp(saved, norm='layer_norm'),
         {'kind': 'mlp', 'hidden': [16, 8], 'layer_norm': True}, CHANCE, of_chance, says_score),
    Case('mlp, batch_norm', lambda saved: Mlp(saved, norm='batch_norm'),
         {'kind': 'mlp', 'hidden': [16, 8], 'batch_norm': {}}, CHANCE, of_chance, says_score),
    Case('mlp, hinge', Mlp, {'kind': 'mlp', 'hidden': [16, 8]},
         {**CHANCE, 'loss': {'kind': 'hinge'}}, of_hinge, says_score),
    Case('mlp, focal', Mlp, {'kind': 'mlp', 'hidden': [16, 8]},
         {**CHANCE, 'loss': {'kind': 'focal'}}, of_focal, says_score),
    Case('mlp, huber', Mlp, {'kind': 'mlp', 'hidden': [16, 8]},
         {**NUMBER, 'loss': {'kind': 'huber', 'delta': 0.5}}, of_huber, says_number),
    Case('mlp, listnet', Mlp, {'kind': 'mlp', 'hidden': [16, 8]},
         {**CLASS, 'loss': {'kind': 'listnet'}}, of_listnet, says_number, queries=True),
    Case('mlp, lambdarank', Mlp, {'kind': 'mlp', 'hidden': [16, 8]},
         {**CLASS, 'loss': {'kind': 'lambdarank'}}, of_lambdarank, says_number, queries=True,
         rate=0.02),
    Case('wide_deep', WideDeep, {'kind': 'wide_deep', 'deep': {'hidden': [16, 8]}}, CHANCE,
         of_chance, says_score),
    Case('deepfm', DeepFm, {'kind': 'deepfm', 'dim': 8, 'hidden': [16, 8]}, CHANCE, of_chance,
         says_score),
    Case('dcn_v2, stacked', DcnV2, {'kind': 'dcn_v2', 'hidden': [16, 8]}, CHANCE, of_chance,
         says_score),
    Case('dcn_v2, parallel, rank 4', lambda saved: DcnV2(saved, parallel=True, rank=4),
         {'kind': 'dcn_v2', 'hidden': [16, 8], 'structure': 'parallel', 'rank': 4}, CHANCE,
         of_chance, says_score),
    Case('dlrm', Dlrm, {'kind': 'dlrm', 'dim': 8, 'bottom': [16], 'top': [16, 8]}, CHANCE,
         of_chance, says_score),
    Case('din', Din,
         {'kind': 'din', 'target': 'a', 'history': 'seen', 'attention': [12], 'hidden': [16, 8]},
         CHANCE, of_chance, says_score, visits=True,
         features=[VALUES[0], SEEN, {'name': 'user', 'kind': 'categorical', 'dim': 4}, VALUES[3]]),
    Case('shared_bottom', SharedBottom,
         {'kind': 'shared_bottom', 'hidden': [16, 8], 'tower': [6]}, TASKS, of_tasks, says_tasks,
         rate=0.1),
    Case('mmoe', Mmoe, {'kind': 'mmoe', 'experts': 3, 'hidden': [16], 'tower': [6]}, TASKS,
         of_tasks, says_tasks, rate=0.1),
    Case('two_tower', TwoTower,
         {'kind': 'two_tower', 'user': {'features': ['b', 'tags', 'x', 'y'], 'hidden': [16]},
          'item': {'feature': 'a', 'hidden': [16]}, 'dim': 8, 'normalize': True},
         {'loss': {'kind': 'full_softmax', 'temperature': 0.25}}, of_items, says_items,
         features=[ITEM, *VALUES[1:]]),
    Case('sasrec', Sasrec,
         {'kind': 'sasrec', 'history': 'seen', 'dim': 8, 'blocks': 2, 'heads': 2},
         {'loss': {'kind': 'full_softmax'}}, of_items, says_items, features=[ITEM, SEEN],
         visits=True),
]


# The comparison.


def write(path, rows):
  with path.open('w', newline='') as out:
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)


def call(*command):
  done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                        check=False)
  if done.returncode != 0:
    sys.exit(f'torch_models: exit code {done.returncode} of {" ".join(map(str, command))}\n'
             f'{done.stderr[-2000:]}')
  return done.stdout


def train(args, case, folder, steps, count):
  """The model after some steps, each on all rows."""
  optimizer = {'kind': 'sgd', 'learning_rate': case.rate}
  job = {
      'name': 'case', 'features': case.features,
      'dataset': {'path': 'rows.csv', **({'query': 'query'} if case.queries else {})},
      'model': case.model, 'optimizer': {'table': optimizer, 'dense': optimizer}, **case.job,
      'train': {'steps': steps, 'batch_size': count, 'seed': 3, 'deterministic': True,
                'device': 'cpu', 'consistency': {'mode': 'sync', 'replicas': 1}},
  }
  (folder / 'job.yaml').write_text(json.dumps(job, indent=1))  # JSON is YAML, too
  model = folder / f'model_{steps}'
  call(args.coxswain, 'train', folder / 'job.yaml', '--local', '1x1', '--model-dir', model)
  return Saved(model)


def off_by(found, wanted):
  """The largest difference, over the largest number that is wanted."""
  return float((found - wanted).abs().max() / wanted.abs().max())


def compare_scores(args, case, folder, saved, module, unseen):
  write(folder / 'unseen.csv', unseen)
  said = call(args.coxswain, 'predict', '--model-dir', saved.directory, '--input',
              folder / 'unseen.csv', '--format', 'jsonl',
              *(['--top', len(A)] if case.says in (says_items, says_classes) else []))
  found = torch.tensor([case.says(json.loads(line), saved) for line in said.splitlines()])
  module.eval()
  with torch.no_grad():
    return off_by(found, module(Rows(saved, unseen)))


def compare_step(case, saved, after, module, rows):
  module.train()
  optimizer = torch.optim.SGD(module.parameters(), lr=case.rate)
  optimizer.zero_grad()
  case.loss(module(Rows(saved, rows)), Rows(saved, rows)).backward()
  optimizer.step()
  worst, worst_name = 0.0, ''
  for name, parameter, transposed in module.bound:
    value = parameter.detach().T if transposed else parameter.detach()
    before = saved.variables[name]
    wanted, found = value.reshape(before.shape) - before, after.variables[name] - before
    if wanted.abs().max() < NO_CHANGE:
      off = float(found.abs().max())
    else:
      off = off_by(found, wanted)
    if not off <= worst:
      worst, worst_name = off, name
  return worst, worst_name


def check(args, case):
  folder = args.out / ''.join(c if c.isalnum() else '_' for c in case.name)
  folder.mkdir(parents=True, exist_ok=True)
  if case.visits:
    rows, unseen = with_history(made_up_visits(90, 1), 6), with_history(made_up_visits(30, 2), 6)
    write(folder / 'rows.csv', [{k: v for k, v in row.items() if k != 'seen'} for row in rows])
  else:
    rows, unseen = made_up_rows(500, 1), made_up_rows(200, 2, known=ITEM in case.features)
    write(folder / 'rows.csv', rows)
  count = len(rows) // QUERY if case.queries else len(rows)
  saved = train(args, case, folder, case.steps, count)
  module = case.module(saved)
  missing = set(saved.variables) - {name for name, _, _ in module.bound}
  if missing:
    sys.exit(f'torch_models: {case.name}: PyTorch\'s model lacks {", ".join(sorted(missing))}')
  scores = compare_scores(args, case, folder, saved, module, unseen)
  after = train(args, case, folder, case.steps + 1, count)
  step, name = compare_step(case, saved, after, module, rows)
  return scores, step, name


def main():
  parser = argparse.ArgumentParser(description='The models beside the same ones in PyTorch.')
  parser.add_argument('--coxswain', required=True, help='the program')
  parser.add_argument('--out', required=True, type=pathlib.Path, help='where files go')
  parser.add_argument('names', nargs='*', help='cases; none: all')
  args = parser.parse_args()
  unknown = set(args.names) - {case.name for case in CASES}
  if unknown:
    parser.error(f'there is no {", ".join(sorted(unknown))}; there is: '
                 f'{"; ".join(case.name for case in CASES)}')
  args.out = args.out.resolve()
  print('| model | scores differ by | a step\'s changes differ by | most in |\n|---|---|---|---|')
  wrong = []
  for case in CASES:
    if args.names and case.name not in args.names:
      continue
    scores, step, name = check(args, case)
    print(f'| {case.name} | {scores:.1e} | {step:.1e} | `{name}` |', flush=True)
    if not (scores <= SCORE_BOUND and step <= STEP_BOUND):
      wrong.append(case.name)
  if wrong:
    sys.exit(f'torch_models: not as in PyTorch: {", ".join(wrong)}')


if __name__ == '__main__':
  main()
