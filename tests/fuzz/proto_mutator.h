// Changes a protobuf message at random, by reflection: what a fuzzer's own changes of bytes would
// hardly ever leave readable. For targets whose input is a message in text format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "google/protobuf/message.h"

namespace coxswain::fuzz {

// One to four changes: a number becomes an interesting one, a text one of the message's others, an
// element of a list is dropped, doubled or swapped, a field is set or cleared.
void Mutate(google::protobuf::Message* message, std::mt19937* random);

// The body of a LLVMFuzzerCustomMutator: `data` is read into `scratch` as text, changed and written
// back. Returns the new size; 0, and `data` as it was, when the text does not fit into `max_size`.
size_t MutateText(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                  google::protobuf::Message* scratch);

// False unless `text` is the message in text format.
bool ReadText(const std::string& text, google::protobuf::Message* message);

}  // namespace coxswain::fuzz
