// The formats of data that a job can name: the keys of each, and what a job has to say beside them.
// Each is one file of coordinator/job/formats and one that reads its files, runtime/data/formats,
// where the list is.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_sections.h"

namespace coxswain::job {

struct JobFormat {
  // Where the label comes from, unless it is a feature.
  enum class Label { kColumn, kInLine, kNone };

  const char* name;
  const char* help = "";  // for `dataset.format`
  absl::Span<const SchemaKey> keys = {};
  // Reads the keys into the data set.
  void (*read)(const JobReader& reader, const SectionView& view);
  // The features of data that has its own, with what the file says of them. Null: they are those
  // that the file lists.
  void (*read_features)(const JobReader& reader) = nullptr;
  bool needs_features = true;  // false: `read` adds some, which a list may leave as they are
  bool has_columns = true;     // with names
  // False: a text, of which nothing but a validation part is kept, and which has no label.
  bool has_rows = true;
  Label label = Label::kColumn;
  const char* label_column = "";  // of kColumn, where the file names none
};

// The keys of `dataset` that all formats have.
inline constexpr SchemaKey kFilesKeys[] = {
    Field<proto::DatasetSpec>(
        KeyType::kStrings, "path", nullptr,
        "the files; relative to the job file; `.gz` is unpacked while reading")
        .Into("paths"),
};

// In the order of the list.
const std::vector<const JobFormat*>& AllJobFormats();
// The first one where the job names none that there is, which is an error already.
const JobFormat& FormatOf(const JobSpec& job);

// For the formats: an error unless it can stand between fields or values.
void CheckSeparator(const JobReader& reader, const std::string& path, const std::string& separator,
                    bool quoting);

}  // namespace coxswain::job
