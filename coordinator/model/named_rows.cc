// The choice of the table; questions as vectors; the index; answers by name.
#include "coordinator/model/named_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/model/checkpoint_tables.h"
#include "coordinator/model/row_scan.h"
#include "coordinator/model/table_version.h"
#include "kernels/cpu/bf16.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::model {
namespace {

absl::StatusOr<std::string> ChooseTable(const SavedSource& source, const std::string& wanted) {
  std::vector<std::string> own, any;
  for (const SavedVariable& v : source.variables()) {
    if (!v.named()) continue;
    any.push_back(v.name);
    if (v.feature() == v.name) own.push_back(v.name);
  }
  if (!wanted.empty()) {
    ASSIGN_OR_RETURN(const SavedVariable variable, source.Find(wanted));
    if (variable.named()) return wanted;
    return absl::InvalidArgumentError(absl::StrCat("--table: ", data::Quoted(wanted),
                                                   " is no table with a vocabulary or names; ",
                                                   data::Alternatives(wanted, any)));
  }
  if (own.size() == 1) return own[0];
  if (any.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source.path(), ": the model has no table with a vocabulary, or with names that ",
        "`keep_names` keeps; for ids there is `coxswain table lookup --nearest`"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wanted --table, one of ", absl::StrJoin(own.empty() ? any : own, ", ")));
}

constexpr int64_t kBlockRows = 1024;  // taken from memory at once

}  // namespace

absl::StatusOr<NamedRows> NamedRows::Open(const SavedSource& source, const std::string& table,
                                          std::shared_ptr<const data::Vocabulary> words) {
  ASSIGN_OR_RETURN(const std::string name, ChooseTable(source, table));
  NamedRows named;
  ASSIGN_OR_RETURN(named.rows_, source.Open(name));
  ASSIGN_OR_RETURN(named.names_, RowNames::Read(source, named.rows_.variable(), std::move(words)));
  return named;
}

absl::Status NamedRows::KeepInMemory(const SavedSource& source, CheckpointTables* tables) {
  if (rows_.variable().hash) return absl::OkStatus();
  ASSIGN_OR_RETURN(memory_, source.LoadTable(table(), tables));
  return absl::OkStatus();
}

absl::Status NamedRows::UseVectors(Tensor vectors) {
  if (vectors.dtype() != DType::kF32 || vectors.rank() != 2 || vectors.dim(0) < rows_.rows()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted a vector for each row of table ",
                                                   data::Quoted(table()), ", found ",
                                                   vectors.shape().ToString()));
  }
  vectors_ = std::move(vectors);
  memory_.reset();
  return absl::OkStatus();
}

void NamedRows::CopyRow(int64_t position, float* out) const {
  if (has_vectors()) {
    std::copy_n(vectors_.data<float>() + position * dim(), dim(), out);
    return;
  }
  const char* const row = memory_->rows->Row(position);
  if (memory_->variable.dtype == DType::kBF16) {
    kernels::FromBf16(reinterpret_cast<const BFloat16*>(row), dim(), out);
  } else {
    std::memcpy(out, row, static_cast<size_t>(dim()) * sizeof(float));
  }
}

absl::Status NamedRows::ReadRow(int64_t position, float* out) const {
  if (!in_memory()) return rows_.ReadFloats(position, 1, out);
  CopyRow(position, out);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> NamedRows::PlaceOf(int64_t id) const {
  if (has_vectors()) return id < rows() ? id : -1;
  return rows_.FindId(id);
}

RowScan NamedRows::Scan() const {
  if (!in_memory()) return ScanSaved(&rows_);
  const auto run = [this](const TakeRows& take) -> absl::Status {
    std::vector<float> values(static_cast<size_t>(kBlockRows * dim()));
    std::vector<int64_t> ids(static_cast<size_t>(kBlockRows));
    for (int64_t begin = 0; begin < rows(); begin += kBlockRows) {
      const int64_t count = std::min(kBlockRows, rows() - begin);
      for (int64_t i = 0; i < count; ++i) {
        CopyRow(begin + i, values.data() + i * dim());
        ids[static_cast<size_t>(i)] = begin + i;
      }
      RETURN_IF_ERROR(take(values.data(), ids.data(), count));
    }
    return absl::OkStatus();
  };
  return {dim(), run};
}

std::function<bool(int64_t id)> NamedRows::HasName() const {
  return [this](int64_t id) { return names_.Has(id); };
}

// The words of the question are left out.
absl::StatusOr<NearestQuery> NamedRows::QueryOf(const Question& question) const {
  NearestQuery query;
  std::vector<float> row(static_cast<size_t>(dim()));
  query.vector.assign(row.size(), 0.0f);
  for (const auto& [word, sign] : question.terms) {
    ASSIGN_OR_RETURN(const int64_t id, names_.IdOf(word));
    ASSIGN_OR_RETURN(const int64_t position, PlaceOf(id));
    if (position < 0) {
      return absl::NotFoundError(absl::StrCat("table ", data::Quoted(rows_.variable().name),
                                              " has no row of ", data::Quoted(word)));
    }
    RETURN_IF_ERROR(ReadRow(position, row.data()));
    double squares = 0;
    for (const float value : row) squares += double{value} * value;
    if (!(squares > 0) || !std::isfinite(squares)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the vector of ", data::Quoted(word),
                       " has no direction: ", squares == 0 ? "it is zero" : "it is not finite"));
    }
    const double scale = sign / std::sqrt(squares);
    for (size_t i = 0; i < row.size(); ++i) {
      query.vector[i] += static_cast<float>(scale * row[i]);
    }
    query.exclude.push_back(id);
  }
  return query;
}

