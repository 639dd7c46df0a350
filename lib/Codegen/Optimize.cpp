//===- Optimize.cpp - From LLVM IR to code of a processor -----------------===//

#include "Optimize.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

Expected<std::unique_ptr<TargetMachine>>
qwen::createMachine(const Triple &triple, StringRef processor,
                    StringRef features) {
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, processor, features, options, Reloc::PIC_));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(processor))
    return createStringError("unknown processor '" + processor + "' of " +
                             triple.getArchName());
  return machine;
}

static void optimize(Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  if (machine.getTargetTriple().isNVPTX())
    tuning.LoopUnrolling = tuning.LoopVectorization = tuning.SLPVectorization =
        false;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2)
      .run(module, modules);
}

Expected<std::string> qwen::emitCode(Module &module, TargetMachine &machine,
                                     CodeGenFileType type) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  optimize(module, machine);
  SmallString<0> code;
  raw_svector_ostream os(code);
  legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, os, nullptr, type))
    return createStringError("the target cannot write its code");
  codegen.run(module);
  return code.str().str();
}
