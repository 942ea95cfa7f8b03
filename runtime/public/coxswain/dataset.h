// Data sets: a description for CreatePerWorkerDataset, built by chained calls,
//
//   Csv("ratings.csv").Categorical("userId").Categorical("movieId").Label("rating")
//       .Shuffle(7).Batch(512).Epochs(10)
//
// and tickets, which name batches. Mistakes are reported when the data set is created.
// Thread model: values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace coxswain::data {
struct DatasetOptions;
}  // namespace coxswain::data

namespace coxswain {

namespace proto {
class DatasetSpec;
class FeatureSpec;
}  // namespace proto

enum class Part { kTraining = 0, kValidation = 1, kTest = 2 };

absl::string_view PartName(Part part);  // "training", "validation", "test"

// Names a batch: a range of examples of one part, in the order of one epoch.
struct Ticket {
  Part part = Part::kTraining;
  int64_t epoch = 0;
  int64_t begin = 0;
  int64_t end = 0;
  // The data set that handed out the ticket; 0: unknown. It is not sent: a closure names its data
  // set separately.
  uint32_t dataset = 0;

  int64_t size() const { return end - begin; }
  // The same examples.
  bool operator==(const Ticket& o) const {
    return part == o.part && epoch == o.epoch && begin == o.begin && end == o.end;
  }
  std::string ToString() const;  // "training epoch 3 [512, 1024)"
};

// A feature with all of its options; DatasetBuilder has methods for the usual cases.
struct Feature {
  enum class Kind { kNumeric, kCategorical };
  enum class Normalization {
    kNone,
    kStandard,  // (x - mean) / standard deviation, of the training part
    kMinMax,    // to [0, 1], of the training part
    kLog1p,     // sign(x) log(1 + |x|)
  };

  std::string name;
  std::string column = {};  // empty: of the same name
  Kind kind = Kind::kCategorical;
  // Numeric.
  Normalization normalization = Normalization::kNone;
  double missing_value = 0;  // stands for an empty field, before normalization
  // Categorical: ids by a vocabulary, which is given, or learned from the training part in
  // decreasing order of counts; or by hash buckets. Without oov_buckets, a value outside of the
  // vocabulary is an error; in a multi-valued feature it is left out.
  int64_t hash_buckets = 0;  // 0: a vocabulary
  // Ids without either, for hash tables: "raw": the value itself, an integer; "hash": its 64-bit
  // hash.
  std::string id = {};
  // With hash_buckets or "hash": a saved model names the rows that values are hashed into, by the
  // values of the training part, which are all kept for it.
  bool keep_names = false;
  std::vector<std::string> vocabulary = {};
  std::string vocabulary_file = {};  // one value a line
  int64_t min_count = 0;             // learned: rarer values are out of the vocabulary
  int64_t max_size = 0;              // learned: the most frequent ones; 0: all
  int64_t oov_buckets = 0;           // for values outside of the vocabulary, by hash
  // Several values in one field.
  bool multi_valued = false;
  std::string value_separator = {};   // empty: white space; empty values are left out
  std::string weight_separator = {};  // between a value and its weight; empty: no weights
  // "words": the field is a text, and its words are the values, in lower case.
  std::string tokens = {};
  int64_t max_values = 0;  // in an example; of more a sample is drawn; 0: all
  // The values of the feature `history_of` in all training rows with the same value in the column
  // `group_by`, without the row's own value. At most one such feature in a data set.
  std::string history_of = {};
  std::string group_by = {};
};

class DatasetBuilder {
 public:
  // Within Coxswain.
  explicit DatasetBuilder(const proto::DatasetSpec& spec);
  DatasetBuilder(const DatasetBuilder& other);
  DatasetBuilder(DatasetBuilder&& other) noexcept;
  DatasetBuilder& operator=(DatasetBuilder other) noexcept;
  ~DatasetBuilder();

  DatasetBuilder& Numeric(const std::string& column);
  // Ids by a vocabulary learned from the training part, and one more id for all other values.
  DatasetBuilder& Categorical(const std::string& column);
  DatasetBuilder& Hashed(const std::string& column, int64_t buckets);
  // Ids without a vocabulary, for hash tables: integers as they are, or 64-bit hashes of any
  // values.
  DatasetBuilder& Ids(const std::string& column);
  DatasetBuilder& HashedIds(const std::string& column);
  // `width` numbers in a row: a list, or in csv numbers with white space between them.
  DatasetBuilder& Vector(const std::string& column, int64_t width);
  DatasetBuilder& Add(const Feature& feature);
  // Batch column "label"; of a label with a name, of which there may be several, "label.NAME".
  DatasetBuilder& Label(const std::string& column, const std::string& name = "");
  // Batch column "label.NAME" of a column of lists (in csv: texts with `separator` between them): 1
  // where one of the row's values is one of `values`, else 0. One for each class of a multi-label
  // problem.
  DatasetBuilder& LabelIfAny(const std::string& column, const std::string& name,
                             const std::vector<std::string>& values, const std::string& separator);
  // How much each row counts, a number of at least 0: batch column "label.weight".
  DatasetBuilder& Weight(const std::string& column);
  // More files with the same columns. Here and in the constructors below, the path may also be a
  // directory or a pattern.
  DatasetBuilder& File(const std::string& path);
  // Fractions of the rows that are held out from training, drawn by the seed.
  DatasetBuilder& Split(double validation, double test);
  // The test part is in separate files.
  DatasetBuilder& TestFile(const std::string& path);
  // Rows are read in blocks when they are needed, whatever the size of the files; each task holds
  // `memory_bytes` of blocks (0: 512 MiB). Without this call, only files of more than 512 MiB are
  // streamed.
  DatasetBuilder& Streamed(int64_t memory_bytes = 0);
  DatasetBuilder& Shuffle(uint64_t seed);
  // Each worker shuffles all examples for itself, as TensorFlow's per-worker datasets do: within an
  // epoch an example may be used by several workers or by none.
  DatasetBuilder& PerWorker();
  DatasetBuilder& Batch(int64_t size);
  // The last batch of an epoch is left out when it is smaller.
  DatasetBuilder& DropRemainder();
  DatasetBuilder& Epochs(int64_t epochs);

  // Within Coxswain.
  const data::DatasetOptions& options() const { return *options_; }

 private:
  proto::FeatureSpec* AddFeature(const std::string& column);

  std::unique_ptr<data::DatasetOptions> options_;
};

// A comma-separated file whose first line names the columns. Here and below, gzip and zstd are
// decompressed while reading.
DatasetBuilder Csv(const std::string& path);
// JSON lines: one object per line, whose keys are the columns.
DatasetBuilder JsonLines(const std::string& path);
// TensorFlow's TFRecord files of tf.Example, whose features' names are the columns.
DatasetBuilder TfRecords(const std::string& path);
// Needs Apache Arrow's plugin (docs/data.md).
DatasetBuilder Parquet(const std::string& path);

}  // namespace coxswain
