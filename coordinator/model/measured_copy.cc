#include "coordinator/model/measured_copy.h"

namespace coxswain::model {

Measured MeasuredCopy::View() const {
  Measured m;
  m.classes = classes;
  m.task = task;
  m.prediction = prediction;
  m.label = label;
  m.score = score;
  m.ranks = ranks;
  m.weight = weight;
  m.group = group;
  m.unseen = unseen;
  return m;
}

void MeasuredCopy::Restart(const Measured& from) {
  task = from.task;
  classes = from.classes;
  for (auto* values : {&prediction, &label, &score, &weight}) values->clear();
  for (auto* values : {&ranks, &group, &unseen}) values->clear();
}

void MeasuredCopy::Take(const Measured& from, size_t i) {
  if (!from.label.empty()) {
    const auto width = static_cast<size_t>(from.classes);
    const auto row = from.prediction.subspan(i * width, width);
    prediction.insert(prediction.end(), row.begin(), row.end());
    label.push_back(from.label[i]);
  }
  if (!from.score.empty()) score.push_back(from.score[i]);
  if (!from.ranks.empty()) ranks.push_back(from.ranks[i]);
  if (!from.weight.empty()) weight.push_back(from.weight[i]);
  if (!from.group.empty()) group.push_back(from.group[i]);
  if (!from.unseen.empty()) unseen.push_back(from.unseen[i]);
}

}  // namespace coxswain::model
