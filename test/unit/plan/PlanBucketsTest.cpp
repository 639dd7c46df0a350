//===- PlanBucketsTest.cpp - Plans for several ranks ----------------------===//
//
// What a rank holds, and what a well-formed plan may not say about it.
//
//===----------------------------------------------------------------------===//

#include "PlanFault.h"

using namespace qwen;
using namespace qwen::test;
using enum plan::ElementType;

namespace {

TEST(PlanBuckets, AreReadWithTheirShards) {
  auto plan = parse(shardedPlan().build());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->info().worldSize, 2);
  ASSERT_EQ(plan->buckets().size(), 1u);
  const PlanBucket &bucket = plan->buckets()[0];
  EXPECT_EQ(bucket.name, "layer.f32");
  EXPECT_EQ(bucket.elements, 128);
  EXPECT_EQ(bucket.shardElements, 64);
  EXPECT_TRUE(bucket.moment2.exists());
  EXPECT_FALSE(bucket.master.exists());
  const PlanParameter &v = plan->parameters()[1];
  EXPECT_FALSE(v.value.exists());
  EXPECT_EQ(v.bucket, 0);
  EXPECT_EQ(v.bucketOffset, 48);
  EXPECT_EQ(toString(v.type), "f32[2, 8]");
}

/// The slices of all ranks are the parameter, each element once.
TEST(PlanBuckets, SlicesCoverEveryParameter) {
  for (int64_t ranks : {1, 2, 3, 4, 7}) {
    PlanBucket bucket;
    bucket.elements = 64 * ranks * 3;
    bucket.shardElements = bucket.elements / ranks;
    for (int64_t offset : {0, 64, 100, 130}) {
      PlanParameter parameter;
      parameter.bucketOffset = offset;
      parameter.type = {DType::F32, 2, {3, 17}, {17, 1}};
      int64_t covered = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        PlanSlice slice = sliceOf(parameter, bucket, rank);
        if (slice.elements == 0)
          continue;
        EXPECT_EQ(slice.firstElement, covered);
        EXPECT_EQ(rank * bucket.shardElements + slice.shardOffset,
                  offset + slice.firstElement);
        EXPECT_LE(slice.shardOffset + slice.elements, bucket.shardElements);
        covered += slice.elements;
      }
      EXPECT_EQ(covered, 51) << ranks << " ranks, offset " << offset;
    }
  }
}

class PlanBucketsFault : public testing::TestWithParam<PlanFault> {};

TEST_P(PlanBucketsFault, IsRefusedWithItsPlace) {
  expectRefused(shardedPlan(), GetParam());
}

const PlanFault bucketFaults[] = {
    {"OneRank", [](PlanDraft &d) { d.worldSize = 1; },
     "1 buckets in a plan for one rank"},
    {"ManyRanks", [](PlanDraft &d) { d.worldSize = 5000; },
     "world_size is 5000, expected 1 to 4096"},
    {"NameTwice", [](PlanDraft &d) { d.buckets.push_back(d.buckets[0]); },
     "bucket 1 'layer.f32': the name is empty or used twice"},
    {"SharedBuffer",
     [](PlanDraft &d) {
       d.buckets.push_back(d.buckets[0]);
       d.buckets[1].name = "other";
     },
     "bucket 1: value lies in buffer 0, which is another shard's"},
    {"Length", [](PlanDraft &d) { d.buckets[0].elements = 64; },
     "bucket 0 'layer.f32': 64 elements, expected a multiple of 64 for each of "
     "2 ranks"},
    {"ShardLength", [](PlanDraft &d) { d.buckets[0].elements = 256; },
     "value: expected the 128 elements of a shard, found f32[64]"},
    {"ElementType", [](PlanDraft &d) { d.buckets[0].dtype = I32; },
     "element type 3 is no float"},
    {"ValueType", [](PlanDraft &d) { d.buckets[0].dtype = BF16; },
     "value: element type f32 does not go with values of bf16"},
    {"Class", [](PlanDraft &d) { d.buckets[0].gradient = ShardedValue; },
     "gradient: view 5 lies in a buffer of class Parameter, expected Gradient"},
    {"NoValue", [](PlanDraft &d) { d.buckets[0].value = noPlanId; },
     "value: view 4294967295"},
    {"OneMoment", [](PlanDraft &d) { d.buckets[0].moment2 = noPlanId; },
     "only one of the two moments exists"},
};

const PlanFault parameterFaults[] = {
    {"NoBucket", [](PlanDraft &d) { d.parameters[0].bucket = noPlanId; },
     "parameter 0 'w': bucket 4294967295, the plan has 1"},
    {"NoType", [](PlanDraft &d) { d.parameters[1].type = 77; },
     "parameter 1 'v': type 77, the plan has 11"},
    {"OtherType", [](PlanDraft &d) { d.parameters[1].type = 8; },
     "f64[1] is no contiguous tensor of f32"},
    {"Outside", [](PlanDraft &d) { d.parameters[1].bucketOffset = 128; },
     "parameter 1 'v': 16 elements at 128 are not inside its bucket of 128"},
    {"FarOutside", [](PlanDraft &d) { d.parameters[1].bucketOffset = -1; },
     "are not inside its bucket of 128"},
    {"Overlap", [](PlanDraft &d) { d.parameters[1].bucketOffset = 40; },
     "parameters 'w' and 'v' overlap in bucket 0"},
    {"Alignment", [](PlanDraft &d) { d.parameters[1].bucketOffset = 56; },
     "parameter 'v' begins at element 56 of bucket 0, expected 48 or a "
     "multiple of 64"},
    {"OwnView", [](PlanDraft &d) { d.parameters[0].master = 77; },
     "parameter 0 'w': master is view 77, expected none in a plan for 2 ranks"},
    {"Init",
     [](PlanDraft &d) { d.parameters[0].init = static_cast<plan::Init>(9); },
     "unknown initialisation 9"},
};

