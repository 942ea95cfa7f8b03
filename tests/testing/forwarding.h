// The real file system and environment, for tests that change one thing about them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/env/env.h"
#include "runtime/env/file_system.h"

namespace coxswain::testing {

class ForwardingFileSystem : public env::FileSystem {
 public:
  absl::StatusOr<std::string> Read(const std::string& path) override { return real_->Read(path); }
  absl::StatusOr<Buffer> Map(const std::string& path) override { return real_->Map(path); }
  absl::StatusOr<uint64_t> Size(const std::string& path) override { return real_->Size(path); }
  absl::StatusOr<std::unique_ptr<env::WritableFile>> Create(const std::string& path) override {
    return real_->Create(path);
  }
  absl::Status WriteAtomically(const std::string& path, absl::string_view content) override {
    return real_->WriteAtomically(path, content);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return real_->Rename(from, to);
  }
  absl::Status Exchange(const std::string& a, const std::string& b) override {
    return real_->Exchange(a, b);
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    return real_->Link(from, to);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return real_->SyncDirectory(path);
  }
  absl::Status MakeDirs(const std::string& path) override { return real_->MakeDirs(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return real_->List(path);
  }
  absl::Status RemoveAll(const std::string& path) override { return real_->RemoveAll(path); }
  bool Exists(const std::string& path) override { return real_->Exists(path); }
  absl::StatusOr<std::unique_ptr<env::FileLock>> Lock(const std::string& path,
                                                      absl::string_view content) override {
    return real_->Lock(path, content);
  }
  absl::StatusOr<std::unique_ptr<env::FileLock>> TakeLock(const std::string& path,
                                                          absl::string_view content) override {
    return real_->TakeLock(path, content);
  }

 private:
  std::unique_ptr<env::FileSystem> real_ = env::NewRealFileSystem();
};

// One thread in its pool: what is posted later runs later.
class ForwardingEnv : public env::Env {
 public:
  absl::Time Now() override { return real_->Now(); }
  absl::Duration Monotonic() override { return real_->Monotonic(); }
  uint64_t Random64() override { return real_->Random64(); }
  std::unique_ptr<env::EventLoop> NewLoop() override { return real_->NewLoop(); }
  env::ComputePool* pool() override { return real_->pool(); }
  env::FileSystem* files() override { return real_->files(); }

 private:
  std::unique_ptr<env::Env> real_ = env::NewRealEnv(1);
};

}  // namespace coxswain::testing
