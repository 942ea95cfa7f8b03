// The parts of rows of a split by a column, once it is known where the column's values are cut.
#pragma once

#include <cstdint>
#include <limits>

#include "protos/dataset_index.pb.h"
#include "runtime/data/ticket.h"

namespace coxswain::data {

// Thread model: a value.
class TimeCuts {
 public:
  TimeCuts() = default;  // all rows are training rows
  explicit TimeCuts(const proto::TimeCuts& cuts);
  proto::TimeCuts Save() const;

  // The part of the next row: they come in their order, each with its number and value. A row that
  // is held out is a test row, and the cuts do not count it; `of_all`: they do not among all rows.
  Part Next(int64_t row, double value, bool held_out = false, bool of_all = false);
  // The part of any row. Not before all have come.
  Part Of(int64_t row, double value) const;
  // Whether all rows have come that the cuts wait for.
  bool over() const;
  // Whether a row's value may make it a held-out row.
  bool any() const;

 private:
  // Values are finite: no row is behind one without a value.
  struct Cut {
    double value = std::numeric_limits<double>::infinity();
    int64_t rows = 0;
    int64_t row = -1;
  };
  struct Cuts {
    Cut validation, test;
  };

  static void Read(const proto::SplitCuts& from, Cuts* to);
  static void Write(const Cuts& from, proto::SplitCuts* to);
  static bool Passes(int64_t row, double value, Cut* cut);
  static bool IsBehind(int64_t row, double value, const Cut& cut);
  static Part Pass(int64_t row, double value, Cuts* cuts);

  int64_t kept_rows_ = 0;
  Cuts kept_, all_;
};

}  // namespace coxswain::data
