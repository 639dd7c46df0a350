//===- TemporaryFolder.h - A folder that a test may write to ---*- C++ -*-===//

#ifndef QWEN_TEST_UNIT_RUNTIME_TEMPORARYFOLDER_H
#define QWEN_TEST_UNIT_RUNTIME_TEMPORARYFOLDER_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace qwen {

/// A fresh folder, removed with its content at the end of the test.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "qwen-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  /// Path of an entry.
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }

  std::string path;
};

inline void writeFile(const std::string &path, const std::string &content) {
  // Overwriting in place makes some file systems wait for the disk.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace qwen

/// Expects an error status whose text has `part`, on one line.
#define EXPECT_ERROR(expression, part)                                         \
  do {                                                                         \
    ::qwen::Status status_ = (expression);                                     \
    EXPECT_FALSE(status_.ok()) << "expected an error with: " << (part);        \
    EXPECT_NE(status_.message().find(part), std::string::npos)                 \
        << status_.message();                                                  \
    EXPECT_EQ(status_.message().find('\n'), std::string::npos);                \
  } while (false)

#define ASSERT_OK(expression)                                                  \
  do {                                                                         \
    ::qwen::Status status_ = (expression);                                     \
    ASSERT_TRUE(status_.ok()) << status_.message();                            \
  } while (false)

#endif // QWEN_TEST_UNIT_RUNTIME_TEMPORARYFOLDER_H
