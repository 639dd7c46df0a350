//===- MpiCommunicator.cpp - Ranks that talk by MPI -----------------------===//
//
// The module libqwen_mpi.so. Only the thread that trains calls MPI. Operations
// are started and asked for, because ranks may be more than processors: a rank
// that waits sleeps. MPI moves bytes and never adds: the order of its sums is
// its own affair.
//
//===----------------------------------------------------------------------===//

#include "runtime/collectives/MpiModule.h"
#include "runtime/collectives/MpiModuleVersion.h"
#include "runtime/collectives/Watch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mpi.h>
#include <sched.h>
#include <vector>

using namespace qwen;

namespace {

/// Bytes of a rank's piece of an operation: counts in MPI are 32-bit.
constexpr int64_t pieceBytes = int64_t(64) << 20;
/// Bytes of all terms of a piece of a sum, of which two are in memory.
constexpr int64_t termBytes = int64_t(16) << 20;

class MpiCommunicator final : public Communicator {
public:
  ~MpiCommunicator() override;
  Status join(const CommunicatorOptions &options, int64_t launched);

  int rank() const override { return ownRank; }
  int size() const override { return ranks; }
  int localRank() const override { return numberOnMachine; }
  bool isLocal(int rank) const override {
    return machines[size_t(rank)] == machines[size_t(ownRank)];
  }
  Status barrier() override;
  Status allGather(const void *mine, void *all, int64_t bytes) override;
  Status reduceScatter(const float *all, float *mine, int64_t elements,
                       bool accumulate) override;
  Status broadcast(void *data, int64_t bytes, int root) override;

  void note(Activity activity) override { watch->note(activity); }
  void noteArrivals(uint64_t count) override { watch->noteArrivals(count); }
  void enterStep(int64_t step) override { watch->enterStep(step); }
  void fail(const Status &error) override;
  Status leave() override;

private:
  /// Says that this rank waits, for as long as the object lives.
  class Waiting {
  public:
    explicit Waiting(Watch &watch) : watch(watch), before(watch.activity()) {
      watch.note(Activity::Waiting);
    }
    ~Waiting() { watch.note(before); }

  private:
    Watch &watch;
    Activity before;
  };

  Status check(int code, const char *what);
  Status finish(MPI_Request &request, const char *what);
  Status startWatch(const CommunicatorOptions &options);
  Status startPiece(const float *all, int64_t stride, int64_t count,
                    std::vector<float> &terms, MPI_Request &request);

  using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;
  std::vector<Name> machines; ///< of the ranks
  int ownRank = 0, ranks = 1, numberOnMachine = 0;
  bool broken = false; ///< an operation failed
  std::unique_ptr<Watch> watch;
};

/// Adds the terms of a piece, which lie one after the other, in rank order.
void addTerms(const float *terms, int64_t count, int ranks, float *mine,
              bool accumulate) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    double sum = accumulate ? double(mine[i]) : 0.0;
    for (int r = 0; r < ranks; ++r)
      sum += double(terms[r * count + i]);
    mine[i] = static_cast<float>(sum);
  }
}

} // namespace

MpiCommunicator::~MpiCommunicator() = default;

Status MpiCommunicator::check(int code, const char *what) {
  if (code == MPI_SUCCESS)
    return okStatus();
  broken = true;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return makeError(StatusCode::IoError, "MPI {}: {}", what, text.data());
}

/// Waits for a request; sleeps where the others take long.
Status MpiCommunicator::finish(MPI_Request &request, const char *what) {
  constexpr int patience = 1000; // questions; some 0.1 ms
  for (int asked = 0;; ++asked) {
    int done = 0;
    QWEN_RETURN_IF_ERROR(
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what));
    if (done)
      return okStatus();
    if (asked < patience)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Status MpiCommunicator::barrier() {
  Waiting waiting(*watch);
  MPI_Request request;
  QWEN_RETURN_IF_ERROR(
      check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "barrier"));
  return finish(request, "barrier");
}

