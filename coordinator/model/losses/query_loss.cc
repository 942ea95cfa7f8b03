#include "coordinator/model/losses/query_loss.h"

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_sections.h"

namespace coxswain::model {

void QueryLoss::Check(const job::JobReader& reader) const {
  if (!reader.job->dataset.query().empty()) return;
  reader.Error("loss", absl::StrCat("a loss of queries wants dataset.query, the column that says ",
                                    "which rows are one"));
}

}  // namespace coxswain::model
