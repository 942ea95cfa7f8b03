// Reading the rows of a hash table by way of its parameter server.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "protos/control.pb.h"
#include "ps_server/shard.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_daemon.h"

namespace coxswain::ps {
namespace {

using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::OptimizerOf;
using testing::PsDaemon;

TEST_CASE(
    "however many rows of a hash table are asked for, a reply has a bound and says how to go on",
    "[ps_rows]") {
  constexpr int64_t kWidth = 16384, kRows = kMostIdsBytes / (kWidth * 4) + 30;
  PsDaemon ps;
  const proto::ShardSpec spec =
      HashShardsOf(HashTableOf("users", kWidth, OptimizerOf("sgd")), 1)[0];
  REQUIRE(ps.Create({spec}).ok());
  std::vector<int64_t> ids;
  Tensor rows(DType::kF32, Shape{kRows, kWidth});
  for (int64_t i = 0; i < kRows; ++i) {
    ids.push_back(7 * i);
    std::fill_n(rows.mutable_data<float>() + i * kWidth, kWidth, static_cast<float>(7 * i));
  }
  proto::ControlRequest write;
  write.set_request(1);
  write.set_session(ps.session());
  write.mutable_write_rows()->set_shard(spec.id());
  write.mutable_write_rows()->set_dtype(static_cast<int>(rows.dtype()));
  *write.mutable_write_rows()->mutable_shape() = graph::ToProto(rows.shape());
  net::Message message = cluster::EncodeControl(net::MessageType::kControl, write);
  message.payload = {rows.buffer().Slice(0, rows.bytes()),
                     Ids(ids).buffer().Slice(0, ids.size() * sizeof(int64_t))};
  ps.coordinator->Send(std::move(message));
  REQUIRE(ps.coordinator->ReceiveStatus().ok());

  proto::ControlRequest read;
  read.mutable_read_rows()->set_shard(spec.id());
  read.mutable_read_rows()->set_count(std::numeric_limits<int64_t>::max());
  std::multiset<int64_t> found;
  int replies = 0;
  do {
    ps.Send(read);
    const net::Message reply = ps.coordinator->Receive();
    const auto control = cluster::DecodeControl<proto::ControlReply>(reply);
    REQUIRE(control.ok());
    REQUIRE(cluster::FromProto(control->status()).ok());
    CHECK(reply.payload_bytes() <= static_cast<size_t>(kMostIdsBytes));
    const proto::RowsRead& part = control->rows_read();
    const auto got = cluster::PayloadIdsAndRows(reply, part.dtype(), part.shape());
    REQUIRE(got.ok());
    for (int64_t i = 0; i < got->ids.num_elements(); ++i) {
      const int64_t id = got->ids.data<int64_t>()[i];
      found.insert(id);
      CHECK(got->rows.data<float>()[i * kWidth] == static_cast<float>(id));
    }
    read.mutable_read_rows()->set_begin(part.next());
  } while (++replies < 5 && read.read_rows().begin() > 0);
  CHECK(replies == 2);
  CHECK(found == std::multiset<int64_t>(ids.begin(), ids.end()));
}

}  // namespace
}  // namespace coxswain::ps
