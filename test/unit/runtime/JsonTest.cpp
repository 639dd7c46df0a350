//===- JsonTest.cpp - JSON from outside -----------------------------------===//

#include "runtime/support/Json.h"
#include "TemporaryFolder.h"

using namespace qwen;

TEST(JsonTest, AcceptsObjects) {
  auto json = parseJsonObject(R"({"a": {"b": [1, 2]}, "c": {"b": 1}})", "x");
  ASSERT_OK(json.status());
  EXPECT_EQ((*json)["a"]["b"].size(), 2u);
}

TEST(JsonTest, RefusesWhatIsNoObjectOrRepeatsKeys) {
  EXPECT_ERROR(parseJsonObject("", "x").status(), "x: not valid JSON");
  EXPECT_ERROR(parseJsonObject("{", "x").status(), "not valid JSON");
  EXPECT_ERROR(parseJsonObject("{} {}", "x").status(), "not valid JSON");
  EXPECT_ERROR(parseJsonObject("{\"\xff\": 1}", "x").status(),
               "not valid JSON");
  EXPECT_ERROR(parseJsonObject("[1]", "x").status(), "found array");
  EXPECT_ERROR(parseJsonObject(R"({"a": 1, "a": 2})", "x").status(),
               "key 'a' stands twice");
  EXPECT_ERROR(parseJsonObject(R"({"o": {"k": 1, "k": 1}})", "x").status(),
               "key 'k' stands twice");
}

TEST(JsonTest, RefusesDeepNesting) {
  std::string deep = "{\"a\":" + std::string(1'000'000, '[');
  EXPECT_ERROR(parseJsonObject(deep, "x").status(), "nested deeper than 64");
  std::string objects;
  for (int i = 0; i < 100; ++i)
    objects += "{\"a\":";
  EXPECT_ERROR(
      parseJsonObject(objects + "1" + std::string(100, '}'), "x").status(),
      "nested deeper than 64");
}

TEST(JsonTest, CountsAreWholeNumbers) {
  EXPECT_EQ(jsonCount(Json(7)), std::nullopt) << "signed literals are not read";
  EXPECT_EQ(jsonCount(Json(7u)), 7);
  EXPECT_EQ(jsonCount(Json(-1)), std::nullopt);
  EXPECT_EQ(jsonCount(Json(1.0)), std::nullopt);
  EXPECT_EQ(jsonCount(Json(UINT64_MAX)), std::nullopt);
  EXPECT_EQ(jsonCount(Json("1")), std::nullopt);
}

TEST(JsonTest, TextForMessagesIsOneLine) {
  EXPECT_EQ(printable("a\nb\x01"), "a\\x0ab\\x01");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(jsonString("a\"\n"), R"("a\"\n")");
}
