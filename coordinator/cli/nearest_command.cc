#include "coordinator/cli/nearest_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/name_list.h"
#include "coordinator/model/named_rows.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/predict/item_vectors.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace coxswain::cli {
namespace {

using nlohmann::ordered_json;

using Question = model::NamedRows::Question;

absl::StatusOr<std::vector<std::string>> SplitAll(const char* flag,
                                                  const std::vector<std::string>& lists) {
  std::vector<std::string> all;
  for (const std::string& list : lists) {
    auto names = SplitNames(list);
    if (!names.ok()) return Annotate(names.status(), flag);
    all.insert(all.end(), names->begin(), names->end());
  }
  return all;
}

absl::StatusOr<std::vector<Question>> Questions(const NearestFlags& flags) {
  std::vector<Question> questions;
  for (const std::string& word : flags.words) questions.push_back({word, {{word, 1.0}}});
  if (flags.plus.empty() && flags.minus.empty()) return questions;
  ASSIGN_OR_RETURN(const auto plus, SplitAll("--plus", flags.plus));
  ASSIGN_OR_RETURN(const auto minus, SplitAll("--minus", flags.minus));
  Question sum;
  for (const std::string& word : plus) {
    absl::StrAppend(&sum.text, sum.text.empty() ? "" : " + ", word);
    sum.terms.emplace_back(word, 1.0);
  }
  for (const std::string& word : minus) {
    absl::StrAppend(&sum.text, sum.text.empty() ? "-" : " - ", word);
    sum.terms.emplace_back(word, -1.0);
  }
  questions.push_back(std::move(sum));
  return questions;
}

// Where these are items that have features; without a job nothing says that they have.
absl::Status UseVectors(const SavedFlags& from, model::NamedRows* table) {
  const auto job = model::ReadKeptJob(KeptIn(from), KeptAs(from));
  if (absl::IsNotFound(job.status())) {
    const absl::Status lost = model::CheckModelFile(KeptIn(from), "job.yaml", KeptAs(from));
    return absl::IsNotFound(lost) ? absl::OkStatus() : lost;
  }
  RETURN_IF_ERROR(job.status());
  if (!predict::DescribesItems(*job, table->table())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto predictor, LoadPredictor(from, /*verify=*/false, /*row_format=*/"",
                                                       /*open_cluster=*/nullptr));
  return predict::UseItemVectors(*predictor, table);
}

absl::StatusOr<model::NamedRows> OpenTable(const SavedFlags& from, const std::string& name) {
  ASSIGN_OR_RETURN(model::SavedSource source, OpenSaved(from));
  const bool verify = !from.verified;
  if (verify && source.is_checkpoint()) RETURN_IF_ERROR(model::VerifySource(source));
  if (source.is_checkpoint()) RETURN_IF_ERROR(model::NameRows(from.checkpoint_dir, &source));
  ASSIGN_OR_RETURN(auto table, model::NamedRows::Open(source, name));
  if (verify && !source.is_checkpoint()) {  // no more of it than is read
    ASSIGN_OR_RETURN(const model::SavedRows rows, source.Open(table.table()));
    RETURN_IF_ERROR(rows.Verify());
  }
  RETURN_IF_ERROR(UseVectors(from, &table));
  return table;
}

absl::Status Nearest(const NearestFlags& flags) {
  ASSIGN_OR_RETURN(const model::NamedRows table,
                   ReadSaved(flags.from, model::Verify::kBytes, [&flags](const SavedFlags& one) {
                     return OpenTable(one, flags.table);
                   }));
  ASSIGN_OR_RETURN(const std::vector<Question> questions, Questions(flags));
  const auto pool =
      env::NewComputePool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  ASSIGN_OR_RETURN(const auto answers, table.Nearest(questions, flags.top, pool.get()));
  ordered_json json = ordered_json::array();
  for (size_t q = 0; q < questions.size(); ++q) {
    ordered_json found = ordered_json::array();
    if (!flags.json) std::printf("%s%s\n", q == 0 ? "" : "\n", questions[q].text.c_str());
    for (const model::NamedRows::Answer& n : answers[q]) {
      if (!flags.json) std::printf("  %7.4f  %s\n", n.cosine, n.name.c_str());
      found.push_back({{"word", n.name}, {"id", n.id}, {"cosine", n.cosine}});
    }
    json.push_back({{"of", questions[q].text}, {"nearest", std::move(found)}});
  }
  if (flags.json) {
    std::printf("%s\n", json.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int NearestCommand(const NearestFlags& flags) {
  if (absl::Status s = Nearest(flags); !s.ok()) return ComplainOfSaved(s);
  return kExitDone;
}

}  // namespace coxswain::cli
