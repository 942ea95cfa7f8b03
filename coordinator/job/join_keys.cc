#include "coordinator/job/join_keys.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/formats/csv_keys.h"
#include "coordinator/job/job_format.h"

namespace coxswain::job {
namespace {

constexpr SchemaKey kJoinKeys[] = {
    Field<proto::JoinSpec>(KeyType::kString, "path", nullptr,
                           "the table: a csv file, which may be gzipped; relative to the job file"),
    SchemaKey(KeyType::kString, "on", "",
              "key column, which has the same name in the rows and in the table"),
    Field<proto::JoinSpec>(KeyType::kString, "left_on", "=`on`",
                           "key column in the rows, or in an earlier table"),
    Field<proto::JoinSpec>(KeyType::kString, "right_on", "=`on`",
                           "key column in the table, where each value must be unique"),
    Field<proto::JoinSpec>(KeyType::kString, "prefix", "",
                           "prefix for the names of the table's columns: with `movie_`, `title` "
                           "becomes `movie_title`"),
    SchemaKey(KeyType::kChoice, "missing_key", "empty",
              "for a row whose key is not in the table: `empty` leaves its fields empty, as "
              "`missing_values` do; `error` is an error with file and line")
        .Choices("empty error"),
};

}  // namespace

const SchemaSection& JoinSchema() {
  static const auto* const keys = new std::vector<SchemaKey>([] {
    std::vector<SchemaKey> all(std::begin(kJoinKeys), std::end(kJoinKeys));
    all.insert(all.end(), std::begin(kCsvKeys), std::end(kCsvKeys));
    return all;
  }());
  static const auto* const section = new SchemaSection{"dataset.join[]", "", *keys};
  return *section;
}

void ReadJoins(const JobReader& reader) {
  const std::vector<SectionView> views = reader.file.Sub("dataset").Sections("join");
  if (!views.empty() && !FormatOf(*reader.job).has_columns) {
    reader.Error("dataset.join",
                 absl::StrCat("a ", FormatOf(*reader.job).name, " data set has no columns"));
  }
  for (size_t i = 0; i < views.size(); ++i) {
    const std::string path = absl::StrCat("dataset.join.", i);
    proto::JoinSpec* join = reader.job->dataset.add_joins();
    ReadKeys(kJoinKeys, views[i], join);
    ReadCsvOptions(reader, views[i], path, join->mutable_csv());
    join->set_required(views[i].String("missing_key") == "error");
    const bool both = views[i].Has("left_on") && views[i].Has("right_on");
    if (views[i].Has("on") ? views[i].Has("left_on") || views[i].Has("right_on") : !both) {
      reader.Error(path, "give the key's column: on, or left_on and right_on");
    }
    if (!views[i].Has("on")) continue;
    join->set_left_on(views[i].String("on"));
    join->set_right_on(views[i].String("on"));
  }
}

}  // namespace coxswain::job
