// A shard's file and its deltas. The input is text and bytes in parts, each after a line "--- N"
// with the number of rows that its manifest gives it: a JSON header, a line "===", the tensors'
// bytes. The first part is the whole file; its N is the rows of all. Lengths of headers are put in
// here. And once more all of it, as it is, as a file.
#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/delta_files.h"
#include "runtime/tensor/limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

constexpr absl::string_view kPart = "--- ", kData = "\n===\n";
constexpr size_t kMaxParts = 4;

struct Part {
  int64_t rows = 0;
  std::string file;
};

std::string MakeFile(absl::string_view header, absl::string_view data) {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return absl::StrCat(file, header, data);
}

std::vector<Part> ReadParts(absl::string_view text) {
  std::vector<Part> parts;
  while (parts.size() < kMaxParts && text.substr(0, kPart.size()) == kPart) {
    text.remove_prefix(kPart.size());
    const size_t line = text.find('\n');
    if (line == absl::string_view::npos) break;
    Part part;
    if (!absl::SimpleAtoi(text.substr(0, line), &part.rows)) break;
    text.remove_prefix(line + 1);
    const size_t end = std::min(text.size(), text.find(absl::StrCat("\n", kPart)));
    const absl::string_view body = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const size_t data = std::min(body.size(), body.find(kData));
    part.file =
        MakeFile(body.substr(0, data), body.substr(std::min(body.size(), data + kData.size())));
    parts.push_back(std::move(part));
  }
  return parts;
}

Buffer BufferOf(absl::string_view text, size_t offset) {
  Buffer whole = Buffer::Allocate(text.size() + offset);
  std::memcpy(static_cast<char*>(whole.data()) + offset, text.data(), text.size());
  return whole.Slice(offset, text.size());
}

// Each byte of each tensor is there.
uint64_t Touch(const Tensor& tensor) {
  uint64_t sum = tensor.ToString().size();
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
  for (size_t i = 0; i < tensor.bytes(); ++i) sum += bytes[i];
  return sum;
}

void ReadWhole(absl::string_view file) {
  for (const size_t offset : {0, 1}) {
    const auto parsed = checkpoint::SafetensorsFile::Parse(BufferOf(file, offset), "f.safetensors");
    if (!parsed.ok()) return;
    volatile uint64_t sum = 0;
    for (const checkpoint::SafetensorsEntry& entry : parsed->entries()) {
      const auto tensor = parsed->Read(entry.name);
      if (tensor.ok()) sum = sum + Touch(*tensor);
    }
  }
}

void ReadRows(const std::vector<Part>& parts) {
  std::vector<std::unique_ptr<fuzz::MemoryFile>> files;
  std::vector<checkpoint::RowFiles::File> named;
  for (const Part& part : parts) {
    files.push_back(std::make_unique<fuzz::MemoryFile>(part.file));
    named.push_back({files.back()->path(), part.file.size(), 0, true, part.rows});
  }
  const int64_t rows = named[0].rows;
  const auto opened =
      checkpoint::RowFiles::Open(named[0], absl::MakeConstSpan(named).subspan(1), rows);
  if (!opened.ok()) return;
  static_cast<void>(opened->Verify());
  for (const char* name : {"weights", "row", "other"}) {
    const checkpoint::SafetensorsEntry* entry = opened->Find(name);
    if (entry == nullptr || entry->shape.rank() == 0) continue;
    Shape row = entry->shape;
    row.set_dim(0, 1);
    const absl::StatusOr<int64_t> elements = CheckedElements(row);
    if (!elements.ok() || *elements > 1024) continue;
    const size_t width = static_cast<size_t>(*elements) * SizeOf(entry->dtype);
    const int64_t all = entry->shape.dim(0);
    for (const int64_t begin : {int64_t{0}, int64_t{1}, all - 2}) {
      const int64_t count = std::min<int64_t>(8, all - begin);
      if (begin < 0 || count < 0) continue;
      std::string out(static_cast<size_t>(count) * width, '\0');
      static_cast<void>(opened->Read(name, width, begin, count, out.data()));
    }
  }
}

}  // namespace
}  // namespace coxswain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace coxswain;  // NOLINT
  const absl::string_view text = fuzz::Text(data, size);
  fuzz::BoundMemory();
  if (size < (size_t{1} << 17)) ReadWhole(text);
  const std::vector<Part> parts = ReadParts(text);
  if (parts.empty() || size >= (size_t{1} << 17)) return 0;
  for (const Part& part : parts) ReadWhole(part.file);
  ReadRows(parts);
  return 0;
}
