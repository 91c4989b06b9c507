/* tercel version: the version, and what this machine can do. */
#include "cli.h"

#include <stdio.h>

typedef struct options {
  bool measure;
  int64_t threads;
} options;

static const tercel_cli_option own[] = {{"measure", TERCEL_CLI_FLAG, offsetof(options, measure), NULL,
                                         "measure arithmetic and memory speed for a quarter of a second", NULL},
                                        {"threads", TERCEL_CLI_INT, offsetof(options, threads), "N",
                                         "threads to measure with; 0, the default: all CPUs", NULL},
                                        {0}};
static const tercel_cli_group groups[] = {{"options", own, 0}, {0}};
static const tercel_cli_usage usage = {
    .command = "version",
    .operands = "",
    .what = "Shows the version of tercel, the processor, the instruction sets it has, the one in use, and how many "
            "CPUs this "
            "process may use.",
    .examples = "  tercel version\n"
                "  tercel version --measure --threads 1\n"
                "  TERCEL_CPU=avx2 tercel version\n",
    .groups = groups,
};

int tercel_cli_version(int argc, char **argv) {
  options o = {0};
  tercel_cli_list operands = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  tercel_machine_info info = {.size = sizeof info};
  tercel_error err = {0};
  printf("tercel  %s\n", tercel_version());
  if (tercel_machine_get_info(&info, &err) != TERCEL_OK) return tercel_cli_fail("version", &err);
  printf("cpu     %s\nlevels  %s\nin use  %s\ncpus    %d\n", info.cpu, info.levels, info.level, info.num_cpus);
  if (!o.measure) return TERCEL_EXIT_OK;
  double gflops = 0, gbytes = 0;
  const int threads = o.threads > 0 && o.threads < INT32_MAX ? (int)o.threads : info.num_cpus;
  if (tercel_machine_measure(threads, &gflops, &gbytes, &err) != TERCEL_OK) return tercel_cli_fail("version", &err);
  printf("speed   %.0f GFLOP/s (f32), %.1f GB/s (copying memory), with %d threads\n", gflops, gbytes, threads);
  return TERCEL_EXIT_OK;
}