/// Looks up two rows instead of filling what is scattered.
void lookUp(PlanDraft &draft, uint32_t shard, int64_t begin, int64_t rows) {
  draft.views.push_back(plan::View(10, 10, 0));
  draft.programs[0].steps[2] =
      embeddingShard(shard, ShardedRng, 14, begin, rows);
}

const PlanFault shardedStepFaults[] = {
    {"GatherLength",
     [](PlanDraft &d) {
       d.programs[0].steps[0] = allGather(ShardedValue, ShardedGradient);
     },
     "full has 64 elements, expected 2 shards of 64"},
    {"ScatterLength",
     [](PlanDraft &d) {
       d.programs[0].steps[3] = reduceScatter(ShardedValue, ShardedGradient);
     },
     "full has 64 elements, expected 2 shards of 64"},
    {"ScatterClass",
     [](PlanDraft &d) {
       d.programs[0].steps[3] = reduceScatter(ShardedGrads, ShardedMoment1);
     },
     "shard lies in a buffer of class Moment1, expected Gradient or "
     "Activation"},
    {"LookupOfGradients",
     [](PlanDraft &d) { lookUp(d, ShardedGradient, 0, 16); },
     "step 2 (EmbeddingShard): shard lies in a buffer of class Gradient, "
     "expected Parameter"},
    {"TableBehindTheShards",
     [](PlanDraft &d) { lookUp(d, ShardedValue, 8, 16); },
     "a table of 16 rows of 8 elements from element 8 on is not within the 128 "
     "elements of 2 shards"},
    {"TableBeforeTheShards",
     [](PlanDraft &d) { lookUp(d, ShardedValue, -8, 16); },
     "a table of 16 rows of 8 elements from element -8 on is not within the "
     "128 elements of 2 shards"},
    {"HugeTable",
     [](PlanDraft &d) { lookUp(d, ShardedValue, 0, maxDimension); },
     "a table of 2147483647 rows of 8 elements from element 0 on is not within "
     "the 128 elements of 2 shards"},
    {"TableGradientOfMoments",
     [](PlanDraft &d) {
       d.views.push_back(plan::View(4, 10, 0));
       d.programs[0].steps[2] =
           embeddingGradShard(14, ShardedRng, ShardedMoment1, 0, 16);
     },
     "step 2 (EmbeddingGradShard): shard lies in a buffer of class Moment1, "
     "expected Gradient"},
    {"TableGradientOutside",
     [](PlanDraft &d) {
       d.views.push_back(plan::View(4, 10, 0));
       d.programs[0].steps[2] =
           embeddingGradShard(14, ShardedRng, ShardedGradient, 0, 17);
     },
     "a table of 17 rows of 8 elements from element 0 on is not within the 128 "
     "elements of 2 shards"},
    {"ScatterOfParameters",
     [](PlanDraft &d) {
       d.types.push_back(tensor(F32, {128}));
       d.arenas[0] = plan::Arena(512, plan::BufferClass::Parameter);
       d.buffers[0].size = 512;
       d.views.push_back(plan::View(0, 11, 0));
       d.programs[0].steps[3] = reduceScatter(14, ShardedGradient);
     },
     "full lies in a buffer of class Parameter, expected Activation"},
    {"ReadAfterScatter",
     [](PlanDraft &d) {
       d.types.push_back(tensor(F32, {4, 6}));
       d.views.push_back(plan::View(10, 11, 0));
       d.buffers[10].last = 4;
       d.programs[0].steps.push_back(copy(14, ShardedY));
       d.programs[0].waits[4] = {3};
     },
     "step 4 (Copy): operand in (view 14): reads buffer 10 where nothing has "
     "written it"},
    {"Partials",
     [](PlanDraft &d) {
       d.buffers[11].last = 2;
       d.programs[1].steps[2] =
           gradNormCombine(ShardedPartial, ShardedHyper, ShardedStats);
     },
     "partials of 1 ranks, the plan is for 2"},
    {"PartialType",
     [](PlanDraft &d) {
       d.programs[1].steps[0] = gradNormLocal(ShardedGradient, ShardedStats);
     },
     "operand 'partial': expected f64, found f32[4]"},
    {"UpdateWithoutBuckets",
     [](PlanDraft &d) { d.programs[1].steps[3] = shardedAdamW({}); },
     "0 buckets in a plan for 2 ranks"},
    {"UpdateOfNoBucket",
     [](PlanDraft &d) { d.programs[1].steps[3] = shardedAdamW({7}); },
     "bucket 7, the plan has 1"},
    {"UpdateOfOtherViews",
     [](PlanDraft &d) {
       d.views.push_back(plan::View(2, 5, 0));
       d.buckets[0].moment1 = static_cast<uint32_t>(d.views.size() - 1);
     },
     "moments1[0] is view 7, bucket 0 has view 14"},
};

std::string nameOf(const testing::TestParamInfo<PlanFault> &info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Buckets, PlanBucketsFault,
                         testing::ValuesIn(bucketFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(Parameters, PlanBucketsFault,
                         testing::ValuesIn(parameterFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(Steps, PlanBucketsFault,
                         testing::ValuesIn(shardedStepFaults), nameOf);

} // namespace
