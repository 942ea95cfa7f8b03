// `coxswain recommend`: for users of the training data, for all of them, for someone who has named
// items, or for someone who is described by values.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/name_list.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/cli/open_model.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/prediction_output.h"
#include "coordinator/cli/user_values.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/predict/csv_field.h"
#include "coordinator/predict/line_format.h"
#include "coordinator/predict/recommender.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::cli {
namespace {

using predict::Choice;
using predict::Recommender;

constexpr size_t kUsersAtOnce = 4096;

absl::StatusOr<std::vector<std::string>> KnownItems(const RecommendFlags& flags) {
  std::vector<std::string> items = flags.items;
  for (const std::string& list : flags.item_lists) {
    auto names = SplitNames(list);
    if (!names.ok()) return AsConfiguration(Annotate(names.status(), "--items"));
    items.insert(items.end(), names->begin(), names->end());
  }
  return items;
}

predict::RecommendOptions OptionsOf(const RecommendFlags& flags) {
  return {.top = flags.top, .include_known = flags.include_known};
}

int NobodyOf(const std::vector<std::string>& groups, const std::string& where) {
  for (const std::string& group : groups) {
    std::fprintf(stderr, "error: '%s' is not in %s\n", group.c_str(), where.c_str());
  }
  return groups.empty() ? kExitDone : kExitUsage;
}

// An answer without items is no failure, but the reason is told.
void NothingLeft(const std::string& whom, const RecommendFlags& flags) {
  const char* const why =
      flags.include_known ? "" : ": all items are known; --include-known suggests them, too";
  std::fprintf(stderr, "note: there is nothing to suggest%s%s\n",
               whom.empty() ? "" : absl::StrCat(" to '", whom, "'").c_str(), why);
}

std::string WhereUsersAre(const Recommender& recommender) {
  const std::string named = job::UserOf(recommender.predictor().job());
  if (!named.empty()) {
    return absl::StrCat("the values of '", named, "' that the model was trained with");
  }
  return "the histories that the model was trained on; --items asks for someone who has these";
}

int PrintForUsers(const Recommender& recommender, const RecommendFlags& flags) {
  std::vector<Recommender::Whom> users;
  std::vector<runner::Suggestions> suggestions;
  std::vector<std::string> unknown;
  for (const std::string& name : flags.groups) {
    auto user = recommender.User(name);
    if (user.ok()) {
      users.push_back(*std::move(user));
      suggestions.emplace_back().group = name;
    } else if (absl::IsNotFound(user.status())) {
      unknown.push_back(name);
    } else {
      return Complain(AsUsersMistake(user.status()));
    }
  }
  const auto all = recommender.RecommendTo(users, OptionsOf(flags));
  if (!all.ok()) return Complain(AsUsersMistake(all.status()));
  for (size_t i = 0; i < users.size(); ++i) {
    for (const Choice& choice : (*all)[i]) {
      suggestions[i].items.push_back(recommender.predictor().NameOf(choice.id));
    }
    if ((*all)[i].empty()) NothingLeft(suggestions[i].group, flags);
  }
  std::printf("%s", FormatSuggestions(suggestions).c_str());
  return NobodyOf(unknown, WhereUsersAre(recommender));
}

// CSV, one line per user.
absl::Status WriteAllUsers(const Recommender& recommender, const RecommendFlags& flags) {
  const auto users = recommender.Users();
  if (!users.ok()) return AsConfiguration(users.status());
  auto output = PredictionOutput::Open(flags.output);
  if (!output.ok()) return AsConfiguration(output.status());
  const std::vector<std::string>& names = **users;
  std::string lines = "user";
  for (int i = 1; i <= flags.top; ++i) absl::StrAppend(&lines, ",item_", i, ",score_", i);
  lines += "\n";
  for (size_t begin = 0; begin < names.size(); begin += kUsersAtOnce) {
    if (InterruptScope::interrupted()) return absl::CancelledError("interrupted");
    std::vector<Recommender::Whom> some;
    for (size_t u = begin; u < std::min(names.size(), begin + kUsersAtOnce); ++u) {
      ASSIGN_OR_RETURN(some.emplace_back(), recommender.User(names[u]));
    }
    const auto found = recommender.RecommendTo(some, OptionsOf(flags));
    if (!found.ok()) return AsUsersMistake(found.status());
    const std::vector<std::vector<Choice>>& all = *found;
    for (size_t i = 0; i < some.size(); ++i) {
      predict::AppendField(names[begin + i], &lines);
      for (int n = 0; n < flags.top; ++n) {
        lines.push_back(',');
        const bool there = static_cast<size_t>(n) < all[i].size();
        if (there) predict::AppendField(recommender.predictor().NameOf(all[i][n].id), &lines);
        lines.push_back(',');
        if (there) predict::AppendNumber(all[i][n].score, &lines);
      }
      lines.push_back('\n');
    }
    RETURN_IF_ERROR((*output)->Write(lines));
    lines.clear();
  }
  if (names.empty()) RETURN_IF_ERROR((*output)->Write(lines));
  return (*output)->Finish();
}

// Models of earlier versions keep no histories: their data is read again.
int ForGroupsOfData(const RecommendFlags& flags) {
  auto job = ReadEvaluatedJob(/*file=*/"", flags.from.model_dir, {});
  if (!job.ok()) return Complain(AsUsersMistake(job.status()));
  auto model = OpenModel(*std::move(job), flags.from);
  if (!model.ok()) return Complain(model.status());
  runner::JobRunner* const runner = model->runner.get();
  auto suggestions = runner->Recommend(flags.groups, flags.top);
  if (!suggestions.ok()) return Complain(AsConfiguration(suggestions.status()));
  std::printf("%s", FormatSuggestions(*suggestions).c_str());
  std::vector<std::string> unknown;
  for (const std::string& group : flags.groups) {
    const auto history = runner->data().HistoryOf(group, /*in_order=*/false);
    if (!history.ok()) return Complain(history.status());
    if (!*history) unknown.push_back(group);
  }
  return NobodyOf(unknown, "the job's data");
}

int PrintFor(const Recommender& recommender, const absl::StatusOr<Recommender::Whom>& whom,
             const RecommendFlags& flags) {
  if (!whom.ok()) return Complain(AsUsersMistake(whom.status()));
  const auto all = recommender.RecommendTo({&*whom, 1}, OptionsOf(flags));
  if (!all.ok()) return Complain(AsUsersMistake(all.status()));
  for (const Choice& choice : (*all)[0]) {
    std::printf("%s\n", recommender.predictor().NameOf(choice.id).c_str());
  }
  if ((*all)[0].empty()) NothingLeft("", flags);
  return kExitDone;
}

// Someone who is described by NAME=VALUE. Each column must be there; a list that is not is empty.
absl::StatusOr<Recommender::Whom> DescribedBy(const Recommender& recommender,
                                              const std::vector<std::string>& pairs) {
  ASSIGN_OR_RETURN(std::vector<RawValue> values, ValuesOf(recommender.columns(), pairs));
  return recommender.WithValues(std::move(values));
}

absl::Status CheckOutput(const RecommendFlags& flags) {
  if (flags.output.empty()) return absl::OkStatus();
  std::vector<CommandInput> inputs = OriginsOf(flags.from);
  AddInputsOf(flags.where, &inputs);
  return PredictionOutput::Check(flags.output, flags.force, inputs);
}

absl::StatusOr<std::unique_ptr<Recommender>> LoadRecommender(const RecommendFlags& flags) {
  ASSIGN_OR_RETURN(std::shared_ptr<const predict::Predictor> predictor,
                   LoadPredictor(flags.from, /*verify=*/false, "", OpenerOf(flags.where)));
  return Recommender::Create(std::move(predictor));
}

int Answer(const Recommender& recommender, const std::vector<std::string>& items,
           const RecommendFlags& flags) {
  if (flags.batch) {
    const absl::Status written = WriteAllUsers(recommender, flags);
    return written.ok() ? static_cast<int>(kExitDone) : Complain(written);
  }
  if (!flags.values.empty()) {
    return PrintFor(recommender, DescribedBy(recommender, flags.values), flags);
  }
  if (!items.empty()) return PrintFor(recommender, recommender.WithItems(items), flags);
  if (recommender.described_by_items() && recommender.history() == nullptr) {
    return ForGroupsOfData(flags);
  }
  return PrintForUsers(recommender, flags);
}

}  // namespace

int Recommend(const RecommendFlags& flags) {
  const auto items = KnownItems(flags);
  if (!items.ok()) return Complain(items.status());
  if (absl::Status s = CheckOutput(flags); !s.ok()) return Complain(s);
  std::atomic<bool> stopped{false};
  absl::Mutex mutex;
  const Recommender* asked = nullptr;
  const InterruptScope scope([&] {
    stopped = true;
    absl::MutexLock lock(&mutex);
    if (asked != nullptr) asked->predictor().Interrupt();
  });
  const auto recommender = LoadRecommender(flags);
  if (!recommender.ok()) return Complain(AsUsersMistake(recommender.status()));
  {
    absl::MutexLock lock(&mutex);
    asked = recommender->get();
  }
  const int code =
      stopped ? static_cast<int>(kExitInterrupted) : Answer(**recommender, *items, flags);
  absl::MutexLock lock(&mutex);
  asked = nullptr;
  return stopped && code != kExitDone ? static_cast<int>(kExitInterrupted) : code;
}

}  // namespace coxswain::cli
