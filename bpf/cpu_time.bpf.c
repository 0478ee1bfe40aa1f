// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* cpu_time: on which node's CPUs did a cgroup run, and for how long?
 *
 * Hook:  switches between cgroups (cgroup_switch.bpf.h, which says what is left out)
 * Map:   cpu_time_ns  {cgroup, node} -> nanoseconds since load
 *        cpu_time_recent  what each CPU has not added to them yet
 * Cost:  two array lookups for each switch, and one or two per-CPU hash lookups where the CPU did not run the cgroup
 *        lately, or ran it for 10 ms since the last one.
 *
 * A read-out runs cpu_time_flush on each CPU, so what it finds in cpu_time_ns is whole. A CPU that goes offline takes
 * up to 10 ms of each cgroup along, which are counted when it is back. A cgroup has its entry in cpu_time_ns before a
 * CPU keeps anything of it for later.
 */
#define CPU_TIME_PLACES 64 /* a power of 2 */
#define CPU_TIME_MOST 10000000ULL /* nanoseconds that a CPU keeps for later */

struct cpu_time_key {
	u64 cgroup_id;
	u64 node;
};
BPF_PERCPU_HASH(cpu_time_ns, struct cpu_time_key, u64, 1);

struct cpu_time_place {
	u64 cgroup_id;
	u64 ns;
};
struct cpu_time_places {
	struct cpu_time_place of[CPU_TIME_PLACES]; /* by the last bits of the cgroup's id */
};
BPF_PERCPU_ARRAY(cpu_time_recent, struct cpu_time_places, 1);

static __always_inline struct cpu_time_places *cpu_time_this_cpu(void)
{
	int first = 0;

	return cpu_time_recent.lookup(&first);
}

/* Atomic, for a read-out may interrupt what runs outside of a switch. */
static __always_inline bool cpu_time_add(u64 cgroup_id, u64 ns)
{
	struct cpu_time_key key = {
		.cgroup_id = cgroup_id,
		.node = bpf_get_numa_node_id(),
	};
	u64 *sum = cpu_time_ns.lookup(&key);

	if (sum) {
		__sync_fetch_and_add(sum, ns);
		return true;
	}
	if (!cpu_time_ns.update(&key, &ns))
		return true;
	probe_drop();
	return false;
}

/* At a switch, which nothing interrupts. */
static __always_inline void cpu_time_keep(u64 cgroup_id, u64 ns)
{
	struct cpu_time_places *recent = cpu_time_this_cpu();
	struct cpu_time_place *place;

	if (!recent)
		return;
	place = &recent->of[cgroup_id % CPU_TIME_PLACES];
	if (place->cgroup_id == cgroup_id) {
		ns += place->ns;
		place->ns = ns;
		if (ns < CPU_TIME_MOST)
			return;
	} else if (place->ns) {
		cpu_time_add(place->cgroup_id, place->ns);
	}
	place->cgroup_id = cpu_time_add(cgroup_id, ns) ? cgroup_id : 0;
	place->ns = 0;
}

/* Anywhere else: what a CPU keeps stays as it is. */
static __always_inline void cpu_time_add_at_once(u64 cgroup_id, u64 ns)
{
	struct cpu_time_places *recent = cpu_time_this_cpu();
	struct cpu_time_place *place;

	if (!recent)
		return;
	place = &recent->of[cgroup_id % CPU_TIME_PLACES];
	if (place->cgroup_id == cgroup_id)
		__sync_fetch_and_add(&place->ns, ns);
	else
		cpu_time_add(cgroup_id, ns);
}

/* Ends the open interval: its nanoseconds, 0 = they belong to no cgroup. */
static __always_inline u64 cpu_time_end(struct cgroup_switch_cpu *cpu, u64 cgroup_id)
{
	u64 now = bpf_ktime_get_ns();
	u64 start = cpu->since;

	cpu->since = now;
	return start && cgroup_id != CGROUP_SWITCH_ROOT ? now - start : 0;
}

static __always_inline void cpu_time_switch(struct cgroup_switch_cpu *cpu)
{
	u64 cgroup_id = cgroup_switch_current(cpu);
	u64 ns = cpu_time_end(cpu, cgroup_id);

	if (ns)
		cpu_time_keep(cgroup_id, ns);
}

static __always_inline void cpu_time_charge_to(struct cgroup_switch_cpu *cpu, u64 cgroup_id)
{
	u64 ns = cpu_time_end(cpu, cgroup_id);

	if (ns)
		cpu_time_add_at_once(cgroup_id, ns);
}

int cpu_time_on_sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();

	if (cpu && !cgroup_switch_is_within(cpu, ctx)) {
		cpu->runs += 1;
		cpu_time_switch(cpu);
	}
	return 0;
}

int cpu_time_charge(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();

	if (cpu) {
		cpu->runs += 1;
		cpu_time_charge_to(cpu, cgroup_switch_current(cpu));
	}
	return 0;
}

/* For a read-out: no switch comes between, and what it interrupts adds in one instruction. */
int cpu_time_flush(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu();
	struct cpu_time_places *recent = cpu_time_this_cpu();
	u64 ns;
	int i;

	if (!cpu || !recent)
		return 0;
	cpu->runs += 1;
	cpu_time_charge_to(cpu, cgroup_switch_current(cpu));
#pragma clang loop unroll(disable)
	for (i = 0; i < CPU_TIME_PLACES; i++) {
		ns = recent->of[i].ns;
		if (ns) {
			cpu_time_add(recent->of[i].cgroup_id, ns);
			__sync_fetch_and_add(&recent->of[i].ns, -ns);
		}
	}
	return 0;
}

/* Before the probe is hooked, so that unwatched time is charged to no cgroup. */
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
