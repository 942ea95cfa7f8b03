#include "tests/bench/input/streamed_dlrm.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/data/criteo.h"
#include "tests/bench/round.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 512;
constexpr double kRowBytes = 264;             // of a line that is generated, about
constexpr int64_t kRowsInMemory = 1'000'000;  // of the part that is held in memory
constexpr double kMegabyte = 1e6;
constexpr absl::Duration kAtMost = absl::Hours(6), kLook = absl::Milliseconds(100);

struct Model {
  const char* name;
  int64_t buckets, dim;
  const char *bottom, *top;  // hidden layers

  // Rows of the tables and lazy_adam's two slots.
  double TableBytes() const {
    return static_cast<double>(data::kCriteoWords * buckets * dim) * 3 * sizeof(float);
  }
};

// The shape `dlrm` of `./dev bench step`, and one whose step is so short that reading is a large
// part of it.
constexpr Model kModels[] = {{"dlrm", 100'000, 64, "[512, 256, 64]", "[512, 256]"},
                             {"small dlrm", 20'000, 16, "[64, 32, 16]", "[64, 32]"}};

// What /proc says of a process.
struct Status {
  std::string name;
  int parent = 0;
  double peak = 0;  // bytes
};

Status StatusOf(const fs::path& directory) {
  Status status;
  std::ifstream file(directory / "status");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() < 2) continue;
    int64_t number = 0;
    if (words[0] == "Name:") status.name = words[1];
    if (words[0] == "PPid:" && absl::SimpleAtoi(words[1], &number)) {
      status.parent = static_cast<int>(number);
    }
    if (words[0] == "VmHWM:" && absl::SimpleAtoi(words[1], &number)) {
      status.peak = 1024 * static_cast<double>(number);
    }
  }
  return status;
}

// Takes down what the process and its children have used at most.
void Look(int of, std::map<std::string, double>* peaks) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    const Status status = StatusOf(entry.path());
    if (pid != of && status.parent != of) continue;
    double& peak = (*peaks)[status.name];
    peak = std::max(peak, status.peak);
  }
}

struct Trained {
  double steps_per_second = 0;
  std::map<std::string, double> peaks;  // by program
};

absl::Status Failed(const std::string& what, const std::string& output) {
  return absl::InternalError(absl::StrCat(what, ": ", output));
}

absl::Status Generate(const std::string& path, int64_t rows) {
  const auto result = Run({COXSWAIN_BINARY_DIR "/bin/coxswain", "generate", "criteo", "--out", path,
                           "--rows", absl::StrCat(rows), "--quiet"},
                          {}, kAtMost);
  return result.code == 0 ? absl::OkStatus() : Failed("generate", result.err);
}

enum class From { kShuffled, kInOrder, kMemory };
constexpr const char* kFrom[] = {"streamed", "in order", "in memory"};

absl::StatusOr<Trained> Train(const StreamedDlrmOptions& options, const Model& model,
                              const std::string& data, From from) {
  const std::string job = options.directory + "/job.yaml", report = options.directory + "/out.json";
  std::ofstream(job) << "name: dlrm\ndataset: {path: " << data
                     << ", format: criteo, hash_buckets: " << model.buckets
                     << ", streaming: " << (from == From::kMemory ? "false" : "true")
                     << ", cache_directory: " << options.directory << "/cache}\n"
                     << "model: {kind: dlrm, dim: " << model.dim << ", bottom: " << model.bottom
                     << ", top: " << model.top << "}\n"
                     << "optimizer:\n  table: {kind: lazy_adam, learning_rate: 0.004}\n"
                     << "  dense: {kind: adam, learning_rate: 0.002}\n"
                     << "train: {steps: " << options.steps << ", batch_size: " << kBatch
                     << ", shuffle: " << (from == From::kInOrder ? "false" : "true") << "}\n";
  Process process(
      {COXSWAIN_BINARY_DIR "/bin/coxswain", "train", job, "--local", "1x2", "--report", report});
  Trained trained;
  // The text is only there when it is over.
  while (!process.WaitForOutput(" of training (", kLook) &&
         fs::exists(absl::StrCat("/proc/", process.pid()))) {
    Look(process.pid(), &trained.peaks);
  }
  const auto result = process.Wait(kAtMost);
  if (result.code != 0) return Failed(absl::StrCat("train: exit code ", result.code), result.err);
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(report));
  trained.steps_per_second =
      json["examples_per_second"].get<double>() / static_cast<double>(kBatch);
  return trained;
}

void Show(const Model& model, const char* from, const Trained& trained, nlohmann::json* figures) {
  std::string line =
      absl::StrFormat("%-10s %-9s %7.1f steps/s", model.name, from, trained.steps_per_second);
  nlohmann::json of = {{"data", from}, {"steps_per_second", Round(trained.steps_per_second, 1)}};
  for (const auto& [program, bytes] : trained.peaks) {
    const double own = bytes - (absl::EndsWith(program, "-ps") ? model.TableBytes() : 0);
    absl::StrAppendFormat(&line, ", %s %.0f MB", program, own / kMegabyte);
    of["peak_megabytes"][program] = Round(own / kMegabyte, 1);
  }
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  figures->push_back(of);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// By turns from the file `whole`, shuffled and in its order, and from `part` in memory.
absl::StatusOr<nlohmann::json> Compare(const StreamedDlrmOptions& options, const Model& model,
                                       const std::string& whole, const std::string& part) {
  nlohmann::json runs = nlohmann::json::array();
  std::vector<double> of_memory, of_order;
  for (int round = 0; round < options.rounds; ++round) {
    double steps[std::size(kFrom)];
    for (const From from : {From::kShuffled, From::kInOrder, From::kMemory}) {
      ASSIGN_OR_RETURN(const Trained trained,
                       Train(options, model, from == From::kMemory ? part : whole, from));
      steps[static_cast<size_t>(from)] = trained.steps_per_second;
      Show(model, kFrom[static_cast<size_t>(from)], trained, &runs);
    }
    of_memory.push_back(steps[0] / steps[2]);
    of_order.push_back(steps[0] / steps[1]);
  }
  const double size = static_cast<double>(fs::file_size(whole)) / 1e9;
  std::printf(
      "%s, %.2f GB streamed: of the steps a second in memory %.2f, in the file's order %.2f\n",
      model.name, size, Median(of_memory), Median(of_order));
  return nlohmann::json{{"name", model.name},
                        {"gigabytes", Round(size, 2)},
                        {"runs", runs},
                        {"ratio", Round(Median(of_memory), 2)},
                        {"ratio_to_file_order", Round(Median(of_order), 2)}};
}

}  // namespace

absl::StatusOr<nlohmann::json> MeasureStreamedDlrm(const StreamedDlrmOptions& options) {
  const std::string whole = options.directory + "/criteo_large.tsv";
  const std::string part = options.directory + "/criteo_part.tsv";
  const auto rows = static_cast<int64_t>(options.gigabytes * 1e9 / kRowBytes);
  RETURN_IF_ERROR(Generate(whole, rows));
  RETURN_IF_ERROR(Generate(part, std::min(rows, kRowsInMemory)));
  nlohmann::json results = nlohmann::json::array();
  for (const Model& model : kModels) {
    ASSIGN_OR_RETURN(nlohmann::json result, Compare(options, model, whole, part));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace coxswain
