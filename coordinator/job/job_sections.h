// The sections of a job, each from its checked YAML: what the parser consists of. Only for
// coordinator/job.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/bound_key.h"
#include "coordinator/job/checked_yaml.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::job {

struct JobReader {
  SectionView file;
  Problems* problems;
  JobSpec* job;
  JobUse use;

  void Error(const std::string& path, const std::string& message) const {
    problems->Add(path, job->Where(path), absl::StrCat(path, ": ", message));
  }
  // Fills in what the keys of the section of the schema are bound to.
  template <typename T>
  void Read(absl::string_view section, const SectionView& view, T* target) const {
    ReadKeys(JobSection(section).keys, view, target);
  }
  // Reads a section where nothing is wrong with it yet; reading what is broken would only add
  // errors that follow from others.
  bool Good(const std::string& path) const { return problems->Good(path); }
};

// These add problems and fill in `job`. Later ones look at what earlier ones read.
void ReadDataset(const JobReader& reader);  // dataset
void ReadSplit(const JobReader& reader);
void ReadTrain(const JobReader& reader);
void CheckConsistency(const JobReader& reader, const SectionView& view);  // for ReadTrain
// What a message adds that says what updates in steps cannot have: "" or "; train.deterministic
// applies ...", which the file may have in place of a mode with steps.
std::string AlsoInSteps(const JobSpec& job);
void ReadPartitioner(const JobReader& reader);
void ReadFailures(const JobReader& reader);  // checkpoint, cluster
// False when the names or kinds of features are not to be relied on.
bool ReadFeatures(const JobReader& reader);
// model and loss. False when something is wrong with them.
bool ReadModel(const JobReader& reader);
void ReadLabel(const JobReader& reader);            // label, or labels
void ReadTables(const JobReader& reader);           // optimizer and tables
void ReadEvaluate(const JobReader& reader);         // evaluate and what goes by its metrics
void CheckNoLabelIsInput(const JobReader& reader);  // when features and labels are read
void CheckDeterministic(const JobReader& reader);   // train.deterministic, when all is read

void CheckFollow(const JobReader& reader);  // dataset.follow, once all else is read

// Names of jobs, features and labels stand in keys, in names of metrics and in names of files.
constexpr char kNameCharacters[] = "ASCII letters, digits, '_' and '-'";
// These, at least one.
bool IsName(absl::string_view name);

// The loss that a model has when the file names none.
std::string DefaultLoss(const config::YamlNode& file);

// When the columns are known from the file: an error unless there is such a one.
void CheckColumn(const JobReader& reader, const std::string& path, const std::string& column);

}  // namespace coxswain::job
