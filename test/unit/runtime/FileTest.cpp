//===- FileTest.cpp - Files and their publication -------------------------===//

#include "runtime/support/File.h"
#include "TemporaryFolder.h"
#include "qwen/Plan/Buffer.h"
#include "runtime/support/Publish.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace qwen;

TEST(FileTest, MapsContentAndEmptyFile) {
  TemporaryFolder folder;
  writeFile(folder / "a", "hello");
  auto file = MappedFile::open(folder / "a");
  ASSERT_OK(file.status());
  EXPECT_EQ(file->bytes().size(), 5u);
  MappedFile moved = std::move(file).value();
  EXPECT_EQ(static_cast<char>(moved.bytes()[4]), 'o');
  writeFile(folder / "empty", "");
  auto empty = MappedFile::open(folder / "empty");
  ASSERT_OK(empty.status());
  EXPECT_TRUE(empty->bytes().empty());
}

TEST(FileTest, NamesPathAndReason) {
  TemporaryFolder folder;
  auto missing = MappedFile::open(folder / "none");
  EXPECT_EQ(missing.status().code(), StatusCode::NotFound);
  EXPECT_ERROR(missing.status(), (folder / "none") + "': No such file");
  EXPECT_ERROR(MappedFile::open(folder.path).status(), "not a regular file");
  EXPECT_ERROR(OutputFile::create(folder / "no/such").status(),
               "cannot create");
  writeFile(folder / "long", "0123456789");
  EXPECT_ERROR(readTextFile(folder / "long", 9).status(),
               "more than the 9 bytes");
  auto whole = readTextFile(folder / "long", 10);
  ASSERT_OK(whole.status());
  EXPECT_EQ(*whole, "0123456789");
  auto process = readTextFile("/proc/self/stat");
  ASSERT_OK(process.status());
  EXPECT_FALSE(process->empty()) << "a file that does not tell its size";
  EXPECT_ERROR(readTextFile(folder.path).status(), "cannot read");
}

TEST(PublishTest, ReplacesWholeFile) {
  TemporaryFolder folder;
  ASSERT_OK(publishFile(folder / "f", "one"));
  ASSERT_OK(publishFile(folder / "f", "two"));
  EXPECT_EQ(readFile(folder / "f"), "two");
  auto entries = std::filesystem::directory_iterator(folder.path);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(PublishTest, PipeStaysWhatItIs) {
  TemporaryFolder folder;
  std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_OK(publishFile(pipe, "text"));
  char found[8];
  EXPECT_EQ(::read(reader, found, sizeof(found)), 4);
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_ERROR(publishFile(folder.path, ""), "cannot create");
}

TEST(PublishTest, FolderAppearsOnlyWhenPublished) {
  TemporaryFolder folder;
  {
    auto pending = PendingDirectory::create(folder.path, "result");
    ASSERT_OK(pending.status());
    writeFile(pending->path() + "/x", "1");
    EXPECT_FALSE(std::filesystem::exists(folder / "result"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path)) << "abandoned, removed";
  for (const char *content : {"1", "2"}) {
    auto pending = PendingDirectory::create(folder.path, "result");
    ASSERT_OK(pending.status());
    writeFile(pending->path() + "/x", content);
    ASSERT_OK(pending->publish());
    EXPECT_EQ(readFile(folder / "result/x"), content);
  }
  auto entries = std::filesystem::directory_iterator(folder.path);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(PublishTest, WritableChecks) {
  TemporaryFolder folder;
  ASSERT_OK(checkWritableDirectory(folder / "a/b/c"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a")) << "only asked";
  ASSERT_OK(ensureWritableDirectory(folder / "a/b/c"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a/b/c"));
  writeFile(folder / "file", "x");
  EXPECT_ERROR(checkWritableDirectory(folder / "file/sub"), "not a folder");
  EXPECT_ERROR(ensureWritableDirectory(folder / "file/sub"), "cannot create");
}

TEST(PublishTest, FreeSpaceOfAFolderThatIsNotThereYet) {
  TemporaryFolder folder;
  auto free = checkFreeSpace(folder / "a/b", 1);
  ASSERT_OK(free.status());
  EXPECT_GE(*free, 1);
  EXPECT_ERROR(checkFreeSpace(folder / "a/b", int64_t(1) << 62).status(),
               "4611686.02 TB are needed");
  EXPECT_FALSE(std::filesystem::exists(folder / "a")) << "only asked";
}

TEST(PublishTest, NamesAMissingPermission) {
  TemporaryFolder folder;
  ASSERT_OK(ensureWritableDirectory(folder / "a"));
  if (::geteuid() == 0)
    GTEST_SKIP() << "root may write everywhere";
  std::filesystem::permissions(folder / "a", std::filesystem::perms(0555));
  EXPECT_ERROR(checkWritableDirectory(folder / "a/new"), "Permission denied");
  std::filesystem::permissions(folder / "a", std::filesystem::perms(0755));
}

TEST(BufferTest, TextForm) {
  BufferType type{DType::BF16, 2, {4, 8}, {8, 1}};
  EXPECT_EQ(toString(type), "bf16[4, 8]");
  type.strides[0] = 16;
  EXPECT_EQ(toString(type), "bf16[4, 8] strides [16, 1]");
  EXPECT_EQ(toString(BufferType{}), "f32[]");
}

TEST(FileTest, SeveralWritersFillOneFileInPlace) {
  TemporaryFolder folder;
  std::string path = folder / "shared";
  EXPECT_ERROR(OutputFile::openExisting(path).status(), "cannot open");
  auto first = OutputFile::create(path);
  ASSERT_OK(first.status());
  ASSERT_OK(first->reserve(12));
  EXPECT_EQ(readFile(path), std::string(12, '\0'));
  auto second = OutputFile::openExisting(path);
  ASSERT_OK(second.status());
  auto bytes = [](std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  };
  ASSERT_OK(second->writeAt(7, bytes("world")));
  ASSERT_OK(first->writeAt(0, bytes("hello,")));
  ASSERT_OK(first->writeAt(3, {}));
  ASSERT_OK(first->close());
  ASSERT_OK(second->close());
  EXPECT_EQ(readFile(path), std::string("hello,\0world", 12));
  // More than any disk has.
  auto huge = OutputFile::create(path);
  ASSERT_OK(huge.status());
  EXPECT_ERROR(huge->reserve(int64_t(1) << 60),
               "cannot write 1152921504606846976 bytes to");
}
