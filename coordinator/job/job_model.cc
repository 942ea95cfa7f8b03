// model, loss, label.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_sections.h"
#include "runtime/data/criteo.h"
#include "runtime/data/skip_gram.h"

namespace coxswain {
namespace {

using proto::FeatureSpec;

constexpr int64_t kDefaultDim = 16;  // in models that have none of their own
constexpr char kNoLayers[] = "without hidden layers";

// The losses that a model can be trained with, the default first.
const char* Losses(absl::string_view model, bool classes) {
  if (model == "two_tower") return "sampled_softmax";
  if (model == "word2vec") return "negative_sampling sampled_softmax";
  if (model == "matrix_factorization") return "mse sigmoid_cross_entropy";
  if (model == "wide_deep" || model == "dlrm" || model == "deepfm") {
    return "sigmoid_cross_entropy mse";
  }
  if (model == "mlp") return classes ? "softmax_cross_entropy" : "sigmoid_cross_entropy mse";
  if (model == "logistic_regression") return "sigmoid_cross_entropy";
  return "";
}

std::vector<std::string> FeatureNames(const JobSpec& job) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : job.dataset.features()) names.push_back(feature.name());
  return names;
}

bool IsSingle(const FeatureSpec& feature) {
  return feature.kind() == FeatureSpec::CATEGORICAL && !feature.multi_valued();
}

// The feature that `path` names, or null and an error.
const FeatureSpec* Feature(const JobReader& reader, const std::string& path,
                           const std::string& name) {
  const FeatureSpec* feature = reader.job->FindFeature(name);
  if (feature == nullptr) {
    reader.Error(path, UnknownName("feature", name, FeatureNames(*reader.job)));
  }
  return feature;
}

// A side of a recommender that is one categorical feature.
void ReadSingle(const JobReader& reader, const std::string& path, const std::string& name,
                TowerSpec* tower) {
  tower->features = {name};
  const FeatureSpec* feature = Feature(reader, path, name);
  if (feature != nullptr && !IsSingle(*feature)) {
    reader.Error(path, absl::StrCat("wanted a categorical feature with a single value; '", name,
                                    "' is not"));
  }
}

// A list of features; where the file has none, all but the label.
void ReadFeatureList(const JobReader& reader, const SectionView& view, const std::string& path,
                     std::vector<std::string>* features) {
  *features = view.Strings("features");
  std::set<std::string> seen;
  for (size_t i = 0; i < features->size(); ++i) {
    const std::string item = absl::StrCat(path, ".features.", i);
    Feature(reader, item, (*features)[i]);
    if (!seen.insert((*features)[i]).second) {
      reader.Error(item, absl::StrCat("'", (*features)[i], "' is there twice"));
    }
  }
  if (!features->empty()) return;
  const std::string label = reader.file.Sub("label").String("feature");
  for (const std::string& name : FeatureNames(*reader.job)) {
    if (name != label) features->push_back(name);
  }
  if (features->empty()) reader.Error(path, "there is no feature to learn from");
}

// Gives the feature its width, which has to be the model's where `fixed` says why.
void SetDim(const JobReader& reader, const std::string& name, int64_t fallback,
            const char* fixed = nullptr) {
  for (FeatureSpec& feature : *reader.job->dataset.mutable_features()) {
    if (feature.name() != name || feature.kind() != FeatureSpec::CATEGORICAL) continue;
    if (feature.dim() == 0) feature.set_dim(fallback);
    if (fixed != nullptr && feature.dim() != fallback) {
      reader.Error(
          absl::StrCat("features.", name, ".dim"),
          absl::StrCat(fixed, " it has to be model.dim, ", fallback, "; found ", feature.dim()));
    }
  }
}

