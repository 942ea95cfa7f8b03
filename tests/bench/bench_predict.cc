// Rows per second that a saved model predicts from a CSV file: that of `step talk`, a user and an
// item table of 64 numbers a row and the layers 128-256-128-64-1. Reading, ids, rows of the tables,
// layers and writing are all in it.
//
//   bench_predict [rows of each table = 1000000] [rows of the file = 500000] [threads = all]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "coordinator/predict/predict_file.h"
#include "runtime/base/status.h"
#include "tests/bench/talk_model.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::Status Run(const fs::path& folder, int64_t table_rows, int64_t rows, int threads) {
  RETURN_IF_ERROR(SaveTalkModel(folder, table_rows));
  const std::string input = (folder / "rows.csv").string();
  WriteTalkRows(input, rows);
  const double start = Now();
  ASSIGN_OR_RETURN(const auto predictor, predict::Predictor::Load((folder / "model").string()));
  std::printf("loaded in %.3f s: tables of %lld x 64, mapped\n", Now() - start,
              static_cast<long long>(table_rows));
  for (int round = 0; round < 3; ++round) {
    predict::PredictFileOptions options;
    options.input = input;
    options.threads = threads;
    int64_t bytes = 0;
    const double begin = Now();
    ASSIGN_OR_RETURN(const predict::PredictedRows predicted,
                     predict::PredictFile(*predictor, options, [&](absl::string_view text) {
                       bytes += static_cast<int64_t>(text.size());
                       return absl::OkStatus();
                     }));
    const double seconds = Now() - begin;
    std::printf("%lld rows in %.3f s on %d threads: %.0f rows/s, %lld bytes written\n",
                static_cast<long long>(predicted.rows), seconds, threads,
                static_cast<double>(predicted.rows) / seconds, static_cast<long long>(bytes));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  const long long table_rows = argc > 1 ? std::atoll(argv[1]) : 1000000;
  const long long rows = argc > 2 ? std::atoll(argv[2]) : 500000;
  const int threads =
      argc > 3 ? std::atoi(argv[3]) : static_cast<int>(std::thread::hardware_concurrency());
  if (table_rows < 1 || rows < 1 || threads < 1) {
    std::fprintf(stderr,
                 "usage: bench_predict [rows of each table] [rows of the file] [threads]\n");
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "bench_predict-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const absl::Status status = coxswain::Run(folder, table_rows, rows, threads);
  std::filesystem::remove_all(folder);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
