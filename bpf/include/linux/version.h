/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The oldest kernel we support. bcc only asks whether helpers of Linux 4.8 may be used. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 14, 0)
