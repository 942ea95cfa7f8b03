#include "coordinator/serve/model_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/model/model_directory.h"
#include "coordinator/model/unreplaced.h"
#include "runtime/base/status.h"
#include "runtime/env/file_system.h"
#include "runtime/env/lost_pages.h"

namespace coxswain::serve {
namespace {

// Each try reads the whole model.
constexpr absl::Duration kLongestPause = absl::Minutes(1);

}  // namespace

ModelWatch::ModelWatch(std::string directory, Loaded loaded, Events events, absl::Duration every)
    : directory_(std::move(directory)),
      events_(std::move(events)),
      every_(every),
      loaded_(std::move(loaded)),
      thread_([this] { Watch(); }) {}

ModelWatch::~ModelWatch() {
  ending_.Notify();
  thread_.join();
}

std::string ModelWatch::IdentityOf(const std::string& directory) {
  const std::string manifest = absl::StrCat(directory, "/", model::kModelManifest);
  std::string identity = model::FileIdentity(manifest);
  if (identity.empty()) return "";
  for (const std::string& name : model::FilesOfModel(env::NewRealFileSystem().get(), directory)) {
    absl::StrAppend(&identity, "\n", model::FileIdentity(absl::StrCat(directory, "/", name)));
  }
  return identity;
}

void ModelWatch::Watch() {
  while (!ending_.WaitForNotificationWithTimeout(every_)) Look();
}

void ModelWatch::Look() {
  const std::string there = IdentityOf(directory_);
  if (there.empty()) return;
  if (there == loaded_.identity && env::LostPages() == loaded_.lost_pages) {
    failed_.clear();
    error_.clear();
    return;
  }
  if (there == failed_ && absl::Now() < again_) return;
  const absl::Status loaded = Load(there);
  if (!loaded.ok()) NoteFailure(there, loaded);
}

absl::Status ModelWatch::Load(const std::string& identity) {
  ASSIGN_OR_RETURN(ServedPtr model, LoadServed(directory_, /*verify=*/true));
  // A file may have been replaced between its verification and its use.
  if (IdentityOf(directory_) != identity) return model::ReplacedError(directory_);
  loaded_ = {identity, model->lost_pages};
  failed_.clear();
  error_.clear();
  events_.on_newer(std::move(model));
  return absl::OkStatus();
}

void ModelWatch::NoteFailure(const std::string& identity, const absl::Status& status) {
  pause_ = identity == failed_ ? std::min(2 * pause_, kLongestPause) : every_;
  failed_ = identity;
  again_ = absl::Now() + pause_;
  const bool said = error_ == status.message();
  error_ = std::string(status.message());
  events_.on_error(status, said);
}

}  // namespace coxswain::serve
