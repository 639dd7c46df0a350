// Shapes that models do not have: odd lengths, rows that are not aligned, few
// rows, every kind of team. GroupsCudaTest compiles them for a GPU and for the
// CPU and compares results.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 1 : i64, qwen.model = {vocab_size = 8 : i64}} {

// One element a unit, two units a thread, some of them absent.
kernel.group_function @odd_columns attributes {domain = array<i64: 37, 33>, rows_per_block = 4 : i64,
    input_types = [memref<37x33xbf16>, memref<33xbf16>],
    output_types = [memref<37x33xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<37x33xbf16>, %b: tensor<33xbf16>):
  %x = arith.extf %a : tensor<37x33xbf16> to tensor<37x33xf32>
  %q = arith.mulf %x, %x : tensor<37x33xf32>
  %s = qwen.reduce_sum %q dims = [1] : tensor<37x33xf32> -> tensor<37xf32>
  %n = arith.constant dense<33.0> : tensor<37xf32>
  %m = arith.divf %s, %n : tensor<37xf32>
  %e = arith.constant dense<1.0e-6> : tensor<37xf32>
  %v = arith.addf %m, %e : tensor<37xf32>
  %i = math.rsqrt %v : tensor<37xf32>
  %j = qwen.broadcast %i dims = [0] : tensor<37xf32> -> tensor<37x33xf32>
  %h = arith.mulf %x, %j : tensor<37x33xf32>
  %w = qwen.broadcast %b dims = [1] : tensor<33xbf16> -> tensor<37x33xbf16>
  %u = arith.extf %w : tensor<37x33xbf16> to tensor<37x33xf32>
  %z = arith.mulf %h, %u : tensor<37x33xf32>
  %y = arith.truncf %z : tensor<37x33xf32> to tensor<37x33xbf16>
  qwen.yield %y : tensor<37x33xbf16>
}

// Rows 100 bytes apart: two elements a unit.
kernel.group_function @unaligned_rows attributes {domain = array<i64: 9, 24>, rows_per_block = 4 : i64,
    input_types = [memref<9x24xbf16, strided<[50, 1]>>, memref<24xbf16>],
    output_types = [memref<9x24xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<9x24xbf16>, %b: tensor<24xbf16>):
  %x = arith.extf %a : tensor<9x24xbf16> to tensor<9x24xf32>
  %q = arith.mulf %x, %x : tensor<9x24xf32>
  %s = qwen.reduce_sum %q dims = [1] : tensor<9x24xf32> -> tensor<9xf32>
  %n = arith.constant dense<24.0> : tensor<9xf32>
  %m = arith.divf %s, %n : tensor<9xf32>
  %e = arith.constant dense<1.0e-6> : tensor<9xf32>
  %v = arith.addf %m, %e : tensor<9xf32>
  %i = math.rsqrt %v : tensor<9xf32>
  %j = qwen.broadcast %i dims = [0] : tensor<9xf32> -> tensor<9x24xf32>
  %h = arith.mulf %x, %j : tensor<9x24xf32>
  %w = qwen.broadcast %b dims = [1] : tensor<24xbf16> -> tensor<9x24xbf16>
  %u = arith.extf %w : tensor<9x24xbf16> to tensor<9x24xf32>
  %z = arith.mulf %h, %u : tensor<9x24xf32>
  %y = arith.truncf %z : tensor<9x24xf32> to tensor<9x24xbf16>
  qwen.yield %y : tensor<9x24xbf16>
}

// A row a block of many warps.
kernel.group_function @long_rows attributes {domain = array<i64: 5, 17408>, rows_per_block = 4 : i64,
    input_types = [memref<5x17408xbf16>, memref<17408xbf16>],
    output_types = [memref<5x17408xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<5x17408xbf16>, %b: tensor<17408xbf16>):
  %x = arith.extf %a : tensor<5x17408xbf16> to tensor<5x17408xf32>
  %q = arith.mulf %x, %x : tensor<5x17408xf32>
  %s = qwen.reduce_sum %q dims = [1] : tensor<5x17408xf32> -> tensor<5xf32>
  %n = arith.constant dense<17408.0> : tensor<5xf32>
  %m = arith.divf %s, %n : tensor<5xf32>
  %e = arith.constant dense<1.0e-6> : tensor<5xf32>
  %v = arith.addf %m, %e : tensor<5xf32>
  %i = math.rsqrt %v : tensor<5xf32>
  %j = qwen.broadcast %i dims = [0] : tensor<5xf32> -> tensor<5x17408xf32>
  %h = arith.mulf %x, %j : tensor<5x17408xf32>
  %w = qwen.broadcast %b dims = [1] : tensor<17408xbf16> -> tensor<5x17408xbf16>
  %u = arith.extf %w : tensor<5x17408xbf16> to tensor<5x17408xf32>
  %z = arith.mulf %h, %u : tensor<5x17408xf32>
  %y = arith.truncf %z : tensor<5x17408xf32> to tensor<5x17408xbf16>
  qwen.yield %y : tensor<5x17408xbf16>
}

