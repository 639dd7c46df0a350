//===- qwen-tblgen.cpp - Kernel tables from KernelOps.td ------------------===//
//
// KernelOps.td is the home of the kernel list. This tool writes what the plan
// schema and the runtime need of it, free of LLVM: the FlatBuffers tables, the
// argument structs, and the conversions op -> arguments, arguments -> plan and
// plan -> arguments. The outputs that the runtime includes are committed; a
// test regenerates and compares them.
//
//===----------------------------------------------------------------------===//

#include "mlir/TableGen/GenInfo.h"
#include "mlir/TableGen/Operator.h"
#include "mlir/TableGen/SideEffects.h"
#include "mlir/Tools/mlir-tblgen/MlirTblgenMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Record.h"

#include <memory>
#include <string>
#include <vector>

using namespace llvm;
using namespace mlir;
using namespace mlir::tblgen;

namespace {

enum class Direction { In, Out, InOut };

/// How an attribute is held in each of the three worlds.
struct AttrKind {
  StringRef fbs;    // FlatBuffers type
  StringRef cpp;    // field type of the argument struct
  StringRef fromOp; // expression on `op.getX()`, with $_ for it
  bool isVector;
  bool isString;
};

struct Field {
  std::string name;    // camelBack, C++
  std::string odsName; // snake_case, ODS and FlatBuffers
  bool isOperand;
  bool isVariadic = false;
  Direction direction = Direction::In;
  AttrKind attr = {};
  std::string doc;
};

std::string camel(StringRef name, bool capitalize = false) {
  name = name.rtrim('_');
  return convertToCamelFromSnakeCase(name, capitalize);
}

/// kernel.gated_delta -> GatedDelta; kernel.adamw -> Adamw becomes AdamW by its
/// C++ class name, which ODS gives.
std::string kernelName(const Operator &op) {
  StringRef name = op.getCppClassName();
  name.consume_back("Op");
  return name.str();
}

AttrKind attrKind(const NamedAttribute &attr, ArrayRef<SMLoc> loc) {
  StringRef base = attr.attr.getBaseAttr().getAttrDefName();
  if (base == "F32Attr" || base == "F64Attr")
    return {"double", "double", "$_.convertToDouble()", false, false};
  if (base == "I64Attr")
    return {"long", "int64_t", "static_cast<int64_t>($_)", false, false};
  if (base == "BoolAttr")
    return {"bool", "bool", "$_", false, false};
  if (base == "StrAttr" || base == "FlatSymbolRefAttr")
    return {"string", "std::string", "$_.str()", false, true};
  if (base == "DenseI64ArrayAttr")
    return {"[long]", "std::vector<int64_t>", "$_.vec()", true, false};
  PrintFatalError(loc, "no plan type for attribute '" + attr.name + "' (" +
                           base + ")");
}

Direction direction(const Operator &op, int index) {
  bool reads = false, writes = false;
  for (auto decorator : op.getArgDecorators(index)) {
    auto &effect = cast<SideEffect>(decorator);
    reads |= StringRef(effect.getName()).contains("Read");
    writes |= StringRef(effect.getName()).contains("Write");
  }
  if (!reads && !writes)
    PrintFatalError(op.getLoc(), "operand " + op.getArgName(index) +
                                     " has no memory direction");
  return reads ? (writes ? Direction::InOut : Direction::In) : Direction::Out;
}

/// The text of `Arg<type, "text", ...>`.
std::string operandDoc(const Operator &op, int index) {
  const DagInit *arguments = op.getDef().getValueAsDag("arguments");
  const auto *def = dyn_cast<DefInit>(arguments->getArg(index));
  if (!def || !def->getDef()->isSubClassOf("OpVariable"))
    return "";
  return def->getDef()->getValueAsString("summary").str();
}

std::vector<Field> fields(const Operator &op) {
  std::vector<Field> result;
  for (int i = 0, e = op.getNumArgs(); i < e; ++i) {
    Field field;
    if (auto *value = dyn_cast<NamedTypeConstraint *>(op.getArg(i))) {
      field.odsName = value->name.str();
      field.isOperand = true;
      field.isVariadic = value->isVariadic();
      field.direction = direction(op, i);
      field.doc = operandDoc(op, i);
    } else {
      auto *attr = cast<NamedAttribute *>(op.getArg(i));
      field.odsName = attr->name.str();
      field.isOperand = false;
      field.attr = attrKind(*attr, op.getLoc());
    }
    field.name = camel(field.odsName);
    result.push_back(field);
  }
  return result;
}

/// FlatBuffers field name: the ODS name without C++ keyword escapes.
StringRef fbsName(const Field &field) {
  return StringRef(field.odsName).rtrim('_');
}

/// All kernel ops by plan number. Held by pointer: an Operator's arguments
/// point into itself, so a copy of it dangles.
std::vector<std::unique_ptr<Operator>> kernelOps(const RecordKeeper &records) {
  std::vector<std::unique_ptr<Operator>> ops;
  for (const Record *record : records.getAllDerivedDefinitions("Kernel_Op"))
    ops.push_back(std::make_unique<Operator>(record));
  llvm::sort(ops, [](const auto &a, const auto &b) {
    return a->getDef().getValueAsInt("planId") <
           b->getDef().getValueAsInt("planId");
  });
  return ops;
}

void header(raw_ostream &os, StringRef what) {
  os << "// " << what << "\n"
     << "// Written by qwen-tblgen from dialects/Kernel/KernelOps.td; do not "
        "edit.\n\n";
}

bool genFbs(const RecordKeeper &records, raw_ostream &os) {
  header(os, "Kernel tables of the plan schema.");
  os << "namespace qwen.plan;\n\n";
  std::string arms;
  for (const auto &held : kernelOps(records)) {
    const Operator &op = *held;
    os << "/// " << op.getSummary() << "\ntable " << kernelName(op) << " {\n";
    for (const Field &field : fields(op)) {
      os << "  " << fbsName(field) << ":";
      if (field.isOperand)
        os << (field.isVariadic ? "[uint]" : "uint") << ";  // view, "
           << (field.direction == Direction::In    ? "in"
               : field.direction == Direction::Out ? "out"
                                                   : "inout")
           << "\n";
      else
        os << field.attr.fbs << ";\n";
    }
    os << "}\n\n";
    arms += (arms.empty() ? "" : ",\n  ") + kernelName(op) + " = " +
            std::to_string(op.getDef().getValueAsInt("planId"));
  }
  os << "union Kernel {\n  " << arms << "\n}\n";
  return false;
}

void emitStruct(const Operator &op, raw_ostream &os) {
  os << "/// " << op.getSummary() << "\nstruct " << kernelName(op)
     << "Args {\n";
  for (const Field &field : fields(op)) {
    std::string type;
    if (field.isOperand) {
      type = field.direction == Direction::In ? "ConstBuffer" : "Buffer";
      if (field.isVariadic)
        type = "std::vector<" + type + ">";
    } else {
      type = field.attr.cpp.str();
    }
    os << "  " << type << " " << field.name << "{};";
    if (!field.doc.empty())
      os << " ///< " << field.doc;
    os << "\n";
  }
  os << "\n  static constexpr const char *kernelName = \""
     << op.getOperationName().substr(op.getOperationName().find('.') + 1)
     << "\";\n"
     << "  /// Calls f(name, buffer, isRead, isWritten) for each operand; an\n"
        "  /// operand that is accumulated into counts as written only.\n"
     << "  template <typename F> void forEachOperand(F &&f) {\n";
  for (const Field &field : fields(op)) {
    if (!field.isOperand)
      continue;
    std::string flags =
        std::string(field.direction != Direction::Out ? "true" : "false") +
        ", " + (field.direction != Direction::In ? "true" : "false");
    if (field.isVariadic)
      os << "    for (auto &buffer : " << field.name << ")\n      f(\""
         << fbsName(field) << "\", buffer, " << flags << ");\n";
    else
      os << "    f(\"" << fbsName(field) << "\", " << field.name << ", "
         << flags << ");\n";
  }
  os << "  }\n};\n\n";
}

bool genArgs(const RecordKeeper &records, raw_ostream &os) {
  header(os, "Argument struct of each kernel.");
  for (const auto &op : kernelOps(records))
    emitStruct(*op, os);
  os << "/// Calls K(Name) for each kernel.\n#define QWEN_KERNELS(K)";
  for (const auto &op : kernelOps(records))
    os << " \\\n  K(" << kernelName(*op) << ")";
  os << "\n";
  return false;
}

/// Op -> arguments, with buffers made by `toBuffer<BufferT>(Value)`.
bool genOpToArgs(const RecordKeeper &records, raw_ostream &os) {
  header(os, "Conversion of a kernel op to its argument struct.");
  for (const auto &held : kernelOps(records)) {
    const Operator &op = *held;
    os << "/// Arguments of a " << op.getOperationName()
       << ", without addresses.\n"
       << kernelName(op) << "Args toArgs(" << op.getCppClassName()
       << " op) {\n  " << kernelName(op) << "Args args;\n";
    for (const Field &field : fields(op)) {
      std::string getter = op.getGetterName(field.odsName);
      std::string access = "op." + getter + "()";
      if (field.isOperand && field.isVariadic) {
        os << "  for (::mlir::Value value : " << access << ")\n    args."
           << field.name << ".push_back({toBufferType(value)});\n";
      } else if (field.isOperand) {
        os << "  static_cast<BufferType &>(args." << field.name
           << ") = toBufferType(" << access << ");\n";
      } else {
        std::string value = field.attr.fromOp.str();
        value.replace(value.find("$_"), 2, access);
        os << "  args." << field.name << " = " << value << ";\n";
      }
    }
    os << "  return args;\n}\n\n";
  }
  return false;
}

/// Op -> FlatBuffers table, with view ids from `viewId(Value)`.
bool genOpToPlan(const RecordKeeper &records, raw_ostream &os) {
  header(os, "Serialisation of a kernel op to its plan table.");
  for (const auto &held : kernelOps(records)) {
    const Operator &op = *held;
    os << "static ::flatbuffers::Offset<void> serialize("
       << op.getCppClassName()
       << " op, ::flatbuffers::FlatBufferBuilder &builder, ViewIds viewId) "
          "{\n";
    std::vector<std::string> args;
    for (const Field &field : fields(op)) {
      std::string access = "op." + op.getGetterName(field.odsName) + "()";
      if (field.isOperand && !field.isVariadic) {
        args.push_back("viewId(" + access + ")");
        continue;
      }
      if (field.isOperand) {
        os << "  std::vector<uint32_t> " << field.name << "Ids;\n"
           << "  for (::mlir::Value value : " << access << ")\n    "
           << field.name << "Ids.push_back(viewId(value));\n"
           << "  auto " << field.name << " = builder.CreateVector("
           << field.name << "Ids);\n";
        args.push_back(field.name);
        continue;
      }
      std::string value = field.attr.fromOp.str();
      value.replace(value.find("$_"), 2, access);
      if (field.attr.isString)
        os << "  auto " << field.name << " = builder.CreateSharedString("
           << value << ");\n";
      else if (field.attr.isVector)
        os << "  auto " << field.name << " = builder.CreateVector(" << value
           << ");\n";
      args.push_back(field.attr.isString || field.attr.isVector ? field.name
                                                                : value);
    }
    os << "  return ::qwen::plan::Create" << kernelName(op) << "(builder";
    for (const std::string &arg : args)
      os << ", " << arg;
    os << ").Union();\n}\n\n";
  }
  return false;
}

/// FlatBuffers table -> arguments, with buffers from `resolve(viewId, buffer)`.
bool genPlanToArgs(const RecordKeeper &records, raw_ostream &os) {
  header(os, "Arguments of a kernel from its plan table.");
  for (const auto &held : kernelOps(records)) {
    const Operator &op = *held;
    os << "/// Fills `args`; `resolve(id, buffer)` sets one operand and "
          "returns a Status.\n"
       << "template <typename Resolve>\nStatus fromPlan(const plan::"
       << kernelName(op) << " &table, " << kernelName(op)
       << "Args &args, Resolve &&resolve) {\n";
    for (const Field &field : fields(op)) {
      StringRef fb = fbsName(field);
      if (field.isOperand && field.isVariadic) {
        os << "  if (table." << fb << "())\n    for (uint32_t id : *table."
           << fb << "()) {\n      args." << field.name
           << ".emplace_back();\n      QWEN_RETURN_IF_ERROR(resolve(id, args."
           << field.name << ".back()));\n    }\n";
      } else if (field.isOperand) {
        os << "  QWEN_RETURN_IF_ERROR(resolve(table." << fb << "(), args."
           << field.name << "));\n";
      } else if (field.attr.isString) {
        os << "  if (table." << fb << "())\n    args." << field.name
           << " = table." << fb << "()->str();\n";
      } else if (field.attr.isVector) {
        os << "  if (table." << fb << "())\n    args." << field.name
           << " = toVector(*table." << fb << "());\n";
      } else {
        os << "  args." << field.name << " = table." << fb << "();\n";
      }
    }
    os << "  return okStatus();\n}\n\n";
  }
  return false;
}

GenRegistration fbs("gen-kernel-fbs", "FlatBuffers kernel tables", genFbs);
GenRegistration args("gen-kernel-args", "argument structs", genArgs);
GenRegistration opToArgs("gen-op-to-args", "op to argument struct",
                         genOpToArgs);
GenRegistration opToPlan("gen-op-to-plan", "op to plan table", genOpToPlan);
GenRegistration planToArgs("gen-plan-to-args", "plan table to arguments",
                           genPlanToArgs);

} // namespace

int main(int argc, char **argv) { return MlirTblgenMain(argc, argv); }
