# Rooms: one library per folder of src/, and the CPU kernels, which are compiled once for every instruction-set level.

# tercel_room(NAME [USES ROOM...]): the library tercel_NAME out of src/NAME, recursively.  A room without sources is an
# empty library, so that what stands on it can already name it (TERCEL_NAME_EMPTY says so).  TERCEL_LEFT_OUT: expressions that the
# sources of components match that this build does not have.
function(tercel_room name)
  cmake_parse_arguments(room "" "" "USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
  list(FILTER sources EXCLUDE REGEX "/kernels/[^/]*\\.c$")
  foreach(pattern ${TERCEL_LEFT_OUT})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  list(TRANSFORM room_USES PREPEND tercel_)
  if(sources)
    add_library(tercel_${name} STATIC ${sources})
    target_link_libraries(tercel_${name} PRIVATE TercelOwn)
    set_target_properties(tercel_${name} PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/rooms)
    set(link PUBLIC)
    set(TERCEL_${name}_EMPTY FALSE PARENT_SCOPE)
  else()
    add_library(tercel_${name} INTERFACE)
    set(link INTERFACE)
    set(TERCEL_${name}_EMPTY TRUE PARENT_SCOPE)
  endif()
  target_link_libraries(tercel_${name} ${link} ${room_USES})
  set(TERCEL_LINK ${link} PARENT_SCOPE)
  if(name STREQUAL backends)
    tercel_kernels(${link})
  endif()
endfunction()

# The levels of this architecture, weak to strong, and what each is compiled with.  TERCEL_LEVEL is the suffix of a
# kernel's symbols (tercel_softmax_f32_avx2); TERCEL_LEVEL_AVX2=1 and the like are for the preprocessor.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(TERCEL_LEVELS baseline avx2 avx512 avx512_vnni)
  set(TERCEL_LEVEL_baseline -mtune=generic)
  set(TERCEL_LEVEL_avx2 -mavx2 -mfma -mf16c -mtune=generic)
  set(TERCEL_LEVEL_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512
                          -mtune=generic)
  # A level that only some kernels gain by: these files alone are compiled for it.
  set(TERCEL_LEVEL_avx512_vnni ${TERCEL_LEVEL_avx512} -mavx512vnni)
  set(TERCEL_LEVEL_avx512_vnni_FILES gemm8)
else()
  set(TERCEL_LEVELS baseline)
  set(TERCEL_LEVEL_baseline)
endif()

# One object library per level out of src/backends/cpu/kernels/*.c.
function(tercel_kernels link)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/cpu/kernels/*.c)
  if(NOT sources)
    return()
  endif()
  foreach(level ${TERCEL_LEVELS})
    set(target tercel_kernels_${level})
    string(TOUPPER ${level} upper)
    set(level_sources ${sources})
    if(TERCEL_LEVEL_${level}_FILES)
      list(TRANSFORM TERCEL_LEVEL_${level}_FILES REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/backends/cpu/kernels/\\1.c"
           OUTPUT_VARIABLE level_sources)
    endif()
    add_library(${target} OBJECT ${level_sources})
    target_link_libraries(${target} PRIVATE TercelOwn)
    # -Wno-psabi: vec.h is inlined whole, so no vector is passed by an ABI that depends on the level.
    # -Wno-pass-failed: without optimization clang says of each loop that asks for it that it was not vectorized.
    target_compile_options(${target} PRIVATE -Wdouble-promotion -Wno-psabi
                                             $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed> ${TERCEL_LEVEL_${level}}
                                             $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
    target_compile_definitions(${target} PRIVATE TERCEL_LEVEL=${level} TERCEL_LEVEL_${upper}=1)
    if(link STREQUAL PUBLIC)
      target_sources(tercel_backends PRIVATE $<TARGET_OBJECTS:${target}>)
    else()
      target_sources(tercel_backends INTERFACE $<TARGET_OBJECTS:${target}>)
    endif()
  endforeach()
endfunction()

# All objects of the named rooms, kernels included, as an expression for add_library.
function(tercel_room_objects out)
  set(objects)
  foreach(room ${ARGN})
    if(NOT TERCEL_${room}_EMPTY)
      list(APPEND objects $<TARGET_OBJECTS:tercel_${room}>)
    endif()
  endforeach()
  foreach(level ${TERCEL_LEVELS})
    if(TARGET tercel_kernels_${level})
      list(APPEND objects $<TARGET_OBJECTS:tercel_kernels_${level}>)
    endif()
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# examples/*.c against the public header and the shared library only, as a user's program would be.  One that reads
# pictures (includes png.h or turbojpeg.h) is left out where TERCEL_IMAGES is off; one that registers operators is built as
# a plugin too.
function(tercel_examples images)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    file(STRINGS ${source} pictures REGEX "include <(png|turbojpeg|jpeglib)\\.h>")
    if(pictures AND NOT images)
      continue()
    endif()
    add_executable(example_${name} ${source})
    set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
                                                     RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
    target_compile_options(example_${name} PRIVATE -Wall -Wextra $<$<BOOL:${TERCEL_WERROR}>:-Werror>)
    target_link_libraries(example_${name} PRIVATE tercel_shared m)
    if(pictures)
      target_link_libraries(example_${name} PRIVATE ${images})
    endif()
    file(STRINGS ${source} plugin REGEX "^tercel_status tercel_plugin_register")
    if(plugin)
      add_library(example_${name}_plugin MODULE ${source})
      set_target_properties(example_${name}_plugin PROPERTIES OUTPUT_NAME ${name} PREFIX ""
                                                              LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
      target_compile_options(example_${name}_plugin PRIVATE -Wall -Wextra $<$<BOOL:${TERCEL_WERROR}>:-Werror>)
      target_include_directories(example_${name}_plugin PRIVATE ${PROJECT_SOURCE_DIR}/include)
      target_link_libraries(example_${name}_plugin PRIVATE m)
    endif()
  endforeach()
endfunction()