void ReadTwoTower(const JobReader& reader, const SectionView& view, ModelSpec* model) {
  const SectionView user = view.Sub("user");
  const SectionView item = view.Sub("item");
  model->dim = view.Int("dim");
  model->normalize = view.Bool("normalize");
  model->biases = item.Bool("bias");
  ReadFeatureList(reader, user, "model.user", &model->user.features);
  model->user.hidden = user.Ints("hidden");
  const std::string name = item.String("feature");
  ReadSingle(reader, "model.item.feature", name, &model->item);
  model->item.hidden = item.Ints("hidden");
  const FeatureSpec* feature = reader.job->FindFeature(name);
  if (feature != nullptr && feature->hash_buckets() > 0) {
    reader.Error(absl::StrCat("features.", name, ".hash_buckets"),
                 "the item of a two_tower needs a vocabulary");
  }
  if (feature != nullptr && !feature->id().empty()) {
    reader.Error(absl::StrCat("features.", name, ".id"),
                 "the item of a two_tower needs a vocabulary: all of it is ranked");
  }
  for (size_t i = 0; i < model->user.features.size(); ++i) {
    const std::string& user_feature = model->user.features[i];
    const std::string path = absl::StrCat("model.user.features.", i);
    if (user_feature == name) {
      reader.Error(path, absl::StrCat("'", name, "' is what is to be predicted"));
    }
    const FeatureSpec* found = reader.job->FindFeature(user_feature);
    if (found != nullptr && found->kind() == FeatureSpec::NUMERIC && model->user.hidden.empty()) {
      reader.Error(path, absl::StrCat("'", user_feature,
                                      "' is a number, which needs layers (model.user.hidden)"));
    }
    SetDim(reader, user_feature, model->dim, model->user.hidden.empty() ? kNoLayers : nullptr);
  }
  SetDim(reader, name, model->dim, model->item.hidden.empty() ? kNoLayers : nullptr);
}

void ReadFactorization(const JobReader& reader, const SectionView& view, ModelSpec* model) {
  model->dim = view.Int("dim");
  model->biases = view.Bool("biases");
  const std::string user = view.Sub("user").String("feature");
  const std::string item = view.Sub("item").String("feature");
  ReadSingle(reader, "model.user.feature", user, &model->user);
  ReadSingle(reader, "model.item.feature", item, &model->item);
  if (user == item) reader.Error("model.item.feature", "the user and the item are the same");
  SetDim(reader, user, model->dim, kNoLayers);
  SetDim(reader, item, model->dim, kNoLayers);
}

// dlrm and deepfm: vectors of one width, which meet in products of pairs.
void ReadProducts(const JobReader& reader, const SectionView& view, ModelSpec* model) {
  model->dim = view.Int("dim");
  ReadFeatureList(reader, view, "model", &model->deep.features);
  const bool dlrm = model->kind == ModelKind::kDlrm;
  model->deep.hidden = view.Ints(dlrm ? "top" : "hidden");
  if (dlrm) {
    model->bottom = view.Ints("bottom");
  } else {
    model->wide.features = model->deep.features;
  }
  int64_t tables = 0, numbers = 0;
  for (const std::string& name : model->deep.features) {
    const FeatureSpec* feature = reader.job->FindFeature(name);
    if (feature == nullptr) return;
    ++(feature->kind() == FeatureSpec::CATEGORICAL ? tables : numbers);
    SetDim(reader, name, model->dim, "a product of two vectors needs them of one width:");
  }
  // The numbers make one vector in dlrm, and each its own in deepfm.
  const int64_t vectors = tables + (dlrm ? std::min<int64_t>(numbers, 1) : numbers);
  if (vectors < 2) {
    reader.Error("model.features",
                 absl::StrCat("wanted features that make two or more vectors, found ", tables,
                              " categorical and ", numbers, " numeric ones"));
  }
}

void ReadWord2Vec(const JobReader& reader, const SectionView& view, ModelSpec* model) {
  model->dim = view.Int("dim");
  if (reader.job->dataset.format() != "text") {
    reader.Error("model.kind", "word2vec needs a text (dataset.format: text)");
    return;
  }
  model->item.features = {kWordFeature};
  reader.job->dataset.mutable_features(0)->set_dim(model->dim);
}

