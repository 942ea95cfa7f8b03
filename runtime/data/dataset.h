// A data set: columns, parts, vocabularies, and batches by ticket. Its rows are in memory, or the
// data set is streamed: then it has an index, and rows are read from the files when a ticket names
// them (stream/).
//
// Every machine that loads the same spec and files has the same data set: the same ids, the same
// parts, the same order in each epoch, the same samples; so a ticket means the same batch
// everywhere.
//
// Ids. In a listed vocabulary, ids follow the list's order. A learned vocabulary has the values of
// the training part, in decreasing order of counts there, then by first appearance. Other values go
// to oov_buckets; without these they are left out of a multi-valued feature and are an error in a
// feature of one value. Vocabularies and the statistics of normalisation are never learned from
// other parts; with DatasetSpec.learned nothing is learned.
//
// An example is a row; with DatasetSpec.query it is a query, all rows that belong to it, and what
// is said of tickets, parts and orders holds for queries. With FeatureSpec.width of a history, an
// example of the training part is a window of a group's rows (history_windows.h), and a window's
// other columns are those of its last row.
//
// A text (format "text") has one feature, "word". Its places are training examples, but for those
// that are held out in runs (text_parts.h); its order is drawn by blocks of places; see
// skip_gram.h.
//
// Parts. Each row's part is drawn from a hash of (seed, row). If the spec says so, the training
// part is shuffled in each epoch; the other parts are in the order of the files. A streamed data
// set has the same parts, vocabularies and statistics, but another order of training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/analysis.h"
#include "runtime/data/bad_rows.h"
#include "runtime/data/batch.h"
#include "runtime/data/columns.h"
#include "runtime/data/history.h"
#include "runtime/data/history_windows.h"
#include "runtime/data/label_summary.h"
#include "runtime/data/queries.h"
#include "runtime/data/row_places.h"
#include "runtime/data/side_table_files.h"
#include "runtime/data/skip_gram.h"
#include "runtime/data/split.h"
#include "runtime/data/ticket.h"
#include "runtime/data/trained_rows.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::data {

class StreamedRows;   // stream/streamed_rows.h
struct StreamedSpec;  // stream/parsed_block.h

// Thread model: immutable after Load; all methods may be called from any thread.
class Dataset {
 public:
  // Runs a task, later on a thread of a pool or at once in the caller.
  using Background = std::function<void(absl::AnyInvocable<void()>)>;

