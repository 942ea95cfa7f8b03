// The choice of the table; questions as vectors; answers by name.
#include "coordinator/model/named_rows.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::model {
namespace {

absl::StatusOr<std::string> ChooseTable(const SavedSource& source, const std::string& wanted) {
  std::vector<std::string> own, any;
  for (const SavedVariable& v : source.variables()) {
    if (!v.table || v.vocabulary.empty()) continue;
    any.push_back(v.name);
    if (v.vocabulary == v.name) own.push_back(v.name);
  }
  if (!wanted.empty()) {
    ASSIGN_OR_RETURN(const SavedVariable variable, source.Find(wanted));
    if (variable.table && !variable.vocabulary.empty()) return wanted;
    return absl::InvalidArgumentError(absl::StrCat("--table: ", data::Quoted(wanted),
                                                   " is no table with a vocabulary; ",
                                                   data::Alternatives(wanted, any)));
  }
  if (own.size() == 1) return own[0];
  if (any.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.path(), ": the model has no table with a vocabulary; for ids there is ",
                     "`coxswain table lookup --nearest`"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wanted --table, one of ", absl::StrJoin(own.empty() ? any : own, ", ")));
}

}  // namespace

absl::StatusOr<NamedRows> NamedRows::Open(const SavedSource& source, const std::string& table,
                                          std::shared_ptr<const data::Vocabulary> words) {
  ASSIGN_OR_RETURN(const std::string name, ChooseTable(source, table));
  NamedRows named;
  ASSIGN_OR_RETURN(named.rows_, source.Open(name));
  named.shared_ = std::move(words);
  if (named.shared_ != nullptr) return named;
  ASSIGN_OR_RETURN(SavedWords own,
                   SavedWords::Load(source.WordsPath(named.rows_.variable().vocabulary)));
  named.own_ = std::make_shared<const SavedWords>(std::move(own));
  return named;
}

std::optional<int64_t> NamedRows::Find(const std::string& word) const {
  if (shared_ == nullptr) return own_->Find(word);
  const std::optional<int64_t> id = shared_->Find(word);
  // A bucket of unknown values has no name.
  return id && *id < static_cast<int64_t>(names().size()) ? id : std::nullopt;
}

// The words of the question are left out.
absl::StatusOr<NearestQuery> NamedRows::QueryOf(const Question& question) const {
  NearestQuery query;
  std::vector<float> row(static_cast<size_t>(rows_.row_elements()));
  query.vector.assign(row.size(), 0.0f);
  for (const auto& [word, sign] : question.terms) {
    const std::optional<int64_t> id = Find(word);
    if (!id) {
      return absl::NotFoundError(absl::StrCat(data::Quoted(word), " is not in the vocabulary ",
                                              data::Quoted(rows_.variable().vocabulary), "; ",
                                              data::Alternatives(word, names())));
    }
    ASSIGN_OR_RETURN(const int64_t position, rows_.FindId(*id));
    if (position < 0) {
      return absl::NotFoundError(absl::StrCat("table ", data::Quoted(rows_.variable().name),
                                              " has no row of ", data::Quoted(word)));
    }
    RETURN_IF_ERROR(rows_.ReadFloats(position, 1, row.data()));
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
    query.exclude.push_back(*id);
  }
  // Buckets of unknown values have no name.
  const auto named = static_cast<int64_t>(names().size());
  for (int64_t id = named; id < rows_.rows(); ++id) query.exclude.push_back(id);
  return query;
}

absl::StatusOr<std::vector<std::vector<NamedRows::Answer>>> NamedRows::Nearest(
    const std::vector<Question>& questions, int64_t top, env::ComputePool* pool) const {
  std::vector<NearestQuery> queries;
  for (const Question& question : questions) {
    ASSIGN_OR_RETURN(queries.emplace_back(), QueryOf(question));
  }
  ASSIGN_OR_RETURN(const auto found, NearestRows(rows_, queries, top, pool));
  std::vector<std::vector<Answer>> answers;
  for (const std::vector<Neighbour>& neighbours : found) {
    std::vector<Answer>& named = answers.emplace_back();
    for (const Neighbour& n : neighbours) {
      const bool known = n.id < static_cast<int64_t>(names().size());
      named.push_back(
          {n.id, known ? names()[static_cast<size_t>(n.id)] : absl::StrCat("#", n.id), n.cosine});
    }
  }
  return answers;
}

}  // namespace coxswain::model
