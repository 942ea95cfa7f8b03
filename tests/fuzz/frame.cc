// A frame of a step, and a kernel on the tensors that it brought. The input is a line "OP A K F"
// and a table of tensors:
//   OP  the op that takes the tensors
//   A   its attributes, by their number among those known here
//   K   kind of the message: 0 to 3; from 4 on, the table is a whole header of joined messages
//   F   bit 0: the shapes are open when the op's node is built; bits 1..: what the tensors hold
// The table is their number (4 bytes) and of each the dtype, the rank (1 byte) and the dimensions
// (8 bytes). The payload's slices get the sizes that such a table asks for, by products that may
// overflow.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/function/executor.h"
#include "runtime/function/frame.h"
#include "runtime/tensor/limits.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/registry.h"

namespace coxswain {
namespace {

constexpr uint64_t kMaxSlice = 1 << 16;

// What the table at `in` asks for; slices that are too large to be made are left empty.
std::vector<Buffer> MakePayload(absl::string_view in, unsigned salt) {
  const auto get = [&in](void* out, size_t bytes) {
    if (in.size() < bytes) return false;
    std::memcpy(out, in.data(), bytes);
    in.remove_prefix(bytes);
    return true;
  };
  std::vector<Buffer> payload;
  uint32_t count = 0;
  get(&count, sizeof(count));
  for (uint32_t i = 0; i < std::min<uint32_t>(count, 16); ++i) {
    uint8_t dtype = 0, rank = 0;
    get(&dtype, 1);
    get(&rank, 1);
    uint64_t bytes = SizeOf(static_cast<DType>(dtype));
    Shape shape;
    for (int r = 0; r < rank; ++r) {
      uint64_t dim = 0;
      get(&dim, sizeof(dim));
      bytes *= dim;
      shape.Append(static_cast<int64_t>(dim));
    }
    Buffer slice = Buffer::Allocate(bytes > kMaxSlice ? 0 : static_cast<size_t>(bytes));
    if (slice.size() > 0) std::memset(slice.data(), static_cast<int>(salt), slice.size());
    if (auto tensor = TensorFromBytes(static_cast<DType>(dtype), shape, slice);
        dtype >= 1 && dtype <= static_cast<uint8_t>(DType::kBF16) && tensor.ok()) {
      fuzz::Fill(&*tensor, salt + i);
      slice = tensor->buffer();
    }
    payload.push_back(std::move(slice));
  }
  return payload;
}

template <typename Request>
net::Message WithTable(Request empty, absl::string_view table, unsigned salt) {
  net::Message message = function::Encode(std::move(empty));
  message.header.resize(message.header.size() - sizeof(uint32_t));  // a table without tensors
  message.header.append(table.data(), table.size());
  message.payload = MakePayload(table, salt);
  return message;
}

// The tensors of a message of any kind.
std::vector<Tensor> Decode(uint32_t kind, absl::string_view table, unsigned salt) {
  switch (kind) {
    case 0: {
      auto request =
          function::DecodeSegmentRequest(WithTable(function::SegmentRequest(), table, salt));
      if (request.ok()) return std::move(request->tensors);
      break;
    }
    case 1: {
      auto reply = function::DecodeSegmentReply(WithTable(function::SegmentReply(), table, salt));
      if (reply.ok()) return std::move(reply->tensors);
      break;
    }
    case 2: {
      auto request =
          function::DecodeClosureRequest(WithTable(function::ClosureRequest(), table, salt));
      if (request.ok()) return std::move(request->arguments);
      break;
    }
    case 3: {
      auto reply = function::DecodeClosureReply(WithTable(function::ClosureReply(), table, salt));
      if (reply.ok()) return std::move(reply->results);
      break;
    }
    default: {
      net::Message raw;
      raw.header = std::string(table);
      raw.type = static_cast<uint16_t>(net::MessageType::kFrames);
      auto parts = function::SplitMessages(raw);
      if (!parts.ok()) break;
      for (net::Message& part : *parts) {
        static_cast<void>(function::DecodeSegmentRequest(part));
        static_cast<void>(function::DecodeSegmentReply(part));
        static_cast<void>(function::DecodeClosureRequest(part));
        static_cast<void>(function::DecodeClosureReply(part));
      }
    }
  }
  return {};
}

// Attributes that ops need, each op with some that fit tensors of little rank.
std::vector<Attrs> AttrsOf(const std::string& op) {
  using Ints = std::vector<int64_t>;
  const Attrs one = {{"shards", 3}, {"rows", 5}, {"strategy", "mod"}};
  static const auto* const known = new std::map<std::string, std::vector<Attrs>>{
      {"ArgMax", {{{"axis", 0}}, {{"axis", -1}}, {{"axis", 1}}}},
      {"Cast", {{{"dtype", DType::kI32}}, {{"dtype", DType::kBool}}, {{"dtype", DType::kBF16}}}},
      {"Concat", {{{"axis", 0}}, {{"axis", 1}}, {{"axis", -1}}}},
      {"ConcatGrad", {{{"axis", 0}}, {{"axis", 1}}}},
      {"EmbeddingBag", {{{"combiner", "sum"}}, {{"combiner", "sqrtn"}}}},
      {"EmbeddingBagGrad", {{{"combiner", "mean"}}, {{"combiner", "sum"}}}},
      {"ExpandDims", {{{"axis", 0}}, {{"axis", -1}}}},
      {"OneHot", {{{"depth", 4}}, {{"depth", int64_t{1} << 40}}}},
      {"PairwiseDots", {{{"with_first", true}}, {{"with_first", false}}}},
      {"PairwiseDotsGrad", {{{"with_first", true}}, {{"with_first", false}}}},
      {"Reshape",
       {{{"shape", Shape{-1}}},
        {{"shape", Shape{0, 1 << 20, 1 << 20}}},
        {{"shape", Shape{int64_t{1} << 62}}},
        {{"shape", Shape{2, -1}}}}},
      {"Slice",
       {{{"begin", Ints{1, 0}}, {"size", Ints{-1, 1}}}, {{"begin", Ints{0}}, {"size", Ints{2}}}}},
      {"SliceGrad",
       {{{"begin", Ints{1, 0}}, {"size", Ints{-1, 1}}}, {{"begin", Ints{0}}, {"size", Ints{2}}}}},
      {"Split", {{{"axis", 0}, {"sizes", Ints{1, 2}}}, {{"axis", 1}, {"sizes", Ints{0, 3, 1}}}}},
      {"Squeeze", {{{"axis", 0}}, {{"axis", 1}}}},
      {"TopK", {{{"k", 1}}, {{"k", 3}}}},
      {"Transpose", {{{"perm", Ints{1, 0}}}, {{"perm", Ints{2, 0, 1}}}, {{"perm", Ints{0, 2, 1}}}}},
      {"UniqueShards", {one, {{"shards", 2}, {"rows", -1}, {"strategy", "hash"}}}},
  };
  static const std::vector<Attrs> kReductions = {
      {}, {{"axes", Ints{0}}}, {{"axes", Ints{1}}, {"keep_dims", true}}, {{"axes", Ints{0, 2}}}};
  static const std::vector<Attrs> kProducts = {
      {}, {{"transpose_a", true}}, {{"transpose_b", true}}};
  if (op.rfind("Reduce", 0) == 0) return kReductions;
  if (op == "MatMul" || op == "BatchMatMul") return kProducts;
  const auto found = known->find(op);
  return found == known->end() ? std::vector<Attrs>{{}} : found->second;
}

// Runs the op alone; false when it does not take such tensors.
void RunOp(const std::string& op, const Attrs& attrs, bool open, std::vector<Tensor> tensors) {
  static env::ComputePool* const pool = env::NewInlinePool().release();
  graph::Function function("f", &testing::ClusterOps());
  graph::Node node;
  node.op = op;
  node.attrs = attrs;
  for (const Tensor& tensor : tensors) {
    Shape shape = tensor.shape();
    for (int i = 0; open && i < shape.rank(); ++i) shape.set_dim(i, kUnknownDim);
    const int number = static_cast<int>(function.arguments.size());
    graph::Node arg;
    arg.op = "Arg";
    arg.attrs = {{"index", number}, {"dtype", tensor.dtype()}, {"shape", shape}};
    const auto id = function.graph.Add(std::move(arg));
    if (!id.ok()) return;
    function.arguments.push_back({std::to_string(number), {tensor.dtype(), shape}, *id});
    node.inputs.push_back({*id, 0});
  }
  const auto id = function.graph.Add(std::move(node));
  if (!id.ok()) return;
  const int outputs = static_cast<int>(function.graph.node(*id).outputs.size());
  for (int i = 0; i < outputs; ++i) {
    function.results.push_back({std::to_string(i), {*id, i}});
  }
  const auto compiled = function::CompiledFunction::Compile(std::move(function));
  if (!compiled.ok()) return;
  function::RunOptions options;
  options.pool = pool;
  const auto results = (*compiled)->Run(std::move(tensors), options);
  if (!results.ok()) return;
  for (const Tensor& t : *results) {
    if (!CheckedElements(t.shape()).ok()) fuzz::Broken("a result beyond all bounds");
    static_cast<void>(t.ToString());
  }
}

struct Head {
  std::string op;
  uint32_t attrs = 0, kind = 0, flags = 0;
};

// False when the input does not begin with such a line; `*table` is what follows it.
bool ReadHead(absl::string_view input, Head* head, absl::string_view* table) {
  const size_t end = input.find('\n');
  if (end == absl::string_view::npos) return false;
  *table = input.substr(end + 1);
  const std::vector<std::string> words = absl::StrSplit(input.substr(0, end), ' ');
  if (words.size() != 4) return false;
  head->op = words[0];
  return absl::SimpleAtoi(words[1], &head->attrs) && absl::SimpleAtoi(words[2], &head->kind) &&
         absl::SimpleAtoi(words[3], &head->flags);
}

const std::vector<std::string>& Ops() {
  static const auto* const ops = [] {
    auto* all = new std::vector<std::string>;
    for (std::string& name : testing::ClusterOps().Names()) {
      if (testing::ClusterOps().HasKernel(name)) all->push_back(std::move(name));
    }
    return all;
  }();
  return *ops;
}

void Run(absl::string_view input) {
  Head head;
  absl::string_view table;
  if (!ReadHead(input, &head, &table)) return;
  std::vector<Tensor> tensors = Decode(head.kind, table, head.flags >> 1);
  for (const Tensor& t : tensors) {
    if (!t.has_value()) return;
    if (!CheckedElements(t.shape()).ok()) fuzz::Broken("a frame's tensor beyond all bounds");
  }
  const std::vector<Attrs> attrs = AttrsOf(head.op);
  RunOp(head.op, attrs[head.attrs % attrs.size()], (head.flags & 1) != 0, std::move(tensors));
}

// Another op, or another dimension, in place.
std::string Change(absl::string_view input, std::mt19937* random) {
  static constexpr uint64_t kDims[] = {
      0,          1,          2,          3,          4,
      5,          17,         64,         1 << 20,    1u << 31,
      1ull << 32, 1ull << 40, 1ull << 61, 1ull << 62, (1ull << 62) + 1,
      ~0ull >> 1, ~0ull,      1ull << 63};
  Head head;
  absl::string_view rest;
  if (!ReadHead(input, &head, &rest)) rest = input;
  std::string table(rest);
  switch ((*random)() % 4) {
    case 0:
      head.op = Ops()[(*random)() % Ops().size()];
      break;
    case 1:
      head.attrs = (*random)() % 4;
      head.flags = (*random)() % 16;
      if ((*random)() % 4 == 0) head.kind = (*random)() % 5;
      break;
    case 2: {  // where dimensions lie in a table of one to three tensors
      const size_t tensor = (*random)() % 3, dim = (*random)() % 3, rank = 1 + (*random)() % 3;
      const size_t at = 4 + tensor * (2 + rank * 8) + 2 + std::min(dim, rank - 1) * 8;
      if (at + 8 <= table.size()) {
        std::memcpy(table.data() + at, &kDims[(*random)() % std::size(kDims)], 8);
      }
      break;
    }
    default: {  // a tensor more
      uint32_t count = 0;
      if (table.size() >= 4) std::memcpy(&count, table.data(), 4);
      table.resize(std::max<size_t>(4, table.size()));
      ++count;
      std::memcpy(table.data(), &count, 4);
      const auto rank = static_cast<char>((*random)() % 4);
      table.push_back(static_cast<char>(1 + (*random)() % 6));
      table.push_back(rank);
      for (int r = 0; r < rank; ++r) {
        const uint64_t dim = kDims[(*random)() % ((*random)() % 4 == 0 ? std::size(kDims) : 6)];
        table.append(reinterpret_cast<const char*>(&dim), sizeof(dim));
      }
    }
  }
  return absl::StrCat(head.op, " ", head.attrs, " ", head.kind, " ", head.flags, "\n", table);
}

}  // namespace
}  // namespace coxswain

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::mt19937 random(seed);
  if (random() % 3 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string changed = coxswain::Change(coxswain::fuzz::Text(data, size), &random);
  if (changed.size() > max_size) return size;
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::fuzz::BoundMemory();
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
