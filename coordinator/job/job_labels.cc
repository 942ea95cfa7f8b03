// label and labels: where they are in the data and which are 1; a task for each of several, and for
// each class of a list.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/job_format.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/model_kind.h"
#include "runtime/data/negatives.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/utf8.h"

namespace coxswain::job {
namespace {

using proto::FeatureSpec;

void ReadPositive(const JobReader& reader, const std::string& path, const std::string& text,
                  proto::LabelSpec* label) {
  if (text == data::kPresent) {
    label->set_positive_comparison(data::kPresent);
    return;
  }
  for (const char* comparison : {">=", "<=", "==", "!=", ">", "<"}) {
    if (!absl::StartsWith(text, comparison)) continue;
    double threshold = 0;
    if (!absl::SimpleAtod(absl::string_view(text).substr(strlen(comparison)), &threshold)) break;
    label->set_positive_comparison(comparison);
    label->set_positive_threshold(threshold);
    return;
  }
  reader.Error(
      path + ".positive",
      absl::StrCat("wanted a comparison such as '>= 4', or 'present', found '", text, "'"));
}

void CheckLabelSource(const JobReader& reader) {
  const proto::LabelSpec& label = reader.job->dataset.label();
  const ModelSpec& model = *reader.job->model;
  const JobFormat& format = FormatOf(*reader.job);
  const bool in_line = format.label == JobFormat::Label::kInLine;
  if (!label.feature().empty()) {
    if (model.classes() < 2) {
      reader.Error("label.feature", "only for two_tower, and for models with classes");
      return;
    }
    const FeatureSpec* feature = CheckFeature(reader, "label.feature", label.feature());
    if (feature != nullptr &&
        (feature->kind() != FeatureSpec::CATEGORICAL || feature->multi_valued())) {
      reader.Error("label.feature", "wanted a categorical feature with a single value");
    } else if (feature != nullptr && !feature->id().empty()) {
      reader.Error("label.feature", absl::StrCat("feature '", feature->name(), "' has id: ",
                                                 feature->id(), "; its values have no end"));
    }
    if (!label.column().empty()) {
      reader.Error("label.feature", "give one of column and feature");
    }
  } else if (in_line && !label.column().empty()) {
    reader.Error("label.column",
                 absl::StrCat("in a ", format.name, " data set each line begins with its label"));
  } else if (!in_line && label.column().empty()) {
    reader.Error("label", "'column' is missing (string): the column with the label");
  } else if (!label.column().empty()) {
    CheckColumn(reader, "label.column", label.column());
  }
}

// What a step computes of the rows that are left holds for all rows only of this loss.
void CheckNegatives(const JobReader& reader, proto::LabelSpec* label) {
  if (!data::LeavesOutNegatives(*label)) {
    label->clear_keep_negatives();
    return;
  }
  const LossSpec* const loss = reader.job->loss.get();
  if (loss == nullptr || absl::string_view(KindOf(*loss).name) != "sigmoid_cross_entropy") {
    reader.Error("label.keep_negatives",
                 "only for labels 0 and 1 with the loss sigmoid_cross_entropy");
  }
  // A batch always keeps a row, which would move the share where that is most of what it keeps.
  constexpr double kLeastRows = 10;
  const auto rows = static_cast<double>(reader.job->train.batch_size);
  const double left = rows * label->keep_negatives();
  if (left < kLeastRows) {
    reader.Error("label.keep_negatives",
                 absl::StrCat("train.batch_size counts all rows, and of ", rows, " only ", left,
                              " would be left; wanted at least ", kLeastRows));
  }
}

// What the loss can do with a label that is a number.
void SetLabelRange(const LossSpec& loss, int64_t classes, proto::LabelSpec* label) {
  const LabelRange range = KindOf(loss).labels;
  if (!label->feature().empty() || range == LabelRange::kAny) return;
  const bool class_numbers = range == LabelRange::kClass;
  constexpr double kMostGrade = 30;  // a gain is 2^grade - 1
  label->set_bounded(true);
  label->set_high(class_numbers                 ? static_cast<double>(classes - 1)
                  : range == LabelRange::kGrade ? kMostGrade
                                                : 1);
  label->set_whole(class_numbers);
}

// Which labels are 1.
void ReadPositives(const JobReader& reader, const SectionView& view, const std::string& path,
                   proto::LabelSpec* label) {
  if (view.Has("positive")) ReadPositive(reader, path, view.String("positive"), label);
  if (view.Has("positive") && view.Has("positive_values")) {
    reader.Error(path + ".positive", "give one of positive and positive_values");
  }
}

void CheckWeight(const JobReader& reader, const std::string& path, const std::string& column) {
  if (column.empty()) return;
  CheckColumn(reader, path + ".weight", column);
  const JobFormat& format = FormatOf(*reader.job);
  if (!format.has_columns) {
    reader.Error(path + ".weight", absl::StrCat("a ", format.name, " data set has no columns"));
  }
}

// `name` with '_' for what cannot be in a task's name. All characters beyond ASCII are letters, but
// for Latin-1's controls and its blank.
std::string PlainName(absl::string_view name) {
  const bool utf8 = data::IsUtf8(name);
  std::string plain;
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const bool odd = byte == 0xC2 && utf8 && static_cast<unsigned char>(name[i + 1]) <= 0xA0;
    const bool letter = (byte >= 0x80 && utf8 && !odd) || IsName(name.substr(i, 1));
    plain.push_back(letter ? name[i] : '_');
    if (odd) ++i;
  }
  return plain;
}

// The names of the classes' tasks, parallel to `classes`, which differ. Of several that would be
// the same the class that is called so has it, and the others get a number.
std::vector<std::string> ClassTaskNames(const std::string& label,
                                        const std::vector<std::string>& classes) {
  std::set<std::string> taken(classes.begin(), classes.end());
  std::vector<std::string> names;
  for (const std::string& name : classes) {
    const std::string plain = PlainName(name);
    std::string free = plain;
    for (int i = 2; free != name && !taken.insert(free).second; ++i) {
      free = absl::StrCat(plain, "-", i);
    }
    names.push_back(absl::StrCat(label, "-", free));
  }
  return names;
}

// A task for each class of a column of lists. `label` and `task` are what they have in common.
void AddClasses(const JobReader& reader, const SectionView& view, proto::LabelSpec label,
                TaskSpec task) {
  const std::string path = absl::StrCat("labels.", task.name);
  if (view.Has("positive") || view.Has("positive_values")) {
    reader.Error(path + ".classes",
                 "which labels are 1 is said by the classes: wanted neither "
                 "positive nor positive_values");
  }
  if (!view.Has("value_separator")) label.set_value_separator(" ");
  if (label.value_separator().empty()) {
    reader.Error(path + ".value_separator", "wanted what is between the values, found ''");
  }
  task.list = task.name;
  const std::string list = task.name;
  const std::vector<std::string> classes = view.Strings("classes");
  std::set<std::string> seen;
  for (const std::string& name : classes) {
    if (seen.insert(name).second) continue;
    reader.Error(path + ".classes", absl::StrCat("'", name, "' is there twice"));
    return;
  }
  const std::vector<std::string> names = ClassTaskNames(list, classes);
  for (size_t i = 0; i < classes.size(); ++i) {
    task.name = names[i];
    label.set_name(task.name);
    label.clear_positive_values();
    label.add_positive_values(classes[i]);
    *reader.job->dataset.add_labels() = label;
    reader.job->tasks.push_back(task);
    // What is wrong with a class is told by the place of its list.
    reader.job->locations[absl::StrCat("labels.", task.name)] = reader.job->Where(path);
  }
}

void ReadTask(const JobReader& reader, const SectionView& view) {
  proto::LabelSpec label;
  TaskSpec task;
  reader.Read("labels[]", view, &label);
  task.name = label.name();
  task.loss_weight = view.Real("loss_weight");
  const std::string path = absl::StrCat("labels.", task.name);
  CheckColumn(reader, path + ".column", label.column());
  CheckWeight(reader, path, label.weight());
  ReadPositives(reader, view, path, &label);
  task.loss = ReadLoss(reader, view.Sub("loss"));
  const LossKind& loss = KindOf(*task.loss);
  if (loss.prediction != PredictionKind::kProbability &&
      loss.prediction != PredictionKind::kNumber) {
    reader.Error(path + ".loss.kind",
                 absl::StrCat(loss.name, " is not for a task: wanted one of a chance or a number"));
  }
  SetLabelRange(*task.loss, 1, &label);
  if (view.Has("classes")) return AddClasses(reader, view, std::move(label), std::move(task));
  if (view.Has("value_separator")) {
    reader.Error(path + ".value_separator", "this is for a label that has classes");
  }
  *reader.job->dataset.add_labels() = std::move(label);
  reader.job->tasks.push_back(std::move(task));
}

// The names of classes are made: they may be those of other labels.
void CheckTaskNames(const JobReader& reader) {
  std::set<std::string> names;
  for (const TaskSpec& task : reader.job->tasks) {
    if (!task.list.empty()) names.insert(task.list);
  }
  for (const TaskSpec& task : reader.job->tasks) {
    if (names.insert(task.name).second) continue;
    reader.Error(absl::StrCat("labels.", task.list.empty() ? task.name : task.list),
                 absl::StrCat("a second label of the name '", task.name, "'"));
  }
}

// Of a model of several tasks.
void ReadTasks(const JobReader& reader) {
  if (!reader.Good("labels")) return;
  const JobFormat& format = FormatOf(*reader.job);
  const std::string model = KindOf(*reader.job->model).name;
  if (reader.job->locations.count("label") > 0) {
    reader.Error("label", absl::StrCat("a ", model, " has several: give labels, a list"));
  }
  const std::vector<SectionView> views = reader.file.Sections("labels");
  if (views.empty()) {
    reader.Error("labels", absl::StrCat("a ", model, " needs a list of labels, a task each"));
  } else if (!format.has_columns) {
    reader.Error("labels", absl::StrCat("a ", format.name, " data set has no columns"));
  }
  std::set<std::string> names;
  for (const SectionView& view : views) {
    const std::string name = view.String("name");
    if (!IsName(name) || name == "weight") {
      const std::string path = absl::StrCat("labels.", name);
      reader.Error(name.find('.') == std::string::npos ? path : "labels",
                   absl::StrCat("wanted a name of ", kNameCharacters,
                                " other than 'weight'; found '", name, "'"));
    } else if (!names.insert(name).second) {
      reader.Error(absl::StrCat("labels.", name),
                   absl::StrCat("a second label of the name '", name, "'"));
    } else if (reader.Good(absl::StrCat("labels.", name))) {
      ReadTask(reader, view);
    }
  }
  CheckTaskNames(reader);
}

// A class that does not occur in training cannot be predicted, so it must not get a bucket.
void SetLabelBuckets(const JobReader& reader, const std::string& name) {
  if (reader.job->locations.count(absl::StrCat("features.", name, ".oov_buckets")) > 0) return;
  for (FeatureSpec& feature : *reader.job->dataset.mutable_features()) {
    const bool limited = feature.min_count() > 1 || feature.max_size() > 0;
    if (feature.name() == name && !limited) feature.set_oov_buckets(0);
  }
}

// Whether a crossed feature is the input of a label that is a feature. What an item is described by
// may be made of the item.
bool CrossesLabel(const JobReader& reader, const FeatureSpec& feature, const std::string& label) {
  if (!absl::c_linear_search(feature.crossed(), label)) return false;
  const ModelSpec& model = *reader.job->model;
  return KindOf(model).predicts != Predicts::kItem ||
         absl::c_linear_search(model.user_features(), feature.name());
}

// Errors for the features that are given a label, whole or in part. A history leaves out a row's
// own value. A feature that others are made of is told by itself.
void CheckIsNoInput(const JobReader& reader, const proto::LabelSpec& label) {
  const std::string& own = label.feature();
  const FeatureSpec* const of = own.empty() ? nullptr : reader.job->FindFeature(own);
  const std::string column = of != nullptr ? of->column() : own.empty() ? label.column() : "";
  for (const FeatureSpec& feature : reader.job->dataset.features()) {
    if (feature.name() == own || !feature.history_of().empty()) continue;
    const std::string path = absl::StrCat("features.", feature.name());
    const auto given = [&](const std::string& key, absl::string_view what) {
      reader.Error(key, absl::StrCat(what, ": the model would be given what it is to predict"));
    };
    if (!column.empty() && feature.column() == column) {
      given(path, absl::StrCat("reads the column '", column, "', the label's"));
    } else if (!column.empty() && absl::c_linear_search(feature.columns(), column)) {
      given(absl::StrCat(path, ".columns"),
            absl::StrCat("wanted columns without the label's, found '", column, "'"));
    } else if (of != nullptr && CrossesLabel(reader, feature, own)) {
      given(absl::StrCat(path, ".features"),
            absl::StrCat("wanted features other than the label, found '", own, "'"));
    }
  }
}

}  // namespace

