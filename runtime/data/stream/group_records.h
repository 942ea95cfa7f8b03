// What is sorted while a group file is made.
#pragma once

#include <cstdint>

#include "runtime/data/stream/group_file.h"
#include "runtime/data/stream/group_key.h"

namespace coxswain::data {

inline constexpr int64_t kNoValue = -1;  // the row's value is not one of the group's

// A row, in the order of its group: its value, and where its past ends. For rows of queries these
// are two records, because all of a query looks back from where it begins.
struct RowRecord {
  GroupKey group;
  uint64_t order = 0;
  int64_t row : 63 = 0;
  bool looks : 1 = true;  // its place is where the row's past ends
  int64_t value = kNoValue;

  friend bool operator<(const RowRecord& a, const RowRecord& b) {
    if (a.group != b.group) return a.group < b.group;
    if (a.order != b.order) return a.order < b.order;
    return a.row != b.row ? a.row < b.row : a.looks < b.looks;
  }
};

// A group, in the order of first rows.
struct GroupRecord {
  int64_t first_row = 0;
  int64_t place = 0;  // in the order of keys
  GroupFile::Extent values;

  friend bool operator<(const GroupRecord& a, const GroupRecord& b) {
    return a.first_row < b.first_row;
  }
};

// Its number, in the order of keys.
struct NumberRecord {
  int64_t place = 0, number = 0;

  friend bool operator<(const NumberRecord& a, const NumberRecord& b) { return a.place < b.place; }
};

// What the file says of a row.
struct PlacedRow {
  int64_t row = 0;
  GroupedRow says;

  friend bool operator<(const PlacedRow& a, const PlacedRow& b) { return a.row < b.row; }
};

}  // namespace coxswain::data