Status MpiCommunicator::allGather(const void *mine, void *all, int64_t bytes) {
  Waiting waiting(*watch);
  auto *from = static_cast<const std::byte *>(mine);
  auto *to = static_cast<std::byte *>(all);
  for (int64_t begin = 0; begin < bytes; begin += pieceBytes) {
    auto count = static_cast<int>(std::min(pieceBytes, bytes - begin));
    // The pieces of the ranks lie `bytes` apart.
    MPI_Datatype piece, spaced;
    MPI_Type_contiguous(count, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, MPI_Aint(bytes), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Request request;
    Status status =
        check(MPI_Iallgather(from + begin, count, MPI_BYTE, to + begin, 1,
                             spaced, MPI_COMM_WORLD, &request),
              "all-gather");
    if (status.ok())
      status = finish(request, "all-gather");
    MPI_Type_free(&spaced);
    MPI_Type_free(&piece);
    QWEN_RETURN_IF_ERROR(status);
    watch->note(Activity::Waiting);
  }
  return okStatus();
}

/// Starts to fetch the terms of elements [0, count) of this rank's part; the
/// parts of the ranks lie `stride` elements apart in `all`.
Status MpiCommunicator::startPiece(const float *all, int64_t stride,
                                   int64_t count, std::vector<float> &terms,
                                   MPI_Request &request) {
  terms.resize(static_cast<size_t>(count * ranks));
  MPI_Datatype piece, spaced;
  MPI_Type_contiguous(static_cast<int>(count), MPI_FLOAT, &piece);
  MPI_Type_create_resized(piece, 0, MPI_Aint(stride * 4), &spaced);
  MPI_Type_commit(&spaced);
  Status status =
      check(MPI_Ialltoall(all, 1, spaced, terms.data(), static_cast<int>(count),
                          MPI_FLOAT, MPI_COMM_WORLD, &request),
            "all-to-all");
  // MPI keeps types that are in use.
  MPI_Type_free(&spaced);
  MPI_Type_free(&piece);
  return status;
}

Status MpiCommunicator::reduceScatter(const float *all, float *mine,
                                      int64_t elements, bool accumulate) {
  Waiting waiting(*watch);
  int64_t most = std::max<int64_t>(termBytes / 4 / ranks, 1);
  std::vector<float> now, next;
  MPI_Request request = MPI_REQUEST_NULL;
  if (elements > 0)
    QWEN_RETURN_IF_ERROR(
        startPiece(all, elements, std::min(most, elements), now, request));
  for (int64_t begin = 0; begin < elements; begin += most) {
    int64_t count = std::min(most, elements - begin);
    QWEN_RETURN_IF_ERROR(finish(request, "all-to-all"));
    // The next piece is under way while this one is added.
    if (int64_t after = begin + most; after < elements)
      QWEN_RETURN_IF_ERROR(startPiece(all + after, elements,
                                      std::min(most, elements - after), next,
                                      request));
    addTerms(now.data(), count, ranks, mine + begin, accumulate);
    std::swap(now, next);
    watch->note(Activity::Waiting);
  }
  return okStatus();
}

Status MpiCommunicator::broadcast(void *data, int64_t bytes, int root) {
  Waiting waiting(*watch);
  auto *at = static_cast<std::byte *>(data);
  for (int64_t begin = 0; begin < bytes; begin += pieceBytes) {
    auto count = static_cast<int>(std::min(pieceBytes, bytes - begin));
    MPI_Request request;
    QWEN_RETURN_IF_ERROR(check(
        MPI_Ibcast(at + begin, count, MPI_BYTE, root, MPI_COMM_WORLD, &request),
        "broadcast"));
    QWEN_RETURN_IF_ERROR(finish(request, "broadcast"));
    watch->note(Activity::Waiting);
  }
  return okStatus();
}

void MpiCommunicator::fail(const Status &error) {
  // The loss of another rank may have made an operation fail before it was
  // noticed as such.
  if (broken)
    watch->awaitLoss(std::chrono::seconds(2));
  watch->fail(error.message());
}

Status MpiCommunicator::leave() {
  QWEN_RETURN_IF_ERROR(barrier());
  watch->leave();
  return check(MPI_Finalize(), "end");
}

Status MpiCommunicator::join(const CommunicatorOptions &options,
                             int64_t launched) {
  int provided = 0;
  QWEN_RETURN_IF_ERROR(
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
            "start"));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &ownRank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> library{};
  int length = 0;
  MPI_Get_library_version(library.data(), &length);
  std::string_view version = library.data();
  if (launched > 0 && launched != ranks)
    return makeError(StatusCode::FailedPrecondition,
                     "the launcher started {} ranks, but MPI sees {}: this "
                     "program uses {}, start it with that MPI's launcher",
                     launched, ranks, version.substr(0, version.find(',')));
  return startWatch(options);
}

Status MpiCommunicator::startWatch(const CommunicatorOptions &options) {
  Name machine{};
  int length = 0;
  MPI_Get_processor_name(machine.data(), &length);
  machines.resize(static_cast<size_t>(ranks));
  QWEN_RETURN_IF_ERROR(
      check(MPI_Allgather(&machine, sizeof(Name), MPI_BYTE, machines.data(),
                          sizeof(Name), MPI_BYTE, MPI_COMM_WORLD),
            "all-gather"));
  bool oneMachine = std::all_of(machines.begin(), machines.end(),
                                [&](const Name &m) { return m == machine; });
  numberOnMachine = launchedLocalRank().value_or(static_cast<int>(
      std::count(machines.begin(), machines.begin() + ownRank, machine)));
  WatchAddress address;
  if (ownRank == 0) {
    QWEN_ASSIGN_OR_RETURN(watch, Watch::listen(ranks, oneMachine, options));
    address = watch->address();
  }
  QWEN_RETURN_IF_ERROR(
      check(MPI_Bcast(&address, sizeof(address), MPI_BYTE, 0, MPI_COMM_WORLD),
            "broadcast"));
  if (ownRank != 0) {
    QWEN_ASSIGN_OR_RETURN(watch,
                          Watch::connect(ownRank, ranks, address, options));
  }
  return watch->start();
}

#define QWEN_EXPORT extern "C" __attribute__((visibility("default")))

QWEN_EXPORT const uint64_t qwenMpiModuleVersion = mpiModuleVersion;

QWEN_EXPORT Communicator *qwenJoinByMpi(const CommunicatorOptions &options,
                                        int64_t launched, Status &status) {
  auto joined = std::make_unique<MpiCommunicator>();
  status = joined->join(options, launched);
  if (!status.ok())
    return nullptr;
  return joined.release();
}
