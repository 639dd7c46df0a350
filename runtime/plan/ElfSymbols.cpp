//===- ElfSymbols.cpp - Functions that an ELF object exports --------------===//
//
// Reads a symbol table through the section headers. Every offset
// comes from outside and is checked against the size.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/ElfSymbols.h"

#include <cstring>
#include <elf.h>
#include <optional>

using namespace qwen;

namespace {

/// A T at a byte offset, copied because nothing says that it is aligned.
template <typename T>
std::optional<T> at(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<std::span<const std::byte>>
range(std::span<const std::byte> bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size)
    return std::nullopt;
  return bytes.subspan(offset, size);
}

std::optional<std::string> name(std::span<const std::byte> strings,
                                uint64_t offset) {
  if (offset >= strings.size())
    return std::nullopt;
  const char *begin = reinterpret_cast<const char *>(strings.data()) + offset;
  size_t length = strnlen(begin, strings.size() - offset);
  if (length == strings.size() - offset)
    return std::nullopt;
  return std::string(begin, length);
}

StatusOr<std::unordered_set<std::string>>
readSymbols(std::span<const std::byte> object, const Elf64_Ehdr &header,
            const Elf64_Shdr &table) {
  auto symbols = range(object, table.sh_offset, table.sh_size);
  auto section = at<Elf64_Shdr>(
      object, header.e_shoff + uint64_t(table.sh_link) * sizeof(Elf64_Shdr));
  if (!symbols || table.sh_link >= header.e_shnum || !section)
    return dataLoss("the ELF symbol table lies outside the object");
  auto strings = range(object, section->sh_offset, section->sh_size);
  if (!strings)
    return dataLoss("the ELF string table lies outside the object");
  std::unordered_set<std::string> result;
  for (uint64_t i = 0; i < symbols->size() / sizeof(Elf64_Sym); ++i) {
    auto symbol = *at<Elf64_Sym>(*symbols, i * sizeof(Elf64_Sym));
    if (symbol.st_shndx == SHN_UNDEF ||
        ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
        ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
      continue;
    auto text = name(*strings, symbol.st_name);
    if (!text)
      return dataLoss("ELF symbol {} has no name", i);
    result.insert(std::move(*text));
  }
  return result;
}

constexpr uint16_t machineCuda = 190; // EM_CUDA

/// What an object must be, and where its functions are listed.
struct ObjectKind {
  const char *name; ///< "x86-64 ELF shared object"
  uint16_t type, machine;
  uint32_t symbolTable;
  const char *tableName;
};

constexpr ObjectKind sharedObject = {"x86-64 ELF shared object", ET_DYN,
                                     EM_X86_64, SHT_DYNSYM, "dynamic symbol"};
constexpr ObjectKind cubin = {"CUDA ELF object", ET_EXEC, machineCuda,
                              SHT_SYMTAB, "symbol"};

StatusOr<std::unordered_set<std::string>>
functionsOf(std::span<const std::byte> object, const ObjectKind &kind) {
  auto header = at<Elf64_Ehdr>(object, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return dataLoss("the code is no ELF object ({} bytes)", object.size());
  if (header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != kind.type ||
      header->e_machine != kind.machine)
    return dataLoss("the code is no {} (type {}, machine {})", kind.name,
                    header->e_type, header->e_machine);
  if (header->e_shentsize != sizeof(Elf64_Shdr) ||
      header->e_shoff > object.size())
    return dataLoss("the ELF section headers lie outside the object");
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    auto section =
        at<Elf64_Shdr>(object, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section)
      return dataLoss("ELF section header {} lies outside the object", i);
    if (section->sh_type == kind.symbolTable)
      return readSymbols(object, *header, *section);
  }
  return dataLoss("the ELF object has no {} table", kind.tableName);
}

} // namespace

StatusOr<std::unordered_set<std::string>>
qwen::exportedFunctions(std::span<const std::byte> object) {
  return functionsOf(object, sharedObject);
}

StatusOr<std::unordered_set<std::string>>
qwen::cubinFunctions(std::span<const std::byte> object) {
  return functionsOf(object, cubin);
}
