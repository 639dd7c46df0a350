//===- NcclTest.cpp - Finding NCCL, and what needs no GPU of it -----------===//

#include "runtime/collectives/Nccl.h"
#include "qwen/Plan/Contiguous.h"
#include "runtime/kernels/cuda/RowKernels.h"

#include <gtest/gtest.h>

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <cstdint>
#include <cstdlib>

using namespace qwen;

static std::string messageOf(const std::string &library) {
  StatusOr<nccl::Library> loaded = nccl::Library::load(library);
  EXPECT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::FailedPrecondition);
  EXPECT_EQ(loaded.status().message().find('\n'), std::string::npos);
  return loaded.status().message();
}

TEST(NcclTest, AMissingLibraryIsOneLine) {
  EXPECT_EQ(messageOf("libqwen-not-there.so.2")
                .find("several GPUs need NCCL, but 'libqwen-not-there.so.2' "
                      "cannot be loaded: "),
            0u);
}

TEST(NcclTest, AnotherLibraryIsRefused) {
  EXPECT_EQ(messageOf("libm.so.6"),
            "several GPUs need NCCL 2.20.0 or later, 'libm.so.6' is no NCCL "
            "that tells its version");
}

TEST(NcclTest, OldVersionsAreRefused) {
  for (auto [version, text] :
       {std::pair("2708", "2.7.8"), std::pair("21903", "2.19.3")}) {
    setenv("FAKE_NCCL_VERSION", version, 1);
    EXPECT_EQ(messageOf(FAKE_NCCL),
              fmt::format("several GPUs need NCCL 2.20.0 or later, '{}' is {}",
                          FAKE_NCCL, text));
  }
}

TEST(NcclTest, AFunctionThatIsMissingIsNamed) {
  setenv("FAKE_NCCL_VERSION", "22809", 1);
  EXPECT_EQ(messageOf(FAKE_NCCL),
            fmt::format("'{}' is NCCL 2.28.9 but has no 'ncclCommInitRank'",
                        FAKE_NCCL));
}

TEST(NcclTest, TheInstalledLibraryHasAllFunctions) {
  StatusOr<nccl::Library> library = nccl::Library::load();
  if (!library.ok())
    GTEST_SKIP() << library.status().message();
  EXPECT_GE(library->version, nccl::leastVersion);
  EXPECT_TRUE(library->check(nccl::success, "nothing").ok());
  // ncclInvalidArgument
  EXPECT_EQ(library->check(4, "an operation")
                .message()
                .find("an operation: NCCL: invalid argument"),
            0u);
}

#ifdef NCCL_MAJOR
TEST(NcclTest, DeclarationsAreThoseOfTheHeader) {
  EXPECT_EQ(int(nccl::Type::Int8), int(ncclInt8));
  EXPECT_EQ(int(nccl::Type::Float32), int(ncclFloat32));
  EXPECT_EQ(int(nccl::Reduction::Sum), int(ncclSum));
  EXPECT_EQ(int(nccl::success), int(ncclSuccess));
  EXPECT_EQ(sizeof(nccl::Result), sizeof(ncclResult_t));
  EXPECT_EQ(sizeof(nccl::Type), sizeof(ncclDataType_t));
  EXPECT_EQ(sizeof(nccl::Reduction), sizeof(ncclRedOp_t));
  EXPECT_EQ(sizeof(nccl::UniqueId), sizeof(ncclUniqueId));
  EXPECT_EQ(alignof(nccl::UniqueId), alignof(ncclUniqueId));
}
#endif

TEST(NcclTest, DefaultsYieldToTheUser) {
  setenv("NCCL_ALGO", "Tree", 1);
  for (const char *name : {"NCCL_PROTO", "NCCL_NVLS_ENABLE"})
    unsetenv(name);
  nccl::setEnvironmentDefaults();
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Tree");
  EXPECT_STREQ(std::getenv("NCCL_PROTO"), "Simple");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  unsetenv("NCCL_ALGO");
  nccl::setEnvironmentDefaults();
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Ring");
}

//===----------------------------------------------------------------------===//
// Slices of AdamW
//===----------------------------------------------------------------------===//

/// A slice from element `start` of shards that begin at multiples of 256 bytes.
static cuda::SliceEntry entryOf(int64_t start, int64_t firstElement,
                                DType moments = DType::BF16) {
  auto at = [&](DType dtype) {
    uintptr_t address(4096 + start * dtypeBytes(dtype));
    return Buffer{contiguousType(dtype, {1000}),
                  reinterpret_cast<void *>(address)};
  };
  AdamWArgs args;
  args.params = {at(DType::BF16)};
  args.grads = {at(DType::F32)};
  args.moments1 = args.moments2 = {at(moments)};
  args.firstElements = {firstElement};
  return cuda::sliceEntry(args, 0);
}

TEST(SliceEntryTest, VectorsStartWhereAllOperandsAndPairsLetThem) {
  struct Case {
    int64_t start, firstElement;
    int head, hasVectors;
  };
  for (auto [start, first, head, hasVectors] :
       {Case{0, 0, 0, 1}, Case{64, 6, 0, 1}, Case{63, 5, 1, 1},
        Case{61, 3, 3, 1}, Case{62, 0, 2, 1}, Case{8, 1, 0, 0},
        Case{7, 2, 0, 0}}) {
    cuda::SliceEntry entry = entryOf(start, first);
    EXPECT_EQ(entry.firstElement, first);
    EXPECT_EQ(entry.head, head) << start << " " << first;
    EXPECT_EQ(entry.hasVectors, hasVectors) << start << " " << first;
  }
}
