#include "coordinator/generate/generate.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/keep_access.h"
#include "runtime/env/unfinished_files.h"

namespace coxswain::generate {
namespace {

constexpr int64_t kRowsOfChunk = 8192;  // one gzip member; part of the format of what is made
constexpr int kChunksOfThread = 4;
constexpr int kGzipLevel = 4;

struct Chunk {
  std::string text;
  Truth truth;
  bool packed = true;  // zlib had the memory
};

// `text` as a gzip member: members one after the other are a gzip file.
bool Gzip(std::string* text) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (deflateInit2(&stream, kGzipLevel, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return false;
  }
  std::string packed(deflateBound(&stream, text->size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text->data());
  stream.avail_in = static_cast<uInt>(text->size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  if (done) *text = std::move(packed);
  return done;
}

// Writes all rows; what is at `path` afterwards is whole only without an error.
absl::Status WriteRows(const PlantedData& data, const GenerateOptions& options,
                       const std::string& path, env::ComputePool* pool, env::FileSystem* files,
                       Generated* generated) {
  ASSIGN_OR_RETURN(const std::unique_ptr<env::WritableFile> file, files->Create(path));
  const bool gzip = absl::EndsWith(options.path, ".gz");
  const int64_t all = (options.rows + kRowsOfChunk - 1) / kRowsOfChunk;
  const int64_t together = std::max<int64_t>(1, int64_t{kChunksOfThread} * pool->threads());
  std::vector<Chunk> chunks;
  for (int64_t first = 0; first < all; first += together) {
    chunks.clear();
    chunks.resize(static_cast<size_t>(std::min(together, all - first)));
    const auto make = [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        Chunk& chunk = chunks[static_cast<size_t>(p)];
        const int64_t row = (first + p) * kRowsOfChunk;
        if (row == 0) chunk.text = data.Header();
        const int64_t last = std::min(options.rows, row + kRowsOfChunk);
        for (int64_t r = row; r < last; ++r) data.AddRow(r, &chunk.text, &chunk.truth);
        if (gzip) chunk.packed = Gzip(&chunk.text);
      }
    };
    pool->ParallelFor(static_cast<int64_t>(chunks.size()), 1, make);
    for (const Chunk& chunk : chunks) {
      if (!chunk.packed) return absl::ResourceExhaustedError("zlib: no memory to pack with");
      RETURN_IF_ERROR(file->Append(chunk.text.data(), chunk.text.size()));
      generated->bytes += static_cast<int64_t>(chunk.text.size());
      generated->truth.Merge(chunk.truth);
    }
    const int64_t rows = std::min(options.rows, (first + together) * kRowsOfChunk);
    if (options.progress != nullptr && !options.progress(rows)) {
      return absl::CancelledError(absl::StrCat("interrupted after ", rows, " rows"));
    }
  }
  RETURN_IF_ERROR(file->Sync());  // a disk that is full may say so only now
  return file->Close();
}

absl::Status CheckTarget(env::FileSystem* files, const std::string& path, bool force) {
  const auto no = [&](absl::string_view why) {
    return WithDetail(absl::AlreadyExistsError(absl::StrCat(path, ": ", why)),
                      {ErrorCause::kConfiguration, false, "", 0});
  };
  if (!files->Exists(path)) return absl::OkStatus();
  if (!force) return no("is there already; --force replaces it");
  std::error_code error;
  const bool file = std::filesystem::is_regular_file(path, error);
  return file ? absl::OkStatus() : no("is no file, and stays");
}

}  // namespace

absl::StatusOr<Generated> Generate(const PlantedData& data, const GenerateOptions& options,
                                   env::ComputePool* pool, env::FileSystem* files) {
  Generated generated;
  generated.truth_path = TruthPath(options.path);
  if (options.rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("rows: wanted 1 or more, found ", options.rows));
  }
  for (const std::string& path : {options.path, generated.truth_path}) {
    RETURN_IF_ERROR(CheckTarget(files, path, options.force));
  }
  const std::string target = env::BehindLinks(options.path);
  env::RemoveUnfinished(target);
  ASSIGN_OR_RETURN(env::UnfinishedFile begun, env::UnfinishedFile::Beside(target));
  RETURN_IF_ERROR(WriteRows(data, options, begun.path(), pool, files, &generated));
  nlohmann::ordered_json json;
  data.Describe(generated.truth, &json);
  // First, so that there is no file without it.
  RETURN_IF_ERROR(
      files->WriteAtomically(env::BehindLinks(generated.truth_path), json.dump(2) + "\n"));
  env::KeepAccess(target, begun.path());
  RETURN_IF_ERROR(begun.MoveTo(files, target));
  return generated;
}

}  // namespace coxswain::generate