  // Reads all files, into memory or, as DatasetSpec.stream says, for an index. Errors: see
  // CheckSpec (spec_check.h), ReadTable (table.h), IsStreamed and BuildIndex (stream/);
  // InvalidArgument also for two batch columns of one name.
  // `reader`: number of the reader; with DatasetSpec.per_worker each reader has its own order.
  static absl::StatusOr<std::unique_ptr<Dataset>> Load(const proto::DatasetSpec& spec,
                                                       uint64_t reader = 0);
  // As Load, but always into memory, regardless of DatasetSpec.stream.
  static absl::StatusOr<std::unique_ptr<Dataset>> LoadInMemory(const proto::DatasetSpec& spec,
                                                               uint64_t reader = 0);
  // A data set without rows, with a model's vocabularies and statistics from DatasetSpec.learned;
  // no file of the data set is opened. Errors: those of CheckSpec and of the model's vocabularies.
  static absl::StatusOr<std::unique_ptr<Dataset>> WithoutRows(const proto::DatasetSpec& spec);
  // Opens a streamed data set with an existing index; reads a few pages of each file. `background`:
  // runs tasks that read blocks ahead; null: blocks are not read ahead. Errors: FailedPrecondition
  // when files have changed since, or the index belongs to another spec.
  static absl::StatusOr<std::unique_ptr<Dataset>> OpenStreamed(
      const proto::DatasetSpec& spec, std::shared_ptr<const proto::DatasetIndex> index,
      uint64_t reader, Background background);
  ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  int64_t num_examples(Part part) const {
    if (stream_ != nullptr) return streamed_examples(part);
    if (text_ != nullptr) return text_->parts().places(part);
    if (queries_ != nullptr) return queries_->count(part);
    return static_cast<int64_t>(examples(part).size());
  }
  // The same, but where examples are windows the number of the part's rows.
  int64_t part_size(Part part) const {
    return windows() == nullptr ? num_examples(part) : static_cast<int64_t>(rows(part).size());
  }
  // Where the examples of the training part are windows; else null.
  const HistoryWindows* windows() const {
    return own_.training == nullptr ? nullptr : &own_.training->windows();
  }
  // The index, which other tasks need to stream the same data set; null when it is in memory.
  const std::shared_ptr<const proto::DatasetIndex>& index() const { return index_; }
  // A hash of the bytes of the files and of the spec, without parts of the spec that no batch
  // depends on (paths of files, widths and combiners of embeddings). The same on every machine.
  uint64_t fingerprint() const { return fingerprint_; }
  bool is_text() const { return text_ != nullptr || (index_ != nullptr && index_->is_text()); }
  // Features in the order of the spec, then "label" (unless the label is a feature or there is
  // none), "label.weight" (where rows have weights), "label.NAME" and "label.NAME.weight" of
  // DatasetSpec.labels, those of DatasetSpec.query, then "example_id" if the spec wants it: the
  // example's number in its part, in the order of the files, so that the tickets of an epoch have
  // each of 0 .. num_examples - 1 once. In the validation and test parts of a data set with a
  // history also "known.values" and "known.offsets": all training values of each example's group;
  // with DatasetSpec.known_items the items that it selects, and "known.group". In the training part
  // of windows also their targets, see TargetColumn.
  const std::vector<ColumnSpec>& columns(Part part) const {
    return specs_[part == Part::kTraining ? 0 : 1];
  }

  // The batch of a ticket: tensors parallel to columns(part). The same ticket gives the same batch,
  // always and everywhere (with DatasetSpec.per_worker: for the same reader). Allocates per tensor,
  // never per row. Errors: OutOfRange for a ticket outside the part; ResourceExhausted for a batch
  // with 2^31 values. `ahead`: for a streamed data set, where this task will go on after the
  // examples near the ticket's (GroupOf), so that those blocks are read ahead; null: with the
  // examples that follow. A ticket of another data set is ignored.
  absl::StatusOr<Batch> Read(const Ticket& ticket, const Ticket* ahead = nullptr) const;
  // Takes out of such a batch, of a step of training, the rows that LabelSpec.keep_negatives leaves
  // out in the ticket's epoch; nothing of other parts. Errors: none for a batch that was read so.
  absl::Status LeaveOutNegatives(const Ticket& ticket, Batch* batch) const;
  // Tickets of one group need the same blocks of the files, and hardly any blocks of other groups,
  // so a task that has read one of them has read the others' rows. 0: the ticket has no group, like
  // all tickets of data in memory.
  uint64_t GroupOf(const Ticket& ticket) const;
  // The approximate number of training examples in a group; 0: there are no groups.
  int64_t group_size() const;
  // Lets go of the blocks of a streamed data set that are in memory; who reads on parses them
  // again.
  void DropBlocks() const;
  // "ratings.csv:17", the line of the file on which the first example of a ticket begins. Nothing
  // for a text, whose examples are pairs of words, and for a ticket that Read refuses or that is
  // empty.
  std::optional<std::string> PlaceOf(const Ticket& ticket) const;

