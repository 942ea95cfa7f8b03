// Files of columns that stay open from block to block.
#include "runtime/data/arrow/open_arrow_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/arrow_specs.h"

namespace coxswain::data {
namespace {

std::string Write(const DataFiles& files, const std::string& name, int rows) {
  std::string text = "n\n";
  for (int i = 0; i < rows; ++i) absl::StrAppend(&text, i, "\n");
  return WriteParquet(files, files.Write(absl::StrCat(name, ".csv"), text), name, 4, {"n:i64"});
}

OpenArrowFiles::File MustTake(OpenArrowFiles& open, const std::string& path) {
  auto taken = open.Take(path, COX_ARROW_PARQUET);
  INFO(taken.status());
  REQUIRE(taken.ok());
  return *std::move(taken);
}

TEST_CASE("parquet: a file that was given back is taken again, not opened again", "[arrow]") {
  if (!HasArrow()) return;
  const DataFiles files;
  const std::string path = Write(files, "a.parquet", 10);
  OpenArrowFiles open;
  auto first = MustTake(open, path);
  auto second = MustTake(open, path);  // another thread's
  const ArrowFile* const taken = first.file.get();
  CHECK(second.file.get() != taken);
  CHECK(first.file->footer_bytes() > 0);
  open.GiveBack(std::move(first));
  CHECK(open.idle() == 1);
  CHECK(MustTake(open, path).file.get() == taken);
  CHECK(open.idle() == 0);
}

TEST_CASE("parquet: a file that was replaced is opened anew", "[arrow]") {
  if (!HasArrow()) return;
  const DataFiles files;
  const std::string path = Write(files, "a.parquet", 10);
  OpenArrowFiles open;
  open.GiveBack(MustTake(open, path));
  std::filesystem::rename(Write(files, "b.parquet", 30), path);
  CHECK(MustTake(open, path).file->groups() == 8);
  CHECK(open.idle() == 0);  // the old one was closed
  open.GiveBack(MustTake(open, path));
  std::filesystem::remove(path);
  CHECK(open.Take(path, COX_ARROW_PARQUET).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("parquet: few files stay open, the last used ones", "[arrow]") {
  if (!HasArrow()) return;
  const DataFiles files;
  const std::string path = Write(files, "a.parquet", 10);
  OpenArrowFiles open;
  std::vector<const ArrowFile*> given;
  for (int i = 0; i < 40; ++i) {
    const std::string copy = files.Path(absl::StrCat("copy", i, ".parquet"));
    std::filesystem::copy_file(path, copy);
    auto file = MustTake(open, copy);
    given.push_back(file.file.get());
    open.GiveBack(std::move(file));
  }
  CHECK(open.idle() == 16);
  CHECK(MustTake(open, files.Path("copy39.parquet")).file.get() == given[39]);
  CHECK(MustTake(open, files.Path("copy24.parquet")).file.get() == given[24]);
  CHECK(open.idle() == 14);
  MustTake(open, files.Path("copy23.parquet"));
  CHECK(open.idle() == 14);  // it had been closed
}

}  // namespace
}  // namespace coxswain::data
