//===- ReplayMain.cpp - Feeds files to a fuzz target ----------------------===//
//
// Usage: replay FOLDER...: every file of the folders goes through the target. A
// file whose name starts with "valid" must be accepted, so that no corpus goes
// stale unseen.
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

using namespace qwen;
namespace fs = std::filesystem;

/// The folder's files by name, or nothing where it cannot be read.
static std::vector<std::string> filesOf(const std::string &folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    paths.push_back(it->path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

int main(int argc, char **argv) {
  int accepted = 0, refused = 0, wrong = 0;
  for (const std::string folder : std::span(argv + 1, argv + argc))
    for (const std::string &path : filesOf(folder)) {
      StatusOr<MappedFile> file = MappedFile::open(path);
      if (!file.ok()) {
        fmt::print(stderr, "{}\n", file.status().message());
        return 1;
      }
      // Named first: a crash says which file it was.
      fmt::print("{}\n", path);
      std::fflush(stdout);
      bool ok =
          fuzz::run({reinterpret_cast<const uint8_t *>(file->bytes().data()),
                     file->bytes().size()}) == fuzz::Outcome::Accepted;
      (ok ? accepted : refused) += 1;
      if (!ok && fs::path(path).filename().string().starts_with("valid")) {
        fmt::print(stderr, "{}: expected to be accepted, was refused\n", path);
        ++wrong;
      }
    }
  fmt::print("{} accepted, {} refused\n", accepted, refused);
  if (accepted == 0) {
    fmt::print(stderr, "expected a file that is accepted, found none\n");
    return 1;
  }
  return wrong == 0 ? 0 : 1;
}