absl::Status NamedRows::FillIndex(const IndexOptions& options, VectorIndex* index) const {
  const RowScan scan = Scan();
  std::vector<float> row(static_cast<size_t>(scan.dim));
  return scan.run([&](const float* rows, const int64_t* ids, int64_t n) -> absl::Status {
    for (int64_t i = 0; i < n; ++i) {
      if (options.stopped()) return absl::CancelledError("an index is no longer wanted");
      if (!names_.Has(ids[i])) continue;
      std::copy(rows + i * scan.dim, rows + (i + 1) * scan.dim, row.begin());
      if (!Normalize(absl::MakeSpan(row))) continue;
      RETURN_IF_ERROR(index->Add(ids[i], row.data()));
    }
    return absl::OkStatus();
  });
}

// Rows of length 1, from all of the table.
absl::StatusOr<std::vector<IndexQuery>> NamedRows::SampleRows() const {
  std::vector<IndexQuery> sample;
  const int64_t count = std::min(kRecallQueries, rows());
  for (int64_t i = 0; i < count; ++i) {
    std::vector<float> row(static_cast<size_t>(dim()));
    RETURN_IF_ERROR(ReadRow(i * rows() / count, row.data()));
    if (Normalize(absl::MakeSpan(row))) sample.push_back({std::move(row), {}, {}});
  }
  return sample;
}

absl::StatusOr<NamedRows> NamedRows::WithIndex(const IndexOptions& options,
                                               env::ComputePool* pool) const {
  ASSIGN_OR_RETURN(std::shared_ptr<VectorIndex> index,
                   VectorIndex::Create(dim(), std::min(size(), rows())));
  RETURN_IF_ERROR(FillIndex(options, index.get()));
  ASSIGN_OR_RETURN(std::vector<IndexQuery> sample, SampleRows());
  std::vector<NearestQuery> queries;
  for (const IndexQuery& row : sample) {
    queries.push_back({.vector = row.vector, .exclude = {}, .answers = HasName()});
  }
  ASSIGN_OR_RETURN(const Lists best, NearestRows(Scan(), queries, 1 + kManyRecallAt, pool));
  for (size_t i = 0; i < sample.size(); ++i) {
    // What is nearest is the row itself, which an answer leaves out.
    for (const Neighbour& neighbour : best[i]) {
      auto& ids = sample[i].left_out.empty() ? sample[i].left_out : sample[i].exact;
      ids.push_back(neighbour.id);
    }
  }
  NamedRows indexed = *this;
  ASSIGN_OR_RETURN(indexed.quality_, ReachRecall(*index, sample, options.recall));
  indexed.index_ = std::move(index);
  return indexed;
}

absl::StatusOr<NamedRows::Lists> NamedRows::Search(const std::vector<NearestQuery>& queries,
                                                   int64_t top, env::ComputePool* pool) const {
  Lists all;
  for (const NearestQuery& query : queries) {
    std::vector<Neighbour>& list = all.emplace_back();
    std::vector<float> vector = query.vector;
    if (!Normalize(absl::MakeSpan(vector))) continue;
    std::vector<int64_t> left_out = query.exclude;
    std::sort(left_out.begin(), left_out.end());
    ASSIGN_OR_RETURN(const auto found, index_->Search(vector.data(), top, quality_.beam, left_out));
    const int64_t there = index_->size() - static_cast<int64_t>(left_out.size());
    if (std::ssize(found) < std::min(top, there)) {
      ASSIGN_OR_RETURN(const Lists exact, NearestRows(Scan(), {query}, top, pool));
      list = exact[0];
      continue;
    }
    for (const VectorIndex::Found& f : found) list.push_back({f.id, f.product});
  }
  return all;
}

absl::StatusOr<std::vector<std::vector<NamedRows::Answer>>> NamedRows::Nearest(
    const std::vector<Question>& questions, int64_t top, env::ComputePool* pool, bool exact) const {
  std::vector<NearestQuery> queries;
  const bool indexed = index_ != nullptr && !exact && top <= quality_.most;
  for (const Question& question : questions) {
    ASSIGN_OR_RETURN(queries.emplace_back(), QueryOf(question));
    // Rows without a name are not in the index, either.
    queries.back().answers = HasName();
  }
  ASSIGN_OR_RETURN(const Lists found,
                   indexed ? Search(queries, top, pool) : NearestRows(Scan(), queries, top, pool));
  std::vector<std::vector<Answer>> answers;
  for (const std::vector<Neighbour>& neighbours : found) {
    std::vector<Answer>& named = answers.emplace_back();
    for (const Neighbour& n : neighbours) named.push_back({n.id, names_.Of(n.id), n.cosine});
  }
  return answers;
}

}  // namespace coxswain::model
