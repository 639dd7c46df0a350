//===- TensorBoard.cpp - Event files for TensorBoard ----------------------===//

#include "runtime/metrics/TensorBoard.h"

#include "Event.pb.h"
#include "runtime/metrics/Crc32c.h"
#include "runtime/support/Publish.h"

#include <array>
#include <chrono>
#include <cstring>
#include <unistd.h>

using namespace qwen;

static double secondsSinceEpoch() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

StatusOr<EventWriter> EventWriter::create(const std::string &directory,
                                          int64_t firstStep) {
  QWEN_RETURN_IF_ERROR(ensureWritableDirectory(directory));
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0)
    std::strcpy(host.data(), "localhost");
  double now = secondsSinceEpoch();
  QWEN_ASSIGN_OR_RETURN(OutputFile output,
                        OutputFile::create(fmt::format(
                            "{}/events.out.tfevents.{}.{}.{}", directory,
                            int64_t(now), host.data(), ::getpid())));
  EventWriter writer(std::move(output));
  tensorboard::Event version;
  version.set_wall_time(now);
  version.set_file_version("brain.Event:2");
  QWEN_RETURN_IF_ERROR(writer.writeRecord(version.SerializeAsString()));
  tensorboard::Event start;
  start.set_wall_time(now);
  start.set_step(firstStep);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  QWEN_RETURN_IF_ERROR(writer.writeRecord(start.SerializeAsString()));
  return writer;
}

Status EventWriter::write(int64_t step, std::span<const Scalar> scalars) {
  tensorboard::Event event;
  event.set_wall_time(secondsSinceEpoch());
  event.set_step(step);
  for (auto &[tag, value] : scalars) {
    auto *entry = event.mutable_summary()->add_value();
    entry->set_tag(tag);
    entry->set_simple_value(static_cast<float>(value));
  }
  return writeRecord(event.SerializeAsString());
}

template <typename T> static void appendBytes(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof value);
}

Status EventWriter::writeRecord(const std::string &message) {
  std::string record;
  appendBytes(record, uint64_t(message.size()));
  appendBytes(record, maskedCrc32c(record));
  record += message;
  appendBytes(record, maskedCrc32c(message));
  // One write a record: a reader never meets half of one.
  return file.write(record);
}
