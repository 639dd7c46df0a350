//===- MetricsTest.cpp - Event files, JSON lines, the progress line -------===//

#include "TemporaryFolder.h"
#include "runtime/metrics/Crc32c.h"
#include "runtime/metrics/GpuMonitor.h"
#include "runtime/metrics/MetricsLog.h"
#include "runtime/metrics/Progress.h"
#include "runtime/support/Format.h"
#include "runtime/support/Json.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <thread>

using namespace qwen;

TEST(Crc32cTest, KnownAnswers) {
  // RFC 3720, appendix B.4, and the check value of the CRC catalogue.
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
  uint32_t unmasked = maskedCrc32c("123456789") - 0xa282ead8u;
  EXPECT_EQ((unmasked << 15) | (unmasked >> 17), 0xe3069283u);
}

template <typename T> static T read(const std::string &bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Messages of an event file whose framing is checked.
static std::vector<std::string> readRecords(const std::string &bytes) {
  std::vector<std::string> messages;
  size_t at = 0;
  while (at < bytes.size()) {
    uint64_t length = read<uint64_t>(bytes, at);
    EXPECT_EQ(read<uint32_t>(bytes, at + 8),
              maskedCrc32c(std::string_view(bytes).substr(at, 8)));
    std::string message = bytes.substr(at + 12, length);
    EXPECT_EQ(read<uint32_t>(bytes, at + 12 + length), maskedCrc32c(message));
    messages.push_back(message);
    at += 16 + length;
  }
  EXPECT_EQ(at, bytes.size());
  return messages;
}

TEST(TensorBoardTest, WireFormat) {
  TemporaryFolder folder;
  auto writer = EventWriter::create(folder / "tb", 8);
  ASSERT_OK(writer.status());
  std::vector<Scalar> scalars = {{"loss", 1.5}, {"zero", 0.0}};
  ASSERT_OK(writer->write(300, scalars));
  auto entry = std::filesystem::directory_iterator(folder / "tb");
  std::string name = entry->path().filename().string();
  EXPECT_EQ(name.find("events.out.tfevents."), 0u);
  auto records = readRecords(readFile(entry->path().string()));
  ASSERT_EQ(records.size(), 3u);
  // Tag bytes are (field number << 3) | wire type, from TensorBoard's schema.
  EXPECT_EQ(records[0][0], 0x09) << "wall_time is field 1, 64 bits";
  EXPECT_EQ(records[0].substr(9), std::string("\x1a\x0d") + "brain.Event:2");
  EXPECT_EQ(records[1].substr(9), std::string("\x10\x08\x3a\x02\x08\x01"))
      << "step 8, session_log {status START}";
  EXPECT_EQ(records[2].substr(9),
            std::string("\x10\xac\x02\x2a\x1a"
                        "\x0a\x0b\x0a\x04loss\x15\x00\x00\xc0\x3f"
                        "\x0a\x0b\x0a\x04zero\x15\x00\x00\x00\x00",
                        31))
      << "step 300, summary {value {tag, simple_value} value {...}}; a zero is "
         "written, as TensorBoard drops values without a number";
}

TEST(MetricsLogTest, ResumeForgetsLaterAndUnfinishedLines) {
  TemporaryFolder folder;
  std::vector<Scalar> scalars = {
      {"loss", 2.5}, {"grad_norm", std::numeric_limits<double>::quiet_NaN()}};
  for (int64_t start : {0, 2}) {
    auto log = MetricsLog::open(folder.path, start);
    ASSERT_OK(log.status());
    for (int64_t step = start + 1; step <= 4; ++step)
      ASSERT_OK(log->write(step, "train", scalars));
    std::ofstream(folder / "metrics.jsonl", std::ios::app) << "{\"step\": 5";
  }
  std::istringstream lines(readFile(folder / "metrics.jsonl"));
  std::string line;
  for (uint64_t step = 1; step <= 4; ++step) {
    ASSERT_TRUE(std::getline(lines, line));
    auto json = parseJsonObject(line, "line");
    ASSERT_OK(json.status());
    EXPECT_EQ((*json)["step"], step);
    EXPECT_EQ((*json)["loss"], 2.5);
    EXPECT_TRUE((*json)["grad_norm"].is_null());
  }
  auto fresh = MetricsLog::open(folder.path, 0);
  ASSERT_OK(fresh.status());
  EXPECT_EQ(readFile(folder / "metrics.jsonl"), "");
}

TEST(ProgressTest, Formats) {
  EXPECT_EQ(formatDuration(59.6), "1:00");
  EXPECT_EQ(formatDuration(3723), "1:02:03");
  EXPECT_EQ(formatDuration(std::nan("")), "?");
  EXPECT_EQ(formatBytes(512), "512 B");
  EXPECT_EQ(formatBytes(55.5628e9), "55.56 GB");
  StepReport report{3, 10, 2.5, 0.75, 1e-4, 1234.4, std::nullopt, 61, {}, {}};
  EXPECT_EQ(formatStep(report), "step 3/10  loss 2.5000  grad norm 0.75  lr "
                                "0.0001  1234 tokens/s  ETA 1:01");
  report.mfu = 0.4125;
  EXPECT_NE(formatStep(report).find("  MFU 41.2%  ETA"), std::string::npos);
  report.hfu = 0.5;
  report.gpu = {91'200'000'000, 98, std::nullopt, 1755};
  EXPECT_NE(formatStep(report).find(
                "  MFU 41.2%  HFU 50.0%  GPU 98% 1755 MHz 91.20 GB  ETA"),
            std::string::npos)
      << formatStep(report);
}

TEST(ProgressTest, PlainOutputIsWholeLines) {
  TemporaryFolder folder;
  std::FILE *out = std::fopen((folder / "out").c_str(), "w");
  ASSERT_NE(out, nullptr);
  {
    Progress progress(out, 5);
    for (int64_t step = 1; step <= 12; ++step)
      progress.step({step, 12, 1, 1, 1, 1, std::nullopt, 1, {}, {}});
    progress.activity("saving");
    progress.line("done");
  }
  std::fclose(out);
  std::string text = readFile(folder / "out");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << "1 5 10 12 done";
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find("saving"), std::string::npos);
}

TEST(GpuMonitorTest, AsksAgainWithoutBeingWaitedFor) {
  auto monitor = GpuMonitor::open("0000:18:00.0", FAKE_NVML, 1e-3);
  ASSERT_OK(monitor.status());
  GpuSample first = monitor->latest();
  EXPECT_EQ(first.memoryBytes, 42);
  EXPECT_EQ(first.utilization, 97);
  EXPECT_FALSE(first.smClockMegahertz) << "not told";
  // The fake's temperature counts the questions. Ends when the thread asks.
  while (monitor->latest().temperature.value() < first.temperature.value() + 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  GpuMonitor moved = std::move(*monitor);
  EXPECT_EQ(moved.latest().utilization, 97);
  EXPECT_EQ(moved.joules(), 12.5);
}

TEST(GpuMonitorTest, SaysWhyThereIsNone) {
  EXPECT_ERROR(GpuMonitor::open("0000:99:00.0", FAKE_NVML).status(),
               "GPU 0000:99:00.0: Not Found");
  EXPECT_ERROR(
      GpuMonitor::open("0000:18:00.0", "libqwen-no-such.so.1").status(),
      "libqwen-no-such.so.1");
  EXPECT_ERROR(GpuMonitor::open("0000:18:00.0", "libm.so.6").status(),
               "libm.so.6 has no nvml");
}
