//===- CodeTableTest.cpp - Generated code that a plan describes wrongly ---===//
//
// Each case spoils one thing of a valid plan with generated code, for the CPU
// or for a GPU, and expects its own message.
//
//===----------------------------------------------------------------------===//

#include "PlanFault.h"
#include "runtime/plan/ElfSymbols.h"
#include "runtime/support/File.h"

#include <cstring>
#include <elf.h>
#include <gtest/gtest.h>

using namespace qwen;
using namespace qwen::test;

namespace {

/// An ELF file of machine `machine` whose symbol table has one global function.
std::string smallObject(uint16_t machine, const std::string &function) {
  std::string strings = std::string(1, '\0') + function + std::string(1, '\0');
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_EXEC;
  header.e_machine = machine;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shoff = sizeof(header);
  Elf64_Shdr sections[3] = {};
  sections[1].sh_type = SHT_SYMTAB;
  sections[1].sh_offset = sizeof(header) + sizeof(sections);
  sections[1].sh_size = sizeof(Elf64_Sym);
  sections[1].sh_link = 2;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sections[1].sh_offset + sizeof(Elf64_Sym);
  sections[2].sh_size = strings.size();
  Elf64_Sym symbol = {};
  symbol.st_name = 1;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = 1;
  std::string object(sections[2].sh_offset, '\0');
  std::memcpy(object.data(), &header, sizeof(header));
  std::memcpy(object.data() + sizeof(header), sections, sizeof(sections));
  std::memcpy(object.data() + sections[1].sh_offset, &symbol, sizeof(symbol));
  return object + strings;
}

constexpr uint16_t machineCuda = 190;

/// "forward" is: h = 1, t = twice(h), y = t.
PlanDraft codePlan() {
  PlanDraft draft = matrixPlan();
  draft.programs[0].steps[0] = fill(ViewH, 1);
  draft.programs[0].steps[1] = group(ViewH, ViewT, "twice", 4);
  draft.code = *readTextFile(QWEN_TEST_CODE);
  draft.codeSymbols = {{"twice", {{96, 4}, {96, 4}}}};
  return draft;
}

/// The same for a GPU.
PlanDraft gpuPlan() {
  PlanDraft draft = codePlan();
  draft.target = draft.codeTarget = "sm_90a";
  draft.code = smallObject(machineCuda, "twice");
  draft.codeSymbols[0].operands = {{96, 16}, {96, 16}};
  draft.codeSymbols[0].threads = 256;
  draft.codeSymbols[0].blocks = 4;
  return draft;
}

struct Fault {
  const char *name;
  bool gpu;
  std::function<void(PlanDraft &)> spoil;
  const char *message; // part of it
};

void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.name; }

class CodeTableFault : public testing::TestWithParam<Fault> {};

TEST_P(CodeTableFault, IsRefusedWithItsPlace) {
  const Fault &fault = GetParam();
  expectRefused(fault.gpu ? gpuPlan() : codePlan(),
                {fault.name, fault.spoil, fault.message});
}

TEST(CodeTable, TakesCodeForEitherTarget) {
  for (const PlanDraft &draft : {codePlan(), gpuPlan()}) {
    auto plan = parse(draft.build());
    EXPECT_TRUE(plan.ok()) << plan.status().message();
  }
}

TEST(CodeTable, CutAndChangedCubinsAreNoHarm) {
  std::string whole = smallObject(machineCuda, "twice");
  auto read = [](const std::string &bytes) {
    return cubinFunctions(std::as_bytes(std::span(bytes)));
  };
  auto functions = read(whole);
  ASSERT_TRUE(functions.ok()) << functions.status().message();
  EXPECT_EQ(*functions, std::unordered_set<std::string>{"twice"});
  for (size_t size = 0; size < whole.size(); ++size) {
    auto cut = read(whole.substr(0, size));
    EXPECT_TRUE(!cut.ok() || !cut->contains("twice"));
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(0xff);
    auto result = read(changed);
    EXPECT_EQ(result.ok(), result.status().message().empty());
  }
}