// Several rows a warp, a number of rows that no block divides.
kernel.group_function @short_heads attributes {domain = array<i64: 7, 5, 16>, rows_per_block = 4 : i64,
    input_types = [memref<7x5x16xbf16>, memref<16xbf16>],
    output_types = [memref<7x5x16xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<7x5x16xbf16>, %b: tensor<16xbf16>):
  %x = arith.extf %a : tensor<7x5x16xbf16> to tensor<7x5x16xf32>
  %q = arith.mulf %x, %x : tensor<7x5x16xf32>
  %s = qwen.reduce_sum %q dims = [2] : tensor<7x5x16xf32> -> tensor<7x5xf32>
  %n = arith.constant dense<16.0> : tensor<7x5xf32>
  %m = arith.divf %s, %n : tensor<7x5xf32>
  %e = arith.constant dense<1.0e-6> : tensor<7x5xf32>
  %v = arith.addf %m, %e : tensor<7x5xf32>
  %i = math.rsqrt %v : tensor<7x5xf32>
  %j = qwen.broadcast %i dims = [0, 1] : tensor<7x5xf32> -> tensor<7x5x16xf32>
  %h = arith.mulf %x, %j : tensor<7x5x16xf32>
  %w = qwen.broadcast %b dims = [2] : tensor<16xbf16> -> tensor<7x5x16xbf16>
  %u = arith.extf %w : tensor<7x5x16xbf16> to tensor<7x5x16xf32>
  %z = arith.mulf %h, %u : tensor<7x5x16xf32>
  %y = arith.truncf %z : tensor<7x5x16xf32> to tensor<7x5x16xbf16>
  qwen.yield %y : tensor<7x5x16xbf16>
}

// Sums between warps; the last units of a row are absent.
kernel.group_function @backward_block attributes {domain = array<i64: 19, 1000>, rows_per_block = 4 : i64,
    input_types = [memref<19x1000xbf16>, memref<1000xbf16>, memref<19x1000xbf16>],
    output_types = [memref<19x1000xbf16>, memref<1000xf32>], column_sums = array<i64: 1>} {
^bb0(%a: tensor<19x1000xbf16>, %b: tensor<1000xbf16>, %c: tensor<19x1000xbf16>):
  %x = arith.extf %a : tensor<19x1000xbf16> to tensor<19x1000xf32>
  %q = arith.mulf %x, %x : tensor<19x1000xf32>
  %s = qwen.reduce_sum %q dims = [1] : tensor<19x1000xf32> -> tensor<19xf32>
  %n = arith.constant dense<1000.0> : tensor<19xf32>
  %m = arith.divf %s, %n : tensor<19xf32>
  %e = arith.constant dense<1.0e-6> : tensor<19xf32>
  %v = arith.addf %m, %e : tensor<19xf32>
  %i = math.rsqrt %v : tensor<19xf32>
  %j = qwen.broadcast %i dims = [0] : tensor<19xf32> -> tensor<19x1000xf32>
  %h = arith.mulf %x, %j : tensor<19x1000xf32>
  %w = qwen.broadcast %b dims = [1] : tensor<1000xbf16> -> tensor<19x1000xbf16>
  %u = arith.extf %w : tensor<19x1000xbf16> to tensor<19x1000xf32>
  %z = arith.mulf %h, %u : tensor<19x1000xf32>
  %d = arith.extf %c : tensor<19x1000xbf16> to tensor<19x1000xf32>
  %dw = arith.mulf %d, %h : tensor<19x1000xf32>
  %gw = qwen.reduce_sum %dw dims = [0] : tensor<19x1000xf32> -> tensor<1000xf32>
  %dh = arith.mulf %d, %u : tensor<19x1000xf32>
  %p = arith.mulf %dh, %h : tensor<19x1000xf32>
  %t = qwen.reduce_sum %p dims = [1] : tensor<19x1000xf32> -> tensor<19xf32>
  %tm = arith.divf %t, %n : tensor<19xf32>
  %tb = qwen.broadcast %tm dims = [0] : tensor<19xf32> -> tensor<19x1000xf32>
  %k = arith.mulf %h, %tb : tensor<19x1000xf32>
  %l = arith.subf %dh, %k : tensor<19x1000xf32>
  %o = arith.mulf %l, %j : tensor<19x1000xf32>
  %ob = arith.truncf %o : tensor<19x1000xf32> to tensor<19x1000xbf16>
  qwen.yield %ob, %gw : tensor<19x1000xbf16>, tensor<1000xf32>
}

