//===- Optimize.cpp - LLVM's passes over generated code -------------------===//

#include "Optimize.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

void qwen::optimize(Module &module, TargetMachine &machine) {
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
