// Reads the variables of a saved model or of a checkpoint in pieces, so that a table may be larger
// than memory. Nothing in the files is trusted; every error names the file.
//
// Rows have positions 0..rows()-1. The row at position p of a dense variable or a table is its row
// p, and its id is p; a hash table's rows have ids of their own (ReadIds), in no order.
//
// Thread-safe except for SavedWords::Reader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/tensor.h"
#include "nlohmann/json_fwd.hpp"
#include "runtime/base/row_mix.h"
#include "runtime/checkpoint/delta_files.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/cluster/control.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::model {

struct SavedVariable {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;  // [-1, dim] for a hash table, until it is opened
  bool table = false;
  bool hash = false;       // a table whose rows have ids of their own
  std::string vocabulary;  // the feature whose texts are a table's ids; empty: none
  std::string names;       // the feature with keep_names whose hashes are a table's ids; or none
  // Of a checkpoint: its rows are the moving averages of the weights, in f32 for bf16.
  bool averages = false;
  // Of these: rows that a hash table does not have begin rounded to bf16, as its weights do.
  bool begins_in_bf16 = false;

  // Whether rows of a table have names, and the feature that these are of.
  bool named() const { return table && !feature().empty(); }
  const std::string& feature() const { return names.empty() ? vocabulary : names; }
};

// The optimizer of a variable whose slots were saved too.
struct SavedOptimizer {
  std::string kind;
  int64_t steps = 0;     // updates with gradients that the slots have behind them
  bool weights = false;  // the rows of the variable are averages; its weights are saved beside them
};
// What is saved beside the rows of a variable: a slot of the optimizer by its name, or the weights.
inline constexpr char kWeightsPart[] = "weights";
// In the file of a hash table that evicts rows, see saved_hash.h.
inline constexpr char kUsesPart[] = "uses";
// Of a model: where the files of slots are in its directory.
inline constexpr char kSlotsFolder[] = "slots/";

// One variable, open.
class SavedRows {
 public:
  const SavedVariable& variable() const { return variable_; }  // `shape` as it is in the files
  int64_t rows() const { return rows_; }                       // 1 for a scalar
  int64_t row_elements() const { return row_elements_; }
  size_t row_bytes() const { return static_cast<size_t>(row_elements_) * SizeOf(variable_.dtype); }
  // How many rows are worth reading at once: about 4 MiB.
  int64_t block_rows() const;

  // Rows [begin, begin + count) as they are stored. Errors: OutOfRange; DataLoss.
  absl::Status Read(int64_t begin, int64_t count, void* out) const;
  // The same as f32 (f64 and integers are rounded), and as f64.
  absl::Status ReadFloats(int64_t begin, int64_t count, float* out) const;
  absl::Status ReadDoubles(int64_t begin, int64_t count, double* out) const;
  absl::Status ReadIds(int64_t begin, int64_t count, int64_t* ids) const;
  // The position of a row by its id, -1 when there is none: reads all ids of a hash table.
  absl::StatusOr<int64_t> FindId(int64_t id) const;

  // For each row, the number of updates that its shard had applied when the row was last updated;
  // 0: never. Only checkpoints have it.
  bool has_touched() const { return has_touched_; }
  absl::Status ReadTouched(int64_t begin, int64_t count, int64_t* out) const;

  // For each row of a hash table how it has been used; not in models of tables that evict none, nor
  // in older ones. A checkpoint does not have the time, which is 0 then.
  bool has_uses() const { return has_uses_; }
  absl::Status ReadUses(int64_t begin, int64_t count, cluster::RowUse* out) const;

  // A checkpoint's hash table also has free places; ReadLive says which.
  bool has_free_rows() const { return has_free_rows_; }
  // Which of the rows are in use, 1 or 0 each.
  absl::Status ReadLive(int64_t begin, int64_t count, char* live) const;

  // The number of a checkpoint's shards; 1 for a model.
  int64_t shards() const { return static_cast<int64_t>(pieces_.size()); }
  int64_t ShardOf(int64_t position) const;
  // The number of updates that a shard had applied.
  int64_t applied(int64_t shard) const { return pieces_[static_cast<size_t>(shard)].applied; }

