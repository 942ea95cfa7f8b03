// Which models in a directory a server takes as newer ones.
#include "coordinator/serve/model_watch.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/serve/model_service.h"
#include "runtime/env/file_system.h"
#include "runtime/env/lost_pages.h"
#include "tests/testing/served_model.h"

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

constexpr absl::Duration kPatience = absl::Seconds(60);

// A server's service, and the watch that keeps it up to date.
class Watched {
 public:
  explicit Watched(const std::string& directory) {
    ModelWatch::Loaded loaded = {ModelWatch::IdentityOf(directory)};
    ServedPtr first = Must(LoadServed(directory));
    loaded.lost_pages = first->lost_pages;
    service_ = std::make_unique<ModelService>(
        std::move(first), ServiceOptions{.name = "m", .max_rows = 100, .admission = {}});
    ModelWatch::Events events;
    events.on_newer = [this](ServedPtr newer) {
      service_->Replace(std::move(newer));
      absl::MutexLock lock(&mu_);
      ++newer_;
    };
    events.on_error = [this](const absl::Status& status, bool said) {
      absl::MutexLock lock(&mu_);
      ++failures_;
      if (!said) errors_.emplace_back(status.message());
    };
    watch_ = std::make_unique<ModelWatch>(directory, std::move(loaded), std::move(events),
                                          absl::Milliseconds(1));
  }

  std::string Says() { return service_->Handle("POST", kPredict, kOneRow).body; }
  int Ready() { return service_->Handle("GET", "/readyz", "").status; }
  int newer() const {
    absl::MutexLock lock(&mu_);
    return newer_;
  }
  std::vector<std::string> errors() const {
    absl::MutexLock lock(&mu_);
    return errors_;
  }
  // False: not in time.
  bool AwaitNewer(int count) const {
    absl::MutexLock lock(&mu_);
    const auto reached = [this, count]()
                             ABSL_SHARED_LOCKS_REQUIRED(mu_) { return newer_ >= count; };
    return mu_.AwaitWithTimeout(absl::Condition(&reached), kPatience);
  }
  bool AwaitFailures(int more) const {
    absl::MutexLock lock(&mu_);
    const int wanted = failures_ + more;
    const auto reached = [this, wanted]()
                             ABSL_SHARED_LOCKS_REQUIRED(mu_) { return failures_ >= wanted; };
    return mu_.AwaitWithTimeout(absl::Condition(&reached), kPatience);
  }

 private:
  mutable absl::Mutex mu_;
  int newer_ ABSL_GUARDED_BY(mu_) = 0;
  int failures_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::string> errors_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ModelService> service_;
  std::unique_ptr<ModelWatch> watch_;  // ends first
};

std::vector<fs::path> FilesOf(const std::string& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// As rsync copies a file.
void PutInPlace(const fs::path& from, const fs::path& to) {
  const fs::path beside = to.string() + ".copied";
  fs::copy_file(from, beside);
  fs::rename(beside, to);
}

TEST_CASE("serve: files of a newer model that come one by one answer once all are there",
          "[serve]") {
  const Served old, next(/*epochs=*/9);
  const std::string directory = old.saved.directory;
  Watched watched(directory);
  const std::string before = watched.Says(), after = Watched(next.saved.directory).Says();
  REQUIRE(before != after);
  const std::vector<fs::path> files = FilesOf(next.saved.directory);
  const auto put = [&](const fs::path& file) {
    PutInPlace(file, directory / file.lexically_relative(next.saved.directory));
  };
  // The manifest first: it is what used to be looked at.
  const fs::path manifest = fs::path(next.saved.directory) / model::kModelManifest;
  put(manifest);
  fs::path last;
  for (const fs::path& file : files) {
    if (file.extension() != ".safetensors") {
      if (file != manifest) put(file);
      continue;
    }
    if (!last.empty()) put(last);
    last = file;
  }
  REQUIRE_FALSE(last.empty());
  REQUIRE(watched.AwaitFailures(3));
  CHECK(watched.newer() == 0);
  CHECK(watched.Says() == before);
  CHECK(watched.Ready() == 200);
  put(last);
  REQUIRE(watched.AwaitNewer(1));
  CHECK(watched.Says() == after);
}

TEST_CASE("serve: a newer model with a damaged table is told of once, and never answers",
          "[serve]") {
  const Served old, next(/*epochs=*/9);
  const std::string directory = old.saved.directory;
  const std::string good = Watched(next.saved.directory).Says();
  fs::path table;
  std::string bytes;
  for (const fs::path& file : FilesOf(next.saved.directory)) {
    if (file.extension() == ".safetensors") table = file;
  }
  bytes = Must(env::NewRealFileSystem()->Read(table.string()));
  std::string damaged = bytes;
  damaged.back() ^= 1;
  std::ofstream(table, std::ios::binary) << damaged;
  Watched watched(directory);
  const std::string before = watched.Says();
  fs::rename(directory, directory + ".old");
  fs::rename(next.saved.directory, directory);
  REQUIRE(watched.AwaitFailures(4));
  CHECK(watched.Says() == before);
  REQUIRE(watched.errors().size() == 1);
  CHECK_THAT(watched.errors()[0], Contains(table.filename().string()));
  CHECK_THAT(watched.errors()[0], Contains("altered"));
  // Mended, it does.
  const fs::path whole = next.files.Write("whole", bytes);
  PutInPlace(whole, fs::path(directory) / table.filename());
  REQUIRE(watched.AwaitNewer(1));
  CHECK(watched.Says() == good);
}

TEST_CASE("serve: a file that is cut short and then put right answers again", "[serve]") {
  const Served served;
  Watched watched(served.saved.directory);
  const std::string before = watched.Says();
  std::vector<std::pair<fs::path, std::string>> content;
  for (const fs::path& file : FilesOf(served.saved.directory)) {
    if (file.extension() != ".safetensors") continue;
    content.emplace_back(file, Must(env::NewRealFileSystem()->Read(file.string())));
    fs::resize_file(file, 0);
  }
  CHECK_THAT(watched.Says(), Contains("cut short"));
  CHECK(watched.Ready() == 503);
  for (const auto& [path, bytes] : content) std::ofstream(path, std::ios::binary) << bytes;
  const absl::Time deadline = absl::Now() + kPatience;
  while (watched.Ready() != 200 && absl::Now() < deadline) {
  }
  CHECK(watched.Ready() == 200);
  CHECK(watched.Says() == before);
}

}  // namespace
}  // namespace coxswain::serve
