#include "worker_server/blame.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr size_t kMostNamed = 5;
// How ragged columns are named, see runtime/data/batch.h.
constexpr char kValues[] = ".values", kOffsets[] = ".offsets";

// The arguments by which the ids of a table's checked gradients came about.
std::set<size_t> IdArguments(const Function& component, const std::string& variable) {
  std::vector<int> to_visit;
  for (const Node& node : component.graph.nodes()) {
    if (node.op != "CheckGradient" || node.inputs.size() != 2) continue;
    if (AttrOr<std::string>(node.attrs, "variable", "") == variable) {
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

// Adds the places in the batch, from 0, of the examples that have the id in this argument.
void FindId(int64_t id, size_t argument, const std::vector<proto::ArgumentSource>& sources,
            const std::vector<Tensor>& arguments, std::set<int64_t>* examples) {
  const Tensor& column = arguments[argument];
  if (column.dtype() != DType::kI64 || column.rank() < 1 || column.num_elements() == 0) return;
  absl::Span<const int32_t> offsets;
  absl::string_view name = sources[argument].column();
  if (absl::ConsumeSuffix(&name, kValues)) {
    for (size_t a = 0; a < sources.size(); ++a) {
      if (sources[a].column() == absl::StrCat(name, kOffsets)) {
        if (arguments[a].dtype() == DType::kI32) offsets = arguments[a].values<int32_t>();
      }
    }
    if (offsets.empty()) return;
  }
  const int64_t width = column.num_elements() / column.dim(0);
  for (int64_t i = 0; i < column.num_elements(); ++i) {
    if (column.data<int64_t>()[i] != id) continue;
    const auto bag = std::upper_bound(offsets.begin(), offsets.end(), i);
    examples->insert(offsets.empty() ? i / width : bag - offsets.begin() - 1);
  }
}

}  // namespace

absl::Status NameExamples(absl::Status status, const Function& component,
                          const std::vector<proto::ArgumentSource>& sources,
                          const std::vector<Tensor>& arguments, const Ticket& examples) {
  const auto detail = GetNotFinite(status);
  if (!detail || !detail->id || sources.size() != arguments.size()) return status;
  std::set<int64_t> found;
  for (const size_t a : IdArguments(component, detail->variable)) {
    if (a < arguments.size()) FindId(*detail->id, a, sources, arguments, &found);
  }
  if (found.empty()) return status;
  std::vector<int64_t> named;
  for (const int64_t place : found) {
    if (named.size() < kMostNamed) named.push_back(examples.begin + place);
  }
  const bool ticket = examples.size() > 0;
  absl::Status told(
      status.code(),
      absl::StrCat(status.message(), "; the id is in ",
                   found.size() == 1 ? "example " : "examples ", absl::StrJoin(named, ", "),
                   found.size() > named.size() ? ", ..." : "",
                   ticket ? absl::StrCat(" of ", PartName(examples.part), " epoch ", examples.epoch)
                          : " of the arguments",
                   ", counted from 0"));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

}  // namespace coxswain
