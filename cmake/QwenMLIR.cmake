# Finds MLIR and sets up what an out-of-tree MLIR project needs.
# LLVM's version files match the minor version too, so the major is compared here.
find_package(MLIR REQUIRED CONFIG
             HINTS /usr/lib/llvm-${QWEN_LLVM_MAJOR}/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL QWEN_LLVM_MAJOR)
  message(FATAL_ERROR "MLIR ${QWEN_LLVM_MAJOR} wanted, ${LLVM_PACKAGE_VERSION} "
                      "found in ${MLIR_DIR}; set QWEN_LLVM_MAJOR or MLIR_DIR")
endif()
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories("${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
# LLVM_DEFINITIONS is one space-separated string; unsplit it makes a broken -D.
separate_arguments(_llvm_defs NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${_llvm_defs})

# A source for programs that use MLIR: what AddressSanitizer must know of it.
set(QWEN_ASAN_OPTIONS)
if(QWEN_SANITIZE OR QWEN_FUZZ)
  set(QWEN_ASAN_OPTIONS "${PROJECT_SOURCE_DIR}/cmake/asan/MlirOptions.cpp")
endif()

# What every target of the compiler is compiled with, and so its headers.
function(qwen_mlir_options name)
  target_compile_options(${name} PRIVATE -fno-exceptions)
  qwen_warnings(${name})
endfunction()

# What takes 6 of the 13 seconds in which a usual file of the compiler is
# compiled. Sources include what they use all the same.
set(_headers "${PROJECT_BINARY_DIR}/MlirHeaders.cpp")
file(CONFIGURE OUTPUT "${_headers}" CONTENT "")
add_library(QwenMlirHeaders OBJECT "${_headers}")
target_link_libraries(QwenMlirHeaders PRIVATE MLIR LLVM)
qwen_mlir_options(QwenMlirHeaders)
target_precompile_headers(QwenMlirHeaders PRIVATE
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/MemRef/IR/MemRef.h> <mlir/IR/PatternMatch.h>
  <mlir/IR/SymbolTable.h> <mlir/Pass/Pass.h> <llvm/ADT/TypeSwitch.h>)

# qwen_mlir_library(NAME SOURCES ... DEPENDS ... LINK ...): a compiler library,
# linked against the LLVM and MLIR shared libraries, without exceptions like
# LLVM itself.
function(qwen_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  qwen_mlir_options(${name})
  target_precompile_headers(${name} REUSE_FROM QwenMlirHeaders)
endfunction()

# qwen_mlir_tool(NAME SOURCES ... LINK ...)
function(qwen_mlir_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${QWEN_ASAN_OPTIONS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
  qwen_mlir_options(${name})
endfunction()
