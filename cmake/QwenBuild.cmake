# Compiler settings that the runtime and the compiler share.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# A link of the compiler takes 0.2 s with lld and 1.7 s with bfd.
if(QWEN_COMPILER)
  find_program(QWEN_LLD NAMES ld.lld
               PATHS /usr/lib/llvm-${QWEN_LLVM_MAJOR}/bin NO_DEFAULT_PATH)
  if(QWEN_LLD)
    add_link_options(-fuse-ld=lld -B/usr/lib/llvm-${QWEN_LLVM_MAJOR}/bin)
  endif()
endif()

find_program(QWEN_CCACHE ccache)
if(QWEN_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${QWEN_CCACHE}")
  # Or what uses precompiled headers would not be kept.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${QWEN_CCACHE}")
endif()

if(QWEN_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()

# OpenMP of one thread: ThreadSanitizer does not see what the OpenMP runtime
# orders, and Debian's clang has such a runtime in its default version only.
if(QWEN_SANITIZE_THREADS OR QWEN_FUZZ)
  list(PREPEND CMAKE_MODULE_PATH "${PROJECT_SOURCE_DIR}/cmake/serial")
  add_compile_options(-Wno-unknown-pragmas)
endif()

if(QWEN_SANITIZE_THREADS)
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
endif()

if(QWEN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "QWEN_FUZZ needs clang, found ${CMAKE_CXX_COMPILER}")
  endif()
  # A finding is a crash, not a report and an exit.
  add_compile_options(-fsanitize=address,undefined,fuzzer-no-link
                      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # Of std::stable_sort: libstdc++ 12 tells gcc, but not clang, that its own call
  # of what is deprecated is meant. gcc builds all of this elsewhere.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()

include_directories("${PROJECT_SOURCE_DIR}/include"
                    "${PROJECT_BINARY_DIR}/include")

# What is a file's own looks like a header's where files are put together.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# Warnings for our own code; LLVM's headers are system headers.
function(qwen_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter)
endfunction()

# qwen_library(NAME SOURCES ... LINK ...): a library that needs no LLVM.
function(qwen_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  qwen_warnings(${name})
endfunction()

# qwen_unittest(NAME SOURCES ... LINK ...): one GoogleTest binary, one ctest.
function(qwen_unittest name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  qwen_warnings(${name})
  add_test(NAME ${name} COMMAND ${name})
endfunction()
