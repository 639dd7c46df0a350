//===- PlanDialect.td - The plan dialect --------------------*- tablegen -*-===//

#ifndef QWEN_PLAN_DIALECT
#define QWEN_PLAN_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::qwen::plan";
  let summary = "The plan file as IR: arenas, buffers, views, programs";
  let description = [{
    The vocabulary after the `schedule` stage, one op for each table of the
    schema (include/qwen/Plan/plan.fbs). Arenas, buffers, views and parameters
    stand at the top level of the module; a program holds `kernel` ops, its
    launches, in order. Machine code stays a `kernel.binary`. What the stage
    `emit` writes is this IR, nothing is computed there.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

def Plan_BufferType : TypeDef<Plan_Dialect, "PlanBuffer"> {
  let mnemonic = "buffer";
  let summary = "A byte range of an arena";
}

/// The numbers are those of the schema's BufferClass.
def Plan_MemoryClass : I32EnumAttr<"MemoryClass", "what memory holds", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Gradient", 1, "gradient">,
    I32EnumAttrCase<"Moment1", 2, "moment1">,
    I32EnumAttrCase<"Moment2", 3, "moment2">,
    I32EnumAttrCase<"Master", 4, "master">,
    I32EnumAttrCase<"Input", 5, "input">,
    I32EnumAttrCase<"Output", 6, "output">,
    I32EnumAttrCase<"Activation", 7, "activation">,
    I32EnumAttrCase<"Workspace", 8, "workspace">]> {
  let cppNamespace = "::qwen::plan";
  let genSpecializedAttr = 0;
}
def Plan_MemoryClassAttr
    : EnumAttr<Plan_Dialect, Plan_MemoryClass, "memory_class">;

#endif // QWEN_PLAN_DIALECT
