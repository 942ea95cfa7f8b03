// A part of the files of a data set, read by itself: whole files, or a range of one. First its rows
// are read, which takes time and can be done for many parts at once. When the rows in front of them
// are known by what they come to, the part is added up, which is quick. Both together are what the
// pass of one process does with these rows, to the bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/index_tally.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

class BlockCutter;

// What the parts of a data set share: vocabularies and side tables that are read from files of
// their own. Thread-safe.
class PartFiles {
 public:
  // As BindColumns, but these files are read once.
  absl::Status Bind(const proto::DatasetSpec& spec, Table* table, TableRows* rows);
  // Parts that are being read end with Cancelled at their next block.
  void Stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

 private:
  std::atomic<bool> stopped_{false};
  absl::Mutex mu_;
  struct Bound {
    KnownVocabularies vocabularies;
    std::shared_ptr<const SideTables> side_tables;
  };
  // By the hash of the spec: some passes read only some of the columns.
  std::map<uint64_t, Bound> bound_ ABSL_GUARDED_BY(mu_);
};

// Thread model: one thread at a time.
class FilePart {
 public:
  // Reads the rows of a part whose spec CheckSpec returned, and keeps them; `shared` must outlive
  // that. Of a range that ends
  // between two blocks, or within a row, the blocks in front of that are the part. Errors: those of
  // the format; FailedPrecondition for a file that is not the one that the part names;
  // InvalidArgument for a part that makes no sense.
  static absl::StatusOr<std::unique_ptr<FilePart>> Read(const proto::PartOfFiles& part,
                                                        PartFiles* shared);
  // Reads and adds up at once, block by block, without keeping rows: for parts of any size, but
  // not for ranges of bytes. Errors: as those of Read and AddUp.
  static absl::StatusOr<proto::IndexedPart> ReadBehind(const proto::PartOfFiles& part,
                                                       const proto::IndexState& before,
                                                       PartFiles* shared);
  ~FilePart();
  FilePart(const FilePart&) = delete;
  FilePart& operator=(const FilePart&) = delete;

  // Where the last whole block of a range ends.
  int64_t end() const { return end_; }
  // How many are kept.
  int64_t rows() const;
  // What the part adds to the index behind `before`. Called once. Errors: InvalidArgument for a
  // state that makes no sense.
  absl::StatusOr<proto::IndexedPart> AddUp(const proto::IndexState& before);

 private:
  struct Kept {
    proto::IndexedBlock block;
    int32_t file;
    Table rows;
  };

  FilePart(const proto::PartOfFiles& part, PartFiles* shared);
  absl::Status ReadFiles();
  absl::Status ReadPiece();
  absl::Status ReadWhole();
  absl::Status ReadGroups();
  absl::Status ReadBytes();
  absl::Status ExplainText(const env::RandomAccessFile& file, const absl::Status& wrong);
  // The file is the one that the coordinator has.
  absl::Status CheckFile(int file) const;
  absl::Status TakeBlock(const proto::IndexedBlock& block);
  void FillPart(IndexTally* tally, proto::IndexedPart* part) const;
  IndexTally NewTally() const;
  bool is_range() const { return part_.end() > 0; }
  bool only_counts() const { return part_.count_size() > 0; }

  const proto::PartOfFiles part_;
  const proto::DatasetSpec& spec_;
  Table table_;
  TableRows rows_;
  std::unique_ptr<BlockCutter> cutter_;
  std::vector<proto::IndexedFile> files_;  // as they were found
  int32_t file_ = 0;                       // that is being read
  size_t bound_ = 0;                       // contents that are not of these files
  std::vector<Kept> kept_;
  // At the end of the last block: what is behind it is no part of this.
  int64_t end_ = 0;
  std::vector<int64_t> texts_;  // by feature
  size_t logged_ = 0;
  std::string log_;    // of the chain of rows
  std::string bytes_;  // of a range
  PartFiles& shared_;
  // Where rows are added up at once.
  IndexTally* tally_ = nullptr;
  proto::IndexedPart* sums_ = nullptr;
};

}  // namespace coxswain::data
