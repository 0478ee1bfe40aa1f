/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The names that bcc's own helper headers and the fields of our tracepoints use. */
typedef unsigned char u8, __u8;
typedef signed char s8, __s8;
typedef unsigned short u16, __u16, __be16, __le16;
typedef short s16, __s16;
typedef unsigned int u32, __u32, __be32, __le32, __wsum;
typedef int s32, __s32;
typedef unsigned long long u64, __u64, __be64, __le64;
typedef long long s64, __s64;
typedef u64 __attribute__((aligned(8))) __aligned_u64;
typedef unsigned long size_t, uintptr_t;
typedef int pid_t;
typedef _Bool bool;

enum { false, true };
enum migrate_mode { MIGRATE_ASYNC, MIGRATE_SYNC_LIGHT, MIGRATE_SYNC };

#define NULL ((void *)0)
#define __always_inline inline __attribute__((always_inline))
