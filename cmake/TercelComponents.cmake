# Components: what a build may leave out.  Sources see TERCEL_NAME as 1 or 0, and the files of a component that is off are not built.

option(TERCEL_IMAGES "ImageDecoder, and pictures in the tercel command and the examples (libjpeg-turbo, libpng, libtiff, ...)" ON)
option(TERCEL_ML "The operators of ai.onnx.ml" ON)
option(TERCEL_UNICODE "The operators that need to know characters: StringNormalizer, RegexFullMatch" ON)
option(TERCEL_EXACT_LEVELS "Deterministic mode at every level of x86-64, not at the baseline only" ON)

# Of each component: the sources and tests that are it, and those that stand in their place.
set(TERCEL_IMAGES_SOURCES "/images/formats/" "/ops/image\\.c$" "/build_image\\.c$" "/tests/(images|ops)/test_(decode|image)\\.c$")
set(TERCEL_IMAGES_INSTEAD "/images/left_out\\.c$")
set(TERCEL_ML_SOURCES "/(ops|backends/cpu)/trees\\.c$" "/onnx/build_(ml|ml_map|ml_svm|trees)\\.c$" "/tests/ops/test_trees\\.c$")
set(TERCEL_UNICODE_SOURCES "/ops/(case|regex|regex_match|string_normalize|unicode)\\.c$" "/onnx/build_unicode\\.c$"
                           "/tests/ops/test_string\\.c$")

set(TERCEL_LEFT_OUT)
foreach(component IMAGES ML UNICODE)
  if(TERCEL_${component})
    list(APPEND TERCEL_LEFT_OUT ${TERCEL_${component}_INSTEAD})
  else()
    list(APPEND TERCEL_LEFT_OUT ${TERCEL_${component}_SOURCES})
  endif()
  target_compile_definitions(TercelOwn INTERFACE TERCEL_${component}=$<BOOL:${TERCEL_${component}}>)
endforeach()
target_compile_definitions(TercelOwn INTERFACE TERCEL_EXACT_LEVELS=$<BOOL:${TERCEL_EXACT_LEVELS}>)
