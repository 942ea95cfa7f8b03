// A file that is read in blocks, as `coxswain predict` reads it: its spec (DatasetSpec in text
// format), a line "===", and the file's bytes. Whatever the size of the blocks is, all bytes behind
// the header come, in their order, and the blocks have the rows that the whole file has.
#include <optional>
#include <string>

#include "protos/dataset.pb.h"
#include "runtime/data/row_blocks.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/spec_and_file.h"

namespace coxswain {
namespace {

struct Read {
  std::string bytes;
  std::optional<int64_t> rows;  // none: a row was wrong
};

std::optional<Read> ReadBlocks(const proto::DatasetSpec& spec, const std::string& path,
                               size_t block_bytes) {
  const auto blocks = data::RowBlocks::Open(spec, path, block_bytes);
  if (!blocks.ok()) return std::nullopt;
  Read read;
  read.rows = 0;
  while (true) {
    auto block = (*blocks)->Next();
    if (!block.ok()) return std::nullopt;
    if (!*block) return read;
    if ((*block)->bytes.empty()) fuzz::Broken("a block has no bytes");
    read.bytes.append((*block)->bytes.begin(), (*block)->bytes.end());
    data::Table table;
    data::TableRows rows(&table, 0);
    rows.LeaveOutChain();
    if (!data::BindColumns(spec, {}, &table, &rows).ok()) return std::nullopt;
    table.places.StartFile((*block)->path);
    const bool good = data::FormatOf(spec).ReadBlock(spec, **std::move(block), &rows).ok();
    if (!good) read.rows.reset();
    if (good && read.rows) *read.rows += table.rows;
  }
}

void Run(absl::string_view input) {
  const fuzz::MemoryFile file(input.substr(fuzz::FileAt(input)));
  auto given = fuzz::SpecOf(input, file);
  if (!given) return;
  given->clear_paths();
  given->add_paths(file.path());
  const auto spec = data::CheckSpec(*given);
  if (!spec.ok() || !data::FormatOf(*spec).has_rows()) return;
  const auto whole = ReadBlocks(*spec, file.path(), size_t{1} << 30);
  const auto small = ReadBlocks(*spec, file.path(), 1);
  if (whole.has_value() != small.has_value()) fuzz::Broken("small blocks end otherwise");
  if (!whole) return;
  if (whole->bytes != small->bytes) fuzz::Broken("small blocks have other bytes");
  // A row that is wrong may be cut so that its parts are not.
  if (whole->rows && small->rows != whole->rows) fuzz::Broken("small blocks have other rows");
}

}  // namespace
}  // namespace coxswain

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int) {
  return coxswain::fuzz::MutateFile(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