  // Reads and verifies all files. Errors: DataLoss when one has changed since it was saved.
  absl::Status Verify() const;

 private:
  friend class SavedSource;
  // Some of the rows: a shard of a checkpoint, or the file of a model.
  struct Piece {
    std::shared_ptr<const checkpoint::RowFiles> files;
    int64_t begin = 0;  // its first row's position
    int64_t rows = 0;
    int64_t applied = 0;  // updates, of a checkpoint's shard
  };

  // `width` bytes a row of a tensor of all pieces.
  absl::Status ReadPart(const std::string& tensor, size_t width, int64_t begin, int64_t count,
                        char* out) const;
  absl::Status ReadMixed(const std::string& tensor, size_t width, int64_t begin, int64_t count,
                         char* out) const;
  absl::Status CheckPart(const Piece& piece, const std::string& tensor, DType dtype,
                         const Shape& shape) const;
  bool HasUses() const;  // of a model
  absl::Status Finish(std::string path);

  SavedVariable variable_;
  std::vector<Piece> pieces_;
  bool interleaved_ = false;   // position p is row p / n of piece p % n
  std::optional<RowMix> mix_;  // the same with the position's place
  std::string values_, ids_;   // names of the tensors
  std::string path_;           // of the model or the checkpoint, for messages
  int64_t rows_ = 0;
  int64_t row_elements_ = 1;
  bool has_touched_ = false;
  bool has_uses_ = false;
  bool has_free_rows_ = false;
};

// The texts of a feature, by id.
class SavedWords {
 public:
  // Errors: NotFound; those of reading.
  static absl::StatusOr<SavedWords> Load(const std::string& path);
  SavedWords(SavedWords&&) = default;  // a copy's ids_ would point into the original
  SavedWords& operator=(SavedWords&&) = default;
  const std::vector<std::string>& words() const { return words_; }
  std::optional<int64_t> Find(absl::string_view word) const;

  // Reads the texts one after the other, in bounded memory.
  class Reader {
   public:
    static absl::StatusOr<Reader> Open(const std::string& path);
    // Nullopt at the end.
    absl::StatusOr<std::optional<std::string>> Next();

   private:
    explicit Reader(std::unique_ptr<env::RandomAccessFile> file) : file_(std::move(file)) {}

    std::unique_ptr<env::RandomAccessFile> file_;
    uint64_t offset_ = 0;  // of the next byte to read
    std::string buffer_;
    size_t used_ = 0;
  };

 private:
  SavedWords() = default;

  std::vector<std::string> words_;
  absl::flat_hash_map<absl::string_view, int64_t> ids_;  // into words_
};

class CheckpointTables;
class HashedNames;  // hashed_names.h
class TableVersion;

// The rows of a variable in memory; a model's file is mapped rather than copied.
struct SavedTensors {
  SavedVariable variable;
  Tensor values;  // as they are stored
  Tensor ids;     // for a hash table: i64, parallel to the rows
  // If true, row r is at place RowMix(rows).Place(r); else at r.
  bool mixed = false;
  // For a checkpoint's table, in place of `values` and `ids`.
  std::shared_ptr<const TableVersion> rows = {};
};

class SavedSource {
 public:
  // A directory that SaveModel wrote. Errors: NotFound; DataLoss for a manifest that cannot be
  // read.
  static absl::StatusOr<SavedSource> OpenModel(const std::string& directory);
  // Checkpoint `number` of a directory of checkpoints, the newest one whose manifest is good when
  // there is no number; or the directory of one checkpoint. Errors: NotFound; DataLoss.
  static absl::StatusOr<SavedSource> OpenCheckpoint(const std::string& directory,
                                                    std::optional<uint64_t> number);

