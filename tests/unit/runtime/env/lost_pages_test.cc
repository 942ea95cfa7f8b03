// A mapped file that somebody cuts short: the process reads zeros, and is told.
#include "runtime/env/lost_pages.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>

#include "runtime/env/file_system.h"
#include "tests/testing/data_files.h"

namespace coxswain::env {
namespace {

TEST_CASE("lost pages: a mapped file that is cut short ends no process, and is told", "[env]") {
  GuardMappedFiles();
  const DataFiles files;
  const std::string content(100'000, 'x');
  const std::string path = files.Write("mapped", content);
  const auto mapped = NewRealFileSystem()->Map(path);
  REQUIRE(mapped.ok());
  CHECK(std::memcmp(mapped->data(), content.data(), content.size()) == 0);
  const int64_t before = LostPages();
  std::filesystem::resize_file(path, 10);
  const volatile char* const bytes = static_cast<const char*>(mapped->data());
  CHECK(bytes[90'000] == '\0');
  CHECK(LostPages() == before + 1);
  CHECK(bytes[90'001] == '\0');
  CHECK(LostPages() == before + 1);  // the page is there now
}

}  // namespace
}  // namespace coxswain::env
