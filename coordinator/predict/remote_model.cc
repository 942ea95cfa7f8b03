#include "coordinator/predict/remote_model.h"

#include <algorithm>
#include <utility>

#include "coordinator/job/model_kind.h"
#include "coordinator/model/as_evaluated.h"
#include "coordinator/model/product_model.h"
#include "coordinator/model/saved_model.h"
#include "runtime/base/status.h"

namespace coxswain::predict {
namespace {

// For each worker: one that runs, and the next.
constexpr int kClosuresPerWorker = 2;
constexpr int kMostClosures = 64;  // a thread waits for each

}  // namespace

RemoteModel::RemoteModel(Cluster cluster, job::JobSpec job, const data::Dataset& data)
    : cluster_(std::move(cluster)),
      job_(std::move(job)),
      strategy_(cluster_, {.compute = job_.train.compute}),
      variables_(&strategy_),
      parts_(&variables_, job_, data),
      coordinator_(strategy_, {.on_error = ErrorPolicy::kIgnore}) {}  // each call has its own

absl::StatusOr<std::unique_ptr<RemoteModel>> RemoteModel::Create(Cluster cluster,
                                                                 const job::JobSpec& job,
                                                                 const data::Dataset& data,
                                                                 const model::SavedSource& source) {
  std::unique_ptr<RemoteModel> remote(
      new RemoteModel(std::move(cluster), model::AsEvaluated(job), data));
  RETURN_IF_ERROR(remote->parts_.CreateTables());
  RETURN_IF_ERROR(remote->job_.model->CreateVariables(&remote->parts_));
  RETURN_IF_ERROR(model::LoadVariables(source, &remote->strategy_));
  const auto* const of = dynamic_cast<const model::ProductModel*>(remote->job_.model.get());
  if (of != nullptr) remote->search_.emplace(&remote->strategy_, *of, remote->parts_);
  return remote;
}

absl::StatusOr<RemoteFunction> RemoteModel::Define(
    const graph::Function& local, const std::function<void(FunctionBuilder&)>& build) {
  return strategy_.Define(local.name, [&](FunctionBuilder& f) {
    for (const graph::Function::Argument& argument : local.arguments) {
      f.Argument(argument.name, argument.type.dtype, argument.type.shape);
    }
    build(f);
  });
}

absl::StatusOr<std::vector<Tensor>> RemoteModel::Run(const RemoteFunction& function,
                                                     std::vector<Tensor> arguments) {
  if (cancelled_) return absl::CancelledError("interrupted");
  return coordinator_.Schedule(function, std::move(arguments)).Get();
}

absl::StatusOr<model::BestItems> RemoteModel::Best(const Tensor& users, int64_t k) {
  if (!search_) return absl::FailedPreconditionError("the model has no items");
  return search_->Best(users, k, [this] { return cancelled_.load(); });
}

void RemoteModel::Cancel() {
  cancelled_ = true;
  coordinator_.Cancel();
  if (search_) search_->Cancel();
}

int RemoteModel::closures() const {
  return std::min(kMostClosures, kClosuresPerWorker * std::max(1, cluster_.num_workers()));
}

}  // namespace coxswain::predict
