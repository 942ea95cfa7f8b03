#include "coordinator/cli/held_out.h"

#include "absl/strings/str_cat.h"
#include "coordinator/cli/display.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::cli {
namespace {

// A part that is in files of its own has no row of the others.
bool DrawnByRow(const job::JobSpec& job, Part part) {
  return part != Part::kTest || job.dataset.split().test_paths().empty();
}

std::string Counts(int64_t training, int64_t validation, int64_t test) {
  return absl::StrCat(WithCommas(training), " training, ", WithCommas(validation),
                      " validation and ", WithCommas(test), " test examples");
}

}  // namespace

HeldOut IsHeldOut(const std::string& source, const model::TrainedOn& trained,
                  const job::JobSpec& job, const data::Dataset& data, std::optional<Part> scored) {
  if (!scored || !DrawnByRow(job, *scored)) return {};
  const bool earlier = !source.empty();
  const std::string who = earlier ? source : "the model";
  const std::string part = absl::StrCat("the ", PartName(*scored), " part");
  const std::string rows = data.is_text() ? "words" : "rows";
  const std::string trained_on =
      absl::StrCat(who, " was trained on ", WithCommas(trained.rows.rows()), " ", rows);
  const std::string outcome =
      absl::StrCat(part, " may have ", rows, " that ", who, " was trained on");
  switch (data.since_training()) {
    case data::SinceTraining::kSame:
    case data::SinceTraining::kGrown:
      if (!model::KeepsParts(trained, data)) {
        return {false, true,
                absl::StrCat(trained_on,
                             ", of which it knew the first ones before, and the data is not just "
                             "these: which parts they had depends on what is there, so that ",
                             outcome)};
      }
      if (!trained.doubtful) return {};
      return {false, false,
              absl::StrCat(who, " was trained on from another one: whether that was trained on ",
                           rows, " of ", part, " is not known")};
    case data::SinceTraining::kUnknown:
      return {false, false,
              absl::StrCat(earlier ? absl::StrCat("nothing tells which ", rows, " ", source,
                                                  " was trained on")
                                   : absl::StrCat("the model was saved by an earlier version of "
                                                  "coxswain, which did not keep what tells its ",
                                                  rows, " again"),
                           ": whether ", part, " has some of these is not known")};
    case data::SinceTraining::kOtherRows:
      if (earlier) {
        return {false, false,
                absl::StrCat(trained_on,
                             ", and the data does not begin with these. If it has some "
                             "of them, ",
                             outcome)};
      }
      return {false, true,
              absl::StrCat(trained_on,
                           ", and the data does not begin with these: they were changed, sorted or "
                           "removed. Parts are drawn by the place in the data, so that ",
                           outcome)};
    case data::SinceTraining::kOtherDraw:
      return {false, true,
              absl::StrCat(data::DrawChange(job.dataset), " since ", who, " was trained, so that ",
                           outcome)};
  }
  return {};
}

absl::Status NotHeldOut(const std::string& source, const HeldOut& found) {
  return config::ConfigurationError(absl::StrCat(
      found.why,
      source.empty()
          ? ".\nGive the data and the split of training (--set dataset.path=FILE), or data that "
            "the model has not seen as a test part of its own (--set "
            "'split={test_path: FILE}'); --allow-training-rows scores it as it is"
          : ".\nGive the split and the seed with which it was trained, or rows that it has not "
            "seen as a test part of their own (--set 'split={test_path: FILE}'); "
            "--allow-training-rows trains and evaluates as it is"));
}

std::string NewExamples(const std::string& source, const model::TrainedOn& trained,
                        const job::JobSpec& job, const data::Dataset& data) {
  const bool grown = data.since_training() == data::SinceTraining::kGrown;
  if (!grown || !model::KeepsParts(trained, data)) return "";
  const int64_t training = data.part_size(Part::kTraining) - trained.training;
  int64_t held_out = data.num_examples(Part::kValidation) - trained.validation;
  if (DrawnByRow(job, Part::kTest)) held_out += data.num_examples(Part::kTest) - trained.test;
  if (held_out < 0) {  // parts that begin later (split.test_from) give rows to training
    return absl::StrCat(WithCommas(training), " examples are trained on that were not when ",
                        source, " was trained");
  }
  std::string text = absl::StrCat(WithCommas(training + held_out), " examples are new since ",
                                  source, " was trained: ", WithCommas(training),
                                  " of them are trained on, ", WithCommas(held_out), " held out");
  const proto::SplitSpec& split = job.dataset.split();
  if (!split.by().empty() && split.validation_fraction() + split.test_fraction() > 0) {
    absl::StrAppend(&text, " (with split.by, its shares are shares of all examples, and are taken ",
                    "from the latest)");
  }
  return text;
}

std::string ChangeSinceTraining(const model::TrainedOn& trained, const data::Dataset& data) {
  const std::string then = Counts(trained.training, trained.validation, trained.test);
  const std::string now =
      Counts(data.part_size(Part::kTraining), data.num_examples(Part::kValidation),
             data.num_examples(Part::kTest));
  const bool other_rows = data.since_training() == data::SinceTraining::kOtherRows;
  if (then == now && !other_rows) return "";
  return absl::StrCat("the data has changed since the model was trained: ",
                      then == now ? absl::StrCat("as many examples, but not the same rows in the "
                                                 "same order")
                                  : absl::StrCat(then, " then, ", now, " now"),
                      "; it is read with the model's vocabularies and statistics");
}

}  // namespace coxswain::cli
