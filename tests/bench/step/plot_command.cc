#include "tests/bench/step/plot_command.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "tests/bench/step/plot.h"

namespace coxswain {

CLI::App* AddPlotCommand(CLI::App* app, PlotFlags* flags) {
  CLI::App* plot =
      app->add_subcommand("plot", "Draws where the time of steps goes, as SVG, from step --json");
  plot->add_option("JSON", flags->json, "what `step --json FILE` wrote")->required();
  plot->add_option("--out", flags->out, "the picture")->capture_default_str();
  return plot;
}

absl::Status RunPlot(const PlotFlags& flags) {
  ASSIGN_OR_RETURN(const std::string json, config::ReadTextFile(flags.json));
  auto svg = PlotSteps(json);
  if (!svg.ok()) return Annotate(svg.status(), flags.json);
  std::ofstream out(flags.out);
  out << *svg;
  out.close();
  return out ? absl::OkStatus() : absl::InternalError(absl::StrCat("cannot write ", flags.out));
}

}  // namespace coxswain