  const std::string& path() const { return path_; }
  bool is_checkpoint() const { return checkpoint_; }
  uint64_t number() const { return number_; }  // of a checkpoint
  // Whether training went on from this older checkpoint, as far as that is known.
  bool GoesOnFrom(uint64_t older) const { return !abandoned_.Has(older); }
  int64_t steps() const { return steps_; }
  // With those of the models that training went on from; of a checkpoint its own.
  int64_t all_steps() const { return steps_ + earlier_steps_; }
  const std::vector<SavedVariable>& variables() const { return variables_; }
  // Errors: NotFound, listing the existing names.
  absl::StatusOr<SavedVariable> Find(const std::string& name) const;
  // Opens the variable's files and checks their headers against the manifest. Errors: as Find;
  // DataLoss.
  absl::StatusOr<SavedRows> Open(const std::string& name) const;
  // Reads all files of a model and holds them against their checksums. Errors: DataLoss naming the
  // file; those of reading.
  absl::Status VerifyModel() const;
  // Nullopt for a variable without optimizer, and one that was saved without slots. Errors: as
  // Find.
  absl::StatusOr<std::optional<SavedOptimizer>> OptimizerOf(const std::string& name) const;
  // A slot of that optimizer, or kWeightsPart where it has `weights`: as the rows of a variable, of
  // shape [rows] where there is one value a row (`per_row`). Errors: as Open.
  absl::StatusOr<SavedRows> OpenPart(const std::string& name, const std::string& part,
                                     bool per_row) const;
  // Loads all rows. Errors: as Open; ResourceExhausted when rows have to be copied from a
  // checkpoint's shards and there is not enough memory.
  absl::StatusOr<SavedTensors> Load(const std::string& name) const;
  // The same for a checkpoint's table: rows that are as in the checkpoint that was loaded last are
  // shared with it. Errors: as Load; DataLoss for a file with a wrong checksum.
  absl::StatusOr<SavedTensors> LoadTable(const std::string& name, CheckpointTables* tables) const;
  // The file of a vocabulary, verified. Errors: DataLoss for one that has changed.
  absl::StatusOr<std::string> WordsFile(const std::string& vocabulary) const;
  // What is in it. Errors: the same.
  absl::StatusOr<SavedWords> Words(const std::string& vocabulary) const;
  // The names that were kept of values which are hashed into the ids of a table. Errors: the same.
  absl::StatusOr<HashedNames> Names(const SavedVariable& variable) const;
  // For a checkpoint: assigns vocabularies and names to its tables; their files are in `directory`.
  void UseVocabularies(const std::string& directory,
                       const std::function<std::string(const std::string& table)>& of);

 private:
  // A file of the folder of vocabularies, verified or not.
  absl::StatusOr<std::string> VerifiedFile(const std::string& name) const;
  std::string PathOf(const std::string& name) const;
  struct Piece {
    checkpoint::RowFiles::File whole;
    std::vector<checkpoint::RowFiles::File> deltas;
    int64_t index = 0, row_begin = 0;
    int64_t rows = 0;
    int64_t places = 0;  // for a hash table, including free places
    int64_t applied = 0;
  };
  struct Pieces {
    std::string strategy;  // see ps_server/shard_layout.h
    std::vector<Piece> pieces;
    std::optional<SavedOptimizer> optimizer = {};
    checkpoint::RowFiles::File slots = {};  // of a model
  };
  size_t IndexOf(const std::string& name) const;  // of a variable that Find finds
  // The variable's files, open; which tensor has its rows is given, as is what `rows` begins with.
  absl::StatusOr<SavedRows> OpenFiles(SavedRows rows, const Pieces& of) const;

  std::string path_;
  std::string words_;  // where vocabularies are; empty: in path_
  // Of the model, or beside words_: vocabularies are held against it. Null: there is none.
  absl::StatusOr<std::shared_ptr<const nlohmann::json>> manifest_ = nullptr;
  bool checkpoint_ = false;
  uint64_t number_ = 0;
  checkpoint::Abandoned abandoned_;
  int64_t steps_ = 0, earlier_steps_ = 0;
  std::vector<SavedVariable> variables_;
  std::vector<Pieces> pieces_;  // of the variables
};

}  // namespace coxswain::model
