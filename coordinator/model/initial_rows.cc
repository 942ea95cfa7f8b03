// Tables with a vocabulary are filled in memory, because rows are in any order. Hash tables are
// written in chunks of ids.
#include "coordinator/model/initial_rows.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/rows_file.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::model {
namespace {

constexpr int64_t kChunk = 8192;  // rows of a hash table

using Info = std::shared_ptr<const VariableInfo>;

absl::Status TakeByVocabulary(const Info& info, const std::vector<std::string>& values,
                              const data::Dataset& data, const std::string& feature, int64_t dim,
                              RowsFile* file, ParameterServerStrategy* strategy,
                              InitialRows* result) {
  ASSIGN_OR_RETURN(Tensor rows, strategy->Read(EmbeddingTable(info)));
  if (rows.dtype() != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table '", info->name, "': rows of a file are f32, found dtype ", DTypeName(rows.dtype())));
  }
  float* const out = rows.mutable_data<float>();
  std::vector<bool> taken(values.size(), false);
  std::vector<float> row(static_cast<size_t>(dim));
  std::string word;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, file->Next(&word, row.data()));
    if (!found) break;
    const std::optional<int64_t> id = data.Lookup(feature, word);
    const auto at = static_cast<size_t>(id.value_or(0));
    // Ids after the vocabulary are buckets, which do not stand for a single value.
    if (!id || at >= values.size()) {
      ++result->unused;
      continue;
    }
    if (taken[at]) {
      ++result->repeated;
      continue;
    }
    taken[at] = true;
    ++result->taken;
    std::copy(row.begin(), row.end(), out + at * static_cast<size_t>(dim));
  }
  result->missing = static_cast<int64_t>(values.size()) - result->taken;
  for (auto at = static_cast<int64_t>(values.size()); at < rows.dim(0); ++at) {
    ASSIGN_OR_RETURN(const bool found, file->NextBucket(row.data()));
    if (!found) break;
    ++result->buckets;
    std::copy(row.begin(), row.end(), out + at * dim);
  }
  return strategy->Assign(EmbeddingTable(info), rows);
}

absl::Status TakeByHash(const Info& info, const data::Dataset& data, const std::string& feature,
                        int64_t dim, RowsFile* file, ParameterServerStrategy* strategy,
                        InitialRows* result) {
  absl::flat_hash_set<int64_t> seen;
  std::vector<int64_t> ids;
  std::vector<float> values;
  const auto write = [&]() -> absl::Status {
    if (ids.empty()) return absl::OkStatus();
    const auto count = static_cast<int64_t>(ids.size());
    Tensor some(DType::kI64, Shape{count}), rows(DType::kF32, Shape{count, dim});
    std::memcpy(some.mutable_raw(), ids.data(), some.bytes());
    std::memcpy(rows.mutable_raw(), values.data(), rows.bytes());
    result->taken += count;
    ids.clear();
    values.clear();
    return strategy->WriteIds(*info, some, rows);
  };
  std::vector<float> row(static_cast<size_t>(dim));
  std::string word;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, file->Next(&word, row.data()));
    if (!found) return write();
    const std::optional<int64_t> id = data.Lookup(feature, word);
    if (!id) {
      ++result->unused;
      continue;
    }
    if (!seen.insert(*id).second) {
      ++result->repeated;
      continue;
    }
    ids.push_back(*id);
    values.insert(values.end(), row.begin(), row.end());
    if (static_cast<int64_t>(ids.size()) == kChunk) RETURN_IF_ERROR(write());
  }
}

absl::StatusOr<InitialRows> TakeRows(const job::TableSpec& table, const data::Dataset& data,
                                     ParameterServerStrategy* strategy) {
  InitialRows result;
  result.table = table.name;
  result.path = table.rows_file->path;
  const auto& all = strategy->variables();
  const auto info =
      std::find_if(all.begin(), all.end(), [&](const Info& i) { return i->name == table.name; });
  if (info == all.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tables.", table.name, ": the model has no such table"));
  }
  if (table.dtype != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tables.", table.name, ": rows of a file are f32, found dtype ", DTypeName(table.dtype)));
  }
  const std::vector<std::string>* const values = data.vocabulary(table.feature);
  const bool has_buckets = values != nullptr && !(*info)->hash();
  const int64_t buckets = has_buckets ? (*info)->rows() - static_cast<int64_t>(values->size()) : 0;
  ASSIGN_OR_RETURN(const auto file, RowsFile::Open(*table.rows_file, table.dim, buckets));
  if ((*info)->hash()) {
    RETURN_IF_ERROR(
        TakeByHash(*info, data, table.feature, table.dim, file.get(), strategy, &result));
    return result;
  }
  if (values == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tables.", table.name, ".initializer: the rows of feature ", data::Quoted(table.feature),
        " stand for no values: wanted a vocabulary, or ", "id: raw or id: hash"));
  }
  RETURN_IF_ERROR(TakeByVocabulary(*info, *values, data, table.feature, table.dim, file.get(),
                                   strategy, &result));
  return result;
}

}  // namespace

std::string InitialRows::ToString() const {
  std::string text = absl::StrCat("initial rows of ", table, " from ", path, ": ", taken);
  if (missing > 0) absl::StrAppend(&text, ", and ", missing, " values that it lacks begin anew");
  if (buckets > 0) absl::StrAppend(&text, ", and ", buckets, " of unknown values");
  if (unused > 0) absl::StrAppend(&text, "; ", unused, " of its words have no row");
  if (repeated > 0) {
    absl::StrAppend(&text, "; ", repeated,
                    " of its words come again, and the first of each counts");
  }
  return text;
}

absl::StatusOr<std::vector<InitialRows>> TakeRowsOfFiles(const job::JobSpec& job,
                                                         const data::Dataset& data,
                                                         ParameterServerStrategy* strategy) {
  std::vector<InitialRows> results;
  for (const job::TableSpec& table : job.tables) {
    if (!table.rows_file) continue;
    ASSIGN_OR_RETURN(results.emplace_back(), TakeRows(table, data, strategy));
  }
  return results;
}

}  // namespace coxswain::model
