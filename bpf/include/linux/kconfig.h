/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* bcc needs this file to accept a header tree, and refuses to go on without the define. */
#define CONFIG_BPF_SYSCALL 1