void ReadLabel(const JobReader& reader) {
  const ModelKind& kind = KindOf(*reader.job->model);
  if (absl::c_linear_search(kind.says, PredictionKind::kTasks)) return ReadTasks(reader);
  if (reader.job->locations.count("labels") > 0) {
    reader.Error("labels", absl::StrCat("a ", kind.name, " has one label: give `label`; several ",
                                        "are for models of several tasks"));
  }
  if (!reader.Good("label")) return;
  const JobFormat& format = FormatOf(*reader.job);
  if (format.label == JobFormat::Label::kNone) {
    if (reader.job->locations.count("label") > 0) {
      reader.Error("label", absl::StrCat("a ", format.name, " has none"));
    }
    return;
  }
  const SectionView view = reader.file.Sub("label");
  const ModelSpec& model = *reader.job->model;
  const bool predicts_item = KindOf(model).predicts == Predicts::kItem;
  proto::LabelSpec* label = reader.job->dataset.mutable_label();
  reader.Read("label", view, label);
  CheckNegatives(reader, label);
  if (!predicts_item && label->column().empty() && label->feature().empty()) {
    label->set_column(format.label_column);
  }
  CheckWeight(reader, "label", label->weight());
  const bool positive = view.Has("positive") || view.Has("positive_values");
  ReadPositives(reader, view, "label", label);
  if (positive && (predicts_item || model.classes() > 1)) {
    reader.Error(view.Has("positive") ? "label.positive" : "label.positive_values",
                 "this is for labels that become 0 and 1, and this model's do not");
  }
  if (predicts_item) {
    const std::string item = model.item();
    if (label->feature().empty()) label->set_feature(item);
    if (label->feature() != item) {
      reader.Error("label.feature",
                   absl::StrCat("a ", KindOf(model).name, " predicts its item, '", item, "'"));
    }
    if (view.Has("column")) {
      reader.Error("label.column",
                   absl::StrCat("a ", KindOf(model).name, " predicts its item, '", item, "'"));
    }
    return;
  }
  CheckLabelSource(reader);
  if (KindOf(*reader.job->loss).prediction == PredictionKind::kOrder && !label->weight().empty()) {
    reader.Error("label.weight", "a loss of queries has no weights of rows");
  }
  SetLabelRange(*reader.job->loss, model.classes(), label);
  // Of labels between 0 and 1 the odds would be others.
  if (data::LeavesOutNegatives(*label)) label->set_whole(true);
  if (!label->feature().empty()) SetLabelBuckets(reader, label->feature());
}

void CheckNoLabelIsInput(const JobReader& reader) {
  const proto::DatasetSpec& data = reader.job->dataset;
  if (data.has_label()) CheckIsNoInput(reader, data.label());
  for (const proto::LabelSpec& label : data.labels()) CheckIsNoInput(reader, label);
}

}  // namespace coxswain::job
