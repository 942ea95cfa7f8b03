#include "coordinator/cli/nearest_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/name_list.h"
#include "coordinator/model/nearest.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::cli {
namespace {

using nlohmann::ordered_json;

// One line of questions: "king", or "king - man + woman".
struct Question {
  std::string text;
  std::vector<std::pair<std::string, double>> terms;  // words with their signs
};

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

absl::StatusOr<std::string> ChooseTable(const model::SavedSource& source,
                                        const std::string& wanted) {
  std::vector<std::string> own, any;
  for (const model::SavedVariable& v : source.variables()) {
    if (!v.table || v.vocabulary.empty()) continue;
    any.push_back(v.name);
    if (v.vocabulary == v.name) own.push_back(v.name);
  }
  if (!wanted.empty()) {
    ASSIGN_OR_RETURN(const model::SavedVariable variable, source.Find(wanted));
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

// The question as a vector. Its own words are no answer.
absl::StatusOr<model::NearestQuery> MakeQuery(const Question& question,
                                              const model::SavedRows& rows,
                                              const model::SavedWords& words) {
  model::NearestQuery query;
  std::vector<float> row(static_cast<size_t>(rows.row_elements()));
  query.vector.assign(row.size(), 0.0f);
  for (const auto& [word, sign] : question.terms) {
    const std::optional<int64_t> id = words.Find(word);
    if (!id) {
      return absl::NotFoundError(absl::StrCat(data::Quoted(word), " is not in the vocabulary ",
                                              data::Quoted(rows.variable().vocabulary), "; ",
                                              data::Alternatives(word, words.words())));
    }
    ASSIGN_OR_RETURN(const int64_t position, rows.FindId(*id));
    if (position < 0) {
      return absl::NotFoundError(absl::StrCat("table ", data::Quoted(rows.variable().name),
                                              " has no row of ", data::Quoted(word)));
    }
    RETURN_IF_ERROR(rows.ReadFloats(position, 1, row.data()));
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
  const auto named = static_cast<int64_t>(words.words().size());
  for (int64_t id = named; id < rows.rows(); ++id) query.exclude.push_back(id);
  return query;
}

absl::Status Nearest(const NearestFlags& flags) {
  ASSIGN_OR_RETURN(const model::SavedSource source, model::SavedSource::OpenModel(flags.model_dir));
  ASSIGN_OR_RETURN(const std::string table, ChooseTable(source, flags.table));
  ASSIGN_OR_RETURN(const model::SavedRows rows, source.Open(table));
  ASSIGN_OR_RETURN(const model::SavedWords words,
                   model::SavedWords::Load(source.WordsPath(rows.variable().vocabulary)));
  ASSIGN_OR_RETURN(const std::vector<Question> questions, Questions(flags));
  std::vector<model::NearestQuery> queries;
  for (const Question& question : questions) {
    ASSIGN_OR_RETURN(queries.emplace_back(), MakeQuery(question, rows, words));
  }
  const auto pool =
      env::NewComputePool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  ASSIGN_OR_RETURN(const auto answers, model::NearestRows(rows, queries, flags.top, pool.get()));
  const auto name = [&words](int64_t id) {
    return id < static_cast<int64_t>(words.words().size()) ? words.words()[static_cast<size_t>(id)]
                                                           : absl::StrCat("#", id);
  };
  ordered_json json = ordered_json::array();
  for (size_t q = 0; q < questions.size(); ++q) {
    ordered_json found = ordered_json::array();
    if (!flags.json) std::printf("%s%s\n", q == 0 ? "" : "\n", questions[q].text.c_str());
    for (const model::Neighbour& n : answers[q]) {
      if (!flags.json) std::printf("  %7.4f  %s\n", n.cosine, name(n.id).c_str());
      found.push_back({{"word", name(n.id)}, {"id", n.id}, {"cosine", n.cosine}});
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
