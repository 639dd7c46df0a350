//===- PlanBucketsVerifier.cpp - How ranks hold the parameters ------------===//
//
// Checks that every parameter of a plan for several ranks has a place in a
// bucket, and every bucket's shards places in memory.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/Sharding.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/plan/PlanVerifier.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <set>

using namespace qwen;

namespace {

/// One of a bucket's tensors: its role and where its view id stands.
struct BucketRole {
  std::string_view name;
  plan::BufferClass holds;
  uint32_t (plan::Bucket::*view)() const;
};

const BucketRole bucketRoles[] = {
    {"value", plan::BufferClass::Parameter, &plan::Bucket::value},
    {"gradient", plan::BufferClass::Gradient, &plan::Bucket::gradient},
    {"moment1", plan::BufferClass::Moment1, &plan::Bucket::moment1},
    {"moment2", plan::BufferClass::Moment2, &plan::Bucket::moment2},
    {"master", plan::BufferClass::Master, &plan::Bucket::master},
};

/// Element types that a role may have for values of `dtype`.
bool isRoleType(plan::BufferClass holds, DType dtype, DType found) {
  DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  DType narrow = dtype == DType::F64 ? DType::F64 : DType::BF16;
  switch (holds) {
  case plan::BufferClass::Parameter:
    return found == dtype;
  case plan::BufferClass::Gradient:
  case plan::BufferClass::Moment1:
  case plan::BufferClass::Moment2:
    return found == wide || found == narrow;
  default:
    return found == wide;
  }
}

Status verifyShard(const plan::Plan &plan, const plan::Bucket &bucket,
                   const BucketRole &role) {
  uint32_t view = (bucket.*role.view)();
  if (view == noPlanId && role.holds != plan::BufferClass::Parameter)
    return okStatus();
  QWEN_RETURN_IF_ERROR(checkView(plan, view, role.holds));
  BufferType type =
      toBufferType(*plan.types()->Get(plan.views()->Get(view)->type()));
  auto expected = static_cast<int64_t>(bucket.elements() / plan.world_size());
  if (type.rank != 1 || type.dim(0) != expected)
    return dataLoss("expected the {} elements of a shard, found {}", expected,
                    toString(type));
  if (!isRoleType(role.holds, static_cast<DType>(bucket.dtype()), type.dtype))
    return dataLoss("element type {} does not go with values of {}",
                    dtypeName(type.dtype),
                    dtypeName(static_cast<DType>(bucket.dtype())));
  return okStatus();
}

Status verifyBucket(const plan::Plan &plan, const plan::Bucket &bucket) {
  if (bucket.dtype() > plan::ElementType::MAX ||
      bucket.dtype() == plan::ElementType::I32)
    return dataLoss("element type {} is no float",
                    static_cast<int>(bucket.dtype()));
  uint64_t unit = uint64_t(bucketAlignment) * plan.world_size();
  if (bucket.elements() == 0 || bucket.elements() > uint64_t(maxElements) ||
      bucket.elements() % unit != 0)
    return dataLoss("{} elements, expected a multiple of {} for each of {} "
                    "ranks",
                    bucket.elements(), bucketAlignment, plan.world_size());
  for (const BucketRole &role : bucketRoles)
    QWEN_RETURN_IF_ERROR(
        verifyShard(plan, bucket, role).withContext(role.name));
  if ((bucket.moment1() == noPlanId) != (bucket.moment2() == noPlanId))
    return dataLoss("only one of the two moments exists");
  return okStatus();
}

/// No two shards share a byte: each has a buffer of its own, and buffers that
/// live together never overlap.
Status verifyOwnBuffers(const plan::Plan &plan) {
  std::set<uint32_t> used;
  for (size_t i = 0; i < count(plan.buckets()); ++i)
    for (const BucketRole &role : bucketRoles) {
      uint32_t view = (plan.buckets()->Get(i)->*role.view)();
      if (view == noPlanId)
        continue;
      uint32_t buffer = plan.views()->Get(view)->buffer();
      if (!used.insert(buffer).second)
        return dataLoss("bucket {}: {} lies in buffer {}, which is another "
                        "shard's",
                        i, role.name, buffer);
    }
  return okStatus();
}

/// A parameter's place in its bucket.
struct Place {
  uint32_t bucket;
  uint64_t begin, end;
  const plan::Parameter *parameter;
  auto key() const { return std::tuple(bucket, begin); }
};

Status placeParameter(const plan::Plan &plan, const plan::Parameter &parameter,
                      std::vector<Place> &places) {
  if (parameter.bucket() >= count(plan.buckets()))
    return dataLoss("bucket {}, the plan has {}", parameter.bucket(),
                    count(plan.buckets()));
  if (parameter.type() >= count(plan.types()))
    return dataLoss("type {}, the plan has {}", parameter.type(),
                    count(plan.types()));
  const plan::Bucket &bucket = *plan.buckets()->Get(parameter.bucket());
  BufferType type = toBufferType(*plan.types()->Get(parameter.type()));
  if (!type.isContiguous() || type.dtype != static_cast<DType>(bucket.dtype()))
    return dataLoss("{} is no contiguous tensor of {}, which its bucket holds",
                    toString(type),
                    dtypeName(static_cast<DType>(bucket.dtype())));
  auto elements = static_cast<uint64_t>(type.elements());
  if (elements > bucket.elements() ||
      parameter.bucket_offset() > bucket.elements() - elements)
    return dataLoss("{} elements at {} are not inside its bucket of {}",
                    elements, parameter.bucket_offset(), bucket.elements());
  places.push_back({parameter.bucket(), parameter.bucket_offset(),
                    parameter.bucket_offset() + elements, &parameter});
  return okStatus();
}

Status verifyPlaces(std::vector<Place> &places) {
  std::sort(places.begin(), places.end(),
            [](const Place &a, const Place &b) { return a.key() < b.key(); });
  for (size_t i = 0; i < places.size(); ++i) {
    const Place &now = places[i];
    bool isFirst = i == 0 || places[i - 1].bucket != now.bucket;
    uint64_t end = isFirst ? 0 : places[i - 1].end;
    if (now.begin < end)
      return dataLoss("parameters '{}' and '{}' overlap in bucket {}",
                      printable(places[i - 1].parameter->name()->string_view()),
                      printable(now.parameter->name()->string_view()),
                      now.bucket);
    if (now.begin != end && now.begin % bucketAlignment != 0)
      return dataLoss("parameter '{}' begins at element {} of bucket {}, "
                      "expected {} or a multiple of {}",
                      printable(now.parameter->name()->string_view()),
                      now.begin, now.bucket, end, bucketAlignment);
  }
  return okStatus();
}

Status verifyOneRank(const plan::Plan &plan) {
  if (count(plan.buckets()) > 0)
    return dataLoss("{} buckets in a plan for one rank", count(plan.buckets()));
  for (size_t i = 0; i < count(plan.parameters()); ++i)
    if (plan.parameters()->Get(i)->bucket() != noPlanId)
      return dataLoss("parameter {}: has a bucket in a plan for one rank", i);
  return okStatus();
}

} // namespace

Status qwen::verifyPlanBuckets(const plan::Plan &plan) {
  if (plan.world_size() == 1)
    return verifyOneRank(plan);
  std::set<std::string_view> names;
  for (size_t i = 0; i < count(plan.buckets()); ++i) {
    const plan::Bucket &bucket = *plan.buckets()->Get(i);
    std::string_view name = bucket.name()->string_view();
    std::string context = fmt::format("bucket {} '{}'", i, printable(name));
    if (name.empty() || !names.insert(name).second)
      return dataLoss("{}: the name is empty or used twice", context);
    QWEN_RETURN_IF_ERROR(verifyBucket(plan, bucket).withContext(context));
  }
  QWEN_RETURN_IF_ERROR(verifyOwnBuffers(plan));
  std::vector<Place> places;
  for (size_t i = 0; i < count(plan.parameters()); ++i) {
    const plan::Parameter &parameter = *plan.parameters()->Get(i);
    QWEN_RETURN_IF_ERROR(placeParameter(plan, parameter, places)
                             .withContext(fmt::format(
                                 "parameter {} '{}'", i,
                                 printable(parameter.name()->string_view()))));
  }
  return verifyPlaces(places);
}
