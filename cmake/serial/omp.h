//===- omp.h - OpenMP of one thread ----------------------------*- C++ -*-===//
//
// What kernels call of OpenMP, for compilers that have no runtime of it.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_CMAKE_SERIAL_OMP_H
#define QWEN_CMAKE_SERIAL_OMP_H

inline int omp_get_max_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
inline void omp_set_num_threads(int) {}

#endif // QWEN_CMAKE_SERIAL_OMP_H
