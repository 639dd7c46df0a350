qwen.parameter @w : tensor<2xf32> {init = "\1B[31m\0Azero"}
