// Plain text as words by number.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/text_parts.h"
#include "runtime/data/trained_rows.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::data {

// The one feature of a text.
inline constexpr char kTextFeature[] = "word";

// The words of all files that are in the vocabulary, in their order, 4 bytes each.
struct Text {
  static constexpr int32_t kEnd = INT32_MIN;  // marks the last word of a sentence

  static int32_t Word(int32_t token) { return token & INT32_MAX; }
  static bool EndsSentence(int32_t token) { return token < 0; }

  std::vector<int32_t> tokens;
  std::unique_ptr<Vocabulary> vocabulary;
  std::vector<int64_t> counts;  // by id, in the training part; falling
  TextParts parts;
  int64_t words_read = 0;      // the words out of the vocabulary, too
  uint64_t content_hash = 0;   // of all files, in order, unpacked
  proto::TrainedRows trained;  // of the words read
  SinceTraining since_training = SinceTraining::kUnknown;
};

// Reads the files of a spec that CheckSpec returned. Words stand between white space (ASCII's); a
// line's end is a sentence's. The vocabulary is learned from the training part, by falling count,
// then by first appearance (or it is the one of DatasetSpec.learned); words outside it are left
// out, as if they were not in the text.
// Errors: InvalidArgument "file:line:column: ..." for what is no text: bytes that are not UTF-8 or
// control characters; InvalidArgument for a file without a word, and where no word is frequent
// enough; ResourceExhausted for 2^32 - 1 words or more; those of InputFile.
absl::StatusOr<Text> ReadText(const proto::DatasetSpec& spec);

}  // namespace coxswain::data
