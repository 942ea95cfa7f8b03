#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "runtime/function/partition.h"
#include "runtime/function/place_on_devices.h"

namespace coxswain::function {
namespace {

std::string Attributes(const graph::Node& node) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : node.attrs) {
    if (name == "types" || name == "index" || name == "dtype" || name == "shape" ||
        name == "value") {
      continue;
    }
    parts.push_back(absl::StrCat(name, "=", value.ToString()));
  }
  return parts.empty() ? "" : absl::StrCat(" {", absl::StrJoin(parts, ", "), "}");
}

std::string Types(const graph::Node& node) {
  return absl::StrJoin(node.outputs, ", ", [](std::string* out, const TensorType& t) {
    absl::StrAppend(out, t.ToString());
  });
}

std::string Inputs(const graph::Graph& graph, const graph::Node& node) {
  return absl::StrJoin(node.inputs, ", ", [&](std::string* out, const Output& in) {
    absl::StrAppend(out, graph.node(in.node).name);
    if (graph.node(in.node).outputs.size() > 1) absl::StrAppend(out, ":", in.index);
  });
}

std::string NodeLine(const graph::Graph& graph, const graph::Node& node) {
  std::string line = absl::StrCat("  ", node.name, " = ", node.op, "(", Inputs(graph, node), ")",
                                  Attributes(node));
  if (!node.outputs.empty()) absl::StrAppend(&line, " -> ", Types(node));
  if (IsOnDevice(node)) absl::StrAppend(&line, " on GPU:", DeviceOf(node));
  return line + "\n";
}

std::string CallLines(const graph::Graph& graph, const graph::Node& node) {
  const PsCallTarget to = GetPsCallTarget(node);
  std::string text;
  for (const Output& in : node.inputs) {
    absl::StrAppend(&text, "  send ", graph.node(in.node).name, ":", in.index, " ",
                    graph.type(in).ToString(), " -> ps:", to.ps, " segment ", to.segment, "\n");
  }
  if (node.inputs.empty()) {
    absl::StrAppend(&text, "  send (empty frame) -> ps:", to.ps, " segment ", to.segment, "\n");
  }
  for (const TensorType& t : node.outputs) {
    absl::StrAppend(&text, "  recv ", t.ToString(), " <- ps:", to.ps, " segment ", to.segment,
                    "\n");
  }
  if (node.outputs.empty()) {
    absl::StrAppend(&text, "  recv (acknowledgement) <- ps:", to.ps, " segment ", to.segment, "\n");
  }
  return text;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\\\""}}), "\"");
}

std::string DotCluster(const std::string& id, const std::string& label,
                       const graph::Function& function) {
  std::string text = absl::StrCat("  subgraph ", Quoted("cluster_" + id),
                                  " {\n    label=", Quoted(label), "; style=rounded;\n");
  for (const graph::Node& n : function.graph.nodes()) {
    if (n.op == kPsCallOp) continue;
    absl::StrAppend(&text, "    ", Quoted(id + "/" + n.name),
                    " [label=", Quoted(absl::StrCat(n.op, "\\n", Types(n))), "];\n");
    for (const Output& in : n.inputs) {
      if (function.graph.node(in.node).op == kPsCallOp) continue;
      absl::StrAppend(&text, "    ", Quoted(id + "/" + function.graph.node(in.node).name), " -> ",
                      Quoted(id + "/" + n.name), ";\n");
    }
  }
  return text + "  }\n";
}

}  // namespace

std::string PartitionToText(const Partition& partition) {
  std::string text = absl::StrCat("function '", partition.worker.name, "'\n\ncomponent worker (",
                                  partition.worker.graph.size(), " nodes)\n");
  for (const graph::Node& n : partition.worker.graph.nodes()) {
    text += n.op == kPsCallOp ? CallLines(partition.worker.graph, n)
                              : NodeLine(partition.worker.graph, n);
  }
  for (const auto& r : partition.worker.results) {
    absl::StrAppend(&text, "  return ", r.name, " = ",
                    partition.worker.graph.node(r.output.node).name, "\n");
  }
  for (size_t p = 0; p < partition.segments.size(); ++p) {
    absl::StrAppend(&text, "\ncomponent ps:", p, "\n");
    for (size_t s = 0; s < partition.segments[p].size(); ++s) {
      const graph::Function& segment = partition.segments[p][s];
      if (segment.graph.size() == 0) continue;
      absl::StrAppend(&text, " segment ", s, "\n");
      for (const graph::Node& n : segment.graph.nodes()) {
        if (n.op == "Arg") {
          absl::StrAppend(&text, "  ", n.name, " = recv ", Types(n), " <- worker\n");
        } else {
          text += NodeLine(segment.graph, n);
        }
      }
      for (const auto& r : segment.results) {
        absl::StrAppend(&text, "  send ", r.name, " -> worker\n");
      }
    }
  }
  return text;
}

std::string PartitionToDot(const Partition& partition) {
  const graph::Function& worker = partition.worker;
  std::string text = absl::StrCat("digraph ", Quoted(worker.name),
                                  " {\n  compound=true; node [shape=box, fontsize=10];\n");
  text += DotCluster("worker", "worker", worker);
  for (size_t p = 0; p < partition.segments.size(); ++p) {
    for (size_t s = 0; s < partition.segments[p].size(); ++s) {
      if (partition.segments[p][s].graph.size() == 0) continue;
      text += DotCluster(absl::StrCat("ps", p, "_", s), absl::StrCat("ps:", p, " segment ", s),
                         partition.segments[p][s]);
    }
  }
  for (const graph::Node& n : worker.graph.nodes()) {
    if (n.op != kPsCallOp) {
      for (const Output& in : n.inputs) {
        const graph::Node& from = worker.graph.node(in.node);
        if (from.op != kPsCallOp) continue;
        const PsCallTarget t = GetPsCallTarget(from);
        const graph::Function& segment = partition.segments[t.ps][t.segment];
        const Output source = segment.results[in.index].output;
        absl::StrAppend(&text, "  ",
                        Quoted(absl::StrCat("ps", t.ps, "_", t.segment, "/",
                                            segment.graph.node(source.node).name)),
                        " -> ", Quoted("worker/" + n.name), " [color=blue];\n");
      }
      continue;
    }
    const PsCallTarget t = GetPsCallTarget(n);
    const graph::Function& segment = partition.segments[t.ps][t.segment];
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const graph::Node& from = worker.graph.node(n.inputs[i].node);
      if (from.op == kPsCallOp) continue;  // relayed between two frames
      absl::StrAppend(&text, "  ", Quoted("worker/" + from.name), " -> ",
                      Quoted(absl::StrCat("ps", t.ps, "_", t.segment, "/",
                                          segment.graph.node(segment.arguments[i].node).name)),
                      " [color=red];\n");
    }
  }
  return text + "}\n";
}

}  // namespace coxswain::function
