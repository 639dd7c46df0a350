//===- MlirOptions.cpp - AddressSanitizer beside MLIR ---------------------===//
//
// LLVM's allocator poisons what it has not given out yet. Half of its calls are
// in the library, which has no AddressSanitizer and unpoisons nothing.
//
//===----------------------------------------------------------------------===//

extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}
