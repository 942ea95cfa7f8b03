#include "tests/bench/convergence/convergence_plot.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/svg.h"

namespace coxswain {
namespace {

constexpr int kPanel = 400, kPlot = 300, kLeft = 64, kTop = 62, kHeight = 440, kGap = 20;
constexpr const char* kColors[] = {"#2b6cb0", "#805ad5", "#c53030",
                                   "#dd6b20", "#2f855a", "#718096"};

const char* ColorOf(size_t line) { return kColors[line % std::size(kColors)]; }

// From seconds and workers to places in a panel.
struct Scale {
  double low = 0, high = 1;  // log2 of seconds
  double most = 1;           // log2 of workers

  double X(double workers) const {
    return kLeft + (most > 0 ? std::log2(workers) / most : 0.5) * kPlot;
  }
  double Y(double seconds) const {
    return kTop + (high - std::log2(seconds)) / (high - low) * kPlot;
  }
};

Scale ScaleOf(const std::vector<int>& workers, const std::vector<ConvergencePanel>& panels) {
  double least = 1e300, most = 0;
  for (const ConvergencePanel& panel : panels) {
    for (const ConvergenceLine& line : panel.lines) {
      for (const auto& seconds : line.seconds) {
        if (!seconds || *seconds <= 0) continue;
        least = std::min(least, *seconds);
        most = std::max(most, *seconds);
      }
    }
  }
  Scale scale;
  if (most > 0) {
    scale.low = std::floor(std::log2(least));
    scale.high = std::max(scale.low + 1, std::ceil(std::log2(most)));
  }
  scale.most = std::log2(static_cast<double>(workers.back()));
  return scale;
}

std::string Line(double x1, double y1, double x2, double y2, const char* color) {
  return absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n",
                         x1, y1, x2, y2, color);
}

std::string Axes(double left, const std::vector<int>& workers, const Scale& scale) {
  std::string svg;
  for (double power = scale.low; power <= scale.high; ++power) {
    const double seconds = std::exp2(power), y = scale.Y(seconds);
    svg += Line(left + kLeft, y, left + kLeft + kPlot, y, "#e2e8f0");
    svg += SvgText(left + kLeft - 6, y + 4, absl::StrFormat("%g s", seconds), "end");
  }
  for (const int w : workers) {
    const double x = left + scale.X(w);
    svg += Line(x, kTop, x, kTop + kPlot, "#e2e8f0");
    svg += SvgText(x, kTop + kPlot + 16, absl::StrCat(w), "middle");
  }
  return svg + SvgText(left + kLeft + kPlot / 2.0, kTop + kPlot + 34, "workers", "middle");
}

std::string Curve(double left, const std::vector<int>& workers, const ConvergenceLine& line,
                  const char* color, const Scale& scale) {
  std::string points, dots;
  for (size_t i = 0; i < workers.size() && i < line.seconds.size(); ++i) {
    if (!line.seconds[i] || *line.seconds[i] <= 0) continue;
    const double x = left + scale.X(workers[i]), y = scale.Y(*line.seconds[i]);
    absl::StrAppendFormat(&points, "%s%.1f,%.1f", points.empty() ? "" : " ", x, y);
    absl::StrAppendFormat(&dots,
                          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %d "
                          "workers: %.1f s</title></circle>\n",
                          x, y, color, Escaped(line.name), workers[i], *line.seconds[i]);
  }
  return absl::StrFormat(
             "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" "
             "stroke-width=\"2\"/>\n",
             points, color) +
         dots;
}

}  // namespace

std::string PlotConvergence(const std::vector<int>& workers,
                            const std::vector<ConvergencePanel>& panels) {
  const Scale scale = ScaleOf(workers, panels);
  std::string svg = SvgHead(kPanel * static_cast<int>(panels.size()) + kGap, kHeight);
  svg += SvgText(12, 20, "Simulated seconds to the wanted quality");
  double left = 0;
  for (const ConvergencePanel& panel : panels) {
    svg += SvgText(left + kLeft, kTop - 10, panel.title);
    svg += Axes(left, workers, scale);
    for (size_t l = 0; l < panel.lines.size(); ++l) {
      svg += Curve(left, workers, panel.lines[l], ColorOf(l), scale);
    }
    left += kPanel;
  }
  double x = kLeft;
  for (size_t l = 0; !panels.empty() && l < panels[0].lines.size(); ++l) {
    const std::string& name = panels[0].lines[l].name;
    svg += Line(x, kHeight - 19, x + 18, kHeight - 19, ColorOf(l));
    svg += SvgText(x + 23, kHeight - 15, name);
    x += 44 + 7 * static_cast<double>(name.size());
  }
  return svg + "</svg>\n";
}

}  // namespace coxswain
