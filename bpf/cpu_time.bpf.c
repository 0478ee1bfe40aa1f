// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* cpu_time: on which node's CPUs did a cgroup run, and for how long?
 *
 * Hook:  switches between cgroups (cgroup_switch.bpf.h, which says what is left out)
 * Map:   cpu_time_ns  {cgroup, node} -> nanoseconds since load
 * Cost:  one array and one per-CPU hash lookup for each switch.
 */
struct cpu_time_key {
	u64 cgroup_id;
	u64 node;
};
BPF_PERCPU_HASH(cpu_time_ns, struct cpu_time_key, u64, 1);

static __always_inline void cpu_time_charge_to(struct cgroup_switch_cpu *cpu, u64 cgroup_id)
{
	u64 now = bpf_ktime_get_ns();
	u64 start = cpu->since;
	struct cpu_time_key key = {
		.cgroup_id = cgroup_id,
		.node = bpf_get_numa_node_id(),
	};
	u64 elapsed = now - start;
	u64 *sum;

	cpu->since = now;
	if (!start || cgroup_id == CGROUP_SWITCH_ROOT)
		return;
	sum = cpu_time_ns.lookup(&key);
	if (sum)
		*sum += elapsed;
	else if (cpu_time_ns.update(&key, &elapsed))
		probe_drop();
}

int cpu_time_on_cgroup_switch(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();

	if (cpu) {
		cpu->switches += 1;
		cpu_time_charge_to(cpu, cgroup_switch_current(cpu));
	}
	return 0;
}

int cpu_time_on_sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();

	if (cpu && !cgroup_switch_is_within(cpu, ctx)) {
		cpu->charges += 1;
		cpu_time_charge_to(cpu, cgroup_switch_current(cpu));
	}
	return 0;
}

int cpu_time_charge(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();

	if (cpu) {
		cpu->charges += 1;
		cpu_time_charge_to(cpu, cgroup_switch_current(cpu));
	}
	return 0;
}

/* Before a CPU's event is switched on, so that unwatched time is charged to no cgroup. */
int cpu_time_restart(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();

	if (cpu) {
		cpu->since = bpf_ktime_get_ns();
		cpu->cgroups = 0;
		cpu->within = 0;
	}
	return 0;
}

int cpu_time_on_attach_task(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();

	if (cpu)
		cpu_time_charge_to(cpu, cgroup_switch_before_move(cpu, ctx));
	return 0;
}
