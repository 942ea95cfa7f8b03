#include "worker_server/blame.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"

namespace coxswain::worker {
namespace {

constexpr size_t kMostNamed = 5;
// Numbers of a batch below this are not worth a remark.
constexpr float kLarge = 1e6;
// How ragged columns are named, see runtime/data/batch.h.
constexpr char kValues[] = ".values", kWeights[] = ".weights", kOffsets[] = ".offsets";

// The arguments by which the ids of a table's checked gradients came about.
std::set<size_t> IdArguments(const graph::Function& component, const std::string& variable) {
  std::vector<int> to_visit;
  for (const graph::Node& node : component.graph.nodes()) {
    if (node.op != "CheckGradient" || node.inputs.size() != 2) continue;
    if (graph::AttrOr<std::string>(node.attrs, "variable", "") == variable) {
      to_visit.push_back(node.inputs[1].node);
    }
  }
  std::set<int> visited;
  std::set<size_t> arguments;
  while (!to_visit.empty()) {
    const int id = to_visit.back();
    to_visit.pop_back();
    if (!visited.insert(id).second) continue;
    for (size_t a = 0; a < component.arguments.size(); ++a) {
      if (component.arguments[a].node == id) arguments.insert(a);
    }
    for (const Output& input : component.graph.node(id).inputs) to_visit.push_back(input.node);
  }
  return arguments;
}

// Which example of the batch, from 0, each element of an argument belongs to.
class Owners {
 public:
  // Nothing for an argument that has no element for an example.
  static std::optional<Owners> Of(const StepInput& input, size_t argument) {
    const Tensor& column = input.arguments[argument];
    if (column.rank() < 1 || column.num_elements() == 0) return std::nullopt;
    Owners owners;
    owners.width_ = column.num_elements() / column.dim(0);
    absl::string_view name = input.sources[argument].column();
    if (!absl::ConsumeSuffix(&name, kValues) && !absl::ConsumeSuffix(&name, kWeights)) {
      return owners;
    }
    for (size_t a = 0; a < input.sources.size(); ++a) {
      if (input.sources[a].column() == absl::StrCat(name, kOffsets) &&
          input.arguments[a].dtype() == DType::kI32) {
        owners.offsets_ = input.arguments[a].values<int32_t>();
      }
    }
    if (owners.offsets_.empty()) return std::nullopt;
    return owners;
  }

  int64_t operator[](int64_t element) const {
    if (offsets_.empty()) return element / width_;
    return std::upper_bound(offsets_.begin(), offsets_.end(), element) - offsets_.begin() - 1;
  }

 private:
  int64_t width_ = 1;
  absl::Span<const int32_t> offsets_;
};

// Adds the examples that have the id in this argument.
void FindId(int64_t id, size_t argument, const StepInput& input, std::set<int64_t>* examples) {
  const Tensor& column = input.arguments[argument];
  const auto owners = Owners::Of(input, argument);
  if (column.dtype() != DType::kI64 || !owners) return;
  for (int64_t i = 0; i < column.num_elements(); ++i) {
    if (column.data<int64_t>()[i] == id) examples->insert((*owners)[i]);
  }
}

struct LargeNumber {
  std::string column;
  float value = 0;
  int64_t example = 0;
};

// The largest number of the columns, of all examples or, unless that is empty, of these.
LargeNumber FindLargest(const StepInput& input, const std::set<int64_t>& examples) {
  LargeNumber largest;
  for (size_t a = 0; a < input.sources.size(); ++a) {
    const Tensor& column = input.arguments[a];
    const auto owners = Owners::Of(input, a);
    if (input.sources[a].column().empty() || column.dtype() != DType::kF32 || !owners) continue;
    for (int64_t i = 0; i < column.num_elements(); ++i) {
      const float value = column.data<float>()[i];
      if (std::abs(value) <= std::abs(largest.value)) continue;
      if (!examples.empty() && !examples.contains((*owners)[i])) continue;
      largest = {input.sources[a].column(), value, (*owners)[i]};
    }
  }
  return largest;
}

// Where an example of the step stands, if that is known.
std::optional<std::string> PlaceOf(const StepInput& input, int64_t example) {
  if (input.data == nullptr) return std::nullopt;
  Ticket ticket = input.examples;
  ticket.begin += example;
  return input.data->PlaceOf(ticket);
}

// "examples 3, 7 of training epoch 0, counted from 0: ratings.csv:5, ratings.csv:9".
std::string Name(const StepInput& input, const std::set<int64_t>& examples) {
  std::vector<int64_t> numbers;
  std::vector<std::string> places;
  for (const int64_t example : examples) {
    if (numbers.size() == kMostNamed) break;
    numbers.push_back(input.examples.begin + example);
    if (auto place = PlaceOf(input, example)) places.push_back(*std::move(place));
  }
  const absl::string_view more = examples.size() > numbers.size() ? ", ..." : "";
  return absl::StrCat(
      examples.size() == 1 ? "example " : "examples ", absl::StrJoin(numbers, ", "), more,
      input.examples.size() > 0
          ? absl::StrCat(" of ", PartName(input.examples.part), " epoch ", input.examples.epoch)
          : " of the arguments",
      ", counted from 0",
      places.empty() ? "" : absl::StrCat(": ", absl::StrJoin(places, ", "), more));
}

}  // namespace

absl::Status NameExamples(absl::Status status, const StepInput& input) {
  const auto detail = GetNotFinite(status);
  if (!detail || input.sources.size() != input.arguments.size()) return status;
  std::set<int64_t> found;
  if (detail->id) {
    for (const size_t a : IdArguments(input.component, detail->variable)) {
      if (a < input.arguments.size()) FindId(*detail->id, a, input, &found);
    }
  }
  std::string told;
  if (!found.empty()) absl::StrAppend(&told, "; the id is in ", Name(input, found));
  if (found.size() != 1) {
    const LargeNumber largest = FindLargest(input, found);
    if (std::abs(largest.value) >= kLarge) {
      absl::StrAppend(&told, "; the largest number ", found.empty() ? "of the batch" : "of these",
                      " is ", largest.value, ", in column '", largest.column, "' of ",
                      Name(input, {largest.example}));
    }
  }
  if (told.empty()) return status;
  absl::Status named(status.code(), absl::StrCat(status.message(), told));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { named.SetPayload(url, payload); });
  return named;
}

}  // namespace coxswain::worker
