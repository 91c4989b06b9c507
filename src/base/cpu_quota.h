/* The CPU quota of a control group.  Apart from cpu.h so that tests can point it at a folder of their own. */
#ifndef TERCEL_BASE_CPU_QUOTA_H
#define TERCEL_BASE_CPU_QUOTA_H

/* CPUs that the quota allows, or 0 when there is none.  membership: a file like /proc/self/cgroup; mount: the folder where
 * control groups are mounted, /sys/fs/cgroup.  The least of the group's and all its parents' quotas counts. */
double tercel_cpu_quota(const char *membership, const char *mount);

#endif
