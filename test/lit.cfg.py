# Tests of the compiler: each file's RUN lines call tools of this build.
import ctypes
import os
import sys

import lit.formats
from lit.llvm import llvm_config

config.name = "qwen"
# The internal shell knows `not` and behaves alike everywhere.
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.obj_root

llvm_config.with_system_environment(["HOME", "TMP", "TEMP"])
llvm_config.use_default_substitutions()  # FileCheck, not, count
config.substitutions.append(("%python", f'"{sys.executable}"'))
config.substitutions.append(("%models", os.path.join(config.qwen_source_dir, "models")))

tools = ["qwen-opt", "qwen-import", "qwenc", "qwen-plan"]
tool_dirs = [os.path.join(config.qwen_binary_dir, "tools", tool) for tool in tools]
llvm_config.add_tool_substitutions(
    [tool for tool in tools if any(os.path.exists(os.path.join(d, tool)) for d in tool_dirs)],
    tool_dirs,
)
llvm_config.add_tool_substitutions(["split-file"], [config.llvm_tools_dir])


def has_nvjitlink():
    """Whether the compiler will find nvJitLink (lib/Codegen/JitLink.cpp)."""
    name = "libnvJitLink.so.13"
    roots = [os.environ.get(v) for v in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    for path in [name] + [os.path.join(r, "lib64", name) for r in roots if r]:
        try:
            ctypes.CDLL(path)
            return True
        except OSError:
            pass
    return False


llvm_config.with_system_environment(["CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"])
if has_nvjitlink():
    config.available_features.add("nvjitlink")
else:
    lit_config.note("no libnvJitLink.so.13: tests that assemble GPU code are skipped")
