//===- TokenDatasetTest.cpp - Token files, good and bad -------------------===//

#include "runtime/data/TokenDataset.h"
#include "TokenFile.h"

using namespace qwen;

static TokenFile goodFile() {
  TokenFile file;
  file.add({1, 2, 3});
  file.add({4});
  file.add({5, 6, 7, 8, 9});
  return file;
}

/// Status of opening what `file` describes, for a vocabulary of 10.
static Status open(const TokenFile &file) {
  TemporaryFolder folder;
  file.write(folder / "t.safetensors");
  return TokenDataset::open(folder / "t.safetensors", 10).status();
}

TEST(TokenDatasetTest, ReadsDocuments) {
  TemporaryFolder folder;
  TokenFile file = goodFile();
  file.metadata.insert({{"documents", "3"},
                        {"tokens", "9"},
                        {"supervised_tokens", "6"},
                        {"max_document_tokens", "5"},
                        {"vocab_size", "10"}});
  file.write(folder / "t.safetensors");
  auto data = TokenDataset::open(folder / "t.safetensors", 10);
  ASSERT_OK(data.status());
  EXPECT_EQ(data->documents(), 3);
  EXPECT_EQ(data->tokens(), 9);
  EXPECT_EQ(data->supervisedTokens(), 6);
  EXPECT_EQ(data->tokenizerHash(), "abc");
  EXPECT_EQ(data->document(2).tokens[1], 6);
  EXPECT_EQ(data->document(2).mask[1], 1);
  file.tokens[0] = 2;
  file.write(folder / "u.safetensors");
  auto other = TokenDataset::open(folder / "u.safetensors", 10);
  ASSERT_OK(other.status());
  EXPECT_NE(data->contentHash(), other->contentHash());
}

TEST(TokenDatasetTest, RefusesEachKindOfFault) {
  auto expect = [](auto spoil, const char *message) {
    TokenFile file = goodFile();
    spoil(file);
    EXPECT_ERROR(open(file), message);
  };
  expect([](TokenFile &f) { f.tokens[4] = 10; },
         "token 0 of document 2 is 10, outside the vocabulary of 10");
  expect([](TokenFile &f) { f.tokens[2] = -1; }, "token 2 of document 0 is -1");
  expect([](TokenFile &f) { f = TokenFile(); }, "data set is empty");
  expect([](TokenFile &f) { f.offsets.clear(); }, "document_offsets is empty");
  expect([](TokenFile &f) { f.offsets[0] = 1; }, "goes from 1 to 9");
  expect([](TokenFile &f) { f.offsets.back() = 8; }, "goes from 0 to 8");
  expect([](TokenFile &f) { f.offsets[2] = 3; }, "document 1 goes from 3 to 3");
  expect([](TokenFile &f) { f.offsets[1] = 7; }, "document 1 goes from 7 to 4");
  // Each difference of neighbours is positive where 64 bits wrap around.
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  expect([](TokenFile &f) { f.offsets = {0, most, -most - 1, -1, 9}; },
         "document 1 goes from 9223372036854775807 to -9223372036854775808");
  expect([](TokenFile &f) { f.mask[1] = 2; }, "loss_mask of token 1 is 2");
  expect([](TokenFile &f) { f.mask[3] = 1; }, "first token of document 1 is 1");
  expect([](TokenFile &f) { f.mask.pop_back(); },
         "loss_mask has 8 elements, tokens has 9");
  expect([](TokenFile &f) { f.tokenType = FileDType::F32; },
         "tensor 'tokens' is F32[9], expected I32");
  expect([](TokenFile &f) { f.metadata.clear(); }, "'format' is not");
  expect([](TokenFile &f) { f.metadata["format"] = "qwen-tokens-9"; },
         "'format' is not");
  expect([](TokenFile &f) { f.metadata["tokens"] = "10"; },
         "'tokens' says 10, the tensors give 9");
  expect([](TokenFile &f) { f.metadata["supervised_tokens"] = "0"; },
         "'supervised_tokens' says 0");
  expect([](TokenFile &f) { f.metadata["vocab_size"] = "11"; },
         "tokenizer of 11 tokens, the model has 10");
  for (const char *text : {"", "x", "9 ", "0", "99999999999999999999"})
    expect([&](TokenFile &f) { f.metadata["vocab_size"] = text; },
           "expected a number of tokens");
}

TEST(TokenDatasetTest, RefusesOtherFiles) {
  TemporaryFolder folder;
  writeFile(folder / "e", "");
  EXPECT_ERROR(TokenDataset::open(folder / "e", 10).status(), "0 bytes");
  std::vector<TensorSpec> specs = {{"w", FileDType::F32, {0}}};
  auto writer = SafetensorsWriter::create(folder / "w", specs,
                                          {{"format", "qwen-tokens-1"}});
  ASSERT_OK(writer.status());
  ASSERT_OK(writer->close());
  EXPECT_ERROR(TokenDataset::open(folder / "w", 10).status(),
               "tensor 'tokens' is missing");
}