  // Ids of a categorical feature are 0..size-1, including buckets. A history shares the vocabulary
  // of the feature that it refers to. 0 for a numeric or unknown feature, and for unbounded ids.
  int64_t vocabulary_size(const std::string& feature) const;
  // Texts by id; ids beyond are out-of-vocabulary buckets. Null for hashed or unbounded ids, for
  // indices of libsvm, for a numeric or unknown feature.
  const std::vector<std::string>* vocabulary(const std::string& feature) const;
  // Of a feature that keeps names (FeatureSpec.keep_names): the values that were hashed into ids,
  // those of a model that training goes on from first, then others of the training part in
  // decreasing order of counts there, then by first appearance. Nullopt for any other feature.
  std::optional<std::vector<std::string>> names(const std::string& feature) const;
  bool keeps_names(const std::string& feature) const;
  // The id of a text, which may be a bucket; for libsvm, of an index. Nullopt when it has none.
  std::optional<int64_t> Lookup(const std::string& feature, absl::string_view text) const;
  // How texts of a categorical feature become ids; null for other features.
  std::shared_ptr<const Vocabulary> shared_vocabulary(const std::string& feature) const;
  // How often each id occurs in the training part. Empty for a numeric or unknown feature, and for
  // unbounded ids.
  std::vector<int64_t> training_counts(const std::string& feature) const;
  // How numbers of the file became numbers of the batch; null for other features.
  const NumericTransform* transform(const std::string& feature) const;
  // The vocabularies and statistics that a data set of other files needs for the same ids and
  // numbers, without the names and hashes of files: one entry for each feature that is not a
  // history.
  const std::vector<proto::LearnedFeature>& learned() const { return learned_; }
  // The identification of its rows that a model trained on this data set keeps, as
  // DatasetSpec.trained.
  const proto::TrainedRows& trained_rows() const { return found_.trained; }
  // How the rows compare with those of DatasetSpec.trained.
  SinceTraining since_training() const { return found_.since; }
  // The files of its side tables, for whoever saves a model. LoadDataset has set them; where files
  // come while a job runs, it sets those that it trains with by now.
  CurrentSideTables& side_tables() const { return *side_tables_; }
  // Examples of a part whose value of a feature is in a bucket. 0 for other features than those of
  // one value with a vocabulary.
  int64_t CountUnknown(const std::string& feature, Part part) const;

  // Rows of the files that were passed over (DatasetSpec.max_bad_rows): no example is one of them.
  const BadRows& bad_rows() const { return found_.bad; }

  // Of the label column, or of one of DatasetSpec.labels by its name; all zero when there is none.
  LabelSummary label_summary(Part part, const std::string& label = "") const;

  // For a data set with a history: how many groups all rows have; else 0. Of this and the next two,
  // errors are those of GroupFiles and GroupFile (stream/), where rows are not in memory.
  absl::StatusOr<int64_t> CountGroups() const;
  // Calls `visit` with each of them, by first appearance: its name, and its training values,
  // ascending, a repeated one as often; `in_order`: in the order of the history's `by`, if it has
  // one. An error of `visit` ends it, and is returned.
  using VisitGroup =
      std::function<absl::Status(const std::string& name, absl::Span<const int64_t> values)>;
  absl::Status VisitGroups(bool in_order, const VisitGroup& visit) const;
  // The values of one; nothing where there is none of this name. Streamed, it looks at all names.
  absl::StatusOr<std::optional<std::vector<int64_t>>> HistoryOf(absl::string_view group,
                                                                bool in_order) const;

  // The same of rows in memory, by the number of the group; else empty.
  const std::vector<std::string>& groups() const { return groups_; }
  std::optional<int64_t> FindGroup(absl::string_view name) const;
  // Empty for an unknown group.
  absl::Span<const int64_t> GroupHistory(int64_t group, bool in_order = false) const;

 private:
  struct Feature {
    std::shared_ptr<const Vocabulary> vocabulary;  // categorical
    const CategoricalColumn* column = nullptr;     // categorical
    std::unique_ptr<NumericTransform> transform;   // numeric
    bool single = false;                           // the column is an IdColumn
    std::vector<std::string> names;                // of values in memory that are hashed
    bool keeps_names = false;
  };

