//===- FakeNvml.cpp - Stands in for NVIDIA's management library -----------===//
//
// Knows one GPU, whose temperature is the number of times it was asked for and
// which does not tell its clock. It has used 12.5 joules.
//
//===----------------------------------------------------------------------===//

#include <atomic>
#include <cstring>

struct nvmlDevice_st {
  int unused;
};

static nvmlDevice_st device;
static std::atomic<unsigned> asked = 0;

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char *nvmlErrorString(int error) {
  return error == 6 ? "Not Found" : "Not Supported";
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *address,
                                     nvmlDevice_st **found) {
  *found = &device;
  return std::strcmp(address, "0000:18:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetMemoryInfo(nvmlDevice_st *,
                            unsigned long long (*totalFreeUsed)[3]) {
  (*totalFreeUsed)[0] = 100;
  (*totalFreeUsed)[1] = 58;
  (*totalFreeUsed)[2] = 42;
  return 0;
}
int nvmlDeviceGetUtilizationRates(nvmlDevice_st *, unsigned (*gpuMemory)[2]) {
  (*gpuMemory)[0] = 97;
  (*gpuMemory)[1] = 31;
  return 0;
}
int nvmlDeviceGetTemperature(nvmlDevice_st *, unsigned, unsigned *value) {
  *value = ++asked;
  return 0;
}
int nvmlDeviceGetClockInfo(nvmlDevice_st *, unsigned, unsigned *) { return 3; }
int nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_st *,
                                        unsigned long long *millijoules) {
  *millijoules = 12500;
  return 0;
}
}
