# How tercel's own code is compiled: the interface library TercelOwn carries warnings, language and include folders.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, ..." FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "" FORCE)
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

# Contraction would change results from one compiler and level to the next: fused multiply-adds are written by name.
set(language -ffp-contract=off -fno-math-errno)

set(warnings
    -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef
    -Wformat=2 -Wpointer-arith -Wwrite-strings -Wimplicit-fallthrough -Wredundant-decls)
if(TERCEL_SANITIZE)
  # gcc's instrumented arithmetic hides from -Wconversion that a value was masked or is small; the plain builds warn.
  list(REMOVE_ITEM warnings -Wconversion)
endif()
if(TERCEL_WERROR)
  list(APPEND warnings -Werror)
endif()

set(sanitize)
if(TERCEL_SANITIZE)
  set(sanitize -fsanitize=${TERCEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
endif()
if(TERCEL_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "TERCEL_FUZZ needs clang (libFuzzer): configure with -DCMAKE_C_COMPILER=clang")
  endif()
  list(APPEND sanitize -fsanitize=fuzzer-no-link)
endif()
add_compile_options(${sanitize})
add_link_options(${sanitize})

add_library(TercelOwn INTERFACE)
target_compile_options(TercelOwn INTERFACE ${language} ${warnings})
target_compile_definitions(TercelOwn INTERFACE _POSIX_C_SOURCE=200809L)
target_include_directories(TercelOwn INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