const Fault faults[] = {
    {"NoSymbols", false, [](PlanDraft &d) { d.codeSymbols.clear(); },
     "step 1 (Group): the code has no function 'twice'"},
    {"UnknownFunction", false,
     [](PlanDraft &d) { d.codeSymbols[0].name = "thrice"; },
     "the code has no function 'thrice'"},
    {"TwiceTheName", false,
     [](PlanDraft &d) { d.codeSymbols.push_back(d.codeSymbols[0]); },
     "code symbol 1 'twice': the name is empty or used twice"},
    {"OperandCount", false,
     [](PlanDraft &d) { d.codeSymbols[0].operands.push_back({4, 4}); },
     "step 1 (Group): has 2 operands, 'twice' takes 3"},
    {"NoOperands", false,
     [](PlanDraft &d) { d.codeSymbols[0].operands.clear(); },
     "code symbol 0 'twice': the number of operands is 0, expected 1 to"},
    {"OperandSize", false,
     [](PlanDraft &d) { d.codeSymbols[0].operands[1] = {192, 4}; },
     "step 1 (Group): operand 1 covers 96 bytes, 'twice' takes 192"},
    {"Rows", false, [](PlanDraft &d) { d.codeSymbols[0].rows = 5; },
     "step 1 (Group): has 4 rows, 'twice' takes 5"},
    {"ColumnSums", false,
     [](PlanDraft &d) { d.codeSymbols[0].columnSums = {0}; },
     "step 1 (Group): its column sums are not those of 'twice'"},
    {"Alignment", false,
     [](PlanDraft &d) { d.codeSymbols[0].operands[0] = {96, 3}; },
     "operand 0: alignment is 3, expected a power of two up to 64"},
    {"Misaligned", true,
     [](PlanDraft &d) {
       d.buffers[4].size = 104;
       d.views[ViewH] = plan::View(4, 2, 4);
     },
     "step 1 (Group): operand 0 lies at byte 4, 'twice' needs a multiple of "
     "16"},
    {"ThreadsOfTheCpu", false,
     [](PlanDraft &d) { d.codeSymbols[0].threads = 1; },
     "code symbol 0 'twice': threads is 1, expected 0 to 0"},
    {"NoThreads", true, [](PlanDraft &d) { d.codeSymbols[0].threads = 0; },
     "code symbol 0 'twice': threads is 0, expected 1 to 1024"},
    {"ManyThreads", true, [](PlanDraft &d) { d.codeSymbols[0].threads = 1025; },
     "code symbol 0 'twice': threads is 1025, expected 1 to 1024"},
    {"NoBlocks", true, [](PlanDraft &d) { d.codeSymbols[0].blocks = 0; },
     "code symbol 0 'twice': blocks is 0, expected 1 to 2147483647"},
    {"SharedMemory", true,
     [](PlanDraft &d) { d.codeSymbols[0].sharedBytes = 49153; },
     "code symbol 0 'twice': shared_bytes is 49153, expected 0 to 49152"},
    {"NoCudaObject", true,
     [](PlanDraft &d) { d.code = smallObject(EM_X86_64, "twice"); },
     "the code is no CUDA ELF object (type 2, machine 62)"},
    {"CudaObjectForTheCpu", false,
     [](PlanDraft &d) { d.code = smallObject(machineCuda, "twice"); },
     "the code is no x86-64 ELF shared object (type 2, machine 190)"},
    {"KernelNotInTheObject", true,
     [](PlanDraft &d) { d.code = smallObject(machineCuda, "other"); },
     "the code has no function 'twice'"},
};

std::string faultName(const testing::TestParamInfo<Fault> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Code, CodeTableFault, testing::ValuesIn(faults),
                         faultName);

} // namespace
