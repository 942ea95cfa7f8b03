// The controller reads and writes rows of shards, wherever these are.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "coordinator/core/gather.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"

namespace coxswain::core {
namespace {

proto::ReadRows RowsRequest(ShardId shard, int64_t begin, int64_t count, int slot) {
  proto::ReadRows read;
  read.set_shard(shard);
  read.set_begin(begin);
  read.set_count(count);
  read.set_slot(slot);
  return read;
}

// Whoever loses its PS so often in a row is not just unlucky, as others are in a wave of losses.
constexpr int kMostLosses = 10;

absl::Status LostAgain(const absl::Status& lost, ShardId shard) {
  return Annotate(lost, absl::StrCat("shard ", shard, ": its parameter server was lost ",
                                     kMostLosses, " times with this request under way"));
}

}  // namespace

void Controller::WithShard(ShardId shard, std::function<void(int ps)> request, DoneFn fail) {
  loop_.AssertOnLoop();
  if (!life_.failed().ok()) {
    fail(life_.failed());
    return;
  }
  const int ps = layout_.PsOf(shard);
  if (ps < 0) {
    fail(absl::NotFoundError(absl::StrCat("no shard ", shard)));
    return;
  }
  if (phase() != Phase::kRunning || !tasks_.ps()[ps]->up()) {
    parked_.push_back([this, shard, request = std::move(request), fail = std::move(fail)] {
      WithShard(shard, request, fail);
    });
    return;
  }
  request(ps);
}

void Controller::RequestRows(const proto::ReadRows& read, TaskSession::ResponseFn done,
                             int losses) {
  loop_.Post([this, read, done = std::move(done), losses]() mutable {
    auto send = [this, read, done, losses](int ps) {
      if (closures_.rerun_open() > 0) {
        parked_.push_back([=, this] { RequestRows(read, done, losses); });
        return;
      }
      proto::ControlRequest request;
      *request.mutable_read_rows() = read;
      tasks_.ps()[ps]->Request(
          std::move(request), {}, [=, this, at = layout_.generation()](auto response) {
            const bool lost = !response.ok() && IsLost(response.status()) && !life_.ending();
            if (lost && losses + 1 >= kMostLosses) {
              return done(LostAgain(response.status(), read.shard()));
            }
            if (lost || (response.ok() && at != layout_.generation())) {
              // When it is back, unless the job has failed meanwhile. What it sent may be from
              // after the shard went back.
              RequestRows(read, done, lost ? losses + 1 : losses);
            } else {
              done(std::move(response));
            }
          });
    };
    WithShard(read.shard(), std::move(send), [done](absl::Status status) { done(status); });
  });
}

void Controller::ReadRows(ShardId shard, int64_t begin, int64_t count, int slot,
                          std::function<void(absl::StatusOr<Tensor>)> done) {
  RequestRows(RowsRequest(shard, begin, count, slot),
              [done = std::move(done)](absl::StatusOr<TaskSession::Response> response) {
                if (!response.ok()) {
                  done(response.status());
                  return;
                }
                const proto::RowsRead& rows = response->reply.rows_read();
                done(cluster::PayloadTensor(response->message, rows.dtype(), rows.shape()));
              });
}

void Controller::ReadIds(ShardId shard, int64_t begin, int64_t count, int slot,
                         std::function<void(absl::StatusOr<IdsRead>)> done) {
  RequestRows(RowsRequest(shard, begin, count, slot),
              [this, done = std::move(done)](absl::StatusOr<TaskSession::Response> response) {
                if (!response.ok()) {
                  done(response.status());
                  return;
                }
                const proto::RowsRead& rows = response->reply.rows_read();
                auto payload =
                    cluster::PayloadIdsAndRows(response->message, rows.dtype(), rows.shape());
                if (!payload.ok()) {
                  done(payload.status());
                } else {
                  done(IdsRead{std::move(payload->ids), std::move(payload->rows), rows.next(),
                               layout_.generation()});
                }
              });
}

void Controller::SendRows(const proto::WriteRows& write, std::vector<Buffer> payload, DoneFn done,
                          int losses) {
  loop_.Post([this, write, payload = std::move(payload), done = std::move(done), losses]() mutable {
    auto send = [this, write, payload, done, losses](int ps) {
      if (!checkpoints_.MakeWay(closures_.rerun_open() > 0)) {
        checkpoints_.Hold([=, this] { SendRows(write, payload, done, losses); });
        return;
      }
      const uint64_t covered_by = checkpoints_.WriteSent(write.shard());
      proto::ControlRequest request;
      *request.mutable_write_rows() = write;
      tasks_.ps()[ps]->Request(
          std::move(request), payload, [=, this, at = layout_.generation()](auto response) {
            const bool lost = !response.ok() && IsLost(response.status()) && !life_.ending();
            if (lost || (response.ok() && at != layout_.generation())) {
              if (lost && losses + 1 >= kMostLosses) {
                return done(LostAgain(response.status(), write.shard()));
              }
              // When it is back, unless the job has failed meanwhile; the shard may have gone back
              // since.
              SendRows(write, payload, done, lost ? losses + 1 : losses);
            } else {
              if (response.ok()) checkpoints_.WriteDone(write.shard(), covered_by);
              done(response.status());
            }
          });
    };
    WithShard(write.shard(), std::move(send), done);
  });
}

void Controller::ReleaseWrites() {
  for (auto& write : checkpoints_.Release()) write();
}

void Controller::WriteRows(ShardId shard, int64_t begin, int slot, Tensor rows, DoneFn done) {
  proto::WriteRows write;
  write.set_shard(shard);
  write.set_begin(begin);
  write.set_slot(slot);
  write.set_dtype(static_cast<int>(rows.dtype()));
  *write.mutable_shape() = graph::ToProto(rows.shape());
  SendRows(write, {rows.buffer().Slice(0, rows.bytes())}, std::move(done));
}

void Controller::WriteIds(ShardId shard, const Tensor& ids, const Tensor& rows, bool replace,
                          DoneFn done, int slot) {
  proto::WriteRows write;
  write.set_shard(shard);
  write.set_slot(slot);
  write.set_replace(replace);
  write.set_dtype(static_cast<int>(rows.dtype()));
  *write.mutable_shape() = graph::ToProto(rows.shape());
  SendRows(write, {rows.buffer().Slice(0, rows.bytes()), ids.buffer().Slice(0, ids.bytes())},
           std::move(done));
}

}  // namespace coxswain::core
