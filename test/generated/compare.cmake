# Runs each generator and compares its output with the committed file. With
# -DUPDATE=ON the committed files are replaced instead.
# check(FILE COMMAND...): COMMAND writes what FILE must be to ${OUTPUT}/generated.
function(check file)
  execute_process(COMMAND ${ARGN} -o "${OUTPUT}/generated"
                  RESULT_VARIABLE _result)
  if(NOT _result EQUAL 0)
    message(FATAL_ERROR "the generator of ${file} failed")
  endif()
  if(UPDATE)
    file(COPY_FILE "${OUTPUT}/generated" "${SOURCE}/${file}" ONLY_IF_DIFFERENT)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files
                  "${OUTPUT}/generated" "${SOURCE}/${file}"
                  RESULT_VARIABLE _differs OUTPUT_QUIET ERROR_QUIET)
  if(_differs)
    message(SEND_ERROR "${file} is not what its source says; build the target "
                       "update-generated to renew it")
  endif()
endfunction()

foreach(_kind gen-kernel-args:include/qwen/Plan/KernelArgs.h.inc
        gen-kernel-fbs:include/qwen/Plan/kernels.fbs
        gen-plan-to-args:include/qwen/Plan/PlanToArgs.h.inc)
  string(REPLACE ":" ";" _pair "${_kind}")
  list(GET _pair 0 _generator)
  list(GET _pair 1 _file)
  check(${_file} ${TBLGEN} -${_generator} -I${SOURCE} -I${MLIR_INCLUDE}
        ${SOURCE}/dialects/Kernel/KernelOps.td)
endforeach()
check(models/configs/tiny.mlir ${IMPORT} ${SOURCE}/models/configs/tiny.json
      --tokens 128 --max-documents 8)
