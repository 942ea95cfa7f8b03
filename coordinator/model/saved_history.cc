// What groups there are: those of a history, or users by name; what they had in the model that
// training went on from (EarlierHistory); writing them; and reading them.
#include "coordinator/model/saved_history.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::model {
namespace {

constexpr char kFolder[] = "history";
constexpr char kGroups[] = "history/groups.txt";
constexpr char kValuesFile[] = "history/values.safetensors";
constexpr char kIncomplete[] = "history/incomplete";
constexpr char kOrdered[] = "history/ordered";
constexpr int64_t kRowsAtATime = int64_t{1} << 16;
constexpr size_t kWritten = size_t{256} << 10;  // bytes of names at a time
constexpr char kOffsets[] = "offsets", kValues[] = "values";

int64_t At(const Tensor& values, int64_t i) {
  return values.dtype() == DType::kI64 ? values.data<int64_t>()[i] : values.data<int32_t>()[i];
}

absl::Status Damaged(const std::string& directory, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(directory, "/", kValuesFile, ": ", what));
}

// The groups, which can be gone through several times.
struct Groups {
  int64_t count = 0;
  std::function<absl::Status(const data::Dataset::VisitGroup&)> visit;
};

// Users of the training rows, ascending, and what each of them has of items, ascending, too.
struct Lists {
  std::vector<int64_t> users, offsets, items;

  absl::Span<const int64_t> Of(int64_t user) const {
    const auto found = std::lower_bound(users.begin(), users.end(), user);
    if (found == users.end() || *found != user) return {};
    const auto at = static_cast<size_t>(found - users.begin());
    const auto begin = static_cast<size_t>(offsets[at]), end = static_cast<size_t>(offsets[at + 1]);
    return absl::MakeConstSpan(items).subspan(begin, end - begin);
  }
};

