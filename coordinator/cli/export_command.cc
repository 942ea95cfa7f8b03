#include "coordinator/cli/export_command.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/read_as_data.h"
#include "coordinator/cli/saved_flags.h"
#include "coordinator/export/export.h"
#include "coordinator/export/export_format.h"
#include "coordinator/export/onnx_export.h"
#include "coordinator/model/saved_inputs.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::cli {
namespace {

// --force replaces an older export, whose format does not tell; but nothing that the model was made
// of, and nothing of another model.
absl::Status CheckOut(const ExportFlags& flags) {
  if (flags.out == "-" || IsStandardStream(flags.out)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: wanted a file's name, found '", flags.out,
                     "': nothing is exported to the standard output"));
  }
  RETURN_IF_ERROR(CheckOutsideSaved({"--out", flags.out}));
  const std::vector<CommandInput> origins = OriginsOf(flags.from);
  const NamedPath out{"--out", flags.out};
  std::error_code error;
  const auto format = exporter::FindExportFormat(flags.to);  // none: onnx
  if (format.ok() && (*format)->makes_directory()) {
    RETURN_IF_ERROR(CheckNoInput(out, origins));
    return CheckNotReadAsData(out, DirectoryOf::kExport, origins);
  }
  if (std::filesystem::is_directory(flags.out, error)) return absl::OkStatus();
  return CheckOutputFile("--out", flags.out, OutputKind::kForced, origins);
}

absl::Status RunOnnx(const ExportFlags& flags, const SavedFlags& from) {
  if (!flags.variables.empty() || !flags.since.empty()) {
    return absl::InvalidArgumentError(
        "--to onnx writes the whole scoring function: it takes neither --variables nor --since");
  }
  ASSIGN_OR_RETURN(const auto predictor, LoadPredictor(from, /*verify=*/true));
  const std::string name = std::filesystem::path(flags.out).filename().string();
  ASSIGN_OR_RETURN(const exporter::OnnxFile file,
                   exporter::ToOnnx(*predictor, {name, flags.external_data}));
  ASSIGN_OR_RETURN(const model::SavedSource source, OpenSaved(from));
  exporter::ExportOptions options;
  options.out = flags.out;
  options.replace = flags.force;
  RETURN_IF_ERROR(exporter::ExportOnnx(source, options, file));
  std::printf("%s  %s bytes\n", flags.out.c_str(),
              WithCommas(static_cast<int64_t>(file.model.size())).c_str());
  if (file.data.empty()) return absl::OkStatus();
  int64_t bytes = 0;
  for (const Tensor& value : file.data) bytes += static_cast<int64_t>(value.bytes());
  std::printf("%s  %s bytes, wanted beside it\n",
              exporter::OnnxDataName(flags.out, file.checksum).c_str(), WithCommas(bytes).c_str());
  return absl::OkStatus();
}

absl::Status Run(const ExportFlags& flags, const SavedFlags& from, std::function<bool()> stopped) {
  if (flags.to == "onnx") return RunOnnx(flags, from);
  if (flags.external_data) {
    return absl::InvalidArgumentError("--external-data belongs to --to onnx");
  }
  exporter::ExportOptions options;
  options.format = flags.to;
  options.out = flags.out;
  options.variables = flags.variables;
  options.replace = flags.force;
  options.stopped = std::move(stopped);
  ASSIGN_OR_RETURN(model::SavedSource source, OpenSaved(from));
  if (source.is_checkpoint()) RETURN_IF_ERROR(model::NameRows(from.checkpoint_dir, &source));
  std::optional<model::SavedSource> base;
  if (!flags.since.empty()) {
    ASSIGN_OR_RETURN(base, exporter::OpenBase(source, flags.since));
    options.base = &*base;
  }
  ASSIGN_OR_RETURN(const auto exported, exporter::Export(source, options));
  if (base) {
    std::printf(
        "rows updated after %s (step %s), up to %s (step %s)\n",
        checkpoint::CheckpointName(base->number()).c_str(), WithCommas(base->steps()).c_str(),
        checkpoint::CheckpointName(source.number()).c_str(), WithCommas(source.steps()).c_str());
  }
  for (const exporter::ExportedVariable& e : exported) {
    std::printf("%s  %s%s, %s rows\n", e.variable.name.c_str(),
                std::string(DTypeName(e.variable.dtype)).c_str(),
                ShapeOfRows(e.variable, e.rows).ToString().c_str(), WithCommas(e.rows).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int ExportCommand(const ExportFlags& flags) {
  std::atomic<bool> stopped{false};
  const InterruptScope scope([&stopped] { stopped = true; });
  absl::Status status = CheckOut(flags);
  if (status.ok()) {
    status = ReadSaved(flags.from, model::Verify::kBytes, [&](const SavedFlags& one) {
      return Run(flags, one, [&stopped] { return stopped.load(); });
    });
  }
  if (status.ok()) return kExitDone;
  const int code = ComplainOfSaved(status);
  return absl::IsCancelled(status) ? static_cast<int>(kExitInterrupted) : code;
}

}  // namespace coxswain::cli
