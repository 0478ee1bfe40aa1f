// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What all programs share. It is put before each of their texts, since bcc rewrites no map access in a header.
 *
 * A text is compiled once, for all machines. Numbers that are known only where it is loaded are not macros but
 * PROBE_CONSTANT(NAME) and PROBE_LOAD(context, NAME): each leaves a mark in its instruction, and the loader puts
 * the number there. So it does with the number of entries of a map, which says 1 here where the agent chooses it.
 *
 * Maps:  probe_dropped  events that found their map full
 *        probe_narrowed, probe_watched, filled by the agent: when narrowed is not 0, only events of the cgroups in
 *        watched are counted by the programs that ask
 */

/* A number of 64 bits. */
#define PROBE_CONSTANT(NAME)                                                                                           \
	({                                                                                                             \
		u64 probe_number;                                                                                      \
		asm("%0 = %1 ll" : "=r"(probe_number) : "i"(PROBE_CONSTANT_MARK + NAME));                              \
		probe_number;                                                                                          \
	})
/* What is NAME bytes into the program's context: a word of 64 bits, or as much as the field there has. */
#define PROBE_LOAD(context, NAME)                                                                                      \
	({                                                                                                             \
		u64 probe_word;                                                                                        \
		asm("%0 = *(u64 *)(%1 + %2)" : "=r"(probe_word) : "r"(context), "i"(PROBE_LOAD_MARK + NAME));          \
		probe_word;                                                                                            \
	})

BPF_PERCPU_ARRAY(probe_dropped, u64, 1);
BPF_ARRAY(probe_narrowed, u32, 1);
BPF_HASH(probe_watched, u64, u32, 1);

static __always_inline void probe_drop(void)
{
	int first = 0;
	u64 *dropped = probe_dropped.lookup(&first);

	if (dropped)
		*dropped += 1;
}

static __always_inline bool probe_is_watched(u64 cgroup_id)
{
	int first = 0;
	u32 *narrowed = probe_narrowed.lookup(&first);

	return !narrowed || !*narrowed || probe_watched.lookup(&cgroup_id);
}