// Null: the rows do not say it.
absl::StatusOr<std::shared_ptr<const Lists>> ListsOf(const data::Dataset& data,
                                                     const std::string& user,
                                                     const std::string& item) {
  const auto& columns = data.columns(Part::kTraining);
  const auto find = [&](const std::string& name) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const data::ColumnSpec& c) { return c.name == name; });
    return static_cast<size_t>(found - columns.begin());
  };
  const size_t of_user = find(user), of_item = find(item);
  if (std::max(of_user, of_item) >= columns.size()) return nullptr;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const int64_t examples = data.num_examples(Part::kTraining);
  for (int64_t begin = 0; begin < examples; begin += kRowsAtATime) {
    const Ticket ticket{Part::kTraining, 0, begin, std::min(examples, begin + kRowsAtATime)};
    ASSIGN_OR_RETURN(const data::Batch batch, data.Read(ticket));
    for (int64_t i = 0; i < batch[of_user].num_elements(); ++i) {
      pairs.emplace_back(batch[of_user].data<int64_t>()[i], batch[of_item].data<int64_t>()[i]);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  auto lists = std::make_shared<Lists>();
  for (const auto& [id, value] : pairs) {
    if (lists->users.empty() || lists->users.back() != id) {
      lists->users.push_back(id);
      lists->offsets.push_back(static_cast<int64_t>(lists->items.size()));
    }
    lists->items.push_back(value);
  }
  lists->offsets.push_back(static_cast<int64_t>(lists->items.size()));
  return lists;
}

using Names = std::shared_ptr<const std::vector<std::string>>;

// The users of a feature by their names: the values, or the ids where these are not kept.
Names NamesOf(const data::Dataset& data, const std::string& user,
              const std::shared_ptr<const data::Vocabulary>& values, const Lists& lists) {
  if (values->texts() != nullptr) return {values, values->texts()};
  if (auto kept = data.names(user)) {
    return std::make_shared<const std::vector<std::string>>(*std::move(kept));
  }
  std::vector<std::string> ids;
  for (const int64_t id : lists.users) ids.push_back(absl::StrCat(id));
  return std::make_shared<const std::vector<std::string>>(std::move(ids));
}

absl::StatusOr<Groups> GroupsOf(const data::Dataset& data, const job::JobSpec& job) {
  ASSIGN_OR_RETURN(const int64_t groups, data.CountGroups());
  if (groups > 0) {
    return Groups{
        groups, [&data](const auto& visit) { return data.VisitGroups(/*in_order=*/true, visit); }};
  }
  const std::string user = job::UserOf(job);
  const auto values = user.empty() ? nullptr : data.shared_vocabulary(user);
  // A streamed data set would be read once more.
  if (values == nullptr || data.index() != nullptr) return Groups();
  const bool buckets = values->texts() == nullptr && !values->unbounded();
  if (buckets) return Groups();  // their users are not told apart
  ASSIGN_OR_RETURN(const auto lists, ListsOf(data, user, job::ItemOf(*job.model)));
  if (lists == nullptr) return Groups();
  const Names names = NamesOf(data, user, values, *lists);
  const bool by_id = GroupsAreIds(job);
  return Groups{static_cast<int64_t>(names->size()), [=](const auto& visit) {
                  for (size_t g = 0; g < names->size(); ++g) {
                    const auto id = by_id ? lists->users[g] : values->Find((*names)[g]);
                    RETURN_IF_ERROR(visit((*names)[g], lists->Of(*id)));
                  }
                  return absl::OkStatus();
                }};
}

// The feature whose ids histories have.
std::string ValuesOf(const job::JobSpec& job) {
  const proto::FeatureSpec* const history = data::FindHistory(job.dataset);
  return history != nullptr ? history->history_of() : job::ItemOf(*job.model);
}

bool HasOrder(const job::JobSpec& job) {
  const proto::FeatureSpec* const history = data::FindHistory(job.dataset);
  return history != nullptr && !history->by().empty();
}

// `job`: whose they are.
bool IsInOrder(const SavedHistory& history, const job::JobSpec& job) {
  const bool always_was = job::KindOf(*job.model).name == absl::string_view("sasrec");
  return HasOrder(job) && (history.ordered() || always_was);
}

// The histories that the model has that training went on from, by the ids of the job.
class EarlierHistory {
 public:
  // Errors: why they cannot be used.
  static absl::StatusOr<EarlierHistory> Open(const EarlierModel& earlier, const job::JobSpec& job,
                                             const data::Dataset& data) {
    if (earlier.inputs.empty()) return absl::NotFoundError("it has no files but its variables");
    const auto files = env::NewRealFileSystem();
    const bool is_model = files->Exists(absl::StrCat(earlier.inputs, "/", kSavedModel.file));
    ASSIGN_OR_RETURN(const job::JobSpec old,
                     ReadKeptJob(earlier.inputs, is_model ? kSavedModel : kSavedInputs));
    RETURN_IF_ERROR(CheckAlike(earlier.names, job, old));
    ASSIGN_OR_RETURN(SavedHistory history,
                     SavedHistory::Load(earlier.inputs, std::numeric_limits<int64_t>::max()));
    EarlierHistory opened(std::move(history), old);
    if (data::LastOfHistory(job.dataset) > 0 && !opened.in_order()) {
      return absl::NotFoundError("its histories are kept without their order");
    }
    const std::string feature = ValuesOf(job);
    const auto values = data.shared_vocabulary(feature);
    if (values == nullptr || values->texts() == nullptr) return opened;
    ASSIGN_OR_RETURN(const SavedWords words,
                     SavedWords::Load(absl::StrCat(earlier.inputs, "/vocabulary/",
                                                   earlier.names.OldFeature(feature), ".txt")));
    opened.ids_.emplace();
    for (const std::string& word : words.words()) {
      const std::optional<int64_t> id = data.Lookup(feature, word);
      const bool is_value = id && *id < static_cast<int64_t>(values->texts()->size());
      opened.ids_->push_back(is_value ? *id : -1);
    }
    return opened;
  }

  bool complete() const { return history_->complete(); }
  bool in_order() const { return in_order_; }
  const std::vector<std::string>& groups() const { return history_->groups(); }
  std::optional<int64_t> Find(const std::string& group) const { return history_->Find(group); }
  // What a group had, but for values that the job does not know.
  std::vector<int64_t> Values(int64_t group) const {
    std::vector<int64_t> values = history_->Values(group);
    if (!ids_) return values;
    size_t kept = 0;
    for (const int64_t value : values) {
      const bool known = value < static_cast<int64_t>(ids_->size());
      const int64_t id = known ? (*ids_)[static_cast<size_t>(value)] : -1;
      if (id >= 0) values[kept++] = id;
    }
    values.resize(kept);
    return values;
  }

 private:
  EarlierHistory(SavedHistory history, const job::JobSpec& old)
      : history_(std::make_shared<const SavedHistory>(std::move(history))),
        in_order_(IsInOrder(*history_, old)) {}

  // Whether groups and values stand for the same in both jobs.
  static absl::Status CheckAlike(const NameMap& names, const job::JobSpec& job,
                                 const job::JobSpec& old) {
    const std::string values = ValuesOf(job);
    const proto::FeatureSpec* const now = job.FindFeature(values);
    const proto::FeatureSpec* const then = old.FindFeature(names.OldFeature(values));
    const bool same_ids = now != nullptr && then != nullptr && ValuesOf(old) == then->name() &&
                          now->id() == then->id() && now->hash_buckets() == then->hash_buckets();
    const std::string user = job::UserOf(job), old_user = job::UserOf(old);
    const bool same_users = user.empty() ? GroupColumn(job) == GroupColumn(old) && old_user.empty()
                                         : names.OldFeature(user) == old_user;
    if (same_ids && same_users && GroupsAreIds(job) == GroupsAreIds(old)) {
      return absl::OkStatus();
    }
    return absl::NotFoundError("its histories are of other things");
  }

  std::shared_ptr<const SavedHistory> history_;
  bool in_order_ = false;
  std::optional<std::vector<int64_t>> ids_;  // by the other model's; nothing: they are the same
};

// Each value as often as in the list that has it most often: data that is read on several days
// counts once. In their order, earlier ones first, or ascending.
std::vector<int64_t> Joined(const std::vector<int64_t>& before, absl::Span<const int64_t> now,
                            bool in_order) {
  absl::flat_hash_map<int64_t, int64_t> counts;
  for (const int64_t value : now) ++counts[value];
  std::vector<int64_t> joined;
  for (const int64_t value : before) {
    if (counts[value]-- <= 0) joined.push_back(value);
  }
  joined.insert(joined.end(), now.begin(), now.end());
  if (!in_order) std::sort(joined.begin(), joined.end());
  return joined;
}

absl::StatusOr<Groups> JoinedGroups(Groups now, EarlierHistory before, bool in_order) {
  auto seen = std::make_shared<std::vector<bool>>(before.groups().size());
  RETURN_IF_ERROR(now.visit([&](const std::string& name, auto) {
    if (const auto group = before.Find(name)) (*seen)[static_cast<size_t>(*group)] = true;
    return absl::OkStatus();
  }));
  const int64_t only_before = std::count(seen->begin(), seen->end(), false);
  return Groups{now.count + only_before, [=](const data::Dataset::VisitGroup& visit) {
                  RETURN_IF_ERROR(now.visit([&](const std::string& name, auto values) {
                    const auto group = before.Find(name);
                    if (!group) return visit(name, values);
                    return visit(name, Joined(before.Values(*group), values, in_order));
                  }));
                  for (size_t i = 0; i < seen->size(); ++i) {
                    if ((*seen)[i]) continue;
                    std::vector<int64_t> values = before.Values(static_cast<int64_t>(i));
                    if (!in_order) std::sort(values.begin(), values.end());
                    RETURN_IF_ERROR(visit(before.groups()[i], values));
                  }
                  return absl::OkStatus();
                }};
}

// Those that have values: others have rows in held-out parts alone, and are not known to the model.
absl::StatusOr<Groups> WithValues(Groups all) {
  int64_t count = 0;
  RETURN_IF_ERROR(all.visit([&](const std::string&, auto values) {
    count += values.empty() ? 0 : 1;
    return absl::OkStatus();
  }));
  return Groups{count, [all = std::move(all)](const data::Dataset::VisitGroup& visit) {
                  return all.visit([&](const std::string& name, auto values) {
                    return values.empty() ? absl::OkStatus() : visit(name, values);
                  });
                }};
}

}  // namespace

