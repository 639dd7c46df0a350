//===- VectorLevels.h - A function for every vector level ------*- C++ -*-===//
//
// Put before a function, QWEN_FOR_EACH_LEVEL compiles its loops for AVX-512,
// AVX2 and plain x86-64; the loader picks. Only for arithmetic that has the
// same bits on all of them: the file is compiled without contraction.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SUPPORT_VECTORLEVELS_H
#define QWEN_RUNTIME_SUPPORT_VECTORLEVELS_H

// A sanitizer's own start-up comes after the loader's choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&         \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define QWEN_FOR_EACH_LEVEL                                                    \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define QWEN_FOR_EACH_LEVEL
#endif

#endif // QWEN_RUNTIME_SUPPORT_VECTORLEVELS_H