// Column sums of several teams and blocks.
kernel.group_function @backward_warps attributes {domain = array<i64: 301, 3, 40>, rows_per_block = 4 : i64,
    input_types = [memref<301x3x40xbf16>, memref<40xbf16>, memref<301x3x40xbf16>],
    output_types = [memref<301x3x40xbf16>, memref<40xf32>], column_sums = array<i64: 1>} {
^bb0(%a: tensor<301x3x40xbf16>, %b: tensor<40xbf16>, %c: tensor<301x3x40xbf16>):
  %x = arith.extf %a : tensor<301x3x40xbf16> to tensor<301x3x40xf32>
  %q = arith.mulf %x, %x : tensor<301x3x40xf32>
  %s = qwen.reduce_sum %q dims = [2] : tensor<301x3x40xf32> -> tensor<301x3xf32>
  %n = arith.constant dense<40.0> : tensor<301x3xf32>
  %m = arith.divf %s, %n : tensor<301x3xf32>
  %e = arith.constant dense<1.0e-6> : tensor<301x3xf32>
  %v = arith.addf %m, %e : tensor<301x3xf32>
  %i = math.rsqrt %v : tensor<301x3xf32>
  %j = qwen.broadcast %i dims = [0, 1] : tensor<301x3xf32> -> tensor<301x3x40xf32>
  %h = arith.mulf %x, %j : tensor<301x3x40xf32>
  %w = qwen.broadcast %b dims = [2] : tensor<40xbf16> -> tensor<301x3x40xbf16>
  %u = arith.extf %w : tensor<301x3x40xbf16> to tensor<301x3x40xf32>
  %z = arith.mulf %h, %u : tensor<301x3x40xf32>
  %d = arith.extf %c : tensor<301x3x40xbf16> to tensor<301x3x40xf32>
  %dw = arith.mulf %d, %h : tensor<301x3x40xf32>
  %gw = qwen.reduce_sum %dw dims = [0, 1] : tensor<301x3x40xf32> -> tensor<40xf32>
  %dh = arith.mulf %d, %u : tensor<301x3x40xf32>
  %p = arith.mulf %dh, %h : tensor<301x3x40xf32>
  %t = qwen.reduce_sum %p dims = [2] : tensor<301x3x40xf32> -> tensor<301x3xf32>
  %tm = arith.divf %t, %n : tensor<301x3xf32>
  %tb = qwen.broadcast %tm dims = [0, 1] : tensor<301x3xf32> -> tensor<301x3x40xf32>
  %k = arith.mulf %h, %tb : tensor<301x3x40xf32>
  %l = arith.subf %dh, %k : tensor<301x3x40xf32>
  %o = arith.mulf %l, %j : tensor<301x3x40xf32>
  %ob = arith.truncf %o : tensor<301x3x40xf32> to tensor<301x3x40xbf16>
  qwen.yield %ob, %gw : tensor<301x3x40xbf16>, tensor<40xf32>
}

