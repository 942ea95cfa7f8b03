#include "tests/fuzz/proto_mutator.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace coxswain::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Mutator {
 public:
  Mutator(Message* root, std::mt19937* random) : random_(*random) { Collect(root); }

  void Change() {
    if (fields_.empty()) return;
    const auto [message, field] = Pick(fields_);
    if (field->is_repeated()) {
      ChangeList(message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      // Set with nothing in it, or taken away.
      message->GetReflection()->ClearField(message, field);
      if (Below(2) == 0) message->GetReflection()->MutableMessage(message, field);
    } else {
      SetValue(message, field, -1);
    }
  }

 private:
  using Field = std::pair<Message*, const FieldDescriptor*>;

  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  template <typename T>
  const T& Pick(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

  // All fields of all messages that are there, and what texts and numbers they hold.
  void Collect(Message* message) {
    const Reflection* r = message->GetReflection();
    const auto* descriptor = message->GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      const int count = field->is_repeated() ? r->FieldSize(*message, field) : -1;
      // A field that is set is changed more often than one that is not.
      const bool there = count > 0 || (count < 0 && Has(*message, field));
      for (int k = there ? 4 : 1; k > 0; --k) fields_.emplace_back(message, field);
      for (int k = 0; k < count; ++k) CollectValue(message, field, k);
      if (count < 0 && there) CollectValue(message, field, -1);
    }
  }

  void CollectValue(Message* message, const FieldDescriptor* field, int index) {
    const Reflection* r = message->GetReflection();
    const bool one = index < 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Collect(one ? r->MutableMessage(message, field)
                  : r->MutableRepeatedMessage(message, field, index));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      texts_.push_back(one ? r->GetString(*message, field)
                           : r->GetRepeatedString(*message, field, index));
    }
  }

  static bool Has(const Message& message, const FieldDescriptor* field) {
    return field->has_presence() ? message.GetReflection()->HasField(message, field) : true;
  }

  void ChangeList(Message* message, const FieldDescriptor* field) {
    const Reflection* r = message->GetReflection();
    const int size = r->FieldSize(*message, field);
    const bool messages = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    switch (Below(messages ? 4 : 6)) {
      case 0:
        if (size > 0) r->RemoveLast(message, field);
        return;
      case 1:
        if (size > 1) {
          r->SwapElements(message, field, static_cast<int>(Below(static_cast<size_t>(size))),
                          static_cast<int>(Below(static_cast<size_t>(size))));
        }
        return;
      case 2:  // one out of the middle
        if (size > 0) {
          r->SwapElements(message, field, static_cast<int>(Below(static_cast<size_t>(size))),
                          size - 1);
          r->RemoveLast(message, field);
        }
        return;
      case 3:
        if (size > 64) return;
        if (messages) {
          Message* added = r->AddMessage(message, field);
          if (size > 0 && !field->is_map()) {
            added->CopyFrom(r->GetRepeatedMessage(
                *message, field, static_cast<int>(Below(static_cast<size_t>(size)))));
          }
        } else {
          Add(message, field);
        }
        return;
      default:
        if (size > 0) SetValue(message, field, static_cast<int>(Below(static_cast<size_t>(size))));
    }
  }

  int64_t Number(int64_t now) {
    static const std::vector<int64_t> kNumbers = {0,
                                                  1,
                                                  2,
                                                  3,
                                                  4,
                                                  5,
                                                  7,
                                                  8,
                                                  16,
                                                  17,
                                                  31,
                                                  33,
                                                  64,
                                                  65,
                                                  127,
                                                  255,
                                                  256,
                                                  1000,
                                                  65535,
                                                  65536,
                                                  1 << 20,
                                                  0x7fffffff,
                                                  0x80000000,
                                                  0xffffffff,
                                                  1l << 32,
                                                  1l << 40,
                                                  (1l << 40) + 1,
                                                  1l << 53,
                                                  1l << 61,
                                                  1l << 62,
                                                  (1l << 62) + 1,
                                                  std::numeric_limits<int64_t>::max()};
    switch (Below(8)) {
      case 0:
        return -Pick(kNumbers);
      case 1:
        return std::numeric_limits<int64_t>::min();
      case 2:
        return static_cast<int64_t>(static_cast<uint64_t>(now) + 1);
      case 3:
        return static_cast<int64_t>(static_cast<uint64_t>(now) - 1);
      case 4:
      case 5:
        return static_cast<int64_t>(Below(6));
      default:
        return Pick(kNumbers);
    }
  }

  double Real() {
    static const std::vector<double> kReals = {0.0,   -0.0, 1.0,    -1.0,  0.5,   2.0,
                                               1e-40, 1e38, 1e-320, 1e308, -1e308};
    switch (Below(4)) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return std::numeric_limits<double>::infinity();
      default:
        return Pick(kReals);
    }
  }

  std::string SomeText(std::string now) {
    switch (Below(4)) {
      case 0:
        if (!now.empty()) now[Below(now.size())] = static_cast<char>(Below(128));
        return now;
      case 1:
        if (!now.empty()) now.resize(Below(now.size()));
        return now;
      case 2:
        return now.size() < 4096 ? now + now : now;
      default:
        return texts_.empty() ? "x" : Pick(texts_);
    }
  }

  // `index` of a list, or -1 for a single field.
  void SetValue(Message* m, const FieldDescriptor* f, int index) {
    const Reflection* r = m->GetReflection();
    const bool one = index < 0;
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto v = static_cast<int32_t>(
            Number(one ? r->GetInt32(*m, f) : r->GetRepeatedInt32(*m, f, index)));
        return one ? r->SetInt32(m, f, v) : r->SetRepeatedInt32(m, f, index, v);
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const int64_t v = Number(one ? r->GetInt64(*m, f) : r->GetRepeatedInt64(*m, f, index));
        return one ? r->SetInt64(m, f, v) : r->SetRepeatedInt64(m, f, index, v);
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto v = static_cast<uint32_t>(Number(0));
        return one ? r->SetUInt32(m, f, v) : r->SetRepeatedUInt32(m, f, index, v);
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        const auto v = static_cast<uint64_t>(Number(0));
        return one ? r->SetUInt64(m, f, v) : r->SetRepeatedUInt64(m, f, index, v);
      }
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return one ? r->SetDouble(m, f, Real()) : r->SetRepeatedDouble(m, f, index, Real());
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const auto v = static_cast<float>(Real());
        return one ? r->SetFloat(m, f, v) : r->SetRepeatedFloat(m, f, index, v);
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        return one ? r->SetBool(m, f, Below(2) != 0)
                   : r->SetRepeatedBool(m, f, index, Below(2) != 0);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int v = static_cast<int>(Below(5));
        return one ? r->SetEnumValue(m, f, v) : r->SetRepeatedEnumValue(m, f, index, v);
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string v = SomeText(one ? r->GetString(*m, f) : r->GetRepeatedString(*m, f, index));
        return one ? r->SetString(m, f, std::move(v))
                   : r->SetRepeatedString(m, f, index, std::move(v));
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  void Add(Message* m, const FieldDescriptor* f) {
    const Reflection* r = m->GetReflection();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return r->AddInt32(m, f, static_cast<int32_t>(Number(0)));
      case FieldDescriptor::CPPTYPE_INT64:
        return r->AddInt64(m, f, Number(0));
      case FieldDescriptor::CPPTYPE_UINT32:
        return r->AddUInt32(m, f, static_cast<uint32_t>(Number(0)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return r->AddUInt64(m, f, static_cast<uint64_t>(Number(0)));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r->AddDouble(m, f, Real());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return r->AddFloat(m, f, static_cast<float>(Real()));
      case FieldDescriptor::CPPTYPE_BOOL:
        return r->AddBool(m, f, Below(2) != 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return r->AddEnumValue(m, f, static_cast<int>(Below(5)));
      case FieldDescriptor::CPPTYPE_STRING:
        return r->AddString(m, f, SomeText("x"));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  std::mt19937& random_;
  std::vector<Field> fields_;
  std::vector<std::string> texts_;
};

class NoErrors final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

}  // namespace

void Mutate(Message* message, std::mt19937* random) {
  for (unsigned changes = 1 + (*random)() % 4; changes > 0; --changes) {
    Mutator(message, random).Change();
  }
}

bool ReadText(const std::string& text, Message* message) {
  NoErrors errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(64);
  return parser.ParseFromString(text, message);
}

size_t MutateText(uint8_t* data, size_t size, size_t max_size, unsigned seed, Message* scratch) {
  std::mt19937 random(seed);
  // What cannot be read is given up for an empty message.
  if (!ReadText(std::string(reinterpret_cast<const char*>(data), size), scratch)) scratch->Clear();
  Mutate(scratch, &random);
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(*scratch, &text) || text.size() > max_size) {
    return 0;
  }
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace coxswain::fuzz
