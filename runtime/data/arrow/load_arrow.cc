#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "runtime/data/arrow/arrow_file.h"

namespace coxswain::data {
namespace {

constexpr char kPlugin[] = "libcoxswain_arrow.so";
constexpr char kPluginVariable[] = "COXSWAIN_ARROW_PLUGIN";

absl::StatusOr<const CoxArrowApi*> Load() {
  const auto path = FindPlugin(kPlugin, kPluginVariable);
  if (!path.ok()) {
    return absl::NotFoundError(absl::StrCat(
        "it is read by Apache Arrow, and this build of Coxswain has no plugin for it ",
        path.status().message(), ": `./dev build` fetches Arrow from PyPI and builds the plugin; ",
        "so does a build where Arrow and Parquet for C++ are installed"));
  }
  ASSIGN_OR_RETURN(void* const function, LoadPluginFunction(*path, COX_ARROW_API_SYMBOL));
  const CoxArrowApi* const api = reinterpret_cast<CoxArrowApiFunction>(function)();
  if (api->version != COX_ARROW_API_VERSION || api->size != sizeof(CoxArrowApi)) {
    return absl::FailedPreconditionError(absl::StrCat(*path, " is of version ", api->version,
                                                      " of the plugin's table, wanted ",
                                                      COX_ARROW_API_VERSION, ": build it anew"));
  }
  return api;
}

}  // namespace

absl::StatusOr<const CoxArrowApi*> LoadArrowPlugin() {
  static const auto* const loaded = new absl::StatusOr<const CoxArrowApi*>(Load());
  return *loaded;
}

}  // namespace coxswain::data