// A single row.
kernel.group_function @backward_one_row attributes {domain = array<i64: 1, 96>, rows_per_block = 4 : i64,
    input_types = [memref<1x96xbf16>, memref<96xbf16>, memref<1x96xbf16>],
    output_types = [memref<1x96xbf16>, memref<96xf32>], column_sums = array<i64: 1>} {
^bb0(%a: tensor<1x96xbf16>, %b: tensor<96xbf16>, %c: tensor<1x96xbf16>):
  %x = arith.extf %a : tensor<1x96xbf16> to tensor<1x96xf32>
  %q = arith.mulf %x, %x : tensor<1x96xf32>
  %s = qwen.reduce_sum %q dims = [1] : tensor<1x96xf32> -> tensor<1xf32>
  %n = arith.constant dense<96.0> : tensor<1xf32>
  %m = arith.divf %s, %n : tensor<1xf32>
  %e = arith.constant dense<1.0e-6> : tensor<1xf32>
  %v = arith.addf %m, %e : tensor<1xf32>
  %i = math.rsqrt %v : tensor<1xf32>
  %j = qwen.broadcast %i dims = [0] : tensor<1xf32> -> tensor<1x96xf32>
  %h = arith.mulf %x, %j : tensor<1x96xf32>
  %w = qwen.broadcast %b dims = [1] : tensor<96xbf16> -> tensor<1x96xbf16>
  %u = arith.extf %w : tensor<1x96xbf16> to tensor<1x96xf32>
  %z = arith.mulf %h, %u : tensor<1x96xf32>
  %d = arith.extf %c : tensor<1x96xbf16> to tensor<1x96xf32>
  %dw = arith.mulf %d, %h : tensor<1x96xf32>
  %gw = qwen.reduce_sum %dw dims = [0] : tensor<1x96xf32> -> tensor<96xf32>
  %dh = arith.mulf %d, %u : tensor<1x96xf32>
  %p = arith.mulf %dh, %h : tensor<1x96xf32>
  %t = qwen.reduce_sum %p dims = [1] : tensor<1x96xf32> -> tensor<1xf32>
  %tm = arith.divf %t, %n : tensor<1xf32>
  %tb = qwen.broadcast %tm dims = [0] : tensor<1xf32> -> tensor<1x96xf32>
  %k = arith.mulf %h, %tb : tensor<1x96xf32>
  %l = arith.subf %dh, %k : tensor<1x96xf32>
  %o = arith.mulf %l, %j : tensor<1x96xf32>
  %ob = arith.truncf %o : tensor<1x96xf32> to tensor<1x96xbf16>
  qwen.yield %ob, %gw : tensor<1x96xbf16>, tensor<96xf32>
}

// Part of a row is rotated, by other lanes of the warp.
kernel.group_function @rope_heads attributes {domain = array<i64: 33, 3, 80>, rows_per_block = 4 : i64,
    input_types = [memref<33x3x80xbf16>, memref<33x64xf32>],
    output_types = [memref<33x3x80xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<33x3x80xbf16>, %b: tensor<33x64xf32>):
  %x = arith.extf %a : tensor<33x3x80xbf16> to tensor<33x3x80xf32>
  %y = qwen.rope %x, %b : tensor<33x3x80xf32>, tensor<33x64xf32>
  %z = arith.truncf %y : tensor<33x3x80xf32> to tensor<33x3x80xbf16>
  qwen.yield %z : tensor<33x3x80xbf16>
}

// Halves of three elements.
kernel.group_function @rope_odd_half attributes {domain = array<i64: 7, 3, 12>, rows_per_block = 4 : i64,
    input_types = [memref<7x3x12xbf16>, memref<7x6xf32>],
    output_types = [memref<7x3x12xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<7x3x12xbf16>, %b: tensor<7x6xf32>):
  %x = arith.extf %a : tensor<7x3x12xbf16> to tensor<7x3x12xf32>
  %y = qwen.rope %x, %b {inverse} : tensor<7x3x12xf32>, tensor<7x6xf32>
  %z = arith.truncf %y : tensor<7x3x12xf32> to tensor<7x3x12xbf16>
  qwen.yield %z : tensor<7x3x12xbf16>
}

// Partners in other warps and in other units of the thread.
kernel.group_function @rope_block attributes {domain = array<i64: 3, 2, 1024>, rows_per_block = 4 : i64,
    input_types = [memref<3x2x1024xbf16>, memref<3x768xf32>],
    output_types = [memref<3x2x1024xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<3x2x1024xbf16>, %b: tensor<3x768xf32>):
  %x = arith.extf %a : tensor<3x2x1024xbf16> to tensor<3x2x1024xf32>
  %y = qwen.rope %x, %b : tensor<3x2x1024xf32>, tensor<3x768xf32>
  %z = arith.truncf %y : tensor<3x2x1024xf32> to tensor<3x2x1024xbf16>
  qwen.yield %z : tensor<3x2x1024xbf16>
}

