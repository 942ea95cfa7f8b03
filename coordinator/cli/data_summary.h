// What a job's data holds, for people to look at before training.
#pragma once

#include <string>

#include "coordinator/job/job_spec.h"
#include "runtime/data/bad_rows.h"
#include "runtime/data/dataset.h"
#include "runtime/data/join_counts.h"

namespace coxswain::cli {

// "labels of 8,066 training examples: 0 74.4%, 1 25.6%\n"; empty for a model without labels.
// Features that are read for nothing, a line; empty where there are none.
std::string DescribeUnused(const job::JobSpec& job);
std::string DescribeLabels(const job::JobSpec& job, const data::Dataset& data);
// Examples, labels, vocabularies and numbers, a line each: for `coxswain validate --data`.
std::string DescribeData(const job::JobSpec& job, const data::Dataset& data);
// What is wrong with the first few, a line each, and how many more there are.
std::string DescribeBadRows(const data::BadRows& bad);
// A line for each table that is joined.
std::string DescribeJoins(const job::JobSpec& job, const data::JoinCounts& joins);

}  // namespace coxswain::cli
