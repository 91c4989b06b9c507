/* base/cpu.h: levels are nested and can be lowered; quotas are read from control groups of both versions. */
#include "support/support.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/cpu_quota.h"

static void test_levels(void **state) {
  (void)state;
  for (int i = 0; i < TERCEL_CPU_LEVEL_COUNT; i++) {
    tercel_cpu_level level;
    assert_true(tercel_cpu_level_parse(tercel_cpu_level_name((tercel_cpu_level)i), &level));
    assert_int_equal(level, i);
  }
  tercel_cpu_level level;
  assert_false(tercel_cpu_level_parse("avx", &level));
  assert_true(tercel_cpu_has(TERCEL_CPU_BASELINE));
  for (int i = TERCEL_CPU_AVX512; i <= TERCEL_CPU_AVX512_BF16; i++)
    if (tercel_cpu_has((tercel_cpu_level)i)) assert_true(tercel_cpu_has((tercel_cpu_level)(i - 1)));
  assert_true(tercel_cpu_has(tercel_cpu_current()));
}

static void test_set_level(void **state) {
  (void)state;
  tercel_error err = {0};
  const tercel_cpu_level before = tercel_cpu_current();
  for (int i = 0; i < TERCEL_CPU_LEVEL_COUNT; i++) {
    const tercel_cpu_level level = (tercel_cpu_level)i;
    if (!tercel_cpu_has(level)) {
      assert_fails(tercel_cpu_set_level(level, &err), TERCEL_INVALID_ARGUMENT, &err, tercel_cpu_level_name(level));
      continue;
    }
    assert_ok(tercel_cpu_set_level(level, &err), &err);
    assert_int_equal(tercel_cpu_current(), level);
  }
  assert_ok(tercel_cpu_set_level(before, &err), &err);
}

static void test_machine(void **state) {
  (void)state;
  assert_true(strlen(tercel_cpu_name()) > 0);
  assert_true(tercel_cpu_count() >= 1);
  assert_true(tercel_cpu_cache_bytes(1) >= 8 << 10);
  assert_true(tercel_cpu_cache_bytes(2) >= 64 << 10);
  assert_true(tercel_cpu_cache_bytes(3) >= 64 << 10);
  assert_int_equal(tercel_cpu_cache_bytes(4), 0);
}

/* ---- quota, over a tree of files of our own ---- */

static char root[] = "/tmp/tercel-quota-XXXXXX";

static void put(const char *name, const char *text) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", root, name);
  for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
  FILE *const file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static double quota(const char *membership) {
  char path[PATH_MAX];
  put("membership", membership);
  snprintf(path, sizeof path, "%s/membership", root);
  return tercel_cpu_quota(path, root);
}

static void test_quota(void **state) {
  (void)state;
  assert_non_null(mkdtemp(root));
  put("cpu.max", "max 100000\n");
  put("box/cpu.max", "150000 100000\n");
  put("box/inner/cpu.max", "max 100000\n");
  put("box/tight/cpu.max", "50000 100000\n");
  put("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put("cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  put("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  assert_true(quota("0::/\n") == 0);
  assert_true(quota("0::/box\n") == 1.5);
  assert_true(quota("0::/box/inner\n") == 1.5);
  assert_true(quota("0::/box/tight\n") == 0.5);
  assert_true(quota("0::/box/not/seen/here\n") == 1.5);
  assert_true(quota("12:pids:/x\n4:cpu,cpuacct:/job/below\n") == 3);
  assert_true(quota("4:cpu,cpuacct:/other\n") == 0);
  assert_true(quota("4:cpuset:/job\n") == 0);
  assert_true(quota("nonsense\n:\n::\n") == 0);
  assert_true(tercel_cpu_quota("/nonexistent/file", root) == 0);
  char command[PATH_MAX + 16];
  snprintf(command, sizeof command, "rm -r '%s'", root);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_levels),
      cmocka_unit_test(test_set_level),
      cmocka_unit_test(test_machine),
      cmocka_unit_test(test_quota),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