// Row inputs and row outputs without any sum.
kernel.group_function @row_values attributes {domain = array<i64: 50, 24>, rows_per_block = 4 : i64,
    input_types = [memref<50x24xbf16>, memref<50xf32>],
    output_types = [memref<50x24xbf16>, memref<50xf32>], column_sums = array<i64>} {
^bb0(%a: tensor<50x24xbf16>, %b: tensor<50xf32>):
  %x = arith.extf %a : tensor<50x24xbf16> to tensor<50x24xf32>
  %n = arith.negf %b : tensor<50xf32>
  %e = math.exp %n : tensor<50xf32>
  %r = qwen.broadcast %e dims = [0] : tensor<50xf32> -> tensor<50x24xf32>
  %y = arith.mulf %x, %r : tensor<50x24xf32>
  %z = arith.truncf %y : tensor<50x24xf32> to tensor<50x24xbf16>
  qwen.yield %z, %e : tensor<50x24xbf16>, tensor<50xf32>
}

// Two sums of one sweep, f32; only row values leave.
kernel.group_function @row_sums attributes {domain = array<i64: 6, 20>, rows_per_block = 4 : i64,
    input_types = [memref<6x20xf32>],
    output_types = [memref<6xf32>, memref<6xf32>], column_sums = array<i64>} {
^bb0(%a: tensor<6x20xf32>):
  %s = qwen.reduce_sum %a dims = [1] : tensor<6x20xf32> -> tensor<6xf32>
  %q = arith.mulf %a, %a : tensor<6x20xf32>
  %t = qwen.reduce_sum %q dims = [1] : tensor<6x20xf32> -> tensor<6xf32>
  %u = math.sqrt %t : tensor<6xf32>
  qwen.yield %s, %u : tensor<6xf32>, tensor<6xf32>
}

// A space of rank 1.
kernel.group_function @scalars attributes {domain = array<i64: 10>, rows_per_block = 4 : i64,
    input_types = [memref<10xf32>, memref<f32>],
    output_types = [memref<10xf32>], column_sums = array<i64>} {
^bb0(%a: tensor<10xf32>, %b: tensor<f32>):
  %s = qwen.broadcast %b dims = [] : tensor<f32> -> tensor<10xf32>
  %y = arith.divf %a, %s : tensor<10xf32>
  qwen.yield %y : tensor<10xf32>
}

// Functions; a number of units that no block divides.
kernel.group_function @functions attributes {domain = array<i64: 61, 72>, rows_per_block = 4 : i64,
    input_types = [memref<61x72xf32>, memref<61x72xbf16>],
    output_types = [memref<61x72xf32>, memref<61x72xbf16>], column_sums = array<i64>} {
^bb0(%a: tensor<61x72xf32>, %b: tensor<61x72xbf16>):
  %l = math.log %a : tensor<61x72xf32>
  %t = math.tanh %l : tensor<61x72xf32>
  %p = qwen.softplus %t : tensor<61x72xf32>
  %x = arith.extf %b : tensor<61x72xbf16> to tensor<61x72xf32>
  %g = qwen.sigmoid %x : tensor<61x72xf32>
  %m = arith.maximumf %p, %g : tensor<61x72xf32>
  %h = math.log1p %a : tensor<61x72xf32>
  %k = math.expm1 %x : tensor<61x72xf32>
  %o = arith.addf %h, %k : tensor<61x72xf32>
  %c = arith.divf %m, %a : tensor<61x72xf32>
  %y = arith.truncf %c : tensor<61x72xf32> to tensor<61x72xbf16>
  qwen.yield %o, %y : tensor<61x72xf32>, tensor<61x72xbf16>
}

// Two column sums, one of them accumulated, without a row sum.
kernel.group_function @several_sums attributes {domain = array<i64: 77, 48>, rows_per_block = 4 : i64,
    input_types = [memref<77x48xbf16>, memref<77x48xf32>],
    output_types = [memref<48xf32>, memref<48xf32>, memref<77x48xbf16>], column_sums = array<i64: 0, 1>} {
^bb0(%a: tensor<77x48xbf16>, %b: tensor<77x48xf32>):
  %x = arith.extf %a : tensor<77x48xbf16> to tensor<77x48xf32>
  %p = arith.mulf %x, %b : tensor<77x48xf32>
  %s = qwen.reduce_sum %p dims = [0] : tensor<77x48xf32> -> tensor<48xf32>
  %t = qwen.reduce_sum %b dims = [0] : tensor<77x48xf32> -> tensor<48xf32>
  %y = arith.truncf %p : tensor<77x48xf32> to tensor<77x48xbf16>
  qwen.yield %s, %t, %y : tensor<48xf32>, tensor<48xf32>, tensor<77x48xbf16>
}