void ReadLoss(const JobReader& reader) {
  if (!reader.Good("loss")) return;
  const SectionView view = reader.file.Sub("loss");
  const ModelSpec& model = reader.job->model;
  LossSpec* loss = &reader.job->loss;
  loss->kind =
      view.Choice<LossKind>("kind", {{"sampled_softmax", LossKind::kSampledSoftmax},
                                     {"sigmoid_cross_entropy", LossKind::kSigmoidCrossEntropy},
                                     {"softmax_cross_entropy", LossKind::kSoftmaxCrossEntropy},
                                     {"mse", LossKind::kMse},
                                     {"negative_sampling", LossKind::kNegativeSampling}});
  loss->negatives = view.Int("negatives");
  loss->distribution = view.Choice<Distribution>(
      "distribution",
      {{"uniform", Distribution::kUniform}, {"popularity", Distribution::kPopularity}});
  if (view.Has("distortion")) loss->distortion = view.Real("distortion");
  if (view.Given("distortion") && loss->kind == LossKind::kSampledSoftmax &&
      loss->distribution == Distribution::kUniform) {
    reader.Error("loss.distortion", "only with distribution: popularity");
  }
  if (loss->kind == LossKind::kNegativeSampling) {
    loss->negatives_per_pair = view.Real("negatives_per_pair");
    loss->distribution = Distribution::kPopularity;
  }
  if (view.Has("temperature")) loss->temperature = view.Real("temperature");
  const std::string kind = reader.file.Sub("model").String("kind");
  const std::string allowed = Losses(kind, model.classes > 1);
  if (!HasWord(allowed, view.String("kind"))) {
    reader.Error("loss.kind", absl::StrCat(view.String("kind"), " is not for a ", kind,
                                           model.classes > 1 ? " with classes" : "",
                                           "; it has: ", absl::StrJoin(Words(allowed), ", ")));
  }
}

void ReadPositive(const JobReader& reader, const std::string& text, proto::LabelSpec* label) {
  for (const char* comparison : {">=", "<=", "==", "!=", ">", "<"}) {
    if (!absl::StartsWith(text, comparison)) continue;
    double threshold = 0;
    if (!absl::SimpleAtod(absl::string_view(text).substr(strlen(comparison)), &threshold)) break;
    label->set_positive_comparison(comparison);
    label->set_positive_threshold(threshold);
    return;
  }
  reader.Error("label.positive",
               absl::StrCat("wanted a comparison such as '>= 4', found '", text, "'"));
}

void CheckLabelSource(const JobReader& reader) {
  const proto::LabelSpec& label = reader.job->dataset.label();
  const ModelSpec& model = reader.job->model;
  const bool libsvm = reader.job->dataset.format() == "libsvm";
  if (!label.feature().empty()) {
    if (model.classes < 2) {
      reader.Error("label.feature", "only for two_tower, and for an mlp with classes");
      return;
    }
    const FeatureSpec* feature = Feature(reader, "label.feature", label.feature());
    if (feature != nullptr && !IsSingle(*feature)) {
      reader.Error("label.feature", "wanted a categorical feature with a single value");
    } else if (feature != nullptr && !feature->id().empty()) {
      reader.Error("label.feature", absl::StrCat("feature '", feature->name(), "' has id: ",
                                                 feature->id(), "; its values have no end"));
    }
    if (!label.column().empty()) {
      reader.Error("label.feature", "give one of column and feature");
    }
  } else if (libsvm && !label.column().empty()) {
    reader.Error("label.column", "in a libsvm data set each line begins with its label");
  } else if (!libsvm && label.column().empty()) {
    reader.Error("label", "'column' is missing (string): the column with the label");
  } else if (!label.column().empty()) {
    CheckColumn(reader, "label.column", label.column());
  }
}

// What the loss can do with a label that is a number.
void SetLabelRange(const JobSpec& job, proto::LabelSpec* label) {
  const bool softmax = job.loss.kind == LossKind::kSoftmaxCrossEntropy;
  if (!label->feature().empty() || (!softmax && job.loss.kind != LossKind::kSigmoidCrossEntropy)) {
    return;
  }
  label->set_bounded(true);
  label->set_high(softmax ? static_cast<double>(job.model.classes - 1) : 1);
  label->set_whole(softmax);
}

// A class that training never met is no class: nothing may stand for it.
void SetLabelBuckets(const JobReader& reader, const std::string& name) {
  if (reader.job->locations.count(absl::StrCat("features.", name, ".oov_buckets")) > 0) return;
  for (FeatureSpec& feature : *reader.job->dataset.mutable_features()) {
    const bool limited = feature.min_count() > 1 || feature.max_size() > 0;
    if (feature.name() == name && !limited) feature.set_oov_buckets(0);
  }
}

}  // namespace

std::string DefaultLoss(const YamlNode& file) {
  const YamlEntry* model = file.Find("model");
  const YamlEntry* kind = model == nullptr ? nullptr : model->value.Find("kind");
  const YamlEntry* classes = model == nullptr ? nullptr : model->value.Find("classes");
  int64_t count = 1;
  if (classes != nullptr && !absl::SimpleAtoi(classes->value.text, &count)) count = 1;
  const std::vector<std::string> losses =
      Words(kind == nullptr ? "" : Losses(kind->value.text, count > 1));
  return losses.empty() ? "" : losses[0];
}

