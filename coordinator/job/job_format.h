// The formats of data that a job can name: the keys of each format, and which other keys a job
// needs with it. A format is one file in coordinator/job/formats, and one in runtime/data/formats
// that reads its data. The list is in the latter folder.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/size_limits.h"

namespace coxswain::job {

struct JobFormat {
  // Where the label comes from, unless it is a feature.
  enum class Label { kColumn, kInLine, kNone };

  const char* name;
  const char* help = "";  // for `dataset.format`
  absl::Span<const SchemaKey> keys = {};
  // Reads the keys into the data set.
  void (*read)(const JobReader& reader, const SectionView& view);
  // Reads the features of a format that defines its own features, with the options that the job
  // gives for them. Null: the job lists the features.
  void (*read_features)(const JobReader& reader) = nullptr;
  bool needs_features = true;  // false: `read` adds features, so the job need not list any
  bool has_columns = true;     // the data has named columns
  bool lists_columns = true;   // files list their columns at the beginning
  // False: a plain text, which has no label, and from which only a validation part can be held out.
  bool has_rows = true;
  // Not null: what `dataset.query` names in lines that have no columns.
  const char* query = nullptr;
  // Not null: how many rows the table of the format's own feature has at least, and the key that
  // says so.
  int64_t (*least_rows)(const proto::DatasetSpec& dataset) = nullptr;
  const char* rows_key = "";
  Label label = Label::kColumn;
  const char* label_column = "";  // default for kColumn, if the job names none
};

// The keys of `dataset` that all formats have.
inline constexpr SchemaKey kFilesKeys[] = {
    Field<proto::DatasetSpec>(
        KeyType::kStrings, "path", nullptr,
        "the files, relative to the job file; gzip and zstd are decompressed while reading; a "
        "directory stands for all files in it, and `*`, `?` and `[...]` are wildcards; "
        "`s3://BUCKET/...` names files in an [object store](data.md#object-stores)")
        .Into("paths"),
    Field<proto::DatasetSpec>(
        KeyType::kString, "query", "",
        "column of query ids (libsvm: `qid`): consecutive rows with the same id form a query, "
        "which is one example with several rows, for listwise losses and metrics"),
    Field<proto::DatasetSpec>(
        KeyType::kInt, "max_bad_rows", "0",
        "of csv and criteo: number of rows that cannot be read and are passed over, see "
        "[bad rows](data.md#bad-rows); one more ends the job")
        .Min(0)
        .Max(kMostBadRows),
};

// The key for reading large data sets, see docs/data.md.
inline constexpr char kStreamingKey[] = "streaming";
inline constexpr SchemaKey kStreamKeys[] = {
    SchemaKey(KeyType::kChoice, kStreamingKey, "auto",
              "`true`: rows are read in blocks, as they are needed; `false`: all rows are held in "
              "memory; `auto`: in blocks if the files have more bytes than `memory`")
        .Choices("auto true false"),
    Field<proto::StreamOptions>(KeyType::kBytes, "memory", "512MiB",
                                "with streaming: memory for the blocks that each task holds at a "
                                "time; the coordinator's vocabularies must fit into it too")
        .Min(1)
        .Max(kMostBytes),
    Field<proto::StreamOptions>(KeyType::kInt, "shuffle_window", "0",
                                "with streaming: number of blocks whose rows are shuffled "
                                "together; 0: as many as fit into half of `memory`, at most 16")
        .Min(0)
        .Max(kMostBlocks),
    Field<proto::StreamOptions>(
        KeyType::kBytes, "block_bytes", "=4MiB, or `memory` / 128 where that is less",
        "with streaming: minimum size of a block, which ends at the end of a row")
        .Min(1)
        .Max(kMostBlockBytes),
    Field<proto::StreamOptions>(
        KeyType::kString, "cache_directory", "=the user's own, `~/.cache/coxswain`",
        "with streaming: where the coordinator caches its index of the files, and each machine its "
        "copies of compressed files; relative to the job file"),
    Field<proto::StreamOptions>(
        KeyType::kBytes, "cache_size", "100GiB",
        "with streaming: maximum size of the decompressed copies and sorted groups in "
        "`cache_directory`; the least recently used are removed first")
        .Into("cache_bytes")
        .Min(1)
        .Max(kMostBytes),
};

// Files that come while the job runs.
inline constexpr SchemaKey kFollowKeys[] = {
    Key<&FollowSpec::enabled>(
        "follow", "false",
        "`path` names directories (or patterns of names in them) that receive files while the job "
        "runs: files that are found together form an epoch, and each is trained on once"),
    Key<&FollowSpec::end>(
        "follow_end", "_DONE",
        "with `follow`: name of the file that marks a directory as complete; no more files are "
        "awaited once each directory has one; empty: no such file"),
    Key<&FollowSpec::idle_seconds>(
        "follow_idle", "0",
        "with `follow`: seconds without a new file after which no more are awaited; 0: no limit")
        .Min(0),
};

// In the order of the list.
const std::vector<const JobFormat*>& AllJobFormats();
// The job's format; the first of the list if the job names an unknown one, which has been reported
// as an error.
const JobFormat& FormatOf(const JobSpec& job);

// For the formats: reports an error unless the text can separate fields or values.
void CheckSeparator(const JobReader& reader, const std::string& path, const std::string& separator,
                    bool quoting);

}  // namespace coxswain::job
