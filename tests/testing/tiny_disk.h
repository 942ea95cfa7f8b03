// A small file system in memory, for tests of full disks; gone with the object.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace coxswain {

class TinyDisk {
 public:
  // `size`: as mount(8) takes it, "4k".
  TinyDisk(std::string path, const std::string& size) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~TinyDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  TinyDisk(const TinyDisk&) = delete;
  TinyDisk& operator=(const TinyDisk&) = delete;

  // Only the superuser may mount. Where that is not so, says that the test is skipped.
  bool mounted() const {
    if (!mounted_) WARN("skipped: may not mount a small file system here");
    return mounted_;
  }
  // Until no byte can be written any more.
  void Fill() const {
    std::ofstream file(path_ + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

}  // namespace coxswain