bool ReadModel(const JobReader& reader) {
  if (!reader.Good("model")) return false;
  const SectionView view = reader.file.Sub("model");
  ModelSpec* model = &reader.job->model;
  model->kind =
      view.Choice<ModelKind>("kind", {{"two_tower", ModelKind::kTwoTower},
                                      {"matrix_factorization", ModelKind::kMatrixFactorization},
                                      {"wide_deep", ModelKind::kWideDeep},
                                      {"mlp", ModelKind::kMlp},
                                      {"logistic_regression", ModelKind::kLogisticRegression},
                                      {"dlrm", ModelKind::kDlrm},
                                      {"deepfm", ModelKind::kDeepFm},
                                      {"word2vec", ModelKind::kWord2Vec}});
  model->activation = view.Choice<Activation>("activation", {{"relu", Activation::kRelu},
                                                             {"tanh", Activation::kTanh},
                                                             {"sigmoid", Activation::kSigmoid}});
  model->classes = view.Has("classes") ? view.Int("classes") : 1;
  switch (model->kind) {
    case ModelKind::kTwoTower:
      ReadTwoTower(reader, view, model);
      break;
    case ModelKind::kMatrixFactorization:
      ReadFactorization(reader, view, model);
      break;
    case ModelKind::kWideDeep:
      ReadFeatureList(reader, view.Sub("wide"), "model.wide", &model->wide.features);
      ReadFeatureList(reader, view.Sub("deep"), "model.deep", &model->deep.features);
      model->deep.hidden = view.Sub("deep").Ints("hidden");
      break;
    case ModelKind::kMlp:
      ReadFeatureList(reader, view, "model", &model->deep.features);
      model->deep.hidden = view.Ints("hidden");
      break;
    case ModelKind::kLogisticRegression:
      ReadFeatureList(reader, view, "model", &model->wide.features);
      break;
    case ModelKind::kDlrm:
    case ModelKind::kDeepFm:
      ReadProducts(reader, view, model);
      break;
    case ModelKind::kWord2Vec:
      ReadWord2Vec(reader, view, model);
      break;
  }
  if (reader.job->dataset.format() == "text" && model->kind != ModelKind::kWord2Vec) {
    reader.Error("model.kind", "a text is for word2vec");
  }
  for (const std::string& name : model->deep.features) SetDim(reader, name, kDefaultDim);
  ReadLoss(reader);
  return reader.Good("model") && reader.Good("loss");
}

void ReadLabel(const JobReader& reader) {
  if (!reader.Good("label")) return;
  if (reader.job->dataset.format() == "text") {
    if (reader.job->locations.count("label") > 0) reader.Error("label", "a text has none");
    return;
  }
  const SectionView view = reader.file.Sub("label");
  const ModelSpec& model = reader.job->model;
  proto::LabelSpec* label = reader.job->dataset.mutable_label();
  label->set_column(view.String("column"));
  label->set_feature(view.String("feature"));
  if (reader.job->dataset.format() == kCriteoFormat && model.kind != ModelKind::kTwoTower &&
      label->column().empty() && label->feature().empty()) {
    label->set_column(kCriteoLabel);
  }
  for (const std::string& value : view.Strings("positive_values")) {
    label->add_positive_values(value);
  }
  const bool positive = view.Has("positive") || view.Has("positive_values");
  if (view.Has("positive")) ReadPositive(reader, view.String("positive"), label);
  if (view.Has("positive") && view.Has("positive_values")) {
    reader.Error("label.positive", "give one of positive and positive_values");
  }
  if (positive && (model.kind == ModelKind::kTwoTower || model.classes > 1)) {
    reader.Error(view.Has("positive") ? "label.positive" : "label.positive_values",
                 "this is for labels that become 0 and 1, and this model's do not");
  }
  if (model.kind == ModelKind::kTwoTower) {
    const std::string& item = model.item.features[0];
    if (label->feature().empty()) label->set_feature(item);
    if (label->feature() != item) {
      reader.Error("label.feature", absl::StrCat("a two_tower predicts its item, '", item, "'"));
    }
    if (view.Has("column")) {
      reader.Error("label.column", absl::StrCat("a two_tower predicts its item, '", item, "'"));
    }
    return;
  }
  CheckLabelSource(reader);
  SetLabelRange(*reader.job, label);
  if (!label->feature().empty()) SetLabelBuckets(reader, label->feature());
}

}  // namespace coxswain
