/* How many CPUs this process may use: affinity mask and cgroup quota (docs.kernel.org: admin-guide/cgroup-v2, cgroup-v1 and
 * scheduler/sched-bwc). */
#define _GNU_SOURCE /* sched_getaffinity */
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/cpu_quota.h"

/* The quota of one folder.  v2: cpu.max is "QUOTA PERIOD" or "max PERIOD".  v1: two files; a quota of -1 is none. */
static double quota_of_folder(const char *folder, bool v2) {
  char path[PATH_MAX + 32];
  double quota = 0, period = 0;
  snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  const int got = v2 ? fscanf(file, "%lf %lf", &quota, &period) : fscanf(file, "%lf", &quota);
  fclose(file);
  if (got < 1 || quota <= 0) return 0;
  if (!v2) {
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%lf", &period) != 1) period = 0;
    fclose(file);
  }
  return period > 0 ? quota / period : 0;
}

/* The least quota from mount/group up to mount.  A group that is not to be seen here (a container shows its own as the
 * root) is passed over. */
static double quota_of_group(const char *mount, const char *group, bool v2) {
  char folder[PATH_MAX];
  const int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
  if (length < 0 || (size_t)length >= sizeof folder) return 0;
  double least = 0;
  for (size_t end = (size_t)length, root = strlen(mount);; end--) {
    if (end > root && folder[end] != 0 && folder[end] != '/') continue;
    folder[end] = 0;
    const double quota = quota_of_folder(folder, v2);
    if (quota > 0 && (least <= 0 || quota < least)) least = quota;
    if (end <= root) return least;
  }
}

/* Is `cpu` among the comma-separated controllers? */
static bool lists_cpu(const char *controllers) {
  for (const char *at = controllers; *at;) {
    const size_t length = strcspn(at, ",");
    if (length == 3 && memcmp(at, "cpu", 3) == 0) return true;
    at += length;
    at += *at == ',';
  }
  return false;
}

/* Lines are "NUMBER:CONTROLLERS:GROUP"; v2 is the one with number 0 and no controllers. */
double tercel_cpu_quota(const char *membership, const char *mount) {
  FILE *const file = fopen(membership, "re");
  if (!file) return 0;
  double least = 0;
  char line[PATH_MAX], v1_mount[PATH_MAX];
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *const controllers = strchr(line, ':');
    char *const group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group = 0;
    double quota = 0;
    if (controllers[1] == 0) {
      quota = quota_of_group(mount, group + 1, true);
    } else if (lists_cpu(controllers + 1)) {
      const int length = snprintf(v1_mount, sizeof v1_mount, "%s/%s", mount, controllers + 1);
      if (length < 0 || (size_t)length >= sizeof v1_mount) continue;
      quota = quota_of_group(v1_mount, group + 1, false);
    }
    if (quota > 0 && (least <= 0 || quota < least)) least = quota;
  }
  fclose(file);
  return least;
}

static int count_affinity(void) {
  cpu_set_t set[16]; /* 16,384 CPUs: the kernel refuses a mask smaller than its own */
  const int count = sched_getaffinity(0, sizeof set, set) == 0 ? CPU_COUNT_S(sizeof set, set) : 0;
  if (count > 0) return count;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

int tercel_cpu_count(void) {
  const int count = count_affinity();
  const double quota = tercel_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  const int allowed = quota > 0 && quota < (double)count ? (int)ceil(quota) : count;
  return allowed > 1 ? allowed : 1;
}