func.func @run(%p0: memref<37x33xbf16> {qwen.input = "odd_columns.in0"},
    %p1: memref<33xbf16> {qwen.input = "odd_columns.in1"},
    %p2: memref<37x33xbf16> {qwen.output = "odd_columns.out0"},
    %p3: memref<9x50xbf16> {qwen.input = "unaligned_rows.in0"},
    %p4: memref<24xbf16> {qwen.input = "unaligned_rows.in1"},
    %p5: memref<9x24xbf16> {qwen.output = "unaligned_rows.out0"},
    %p6: memref<5x17408xbf16> {qwen.input = "long_rows.in0"},
    %p7: memref<17408xbf16> {qwen.input = "long_rows.in1"},
    %p8: memref<5x17408xbf16> {qwen.output = "long_rows.out0"},
    %p9: memref<7x5x16xbf16> {qwen.input = "short_heads.in0"},
    %p10: memref<16xbf16> {qwen.input = "short_heads.in1"},
    %p11: memref<7x5x16xbf16> {qwen.output = "short_heads.out0"},
    %p12: memref<19x1000xbf16> {qwen.input = "backward_block.in0"},
    %p13: memref<1000xbf16> {qwen.input = "backward_block.in1"},
    %p14: memref<19x1000xbf16> {qwen.input = "backward_block.in2"},
    %p15: memref<19x1000xbf16> {qwen.output = "backward_block.out0"},
    %p16: memref<1000xf32> {qwen.output = "backward_block.out1"},
    %p17: memref<301x3x40xbf16> {qwen.input = "backward_warps.in0"},
    %p18: memref<40xbf16> {qwen.input = "backward_warps.in1"},
    %p19: memref<301x3x40xbf16> {qwen.input = "backward_warps.in2"},
    %p20: memref<301x3x40xbf16> {qwen.output = "backward_warps.out0"},
    %p21: memref<40xf32> {qwen.output = "backward_warps.out1"},
    %p22: memref<1x96xbf16> {qwen.input = "backward_one_row.in0"},
    %p23: memref<96xbf16> {qwen.input = "backward_one_row.in1"},
    %p24: memref<1x96xbf16> {qwen.input = "backward_one_row.in2"},
    %p25: memref<1x96xbf16> {qwen.output = "backward_one_row.out0"},
    %p26: memref<96xf32> {qwen.output = "backward_one_row.out1"},
    %p27: memref<33x3x80xbf16> {qwen.input = "rope_heads.in0"},
    %p28: memref<33x64xf32> {qwen.input = "rope_heads.in1"},
    %p29: memref<33x3x80xbf16> {qwen.output = "rope_heads.out0"},
    %p30: memref<7x3x12xbf16> {qwen.input = "rope_odd_half.in0"},
    %p31: memref<7x6xf32> {qwen.input = "rope_odd_half.in1"},
    %p32: memref<7x3x12xbf16> {qwen.output = "rope_odd_half.out0"},
    %p33: memref<3x2x1024xbf16> {qwen.input = "rope_block.in0"},
    %p34: memref<3x768xf32> {qwen.input = "rope_block.in1"},
    %p35: memref<3x2x1024xbf16> {qwen.output = "rope_block.out0"},
    %p36: memref<50x24xbf16> {qwen.input = "row_values.in0"},
    %p37: memref<50xf32> {qwen.input = "row_values.in1"},
    %p38: memref<50x24xbf16> {qwen.output = "row_values.out0"},
    %p39: memref<50xf32> {qwen.output = "row_values.out1"},
    %p40: memref<6x20xf32> {qwen.input = "row_sums.in0"},
    %p41: memref<6xf32> {qwen.output = "row_sums.out0"},
    %p42: memref<6xf32> {qwen.output = "row_sums.out1"},
    %p43: memref<10xf32> {qwen.input = "scalars.in0"},
    %p44: memref<f32> {qwen.input = "scalars.in1"},
    %p45: memref<10xf32> {qwen.output = "scalars.out0"},
    %p46: memref<61x72xf32> {qwen.input = "functions.in0"},
    %p47: memref<61x72xbf16> {qwen.input = "functions.in1"},
    %p48: memref<61x72xf32> {qwen.output = "functions.out0"},
    %p49: memref<61x72xbf16> {qwen.output = "functions.out1"},
    %p50: memref<77x48xbf16> {qwen.input = "several_sums.in0"},
    %p51: memref<77x48xf32> {qwen.input = "several_sums.in1"},
    %p52: memref<48xf32> {qwen.output = "several_sums.out0"},
    %p53: memref<48xf32> {qwen.output = "several_sums.out1"},
    %p54: memref<77x48xbf16> {qwen.output = "several_sums.out2"}) attributes {qwen.program} {
  kernel.group @odd_columns ins(%p0, %p1 : memref<37x33xbf16>, memref<33xbf16>)
      outs(%p2 : memref<37x33xbf16>) {rows = 37 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  %v3 = kernel.view %p3[2] : memref<9x50xbf16> to memref<9x24xbf16, strided<[50, 1]>>
  kernel.group @unaligned_rows ins(%v3, %p4 : memref<9x24xbf16, strided<[50, 1]>>, memref<24xbf16>)
      outs(%p5 : memref<9x24xbf16>) {rows = 9 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @long_rows ins(%p6, %p7 : memref<5x17408xbf16>, memref<17408xbf16>)
      outs(%p8 : memref<5x17408xbf16>) {rows = 5 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @short_heads ins(%p9, %p10 : memref<7x5x16xbf16>, memref<16xbf16>)
      outs(%p11 : memref<7x5x16xbf16>) {rows = 35 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.fill outs(%p16 : memref<1000xf32>) {value = 0.0 : f64}
  kernel.group @backward_block ins(%p12, %p13, %p14 : memref<19x1000xbf16>, memref<1000xbf16>, memref<19x1000xbf16>)
      outs(%p15, %p16 : memref<19x1000xbf16>, memref<1000xf32>) {accumulate = array<i64: 1>, column_sums = array<i64: 1>, rows = 19 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.fill outs(%p21 : memref<40xf32>) {value = 0.0 : f64}
  kernel.group @backward_warps ins(%p17, %p18, %p19 : memref<301x3x40xbf16>, memref<40xbf16>, memref<301x3x40xbf16>)
      outs(%p20, %p21 : memref<301x3x40xbf16>, memref<40xf32>) {accumulate = array<i64: 1>, column_sums = array<i64: 1>, rows = 903 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @backward_one_row ins(%p22, %p23, %p24 : memref<1x96xbf16>, memref<96xbf16>, memref<1x96xbf16>)
      outs(%p25, %p26 : memref<1x96xbf16>, memref<96xf32>) {column_sums = array<i64: 1>, rows = 1 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @rope_heads ins(%p27, %p28 : memref<33x3x80xbf16>, memref<33x64xf32>)
      outs(%p29 : memref<33x3x80xbf16>) {rows = 99 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @rope_odd_half ins(%p30, %p31 : memref<7x3x12xbf16>, memref<7x6xf32>)
      outs(%p32 : memref<7x3x12xbf16>) {rows = 21 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @rope_block ins(%p33, %p34 : memref<3x2x1024xbf16>, memref<3x768xf32>)
      outs(%p35 : memref<3x2x1024xbf16>) {rows = 6 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @row_values ins(%p36, %p37 : memref<50x24xbf16>, memref<50xf32>)
      outs(%p38, %p39 : memref<50x24xbf16>, memref<50xf32>) {rows = 50 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @row_sums ins(%p40 : memref<6x20xf32>)
      outs(%p41, %p42 : memref<6xf32>, memref<6xf32>) {rows = 6 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @scalars ins(%p43, %p44 : memref<10xf32>, memref<f32>)
      outs(%p45 : memref<10xf32>) {rows = 10 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.group @functions ins(%p46, %p47 : memref<61x72xf32>, memref<61x72xbf16>)
      outs(%p48, %p49 : memref<61x72xf32>, memref<61x72xbf16>) {rows = 61 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  kernel.fill outs(%p53 : memref<48xf32>) {value = 0.0 : f64}
  kernel.group @several_sums ins(%p50, %p51 : memref<77x48xbf16>, memref<77x48xf32>)
      outs(%p52, %p53, %p54 : memref<48xf32>, memref<48xf32>, memref<77x48xbf16>) {accumulate = array<i64: 1>, column_sums = array<i64: 0, 1>, rows = 77 : i64, rows_per_block = 4 : i64, flops_per_row = 1 : i64}
  return
}
}