std::string GroupColumn(const job::JobSpec& job) {
  const proto::FeatureSpec* const history = data::FindHistory(job.dataset);
  if (history != nullptr) return history->group_by();
  const std::string user = job::UserOf(job);
  return user.empty() ? user : job.FindFeature(user)->column();
}

bool GroupsAreIds(const job::JobSpec& job) {
  if (data::FindHistory(job.dataset) != nullptr) return false;
  const std::string user = job::UserOf(job);
  if (user.empty()) return false;
  const proto::FeatureSpec& feature = *job.FindFeature(user);
  return !feature.id().empty() && !feature.keep_names();
}

absl::Status WriteHistory(const data::Dataset& data, const job::JobSpec& job,
                          const EarlierModel* earlier, env::FileSystem* files,
                          const std::string& directory) {
  ASSIGN_OR_RETURN(Groups groups, GroupsOf(data, job));
  if (groups.count == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(groups, WithValues(std::move(groups)));
  RETURN_IF_ERROR(files->MakeDirs(absl::StrCat(directory, "/", kFolder)));
  // The data may have all rows that were ever trained on.
  const bool all_here =
      earlier == nullptr || (KeepsParts(earlier->trained, data) && !earlier->trained.doubtful);
  std::string incomplete;
  bool in_order = HasOrder(job);
  if (!all_here) {
    // A model that is trained is saved, whatever has become of the one that it began with.
    auto before = EarlierHistory::Open(*earlier, job, data);
    if (!before.ok()) {
      incomplete = std::string(before.status().message());
    } else {
      if (!before->complete()) incomplete = "those of that model are incomplete";
      in_order = in_order && before->in_order();
      ASSIGN_OR_RETURN(groups, JoinedGroups(std::move(groups), *std::move(before), in_order));
    }
  }
  if (!incomplete.empty()) {
    RETURN_IF_ERROR(files->WriteAtomically(
        absl::StrCat(directory, "/", kIncomplete),
        absl::StrCat("What groups had in the model that training went on from is not in here: ",
                     incomplete, "\n")));
  }
  if (in_order) {
    RETURN_IF_ERROR(
        files->WriteAtomically(absl::StrCat(directory, "/", kOrdered),
                               absl::StrCat("by ", data::FindHistory(job.dataset)->by(), "\n")));
  }
  ASSIGN_OR_RETURN(const auto names, files->Create(absl::StrCat(directory, "/", kGroups)));
  // There may be more than fit into memory: they are gone through for each thing that is written.
  int64_t count = 0, largest = 0;
  std::string lines;
  const auto write_names = [&] {
    const absl::Status written = names->Append(lines.data(), lines.size());
    lines.clear();
    return written;
  };
  RETURN_IF_ERROR(groups.visit([&](const std::string& name, auto values) {
    for (const int64_t value : values) largest = std::max(largest, value);
    count += static_cast<int64_t>(values.size());
    lines += data::VocabularyLines({&name, 1});
    return lines.size() < kWritten ? absl::OkStatus() : write_names();
  }));
  RETURN_IF_ERROR(write_names());
  RETURN_IF_ERROR(names->Sync());
  RETURN_IF_ERROR(names->Close());
  const bool wide = largest > std::numeric_limits<int32_t>::max();
  ASSIGN_OR_RETURN(const auto out,
                   checkpoint::SafetensorsWriter::Create(
                       files, absl::StrCat(directory, "/", kValuesFile),
                       {{kOffsets, DType::kI64, Shape{groups.count + 1}},
                        {kValues, wide ? DType::kI64 : DType::kI32, Shape{count}}}));
  std::vector<int64_t> offsets = {0};
  int64_t offset = 0;
  const auto write_offsets = [&] {
    const absl::Status written = out->Append(offsets.data(), offsets.size() * sizeof(int64_t));
    offsets.clear();
    return written;
  };
  RETURN_IF_ERROR(groups.visit([&](const std::string&, auto values) {
    offset += static_cast<int64_t>(values.size());
    offsets.push_back(offset);
    return offsets.size() * sizeof(int64_t) < kWritten ? absl::OkStatus() : write_offsets();
  }));
  RETURN_IF_ERROR(write_offsets());
  std::vector<int32_t> narrow;
  RETURN_IF_ERROR(groups.visit([&](const std::string&, auto values) {
    if (wide) return out->Append(values.data(), values.size() * sizeof(int64_t));
    narrow.assign(values.begin(), values.end());
    return out->Append(narrow.data(), narrow.size() * sizeof(int32_t));
  }));
  return out->Finish();
}

absl::StatusOr<SavedHistory> SavedHistory::Load(const std::string& directory, int64_t ids) {
  const auto files = env::NewRealFileSystem();
  if (!files->Exists(absl::StrCat(directory, "/", kGroups))) {
    return absl::NotFoundError(absl::StrCat(directory, " keeps no histories"));
  }
  SavedHistory history;
  ASSIGN_OR_RETURN(auto reader, SavedWords::Reader::Open(absl::StrCat(directory, "/", kGroups)));
  while (true) {
    ASSIGN_OR_RETURN(std::optional<std::string> group, reader.Next());
    if (!group) break;
    history.groups_.push_back(*std::move(group));
  }
  ASSIGN_OR_RETURN(const auto file, checkpoint::SafetensorsFile::Open(
                                        files.get(), absl::StrCat(directory, "/", kValuesFile)));
  ASSIGN_OR_RETURN(history.offsets_, file.Read(kOffsets));
  ASSIGN_OR_RETURN(history.values_, file.Read(kValues));
  const Tensor &offsets = history.offsets_, &values = history.values_;
  const auto groups = static_cast<int64_t>(history.groups_.size());
  if (offsets.dtype() != DType::kI64 || offsets.shape() != Shape{groups + 1} ||
      !IsInteger(values.dtype()) || values.shape().rank() != 1) {
    return Damaged(directory, "wanted offsets i64 of each group, and values");
  }
  const int64_t* const at = offsets.data<int64_t>();
  if (at[0] != 0 || at[groups] != values.num_elements() || !std::is_sorted(at, at + groups + 1)) {
    return Damaged(directory, "its offsets are no offsets");
  }
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (At(values, i) < 0 || At(values, i) >= ids) {
      return Damaged(directory,
                     absl::StrCat("the value ", At(values, i), ", wanted ids below ", ids));
    }
  }
  for (int64_t group = 0; group < groups; ++group) {
    history.longest_ = std::max(history.longest_, at[group + 1] - at[group]);
  }
  history.ordered_ = files->Exists(absl::StrCat(directory, "/", kOrdered));
  history.complete_ = !files->Exists(absl::StrCat(directory, "/", kIncomplete));
  history.ids_.reserve(history.groups_.size());
  for (int64_t group = 0; group < groups; ++group) {
    history.ids_.emplace(history.groups_[static_cast<size_t>(group)], group);
  }
  return history;
}

std::optional<int64_t> SavedHistory::Find(absl::string_view group) const {
  const auto found = ids_.find(group);
  return found == ids_.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

std::vector<int64_t> SavedHistory::Values(int64_t group) const {
  const int64_t* const at = offsets_.data<int64_t>() + group;
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(at[1] - at[0]));
  for (int64_t i = at[0]; i < at[1]; ++i) values.push_back(At(values_, i));
  return values;
}

absl::Status CheckOrder(const SavedHistory& history, const job::JobSpec& job) {
  const int64_t last = data::LastOfHistory(job.dataset);
  if (last == 0 || history.longest() <= last || IsInOrder(history, job)) return absl::OkStatus();
  const proto::FeatureSpec& feature = *data::FindHistory(job.dataset);
  return absl::FailedPreconditionError(absl::StrCat(
      "an earlier version of coxswain kept what users had without its order by ",
      data::Quoted(feature.by()), ", of which the model sees the last ", last, " (max_values of ",
      data::Quoted(feature.name()), "): train it again with this version, or give the items"));
}

}  // namespace coxswain::model
