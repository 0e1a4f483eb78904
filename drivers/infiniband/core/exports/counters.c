// SPDX-License-Identifier: GPL-2.0
/* Nothing outside the module calls the counters. */
