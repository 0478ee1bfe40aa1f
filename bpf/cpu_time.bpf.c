// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* cpu_time: on which node's CPUs did a cgroup run, and for how long?
 *
 * Hook:  the software event cgroup-switches on each CPU, so a switch inside a cgroup costs nothing; or
 *        raw tracepoint sched_switch where that event is refused. At both, the current task is the one going
 *        out, so the time since the CPU's last event belongs to its cgroup.
 *        A read-out runs cpu_time_charge on each CPU, and so closes the interval of a task that never leaves.
 * Maps:  cpu_time_ns      {cgroup, node} -> nanoseconds since load
 *        cpu_time_since   when this CPU's open interval began; 0 = not known yet
 *        cpu_time_dropped intervals that found the map full
 * Cost:  one per-CPU hash look-up for each switch between cgroups.
 *
 * The root cgroup is left out: the idle task lives there, and a switch from it to a kernel thread is no cgroup
 * switch. A task that is moved to another cgroup takes its open interval along.
 */
#define CPU_TIME_ROOT_CGROUP 1

struct cpu_time_key {
	u64 cgroup_id;
	u64 node;
};
BPF_PERCPU_HASH(cpu_time_ns, struct cpu_time_key, u64, CPU_TIME_ENTRIES);
BPF_PERCPU_ARRAY(cpu_time_since, u64, 1);
BPF_PERCPU_ARRAY(cpu_time_dropped, u64, 1);

static __always_inline int cpu_time_charge_current(void)
{
	struct cpu_time_key key = {};
	u64 now = bpf_ktime_get_ns();
	int first = 0;
	u64 *since = cpu_time_since.lookup(&first);
	u64 *dropped, *sum, start, elapsed;

	if (!since)
		return 0;
	start = *since;
	*since = now;
	key.cgroup_id = bpf_get_current_cgroup_id();
	if (!start || key.cgroup_id == CPU_TIME_ROOT_CGROUP)
		return 0;
	key.node = bpf_get_numa_node_id();
	elapsed = now - start;
	sum = cpu_time_ns.lookup(&key);
	if (sum) {
		*sum += elapsed;
		return 0;
	}
	if (cpu_time_ns.update(&key, &elapsed)) {
		dropped = cpu_time_dropped.lookup(&first);
		if (dropped)
			*dropped += 1;
	}
	return 0;
}

int cpu_time_on_cgroup_switch(void *ctx)
{
	return cpu_time_charge_current();
}

int cpu_time_charge(void *ctx)
{
	return cpu_time_charge_current();
}

/* Before a CPU's event is switched on, so that time nobody watched is charged to nobody. */
int cpu_time_restart(void *ctx)
{
	int first = 0;
	u64 *since = cpu_time_since.lookup(&first);

	if (since)
		*since = bpf_ktime_get_ns();
	return 0;
}
