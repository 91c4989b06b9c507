# The everyday commands.  CMake does the work (CMakePresets.json); this file only gives it short names.
# JOBS=n limits parallel compiling; PREFIX=DIR is where `make install` goes.

JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR ?= Ninja
endif

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := release
.PHONY: help release debug asan tsan python demo test test-sanitize test-edge fuzz bench install format tidy clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 16

# $(call build,PRESET,TARGET...)
define build
	@command -v cmake >/dev/null || { echo "cmake is missing: tools/setup installs what tercel is built with" >&2; exit 1; }
	@mkdir -p build
	@cmake --preset $(1) >build/configure-$(1).log 2>&1 || { cat build/configure-$(1).log >&2; exit 1; }
	@cmake --build build/$(1) -j $(JOBS) --target $(2)
endef

release: ## build/release/tercel, libtercel.so, libtercel.a (the default)
	$(call build,release,all)

debug: ## the same in build/debug, with assertions and no optimization
	$(call build,debug,all)

python: ## the Python package, in build/release/python
	$(call build,release,tercel_python)

demo: ## install what is missing, build, fetch two networks and a picture, read the text in it
	@tools/demo

test: ## every test that this machine can run; ends with one line of counts
	@tools/setup test
	$(call build,release,all tests)
	@tools/fetch || echo "some networks could not be had; their tests are skipped" >&2
	@tools/run-tests release

test-sanitize: ## the tests under ASan+UBSan, the threaded ones under TSan
	@tools/setup test
	$(call build,asan,all tests)
	$(call build,tsan,all tests)
	@tools/run-tests asan tsan

test-edge: ## the build without pictures, ai.onnx.ml and Unicode (build/edge)
	@tools/setup test
	$(call build,edge,all)
	@tools/run-tests edge

fuzz: ## random graphs, optimized and not; then every fuzz target for FUZZ_SECONDS=60
	@tools/setup fuzz
	$(call build,release,test_optimize_random test_runtime_optimized)
	$(call build,fuzz,all)
	@tools/fuzz

bench: ## compare with other runtimes: bench/compare --help
	@tools/setup bench
	$(call build,release,all tercel_python)
	@tools/fetch
	@bench/compare

install: release ## into PREFIX (default /usr/local)
	@cmake --install build/release --prefix $(PREFIX)

SOURCES = $(shell git ls-files '*.c' '*.h')
format: ## lay out every C file with clang-format
	@clang-format -i $(SOURCES)

tidy: ## check that every C file is as clang-format lays it out, and that clang-tidy finds nothing
	@tools/setup test lint
	@clang-format --dry-run -Werror $(SOURCES)
	$(call build,release,all tests)
	@run-clang-tidy -quiet -p build/release

clean: ## remove everything that was built
	@rm -rf build
