// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What all programs share. The loader puts this text before theirs, since bcc rewrites no map access in a header.
 *
 * Maps:  probe_dropped  slot of the probe -> events that found their map full
 *        probe_narrowed, probe_watched, filled by the agent: when narrowed is not 0, only events of the cgroups in
 *        watched are counted by the programs that ask
 */
#ifndef PROBE_SLOTS
#define PROBE_SLOTS 1
#endif
#ifndef PROBE_CGROUPS
#define PROBE_CGROUPS 1
#endif

BPF_PERCPU_ARRAY(probe_dropped, u64, PROBE_SLOTS);
BPF_ARRAY(probe_narrowed, u32, 1);
BPF_HASH(probe_watched, u64, u32, PROBE_CGROUPS);

static __always_inline void probe_drop(int slot)
{
	u64 *dropped = probe_dropped.lookup(&slot);

	if (dropped)
		*dropped += 1;
}

static __always_inline bool probe_is_watched(u64 cgroup_id)
{
	int first = 0;
	u32 *narrowed = probe_narrowed.lookup(&first);

	return !narrowed || !*narrowed || probe_watched.lookup(&cgroup_id);
}
