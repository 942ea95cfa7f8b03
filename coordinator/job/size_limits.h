// The largest sizes that a job may name: far above what machines hold, and so small that what is
// computed of several of them fits into 64 bits. What a machine's memory does not hold is told by
// who wants the memory; what is beyond these is told when the job is read, by line and column.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/tensor/limits.h"

namespace coxswain::job {

struct TableSpec;

// Of a vector, a layer, a matrix's rank.
inline constexpr int64_t kMostWidth = int64_t{1} << 20;
inline constexpr int64_t kMostClasses = int64_t{1} << 24;
// Ids of a feature: rows of its tables. More than a shard holds at a time; hash tables have no end.
inline constexpr int64_t kMostBuckets = int64_t{1} << 32;
// The same where the coordinator counts how often each occurs.
inline constexpr int64_t kMostCountedBuckets = int64_t{1} << 28;
// Values of a list, texts of a vocabulary, examples that are looked at: numbered in 32 bits.
inline constexpr int64_t kMostOfAList = 0x7fffffff;
inline constexpr int64_t kMostNegatives = int64_t{1} << 20;
// Numbers in one table or variable.
inline constexpr int64_t kMostNumbers = kMaxElements;
inline constexpr int64_t kMostShards = int64_t{1} << 16;
// A double has all of them.
inline constexpr int64_t kMostSteps = int64_t{1} << 53;
inline constexpr int64_t kMostEpochs = 1'000'000'000;
inline constexpr int64_t kMostCheckpoints = 1'000'000;
inline constexpr int64_t kMostBytes = int64_t{1} << 50;
inline constexpr int64_t kMostBlockBytes = int64_t{1} << 40;
inline constexpr int64_t kMostBadRows = 1'000'000;        // an index has the place of each
inline constexpr int64_t kMostBlocks = int64_t{1} << 20;  // mixed with each other
// Suggestions shown for one user.
inline constexpr int64_t kMostShown = 10'000;

// What is wrong with a table of so many rows; empty: nothing.
std::string TooManyNumbers(const TableSpec& table, int64_t rows);

}  // namespace coxswain::job
