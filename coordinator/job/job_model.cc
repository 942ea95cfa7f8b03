// model and loss: the keys that all kinds share.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_format.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "runtime/base/logging.h"

namespace coxswain::job {
namespace {

// Once there is a model.
void SetLoss(const JobReader& reader) {
  if (!reader.Good("loss")) return;
  reader.job->loss = ReadLoss(reader, reader.file.Sub("loss"));
  const LossKind* const kind = &KindOf(*reader.job->loss);
  const ModelKind& model = KindOf(*reader.job->model);
  const int64_t classes = reader.job->model->classes();
  const auto allowed = LossesOf(model, classes);
  if (std::find(allowed.begin(), allowed.end(), kind) == allowed.end()) {
    const auto append = [](std::string* out, const LossKind* other) { out->append(other->name); };
    reader.Error("loss.kind", absl::StrCat(kind->name, " is not for a ", model.name,
                                           classes > 1 ? " with classes" : "",
                                           "; it has: ", absl::StrJoin(allowed, ", ", append)));
  }
}

}  // namespace

std::shared_ptr<const LossSpec> ReadLoss(const JobReader& reader, const SectionView& view) {
  const std::string name = view.String("kind");
  const LossKind* kind = FindLossKind(name);
  COX_CHECK(kind != nullptr, name);  // the schema knows no other
  const std::shared_ptr<LossSpec> loss = kind->read(view);
  loss->kind_ = kind;
  loss->Check(reader);
  return loss;
}

std::string DefaultLoss(const config::YamlNode& file) {
  const config::YamlEntry* model = file.Find("model");
  const config::YamlEntry* name = model == nullptr ? nullptr : model->value.Find("kind");
  const config::YamlEntry* classes = model == nullptr ? nullptr : model->value.Find("classes");
  int64_t count = 1;
  if (classes != nullptr && !absl::SimpleAtoi(classes->value.text, &count)) count = 1;
  const ModelKind* kind = name == nullptr ? nullptr : FindModelKind(name->value.text);
  return kind == nullptr ? "" : LossesOf(*kind, count)[0]->name;
}

bool ReadModel(const JobReader& reader) {
  if (!reader.Good("model")) return false;
  const SectionView view = reader.file.Sub("model");
  const ModelKind* kind = FindModelKind(view.String("kind"));
  COX_CHECK(kind != nullptr, view.String("kind"));  // the schema knows no other
  const std::shared_ptr<ModelSpec> model = kind->read(view);
  model->kind_ = kind;
  reader.job->model = model;
  model->Complete(reader);
  const JobFormat& format = FormatOf(*reader.job);
  if (!format.has_rows && kind->predicts != Predicts::kNeighbours) {
    reader.Error("model.kind",
                 absl::StrCat("a ", format.name, " is for ", KindsThat(Predicts::kNeighbours)));
  }
  SetLoss(reader);
  return reader.Good("model") && reader.Good("loss");
}

}  // namespace coxswain::job
