/* The tercel command: finds the subcommand and calls it. */
#include "cli.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *what;
} command;

static const command commands[] = {
    {"run", tercel_cli_run, "run a model once and show or save its outputs"},
    {"bench", tercel_cli_bench, "measure latency and throughput, layer by layer if wanted"},
    {"check", tercel_cli_check, "tell whether tercel can run a model, and everything that keeps it from doing so"},
    {"inspect", tercel_cli_inspect, "show what is in a model: inputs, outputs, operators, graph, plan"},
    {"build", tercel_cli_build_command, "write a model as an engine file, which is ready to run in milliseconds"},
    {"refit", tercel_cli_refit, "give an engine file that was built without weights its weights back"},
    {"diff", tercel_cli_diff, "show what differs between two engine files or models"},
    {"explain", tercel_cli_explain, "show what the optimizer did to a model, and what it refused"},
    {"test", tercel_cli_test, "run case folders in ONNX's layout and compare the outputs"},
    {"version", tercel_cli_version, "show the version and what this machine can do"},
};
enum { NUM_COMMANDS = sizeof commands / sizeof *commands };

static const command *find(const char *name) {
  for (int i = 0; i < NUM_COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  return NULL;
}

static void print_help(void) {
  printf("tercel %s: optimizes and runs neural networks\n\n"
         "usage: tercel COMMAND [OPTION]... [ARGUMENT]...\n\ncommands:\n",
         tercel_version());
  for (int i = 0; i < NUM_COMMANDS; i++) printf("  %-9s %s\n", commands[i].name, commands[i].what);
  printf("\n`tercel COMMAND --help` describes a command and its options.\n\n"
         "examples:\n"
         "  tercel run net.onnx --input image=cat.jpg --labels classes.txt\n"
         "  tercel bench net.onnx --threads 2 --profile\n"
         "  tercel inspect net.onnx\n\n"
         "environment:\n"
         "  TERCEL_CPU=LEVEL  use no instructions above baseline, avx2, avx512, ...\n"
         "  TERCEL_LOG=LEVEL  debug, info, warning, error or off; to stderr\n\n"
         "exit status:\n"
         "  0  all went well\n"
         "  1  a file, a run or a test case failed\n"
         "  2  the command line is wrong\n"
         "  3  the model is legal, but tercel does not support it\n");
}

/* Output that could not be written (a full disk) is a failure too. */
static int end(int exit_code) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return exit_code;
  fprintf(stderr, "tercel: can't write to standard output\n");
  return exit_code ? exit_code : TERCEL_EXIT_FAILED;
}

int main(int argc, char **argv) {
  setlocale(LC_CTYPE, ""); /* texts pass through as they are; numbers stay in the C locale */
  if (argc < 2) {
    print_help();
    return TERCEL_EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "help") == 0 && argc > 2) { /* `tercel help run` is `tercel run --help` */
    const command *const asked = find(argv[2]);
    if (asked) return end(asked->run(2, (char *[]){argv[2], (char[]){"--help"}, NULL}));
    name = argv[2];
  } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help();
    return TERCEL_EXIT_OK;
  } else if (strcmp(name, "--version") == 0) {
    printf("tercel %s\n", tercel_version());
    return TERCEL_EXIT_OK;
  }
  const command *const wanted = find(name);
  if (wanted) return end(wanted->run(argc - 1, argv + 1));
  fprintf(stderr, "tercel: no command '%s'; `tercel --help` lists them\n", name);
  return TERCEL_EXIT_USAGE;
}
