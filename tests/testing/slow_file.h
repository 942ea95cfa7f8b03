// A regular file that nobody can open before the test allows it: whoever does waits in open(2). The
// system does that for the holder of a lease (fcntl(2), F_SETLEASE), for at most 45 s.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace coxswain {

class SlowFile {
 public:
  explicit SlowFile(const std::string& path);
  // Whoever still waits finds an empty file.
  ~SlowFile();
  SlowFile(const SlowFile&) = delete;
  SlowFile& operator=(const SlowFile&) = delete;

  const std::string& path() const { return path_; }
  // Waits until somebody waits for the file. False: not in time.
  bool AwaitReader(absl::Duration timeout = absl::Seconds(30)) const;
  // The content; whoever waits goes on. Once.
  void Write(const std::string& text);

 private:
  void Release();

  const std::string path_;
  int fd_ = -1;
};

}  // namespace coxswain