  Dataset();
  absl::Status Build(const proto::DatasetSpec& spec);
  // What readers of the same spec have in common.
  void SetOrder(const proto::DatasetSpec& spec);
  absl::Status BuildRows(const proto::DatasetSpec& spec, Table table);
  absl::Status BuildStreamed(const proto::DatasetSpec& spec, Background background);
  // The features and labels of rows that are not in memory.
  void DescribeStreamed(const proto::DatasetSpec& spec, const StreamedSpec& data);
  int64_t streamed_examples(Part part) const;
  absl::StatusOr<Batch> ReadStreamed(const Ticket& ticket, const Ticket* ahead) const;
  // Null for a feature that the index does not have.
  const proto::IndexedFeature* Indexed(const std::string& feature) const;
  LabelSummary IndexedSummary(Part part, size_t label) const;  // a number of labels_
  // What draws the order of a ticket's epoch; nothing when it is that of the files.
  std::optional<uint64_t> OrderKey(const Ticket& ticket) const;
  absl::Status BuildText(const proto::DatasetSpec& spec);
  absl::Status SplitQueries(const proto::DatasetSpec& spec, const Table& table);
  absl::Status AddFeature(const proto::DatasetSpec& spec, int index, Table* table);
  absl::Status AddNumeric(const proto::DatasetSpec& spec, const proto::FeatureSpec& feature,
                          TableFeature* table);
  void AddVector(const proto::FeatureSpec& feature, TableFeature* table);
  // Makes the final vocabulary of a categorical feature, and its final ids.
  absl::Status FixIds(const proto::DatasetSpec& spec, int index, Table* table);
  void Remember(const proto::FeatureSpec& spec, const Feature& feature);
  void AddHistory(const proto::DatasetSpec& spec, Table* table);
  void AddKnownItems(const proto::DatasetSpec& spec, const Table& table);
  absl::Status DescribeColumns();
  const Feature* Find(const std::string& feature) const;
  absl::Status CheckTicket(const Ticket& ticket) const;
  // The examples of a ticket: their numbers in the part, in the order of the epoch.
  std::vector<uint32_t> DrawNumbers(const Ticket& ticket) const;
  // The order of an epoch of training.
  struct Order {
    uint64_t seed = 0;
    uint64_t of_data = 0;  // the seed of parts and samples, which all readers share
    bool own = false;      // each reader has its own order
    bool shuffled = false;
    double keep_negatives = 0;
  };

  const std::vector<uint32_t>& rows(Part part) const { return rows_[static_cast<size_t>(part)]; }
  // The rows that are examples, or of windows the last ones.
  const std::vector<uint32_t>& examples(Part part) const {
    const bool of_windows = part == Part::kTraining && windows() != nullptr;
    return of_windows ? windows()->last_rows() : rows(part);
  }

  const std::unique_ptr<CurrentSideTables> side_tables_ = std::make_unique<CurrentSideTables>();
  Order order_;
  uint64_t fingerprint_ = 0;
  // What the rows of the files are.
  struct Found {
    proto::TrainedRows trained;
    SinceTraining since = SinceTraining::kUnknown;
    BadRows bad;
  } found_;
  PartRows rows_;                                     // all empty for a text, see TextParts
  RowPlaces places_;                                  // of no row for a text
  std::shared_ptr<const proto::DatasetIndex> index_;  // null in memory
  std::unique_ptr<StreamedRows> stream_;              // the same
  std::unique_ptr<const Queries> queries_;            // null: each row is an example
  const SkipGramColumn* text_ = nullptr;
  std::vector<int64_t> text_counts_;
  int64_t block_ = 1;  // number of examples that stay together when an order is drawn
  std::vector<std::unique_ptr<Column>> batch_columns_;
  // The label, without a name, and those of DatasetSpec.labels. Null where there is none, or where
  // rows are not in memory.
  struct LabelColumns {
    std::string name;
    const NumericColumn* labels = nullptr;
    const NumericColumn* weights = nullptr;
  };
  std::vector<LabelColumns> labels_;
  // What only some parts have.
  struct OwnColumns {
    std::unique_ptr<TargetColumn> training;
    std::unique_ptr<Column> known;  // validation and test
  } own_;
  std::vector<ColumnSpec> specs_[2];  // training; validation and test
  absl::flat_hash_map<std::string, Feature> features_;
  std::vector<proto::LearnedFeature> learned_;
  absl::flat_hash_map<std::string, std::string> history_of_;
  std::unique_ptr<History> history_;
  std::vector<std::string> groups_;
  absl::flat_hash_map<absl::string_view, int64_t> group_ids_;  // keys point into groups_
};

}  // namespace coxswain::data
