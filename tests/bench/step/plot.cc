#include "tests/bench/step/plot.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "tests/bench/svg.h"

namespace coxswain {
namespace {

using Json = nlohmann::json;

constexpr int kWidth = 960, kLeft = 190, kBars = 640, kBar = 14, kGap = 12, kTop = 74;

struct Part {
  std::string name;
  std::string color;
  double ms = 0;
};

struct Line {
  std::string title;
  std::string rate;
  std::vector<Part> spent, floor;
};

double Total(const std::vector<Part>& parts) {
  double sum = 0;
  for (const Part& part : parts) sum += part.ms;
  return sum;
}

// Of all tasks whose name begins so.
double CpuMs(const Json& object, const std::string& role) {
  double sum = 0;
  for (const auto& [task, ms] : object.at("cpu_ms_per_step").items()) {
    if (task.rfind(role, 0) == 0) sum += ms.get<double>();
  }
  return sum;
}

// What computes is known by wall time; the rest of the workers' CPU time is what brings bytes.
std::vector<Part> Spent(const Json& o) {
  const double rate = o.at("steps_per_second");
  const double threads = o.at("compute_threads");
  const bool one = o.at("in_process");
  const double cpu = one ? CpuMs(o, "all") : CpuMs(o, "worker:");
  const double compute = std::min(
      cpu, rate > 0 ? o.at("worker_compute_share").get<double>() * threads * 1e3 / rate : 0);
  if (one) return {{"kernels and PS", "#2b6cb0", compute}, {"the rest", "#a0aec0", cpu - compute}};
  return {{"workers: kernels", "#2b6cb0", compute},
          {"workers: the rest", "#90cdf4", cpu - compute},
          {"PS", "#2f855a", CpuMs(o, "ps:")},
          {"coordinator", "#a0aec0", CpuMs(o, "coordinator")}};
}

std::vector<Part> Floor(const Json& o) {
  if (!o.contains("floor_cpu_ms")) return {};
  const double products = o.at("floor_products_ms"), rows = o.at("floor_rows_ms");
  return {{"floor: products", "#dd6b20", products},
          {"floor: rows", "#ecc94b", rows},
          {"floor: stream", "#fbd38d",
           std::max(0.0, o.at("floor_cpu_ms").get<double>() - products - rows)}};
}

Line MakeLine(const Json& o) {
  Line line;
  const std::string cluster = absl::StrCat(o.at("ps").get<int>(), "x", o.at("workers").get<int>());
  line.title = absl::StrCat(o.at("case").get<std::string>(), ", ",
                            o.at("in_process").get<bool>() ? "in process" : cluster);
  if (o.value("compute", "f32") != "f32") {
    absl::StrAppend(&line.title, ", ", o.at("compute").get<std::string>());
  }
  if (o.value("wire", "f32") != "f32") absl::StrAppend(&line.title, ", bf16 on the wire");
  line.rate = absl::StrFormat("%.0f steps/s", o.at("steps_per_second").get<double>());
  line.spent = Spent(o);
  line.floor = Floor(o);
  return line;
}

std::string Bar(const std::vector<Part>& parts, double scale, double y) {
  std::string svg;
  double x = kLeft;
  for (const Part& part : parts) {
    const double width = part.ms * scale;
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" "
                          "fill=\"%s\"><title>%s: %.3f ms</title></rect>\n",
                          x, y, width, kBar, part.color, Escaped(part.name), part.ms);
    x += width;
  }
  svg += SvgText(x + 6, y + kBar - 3, absl::StrFormat("%.3g ms", Total(parts)));
  return svg;
}

std::string Legend(const std::vector<Line>& lines) {
  std::vector<std::pair<std::string, std::string>> seen;  // name, color
  for (const Line& line : lines) {
    for (const auto* parts : {&line.spent, &line.floor}) {
      for (const Part& part : *parts) {
        const std::pair<std::string, std::string> entry(part.name, part.color);
        if (std::find(seen.begin(), seen.end(), entry) == seen.end()) seen.push_back(entry);
      }
    }
  }
  std::string svg;
  double x = 12, y = 40;
  for (const auto& [name, color] : seen) {
    const double width = 30 + 6.6 * static_cast<double>(name.size());
    if (x + width > kWidth) x = 12, y += 17;
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"%s\"/>\n",
                          x, y - 10, color);
    svg += SvgText(x + 16, y, name);
    x += width;
  }
  return svg;
}

std::string Draw(const std::vector<Line>& lines) {
  const int row = 2 * kBar + kGap;
  const int height = kTop + row * static_cast<int>(lines.size()) + 8;
  std::string svg = SvgHead(kWidth, height);
  svg += SvgText(12, 20, "CPU time of a step, all processes, and the floors of its parts");
  svg += Legend(lines);
  double y = kTop;
  for (const Line& line : lines) {
    const double longest = std::max({Total(line.spent), Total(line.floor), 1e-9});
    svg += SvgText(kLeft - 8, y + kBar - 3, line.title, "end");
    svg += SvgText(kLeft - 8, y + 2 * kBar - 2, line.rate, "end");
    svg += Bar(line.spent, kBars / longest, y);
    if (Total(line.floor) > 0) svg += Bar(line.floor, kBars / longest, y + kBar + 1);
    y += row;
  }
  return svg + "</svg>\n";
}

}  // namespace

absl::StatusOr<std::string> PlotSteps(absl::string_view json) {
  try {
    const Json list = Json::parse(json.begin(), json.end());
    if (!list.is_array() || list.empty()) {
      return absl::InvalidArgumentError("wanted a list of figures, as `step --json` writes it");
    }
    std::vector<Line> lines;
    for (const Json& object : list) lines.push_back(MakeLine(object));
    return Draw(lines);
  } catch (const Json::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a list of figures, as `step --json` writes it: ", e.what()));
  }
}

}  // namespace coxswain
