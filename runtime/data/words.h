// The words of a text, for features that are made of these (FeatureSpec.tokens).
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {

// Puts the words of a text behind `words`, with a blank before each but the first. A word is a run
// of letters and digits; an apostrophe between two of these belongs to it. All characters beyond
// ASCII are letters. A-Z become a-z, and nothing else changes.
void AppendWordsOf(absl::string_view text, std::string* words);

// Gives `sink`, which takes words with white space between them, those of a text. Of a list of
// texts all.
std::unique_ptr<FieldSink> NewWordsSink(std::unique_ptr<FieldSink> sink);

}  // namespace coxswain::data
