// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* cpu_time: on which node's CPUs did a cgroup run, and for how long?
 *
 * Hook:  the software event cgroup-switches on each CPU, so a switch inside a cgroup costs nothing; or
 *        raw tracepoint sched_switch where that event is refused. At both, the current task is the one going
 *        out, so the time since the CPU's last event belongs to its cgroup.
 *        A read-out runs cpu_time_charge on each CPU, and so closes the interval of a task that never leaves.
 *        Raw tracepoints cgroup_notify_populated, just before the first task is in a cgroup, and
 *        cgroup_attach_task, after a task has moved: a task that moves itself begins a new interval.
 * Maps:  cpu_time_ns  {cgroup, node} -> nanoseconds since load
 *        cpu_time_cpu what we know of each CPU
 * Cost:  one per-CPU hash lookup for each switch between cgroups.
 *
 * The root cgroup is left out: the idle task lives there, and a switch from it to a kernel thread is no cgroup
 * switch. A task that another one moves while it runs takes the open interval of its CPU along; so does one that
 * moves itself to where other tasks are already and must leave its CPU for it.
 */
#define CPU_TIME_ROOT_CGROUP 1

struct cpu_time_key {
	u64 cgroup_id;
	u64 node;
};
BPF_PERCPU_HASH(cpu_time_ns, struct cpu_time_key, u64, CPU_TIME_ENTRIES);

struct cpu_time_cpu {
	u64 since; /* when the open interval began; 0 = not known yet */
	u64 switches; /* cgroup-switches that ran our program: the event itself counts all */
};
BPF_PERCPU_ARRAY(cpu_time_cpu, struct cpu_time_cpu, 1);

static __always_inline struct cpu_time_cpu *cpu_time_this_cpu(void)
{
	int first = 0;

	return cpu_time_cpu.lookup(&first);
}

static __always_inline void cpu_time_charge_current(struct cpu_time_cpu *cpu)
{
	u64 now = bpf_ktime_get_ns();
	u64 start = cpu->since;
	struct cpu_time_key key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
		.node = bpf_get_numa_node_id(),
	};
	u64 elapsed = now - start;
	u64 *sum;

	cpu->since = now;
	if (!start || key.cgroup_id == CPU_TIME_ROOT_CGROUP)
		return;
	sum = cpu_time_ns.lookup(&key);
	if (sum)
		*sum += elapsed;
	else if (cpu_time_ns.update(&key, &elapsed))
		probe_drop(CPU_TIME_SLOT);
}

int cpu_time_on_cgroup_switch(void *ctx)
{
	struct cpu_time_cpu *cpu = cpu_time_this_cpu();

	if (cpu) {
		cpu->switches += 1;
		cpu_time_charge_current(cpu);
	}
	return 0;
}

int cpu_time_charge(void *ctx)
{
	struct cpu_time_cpu *cpu = cpu_time_this_cpu();

	if (cpu)
		cpu_time_charge_current(cpu);
	return 0;
}

/* Before a CPU's event is switched on, so that unwatched time is charged to no cgroup. */
int cpu_time_restart(void *ctx)
{
	struct cpu_time_cpu *cpu = cpu_time_this_cpu();

	if (cpu)
		cpu->since = bpf_ktime_get_ns();
	return 0;
}

/* Arguments: cgroup, its path, the moved task, all threads or one. The task is in its new cgroup already, so
 * an interval that it spent in its old one (from the root cgroup: with idle time) can only be dropped.
 */
int cpu_time_on_attach_task(struct bpf_raw_tracepoint_args *ctx)
{
	struct cpu_time_cpu *cpu = cpu_time_this_cpu();

	if (!cpu)
		return 0;
	if (ctx->args[2] == bpf_get_current_task())
		cpu->since = bpf_ktime_get_ns();
	else
		cpu_time_charge_current(cpu);
	return 0;
}
